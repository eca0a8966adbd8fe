/*
 * How a worker asks other servers: which of the forwarder and the relay takes a query, by topology.
 *
 *	classic		names that are not ours -> forward -> upstream servers
 *			CNAMEs that leave our zones, steps of a search walk -> the same; with
 *			--search-resolver: relay -> the dnsmasq in front
 *	front		all of these -> relay -> the dnsmasq behind
 *			what that answers SERVFAIL -> forward -> upstream servers, but for names of
 *			stub domains (--servfail-retry)
 *
 * In the classic topology dnsmasq asks us, and the relay asks dnsmasq. That cannot loop: the relay
 * asks only for names outside of our zones that answer() has found as the target of a CNAME or of a
 * search walk, and if dnsmasq sends such a name back to us, it is forwarded to the upstream
 * servers.
 *
 * Before the first sync, with --until-synced, in both: our own names -> a second forwarder, over TCP ->
 * the cluster's other DNS pods behind a Service.
 *
 * --answer-cache keeps answers of one place only, since two may know a name differently: of the
 * relay where there is one, else of the upstream servers. In the front topology these are the same,
 * since dnsmasq asks the same upstream servers.
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_FORWARD_OR_RELAY_H
#define KUBEDNS_SERVE_UPSTREAM_FORWARD_OR_RELAY_H

#include "kubedns/serve/upstream/inflight.h"
#include "kubedns/serve/worker_context.h"

struct forward_or_relay;

/* A part of `threads` of the bounds in `config`. */
struct forward_or_relay *forward_or_relay_new(struct worker_context *context,
    const struct client_ops *clients, const struct workers_config *config, unsigned threads);

/* What takes queries for other servers: for udp.c and tcp.c. */
struct inflight_table *forward_or_relay_inflight(const struct forward_or_relay *forwarding);

/* As forward_servers(); in the front topology only for what the resolver answered SERVFAIL. */
void forward_or_relay_servers(
    struct forward_or_relay *forwarding, const struct server *servers, size_t count);

/* An epoll event of one of our parts. */
void forward_or_relay_event(struct forward_or_relay *forwarding, uint64_t key, uint32_t events);

/* At the end of each turn; returns when it must be called again (0: not at all). */
int64_t forward_or_relay_turn(struct forward_or_relay *forwarding);

/* SERVFAIL to all that is in flight; at the end. */
void forward_or_relay_finish_all(struct forward_or_relay *forwarding);

/* NULL is fine. No query may be in flight. */
void forward_or_relay_free(struct forward_or_relay *forwarding);

#endif
