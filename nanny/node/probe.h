/*
 * The guard's probes of one server: a query over UDP at short intervals, and the time of the last
 * answer.
 *
 * A slow server is not a dead server. So the answer to each probe counts that was sent less than
 * NODE_PATIENCE_MS ago, even if further probes have been sent since. A refusal (ICMP: no process at
 * the port) shows that the server is dead. Answers to earlier probes do not count after it.
 *
 * Times are from the caller's monotonic clock, in milliseconds.
 */
#ifndef NANNY_NODE_PROBE_H
#define NANNY_NODE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/dname.h"

enum {
	NODE_PROBE_MS = 200, /* interval between probes of each server */
	/* interval between probes after an alarm, until the server answers or refuses */
	NODE_DOUBT_MS = 2,
	NODE_DOUBTS_MAX = 50,    /* maximum number of probes after an alarm */
	NODE_PATIENCE_MS = 1000, /* a server without an answer for this long counts as dead */
	/* All probes whose answers still count */
	NODE_PROBES = NODE_PATIENCE_MS / NODE_DOUBT_MS
};

struct node_probe {
	int fd;              /* a connected, non-blocking UDP socket, owned by the caller; or -1 */
	int64_t answered_ms; /* 0: no answer yet, or the server has refused a probe since */
	uint64_t answers;    /* number of answers that counted */
	unsigned doubts;     /* number of further probes to send without delay, after an alarm */
	/* Probes are numbered. The next probe has the number `next`. */
	uint64_t next;
	uint64_t valid;   /* first probe after the last refusal */
	uint64_t doubted; /* first probe after the last alarm; its answer ends the doubts */
	struct {
		uint16_t id;
		int64_t sent_ms;
	} sent[NODE_PROBES]; /* a ring, indexed by number */
};

/* Sends one probe: a query for TXT of the name. */
void node_probe_send(
    struct node_probe *probe, const struct dname *name, uint16_t class, int64_t now_ms);

/* Reads answers and refusals. Only answers without an error count, because kubedns returns SERVFAIL
 * before its first sync. */
void node_probe_read(struct node_probe *probe, int64_t now_ms);

/* Handles a hint that the server may be dead: the next NODE_DOUBTS_MAX probes follow at once, until
 * the server answers one of them or refuses. */
void node_probe_doubt(struct node_probe *probe);

/* Whether the server has answered within NODE_PATIENCE_MS. */
bool node_probe_alive(const struct node_probe *probe, int64_t now_ms);

#endif
