/*
 * Exponential backoff with full jitter: from 0.8 s, doubling up to a limit. A thousand replicas
 * that fail at the same time thus do not return at the same time. Two minutes without a failure
 * reset it. The functions are pure, except for the random numbers. Times are from the caller's
 * monotonic clock.
 *
 * The limit is 30 s while a server responds, because each response costs the server. It is 5 s
 * while there is no connection, because the wait delays fresh data. Only one resource at a time
 * then makes attempts, so one connection is refused every 2.5 s on average.
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

/* The state of a backoff. It is all zero if there has been no failure. */
struct backoff {
	unsigned failures;
	int64_t good_since_ms; /* 0 if the last request failed or there was none */
};

/* Records a failure. Returns how long to wait: a random time from 0 ms to the current limit, which
 * is at most `max_ms`. */
int64_t backoff_failed(struct backoff *b, int64_t now_ms, int64_t max_ms);

/* Records a success. Two minutes of successes without a failure reset the backoff. */
void backoff_good(struct backoff *b, int64_t now_ms);

/*
 * Returns how long to wait after a response with Retry-After, in milliseconds. The wait is the
 * server's value, from 1 s to the limit, plus a random time. Clients that were refused thus do not
 * all return at once. With `grow` (--node-role) the random time grows with each refusal, because
 * thousands of nodes may start together.
 */
int64_t backoff_retry_after(struct backoff *b, int64_t now_ms, int64_t asked_ms, bool grow);

/* Returns a random number from 0 to `max_ms`. */
int64_t backoff_jitter(int64_t max_ms);

#endif
