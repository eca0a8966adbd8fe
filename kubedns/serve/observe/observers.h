/*
 * The observers of the main thread: modules that are given what the workers' rings have.
 *
 *	rings --observers_drain()--> top clients: the samples
 *	                         '-> query log: every answer, while it is on
 *
 * An observer is one row of the table in main.c. A worker writes to `observers_fd`
 * when half of its samples are new; the main thread then drains all rings, and an observer may drain
 * them at any time before it is read. An answer that was overwritten before it was read is skipped
 * and counted: kubedns_observer_skipped_total. dnstap reads the rings in a thread of its own, since
 * it waits for a socket.
 */
#ifndef KUBEDNS_SERVE_OBSERVE_OBSERVERS_H
#define KUBEDNS_SERVE_OBSERVE_OBSERVERS_H

#include <stdbool.h>
#include <stddef.h>

#include "kubedns/serve/observe/ring.h"

enum observer_wants {
	OBSERVE_SAMPLES, /* one answer in RING_SAMPLE, at random */
	OBSERVE_ANSWERS, /* every answer */
};

struct observer {
	const char *name; /* label of the metric */
	enum observer_wants wants;
	void (*consume)(void *arg, const struct ring_record *record);
};

struct metrics;
struct observers;

/* Of a table of rows that ends with NULL; all are off. */
struct observers *observers_new(const struct observer *const *table);

/* The event that workers write to (ring_config.wake). */
int observers_fd(const struct observers *observers);

/* A ring to read, of one more worker; before any is on. */
void observers_add_ring(struct observers *observers, const struct ring *ring);

/* Switches a row of the table on, from now on, or off if `arg` is NULL. */
void observers_set(struct observers *observers, const struct observer *row, void *arg);

/* Gives every observer that is on what the rings have. Clears the event. */
void observers_drain(struct observers *observers);

/* Answers that this observer has skipped. */
uint64_t observers_skipped(const struct observers *observers, const struct observer *row);

/* kubedns_observer_skipped_total. */
void observers_metrics(const struct observers *observers, struct metrics *m);

/* NULL is fine. */
void observers_free(struct observers *observers);

#endif
