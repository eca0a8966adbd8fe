#include "kubedns/serve/upstream/upstream.h"

#include <stdlib.h>

#include "kubedns/serve/upstream/forward.h"
#include "kubedns/serve/upstream/relay.h"
#include "kubedns/serve/upstream/transport.h"
#include "lib/clock.h"
#include "lib/xalloc.h"

struct upstream {
	struct transport *transport; /* of all queries */
	struct inflight_table *inflight;
	/* The relay's table if it exists in addition to the forwarder's table, else NULL. */
	struct inflight_table *chased;
	/* Front topology: the forwarder's table for queries that the resolver cannot answer, or NULL. */
	struct inflight_table *fallback;
	struct forward *forward; /* in the front topology, the forwarder of `fallback`, or NULL */
	struct relay *relay;     /* the relay, or NULL */
	struct inflight_table *until_synced;
	struct forward *until_synced_forward; /* NULL without --until-synced */
};

static struct inflight_table *
make_table(struct worker_context *context, const struct client_ops *clients,
    const struct workers_config *config, unsigned max, unsigned threads)
{
	unsigned wanted = setting_or(config->forward_max, max);

	return inflight_new(context, clients, worker_share(wanted < max ? wanted : max, threads),
	    worker_share(setting_or(config->forward_client_max, FORWARD_CLIENT_MAX), threads));
}

/*
 * Adds a Service's address three times. kube-proxy directs each connection to one of the Service's pods. If one pod does not answer, a
 * second and a third try most likely reach a different pod.
 */
static void
make_until_synced(struct upstream *f, struct worker_context *context,
    const struct client_ops *clients, const struct workers_config *config, unsigned threads)
{
	enum { TRIES = 3, AGAIN_MS = 300 };
	const struct forward_way way = { .tcp = true, .again_ms = AGAIN_MS };
	struct server servers[UPSTREAMS_MAX];
	size_t count = 0;
	for (size_t i = 0; i < UPSTREAMS_MAX && count < config->until_synced_count * TRIES; i++)
		servers[count++] = config->until_synced[i % config->until_synced_count];
	f->until_synced = make_table(context, clients, config, FORWARD_MAX, threads);
	f->until_synced_forward =
	    forward_new(context, f->until_synced, f->transport, way, servers, count);
	inflight_until_synced(f->inflight, f->until_synced);
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
make_fallback(struct upstream *f, struct worker_context *context, const struct client_ops *clients,
    const struct workers_config *config, unsigned threads)
{
	enum { AGAIN_MS = 250 }; /* the query is late already */
	const struct forward_way way = { .timeout_ms = RELAY_TIMEOUT_MS, .again_ms = AGAIN_MS };

	f->fallback = make_table(context, clients, config, FORWARD_MAX, threads);
	f->forward = forward_new(
	    context, f->fallback, f->transport, way, config->upstreams, config->upstream_count);
	inflight_cache(f->fallback, config->answer_cache);
	inflight_fallback(f->inflight, f->fallback);
	relay_respects_validation(f->relay);
}

struct upstream *
upstream_new(struct worker_context *context, const struct client_ops *clients,
    const struct workers_config *config, unsigned threads)
{
	struct upstream *f = xcalloc(1, sizeof *f);
	bool front = config->resolver != NULL;

	f->transport = transport_new(context);
	f->inflight = make_table(context, clients, config, FORWARD_MAX, threads);
	if (config->until_synced_count > 0)
		make_until_synced(f, context, clients, config, threads);
	if (front) {
		f->relay = relay_new(context, f->inflight, f->transport, config->resolver,
		    worker_share(RESOLVER_UNREAD_MAX, threads));
		/* This number is for kubedns without --memory. With --memory, the limits of dnsmasq depend on the memory too. */
		if (config->forward_max == 0)
			inflight_ops(f->inflight)->stored_max = worker_share(RESOLVER_MAX, threads);
		inflight_cache(f->inflight, config->answer_cache);
		relay_cache(f->relay, config->answer_cache);
		if (config->servfail_retry)
			make_fallback(f, context, clients, config, threads);
		return f;
	}
	f->forward = forward_new(context, f->inflight, f->transport, (struct forward_way){ 0 },
	    config->upstreams, config->upstream_count);
	if (config->search_resolver != NULL) {
		/* dnsmasq is the only client, so it can have a third of the table. Each query takes two places at dnsmasq, for the query
		 * that dnsmasq sends to us and for our query to dnsmasq. */
		f->chased = make_table(context, clients, config, FORWARD_SEARCH_MAX, threads);
		f->relay = relay_new(context, f->chased, f->transport, config->search_resolver,
		    worker_share(RESOLVER_UNREAD_MAX, threads));
		inflight_chased(f->inflight, f->chased);
		relay_cache(f->relay, config->answer_cache);
	}
	inflight_cache(f->chased != NULL ? f->chased : f->inflight, config->answer_cache);
	return f;
}

struct inflight_table *
upstream_inflight(const struct upstream *f)
{
	return f->inflight;
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
	int64_t due_ns = inflight_iteration(f->inflight);

	if (f->fallback != NULL)
		due_ns = clock_earlier(due_ns, inflight_iteration(f->fallback));
	if (f->chased != NULL)
		due_ns = clock_earlier(due_ns, inflight_iteration(f->chased));
	if (f->forward != NULL)
		forward_iteration(f->forward);
	if (f->until_synced != NULL) {
		due_ns = clock_earlier(due_ns, inflight_iteration(f->until_synced));
		forward_iteration(f->until_synced_forward);
	}
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
	inflight_finish_all(f->inflight);
	if (f->chased != NULL)
		inflight_finish_all(f->chased);
	if (f->until_synced != NULL)
		inflight_finish_all(f->until_synced);
	if (f->fallback != NULL)
		inflight_finish_all(f->fallback);
}

void
upstream_free(struct upstream *f)
{
	if (f == NULL)
		return;
	inflight_free(f->inflight);
	inflight_free(f->chased);
	inflight_free(f->fallback);
	inflight_free(f->until_synced);
	forward_free(f->until_synced_forward);
	forward_free(f->forward);
	relay_free(f->relay);
	transport_free(f->transport);
	free(f);
}
