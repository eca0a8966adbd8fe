#include "kubedns/serve/upstream/relay.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/serve/net/batch_io.h"
#include "kubedns/serve/upstream/ids.h"
#include "kubedns/serve/upstream/inflight.h"
#include "kubedns/serve/upstream/relay_batch.h"
#include "kubedns/serve/upstream/relay_tcp.h"
#include "kubedns/serve/upstream/validation.h"
#include "kubedns/serve/observe/observe.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum {
	PORT_QUERIES = RELAY_BATCH, /* RFC 5452 section 10 */
	PORTS_MAX = 2048,
	VALIDATION_SLOT = PORTS_MAX, /* slot of the socket of validation.h, for epoll */
	/* Number of sockets kept for reuse. A new port number costs less than a new socket. */
	IDLE_MAX = 32,
	REPLY_STRIDE = DNS_UDP_QUERY_MAX + 64,
};
/*
 * A query without an answer is sent again after 250 ms, and once more after a second. After such a retry, dnsmasq sends the query to all of
 * its upstream servers, and continues to use the server that answers first. A silent server therefore delays the next few queries by 250
 * ms, and later queries not at all. The price is one query to every upstream server for each name that is slow. More retries would multiply
 * that price. The second retry is for a dnsmasq that is overloaded and has lost the first retry.
 */
static const int64_t retry_ns = 250 * INT64_C(1000000);
enum { RETRY_FIRST = 1, RETRY_SECOND = 4 /* in units of retry_ns */ };
/*
 * dnsmasq stores an unanswered query for 10 s, by a clock with whole seconds. By then, our own query has ended.
 */
static const int64_t hold_ns = 11 * INT64_C(1000000000);
/* A query that got ECONNREFUSED is sent again after this time. dnsmasq is probably being restarted. */
static const int64_t refused_ns = 50 * INT64_C(1000000);

/* A source port for queries to the resolver. */
struct relay_port {
	int fd;
	uint32_t slot, generation;
	unsigned used, open;
	uint16_t ids[PORT_QUERIES];
	struct relay_query *queries[PORT_QUERIES]; /* NULL if the query has ended */
};

struct relay {
	struct worker_context *context;
	struct inflight_table *inflight;
	struct server resolver;
	struct relay_tcp *tcp;
	struct validation *validation;       /* NULL if nothing depends on it */
	struct relay_port *current;          /* port for new queries; if NULL, one is opened */
	struct relay_port *ports[PORTS_MAX]; /* the ports by slot */
	uint32_t free_slots[PORTS_MAX];
	uint32_t free_count;
	struct relay_port *idle[IDLE_MAX];
	unsigned idle_count;
	uint32_t generation; /* generation of the last opened port */

	struct relay_batch batch; /* messages for the current port */

	TAILQ_HEAD(, relay_query) refused; /* queries to send again soon, the earliest first */

	struct mmsghdr in[PORT_QUERIES];
	struct iovec in_iov[PORT_QUERIES];
	uint8_t *replies; /* PORT_QUERIES x REPLY_STRIDE bytes */
	struct ids ids;
};

/* --- ports --- */

static void
port_close(struct relay *relay, struct relay_port *port)
{
	close(port->fd);
	relay->ports[port->slot] = NULL;
	relay->free_slots[relay->free_count++] = port->slot;
	free(port);
}

static struct relay_port *
find_port(const struct relay *relay, uint32_t slot, uint32_t generation)
{
	struct relay_port *port = slot < PORTS_MAX ? relay->ports[slot] : NULL;

	return port != NULL && port->generation == generation ? port : NULL;
}

/* On a connected socket, the kernel drops all packets that are not from the resolver, and reports
 * ECONNREFUSED. */
static bool
port_connect(const struct relay *relay, int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(&relay->resolver, &ss);

	return connect(fd, (struct sockaddr *)&ss, len) == 0;
}

/* Called when all queries of the port have ended. Packets that still arrive at the port are dropped. */
static void
port_retire(struct relay *relay, struct relay_port *port)
{
	if (relay->idle_count == IDLE_MAX) {
		port_close(relay, port);
		return;
	}
	port->used = 0;
	relay->idle[relay->idle_count++] = port;
}

/* Reuses an idle socket with a new source port. A connect() with AF_UNSPEC releases the old port. */
static struct relay_port *
port_again(struct relay *relay)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct relay_port *port = relay->idle[--relay->idle_count];

	if (connect(port->fd, &none, sizeof none) == 0 && port_connect(relay, port->fd))
		return port;
	port_close(relay, port);
	return NULL;
}

