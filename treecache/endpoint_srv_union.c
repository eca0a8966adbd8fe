/*
 * Counts the pairs of targets that are in several slices with different lists of ports: under each label,
 * the union of their numbers.
 *
 * There may be as many sets of lists as targets, and each list may be long: to make each union would take
 * their product, in time and in memory. So each list is looked at once: its numbers, with those of the
 * others, are sorted by label, and a number that is in some of the lists adds the targets that have one of
 * them. Numbers that follow each other and are in the same lists, as most are, are counted together.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "treecache/endpoint_internal.h"

/* A list that a group has. */
struct member {
	const struct ports *ports;
	size_t group;
};

/* A number under a label, in one list. */
struct numbered {
	struct labelled_number key;
	uint32_t list;
};

struct srv_union {
	const struct srv_group *const *groups;
	struct member *members; /* by list */
	size_t member_count;
	size_t *first; /* of each list in `members`, and behind the last one */
	size_t list_count;
	struct numbered *numbers; /* by label, number and list */
	size_t number_count;
	size_t *seen; /* of each group: the last question that counted it */
	size_t asked;
};

static int
by_list(const void *a, const void *b)
{
	const struct member *ma = a, *mb = b;

	return ((uintptr_t)ma->ports > (uintptr_t)mb->ports) -
	       ((uintptr_t)ma->ports < (uintptr_t)mb->ports);
}

static void
collect_members(struct srv_union *u, size_t group_count)
{
	size_t room = 0;

	for (size_t g = 0; g < group_count; g++)
		room += u->groups[g]->count;
	u->members = xcalloc(room, sizeof *u->members);
	u->first = xcalloc(room + 1, sizeof *u->first);
	for (size_t g = 0; g < group_count; g++)
		for (size_t l = 0; l < u->groups[g]->count; l++)
			u->members[u->member_count++] =
			    (struct member){ u->groups[g]->lists[l], g };
	qsort(u->members, room, sizeof *u->members, by_list);
	for (size_t m = 0; m < room; m++)
		if (m == 0 || u->members[m].ports != u->members[m - 1].ports)
			u->first[u->list_count++] = m;
	u->first[u->list_count] = room;
}

static int
by_number(const void *a, const void *b)
{
	const struct numbered *na = a, *nb = b;
	int order = labelled_number_compare(&na->key, &nb->key);

	return order != 0 ? order : (na->list > nb->list) - (na->list < nb->list);
}

static void
put_number(struct srv_union *u, uint64_t label, uint16_t number, size_t list)
{
	u->numbers[u->number_count++] = (struct numbered){ { label, number }, (uint32_t)list };
}

static void
collect_numbers(struct srv_union *u)
{
	size_t room = 1;

	for (size_t l = 0; l < u->list_count; l++) {
		const struct ports *ports = u->members[u->first[l]].ports;
		room += ports->number_count + 2u * ports->count;
	}
	u->numbers = xcalloc(room, sizeof *u->numbers);
	for (size_t l = 0; l < u->list_count; l++) {
		const struct ports *ports = u->members[u->first[l]].ports;
		for (unsigned i = 0; i < ports->number_count; i++)
			put_number(u, 0, ports->numbers[i], l);
		for (size_t n = 0; n < ports->label_count; n++) {
			const struct port_label *label = &ports->labels[n];
			for (unsigned i = 0; i < label->count; i++)
				put_number(
				    u, label->label, ports->label_numbers[label->first + i], l);
		}
	}
	qsort(u->numbers, u->number_count, sizeof *u->numbers, by_number);
}

/* The targets that have one of the lists of numbers [i, end), which are one number. */
static int64_t
targets_of_number(struct srv_union *u, size_t i, size_t end)
{
	int64_t targets = 0;

	u->asked++;
	for (; i < end; i++) {
		size_t list = u->numbers[i].list;
		for (size_t m = u->first[list]; m < u->first[list + 1]; m++) {
			size_t group = u->members[m].group;
			if (u->seen[group] != u->asked)
				targets += u->groups[group]->targets;
			u->seen[group] = u->asked;
		}
	}
	return targets;
}

static bool
same_lists(const struct numbered *a, const struct numbered *b, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (a[i].list != b[i].list)
			return false;
	return true;
}

static void
count_numbers(struct srv_union *u, struct srv_deltas *deltas)
{
	const struct numbered *numbers = u->numbers;
	size_t begun = 0, len = 0; /* of the number before */
	int64_t targets = 0, pairs = 0;

	for (size_t i = 0, end; i < u->number_count; i = end) {
		for (end = i + 1; end < u->number_count; end++)
			if (labelled_number_compare(&numbers[end].key, &numbers[i].key) != 0)
				break;
		if (len != end - i || !same_lists(numbers + begun, numbers + i, len))
			targets = targets_of_number(u, i, end);
		begun = i;
		len = end - i;
		pairs += targets;
		if (end < u->number_count && numbers[end].key.label == numbers[i].key.label)
			continue;
		srv_delta_add(deltas, numbers[i].key.label, pairs);
		pairs = 0;
	}
}

void
srv_union_count(
    struct srv_deltas *deltas, const struct srv_group *const *groups, size_t group_count)
{
	struct srv_union u = { .groups = groups };

	if (group_count == 0)
		return;
	u.seen = xcalloc(group_count, sizeof *u.seen);
	collect_members(&u, group_count);
	collect_numbers(&u);
	count_numbers(&u, deltas);
	free(u.seen);
	free(u.numbers);
	free(u.first);
	free(u.members);
}
