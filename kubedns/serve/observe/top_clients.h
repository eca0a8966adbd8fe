/*
 * The clients that send most queries, and the names that are queried most, in a fixed 16 KB. The
 * method is the Space-Saving sketch (Metwally, Agrawal and El Abbadi, 2005). There is one sketch
 * for client addresses and one for names.
 *
 *	a sampled answer --hash--> a set of 8 entries: increments its entry, or replaces the entry with
 *	                           the lowest count; the new entry takes that count as its count and `error`
 *
 * It observes the samples of all rings. A sample is one of RING_SAMPLE answers, chosen at random.
 * With a fixed interval, a client that alternates between A and AAAA would not be counted evenly.
 * All counts are halved each minute. The counts therefore represent about the last two minutes, and
 * the last minute has more weight. Only the main thread may use this module.
 */
#ifndef KUBEDNS_SERVE_OBSERVE_TOP_CLIENTS_H
#define KUBEDNS_SERVE_OBSERVE_TOP_CLIENTS_H

#include <netinet/in.h>
#include <stdint.h>

#include "kubedns/serve/observe/observers.h"

enum top_class {
	TOP_ALL,
	TOP_NXDOMAIN,
	TOP_SEARCH_WALK, /* NXDOMAIN for a name that a search list has made (see top_clients.c) */
	TOP_AAAA,
	TOP_OUTSIDE, /* external names */
	TOP_COUNT
};

enum {
	TOP_WAYS = 8,
	TOP_CLIENT_SETS = 20,
	TOP_NAME_SETS = 9,
	TOP_CLIENTS = TOP_CLIENT_SETS * TOP_WAYS,
	TOP_NAMES = TOP_NAME_SETS * TOP_WAYS,
	/* A longer name is identified by its hash and displayed by its last labels. */
	TOP_NAME_MAX = 96,
};

/* Number of samples in each class. The true value of TOP_ALL may be lower by up to `error`. If
 * all counts are 0, the entry is free. */
struct top_counts {
	uint32_t of[TOP_COUNT];
	uint32_t error;
};

struct top_client {
	struct in6_addr addr; /* IPv4 addresses are mapped */
	struct top_counts counts;
};

struct top_name {
	/* the name in wire format, or as many of its last labels as fit */
	uint8_t name[TOP_NAME_MAX];
	struct top_counts counts;
};

struct top_clients {
	uint64_t key;
	int64_t halved_ns; /* when the counts were last halved (monotonic) */
	int64_t before_ns; /* the time that the counts represented when they were halved */
	uint32_t totals[TOP_COUNT];
	uint32_t client_tags[TOP_CLIENTS], name_tags[TOP_NAMES];
	struct top_client clients[TOP_CLIENTS];
	struct top_name names[TOP_NAMES];
};
_Static_assert(sizeof(struct top_clients) <= 16384, "as said above");

/* `key` is for the hashes that choose the sets. Clients must not know it. */
struct top_clients *top_clients_new(uint64_t key, int64_t now_ns);

/* The observer that counts sampled answers. Its argument is the struct top_clients. */
extern const struct observer top_clients_observer;

/* Halves the counts as often as is due. */
void top_clients_age(struct top_clients *top, int64_t now_ns);

/* Returns the time in seconds that the counts represent. A rate is a count divided by this time. */
double top_clients_seconds(const struct top_clients *top, int64_t now_ns);

#endif
