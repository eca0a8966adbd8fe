#include "kubedns/answer/nearest.h"

#include <string.h>

#include "kubedns/answer/zone_lookup.h"

/* --- the endpoints of a class in one slice --- */

struct members {
	struct place_entries node, zone;
	unsigned limit; /* only entries [0, limit) are considered */
	unsigned at_node, at_zone, at;
};

static bool
wants_slice(const struct nearest *nearest, const struct slice_endpoints *slice)
{
	unsigned count;

	if (nearest->family != AF_UNSPEC && slice->family != nearest->family)
		return false;
	if (!nearest->by_port)
		return true;
	ports_numbers(slice->ports, nearest->port_label, &count);
	return count > 0;
}

static void
members_begin(struct members *m, const struct nearest *nearest, const struct slice_endpoints *slice)
{
	*m = (struct members){ .limit = nearest->doubles ? slice->published : slice->unique };
	slice_at_place(slice, nearest->node, m->limit, &m->node);
	slice_at_place(slice, nearest->zone, m->limit, &m->zone);
}

/* Advances `*at` to the first entry of the list that is not below `entry`. Returns whether it is `entry`. */
static bool
skip_to(const struct place_entries *list, unsigned *at, unsigned entry)
{
	while (*at < list->count && place_entry(list, *at) < entry)
		++*at;
	return *at < list->count && place_entry(list, *at) == entry;
}

/* Sets `*entry` to the next entry of the class, in ascending order. Returns false at the end. */
static bool
members_next(struct members *m, enum near near, unsigned *entry)
{
	if (near == NEAR_NODE) {
		if (m->at_node == m->node.count)
			return false;
		*entry = place_entry(&m->node, m->at_node++);
		return true;
	}
	if (near == NEAR_ZONE) {
		while (m->at_zone < m->zone.count) {
			*entry = place_entry(&m->zone, m->at_zone++);
			if (!skip_to(&m->node, &m->at_node, *entry))
				return true;
		}
		return false;
	}
	while (m->at < m->limit) {
		*entry = m->at++;
		if (!skip_to(&m->node, &m->at_node, *entry) &&
		    !skip_to(&m->zone, &m->at_zone, *entry))
			return true;
	}
	return false;
}

/* Returns the number of entries that are both for the client's node and for its zone. */
static uint32_t
count_both(
    const struct members *m, const struct nearest *nearest, const struct slice_endpoints *slice)
{
	uint32_t most = m->node.count < m->zone.count ? m->node.count : m->zone.count;
	struct place_entries both;

	if (most == 0)
		return 0;
	slice_at_place(slice, place_of_both(nearest->node, nearest->zone), m->limit, &both);
	/* limited, because two places may have the same number (a hash) */
	return both.count < most ? both.count : most;
}

/* Counts the entries of the slice in each class. */
static void
members_count(const struct members *m, const struct nearest *nearest,
    const struct slice_endpoints *slice, uint32_t counts[NEAR_CLASSES])
{
	uint32_t both = count_both(m, nearest, slice);

	counts[NEAR_NODE] = m->node.count;
	counts[NEAR_ZONE] = m->zone.count - both;
	both = m->node.count + counts[NEAR_ZONE];
	counts[NEAR_FAR] = both < m->limit ? m->limit - both : 0;
}

/* --- all slices of a set --- */

static unsigned
slices_looked_at(const struct nearest *nearest)
{
	return nearest->endpoints->count < NEAREST_SLICES ? nearest->endpoints->count
							  : NEAREST_SLICES;
}

void
nearest_count(struct nearest *nearest)
{
	memset(nearest->counts, 0, sizeof nearest->counts);
	for (unsigned c = 0; c < slices_looked_at(nearest); c++) {
		const struct slice_endpoints *slice = nearest->endpoints->slices[c].slice;
		uint32_t counts[NEAR_CLASSES];
		struct members m;

		if (!wants_slice(nearest, slice))
			continue;
		members_begin(&m, nearest, slice);
		members_count(&m, nearest, slice, counts);
		for (unsigned k = 0; k < NEAR_CLASSES; k++)
			nearest->counts[k] += counts[k];
	}
}

/* Visits the members [from, to) of the class. */
static bool
visit_part(const struct nearest *nearest, enum near near, uint32_t from, uint32_t to,
    bool (*visit)(void *arg, const struct slice_endpoints *slice, unsigned i), void *arg)
{
	uint32_t number = 0;

	for (unsigned c = 0; c < slices_looked_at(nearest) && number < to; c++) {
		const struct slice_endpoints *slice = nearest->endpoints->slices[c].slice;
		uint32_t counts[NEAR_CLASSES];
		struct members m;
		unsigned entry;

		if (!wants_slice(nearest, slice))
			continue;
		members_begin(&m, nearest, slice);
		members_count(&m, nearest, slice, counts);
		if (number + counts[near] <= from) {
			number += counts[near];
			continue;
		}
		while (number < to && members_next(&m, near, &entry))
			if (number++ >= from && !visit(arg, slice, entry))
				return false;
	}
	return true;
}

