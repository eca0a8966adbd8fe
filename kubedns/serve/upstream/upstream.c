#include "kubedns/serve/upstream/upstream.h"

#include <stdlib.h>

#include "kubedns/serve/upstream/forward.h"
#include "kubedns/serve/upstream/relay.h"
#include "kubedns/serve/upstream/transport.h"
#include "lib/clock.h"
#include "lib/xalloc.h"

/* The tables of upstream.h. */
enum {
	TABLE_STARTED,  /* every query begins here */
	TABLE_CHASED,   /* the relay's, if it exists in addition to the forwarder */
	TABLE_FALLBACK, /* the forwarder's, for queries that the resolver cannot answer */
	TABLE_UNTIL_SYNCED,
	TABLES
};

struct upstream {
	struct worker_context *context;
	struct transport *transport;           /* of all queries */
	struct inflight_table *tables[TABLES]; /* NULL: the topology does not need it */
	struct forward *forward;      /* in the front topology, of TABLE_FALLBACK, or NULL */
	struct forward *until_synced; /* NULL without --until-synced */
	struct relay *relay;          /* or NULL */
};

/* Makes a table with at most `max` queries of all workers. */
static struct inflight_table *
make_table(struct upstream *f, unsigned table, const struct client_ops *clients,
    const struct workers_config *config, unsigned max, unsigned threads)
{
	unsigned wanted = setting_or(config->forward_max, max);

	f->tables[table] =
	    inflight_new(f->context, clients, worker_share(wanted < max ? wanted : max, threads),
		worker_share(setting_or(config->forward_client_max, FORWARD_CLIENT_MAX), threads));
	return f->tables[table];
}

/*
 * Adds a Service's address three times. kube-proxy directs each connection to one of the Service's pods. If one pod does not answer, a
 * second and a third try most likely reach a different pod.
 */
static void
make_until_synced(struct upstream *f, const struct client_ops *clients,
    const struct workers_config *config, unsigned threads)
{
	enum { TRIES = 3, AGAIN_MS = 300 };
	const struct forward_way way = { .tcp = true, .again_ms = AGAIN_MS };
	struct server servers[UPSTREAMS_MAX];
	size_t count = 0;
	for (size_t i = 0; i < UPSTREAMS_MAX && count < config->until_synced_count * TRIES; i++)
		servers[count++] = config->until_synced[i % config->until_synced_count];
	struct inflight_table *table =
	    make_table(f, TABLE_UNTIL_SYNCED, clients, config, FORWARD_MAX, threads);
	f->until_synced = forward_new(f->context, table, f->transport, way, servers, count);
	inflight_until_synced(f->tables[TABLE_STARTED], table);
}

/*
 * dnsmasq passes on the first SERVFAIL that any of its servers sends, and continues to use that server. With one faulty server, dnsmasq
 * answers SERVFAIL for names that the other servers know. Queries for these names are therefore sent to the upstream servers directly, one
 * server after the other. Both steps together take at most 4 s.
 *
 * The same happens over TCP if the resolver has not replied after 250 ms. dnsmasq waits for one server, even if that server never answers
 * on its TCP connections, and tries no other one.
 */
static void
make_fallback(struct upstream *f, const struct client_ops *clients,
    const struct workers_config *config, unsigned threads)
{
	enum { AGAIN_MS = 250 }; /* the query is late already */
	const struct forward_way way = { .timeout_ms = RELAY_TIMEOUT_MS, .again_ms = AGAIN_MS };
	struct inflight_table *table =
	    make_table(f, TABLE_FALLBACK, clients, config, FORWARD_MAX, threads);

	f->forward = forward_new(
	    f->context, table, f->transport, way, config->upstreams, config->upstream_count);
	inflight_cache(table, config->answer_cache);
	inflight_fallback(f->tables[TABLE_STARTED], table);
	relay_respects_validation(f->relay);
}

