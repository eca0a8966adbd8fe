/*
 * Who asks most and what is asked most, in 16 KB a worker whatever is asked: the Space-Saving sketch
 * (Metwally, Agrawal and El Abbadi, 2005), once for client addresses and once for names.
 *
 *	1 of TALKERS_SAMPLE answers --hash--> a set of 8 entries: counts there, or takes the lightest one's
 *	                                      place and count, which is then the entry's `error`
 *
 * An answer is looked at by chance, one in 40 in the mean, so that a query pays a fortieth of
 * what looking costs; what somebody asks in turns (A, AAAA) is seen evenly. Each minute all counts are
 * halved: they are of the last two minutes, the last one more than the one before.
 *
 * The worker writes and the main thread reads: an odd `turn` says that something is being written,
 * and a reader copies again if it has changed meanwhile.
 */
#ifndef KUBEDNS_SERVE_TALKERS_H
#define KUBEDNS_SERVE_TALKERS_H

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

/* How many samples there were; `error` at most too many of TALK_ALL. All 0: the entry is free. */
struct talk_counts {
	uint32_t of[TALK_COUNT];
	uint32_t error;
};

struct talking_client {
	struct in6_addr addr; /* IPv4 is mapped */
	struct talk_counts counts;
};

struct asked_name {
	/* The last bytes of the name as it was asked, from a label on, in whole words; root included. */
	uint8_t name[TALKERS_NAME_MAX];
	struct talk_counts counts;
};

struct talkers {
	uint32_t turn;
	/* The worker's alone: answers until the next sample, and how it is chosen. */
	uint32_t left;
	uint64_t random, key;
	/* From here on it is copied. */
	int64_t halved_ns; /* when, on the monotonic clock */
	int64_t before_ns; /* the time that what was counted until then stands for */
	uint32_t totals[TALK_COUNT];
	uint32_t client_tags[TALKERS_CLIENTS], name_tags[TALKERS_NAMES];
	struct talking_client clients[TALKERS_CLIENTS];
	struct asked_name names[TALKERS_NAMES];
};
_Static_assert(sizeof(struct talkers) <= 16384, "64 KB with four workers");

/* `key` decides what shares a set: clients must not know it. */
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
 * Copies what there is at `now_ns`, for any thread; false if the worker was in the way of it a
 * hundred times. Only totals, clients, names and the times are of use in the copy.
 */
bool talkers_read(const struct talkers *talkers, struct talkers *copy, int64_t now_ns);

/* The time that the counts of a copy stand for: a rate is a count by this. */
double talkers_seconds(const struct talkers *copy, int64_t now_ns);

#endif
