/*
 * dnstap: a copy of every DNS message, with its addresses and times, for a collector.
 *
 *	worker --observe()--> its ring (serve/observe/ring.h) --.
 *	worker --observe()--> its ring -------------------------+--> the writer, a thread
 *	                                                             | dnstap_frame.h: protobuf
 *	                                                             v dnstap_stream.h: frames, a socket
 *	                                                          collector
 *
 * Nothing here delays an answer: a worker overwrites the oldest messages of its ring. The writer
 * reads the rings a hundred times a second at most. While the collector is away or does not read,
 * the rings keep the newest messages, and the writer counts the overwritten ones. It tries to reach
 * the collector again, at last every 10 s. Each message is counted as sent or as dropped. A message
 * is sent once the kernel has taken it whole, even if the connection breaks before the collector has
 * read it.
 *
 * All functions are for the main thread.
 */
#ifndef KUBEDNS_DNSTAP_DNSTAP_H
#define KUBEDNS_DNSTAP_DNSTAP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

#include "lib/addr.h"

enum { DNSTAP_TARGET_TEXT_MAX = sizeof(((struct sockaddr_un *)0)->sun_path) + 8 };

/* Where the collector listens: a path, or else an address. */
struct dnstap_target {
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* "": TCP */
	struct server server;
};

/* Reads "unix:/PATH" or "tcp:IP:PORT". 0, or -EINVAL with what is needed in `*why`. */
int dnstap_target_parse(const char *text, struct dnstap_target *target, const char **why);

/* What --dnstap has, in `text` of DNSTAP_TARGET_TEXT_MAX bytes; returns it. */
const char *dnstap_target_format(const struct dnstap_target *target, char *text);

struct dnstap_config {
	struct dnstap_target target;
	const char *identity, *version; /* in each message; must outlive the dnstap */
};

struct dnstap;
struct ring;
struct ring_listener;
struct metrics;

struct dnstap *dnstap_new(const struct dnstap_config *config);

/* Whom workers wake (ring_config.listener); NULL if `dnstap` is. */
struct ring_listener *dnstap_listener(struct dnstap *dnstap);

/* A ring to read, of one more worker; before dnstap_start(). */
void dnstap_add_ring(struct dnstap *dnstap, const struct ring *ring);

/* Starts the writer, in the caller's sandbox; NULL is fine. */
void dnstap_start(struct dnstap *dnstap);

/* The families kubedns_dnstap_*; none if `dnstap` is NULL. */
void dnstap_metrics(struct dnstap *dnstap, struct metrics *m);

/*
 * Ends the writer, which sends what the rings have for a second at most, and says what it has sent
 * and dropped. No worker writes any more, and the rings are still there. NULL is fine.
 */
void dnstap_free(struct dnstap *dnstap);

#endif
