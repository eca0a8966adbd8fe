/*
 * Sends questions to other servers and matches the replies. All queries of a worker go this way. The caller decides which server gets a question, how
 * long it waits, and what a reply means (forward.h, relay.h).
 *
 *	exchange_send      --> port (a connected UDP socket, for 32 questions) --> server
 *	exchange_over_tcp  --> connection (at most 8 to a server)              --> server
 *	a reply with the ID and the question, at that port or connection       --> remote_ops.reply
 *
 * Each question has a random ID, and at most 32 questions share a random source port (RFC 5452
 * section 10). An attacker who forges a reply must guess both. The kernel drops packets that are not from the
 * server, because the socket is connected. A port gets no more questions after one of its questions
 * has ended without a reply, because the route to the server may have changed.
 *
 * Some servers send an error without the question, for example FORMERR to a query with EDNS. Such a reply
 * counts. An attacker who guesses its port and ID can make one question of that port fail at this server,
 * but cannot choose which one. It has no records, so it cannot give a wrong answer.
 *
 * Messages over UDP are gathered during one iteration of the loop, and sent with one sendmmsg()
 * (transport_batch.h). The batches have numbers, and are sent in order. Within a batch, the order is not
 * that of the calls.
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_TRANSPORT_H
#define KUBEDNS_SERVE_UPSTREAM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "kubedns/serve/upstream/turns.h"
#include "kubedns/serve/worker_context.h"
#include "lib/addr.h"
#include "lib/wire.h"

struct inflight;
struct remote;
struct transport;
struct transport_conn;
struct transport_port;

/*
 * A question to one server. The caller embeds it in its own struct, and sets the first three
 * members. The other members must be zero.
 */
struct exchange {
	struct remote *remote;
	const struct inflight *question;
	bool without_opt;
	/* the port or the connection that sent the question; `place` is its index there */
	struct transport_port *port;
	struct transport_conn *conn;
	unsigned place;
	uint64_t batch; /* number of the batch that sent the question over UDP */
	bool answered;  /* the server has replied */
	bool unsent; /* for remote_ops.lost(): this host has no descriptor or memory to send it */
	bool sent_again;  /* on a second connection, because the server had closed the first one */
	int64_t sent_ns;  /* time of the first send from this port or connection, for the ring */
	unsigned replies; /* number of replies on the connection before it took the question */
	int64_t taken_ns; /* time when the connection took the question */
	struct turn turn; /* its place among the questions over TCP, or it waits for one */
};

struct remote_ops {
	void *arg;
	/*
	 * The server has sent this reply. Its header and question are complete, and it has the
	 * exchange's ID and question. Only if reply_declines(), the question may be missing. All else
	 * is unchecked. A reply over UDP with more than DNS_UDP_QUERY_MAX bytes has lost its records and
	 * has TC. An exchange over TCP has ended. An exchange over UDP stays open, so that the caller
	 * may continue to wait, until exchange_end().
	 */
	void (*reply)(
	    void *arg, struct exchange *exchange, const uint8_t *reply, size_t len, bool over_tcp);
	/*
	 * The question or the reply is lost. Over UDP, the server's host has refused a question from
	 * the same port (ECONNREFUSED), or the kernel has not sent one. Nobody knows which question of
	 * the port it was, so the exchange stays open. Over TCP, the exchange has ended. The function
	 * may end this exchange, but must not start or end another one. exchange_send(),
	 * exchange_over_tcp() and exchange_end() may call it for other exchanges.
	 */
	void (*lost)(void *arg, struct exchange *exchange, bool over_tcp);
};

/* Returns whether the reply is no answer. A server that declines is alive, but another server may have an
 * answer. */
static inline bool
reply_declines(const uint8_t *reply)
{
	switch (reply[3] & 15) {
	case RCODE_FORMERR:
	case RCODE_SERVFAIL:
	case RCODE_NOTIMP:
	case RCODE_REFUSED:
		return true;
	default:
		return false;
	}
}

struct transport *transport_new(struct worker_context *context);

/* NULL is fine. No remote may exist. */
void transport_free(struct transport *transport);

/* Call it at the end of each iteration. Sends the messages that the iteration has gathered. Returns
 * whether remote_ops.lost() has been called since the last call. */
bool transport_iteration(struct transport *transport);

/* Handle the epoll events of PART_TRANSPORT_UDP and PART_TRANSPORT_TCP. */
void transport_udp_event(struct transport *transport, uint32_t slot, uint32_t generation);
void transport_tcp_event(
    struct transport *transport, uint32_t slot, uint32_t generation, uint32_t events);

/*
 * Adds a server. `pipelined` is the number of questions that a connection carries at the same time,
 * at most TRANSPORT_PIPELINED.
 */
struct remote *remote_new(struct transport *transport, const struct server *server,
    unsigned pipelined, struct remote_ops ops);

/* Frees the server when its last exchange has ended. No exchange may be started any more, but an open
 * one may move to TCP. */
void remote_release(struct remote *remote);

enum { TRANSPORT_PIPELINED = 32 };

/*
 * Sends the question over UDP, with a new ID. Returns 0, or an errno value if there is no socket
 * or no way to the server. Then nothing was started.
 */
int exchange_send(struct exchange *exchange);

/* Does the same, but does not gather the message with others. So it is sent after those before it, whose batches
 * have lower numbers, and before those that follow. */
int exchange_send_at_once(struct exchange *exchange);

/* Sends the question again over UDP, from the same port with the same ID. A reply to either message
 * counts. */
void exchange_send_again(struct exchange *exchange);

/* Sends the question over TCP, now or when a connection has a place for the client. Clients share the
 * connections (turns.h). An open exchange over UDP ends first. The exchange may be lost before this
 * function returns. */
void exchange_over_tcp(struct exchange *exchange);

/* Returns whether the exchange was sent over UDP, or is on or waits for a connection, and has not ended. */
bool exchange_is_open(const struct exchange *exchange);

/* Ends the exchange. No callback for it follows. Does nothing if it has ended. */
void exchange_end(struct exchange *exchange);

#endif
