/* Reads the lines one by one into items; conf_records_rules.c judges them together. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/conf_internal.h"
#include "lib/conf_records_internal.h"
#include "lib/dname.h"
#include "lib/master_file.h"
#include "lib/rdata_text.h"
#include "lib/xalloc.h"

struct records_reader {
	struct conf_records *records;
	struct master_entry entry;
	struct dname origin, owner; /* owner.len 0: no line had one */
	uint32_t ttl_s;
	size_t room, len, bytes_room;
	char **why;
};

static int
refuse(struct records_reader *r, const char *word, const char *reason)
{
	return conf_refuse_word(r->why, r->entry.line, word, reason);
}

/* Room for that many bytes behind those that are there. */
static uint8_t *
reserve(struct records_reader *r, size_t len)
{
	struct conf_records *records = r->records;

	if (r->len + len > r->bytes_room) {
		r->bytes_room = 2 * (r->len + len);
		records->bytes = xreallocarray(records->bytes, r->bytes_room, 1);
	}
	return records->bytes + r->len;
}

/* --- directives --- */

static int
read_origin(struct records_reader *r, const char *word)
{
	struct dname name;
	const char *why;

	if (master_name(word, &r->origin, &name, &why) < 0)
		return refuse(r, word, why);
	r->origin = name;
	return 0;
}

static int
read_directive(struct records_reader *r)
{
	const struct master_entry *e = &r->entry;
	const char *word = e->words[0];

	if (strcasecmp(word, "$INCLUDE") == 0)
		return refuse(r, word, "no files are read; write its lines here");
	if (strcasecmp(word, "$GENERATE") == 0)
		return refuse(r, word, "not supported; write its lines out, or a wildcard");
	if (strcasecmp(word, "$ORIGIN") != 0 && strcasecmp(word, "$TTL") != 0)
		return refuse(r, word, "neither $ORIGIN nor $TTL");
	if (e->count != 2)
		return refuse(r, word, "one word has to follow");
	if (strcasecmp(word, "$ORIGIN") == 0)
		return read_origin(r, e->words[1]);
	if (!master_seconds(e->words[1], &r->ttl_s))
		return refuse(r, e->words[1], "not a time in seconds, as 3600 or 1h");
	return 0;
}

/* --- records --- */

/* The name as text with a letter for each label that is an asterisk: RFC 4592 section 2.1.1 lets them
 * stand anywhere. */
static void
without_asterisks(const struct dname *name, char text[DNAME_TEXT_MAX])
{
	struct dname copy = *name;

	for (uint8_t *label = copy.wire; *label != 0; label += 1u + *label)
		if (label[0] == 1 && label[1] == '*')
			label[1] = 'x';
	dname_to_text(copy.wire, text);
}

/* The owner's name: what dnsmasq can be told too, but for asterisks. */
static int
read_owner(struct records_reader *r, const char *word)
{
	char text[DNAME_TEXT_MAX], ignored[CONF_HOST_MAX];
	const char *why;

	if (master_name(word, &r->origin, &r->owner, &why) < 0)
		return refuse(r, word, why);
	if (r->owner.len == 1)
		return refuse(r, word, "the root cannot have records");
	bool wildcard = memcmp(r->owner.wire, "\1*", 2) == 0;
	if (wildcard && r->owner.len == 3)
		return refuse(r, word, "a wildcard for all names there are");
	without_asterisks(&r->owner, text);
	if (conf_name_parse(text, ignored, &why) < 0)
		return refuse(r, word, why);
	return 0;
}

/* [TTL] [CLASS] or [CLASS] [TTL]: how many words these are. */
static size_t
read_ttl_and_class(
    struct records_reader *r, const struct master_entry *e, size_t at, uint32_t *ttl_s)
{
	size_t first = at;
	bool has_ttl = false, has_class = false;

	*ttl_s = r->ttl_s;
	for (; at < e->count; at++) {
		if (!has_class && strcasecmp(e->words[at], "IN") == 0)
			has_class = true;
		else if (!has_ttl && master_seconds(e->words[at], ttl_s))
			has_ttl = true;
		else
			break;
	}
	return at - first;
}

