/*
 * Queries over TCP (RFC 7766): many on a connection, each answered as soon as it can be,
 * whatever came before it.
 *
 *	accept -> reading <-> blocked (the client does not take its replies) -> closed
 *
 * An idle connection owns no buffer. A message that is not whole yet owns what has arrived of
 * it; replies that the client does not read are kept up to a bound. A message must be whole, and
 * a reply read, within the idle timeout; bytes alone buy no time. When all places are taken the
 * connection that has been idle for longest makes room.
 */
#ifndef KUBEDNS_SERVE_TCP_H
#define KUBEDNS_SERVE_TCP_H

#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/client.h"
#include "kubedns/serve/worker_context.h"

struct tcp_config {
	unsigned connections; /* of this worker */
	size_t memory;        /* bytes of buffers, of this worker */
	int64_t idle_ns;
};

enum { TCP_LISTENERS_MAX = 2 /* one a family */ };

/* Takes the listeners, bound and non-blocking, and waits on them. */
struct tcp *tcp_new(
    struct worker *worker, const int *listeners, size_t count, const struct tcp_config *config);

/* Events of the loop. */
void tcp_accept(struct tcp *tcp, unsigned listener);
void tcp_event(struct tcp *tcp, uint32_t slot, uint32_t generation, uint32_t events);

/* Closes what is overdue; returns when it must be called again (worker time, 0: not at all). */
int64_t tcp_turn(struct tcp *tcp);

/*
 * A query of this connection waits for another server: it is not idle, and stays open for the
 * reply if the client stops sending.
 */
void tcp_hold(struct tcp *tcp, const struct tcp_peer *peer);

/*
 * The reply to a held query: room of DNS_TCP_MAX bytes, then its length (0: none), which ends
 * the hold. Nothing else may be called in between.
 */
uint8_t *tcp_reply_room(struct tcp *tcp);
void tcp_reply_done(struct tcp *tcp, const struct tcp_peer *peer, size_t len);

/* Closes everything; NULL is fine. */
void tcp_free(struct tcp *tcp);

#endif
