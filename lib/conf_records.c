#include "lib/conf_records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/conf_text.h"
#include "lib/dname.h"
#include "lib/master_file.h"
#include "lib/rdata_text.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

/* --- which records may exist together: RFC 1034 section 3.6, RFC 2181 section 5, RFC 4592 --- */

static int
by_name_and_data(const void *a, const void *b)
{
	const struct conf_record *x = a, *y = b;
	int order = dname_compare(x->name, y->name);

	if (order == 0)
		order = (int)x->type - (int)y->type;
	if (order == 0)
		order = (int)x->rdata_len - (int)y->rdata_len;
	return order != 0 ? order : memcmp(x->rdata, y->rdata, x->rdata_len);
}

static bool
same_name(const struct conf_record *a, const struct conf_record *b)
{
	return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

static bool
same_set(const struct conf_record *a, const struct conf_record *b)
{
	return a->type == b->type && same_name(a, b);
}

static int
refuse_record(const struct conf_record *record, const char *reason, char **why)
{
	char text[DNAME_TEXT_MAX];

	return conf_refuse_word(why, record->line, dname_to_text(record->name, text), reason);
}

/* Sorts the records and removes duplicates. Refuses a name and type that has different TTLs. */
static int
sort(struct conf_records *records, char **why)
{
	struct conf_record *items = records->items;
	size_t kept = 0;

	if (records->count > 1)
		qsort(items, records->count, sizeof *items, by_name_and_data);
	for (size_t i = 0; i < records->count; i++) {
		if (kept > 0 && same_set(&items[kept - 1], &items[i]) &&
		    items[kept - 1].ttl_s != items[i].ttl_s)
			return refuse_record(&items[i],
			    "has another TTL than other records of the same name and type; use one "
			    "TTL for all of them",
			    why);
		if (kept == 0 || by_name_and_data(&items[kept - 1], &items[i]) != 0)
			items[kept++] = items[i];
	}
	records->count = kept;
	return 0;
}

/* --- names --- */

/* Returns the number of labels that both names have in common at the end. */
static unsigned
common_labels(const uint8_t *a, const uint8_t *b)
{
	const uint8_t *at_a[DNAME_LABELS_MAX], *at_b[DNAME_LABELS_MAX];
	unsigned count_a = 0, count_b = 0, common = 0;

	for (; *a != 0; a += 1u + *a)
		at_a[count_a++] = a;
	for (; *b != 0; b += 1u + *b)
		at_b[count_b++] = b;
	for (; count_a > 0 && count_b > 0; common++) {
		const uint8_t *last = at_a[--count_a], *other = at_b[--count_b];

		if (*last != *other || memcmp(last, other, 1u + *last) != 0)
			break;
	}
	return common;
}

/* Counts the names, including the root and empty non-terminals. */
static int
check_count(const struct conf_records *records, char **why)
{
	size_t names = 0;

	for (size_t i = 0; i < records->count; i++) {
		const struct conf_record *item = &records->items[i];

		if (i > 0 && same_name(item - 1, item))
			continue;
		names += dname_labels(item->name) -
			 (i > 0 ? common_labels(item[-1].name, item->name) : 0);
		if (names > CONF_RECORDS_NAMES_MAX)
			return refuse_record(item,
			    "more than 20000 names, including the names between them and the root",
			    why);
	}
	return 0;
}

/* Returns the number of labels of the name before the domain, or -1 if the name is not in the domain. */
static int
labels_before(const struct conf_record *item, const char *domain)
{
	struct dname name;

	if (dname_from_text(&name, domain) < 0)
		return -1;
	dname_lower(name.wire, name.len);
	return dname_in_zone(item->name, name.wire);
}

static bool
is_in(const struct conf_record *item, const char *domain)
{
	return labels_before(item, domain) >= 0;
}

/* Whether the record is at the reverse name of an address, or at a wildcard that covers such names.
 * Other names in arpa (home.arpa, RFC 8375) are ordinary names. */
static bool
is_reverse(const struct conf_record *item)
{
	static const uint8_t arpa[] = "\4arpa", below[] = "\1*\4arpa";

	return is_in(item, "in-addr.arpa") || is_in(item, "ip6.arpa") ||
	       dname_equal(item->name, arpa) || dname_equal(item->name, below);
}

/* Refuses records at the cluster domain itself, and zones and wildcards in places where they would
 * hide the cluster's names. */
static int
check_place(const struct conf_record *item, const char *cluster_domain, char **why)
{
	bool wildcard = memcmp(item->name, "\1*", 2) == 0;

	if (wildcard && item->type == TYPE_SOA)
		return refuse_record(item, "a wildcard cannot be a zone", why);
	if (item->type != TYPE_SOA && labels_before(item, cluster_domain) == 0)
		return refuse_record(item,
		    "is the cluster domain itself, which would lose its SOA and NS records; use a "
		    "name in it",
		    why);
	if (!wildcard && item->type != TYPE_SOA)
		return 0;
	if (is_in(item, cluster_domain))
		return refuse_record(item,
		    "is in the cluster domain, where SOA records and wildcards are not allowed; "
		    "write the names",
		    why);
	if (is_reverse(item))
		return refuse_record(item,
		    "is a reverse name, for which SOA records and wildcards are not allowed; write "
		    "the PTR records",
		    why);
	return 0;
}

/* --- record sets --- */

/* Checks the records [0, count), which share one name. */
static int
check_name(const struct conf_record *items, size_t count, char **why)
{
	size_t soas = 0, cnames = 0;
	const struct conf_record *ns = NULL;

	for (size_t i = 0; i < count; i++) {
		soas += items[i].type == TYPE_SOA;
		cnames += items[i].type == TYPE_CNAME;
		if (items[i].type == TYPE_NS)
			ns = &items[i];
	}
	if (soas > 1)
		return refuse_record(&items[count - 1], "has two SOA records; remove one", why);
	if (cnames > 0 && count > 1)
		return refuse_record(&items[count - 1],
		    "has a CNAME record and others; an alias may have no other records", why);
	if (ns != NULL && soas == 0)
		return refuse_record(ns,
		    "has NS records and no SOA record: kubedns does not delegate names; use the "
		    "key stubDomains",
		    why);
	return 0;
}

static int
check_set(const struct conf_record *items, size_t count, char **why)
{
	size_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += 12u + items[i].rdata_len;
	if (count > CONF_RECORDS_SET_MAX)
		return refuse_record(items, "more than 256 records of one name and type", why);
	if (bytes > CONF_RECORDS_SET_BYTES_MAX)
		return refuse_record(items, "more than 32 KB of records of one name and type", why);
	return 0;
}

/* Calls `check` for each run of items for which `same` is true. */
static int
each_run(const struct conf_records *records,
    bool (*same)(const struct conf_record *a, const struct conf_record *b),
    int (*check)(const struct conf_record *items, size_t count, char **why), char **why)
{
	const struct conf_record *items = records->items;
	int rc = 0;

	for (size_t first = 0, i = 1; i <= records->count && rc == 0; i++)
		if (i == records->count || !same(&items[first], &items[i])) {
			rc = check(&items[first], i - first, why);
			first = i;
		}
	return rc;
}

/* Sorts the items, removes duplicates and checks that they may exist together. Returns 0 or
 * -EINVAL, like conf_records_parse(), but frees nothing. */
static int
judge(struct conf_records *records, const char *cluster_domain, char **why)
{
	int rc = sort(records, why);

	for (size_t i = 0; i < records->count && rc == 0; i++)
		rc = check_place(&records->items[i], cluster_domain, why);
	if (rc == 0)
		rc = each_run(records, same_name, check_name, why);
	if (rc == 0)
		rc = each_run(records, same_set, check_set, why);
	return rc < 0 ? rc : check_count(records, why);
}

/* --- reading the lines --- */

struct records_reader {
	struct conf_records *records;
	struct master_entry entry;
	struct dname origin, owner; /* owner.len 0: no line had an owner yet */
	uint32_t ttl_s;
	size_t capacity, len, bytes_capacity;
	char **why;
};

static int
refuse(struct records_reader *r, const char *word, const char *reason)
{
	return conf_refuse_word(r->why, r->entry.line, word, reason);
}

/* Makes space for `len` more bytes and returns their address. */
static uint8_t *
reserve(struct records_reader *r, size_t len)
{
	struct conf_records *records = r->records;

	if (r->len + len > r->bytes_capacity) {
		r->bytes_capacity = 2 * (r->len + len);
		records->bytes = xreallocarray(records->bytes, r->bytes_capacity, 1);
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
		return refuse(r, word, "not supported; write the file's lines here");
	if (strcasecmp(word, "$GENERATE") == 0)
		return refuse(r, word, "not supported; write its lines out, or a wildcard");
	if (strcasecmp(word, "$ORIGIN") != 0 && strcasecmp(word, "$TTL") != 0)
		return refuse(r, word, "not supported; only $ORIGIN and $TTL are");
	if (e->count != 2)
		return refuse(r, word, "must be followed by one word");
	if (strcasecmp(word, "$ORIGIN") == 0)
		return read_origin(r, e->words[1]);
	if (!master_seconds(e->words[1], &r->ttl_s))
		return refuse(r, e->words[1], "not a time in seconds, as 3600 or 1h");
	return 0;
}

/* --- records --- */

/* Writes the name as text with 'x' for each label that is an asterisk. RFC 4592 section 2.1.1
 * allows such labels anywhere. */
static void
without_asterisks(const struct dname *name, char text[DNAME_TEXT_MAX])
{
	struct dname copy = *name;

	for (uint8_t *label = copy.wire; *label != 0; label += 1u + *label)
		if (label[0] == 1 && label[1] == '*')
			label[1] = 'x';
	dname_to_text(copy.wire, text);
}

/* Reads the owner's name. Apart from asterisks, it must be a name that is safe in dnsmasq's
 * configuration. */
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
		return refuse(
		    r, word, "a wildcard below the root would match all names; add a domain");
	without_asterisks(&r->owner, text);
	if (conf_name_parse(text, ignored, &why) < 0)
		return refuse(r, word, why);
	return 0;
}

/* Reads [TTL] [CLASS] or [CLASS] [TTL]. Returns the number of words that it has read. */
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
	if (records->count == r->capacity) {
		r->capacity = r->capacity == 0 ? 64 : 2 * r->capacity;
		records->items = xreallocarray(records->items, r->capacity, sizeof *records->items);
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
		return refuse(r, e->words[0],
		    "begins with a blank, which means the name of the line before, but no earlier "
		    "line has a name");
	at += read_ttl_and_class(r, e, at, &ttl_s);
	if (at == e->count)
		return refuse(r, e->words[at - 1], "is not followed by a type");
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

/* Sets the items' pointers, once the bytes cannot move any more. */
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
		rc = judge(records, cluster_domain, why);
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
