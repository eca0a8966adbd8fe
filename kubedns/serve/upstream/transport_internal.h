/* What transport.c (servers, UDP) and transport_tcp.c (connections) share. */
#ifndef KUBEDNS_SERVE_UPSTREAM_TRANSPORT_INTERNAL_H
#define KUBEDNS_SERVE_UPSTREAM_TRANSPORT_INTERNAL_H

#include <sys/socket.h>

#include "kubedns/serve/upstream/ids.h"
#include "kubedns/serve/upstream/transport.h"
#include "kubedns/serve/upstream/transport_batch.h"

enum {
	PORT_QUESTIONS = TRANSPORT_BATCH, /* RFC 5452 section 10 */
	SOCKETS_MAX = 2048,
	/* Number of sockets kept for reuse. A new port number costs less than a new socket. */
	IDLE_MAX = 32,
	CONNS_MAX = 256, /* for all servers */
	/* For one server. dnsmasq accepts 20 connections, also from other workers. */
	REMOTE_CONNS = 8,
};

/* A source port for questions to one server. */
struct transport_port {
	struct remote *remote; /* NULL while the socket is idle */
	int fd, family;
	uint32_t slot, generation;
	uint32_t turn; /* counts how often the socket became idle */
	unsigned used, open;
	uint16_t ids[PORT_QUESTIONS];
	struct exchange *exchanges[PORT_QUESTIONS]; /* NULL if the exchange has ended */
};

/* Another server. */
struct remote {
	struct transport *transport;
	struct server server;
	struct remote_ops ops;
	unsigned open; /* exchanges that have not ended */
	bool released;
	struct transport_port *port; /* port for new questions; if NULL, one is opened */
	unsigned pipelined;
	struct transport_conn *conns[REMOTE_CONNS]; /* NULL: not connected */
	struct turns *turns;                        /* places on all connections */
};

struct transport {
	struct worker_context *context;
	struct ids ids;
	bool lost; /* remote_ops.lost() has been called in this iteration */
	/* --- UDP --- */
	struct transport_port *ports[SOCKETS_MAX]; /* by slot */
	uint32_t free_slots[SOCKETS_MAX];
	uint32_t free_count;
	uint32_t generation; /* of the last opened port or connection */
	struct transport_port *idle[IDLE_MAX];
	unsigned idle_count;
	struct transport_batch batch;
	struct transport_port *batch_port; /* sends the batch; not NULL if the batch has messages */
	uint64_t batch_number;             /* of this batch, or of the next one if it is empty */
	struct mmsghdr in[PORT_QUESTIONS];
	struct iovec in_iov[PORT_QUESTIONS];
	uint8_t *replies; /* buffers of `in` */
	/* --- TCP --- */
	struct transport_conn *conns[CONNS_MAX]; /* by slot */
};

/* Call it when an exchange starts or ends. The last one that ends frees a released server. */
void remote_exchange_begins(struct remote *remote);
void remote_exchange_ends(struct remote *remote);

/* Writes the question. Returns its length. */
size_t exchange_write(const struct exchange *exchange, uint16_t id, uint8_t *out);

/* Returns whether `reply` is a reply to the exchange's question, or an error without a question. Its ID is
 * not checked. */
bool exchange_matches(const struct exchange *exchange, const uint8_t *reply, size_t len);

/* Ends the exchange's part that uses TCP. */
void transport_tcp_end(struct exchange *exchange);

/* Closes all connections of the server. It has no open exchange. */
void transport_tcp_close(struct remote *remote);

#endif
