/*
 * The queries of a worker to other servers. The topology decides whether the forwarder or the relay
 * handles a query.
 *
 *	classic		external names -> forward -> upstream servers
 *			CNAMEs that leave our zones, candidates of search lists -> the same
 *			the last two with --search-resolver -> relay -> dnsmasq
 *	front		all of these -> relay -> dnsmasq
 *			names for which dnsmasq answers SERVFAIL, or is late over TCP -> forward ->
 *			upstream servers, except names of stub domains (--servfail-retry)
 *
 * In the classic topology, dnsmasq sends queries to us, and the relay sends queries to dnsmasq. A
 * query cannot loop between them. The relay only sends names outside of our zones that answer() has
 * found as the target of a CNAME or as a candidate of a search list. If dnsmasq sends such a name
 * back to us, it is forwarded to the upstream servers.
 *
 * With --until-synced, in both topologies, a second forwarder handles our own names before the
 * first sync. The second forwarder sends these queries over TCP to the cluster's other DNS pods,
 * through a Service.
 *
 * Queries in flight are in tables of one kind (inflight.h): one for each kind of server, at most three in a
 * topology. A query is in one of them at a time. One table for all servers would need the same limits, timers
 * and lists once more for each kind of server. And the kinds must not share their places:
 *
 *	front		while the upstream servers are silent, queries that wait for them would take the
 *			places of queries that dnsmasq answers from its cache
 *	search-resolver	dnsmasq may send the query back to us. Then it takes a second place, in the
 *			forwarder's table. In one table, such queries could fill all places, and none
 *			could end.
 *
 * So the limits in total and per client hold for each table. A client may have its limit of queries at
 * dnsmasq, and the same number of others at the upstream servers.
 *
 * The transport's ports and connections list messages, not queries: a query may have one message to each
 * server. turns.h lists queries that wait until the other server has a place for one more message.
 *
 * --answer-cache only stores answers from one source, because two sources may have different
 * answers for a name. That source is the relay if there is a relay, else the upstream servers. In
 * the front topology both are the same, because dnsmasq uses the same upstream servers.
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_UPSTREAM_H
#define KUBEDNS_SERVE_UPSTREAM_UPSTREAM_H

#include "kubedns/serve/upstream/inflight.h"
#include "kubedns/serve/worker_context.h"

struct upstream;

/* Creates the tables of one worker. The limits in `config` are for all `threads` workers together,
 * and each worker gets an equal part of them. */
struct upstream *upstream_new(struct worker_context *context, const struct client_ops *clients,
    const struct workers_config *config, unsigned threads);

/* Returns the table that takes queries for other servers, for udp.c and tcp.c. */
struct inflight_table *upstream_inflight(const struct upstream *forwarding);

/* Does the same as forward_servers(). In the front topology, these servers only get queries that
 * the resolver cannot answer. */
void upstream_servers(struct upstream *forwarding, const struct server *servers, size_t count);

/* Handles an epoll event of PART_TRANSPORT_UDP or PART_TRANSPORT_TCP. */
void upstream_event(struct upstream *forwarding, uint64_t key, uint32_t events);

/* Call it at the end of each iteration. Returns when to call it again (or CLOCK_NEVER). */
int64_t upstream_iteration(struct upstream *forwarding);

/* Answers SERVFAIL to all queries in flight, at the end. */
void upstream_finish_all(struct upstream *forwarding);

/* NULL is fine. No query may be in flight. */
void upstream_free(struct upstream *forwarding);

#endif
