#include "kubedns/serve/observe/talkers.h"

#include <sched.h>
#include <string.h>

#include "kubedns/serve/observe/recorder.h"
#include "lib/clock.h"
#include "lib/hash.h"

enum { READ_TRIES = 100, HALVINGS_MAX = 32 };
static const int64_t halving_ns = 60 * NS_PER_S;

#define PUT RECORD_PUT
#define GET RECORD_GET

static void
choose_next(struct talkers *talkers)
{
	/* xorshift64* (Vigna 2014) */
	talkers->random ^= talkers->random >> 12;
	talkers->random ^= talkers->random << 25;
	talkers->random ^= talkers->random >> 27;
	uint64_t random = talkers->random * UINT64_C(2685821657736338717);
	talkers->left = 1 + (uint32_t)((random >> 32) * (2 * TALKERS_SAMPLE - 1) >> 32);
}

void
talkers_init(struct talkers *talkers, uint64_t key, int64_t now_ns)
{
	memset(talkers, 0, sizeof(*talkers));
	talkers->key = key;
	talkers->random = key | 1;
	/* All workers at the same time, or a reader would add halves to wholes. */
	talkers->halved_ns = now_ns - now_ns % halving_ns;
	talkers->before_ns = -(now_ns % halving_ns);
	choose_next(talkers);
}

/* --- counting --- */

/*
 * A stock resolver library first tries a name with few dots under each search domain. For an
 * outside name that gives NXDOMAIN at a name with more labels than a Service has: x.com.web.svc
 * below our zone, or x.com right below it. x.com.svc could be a Service that is missing, and is not
 * counted.
 */
static bool
is_search_walk(const struct answer_info *info)
{
	const struct query *query = &info->query;
	if (info->rcode != RCODE_NXDOMAIN || info->refused != 0 || info->below < 2)
		return false;
	const uint8_t *last = query->qname + query->labels[info->below - 1];
	if (memcmp(last, "\3svc", 4) == 0)
		return info->below >= 4 && query->qname[1] != '_';
	return memcmp(last, "\3pod", 4) != 0;
}

/* A bit for each class that the answer is of. */
static unsigned
classes_of(const struct answer_info *info)
{
	unsigned classes = 1u << TALK_ALL;
	if (info->rcode == RCODE_NXDOMAIN)
		classes |= 1u << TALK_NXDOMAIN;
	if (is_search_walk(info))
		classes |= 1u << TALK_SEARCH_WALK;
	if (info->query.qtype == TYPE_AAAA)
		classes |= 1u << TALK_AAAA;
	if (info->system == SYSTEM_RECURSIVE)
		classes |= 1u << TALK_OUTSIDE;
	return classes;
}

static void
count(uint32_t of[TALK_COUNT], unsigned classes)
{
	for (; classes != 0; classes &= classes - 1) {
		uint32_t *counter = &of[__builtin_ctz(classes)];
		PUT(*counter, *counter + 1);
	}
}

/*
 * The place in a set of the entry with this tag, else (`*known` false) of the entry with the lowest
 * count. `first` is the first entry's counts; those of the others follow `stride` bytes apart.
 */
static inline unsigned
find_place(
    const uint32_t *tags, const struct talk_counts *first, size_t stride, uint32_t tag, bool *known)
{
	unsigned lightest = 0;
	const uint8_t *counts = (const uint8_t *)first;
	uint32_t least = UINT32_MAX;
	for (unsigned i = 0; i < TALKERS_WAYS; i++)
		if (tags[i] == tag) {
			*known = true;
			return i;
		}
	*known = false;
	for (unsigned i = 0; i < TALKERS_WAYS; i++, counts += stride) {
		uint32_t all = ((const struct talk_counts *)(const void *)counts)->of[TALK_ALL];
		lightest = all < least ? i : lightest;
		least = all < least ? all : least;
	}
	return lightest;
}

/* A new entry takes over the count of the one that it replaces, as its possible error. */
static void
take_over(struct talk_counts *counts)
{
	PUT(counts->error, counts->of[TALK_ALL]);
	for (unsigned c = TALK_ALL + 1; c < TALK_COUNT; c++)
		PUT(counts->of[c], 0);
}