static int
add_record(struct records_reader *r, uint32_t ttl_s, uint16_t type, size_t at)
{
	struct conf_records *records = r->records;
	const struct master_entry *e = &r->entry;
	struct writer w = { .max = CONF_RECORDS_RDATA_MAX };
	const char *wrong, *why;

	if (records->count == CONF_RECORDS_MAX)
		return refuse(r, e->words[0], "more than 10000 records");
	if (records->count == r->room) {
		r->room = r->room == 0 ? 64 : 2 * r->room;
		records->items = xreallocarray(records->items, r->room, sizeof *records->items);
	}
	uint8_t *bytes = reserve(r, DNAME_MAX + w.max);
	memcpy(bytes, r->owner.wire, r->owner.len);
	w.buf = bytes + r->owner.len;
	if (rdata_from_text(&w, type, e->words + at, e->count - at, &r->origin, &wrong, &why) < 0)
		return refuse(r, *wrong != '\0' ? wrong : e->words[at - 1], why);
	if (r->len + r->owner.len + w.len > CONF_RECORDS_BYTES_MAX)
		return refuse(r, e->words[0], "more than 2 MB of names and data");
	records->items[records->count++] = (struct conf_record){ .ttl_s = ttl_s,
		.line = e->line,
		.type = type,
		.rdata_len = (uint16_t)w.len,
		.name_len = r->owner.len };
	r->len += r->owner.len + w.len;
	return 0;
}

static int
read_record(struct records_reader *r)
{
	const struct master_entry *e = &r->entry;
	const char *why;
	uint32_t ttl_s;
	size_t at = 0;

	if (!e->blank && read_owner(r, e->words[at++]) < 0)
		return -EINVAL;
	if (r->owner.len == 0)
		return refuse(r, e->words[0], "begins with a blank, and no name stands before it");
	at += read_ttl_and_class(r, e, at, &ttl_s);
	if (at == e->count)
		return refuse(r, e->words[at - 1], "no type stands behind it");
	uint16_t type = rdata_type(e->words[at], &why);
	if (type == 0)
		return refuse(r, e->words[at], why);
	return add_record(r, ttl_s, type, at + 1);
}

static int
read_line(void *arg, unsigned number, char *line)
{
	struct records_reader *r = arg;
	struct master_entry *e = &r->entry;
	const char *why;

	if (master_entry_add(e, number, line, &why) < 0) {
		e->line = number;
		return refuse(r, e->wrong, why);
	}
	if (e->open)
		return 0;
	int rc = e->count == 0 ? 0 : *e->words[0] == '$' ? read_directive(r) : read_record(r);
	master_entry_next(e);
	return rc;
}

/* The bytes stay where they are from now on. */
static void
point_to_bytes(struct conf_records *records)
{
	const uint8_t *at = records->bytes;

	for (size_t i = 0; i < records->count; i++) {
		struct conf_record *item = &records->items[i];
		item->name = at;
		item->rdata = at + item->name_len;
		at = item->rdata + item->rdata_len;
	}
}

int
conf_records_parse(const char *text, size_t len, const char *cluster_domain,
    struct conf_records *records, char **why)
{
	struct records_reader *r = xcalloc(1, sizeof *r);

	*records = (struct conf_records){ 0 };
	*r = (struct records_reader){ .records = records,
		.origin = { .len = 1 },
		.ttl_s = CONF_RECORDS_TTL_UNSET,
		.why = why };
	int rc = conf_lines(text, len, read_line, r, why);
	if (rc == 0 && r->entry.open)
		rc = conf_refuse_word(why, r->entry.line, "(", "is not closed");
	if (rc == 0) {
		if (records->count > 0)
			records->bytes = xreallocarray(records->bytes, r->len, 1);
		point_to_bytes(records);
		rc = conf_records_judge(records, cluster_domain, why);
	}
	free(r);
	if (rc < 0)
		conf_records_free(records);
	return rc;
}

void
conf_records_free(struct conf_records *records)
{
	free(records->items);
	free(records->bytes);
	*records = (struct conf_records){ 0 };
}
