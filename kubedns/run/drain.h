/*
 * The drain phase: after SIGTERM, kubedns continues to answer until no more queries arrive or the
 * time is over.
 *
 *	SIGTERM --> draining --no new query for --drain-quiet, or --drain is over--> end
 *
 * The functions are pure. The caller passes the clock and the number of queries.
 */
#ifndef KUBEDNS_RUN_DRAIN_H
#define KUBEDNS_RUN_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

enum { DRAIN_LOOK_MS = 100 }; /* interval between checks of the number of queries */

struct drain {
	int64_t until_ms;    /* monotonic time; CLOCK_NEVER: not draining */
	int64_t quiet_at_ms; /* time at which the drain ends if no query arrives */
	int64_t quiet_ms;    /* 0: the drain always lasts for its full time */
	uint64_t questions;  /* number of queries at the last check */
};

/* Starts the drain. `questions` is the number of queries so far. */
void drain_begin(
    struct drain *drain, int64_t now_ms, int64_t most_ms, int64_t quiet_ms, uint64_t questions);

/* Whether the drain is over. `questions` is the number of queries so far. `in_flight` is true if a
 * query is waiting for another server. */
bool drain_over(struct drain *drain, int64_t now_ms, uint64_t questions, bool in_flight);

/* Returns when to call drain_over() again, or CLOCK_NEVER if there is no drain. */
int64_t drain_due_ms(const struct drain *drain, int64_t now_ms);

#endif
