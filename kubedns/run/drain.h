/*
 * The drain: after SIGTERM kubedns goes on answering until no more questions come, or the time is
 * over.
 *
 *	SIGTERM --> draining --no new question for --drain-quiet, or --drain is over--> end
 *
 * Pure: the caller passes the clock and the number of questions.
 */
#ifndef KUBEDNS_RUN_DRAIN_H
#define KUBEDNS_RUN_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

enum { DRAIN_LOOK_MS = 100 }; /* between two looks at the number of questions */

struct drain {
	int64_t until_ms;    /* monotonic; 0: not draining */
	int64_t quiet_at_ms; /* when it ends unless a question comes; INT64_MAX: not before */
	int64_t quiet_ms;    /* 0: does not end before its time */
	uint64_t questions;  /* when last looked */
};

/* Begins. `questions`: how many there were so far. */
void drain_begin(
    struct drain *drain, int64_t now_ms, int64_t most_ms, int64_t quiet_ms, uint64_t questions);

/* Whether it is over. `questions`: how many there were so far; `in_flight`: one of them waits for
 * another server. */
bool drain_over(struct drain *drain, int64_t now_ms, uint64_t questions, bool in_flight);

/* Milliseconds until drain_over() must be asked again; -1: not draining. */
int64_t drain_wait_ms(const struct drain *drain, int64_t now_ms);

#endif
