/*
 * How a worker asks other servers: which of the forwarder and the relay takes a query, by topology.
 *
 *	classic		names that are not ours -> forward -> upstream servers
 *			CNAMEs that leave our zones, steps of a search walk -> the same; with
 *			--search-resolver: relay -> the dnsmasq in front
 *	front		all of these -> relay -> the dnsmasq behind
 *
 * In the classic topology dnsmasq asks us, and the relay asks dnsmasq. No question can go round: the
 * relay is given only names outside of our zones that answer() itself has arrived at, and such a name,
 * when it comes from dnsmasq after all, goes to the upstream servers.
 */
#ifndef KUBEDNS_SERVE_FORWARDING_H
#define KUBEDNS_SERVE_FORWARDING_H

#include "kubedns/serve/inflight.h"
#include "kubedns/serve/worker_context.h"

struct forwarding;

/* A part of `threads` of the bounds in `config`. */
struct forwarding *forwarding_new(struct worker_context *context, const struct client_ops *clients,
    const struct workers_config *config, unsigned threads);

/* What takes queries for other servers: for udp.c and tcp.c. */
struct inflight_table *forwarding_inflight(const struct forwarding *forwarding);

/* As forward_servers(); without effect in the front topology. */
void forwarding_servers(struct forwarding *forwarding, const struct server *servers, size_t count);

/* An epoll event of one of our parts. */
void forwarding_event(struct forwarding *forwarding, uint64_t key, uint32_t events);

/* At the end of each turn; returns when it must be called again (0: not at all). */
int64_t forwarding_turn(struct forwarding *forwarding);

/* SERVFAIL to all that is in flight; at the end. */
void forwarding_finish_all(struct forwarding *forwarding);

/* NULL is fine. No query may be in flight. */
void forwarding_free(struct forwarding *forwarding);

#endif
