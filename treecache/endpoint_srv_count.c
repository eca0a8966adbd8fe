/*
 * How many SRV records a set has: its distinct (target, port number) pairs, in all and under each
 * label of its ports. The records' weight depends on that (srv_weight.h), so the number is made
 * as slices change, for the next publish, and an answer only looks it up.
 *
 * A target is an endpoint's name: its host name, or its address with dashes. Each different list of ports
 * that it is under counts for it, less what these lists share (endpoint_srv_pairs.c). Most targets have
 * the one list of their slice, so those with the same lists form a group.
 *
 * What lists share is looked for among SRV_SHARED_PORTS of them at most, which bounds what a change costs
 * whatever else there is. A target with more counts each list in full: what several of its lists have under
 * one label makes that label's weight lower then; it is the same on every replica.
 *
 * Which other slices have a target the endpoint index tells. Where a change finds very many, the set's
 * targets are kept from then on until it is empty (endpoint_srv_targets.c).
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/hash.h"
#include "lib/table.h"
#include "lib/xalloc.h"
#include "treecache/endpoint_internal.h"

/* --- groups of targets --- */

struct count {
	struct treecache *cache;
	struct owner *owner;
	struct table groups;
	const struct ports **lists; /* of the current target, by address */
	size_t list_count, list_room;
	size_t found; /* other slices that have a target */
};

static bool
same_lists(const void *entry, const void *key)
{
	const struct srv_group *a = entry, *b = key;

	return a->count == b->count && memcmp(a->lists, b->lists, a->count * sizeof *a->lists) == 0;
}

/* One list: what it counts. Several: what they share. */
static void
group_add(struct count *count, const struct ports **lists, size_t list_count, int64_t targets)
{
	size_t size = list_count * sizeof *lists;
	struct srv_group key = { .count = list_count, .lists = lists };

	if (list_count == 0 || targets == 0)
		return;
	key.hash = hash_fold(hash64(count->cache->next.seed, lists, size));
	struct srv_group *group = table_find(&count->groups, key.hash, same_lists, &key);
	if (group == NULL) {
		group = xmalloc(sizeof *group + size);
		*group = key;
		group->lists = (void *)(group + 1);
		memcpy(group->lists, lists, size);
		table_add(&count->groups, group);
	}
	group->targets += targets;
}

