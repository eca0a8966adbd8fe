/*
 * Exponential backoff with full jitter: 0.8 s doubling to a limit, so that a thousand replicas that
 * failed at one moment do not all return at one moment; reset after two minutes without a failure.
 * Pure but for the random numbers; the caller's clock is monotonic.
 *
 * The limit is 30 s where a server answered, since each answer costs it, and 5 s while there is no
 * connection: one resource then tries for all, which makes a refused connection every 2.5 s, and
 * decides how soon the data is right again.
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
