/*
 * Exponential backoff with full jitter: 0.8 s doubling to a limit, so that a thousand replicas that
 * fail at the same moment do not come back at the same moment; reset after two minutes without a
 * failure. Pure except for the random numbers; the caller's clock is monotonic.
 *
 * The limit is 30 s while a server answers, since each answer costs it, and 5 s while there is no
 * connection, since that delays fresh data: then one resource tries for all, which is a refused
 * connection every 2.5 s on average.
 */
#ifndef KUBEDNS_API_BACKOFF_H
#define KUBEDNS_API_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

enum {
	BACKOFF_FIRST_MS = 800,
	BACKOFF_MAX_MS = 30000,
	BACKOFF_AWAY_MAX_MS = 5000,
	BACKOFF_GOOD_MS = 120000,
	BACKOFF_RETRY_AFTER_MAX_MS = 300000
};

/* All zero: nothing has failed yet. */
struct backoff {
	unsigned failures;
	int64_t good_since_ms; /* 0: not good */
};

/* Notes a failure; returns the milliseconds to wait: 0 to the current limit, at most `max_ms`. */
int64_t backoff_failed(struct backoff *b, int64_t now_ms, int64_t max_ms);

/* Notes a success; two minutes of these, without a failure between, reset the backoff. */
void backoff_good(struct backoff *b, int64_t now_ms);

/*
 * Milliseconds to wait after a reply with Retry-After: what the server asked for, from 1 s to the limit,
 * and a random time more, so that refused clients do not all come back at one moment. With `grow` (--node-role)
 * the random time grows with each refusal, because thousands of nodes may start together.
 */
int64_t backoff_retry_after(struct backoff *b, int64_t now_ms, int64_t asked_ms, bool grow);

/* A random number from 0 to `max_ms`. */
int64_t backoff_jitter(int64_t max_ms);

#endif