/* Where a list is among those of the current target, or would be. */
static size_t
list_place(const struct count *count, const struct ports *ports)
{
	size_t low = 0, high = count->list_count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if ((uintptr_t)count->lists[middle] < (uintptr_t)ports)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Adds a list to those of the current target; false if it is there already, or NULL. */
static bool
list_add(struct count *count, const struct ports *ports)
{
	size_t place = list_place(count, ports);

	if (ports == NULL || (place < count->list_count && count->lists[place] == ports))
		return false;
	if (count->list_count == count->list_room) {
		count->list_room = count->list_room == 0 ? 16 : count->list_room * 2;
		count->lists = xreallocarray(count->lists, count->list_room, sizeof *count->lists);
	}
	memmove(count->lists + place + 1, count->lists + place,
	    (count->list_count - place) * sizeof *count->lists);
	count->lists[place] = ports;
	count->list_count++;
	return true;
}

static void
list_remove(struct count *count, const struct ports *ports)
{
	size_t place = list_place(count, ports);

	memmove(count->lists + place, count->lists + place + 1,
	    (--count->list_count - place) * sizeof *count->lists);
}

/* What the current lists share, if there are few ports in them. */
static void
shared_add(struct count *count, int64_t targets)
{
	size_t ports = 0;

	for (size_t l = 0; l < count->list_count; l++)
		ports += srv_list_ports(count->lists[l]);
	if (count->list_count > 1 && ports <= SRV_SHARED_PORTS)
		group_add(count, count->lists, count->list_count, targets);
}

/* Counts what the list of the slice (NULL: none) adds to `targets` targets with the current lists, and what
 * all of these share. */
static void
target_add(struct count *count, const struct slice_endpoints *slice, int64_t targets)
{
	const struct ports *ports = slice == NULL ? NULL : slice->ports;
	bool added = list_add(count, ports);

	if (added)
		group_add(count, &ports, 1, targets);
	shared_add(count, targets);
	if (added)
		list_remove(count, ports);
}

/* Counts a target with the current lists, which nothing has counted yet. */
static void
target_count(struct count *count)
{
	for (size_t l = 0; l < count->list_count; l++)
		group_add(count, &count->lists[l], 1, 1);
	shared_add(count, 1);
}

/* Adds the lists of a walk's slices other than `slice`; false if one of these is lower. */
static bool
walk_lists(struct count *count, struct endpoint_walk *walk, const struct slice_endpoints *slice)
{
	struct endpoint_ref ref;
	bool lowest = true;

	while (endpoint_set_next(walk, &ref)) {
		if (ref.slice->slot != slice->slot) {
			count->found++;
			list_add(count, ref.slice->ports);
			lowest &= slice_compare(slice, ref.slice) < 0;
		}
		walk->slice = NULL; /* one endpoint of a slice is enough */
	}
	return lowest;
}

/*
 * Puts the lists of the set's other slices that have the target of entry `i` into count->lists;
 * false if one of these slices is lower. A host name that spells an address is also the target of
 * endpoints with that address and no host name.
 */
static bool
other_lists(struct count *count, const struct slice_endpoints *slice, unsigned i, bool spelled)
{
	const struct tree *tree = &count->cache->next;
	const struct endpoint_set *endpoints = count->owner->endpoints;
	const uint8_t *name = slice_name(slice, i);
	struct addr addr = { .family = slice->family };
	struct endpoint_walk walk;
	uint8_t derived[TARGET_LABEL_ROOM];
	bool lowest = true, by_addr = name == NULL;

	count->list_count = 0;
	if (by_addr)
		memcpy(addr.bytes, slice_addr(slice, i), addr_len(&addr));
	else if (spelled && tree_label_addr(name, &addr) == 0) {
		const uint8_t *canonical = tree_addr_label(&addr, derived);
		by_addr = memcmp(canonical, name, 1u + *name) == 0;
	}
	if (by_addr) {
		endpoint_set_find_unnamed(&walk, tree, endpoints, &addr);
		lowest &= walk_lists(count, &walk, slice);
	}
	if (name != NULL || spelled) {
		endpoint_set_find_name(&walk, tree, endpoints, srv_target_label(slice, i, derived));
		lowest &= walk_lists(count, &walk, slice);
	}
	return lowest;
}

static void
groups_clear(struct count *count)
{
	struct srv_group *group;
	size_t place = 0;

	while ((group = table_next(&count->groups, &place)) != NULL)
		free(group);
	table_free(&count->groups);
}

/* `may_wait`: the change of the numbers may be made by the publish. */
static void
count_finish(struct count *count, bool may_wait)
{
	srv_pairs_change(count->cache, count->owner, &count->groups, may_wait);
	groups_clear(count);
	free(count->lists);
}

/* --- changes --- */

/* Counts all targets of a slice (or NULL) at once; no other slice may have one of them. */
static void
slice_add(struct count *count, const struct slice_endpoints *slice, int64_t sign)
{
	if (slice != NULL)
		target_add(count, slice, sign * slice->published);
}

/* The lists of a kept target become the current ones. */
static void
kept_lists(struct count *count, const struct srv_target *target)
{
	count->list_count = 0;
	for (size_t i = 0; i < srv_target_count(target); i++)
		list_add(count, srv_target_list(target, i));
}

/* Counts what the lists of a kept target share. */
static void
kept_shared_add(struct count *count, const struct srv_target *target, int64_t sign)
{
	if (srv_target_ports(target) > SRV_SHARED_PORTS)
		return;
	kept_lists(count, target);
	shared_add(count, sign);
}

struct srv_targets *
endpoint_srv_count_keep(struct treecache *cache, const struct owner *owner)
{
	struct srv_targets *kept = srv_targets_new(cache, owner);
	const struct endpoint_set *endpoints = owner->endpoints;

	for (unsigned c = 0; c < endpoints->count; c++) {
		const struct slice_endpoints *slice = endpoints->slices[c].slice;
		struct slice_targets targets = slice_targets_of(cache, slice, true);
		for (size_t t = 0; t < targets.count; t++)
			srv_target_add(srv_target_at(kept, targets.items[t].hash), slice->ports);
		free(targets.items);
	}
	return kept;
}

/* The targets of a slice and of the one that takes its place, either NULL, each once. */
struct replaced {
	const struct slice_endpoints *old, *slice;
	struct slice_targets was, is;
	size_t next_was, next_is;
	const struct slice_target *target; /* each in turn; an entry of `from` if that has it */
	const struct slice_endpoints *from, *to; /* `old` and `slice` if they have it, else NULL */
};

static struct replaced
replaced_targets(const struct treecache *cache, const struct slice_endpoints *old,
    const struct slice_endpoints *slice, bool spelled)
{
	return (struct replaced){ .old = old,
		.slice = slice,
		.was = slice_targets_of(cache, old, spelled),
		.is = slice_targets_of(cache, slice, spelled) };
}

/* False at the end, when the targets have been given back. */
static bool
replaced_next(struct replaced *r)
{
	const struct slice_target *was =
	    r->next_was < r->was.count ? &r->was.items[r->next_was] : NULL;
	const struct slice_target *is = r->next_is < r->is.count ? &r->is.items[r->next_is] : NULL;

	if (was == NULL && is == NULL) {
		free(r->was.items);
		free(r->is.items);
		return false;
	}
	bool in_old = is == NULL || (was != NULL && was->hash <= is->hash);
	bool in_new = was == NULL || (is != NULL && is->hash <= was->hash);
	r->target = in_old ? was : is;
	r->from = in_old ? r->old : NULL;
	r->to = in_new ? r->slice : NULL;
	r->next_was += in_old;
	r->next_is += in_new;
	return true;
}

/* `slice` takes the place of `old` in the kept targets; counts the difference if `counted`. */
static void
change_kept(struct count *count, struct srv_targets *kept, const struct slice_endpoints *old,
    const struct slice_endpoints *slice, bool counted)
{
	struct replaced r = replaced_targets(count->cache, old, slice, true);

	while (replaced_next(&r)) {
		if (r.from != NULL && r.to != NULL && r.from->ports == r.to->ports)
			continue;
		struct srv_target *target = srv_target_at(kept, r.target->hash);
		const struct ports *begun = NULL,
				   *ended = NULL; /* lists that the target gets, and loses */
		if (counted)
			kept_shared_add(count, target, -1);
		/* The new list first: a target that no slice has is freed. */
		if (r.to != NULL && srv_target_add(target, r.to->ports))
			begun = r.to->ports;
		if (r.from != NULL && srv_target_remove(kept, &target, r.from->ports))
			ended = r.from->ports;
		if (!counted)
			continue;
		if (begun != NULL)
			group_add(count, &begun, 1, 1);
		if (ended != NULL)
			group_add(count, &ended, 1, -1);
		if (target != NULL)
			kept_shared_add(count, target, 1);
	}
	if (srv_targets_empty(kept))
		srv_targets_drop(count->cache, kept);
}

void
endpoint_srv_count_change(struct treecache *cache, struct owner *owner,
    const struct slice_endpoints *old, const struct slice_endpoints *slice)
{
	struct count count = { .cache = cache, .owner = owner };
	struct srv_targets *kept = srv_targets_find(cache, owner);
	bool others = owner->endpoints->count > (old != NULL);
	bool spelled = owner->endpoints->dashed > 0 || (slice != NULL && slice->dashed);
	bool last = !others && slice == NULL; /* the owner may be freed before the publish */
	bool same_ports = old != NULL && slice != NULL && old->ports == slice->ports;
	if (kept != NULL) {
		change_kept(&count, kept, old, slice, true);
		count_finish(&count, !last);
		return;
	}
	if (!others && !spelled && (old == NULL || old->distinct) &&
	    (slice == NULL || slice->distinct)) {
		slice_add(&count, old, -1);
		slice_add(&count, slice, 1);
		count_finish(&count, !last);
		return;
	}
	struct replaced r = replaced_targets(cache, old, slice, spelled);
	size_t targets = r.was.count + r.is.count;
	while (replaced_next(&r)) {
		const struct slice_endpoints *either = r.from != NULL ? r.from : r.to;
		if (r.from != NULL && r.to != NULL && same_ports)
			continue;
		assert(either != NULL); /* it has this target */
		count.list_count = 0;
		if (others)
			other_lists(&count, either, r.target->i, spelled);
		target_add(&count, r.from, -1);
		target_add(&count, r.to, 1);
	}
	if (endpoints_crowded(count.found, targets))
		change_kept(&count, endpoint_srv_count_keep(cache, owner), old, slice, false);
	count_finish(&count, !last);
}

/* Counts all slices of the set; false, and nothing is counted, if their targets are to be kept. */
static bool
count_slices(struct count *count, bool spelled)
{
	const struct endpoint_set *endpoints = count->owner->endpoints;
	size_t all = 0;

	for (unsigned c = 0; c < endpoints->count; c++) {
		const struct slice_endpoints *slice = endpoints->slices[c].slice;
		struct slice_targets targets = slice_targets_of(count->cache, slice, spelled);
		for (size_t t = 0; t < targets.count; t++) {
			count->list_count = 0;
			/* A target is counted with the lowest slice that has it. */
			if (endpoints->count == 1 ||
			    other_lists(count, slice, targets.items[t].i, spelled)) {
				list_add(count, slice->ports);
				target_count(count);
			}
		}
		all += targets.count;
		free(targets.items);
		if (endpoints_crowded(count->found, all)) {
			groups_clear(count);
			return false;
		}
	}
	return true;
}

void
endpoint_srv_count_rebuild(struct treecache *cache, struct owner *owner)
{
	struct count count = { .cache = cache, .owner = owner };
	const struct endpoint_set *endpoints = owner->endpoints;
	bool spelled = endpoints->dashed > 0;

	srv_pairs_forget(cache, owner);
	if (endpoints->pairs != NULL) {
		struct endpoint_set *edit = endpoint_set_edit(cache, owner);
		cow_drop(cache, edit->pairs);
		edit->pairs = NULL;
	}
	endpoints = owner->endpoints;
	srv_targets_drop(cache, srv_targets_find(cache, owner));
	if (endpoints->flags & ENDPOINTS_APEX && !count_slices(&count, spelled)) {
		struct srv_targets *kept = endpoint_srv_count_keep(cache, owner);
		struct srv_target *target;
		size_t place = 0;
		while ((target = srv_targets_next(kept, &place)) != NULL) {
			kept_lists(&count, target);
			target_count(&count);
		}
	}
	count_finish(&count, false);
}
