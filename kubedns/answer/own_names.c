#include "kubedns/answer/own_names.h"

#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/zone_lookup.h"
#include "lib/hash.h"
#include "lib/wire.h"
#include "treecache/treecache.h"

static const struct own_name *
entry_at(const struct own_names *names, uint32_t offset)
{
	return (const void *)((const uint8_t *)names + offset);
}

/* Where the name's entry is, or would be. */
uint32_t
own_names_place(const struct own_names *names, const uint8_t *wire, size_t len)
{
	uint32_t place = hash_fold(hash64(names->seed, wire, len)) & names->mask;

	for (; names->places[place] != 0; place = (place + 1) & names->mask) {
		const struct own_name *entry = entry_at(names, names->places[place]);
		if (entry->len == len && memcmp(entry->wire, wire, len) == 0)
			break;
	}
	return place;
}

/* The entry of a name, which may have no records, or NULL. */
static const struct own_name *
find(const struct own_names *names, const uint8_t *wire, size_t len)
{
	uint32_t offset = names->places[own_names_place(names, wire, len)];

	return offset == 0 ? NULL : entry_at(names, offset);
}

const struct own_name *
own_names_find(const struct own_names *names, const uint8_t *wire, size_t len)
{
	const struct own_name *entry = find(names, wire, len);

	return entry != NULL && entry->sets_len > 0 ? entry : NULL;
}

/* The name without its first `label` labels. */
static const struct own_name *
find_from(const struct own_names *names, const struct name *name, unsigned label)
{
	size_t at = name->offsets[label];

	return find(names, name->wire + at, name->len - at);
}

static const struct own_name *
find_wildcard(const struct own_names *names, const struct own_name *encloser)
{
	uint8_t wire[DNAME_MAX + 8] = "\1*";

	if (encloser->len + 2 > DNAME_MAX)
		return NULL;
	memcpy(wire + 2, encloser->wire, encloser->len);
	return find(names, wire, encloser->len + 2u);
}

/* The zone that holds the name from label `label` on, whose entry is `entry` (NULL: has none). */
static const struct own_name *
find_zone(const struct own_names *names, const struct name *name, unsigned label,
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
own_names_ask(const struct own_names *names, const struct name *name, bool exact)
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
		/* One without records, as below `sub.*`, makes NODATA (RFC 4592 section 2.2.2). */
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
	const struct own_names *names = context == NULL ? NULL : context->names;

	if (names == NULL)
		return (struct own_answer){ .kind = OWN_NONE };
	/* A zone or wildcard around the cluster's zones does not answer for names in them. */
	return own_names_ask(names, name,
	    !names->walks || name_below(name, &config->zone) >= 0 ||
		(config->external != NULL && external_zone_of(config->external, name) != NULL));
}

const char *
own_names_source(const struct own_names *names, const struct own_name *name)
{
	const char *text = (const char *)names + names->sources;

	if (names->sources == 0)
		return "";
	for (unsigned i = 0; i < name->source; i++)
		text += strlen(text) + 1;
	return text;
}

const struct own_name *
own_names_next(const struct own_names *names, uint32_t *place)
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
	return (const uint8_t *)name + own_names_padded(sizeof *name + name->len);
}

const struct rrset *
own_name_rrset_next(const struct own_name *name, const struct rrset *previous)
{
	const uint8_t *sets = first_set(name),
		      *next = previous == NULL ? sets
					       : previous->data + own_names_padded(previous->len);

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
