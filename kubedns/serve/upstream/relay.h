/*
 * Sends queries to a local dnsmasq, which caches and forwards. In the front topology, these are
 * queries for all external names. In the classic topology with --search-resolver, these are queries
 * for targets of CNAMEs and for candidates of search lists.
 *
 *	query --> port (a connected UDP socket for 32 queries) --> dnsmasq --> client
 *	              '- if TC is set and the client uses TCP, sent again over TCP
 *
 * dnsmasq gets our own query, not the client's message. Our query has the client's name, type, CD,
 * AD and DO. An EDNS option of one client, such as a client subnet, must not decide which answer
 * dnsmasq caches for all clients. The maximum size over UDP is DNS_UDP_PAYLOAD. answer_forwarded()
 * applies the client's limit. A reply is accepted only from the resolver, at the port that sent the
 * query, with the same ID and question. Both directions use batches: one sendmmsg() sends the
 * queries of one iteration (relay_batch.h).
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_RELAY_H
#define KUBEDNS_SERVE_UPSTREAM_RELAY_H

#include <stdint.h>

#include "kubedns/serve/worker_context.h"
#include "lib/addr.h"

struct relay;
struct inflight_table;

/* Sets the table's forward_ops. */
struct relay *relay_new(
    struct worker_context *context, struct inflight_table *inflight, const struct server *resolver);

/* From now on, the relay finds out whether the resolver checks DNSSEC signatures (validation.h). If
 * so, its SERVFAIL is final: no query moves to the table's fallback. */
void relay_respects_validation(struct relay *relay);

/* Handle epoll events. */
void relay_udp_event(struct relay *relay, uint32_t slot, uint32_t generation, uint32_t events);
void relay_tcp_event(struct relay *relay, uint32_t slot, uint32_t generation, uint32_t events);

/*
 * Call it at the end of each iteration. Sends the queries that the iteration has gathered. Returns
 * when to call it again (or CLOCK_NEVER).
 */
int64_t relay_iteration(struct relay *relay);

/* NULL is fine. No query may be in flight. */
void relay_free(struct relay *relay);

#endif