static struct relay_port *
port_open(struct relay *relay)
{
	if (relay->idle_count > 0)
		return port_again(relay);
	if (relay->free_count == 0)
		return NULL;
	int fd = socket(relay->resolver.addr.family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	uint32_t slot = relay->free_slots[relay->free_count - 1], generation = ++relay->generation;
	if (!port_connect(relay, fd) || worker_epoll_ctl(relay->context, EPOLL_CTL_ADD, fd, EPOLLIN,
					    worker_key(PART_RELAY_UDP, slot, generation)) != 0) {
		close(fd);
		return NULL;
	}
	relay->free_count--;
	struct relay_port *port = xcalloc(1, sizeof *port);
	port->fd = fd;
	port->slot = slot;
	port->generation = generation;
	relay->ports[slot] = port;
	return port;
}

/* Frees the query's place. If the query was the last query of the port, frees the port too. */
static void
leave_port(struct relay *relay, struct relay_query *query)
{
	struct relay_port *port = query->port;

	if (port == NULL)
		return;
	port->queries[query->place] = NULL;
	query->port = NULL;
	if (--port->open == 0 && port != relay->current)
		port_retire(relay, port);
}

/*
 * Handles ECONNREFUSED. Any query in flight at this port may be the refused query, so all of them are sent again soon.
 */
static void
port_refused(struct relay *relay, struct relay_port *port)
{
	stats_add(&relay->context->stats->forward_server_failures, 1);
	for (unsigned i = 0; i < port->used; i++) {
		struct relay_query *query = port->queries[i];

		if (query == NULL || query->queued)
			continue;
		query->again_at_ns = relay->context->now_ns + refused_ns;
		query->queued = true;
		TAILQ_INSERT_TAIL(&relay->refused, query, by_queue);
	}
}

static void
send_batch(struct relay *relay)
{
	struct relay_port *port = relay->current;

	if (relay->batch.count == 0 || port == NULL)
		return;
	if (relay_batch_send(&relay->batch, port->fd))
		port_refused(relay, port);
	if (port->used == PORT_QUERIES) {
		relay->current = NULL;
		if (port->open == 0)
			port_retire(relay, port);
	}
}

/* Assigns the query a place and an ID at the current port. */
static bool
take_place(struct relay *relay, struct relay_query *query)
{
	if (relay->current != NULL && relay->current->used == PORT_QUERIES)
		send_batch(relay);
	if (relay->current == NULL)
		relay->current = port_open(relay);
	struct relay_port *port = relay->current;
	if (port == NULL)
		return false;
	query->port = port;
	query->place = port->used;
	port->ids[port->used] = ids_take(&relay->ids, port->ids, port->used);
	port->queries[port->used++] = query;
	port->open++;
	return true;
}

/* --- forward_ops --- */

/* Sends the query from a new place. */
static void
send_first(struct relay *relay, struct relay_query *query)
{
	if (relay->validation != NULL)
		validation_ask(relay->validation);
	if (!take_place(relay, query))
		return; /* there is no descriptor, so the query waits for its retry */
	uint8_t *capacity = relay_batch_capacity(&relay->batch);
	size_t len =
	    inflight_question(&query->base, query->port->ids[query->place], true, capacity);
	query->sent_ns =
	    observe_server_query(relay->context->ring, false, &relay->resolver, capacity, len);
	relay_batch_add(&relay->batch, len);
}

/* An earlier candidate of the search list may have been sent over TCP. */
static void
relay_ask(void *arg, struct inflight *inflight)
{
	struct relay_query *query = relay_query_of(inflight);

	query->over_tcp = false;
	query->waited = 0;
	send_first(arg, query);
}

/* Sends the query again from the same port with the same ID. A reply to the first message then counts too. */
static void
send_again(struct relay *relay, struct relay_query *query)
{
	uint8_t message[DNS_UDP_QUERY_MAX];

	stats_add(&relay->context->stats->forward_retries, 1);
	if (query->port == NULL) {
		send_first(relay, query);
		return;
	}
	size_t len = inflight_question(&query->base, query->port->ids[query->place], true, message);
	observe_server_query(relay->context->ring, false, &relay->resolver, message, len);
	ssize_t n = send(query->port->fd, message, len, MSG_DONTWAIT);
	/* the error belongs to an earlier message; the current message was not sent */
	if (n < 0 && errno == ECONNREFUSED)
		n = send(query->port->fd, message, len, MSG_DONTWAIT);
	if (n < 0)
		log_neterr("relay: send: %s", strerror(errno));
}

static void
relay_retry(void *arg, struct inflight *inflight)
{
	struct relay *relay = arg;
	struct relay_query *query = relay_query_of(inflight);

	query->waited++;
	if (query->over_tcp && (query->conn != NULL || query->queued)) {
		inflight_no_reply(relay->inflight, inflight);
		return;
	}
	if (query->queued ||
	    (query->port != NULL && query->waited != RETRY_FIRST && query->waited != RETRY_SECOND))
		return;
	if (query->port != NULL)
		stats_add(&relay->context->stats->forward_server_failures, 1);
	if (query->port == NULL && query->over_tcp) {
		stats_add(&relay->context->stats->forward_retries, 1);
		relay_tcp_ask(relay->tcp, query);
	} else {
		send_again(relay, query);
	}
}

static void
relay_forget(void *arg, struct inflight *inflight)
{
	struct relay *relay = arg;
	struct relay_query *query = relay_query_of(inflight);

	leave_port(relay, query);
	if (query->queued && !query->over_tcp) {
		TAILQ_REMOVE(&relay->refused, query, by_queue);
		query->queued = false;
	}
	relay_tcp_forget(relay->tcp, query);
}

/* --- events --- */

static void
take_reply(struct relay *relay, struct relay_port *port, const uint8_t *reply, size_t len)
{
	if (len < DNS_HEADER)
		return;
	unsigned i = 0;
	uint16_t id = wire_get16(reply);
	while (i < port->used && (port->ids[i] != id || port->queries[i] == NULL))
		i++;
	if (i == port->used || !relay_matches(&port->queries[i]->base, id, reply, len))
		return; /* a late or forged reply */
	struct relay_query *query = port->queries[i];
	if (relay->validation != NULL)
		validation_replied(relay->validation);
	bool truncated = (wire_get16(reply + 2) & FLAG_TC) != 0;
	observe_server_response(
	    relay->context->ring, false, &relay->resolver, reply, len, query->sent_ns);
	if (!truncated || query->base.client.proto != PROTO_TCP) {
		inflight_finish(relay->inflight, &query->base, reply, len);
		return;
	}
	if (query->queued)
		return; /* the query will be sent again anyway */
	leave_port(relay, query);
	query->over_tcp = true;
	inflight_restart_retry(relay->inflight, &query->base);
	relay_tcp_ask(relay->tcp, query);
}

void
relay_udp_event(struct relay *relay, uint32_t slot, uint32_t generation, uint32_t events)
{
	(void)events;
	if (slot == VALIDATION_SLOT) {
		validation_event(relay->validation);
		return;
	}
	struct relay_port *port = find_port(relay, slot, generation);
	if (port == NULL)
		return;
	int n = messages_receive(port->fd, relay->in, PORT_QUERIES);
	if (n < 0 && errno == ECONNREFUSED)
		port_refused(relay, port);
	for (int i = 0; i < n && find_port(relay, slot, generation) != NULL; i++)
		take_reply(relay, port, relay->in_iov[i].iov_base, relay->in[i].msg_len);
}

void
relay_tcp_event(struct relay *relay, uint32_t slot, uint32_t generation, uint32_t events)
{
	relay_tcp_ready(relay->tcp, slot, generation, events);
}

int64_t
relay_iteration(struct relay *relay)
{
	struct relay_query *query;

	while ((query = TAILQ_FIRST(&relay->refused)) != NULL &&
	       query->again_at_ns <= relay->context->now_ns) {
		TAILQ_REMOVE(&relay->refused, query, by_queue);
		query->queued = false;
		send_again(relay, query);
	}
	send_batch(relay);
	query = TAILQ_FIRST(&relay->refused);
	return query == NULL ? CLOCK_NEVER : query->again_at_ns;
}

/* --- set-up --- */

static bool
relay_is_final(void *arg)
{
	const struct relay *relay = arg;

	return validation_checks(relay->validation);
}

void
relay_respects_validation(struct relay *relay)
{
	relay->validation = validation_new(
	    relay->context, &relay->resolver, worker_key(PART_RELAY_UDP, VALIDATION_SLOT, 0));
	inflight_ops(relay->inflight)->is_final = relay_is_final;
}

struct relay *
relay_new(
    struct worker_context *context, struct inflight_table *inflight, const struct server *resolver)
{
	struct relay *relay = xcalloc(1, sizeof *relay);

	relay->context = context;
	relay->inflight = inflight;
	relay->resolver = *resolver;
	relay->tcp = relay_tcp_new(context, inflight, resolver);
	relay_batch_init(&relay->batch);
	relay->replies = xmalloc((size_t)PORT_QUERIES * REPLY_STRIDE);
	TAILQ_INIT(&relay->refused);
	for (uint32_t i = PORTS_MAX; i-- > 0;)
		relay->free_slots[relay->free_count++] = i;
	for (unsigned i = 0; i < PORT_QUERIES; i++) {
		relay->in_iov[i] =
		    (struct iovec){ relay->replies + (size_t)i * REPLY_STRIDE, DNS_UDP_QUERY_MAX };
		relay->in[i].msg_hdr =
		    (struct msghdr){ .msg_iov = &relay->in_iov[i], .msg_iovlen = 1 };
	}
	*inflight_ops(inflight) = (struct forward_ops){ .arg = relay,
		.size = sizeof(struct relay_query),
		.made = MADE_RELAYED,
		.ask = relay_ask,
		.retry = relay_retry,
		.forget = relay_forget,
		.ask_on = relay_ask,
		.retry_ns = retry_ns,
		.timeout_ns = RELAY_TIMEOUT_MS * INT64_C(1000000),
		.hold_ns = hold_ns };
	return relay;
}

void
relay_free(struct relay *relay)
{
	if (relay == NULL)
		return;
	relay_tcp_free(relay->tcp);
	validation_free(relay->validation);
	for (uint32_t i = 0; i < PORTS_MAX; i++)
		if (relay->ports[i] != NULL)
			port_close(relay, relay->ports[i]);
	relay_batch_free(&relay->batch);
	free(relay->replies);
	free(relay);
}