bool
nearest_each(const struct nearest *nearest, enum near near, uint32_t start,
    bool (*visit)(void *arg, const struct slice_endpoints *slice, unsigned i), void *arg)
{
	uint32_t count = nearest->counts[near];

	if (count == 0)
		return true;
	start %= count;
	return visit_part(nearest, near, start, count, visit, arg) &&
	       visit_part(nearest, near, 0, start, visit, arg);
}

/* Returns whether one of the first `limit` entries is ready and at this place. */
static bool
has_ready(const struct slice_endpoints *slice, uint64_t place, unsigned limit)
{
	struct place_entries at, not_ready;

	slice_at_place(slice, place, limit, &at);
	slice_at_place(slice, place_not_ready(place), limit, &not_ready);
	return not_ready.count < at.count;
}

bool
nearest_is_ready(const struct nearest *nearest)
{
	bool any = nearest->counts[NEAR_NODE] + nearest->counts[NEAR_ZONE] > 0;

	/* Without ENDPOINTS_NOT_READY, all published endpoints are ready. */
	if (!any || (nearest->endpoints->flags & ENDPOINTS_NOT_READY) == 0)
		return any;
	for (unsigned c = 0; c < slices_looked_at(nearest); c++) {
		const struct slice_endpoints *slice = nearest->endpoints->slices[c].slice;
		unsigned limit = nearest->doubles ? slice->published : slice->unique;

		if (wants_slice(nearest, slice) && (has_ready(slice, nearest->node, limit) ||
						       has_ready(slice, nearest->zone, limit)))
			return true;
	}
	return false;
}

static bool
is_at(const struct slice_endpoints *slice, uint64_t place, unsigned i)
{
	struct place_entries before, up_to;

	slice_at_place(slice, place, i, &before);
	slice_at_place(slice, place, i + 1, &up_to);
	return up_to.count > before.count;
}

enum near
nearest_class(const struct client_place *place, const struct slice_endpoints *slice, unsigned i)
{
	return is_at(slice, place->node, i)   ? NEAR_NODE
	       : is_at(slice, place->zone, i) ? NEAR_ZONE
					      : NEAR_FAR;
}

/* --- the names of --zonal --- */

static bool
is_label(const uint8_t *label, const char *text)
{
	return label[0] == strlen(text) && memcmp(label + 1, text, label[0]) == 0;
}

/* Returns the zone that the first `labels` labels of the name spell, or 0 if they are too long for a zone. */
static uint64_t
spelled_zone(const struct name *name, unsigned labels)
{
	char text[PLACE_NAME_MAX + 1];
	size_t len = 0;

	for (unsigned i = 0; i < labels; i++) {
		const uint8_t *label = name->wire + name->offsets[i];

		if (len + 1 + *label > sizeof text)
			return 0;
		if (i > 0)
			text[len++] = '.';
		memcpy(text + len, label + 1, *label);
		len += *label;
	}
	return place_number(PLACE_ZONE, text, len);
}

/* Returns whether this word is the label before `_zone`. */
static bool
has_directive(const struct name *name, unsigned left, const char *word)
{
	return left > 1 && is_label(name->wire + name->offsets[left - 2], word);
}

bool
nearest_knows_zone(const struct endpoint_choice *choice, const struct tree *tree,
    const struct name *name, unsigned left)
{
	bool directive = has_directive(name, left, "pin") || has_directive(name, left, "prefer");

	return left - 1 - directive > 0 || nearest_place(choice, tree).in_zone != 0;
}

bool
nearest_resolve(const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned left, const struct endpoint_set *endpoints,
    struct resolved *resolved)
{
	const uint8_t *last = name->wire + name->offsets[left - 1];
	bool prefer = has_directive(name, left, "prefer");
	bool pin = has_directive(name, left, "pin");
	unsigned labels = left - 1 - (prefer || pin);
	struct nearest in = { .endpoints = endpoints, .doubles = true };

	/* A zone that contains dots needs a directive before `_zone`. Otherwise a misspelled directive would be taken for a label of
	 * the zone. `_http._zone` would be the name of a port. */
	if (!is_label(last, "_zone") || (labels > 1 && !prefer && !pin) ||
	    (labels > 0 && name->wire[name->offsets[0] + 1] == '_'))
		return false;
	in.zone =
	    labels > 0 ? spelled_zone(name, labels) : nearest_place(config->choice, tree).in_zone;
	nearest_count(&in);
	bool any = in.counts[NEAR_ZONE] > 0;
	resolved->endpoints = any || prefer ? endpoints : NULL;
	resolved->zone = any ? in.zone : 0;
	resolved->kind = any || prefer ? RESOLVED_ZONAL : RESOLVED_EMPTY;
	return true;
}
