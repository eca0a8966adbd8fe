#include "kubedns/answer/local_names.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/zone_lookup.h"
#include "kubedns/answer/zones.h"
#include "lib/conf_hosts.h"
#include "lib/conf_records.h"
#include "lib/hash.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "treecache/treecache.h"

/* --- looking names up --- */

static size_t
padded(size_t len)
{
	return (len + 3) & ~(size_t)3;
}

static const struct own_name *
entry_at(const struct local_names *names, uint32_t offset)
{
	return (const void *)((const uint8_t *)names + offset);
}

/* Returns the position of the name's entry in the table. If the name has no entry, returns the free position for it. */
static uint32_t
place_of(const struct local_names *names, const uint8_t *wire, size_t len)
{
	uint32_t place = hash_fold(hash64(names->seed, wire, len)) & names->mask;

	for (; names->places[place] != 0; place = (place + 1) & names->mask) {
		const struct own_name *entry = entry_at(names, names->places[place]);

		if (entry->len == len && memcmp(entry->wire, wire, len) == 0)
			break;
	}
	return place;
}

/* Returns the entry of a name, or NULL. The entry may have no records. */
static const struct own_name *
find(const struct local_names *names, const uint8_t *wire, size_t len)
{
	uint32_t offset = names->places[place_of(names, wire, len)];

	return offset == 0 ? NULL : entry_at(names, offset);
}

const struct own_name *
local_names_find(const struct local_names *names, const uint8_t *wire, size_t len)
{
	const struct own_name *entry = find(names, wire, len);

	return entry != NULL && entry->sets_len > 0 ? entry : NULL;
}

/* Returns the entry of the name without its first `label` labels, or NULL. */
static const struct own_name *
find_from(const struct local_names *names, const struct name *name, unsigned label)
{
	size_t at = name->offsets[label];

	return find(names, name->wire + at, name->len - at);
}

static const struct own_name *
find_wildcard(const struct local_names *names, const struct own_name *encloser)
{
	uint8_t wire[DNAME_MAX + 8] = "\1*";

	if (encloser->len + 2 > DNAME_MAX)
		return NULL;
	memcpy(wire + 2, encloser->wire, encloser->len);
	return find(names, wire, encloser->len + 2u);
}

/* Returns the zone that contains the name without its first `label` labels. `entry` is the entry of that name, or NULL. */
static const struct own_name *
find_zone(const struct local_names *names, const struct name *name, unsigned label,
    const struct own_name *entry)
{
	for (;;) {
		if (entry != NULL && entry->cut)
			return NULL;
		if (entry != NULL && own_name_rrset(entry, TYPE_SOA) != NULL)
			return entry;
		if (++label >= name->count)
			return NULL;
		entry = find_from(names, name, label);
	}
}

struct own_answer
local_names_ask(const struct local_names *names, const struct name *name, bool exact)
{
	const struct own_name *entry = find(names, name->wire, name->len);
	struct own_answer answer = { .kind = OWN_NONE };
	unsigned label = 0;

	if (entry != NULL && entry->sets_len > 0) {
		answer.kind = OWN_FOUND;
		answer.name = entry;
	}
	if (exact || !names->walks || name->count == 0)
		return answer;
	if (entry == NULL) { /* the closest encloser (RFC 4592 section 3.3.1) */
		label = name->count > names->labels_max ? name->count - names->labels_max : 1;
		while (label < name->count && (entry = find_from(names, name, label)) == NULL)
			label++;
		if (entry == NULL || entry->cut)
			return answer;
		const struct own_name *wildcard = find_wildcard(names, entry);
		answer.wildcard = wildcard != NULL && wildcard->sets_len > 0;
		answer.name = answer.wildcard ? wildcard : NULL;
		/* A wildcard without records, which exists because of a name such as `x.*`, gives NODATA (RFC 4592 section 2.2.2). */
		answer.kind = answer.wildcard    ? OWN_FOUND
			      : wildcard != NULL ? OWN_EMPTY
						 : OWN_DENIED;
	} else if (answer.kind == OWN_NONE) {
		answer.kind = OWN_EMPTY;
	}
	answer.zone = find_zone(names, name, label, entry);
	if (answer.kind != OWN_FOUND && answer.zone == NULL)
		answer.kind = OWN_NONE;
	return answer;
}

