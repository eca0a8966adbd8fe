/*
 * The numbers of (target, port number) pairs of a set, by label: read by answers, and changed by groups of
 * targets that have the same lists of ports (endpoint_srv_count.c).
 *
 * To change one number is to copy them all, and a tenant may have as many labels as ports. So the changes of
 * a set with many labels wait for each other, until the next publish or until they are as many as its labels.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/table.h"
#include "lib/xalloc.h"
#include "treecache/endpoint_internal.h"

uint64_t
endpoint_set_pairs(const struct endpoint_set *endpoints, uint64_t label)
{
	const struct srv_pairs *pairs = endpoints->pairs;
	size_t low = 0, high = pairs == NULL ? 0 : pairs->count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (pairs->items[middle].label == label)
			return pairs->items[middle].pairs;
		if (pairs->items[middle].label < label)
			low = middle + 1;
		else
			high = middle;
	}
	return 0;
}

/* --- what a group changes --- */

/* How many pairs more there are under a label. */
struct srv_deltas {
	struct srv_delta {
		uint64_t label;
		int64_t pairs;
	} * items;
	size_t count, room;
};

static void
delta_add(struct srv_deltas *deltas, uint64_t label, int64_t pairs)
{
	if (deltas->count == deltas->room) {
		deltas->room = deltas->room == 0 ? 16 : deltas->room * 2;
		deltas->items = xreallocarray(deltas->items, deltas->room, sizeof *deltas->items);
	}
	deltas->items[deltas->count++] = (struct srv_delta){ label, pairs };
}

/* What a list counts for each target of the group. */
static void
list_deltas(struct srv_deltas *deltas, const struct srv_group *group)
{
	const struct ports *ports = group->lists[0];

	if (ports->number_count > 0)
		delta_add(deltas, 0, group->targets * ports->number_count);
	for (size_t l = 0; l < ports->label_count; l++)
		delta_add(deltas, ports->labels[l].label, group->targets * ports->labels[l].count);
}

static size_t
put_numbers(struct labelled_number *out, const struct ports *ports)
{
	size_t count = 0;

	for (unsigned i = 0; i < ports->number_count; i++)
		out[count++] = (struct labelled_number){ 0, ports->numbers[i] };
	for (size_t l = 0; l < ports->label_count; l++) {
		const struct port_label *label = &ports->labels[l];
		for (unsigned i = 0; i < label->count; i++)
			out[count++] = (struct labelled_number){ label->label,
				ports->label_numbers[label->first + i] };
	}
	return count;
}

/* What the lists of a group share is taken off: a number that n of them have under a label, n - 1 times. */
static void
shared_deltas(struct srv_deltas *deltas, const struct srv_group *group)
{
	size_t room = 0, count = 0;

	for (size_t l = 0; l < group->count; l++)
		room += 3u * group->lists[l]->count; /* bare, by its protocol, and by its name */
	struct labelled_number *numbers = xcalloc(room + 1, sizeof *numbers);
	for (size_t l = 0; l < group->count; l++)
		count += put_numbers(numbers + count, group->lists[l]);
	qsort(numbers, count, sizeof *numbers, labelled_number_compare);
	for (size_t i = 0; i < count;) {
		uint64_t label = numbers[i].label;
		int64_t again = 0;
		while (++i < count && numbers[i].label == label)
			again += numbers[i].number == numbers[i - 1].number;
		if (again > 0)
			delta_add(deltas, label, -group->targets * again);
	}
	free(numbers);
}

/* --- all that changes --- */

static int
by_label(const void *a, const void *b)
{
	const struct srv_delta *da = a, *db = b;

	return (da->label > db->label) - (da->label < db->label);
}

/* Each label once, in order, those without a change left out. */
static void
deltas_sum(struct srv_deltas *deltas)
{
	size_t kept = 0;

	qsort(deltas->items, deltas->count, sizeof *deltas->items, by_label);
	for (size_t i = 0; i < deltas->count; kept += deltas->items[kept].pairs != 0) {
		struct srv_delta sum = deltas->items[i++];
		while (i < deltas->count && deltas->items[i].label == sum.label)
			sum.pairs += deltas->items[i++].pairs;
		deltas->items[kept] = sum;
	}
	deltas->count = kept;
}