struct upstream *
upstream_new(struct worker_context *context, const struct client_ops *clients,
    const struct workers_config *config, unsigned threads)
{
	struct upstream *f = xcalloc(1, sizeof *f);
	bool front = config->resolver != NULL;

	f->context = context;
	f->transport = transport_new(context);
	struct inflight_table *started =
	    make_table(f, TABLE_STARTED, clients, config, FORWARD_MAX, threads);
	if (config->until_synced_count > 0)
		make_until_synced(f, clients, config, threads);
	if (front) {
		f->relay = relay_new(context, started, f->transport, config->resolver,
		    worker_share(RESOLVER_UNREAD_MAX, threads));
		/* This number is for kubedns without --memory. With --memory, the limits of dnsmasq depend on the memory too. */
		if (config->forward_max == 0)
			inflight_ops(started)->stored_max = worker_share(RESOLVER_MAX, threads);
		inflight_cache(started, config->answer_cache);
		relay_cache(f->relay, config->answer_cache);
		if (config->servfail_retry)
			make_fallback(f, clients, config, threads);
		return f;
	}
	f->forward = forward_new(context, started, f->transport, (struct forward_way){ 0 },
	    config->upstreams, config->upstream_count);
	if (config->search_resolver == NULL) {
		inflight_cache(started, config->answer_cache);
		return f;
	}
	/* dnsmasq is the only client, so it can have a third of the table. Each query takes two places at dnsmasq, for the query that dnsmasq
	 * sends to us and for our query to dnsmasq. */
	struct inflight_table *chased =
	    make_table(f, TABLE_CHASED, clients, config, FORWARD_SEARCH_MAX, threads);
	f->relay = relay_new(context, chased, f->transport, config->search_resolver,
	    worker_share(RESOLVER_UNREAD_MAX, threads));
	inflight_chased(started, chased);
	inflight_cache(chased, config->answer_cache);
	relay_cache(f->relay, config->answer_cache);
	return f;
}

struct inflight_table *
upstream_inflight(const struct upstream *f)
{
	return f->tables[TABLE_STARTED];
}

void
upstream_servers(struct upstream *f, const struct server *servers, size_t count)
{
	if (f->forward != NULL)
		forward_servers(f->forward, servers, count);
}

void
upstream_event(struct upstream *f, uint64_t key, uint32_t events)
{
	uint32_t slot = worker_key_slot(key), tag = worker_key_tag(key);

	switch (worker_key_part(key)) {
	case PART_TRANSPORT_UDP:
		transport_udp_event(f->transport, slot, tag);
		break;
	case PART_TRANSPORT_TCP:
		transport_tcp_event(f->transport, slot, tag, events);
		break;
	case PART_WAKE:
	case PART_HEARTBEAT:
	case PART_TCP_LISTENER:
	case PART_TCP:
		break;
	}
}

/* Runs the timers. Returns when the next one expires. */
static int64_t
run_timers(struct upstream *f)
{
	int64_t due_ns = CLOCK_NEVER;

	for (unsigned i = 0; i < TABLES; i++)
		if (f->tables[i] != NULL)
			due_ns = clock_earlier(due_ns, inflight_iteration(f->tables[i]));
	if (f->forward != NULL)
		forward_iteration(f->forward);
	if (f->until_synced != NULL)
		forward_iteration(f->until_synced);
	return f->relay == NULL ? due_ns : clock_earlier(due_ns, relay_iteration(f->relay));
}

int64_t
upstream_iteration(struct upstream *f)
{
	int64_t due_ns;

	do /* a query that could not be sent is sent to the next server */
		due_ns = run_timers(f);
	while (transport_iteration(f->transport));
	return due_ns;
}

void
upstream_finish_all(struct upstream *f)
{
	for (unsigned i = 0; i < TABLES; i++)
		if (f->tables[i] != NULL)
			inflight_finish_all(f->tables[i]);
}

void
upstream_free(struct upstream *f)
{
	if (f == NULL)
		return;
	for (unsigned i = 0; i < TABLES; i++)
		inflight_free(f->tables[i]);
	forward_free(f->until_synced);
	forward_free(f->forward);
	relay_free(f->relay);
	transport_free(f->transport);
	free(f);
}