struct own_answer
own_ask(const struct answer_config *config, const struct tree *tree, const struct name *name)
{
	const struct answer_context *context = tree->context;
	const struct local_names *names = context == NULL ? NULL : context->names;

	if (names == NULL)
		return (struct own_answer){ .kind = OWN_NONE };
	/* If a local zone or wildcard contains one of the cluster's zones, it does not answer for names in the cluster's zone. */
	return local_names_ask(names, name,
	    !names->walks || name_below(name, &config->zone) >= 0 ||
		external_zone_of(config, name).kind != ZONE_NONE);
}

const char *
local_names_source(const struct local_names *names, const struct own_name *name)
{
	const char *text = (const char *)names + names->sources;

	if (names->sources == 0)
		return "";
	for (unsigned i = 0; i < name->source; i++)
		text += strlen(text) + 1;
	return text;
}

const struct own_name *
local_names_next(const struct local_names *names, uint32_t *place)
{
	while (*place <= names->mask) {
		uint32_t offset = names->places[(*place)++];

		if (offset != 0 && entry_at(names, offset)->sets_len > 0)
			return entry_at(names, offset);
	}
	return NULL;
}

static const uint8_t *
first_set(const struct own_name *name)
{
	return (const uint8_t *)name + padded(sizeof *name + name->len);
}

const struct rrset *
own_name_rrset_next(const struct own_name *name, const struct rrset *previous)
{
	const uint8_t *sets = first_set(name),
		      *next = previous == NULL ? sets : previous->data + padded(previous->len);

	return next < sets + name->sets_len ? (const void *)next : NULL;
}

const struct rrset *
own_name_rrset(const struct own_name *name, uint16_t type)
{
	const struct rrset *set = NULL;

	while ((set = own_name_rrset_next(name, set)) != NULL && set->type != type)
		;
	return set;
}

/* --- planning the entries --- */

/* An entry of the block that will be made. `lines` are the configured lines of the name. Empty non-terminals have no lines. */
struct planned {
	const uint8_t *name;
	size_t len;
	const struct own_line *lines;
	size_t count;
	bool cut;
};

struct plan {
	struct planned *items;
	size_t count, capacity, named;
	/* the zone that contains the names, or the parent of the wildcard */
	const uint8_t *anchor;
	/* The last name that was planned, or NULL. */
	const uint8_t *previous;
	size_t empty_left;
	bool walks, crowded;
	unsigned labels_max;
};

/* Sorts by name and source. The SOA of a name comes first. */
static int
by_name_and_source(const void *a, const void *b)
{
	const struct own_line *x = a, *y = b;
	int order = dname_compare(x->name, y->name);

	if (order == 0)
		order = (y->type == TYPE_SOA) - (x->type == TYPE_SOA);
	if (order == 0)
		order = (int)x->waiting - (int)y->waiting;
	if (order == 0)
		order = (int)x->source - (int)y->source;
	if (order == 0)
		order = (int)x->type - (int)y->type;
	if (order == 0) /* a fixed order, so that equal inputs make equal blocks */
		order = (int)x->rdata_len - (int)y->rdata_len;
	return order != 0 || x->rdata_len == 0 ? order : memcmp(x->rdata, y->rdata, x->rdata_len);
}

