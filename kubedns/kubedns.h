/*
 * The state of kubedns's main thread. main.c sets it up and cleans up. loop.c waits and runs
 * pending work. publish.c takes the source's objects and shows the changes to readers.
 */
#ifndef KUBEDNS_KUBEDNS_H
#define KUBEDNS_KUBEDNS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "kubedns/cluster/object.h"
#include "kubedns/run/drain.h"
#include "kubedns/config/options.h"
#include "kubedns/pages/status.h"
#include "lib/http.h"

struct handover;
struct treecache;

enum { FD_SIGNAL, FD_CONFIG, FD_RESOLV, FD_OBJECTS, FD_HTTP, FD_OBSERVE, FD_METRICS, FD_COUNT };

struct kubedns {
	struct options options;
	struct flags_common common;
	struct module_core core;
	struct treecache *cache;
	struct status status;
	struct http *http, *metrics;
	struct handover *handover; /* NULL without --share-port */
	struct http_route metrics_routes[2];
	struct pollfd fds[FD_COUNT];
	struct drain drain;
	/* The published snapshot may still change under this serial, until the second ends. Only set if
	 * a module takes snapshots. */
	bool snapshot_open;
	uint32_t snapshot_serial;
	/* Largest difference so far between the wall clock and the monotonic clock. */
	int64_t wall_ahead_ns;
	int64_t started_ms, next_period_ms; /* monotonic time */
	int64_t published_ms;               /* time of the last publish */
	/* Value of settings_reads() when the workers last got the settings. */
	uint64_t settings_read;
	int signal_fd;
	bool published_context; /* the active settings have been published */
	bool stop, failed;      /* `failed`: the program ends with an error */
};

/* The event_sink for the source of objects. Its argument is the struct kubedns. It passes all
 * objects except the ConfigMap to the store. */
void event_sink_take(
    void *arg, enum object_kind kind, enum event_type type, const struct object *object);

/* The hosts_sink, with the same argument. */
void hosts_sink_take(
    void *arg, const char *namespace, enum event_type type, const struct object *object);

/* Passes the active settings to the workers and, with the next publish, to readers of the tree. */
void publish_settings(struct kubedns *k);

/* Makes a new answer_context. Readers get it with the next publish. */
void publish_context(struct kubedns *k);

/* Makes all changes of an iteration visible to readers at once. */
void publish_iteration(struct kubedns *k);

/* Frees replaced nodes when nothing has been published for a second. */
void reclaim_when_quiet(struct kubedns *k);

/* Returns when reclaim_when_quiet() is due, or CLOCK_NEVER if there is nothing to free. */
int64_t reclaim_due_ms(const struct kubedns *k);

/* Fills in the descriptors for which the loop waits. Call it once, after the source of objects and
 * the HTTP servers are set up. */
void loop_fill_fds(struct kubedns *k);

/* Waits until something happens, and handles it. */
void loop_iteration(struct kubedns *k);

#endif
