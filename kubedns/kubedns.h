/*
 * The state of kubedns's main thread. main.c sets up and cleans up, loop.c waits and runs what is due,
 * event_sink.c takes the source's objects, publish.c shows readers what has changed.
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
	struct treecache *cache;
	struct status status;
	struct http *http, *metrics;
	struct handover *handover; /* NULL: no --share-port */
	struct http_route metrics_routes[2];
	struct pollfd fds[FD_COUNT];
	struct drain drain;
	int64_t wall_ahead_ns; /* most that the wall clock was ahead of the monotonic one */
	int64_t started_ms, next_period_ms; /* monotonic */
	int64_t published_ms;               /* the last time */
	uint64_t settings_read;             /* settings_reads() when the workers were told */
	int signal_fd;
	bool published_context; /* the settings in force */
	bool stop, failed;      /* failed: ends with an error */
};

/* The event_sink of the source of objects, whose argument is the struct kubedns: all objects but
 * the ConfigMap go to the store. */
void event_sink_take(
    void *arg, enum object_kind kind, enum event_type type, const struct object *object);

/* The hosts_sink, with the same argument. */
void hosts_sink_take(
    void *arg, const char *namespace, enum event_type type, const struct object *object);

/* Gives the settings in force to the workers and, with the next publish, to readers of the tree. */
void publish_settings(struct kubedns *k);

/* Renews the answer_context; readers get it with the next publish. */
void publish_context(struct kubedns *k);

/* Makes all changes of a turn visible to readers at once. */
void publish_turn(struct kubedns *k);

/* Frees replaced nodes when nothing has been published for a second. */
void reclaim_when_quiet(struct kubedns *k);

/* Milliseconds until reclaim_when_quiet() is due, -1: nothing to free. */
int64_t reclaim_wait_ms(const struct kubedns *k, int64_t now_ms);

/* Fills in the descriptors that a turn waits for; once, after the source of objects and the HTTP
 * servers are set up. */
void loop_fill_fds(struct kubedns *k);

/* Waits until something happens, and does it. */
void loop_turn(struct kubedns *k);

#endif
