/*
 * dnstap sends a copy of each query and reply, with its addresses and times, to a collector. It does
 * not see the messages of a zone transfer after the query.
 *
 *	worker --observe()--> its ring (serve/observe/ring.h) --.
 *	worker --observe()--> its ring -------------------------+--> the writer, a thread
 *	                                                             | dnstap_frame.h: protobuf
 *	                                                             v dnstap_stream.h: frames, a socket
 *	                                                          collector
 *
 * dnstap does not delay answers, because a worker overwrites the oldest messages of its ring. The
 * writer reads the rings at most a hundred times a second. While the collector is unreachable or
 * does not read, the rings keep the newest messages, and the writer counts the overwritten
 * messages. The writer retries the connection at intervals of up to 10 s. Each message is counted
 * as sent or as dropped. A message counts as sent when the kernel has accepted all of it, even if
 * the connection breaks before the collector has read it.
 *
 * All functions are for the main thread.
 */
#ifndef KUBEDNS_MODULES_DNSTAP_DNSTAP_H
#define KUBEDNS_MODULES_DNSTAP_DNSTAP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

#include "lib/addr.h"

enum { DNSTAP_TARGET_TEXT_MAX = sizeof(((struct sockaddr_un *)0)->sun_path) + 8 };

/* The address where the collector listens: a path or an IP address. */
struct dnstap_target {
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* "" means TCP */
	struct server server;
};

/* Parses "unix:/PATH" or "tcp:IP:PORT". Returns 0, or -EINVAL and sets `*why` to the accepted
 * form. */
int dnstap_target_parse(const char *text, struct dnstap_target *target, const char **why);

/* Writes the target in the syntax of --dnstap to `text`, which has DNSTAP_TARGET_TEXT_MAX bytes.
 * Returns `text`. */
const char *dnstap_target_format(const struct dnstap_target *target, char *text);

struct dnstap_config {
	struct dnstap_target target;
	const char *identity, *version; /* identity and version in each message */
};

struct dnstap;
struct ring;
struct ring_listener;
struct metrics;

struct dnstap *dnstap_new(const struct dnstap_config *config);

/* Returns the listener that workers wake (ring_config.listener). */
struct ring_listener *dnstap_listener(struct dnstap *dnstap);

const struct dnstap_target *dnstap_target(const struct dnstap *dnstap);

/* Adds the ring of one more worker. Call it before dnstap_start(). */
void dnstap_add_ring(struct dnstap *dnstap, const struct ring *ring);

/* Starts the writer thread, in the caller's sandbox. */
void dnstap_start(struct dnstap *dnstap);

/* Writes the metric families kubedns_dnstap_*. */
void dnstap_metrics(struct dnstap *dnstap, struct metrics *m);

/*
 * Ends the writer. For at most a second, the writer sends the messages that are still in the rings.
 * The writer logs how many messages it has sent and dropped. The workers must have stopped writing,
 * and the rings must still exist.
 */
void dnstap_free(struct dnstap *dnstap);

#endif