/* Writes what the pairs and the deltas make together, as long as there is `out`; returns how many these are. */
static uint32_t
merge(const struct srv_pairs *old, const struct srv_deltas *deltas, struct srv_pair *out)
{
	size_t old_count = old == NULL ? 0 : old->count, i = 0, d = 0;
	uint32_t count = 0;

	while (i < old_count || d < deltas->count) {
		bool take_old = i < old_count && (d == deltas->count ||
						     old->items[i].label <= deltas->items[d].label);
		uint64_t label = take_old ? old->items[i].label : deltas->items[d].label;
		struct srv_pair pair = { label, take_old ? old->items[i++].pairs : 0 };
		if (d < deltas->count && deltas->items[d].label == label)
			pair.pairs += (uint64_t)deltas->items[d++].pairs;
		assert((int64_t)pair.pairs >= 0);
		if (pair.pairs == 0)
			continue;
		if (out != NULL)
			out[count] = pair;
		count++;
	}
	return count;
}

/* Adds the deltas to the set's pairs, and empties them. */
static void
deltas_apply(struct treecache *cache, struct owner *owner, struct srv_deltas *deltas)
{
	const struct srv_pairs *old = owner->endpoints->pairs;
	struct srv_pairs *pairs = NULL;

	if (deltas->count > 0)
		deltas_sum(deltas);
	if (deltas->count == 0)
		return;
	uint32_t count = merge(old, deltas, NULL);
	if (count > 0) {
		pairs = cow_new(cache, sizeof *pairs + count * sizeof *pairs->items);
		pairs->count = count;
		merge(old, deltas, pairs->items);
	}
	endpoint_set_edit(cache, owner)->pairs = pairs;
	cow_drop(cache, old);
	deltas->count = 0;
}

/* --- changes that wait --- */

enum { LABELS_AT_ONCE = 64 };

/* One owner's. */
struct srv_waiting {
	uint32_t hash; /* the owner's id */
	struct owner *owner;
	struct srv_deltas deltas;
};

static void
waiting_free(struct srv_waiting *waiting)
{
	free(waiting->deltas.items);
	free(waiting);
}

void
srv_pairs_change(
    struct treecache *cache, struct owner *owner, const struct table *groups, bool may_wait)
{
	const struct srv_pairs *pairs = owner->endpoints->pairs;
	size_t labels = pairs == NULL ? 0 : pairs->count, place = 0;
	struct srv_waiting *waiting = kept_of_owner(&cache->srv_waiting, owner);
	struct srv_deltas now = { 0 }, *deltas = &now;
	const struct srv_group *group;

	if (waiting == NULL && may_wait && labels > LABELS_AT_ONCE) {
		waiting = xmalloc(sizeof *waiting);
		*waiting = (struct srv_waiting){ .hash = owner->id, .owner = owner };
		table_add(&cache->srv_waiting, waiting);
	}
	if (waiting != NULL)
		deltas = &waiting->deltas;
	while ((group = table_next(groups, &place)) != NULL)
		if (group->targets != 0)
			(group->count == 1 ? list_deltas : shared_deltas)(deltas, group);
	if (waiting == NULL || !may_wait || deltas->count > labels)
		deltas_apply(cache, owner, deltas);
	if (waiting != NULL && !may_wait)
		srv_pairs_forget(cache, owner);
	free(now.items);
}

void
srv_pairs_forget(struct treecache *cache, const struct owner *owner)
{
	struct srv_waiting *waiting = kept_of_owner(&cache->srv_waiting, owner);

	if (waiting == NULL)
		return;
	table_remove(&cache->srv_waiting, waiting);
	waiting_free(waiting);
}

void
srv_pairs_settle(struct treecache *cache)
{
	struct srv_waiting *waiting;
	size_t place = 0;

	while ((waiting = table_next(&cache->srv_waiting, &place)) != NULL) {
		deltas_apply(cache, waiting->owner, &waiting->deltas);
		waiting_free(waiting);
	}
	table_free(&cache->srv_waiting);
}

void
srv_pairs_free_all(struct treecache *cache)
{
	struct srv_waiting *waiting;
	size_t place = 0;

	while ((waiting = table_next(&cache->srv_waiting, &place)) != NULL)
		waiting_free(waiting);
	table_free(&cache->srv_waiting);
}
