/*
 * Who asks most and what is asked most, in 16 KB a worker whatever is asked: the Space-Saving
 * sketch (Metwally, Agrawal and El Abbadi, 2005), once for client addresses and once for names.
 *
 *	1 of TALKERS_SAMPLE answers --hash--> a set of 8 entries: counts there, or takes the lightest one's
 *	                                      place and count, which is then the entry's `error`
 *
 * Answers are sampled at random, one in 40 on average, so that a query pays a fortieth of the cost,
 * and a client that alternates between A and AAAA is counted evenly. All counts are halved each
 * minute, by all workers at the same time: they are for about the last two minutes, the later one with
 * more weight.
 *
 * The worker writes and the main thread reads, by a sequence lock: `turn` is odd while the worker
 * writes, and a reader whose copy began or ended at an odd or another `turn` copies again.
 */
#ifndef KUBEDNS_SERVE_OBSERVE_TALKERS_H
#define KUBEDNS_SERVE_OBSERVE_TALKERS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "kubedns/answer/answer.h"

enum talk_class {
	TALK_ALL,
	TALK_NXDOMAIN,
	TALK_SEARCH_WALK, /* NXDOMAIN of a name that a search list has made: see talkers.c */
	TALK_AAAA,
	TALK_OUTSIDE, /* of names that are not the cluster's */
	TALK_COUNT
};

enum {
	TALKERS_SAMPLE = 40,
	TALKERS_WAYS = 8,
	TALKERS_CLIENT_SETS = 20,
	TALKERS_NAME_SETS = 9,
	TALKERS_CLIENTS = TALKERS_CLIENT_SETS * TALKERS_WAYS,
	TALKERS_NAMES = TALKERS_NAME_SETS * TALKERS_WAYS,
	TALKERS_NAME_MAX = 96, /* a longer name is known by its hash and shown by its end */
};

/* Samples of each class; TALK_ALL may be too high by `error`. All 0: the entry is free. */
struct talk_counts {
	uint32_t of[TALK_COUNT];
	uint32_t error;
};

struct talking_client {
	_Alignas(uint64_t) struct in6_addr addr; /* IPv4 is mapped */
	struct talk_counts counts;
};

struct asked_name {
	/* The name as it was asked, or the last labels that fit, in whole words; root included. */
	_Alignas(uint64_t) uint8_t name[TALKERS_NAME_MAX];
	struct talk_counts counts;
};

struct talkers {
	uint32_t turn;
	/* The worker's alone: answers until the next sample, and how it is chosen. */
	uint32_t left;
	uint64_t random, key;
	/* A reader copies everything from here on. */
	int64_t halved_ns; /* when the counts were halved, on the monotonic clock */
	int64_t before_ns; /* the time that the counts of before then stand for */
	uint32_t totals[TALK_COUNT];
	uint32_t client_tags[TALKERS_CLIENTS], name_tags[TALKERS_NAMES];
	struct talking_client clients[TALKERS_CLIENTS];
	struct asked_name names[TALKERS_NAMES];
};
_Static_assert(sizeof(struct talkers) <= 16384, "64 KB with four workers");

/* `key` keys the hashes that choose the sets: clients must not know it. */
void talkers_init(struct talkers *talkers, uint64_t key, int64_t now_ns);

/* Whether this answer is the one to look at; for the worker alone, as the next function. */
static inline bool
talkers_due(struct talkers *talkers)
{
	return --talkers->left == 0;
}

/* Counts this answer and chooses the next one. */
void talkers_sample(struct talkers *talkers, const struct sockaddr *client,
    const struct answer_info *info, int64_t now_ns);

/*
 * Copies the counts as of `now_ns`, for any thread; false if the worker was writing during each of
 * a hundred tries. Only the members from halved_ns on are set in the copy.
 */
bool talkers_read(const struct talkers *talkers, struct talkers *copy, int64_t now_ns);

/* The time in seconds that the counts of a copy stand for: a rate is a count divided by it. */
double talkers_seconds(const struct talkers *copy, int64_t now_ns);

#endif
