/*
 * The number of answers that the top clients of kubedns got in the last ten minutes. Pure.
 *
 *	/top every 2.5 s: the ten top clients, counts halved each minute
 *	     --> growth since the previous reading --> buckets of 10 s
 *
 * The previous list may be full, and a client may not be on it. Such a client had at most as many answers as the last client on the list.
 * Only answers above that number count as growth, so a rate may be too low. A rate is too high only because of sampling: kubedns samples 1
 * answer in 40, and 40 answers in a bucket are 4 per second. The table has places for the clients of two lists, in 14 KB. Each place
 * contains an address, the name of the pod and sixty counts. A new client replaces the unlisted client with the fewest answers.
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
	bool listed;              /* the client is in the newest reading of /top */
	double queries;           /* the client's count in that reading */
	struct buckets answers;
};

struct client_rates {
	/* time of the previous reading, monotonic; 0 if there is none to compare with */
	int64_t read_ns;
	/* time that the counts of the previous reading cover; falls when kubedns halves the counts */
	double seconds;
	double start_s;  /* start time of the kubedns that was read */
	double unlisted; /* upper bound of the count of a client that was not listed */
	struct client_rate clients[CLIENT_RATES_MAX];
};

/* One reading of /top. */
struct client_reading {
	const struct kubedns_talker *clients;
	size_t count;
	double seconds; /* time that the counts cover */
	double start_s; /* start time of kubedns */
	/* answers to all clients since the previous reading; the count of one client cannot have
	 * grown by more */
	double answers;
	int64_t now_ns;
};

void client_rates_read(struct client_rates *rates, const struct client_reading *reading);

/* Notes that a reading failed. The next reading is then not compared with an older one. */
void client_rates_missed(struct client_rates *rates);

/* Fills in the clients with the most answers in the last ten minutes, highest count first. Returns the number of clients. */
size_t client_rates_heaviest(const struct client_rates *rates, int64_t now_ns,
    const struct client_rate *heaviest[CLIENT_RATES_SHOWN]);

/*
 * Finds the client to blame for overload: the one with at least half of the answers in certain buckets. These are each bucket in which `when`
 * is not zero, and the next bucket. Returns NULL if there is no such client. Loopback clients do not count, because dnsmasq is such a client
 * and forwards the queries of other clients. Sets `share` to the client's share of the answers in `all`, an array of `kinds` buckets.
 */
const struct client_rate *client_rates_flooder(const struct client_rates *rates, int64_t now_ns,
    const struct buckets *when, const struct buckets *all, size_t kinds, double *share);

#endif
