/*
 * How many answers the heaviest clients of kubedns got, over the last ten minutes.
 *
 *	/top every 2.5 s: the ten heaviest, counts halved each minute
 *	     --> growth since the reading before --> buckets of 10 s
 *
 * A client that was not listed the time before had at most as many answers as the last one on that full
 * list; only what exceeds these is its growth. So a rate may be too low, and too high only by the
 * sampling (1 answer in 40: 40 answers in a bucket are 4 a second). All of it is 14 KB: the clients of
 * two lists, each with an address, its pod's name and sixty counts. A new client takes the place of the
 * unlisted one with the fewest answers. Pure.
 */
#ifndef SIDECAR_CONTAINERS_CLIENT_RATES_H
#define SIDECAR_CONTAINERS_CLIENT_RATES_H

#include "lib/addr.h"
#include "sidecar/history.h"

struct kubedns_talker;

enum { CLIENT_RATES_MAX = 20, CLIENT_RATES_SHOWN = 5, CLIENT_POD_MAX = 384 };

struct client_rate {
	char name[ADDR_TEXT_MAX];
	char pod[CLIENT_POD_MAX]; /* as in struct kubedns_talker */
	bool listed;              /* in the newest reading */
	double queries;           /* its count there */
	struct buckets answers;
};

struct client_rates {
	int64_t read_ns; /* monotonic; 0: there is no reading to compare with */
	double
	    seconds; /* that the counts of that reading stood for; it falls when they are halved */
	double start_s;  /* of the kubedns that was read */
	double unlisted; /* the most that a client can have had that was not listed */
	struct client_rate clients[CLIENT_RATES_MAX];
};

/* What /top says at one time. */
struct client_reading {
	const struct kubedns_talker *clients;
	size_t count;
	double seconds; /* that their counts stand for */
	double start_s; /* of kubedns */
	double
	    answers; /* of kubedns to all clients since the reading before: no client's growth is more */
	int64_t now_ns;
};

void client_rates_read(struct client_rates *rates, const struct client_reading *reading);

/* There was no reading: the next one has nothing to be compared with. */
void client_rates_missed(struct client_rates *rates);

/* The clients with the most answers in the last ten minutes, the first the heaviest; their number. */
size_t client_rates_heaviest(const struct client_rates *rates, int64_t now_ns,
    const struct client_rate *heaviest[CLIENT_RATES_SHOWN]);

/*
 * The client that got the most of `all` (an array of buckets, `kinds` long) in the ten-second spans in
 * which `when` counts something, and the spans after those; NULL: none. `share` is its part of `all`.
 */
const struct client_rate *client_rates_meanwhile(const struct client_rates *rates, int64_t now_ns,
    const struct buckets *when, const struct buckets *all, size_t kinds, double *share);

#endif
