/*
 * The clients that send most queries and the names that are queried most, in 16 KB whatever is
 * queried: the Space-Saving sketch (Metwally, Agrawal and El Abbadi, 2005), once for client
 * addresses and once for names.
 *
 *	a sampled answer --hash--> a set of 8 entries: counts there, or takes the lightest entry's place
 *	                           and its count, which is then the new entry's `error`
 *
 * It observes the samples of all rings: one answer in RING_SAMPLE, chosen at random, so that a client
 * that alternates between A and AAAA is counted evenly. All counts are halved each minute. So they
 * stand for about the last two minutes, with more weight on the later one. For the main thread
 * alone.
 */
#ifndef KUBEDNS_SERVE_OBSERVE_TOP_CLIENTS_H
#define KUBEDNS_SERVE_OBSERVE_TOP_CLIENTS_H

#include <netinet/in.h>
#include <stdint.h>

#include "kubedns/serve/observe/observers.h"

enum top_class {
	TOP_ALL,
	TOP_NXDOMAIN,
	TOP_SEARCH_WALK, /* NXDOMAIN of a name that a search list has made: see top_clients.c */
	TOP_AAAA,
	TOP_OUTSIDE, /* of names that are not the cluster's */
	TOP_COUNT
};

enum {
	TOP_WAYS = 8,
	TOP_CLIENT_SETS = 20,
	TOP_NAME_SETS = 9,
	TOP_CLIENTS = TOP_CLIENT_SETS * TOP_WAYS,
	TOP_NAMES = TOP_NAME_SETS * TOP_WAYS,
	TOP_NAME_MAX = 96, /* a longer name is known by its hash and shown by its end */
};

/* Samples of each class; TOP_ALL may be too high by `error`. All 0: the entry is free. */
struct top_counts {
	uint32_t of[TOP_COUNT];
	uint32_t error;
};

struct top_client {
	struct in6_addr addr; /* IPv4 is mapped */
	struct top_counts counts;
};

struct top_name {
	uint8_t name[TOP_NAME_MAX]; /* in wire form, or the last labels that fit */
	struct top_counts counts;
};

struct top_clients {
	uint64_t key;
	int64_t halved_ns; /* when the counts were halved, on the monotonic clock */
	int64_t before_ns; /* the time that the counts of before then stand for */
	uint32_t totals[TOP_COUNT];
	uint32_t client_tags[TOP_CLIENTS], name_tags[TOP_NAMES];
	struct top_client clients[TOP_CLIENTS];
	struct top_name names[TOP_NAMES];
};
_Static_assert(sizeof(struct top_clients) <= 16384, "as said above");

/* `key` is for the hashes that choose the sets: clients must not know it. */
struct top_clients *top_clients_new(uint64_t key, int64_t now_ns);

/* Counts sampled answers; its argument is the struct top_clients. */
extern const struct observer top_clients_observer;

/* Halves the counts as often as is due. */
void top_clients_age(struct top_clients *top, int64_t now_ns);

/* The time in seconds that the counts stand for: a rate is a count divided by it. */
double top_clients_seconds(const struct top_clients *top, int64_t now_ns);

#endif
