/*
 * dnstap: a copy of every DNS message, with its addresses and times, for a collector.
 *
 *	worker --dnstap_add()--> its queue (dnstap_queue.h) --.
 *	worker --dnstap_add()--> its queue -------------------+--> the writer, a thread
 *	                                                             | dnstap_frame.h: protobuf
 *	                                                             v dnstap_stream.h: frames, a socket
 *	                                                          collector
 *
 * Nothing here delays an answer. A worker copies a message into its queue, and drops and counts it
 * when the queue is full. The writer takes what is there some hundred times a second at most. While
 * the collector is away or does not read, the queues keep what they hold and the rest is dropped;
 * the writer goes on trying to reach the collector, every 10 s in the end. Each message is counted as
 * sent or as dropped. A message is sent once the kernel has taken it whole, even if the connection
 * breaks before the collector has read it.
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
struct dnstap_queue;
struct metrics;

struct dnstap *dnstap_new(const struct dnstap_config *config);

/* The queue of one worker of `workers`, before dnstap_start(); NULL if `dnstap` is. */
struct dnstap_queue *dnstap_queue_for(struct dnstap *dnstap, unsigned workers);

/* Starts the writer, in the caller's sandbox; NULL is fine. */
void dnstap_start(struct dnstap *dnstap);

/* The families kubedns_dnstap_*; none if `dnstap` is NULL. */
void dnstap_metrics(const struct dnstap *dnstap, struct metrics *m);

/*
 * Ends the writer, which sends what is queued for a second at most, and says what it has sent and
 * dropped. The workers have ended. NULL is fine.
 */
void dnstap_free(struct dnstap *dnstap);

#endif
