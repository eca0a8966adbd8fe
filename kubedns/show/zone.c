#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/zone_walk.h"
#include "kubedns/show/zone.h"
#include "lib/log.h"
#include "lib/rdata_text.h"
#include "lib/xalloc.h"

enum { RDATA_TEXT_MAX = 2 * DNAME_TEXT_MAX + 64 };

/* A record of the zone. All records are collected, sorted, and then printed. */
struct line {
	char *text; /* "TTL IN TYPE RDATA" */
	uint8_t owner[];
};

struct lines {
	struct line **items;
	size_t count, capacity;
};

/* Returns "TTL IN TYPE RDATA" for a record of any type. The caller frees it. */
static char *
any_text(const struct zone_record *record)
{
	char *text = NULL, type[12];
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (f == NULL)
		abort();
	fprintf(f, "%u IN %s ", record->ttl_s, type_name(record->type, type));
	rdata_print(f, record->type, record->rdata, record->len);
	fclose(f);
	return text;
}

/* Writes RDATA in presentation format, for the types that service_records.c uses most. Returns false for other types. */
static bool
rdata_text(const struct zone_record *record, char text[RDATA_TEXT_MAX])
{
	const uint8_t *rdata = record->rdata;
	char name[DNAME_TEXT_MAX], other[DNAME_TEXT_MAX];
	struct addr addr = { .family = record->type == TYPE_A ? AF_INET : AF_INET6 };
	const uint8_t *p;

	switch (record->type) {
	case TYPE_A:
	case TYPE_AAAA:
		memcpy(addr.bytes, rdata, record->len);
		addr_format(&addr, text);
		break;
	case TYPE_SRV:
		snprintf(text, RDATA_TEXT_MAX, "%u %u %u %s", wire_get16(rdata),
		    wire_get16(rdata + 2), wire_get16(rdata + 4), dname_to_text(rdata + 6, name));
		break;
	case TYPE_SOA:
		p = rdata + dname_length(rdata, record->len);
		dname_to_text(rdata, name);
		dname_to_text(p, other);
		p += dname_length(p, DNAME_MAX);
		snprintf(text, RDATA_TEXT_MAX, "%s %s %u %u %u %u %u", name, other, wire_get32(p),
		    wire_get32(p + 4), wire_get32(p + 8), wire_get32(p + 12), wire_get32(p + 16));
		break;
	case TYPE_CNAME:
	case TYPE_NS:
	case TYPE_PTR:
		dname_to_text(rdata, text);
		break;
	default:
		return false;
	}
	return true;
}

static bool
add_line(void *arg, const struct zone_record *record)
{
	struct lines *lines = arg;
	char type[12], text[RDATA_TEXT_MAX];
	struct line *line = xmalloc(sizeof *line + record->owner->len);

	memcpy(line->owner, record->owner->wire, record->owner->len);
	line->text = rdata_text(record, text) ? xasprintf("%u IN %s %s", record->ttl_s,
						    type_name(record->type, type), text)
					      : any_text(record);
	if (lines->count == lines->capacity) {
		lines->capacity = lines->capacity == 0 ? 1024 : lines->capacity * 2;
		lines->items = xreallocarray(lines->items, lines->capacity, sizeof *lines->items);
	}
	lines->items[lines->count++] = line;
	return true;
}

/* --- the file --- */

static int
by_owner_and_text(const void *a, const void *b)
{
	struct line *const *la = a, *const *lb = b;
	int order = dname_compare((*la)->owner, (*lb)->owner);

	return order != 0 ? order : strcmp((*la)->text, (*lb)->text);
}

static int
print_lines(FILE *out, struct lines *lines)
{
	char name[DNAME_TEXT_MAX];

	assert(lines->items != NULL);
	/* The SOA was added first and stays first, because named-checkzone requires that. */
	qsort(lines->items + 1, lines->count - 1, sizeof *lines->items, by_owner_and_text);
	for (size_t i = 0; i < lines->count; i++) {
		fprintf(out, "%s %s\n", dname_to_text(lines->items[i]->owner, name),
		    lines->items[i]->text);
	}
	for (size_t i = 0; i < lines->count; i++) {
		free(lines->items[i]->text);
		free(lines->items[i]);
	}
	free(lines->items);
	return fflush(out) == 0 && !ferror(out) ? 0 : -EIO;
}

int
zone_find(const struct answer_config *config, const char *text, size_t *zone)
{
	char zone_text[DNAME_TEXT_MAX];
	struct dname name;

	*zone = 0;
	if (*text == '\0')
		return 0;
	int found = dname_from_text(&name, text) < 0 ? -1 : zone_index(config, name.wire);
	if (found >= 0) {
		*zone = (size_t)found;
		return 0;
	}
	log_errorx("--print-zone: \"%s\": not a zone of this server; there is %s", text,
	    dname_to_text(config->zone.wire, zone_text));
	for (size_t i = 1; i < zone_count(config); i++)
		log_errorx(
		    "--print-zone: and %s", dname_to_text(zone_name(config, i)->wire, zone_text));
	return -EINVAL;
}

int
zone_print(FILE *out, const struct answer_config *config, const struct tree *tree, size_t zone)
{
	struct lines lines = { .count = 0 };
	struct zone_walk walk = { .config = config,
		.trees = zone_trees_now(config, tree),
		.take = add_line,
		.arg = &lines };

	zone_walk_begin(&walk);
	zone_walk_zone(&walk, zone);
	zone_walk_end(&walk);
	return print_lines(out, &lines);
}
