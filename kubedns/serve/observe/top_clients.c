#include "kubedns/serve/observe/top_clients.h"

#include <string.h>

#include "lib/clock.h"
#include "lib/hash.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

enum { HALVINGS_MAX = 32 };
static const int64_t halving_ns = 60 * NS_PER_S;

struct top_clients *
top_clients_new(uint64_t key, int64_t now_ns)
{
	struct top_clients *top = xcalloc(1, sizeof *top);

	top->key = key;
	top->halved_ns = now_ns - now_ns % halving_ns;
	top->before_ns = -(now_ns % halving_ns);
	return top;
}

/* --- counting samples --- */

/*
 * A stock resolver library first tries a name with few dots under each search domain. For an external name, the result is NXDOMAIN for a
 * name that cannot be a Service, such as x.com.web.svc below our zone or x.com directly below it. x.com.svc could be a missing Service, and
 * is not counted.
 */
static bool
is_search_walk(const struct ring_record *record)
{
	const uint8_t *first = record->name.wire, *last = first;

	if (record->rcode != RCODE_NXDOMAIN || record->below < 2)
		return false;
	for (int i = 1; i < record->below; i++)
		last += 1u + *last;
	if (memcmp(last, "\3svc", 4) == 0)
		return record->below >= 4 && first[1] != '_';
	return memcmp(last, "\3pod", 4) != 0;
}

/* Returns a bit for each class to which the answer belongs. */
static unsigned
classes_of(const struct ring_record *record)
{
	unsigned classes = 1u << TOP_ALL;

	if (record->rcode == RCODE_NXDOMAIN)
		classes |= 1u << TOP_NXDOMAIN;
	if (is_search_walk(record))
		classes |= 1u << TOP_SEARCH_WALK;
	if (record->type == TYPE_AAAA)
		classes |= 1u << TOP_AAAA;
	if (record->outside)
		classes |= 1u << TOP_OUTSIDE;
	return classes;
}

static void
count(uint32_t of[TOP_COUNT], unsigned classes)
{
	for (; classes != 0; classes &= classes - 1)
		of[__builtin_ctz(classes)]++;
}

/*
 * Returns the index of the entry with this tag in a set. If there is none, sets `*known` to false and returns the index of the entry with
 * the lowest count. `first` points to the counts of the first entry. The counts of the other entries follow at intervals of `stride` bytes.
 */
static unsigned
find_place(
    const uint32_t *tags, const struct top_counts *first, size_t stride, uint32_t tag, bool *known)
{
	const uint8_t *counts = (const uint8_t *)first;
	uint32_t least = UINT32_MAX;
	unsigned lightest = 0;

	*known = true;
	for (unsigned i = 0; i < TOP_WAYS; i++)
		if (tags[i] == tag)
			return i;
	*known = false;
	for (unsigned i = 0; i < TOP_WAYS; i++, counts += stride) {
		uint32_t all = ((const struct top_counts *)(const void *)counts)->of[TOP_ALL];

		lightest = all < least ? i : lightest;
		least = all < least ? all : least;
	}
	return lightest;
}

/* Starts a new entry. The new entry takes the count of the entry that it replaces. That count is also the new entry's possible error. */
static void
take_over(struct top_counts *counts)
{
	*counts =
	    (struct top_counts){ .of[TOP_ALL] = counts->of[TOP_ALL], .error = counts->of[TOP_ALL] };
}

static void
count_client(struct top_clients *top, const struct addr *from, unsigned classes)
{
	struct in6_addr addr = { .s6_addr = { [10] = 0xff, [11] = 0xff } };
	bool known;

	if (from->family == AF_INET)
		memcpy(&addr.s6_addr[12], from->bytes, 4);
	else
		memcpy(&addr, from->bytes, sizeof addr);
	uint64_t hash = hash64(top->key, &addr, sizeof addr);
	size_t set = hash_place(hash, TOP_CLIENT_SETS) * TOP_WAYS;
	struct top_client *entries = &top->clients[set];
	unsigned i = find_place(
	    &top->client_tags[set], &entries->counts, sizeof *entries, (uint32_t)hash, &known);
	if (!known) {
		top->client_tags[set + i] = (uint32_t)hash;
		entries[i].addr = addr;
		take_over(&entries[i].counts);
	}
	count(entries[i].counts.of, classes);
}

/* Returns the end of the name, with as many of its last labels as fit into an entry. */
static const uint8_t *
end_of_name(const struct dname *name)
{
	const uint8_t *from = name->wire, *end = name->wire + name->len;

	while (end - from > TOP_NAME_MAX)
		from += 1u + *from;
	return from;
}

static void
count_name(struct top_clients *top, const struct dname *name, unsigned classes)
{
	uint64_t hash = hash64(top->key, name->wire, name->len);
	size_t set = hash_place(hash, TOP_NAME_SETS) * TOP_WAYS;
	struct top_name *entries = &top->names[set];
	bool known;

	unsigned i = find_place(
	    &top->name_tags[set], &entries->counts, sizeof *entries, (uint32_t)hash, &known);
	if (!known) {
		const uint8_t *from = end_of_name(name);

		top->name_tags[set + i] = (uint32_t)hash;
		memcpy(entries[i].name, from, (size_t)(name->wire + name->len - from));
		take_over(&entries[i].counts);
	}
	count(entries[i].counts.of, classes);
}

static void
consume(void *arg, const struct ring_record *record)
{
	struct top_clients *top = arg;
	unsigned classes = classes_of(record);

	top_clients_age(top, record->at_ns);
	count(top->totals, classes);
	count_client(top, &record->peer.addr, classes);
	if (record->name.len > 0)
		count_name(top, &record->name, classes);
}

const struct observer top_clients_observer = { "top_clients", OBSERVE_SAMPLES, consume };

/* --- halving the counts --- */

static void
halve(struct top_counts *counts)
{
	for (unsigned c = 0; c < TOP_COUNT; c++)
		counts->of[c] /= 2;
	counts->error /= 2;
}

void
top_clients_age(struct top_clients *top, int64_t now_ns)
{
	for (unsigned n = 0; now_ns - top->halved_ns >= halving_ns; n++) {
		if (n == HALVINGS_MAX) { /* after this number of halvings, all counts are 0 */
			top->halved_ns = now_ns - now_ns % halving_ns;
			return;
		}
		for (unsigned i = 0; i < TOP_CLIENTS; i++)
			halve(&top->clients[i].counts);
		for (unsigned i = 0; i < TOP_NAMES; i++)
			halve(&top->names[i].counts);
		for (unsigned c = 0; c < TOP_COUNT; c++)
			top->totals[c] /= 2;
		top->before_ns = (top->before_ns + halving_ns) / 2;
		top->halved_ns += halving_ns;
	}
}

double
top_clients_seconds(const struct top_clients *top, int64_t now_ns)
{
	return (double)(top->before_ns + now_ns - top->halved_ns) / 1e9;
}
