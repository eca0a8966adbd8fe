#include "kubedns/answer/own_names.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/zone_lookup.h"
#include "lib/conf_hosts.h"
#include "lib/hash.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

enum { ALIGNMENT = 4 };

/* --- looking up --- */

static uint32_t
name_hash(uint64_t seed, const uint8_t *wire, size_t len)
{
	return hash_fold(hash64(seed, wire, len));
}

static const struct own_name *
entry_at(const struct own_names *names, uint32_t offset)
{
	return (const void *)((const uint8_t *)names + offset);
}

/* Where the name's entry is, or would be. */
static uint32_t
find_place(const struct own_names *names, const uint8_t *wire, size_t len)
{
	uint32_t place = name_hash(names->seed, wire, len) & names->mask;

	for (; names->places[place] != 0; place = (place + 1) & names->mask) {
		const struct own_name *entry = entry_at(names, names->places[place]);
		if (entry->len == len && memcmp(entry->wire, wire, len) == 0)
			break;
	}
	return place;
}

const struct own_name *
own_names_find(const struct own_names *names, const uint8_t *wire, size_t len)
{
	uint32_t offset = names->places[find_place(names, wire, len)];

	return offset == 0 ? NULL : entry_at(names, offset);
}

const struct own_name *
own_names_next(const struct own_names *names, uint32_t *place)
{
	while (*place <= names->mask) {
		uint32_t offset = names->places[(*place)++];
		if (offset != 0)
			return entry_at(names, offset);
	}
	return NULL;
}

static size_t
padded(size_t len)
{
	return (len + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
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

/* --- making the block --- */

struct builder {
	uint8_t *bytes;
	size_t len, room;
	size_t entry, set; /* where the open ones begin */
};

static void *
grow(struct builder *b, size_t len)
{
	if (b->len + len > b->room) {
		b->room = (b->len + len) * 2;
		b->bytes = xreallocarray(b->bytes, b->room, 1);
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
begin_name(struct builder *b, const struct dname *name)
{
	struct own_names *names = (void *)b->bytes;

	names->places[find_place(names, name->wire, name->len)] = (uint32_t)b->len;
	names->count++;
	b->entry = b->len;
	struct own_name *entry = grow(b, sizeof *entry + name->len);
	entry->len = name->len;
	memcpy(entry->wire, name->wire, name->len);
	align(b);
}

static void
end_set(struct builder *b)
{
	align(b);
	struct own_name *entry = (void *)(b->bytes + b->entry);
	entry->sets_len = (uint32_t)(b->len - padded(b->entry + sizeof *entry + entry->len));
}

static void
begin_set(struct builder *b, uint16_t type)
{
	b->set = b->len;
	struct rrset *set = grow(b, sizeof *set);
	set->type = type;
}

static void
add_record(struct builder *b, const struct own_line *line)
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

static int
by_name_and_type(const void *a, const void *b)
{
	const struct own_line *x = a, *y = b;
	int order = dname_compare(x->name->wire, y->name->wire);

	if (order == 0)
		order = (int)x->type - (int)y->type;
	if (order == 0) /* equal inputs give equal blocks */
		order = (int)x->rdata_len - (int)y->rdata_len;
	return order != 0 ? order : memcmp(x->rdata, y->rdata, x->rdata_len);
}

struct own_names *
own_names_new(struct own_line *lines, size_t count, uint64_t seed)
{
	struct builder b = { 0 };
	uint32_t places = 8;

	if (count == 0)
		return NULL;
	qsort(lines, count, sizeof *lines, by_name_and_type);

	while (places < 2 * count)
		places *= 2;
	struct own_names *names = grow(&b, sizeof *names + places * sizeof names->places[0]);
	names->mask = places - 1;
	names->seed = seed;
	align(&b);
	for (size_t i = 0; i < count; i++) {
		const struct own_line *line = &lines[i], *before = i > 0 ? line - 1 : NULL;
		bool new_name =
		    before == NULL || !dname_equal(before->name->wire, line->name->wire);
		if (new_name)
			begin_name(&b, line->name);
		if (new_name || before->type != line->type)
			begin_set(&b, line->type);
		add_record(&b, line);
		if (i + 1 == count || line[1].type != line->type ||
		    !dname_equal(line[1].name->wire, line->name->wire))
			end_set(&b);
	}
	names = (void *)b.bytes;
	names->size = (uint32_t)b.len;
	return names;
}

struct own_names *
own_names_of_hosts(const struct conf_hosts *hosts, uint32_t ttl_s, uint64_t seed)
{
	size_t count = 2 * hosts->count;

	if (count == 0)
		return NULL;
	struct own_line *lines = xcalloc(count, sizeof *lines);
	struct dname *reverse = xcalloc(hosts->count, sizeof *reverse);
	for (size_t i = 0; i < hosts->count; i++) {
		const struct conf_host *host = &hosts->items[i];
		bool v4 = host->addr.family == AF_INET;
		reverse_name(&host->addr, &reverse[i]);
		lines[2 * i] = (struct own_line){ &host->name, ttl_s, v4 ? TYPE_A : TYPE_AAAA,
			(uint16_t)addr_len(&host->addr), host->addr.bytes };
		lines[2 * i + 1] = (struct own_line){ &reverse[i], ttl_s, TYPE_PTR, host->name.len,
			host->name.wire };
	}
	struct own_names *names = own_names_new(lines, count, seed);
	free(reverse);
	free(lines);
	return names;
}