static void
count_client(struct talkers *talkers, const struct sockaddr *from, unsigned classes)
{
	struct in6_addr addr = { .s6_addr = { [10] = 0xff, [11] = 0xff } };
	bool known;
	if (from->sa_family == AF_INET)
		memcpy(&addr.s6_addr[12],
		    (const uint8_t *)from + offsetof(struct sockaddr_in, sin_addr), 4);
	else
		memcpy(&addr, (const uint8_t *)from + offsetof(struct sockaddr_in6, sin6_addr),
		    sizeof(addr));
	uint64_t hash = hash64(talkers->key, addr.s6_addr, sizeof(addr));
	size_t set = (size_t)((hash >> 32) * TALKERS_CLIENT_SETS >> 32) * TALKERS_WAYS;
	struct talking_client *entries = &talkers->clients[set];
	unsigned i = find_place(
	    &talkers->client_tags[set], &entries->counts, sizeof(*entries), (uint32_t)hash, &known);
	if (!known) {
		PUT(talkers->client_tags[set + i], (uint32_t)hash);
		record_copy(&entries[i].addr, &addr, sizeof(addr));
		take_over(&entries[i].counts);
	}
	count(entries[i].counts.of, classes);
}

/* The offset of the part of a name that is kept: as many of its last labels as fit. The root has no
 * label, so nothing has written labels[0]. */
static size_t
name_kept(const struct query *query)
{
	unsigned label = 0;
	if (query->label_count == 0)
		return 0;
	while (query->qname_len - query->labels[label] > TALKERS_NAME_MAX - 8)
		label++;
	return query->labels[label];
}

static void
count_name(struct talkers *talkers, const struct answer_info *info, unsigned classes)
{
	const struct query *query = &info->query;
	bool known;
	uint64_t hash = hash64(talkers->key, query->qname, query->qname_len);
	size_t set = (size_t)((hash >> 32) * TALKERS_NAME_SETS >> 32) * TALKERS_WAYS;
	struct asked_name *entries = &talkers->names[set];
	unsigned i = find_place(
	    &talkers->name_tags[set], &entries->counts, sizeof(*entries), (uint32_t)hash, &known);
	if (!known) {
		size_t from = name_kept(query);
		size_t len =
		    (query->qname_len - from + RECORD_WORD - 1) & ~(size_t)(RECORD_WORD - 1);
		PUT(talkers->name_tags[set + i], (uint32_t)hash);
		record_copy(entries[i].name, query->qname + from, len);
		take_over(&entries[i].counts);
	}
	count(entries[i].counts.of, classes);
}

/* --- time --- */

static void
halve(struct talk_counts *counts)
{
	for (unsigned c = 0; c < TALK_COUNT; c++)
		PUT(counts->of[c], counts->of[c] / 2);
	PUT(counts->error, counts->error / 2);
}

/* Halves the counts as often as is due by `now_ns`. */
static void
grow_old(struct talkers *talkers, int64_t now_ns)
{
	for (unsigned n = 0; now_ns - talkers->halved_ns >= halving_ns; n++) {
		if (n == HALVINGS_MAX) { /* nothing is left */
			PUT(talkers->halved_ns, now_ns - now_ns % halving_ns);
			return;
		}
		for (unsigned i = 0; i < TALKERS_CLIENTS; i++)
			halve(&talkers->clients[i].counts);
		for (unsigned i = 0; i < TALKERS_NAMES; i++)
			halve(&talkers->names[i].counts);
		for (unsigned c = 0; c < TALK_COUNT; c++)
			PUT(talkers->totals[c], talkers->totals[c] / 2);
		PUT(talkers->before_ns, (talkers->before_ns + halving_ns) / 2);
		PUT(talkers->halved_ns, talkers->halved_ns + halving_ns);
	}
}

void
talkers_sample(struct talkers *talkers, const struct sockaddr *client,
    const struct answer_info *info, int64_t now_ns)
{
	unsigned classes = classes_of(info);
	choose_next(talkers);
	PUT(talkers->turn, talkers->turn + 1);
	if (now_ns - talkers->halved_ns >= halving_ns)
		grow_old(talkers, now_ns);
	count(talkers->totals, classes);
	count_client(talkers, client, classes);
	if (info->query.has_question)
		count_name(talkers, info, classes);
	PUT(talkers->turn, talkers->turn + 1);
}

/* --- for the main thread --- */

bool
talkers_read(const struct talkers *talkers, struct talkers *copy, int64_t now_ns)
{
	enum { SHARED = offsetof(struct talkers, halved_ns) };
	_Static_assert((sizeof(*talkers) - SHARED) % RECORD_WORD == 0, "copied by words");
	for (unsigned i = 0; i < READ_TRIES; i++) {
		uint32_t turn = GET(talkers->turn);
		recorder_copy_out((uint8_t *)copy + SHARED, (const uint8_t *)talkers + SHARED,
		    sizeof(*copy) - SHARED);
		if (turn % 2 == 0 && GET(talkers->turn) == turn) {
			grow_old(copy, now_ns);
			return true;
		}
		sched_yield();
	}
	return false;
}

double
talkers_seconds(const struct talkers *copy, int64_t now_ns)
{
	return (double)(copy->before_ns + now_ns - copy->halved_ns) / 1e9;
}
