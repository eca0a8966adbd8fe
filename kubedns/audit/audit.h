/*
 * The audit: proves that the store has what the API has. Every part of the watch trusts that no event
 * is lost, and nothing else checks that.
 *
 *	namespaces, one after another
 *	   --> list of one kind at the version that its watch has reached --> compared with the store
 *
 * The list is for exactly that version, so it contains what the store should have had when the list
 * started. Objects for which the watch delivers an event meanwhile are left out of the comparison. A
 * difference is handed to the sink as if the watch had delivered it, logged and counted.
 *
 * One round lists the namespaces themselves and then the Services and slices of each. At most one
 * list is started in a second. Reading and comparing take at most a hundredth of the CPU time: after a
 * list that took 50 ms, the next one waits for 5 s.
 */
#ifndef KUBEDNS_AUDIT_AUDIT_H
#define KUBEDNS_AUDIT_AUDIT_H

#include <stdint.h>

#include "kubedns/cluster/object.h"

struct api_source;
struct audit;
struct metrics;
struct store;

enum {
	AUDIT_GAP_MS = 1000,   /* least time between two lists */
	AUDIT_CPU_SHARE = 100, /* the audit uses at most 1/AUDIT_CPU_SHARE of a CPU */
	/* The audit waits after the first sync before it sends the first list: this time, and a
	 * random time of at most the same length. All replicas may have started together. */
	AUDIT_START_MS = 30 * 1000,
	/* After a list that failed, the next one waits for this time, doubled with each failure. */
	AUDIT_RETRY_MS = 10 * 1000,
	AUDIT_RETRY_MAX_MS = 10 * 60 * 1000,
	AUDIT_LOGGED_MAX = 10, /* differences of one list that are logged */
};

/* Makes an audit of the store. It heals a difference by passing events to `heal`. The store and `arg`
 * must outlive the audit. Free with audit_free(). */
struct audit *audit_new(const struct store *store, event_sink heal, void *arg);
void audit_free(struct audit *audit);

/* Tells the audit about an event that the watch delivered, before or after the store gets it. NULL is
 * fine. */
void audit_event(
    struct audit *audit, enum object_kind kind, enum event_type type, const struct object *object);

/* Starts the next list if it is due. Called once in each iteration of the main loop. NULL is fine. */
void audit_run(struct audit *audit, struct api_source *source, int64_t now_ms);

/* Returns when audit_run() is due, or CLOCK_NEVER. */
int64_t audit_due_ms(const struct audit *audit);

/* Writes the metric families kubedns_audit_*. NULL is fine. */
void audit_metrics(const struct audit *audit, struct metrics *m);

#endif
