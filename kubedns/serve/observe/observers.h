/*
 * The observers of the main thread. An observer is a module that receives the records of the
 * workers' rings.
 *
 *	rings --observers_drain()--> top clients: the samples
 *	                         '-> query log: every answer, while it is enabled
 *
 * An observer is one row of the table in main.c. A worker writes to `observers_fd` when half of its
 * samples are new. The main thread then drains all rings. An observer may also drain them before
 * its data is read. An answer that was overwritten before it was read is skipped, and counted in
 * kubedns_observer_skipped_total. A module may read the rings in a thread of its own, if it waits for
 * a socket.
 */
#ifndef KUBEDNS_SERVE_OBSERVE_OBSERVERS_H
#define KUBEDNS_SERVE_OBSERVE_OBSERVERS_H

#include <stdbool.h>
#include <stddef.h>

#include "kubedns/serve/observe/ring.h"

enum observer_wants {
	OBSERVE_SAMPLES, /* the observer gets one of RING_SAMPLE answers, chosen at random */
	OBSERVE_ANSWERS, /* the observer gets every answer */
};

struct observer {
	const char *name; /* label value of the metric */
	enum observer_wants wants;
	void (*consume)(void *arg, const struct ring_record *record);
};

struct metrics;
struct observers;

/* Creates the observers of a NULL-terminated table. All observers are disabled. */
struct observers *observers_new(const struct observer *const *table);

/* Returns the eventfd to which workers write (ring_config.wake). */
int observers_fd(const struct observers *observers);

/* Adds the ring of one more worker. Call it before any observer is enabled. */
void observers_add_ring(struct observers *observers, const struct ring *ring);

/* Enables the observer of this row from now on, or disables it if `arg` is NULL. */
void observers_set(struct observers *observers, const struct observer *row, void *arg);

/* Passes all new records to the observers that are enabled, and clears the event. */
void observers_drain(struct observers *observers);

/* Returns the number of answers that this observer has skipped. */
uint64_t observers_skipped(const struct observers *observers, const struct observer *row);

/* Writes kubedns_observer_skipped_total. */
void observers_metrics(const struct observers *observers, struct metrics *m);

/* NULL is fine. */
void observers_free(struct observers *observers);

#endif
