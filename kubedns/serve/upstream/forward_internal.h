/*
 * What the two halves of the forwarder share: forward.c chooses servers and decides about retries,
 * forward_channel.c has the c-ares channels.
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_FORWARD_INTERNAL_H
#define KUBEDNS_SERVE_UPSTREAM_FORWARD_INTERNAL_H

#include <ares.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "kubedns/serve/upstream/forward.h"
#include "kubedns/serve/upstream/ids.h"
#include "kubedns/serve/upstream/inflight.h"

/* Of one source port (RFC 5452 section 10): a port that is guessed serves for few forgeries. */
enum { CHANNEL_QUERIES = 32 };

struct upstream {
	struct server server;
	int64_t failed_until_ns;
	struct channel *channel; /* new queries go here; NULL: make one */
};

/* One source port to one server. */
struct channel {
	LIST_ENTRY(channel) link; /* of one of forward's lists */
	struct forward *forward;
	ares_channel ares;
	struct server server;
	uint32_t slot;
	unsigned used;    /* queries that it was given */
	unsigned waiting; /* attempts whose query is still in flight */
	unsigned open;    /* attempts that c-ares still has */
	bool retired;     /* gets no more queries */
	uint16_t ids[CHANNEL_QUERIES];
};

/* A query in flight, as the forwarder sees it. */
enum { REFUSED_TEXT_MAX = 128 }; /* names two servers */

struct forward_query {
	struct inflight base;
	LIST_HEAD(, attempt) attempts;
	uint32_t generation; /* of the list of servers that `tried` and `refused` are about */
	uint16_t tried;      /* bit by server */
	uint16_t refused;    /* likewise */
	char refused_by[REFUSED_TEXT_MAX];
	uint8_t attempt_count; /* sent and not failed */
	uint8_t rounds;        /* times that all servers have failed at once */
	bool declined;         /* a server has replied SERVFAIL, REFUSED or the like */
	bool queued;
	TAILQ_ENTRY(forward_query) by_queue;
};

/* A query that was sent to one server. */
struct attempt {
	LIST_ENTRY(attempt) link;
	struct forward_query *query; /* NULL: answered by another attempt, or ended */
	struct channel *channel;
	int64_t asked_ns;
};

struct forward {
	struct worker_context *context;
	struct inflight_table *inflight;
	struct forward_ops *ops;
	struct forward_way way;
	struct upstream upstreams[UPSTREAMS_MAX];
	size_t upstream_count;
	uint32_t generation; /* of that list: each change of it counts */
	LIST_HEAD(channel_list, channel)
	channels, retired, done; /* in use; used up; used up and no query waits for them */
	TAILQ_HEAD(, forward_query)
	queue; /* to be sent to the next server, at the end of the turn */
	struct channel **slots;
	uint32_t slot_count;
	uint32_t *free_slots;
	uint32_t free_count;
	int64_t tick_at_ns;
	struct ids ids;
	unsigned open; /* attempts that c-ares has, in all channels */
};

/* A channel to this server, or NULL: no descriptor, no memory, or too many channels. */
struct channel *channel_open(struct forward *forward, const struct server *server);

/* It gets no more queries; forward_turn closes it once no query waits for it. */
void channel_retire(struct forward *forward, struct channel *channel);

/* Not from inside one of its callbacks. */
void channel_close(struct forward *forward, struct channel *channel);

/* An ID that the channel has not used. */
uint16_t channel_id(struct forward *forward, struct channel *channel);

#endif
