/*
 * How long to wait after a failure: 0.8 s doubling to a limit with full jitter, so that a thousand
 * replicas that failed at one moment do not come back at one moment; after two good minutes it
 * begins anew. Pure but for the random numbers; the caller's clock is monotonic.
 *
 * The limit is 30 s for what a server answered, since each answer costs it, and 5 s for finding out
 * whether there is a server at all, which one connection attempt for all resources does: that costs
 * a refused connection every 2.5 s, fewer than three resources that wait for themselves would make,
 * and it is what decides how soon the data is right again.
 */
#ifndef KUBEDNS_API_BACKOFF_H
#define KUBEDNS_API_BACKOFF_H

#include <stdint.h>

enum {
	BACKOFF_FIRST_MS = 800,
	BACKOFF_MAX_MS = 30000,
	BACKOFF_AWAY_MAX_MS = 5000,
	BACKOFF_GOOD_MS = 120000
};

/* All zero: nothing has failed yet. */
struct backoff {
	unsigned failures;
	int64_t good_since_ms; /* 0: not good */
};

/* Something failed: the milliseconds to wait, from 0 to the present limit, `max_ms` at most. */
int64_t backoff_failed(struct backoff *b, int64_t now_ms, int64_t max_ms);

/* It works; two minutes of this, without a failure between, forget the failures. */
void backoff_good(struct backoff *b, int64_t now_ms);

/* A random number from 0 to `max_ms`. */
int64_t backoff_jitter(int64_t max_ms);

#endif