static bool
same_name(const struct own_line *a, const struct own_line *b)
{
	return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

static bool
is_wildcard(const struct own_line *line)
{
	return memcmp(line->name, "\1*", 2) == 0;
}

static void
add(struct plan *plan, const struct planned *item)
{
	if (plan->count == plan->capacity) {
		plan->capacity = plan->capacity == 0 ? 64 : 2 * plan->capacity;
		plan->items = xreallocarray(plan->items, plan->capacity, sizeof *plan->items);
	}
	plan->items[plan->count++] = *item;
	plan->named += item->count > 0;
	unsigned labels = dname_labels(item->name);
	if (labels > plan->labels_max)
		plan->labels_max = labels;
}

/* Plans the empty non-terminals between the anchor and this name. The empty non-terminals above the previous name are already planned. */
static void
add_empty(struct plan *plan, const struct own_line *line)
{
	const uint8_t *above[DNAME_LABELS_MAX];
	unsigned count = 0;

	for (const uint8_t *at = line->name; dname_in_zone(at, plan->anchor) > 0;) {
		at += 1u + *at;
		if (plan->previous != NULL && dname_in_zone(plan->previous, at) >= 0)
			break;
		above[count++] = at;
	}
	plan->crowded = plan->crowded || count > plan->empty_left;
	while (count-- > 0 && plan->empty_left > 0) {
		plan->empty_left--;
		const struct planned empty = { .name = above[count],
			.len = line->name_len - (size_t)(above[count] - line->name) };
		add(plan, &empty);
	}
}

/* Plans the lines [0, count) of one name. `next` is the line after them, or NULL. */
static void
add_name(struct plan *plan, const struct own_line *lines, size_t count, const struct own_line *next)
{
	bool zone = lines->type == TYPE_SOA, cut = lines[count - 1].type == OWN_TYPE_CUT;
	/* A name with an SOA stays a zone even if another source has records at this name. */
	size_t own = zone;
	bool others = zone && count > 1 && lines[1].type != OWN_TYPE_CUT;
	unsigned source = lines[others].source;
	bool above = next != NULL && is_wildcard(next) && next->name_len == lines->name_len + 2 &&
		     memcmp(next->name + 2, lines->name, lines->name_len) == 0;

	while (own < count && lines[own].source == source && lines[own].type != OWN_TYPE_CUT)
		own++;
	cut = cut && !zone && !above;
	if (plan->anchor != NULL && dname_in_zone(lines->name, plan->anchor) < 0)
		plan->anchor = NULL;
	if (plan->anchor == NULL && is_wildcard(lines))
		plan->anchor = lines->name + 2;
	else if (plan->anchor == NULL && (zone || (above && own > 0)))
		plan->anchor = lines->name;
	if (own == 0 && (!cut || plan->anchor == NULL))
		return;
	if (plan->anchor != NULL) {
		plan->walks = true;
		add_empty(plan, lines);
	}
	const struct planned item = { lines->name, lines->name_len, lines, own,
		cut && plan->anchor != NULL };
	add(plan, &item);
	plan->previous = lines->name;
}

/* --- making the block --- */

struct builder {
	uint8_t *bytes;
	size_t len, capacity;
	size_t set; /* start of the record set that is being written */
};

static void *
grow(struct builder *b, size_t len)
{
	if (b->len + len > b->capacity) {
		b->capacity = (b->len + len) * 2;
		b->bytes = xreallocarray(b->bytes, b->capacity, 1);
	}
	void *at = b->bytes + b->len;
	memset(at, 0, len);
	b->len += len;
	return at;
}

static void
align(struct builder *b)
{
	grow(b, padded(b->len) - b->len);
}

static void
put_record(struct builder *b, const struct own_line *line)
{
	size_t len = 12u + line->rdata_len;
	uint8_t *p = grow(b, len);

	wire_put16(p, 0xc000 | DNS_HEADER);
	wire_put16(p + 2, line->type);
	wire_put16(p + 4, CLASS_IN);
	wire_put32(p + 6, line->ttl_s);
	wire_put16(p + 10, line->rdata_len);
	memcpy(p + 12, line->rdata, line->rdata_len);
	struct rrset *set = (void *)(b->bytes + b->set);
	set->count++;
	set->len += (uint32_t)len;
}

static void
put_name(struct builder *b, const struct planned *item)
{
	struct local_names *names = (void *)b->bytes;
	size_t at = b->len;

	names->places[place_of(names, item->name, item->len)] = (uint32_t)at;
	struct own_name *entry = grow(b, sizeof *entry + item->len);
	entry->len = (uint8_t)item->len;
	entry->cut = item->cut;
	entry->source = item->count > 0 ? item->lines[item->count - 1].source : 0;
	memcpy(entry->wire, item->name, item->len);
	align(b);
	size_t sets = b->len;
	for (size_t i = 0; i < item->count; i++) {
		if (i == 0 || item->lines[i].type != item->lines[i - 1].type) {
			align(b);
			b->set = b->len;
			struct rrset *set = grow(b, sizeof *set);
			set->type = item->lines[i].type;
		}
		put_record(b, &item->lines[i]);
	}
	align(b);
	entry = (void *)(b->bytes + at);
	entry->sets_len = (uint32_t)(b->len - sets);
}

static struct local_names *
build(const struct plan *plan, uint64_t seed, const char *const *sources, size_t source_count)
{
	struct builder b = { 0 };
	uint32_t places = 8;

	while (places < 2 * plan->count)
		places *= 2;
	struct local_names *names = grow(&b, sizeof *names + places * sizeof names->places[0]);
	names->mask = places - 1;
	names->seed = seed;
	names->count = (uint32_t)plan->named;
	names->walks = plan->walks;
	names->crowded = plan->crowded;
	names->labels_max = (uint8_t)plan->labels_max;
	align(&b);
	for (size_t i = 0; i < plan->count; i++)
		put_name(&b, &plan->items[i]);
	size_t texts = b.len;
	for (size_t i = 0; i < source_count; i++)
		memcpy(grow(&b, strlen(sources[i]) + 1), sources[i], strlen(sources[i]));
	align(&b);
	names = (void *)b.bytes;
	names->sources = source_count > 0 ? (uint32_t)texts : 0;
	names->size = (uint32_t)b.len;
	return names;
}

static struct local_names *
new_with_sources(struct own_line *lines, size_t count, uint64_t seed, const char *const *sources,
    size_t source_count)
{
	struct plan plan = { .empty_left = OWN_EMPTY_MAX };

	if (count > 1)
		qsort(lines, count, sizeof *lines, by_name_and_source);
	for (size_t first = 0, i = 1; i <= count; i++) {
		if (i < count && same_name(&lines[first], &lines[i]))
			continue;
		add_name(&plan, &lines[first], i - first, i < count ? &lines[i] : NULL);
		first = i;
	}
	struct local_names *names =
	    plan.named == 0 ? NULL : build(&plan, seed, sources, source_count);
	free(plan.items);
	return names;
}

struct local_names *
local_names_new(struct own_line *lines, size_t count, uint64_t seed)
{
	return new_with_sources(lines, count, seed, NULL, 0);
}

/* --- making blocks from hosts, from records, and from other blocks --- */

struct local_names *
local_names_of_hosts(const struct conf_hosts *hosts, bool reverse, uint32_t ttl_s, uint64_t seed)
{
	size_t count = 0;

	if (hosts->count == 0)
		return NULL;
	struct own_line *lines = xcalloc(2 * hosts->count, sizeof *lines);
	struct dname *names = xcalloc(hosts->count, sizeof *names);
	for (size_t i = 0; i < hosts->count; i++) {
		const struct conf_host *host = &hosts->items[i];
		bool v4 = host->addr.family == AF_INET;

		lines[count++] = (struct own_line){ .name = host->name.wire,
			.name_len = host->name.len,
			.ttl_s = ttl_s,
			.type = v4 ? TYPE_A : TYPE_AAAA,
			.rdata = host->addr.bytes,
			.rdata_len = (uint16_t)addr_len(&host->addr) };
		if (!reverse)
			continue;
		reverse_name(&host->addr, &names[i]);
		lines[count++] = (struct own_line){ .name = names[i].wire,
			.name_len = names[i].len,
			.ttl_s = ttl_s,
			.type = TYPE_PTR,
			.rdata = host->name.wire,
			.rdata_len = host->name.len };
	}
	struct local_names *own = local_names_new(lines, count, seed);
	free(names);
	free(lines);
	return own;
}

struct local_names *
local_names_of_records(const struct conf_records *records, uint32_t ttl_s, uint64_t seed)
{
	struct own_line *lines = xcalloc(records->count + 1, sizeof *lines);

	for (size_t i = 0; i < records->count; i++) {
		const struct conf_record *record = &records->items[i];

		lines[i] = (struct own_line){ .name = record->name,
			.name_len = record->name_len,
			.ttl_s = record->ttl_s == CONF_RECORDS_TTL_UNSET ? ttl_s : record->ttl_s,
			.type = record->type,
			.rdata = record->rdata,
			.rdata_len = record->rdata_len };
	}
	struct local_names *own = local_names_new(lines, records->count, seed);
	free(lines);
	return own;
}

struct lines {
	struct own_line *items;
	size_t count, capacity;
};

static void
add_line(struct lines *lines, const struct own_line *line)
{
	if (lines->count == lines->capacity) {
		lines->capacity = lines->capacity == 0 ? 256 : 2 * lines->capacity;
		lines->items = xreallocarray(lines->items, lines->capacity, sizeof *lines->items);
	}
	lines->items[lines->count++] = *line;
}

/* Adds the records of a name. */
static void
add_lines(struct lines *lines, const struct own_name *name, size_t source, bool waiting)
{
	const struct rrset *set = NULL;

	while ((set = own_name_rrset_next(name, set)) != NULL) {
		const uint8_t *record = set->data;

		for (unsigned i = 0; i < set->count; i++) {
			const struct own_line line = { .name = name->wire,
				.name_len = name->len,
				.ttl_s = wire_get32(record + 6),
				.type = set->type,
				.rdata = record + 12,
				.rdata_len = wire_get16(record + 10),
				.source = (uint16_t)source,
				.waiting = waiting };

			add_line(lines, &line);
			record += 12u + line.rdata_len;
		}
	}
}

/* Returns whether the block answers for the name. */
static bool
is_taken(const struct local_names *block, const struct own_name *own)
{
	struct name_buf buf;

	if (block == NULL)
		return false;
	const struct name name = name_copy(&buf, own->wire, own->len);
	return local_names_ask(block, &name, false).kind != OWN_NONE;
}

/* Adds the records of a trusted source's block. */
static void
add_trusted(struct lines *lines, const struct local_names *block, size_t source)
{
	const struct own_name *name;
	uint32_t place = 0;

	while (block != NULL && (name = local_names_next(block, &place)) != NULL)
		add_lines(lines, name, source, false);
}

/* Adds the records of another source's block. Leaves out names for which the block of the trusted sources (`taken`)
 * has an answer, and names that this source is not permitted to have. */
static void
add_judged(struct lines *lines, const struct own_sources *sources, size_t source,
    const struct local_names *taken)
{
	const struct local_names *block = sources->blocks[source];
	const struct own_name *name;
	uint32_t place = 0;

	while (block != NULL && (name = local_names_next(block, &place)) != NULL) {
		enum own_claim claim = sources->judge == NULL
					   ? OWN_HELD
					   : sources->judge(sources->judge_arg, source, name);

		if (claim != OWN_REFUSED && !is_taken(taken, name))
			add_lines(lines, name, source, claim == OWN_WAITING);
	}
}

struct local_names *
local_names_merge(const struct own_sources *sources)
{
	struct local_names *trusted = NULL;
	struct lines lines = { 0 };
	uint64_t seed = 0;

	if (sources->trusted < sources->count) {
		struct own_sources first = *sources;

		first.count = first.trusted;
		trusted = local_names_merge(&first);
	}
	for (size_t i = 0; i < sources->count; i++) {
		const struct local_names *block = sources->blocks[i];

		seed = block != NULL ? block->seed : seed;
		if (i < sources->trusted)
			add_trusted(&lines, block, i);
		else
			add_judged(&lines, sources, i, trusted);
	}
	for (size_t at = 0; lines.count > 0 && at < sources->cuts_len;) {
		const uint8_t *name = sources->cuts + at;
		struct own_line cut = { .name = name,
			.name_len = (uint8_t)dname_length(name, sources->cuts_len - at),
			.type = OWN_TYPE_CUT,
			.source = UINT16_MAX,
			.waiting = true };

		add_line(&lines, &cut);
		at += cut.name_len;
	}
	struct local_names *names =
	    new_with_sources(lines.items, lines.count, seed, sources->texts, sources->count);
	free(lines.items);
	free(trusted);
	return names;
}
