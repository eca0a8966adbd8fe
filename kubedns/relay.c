#include "kubedns/relay.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/ids.h"
#include "kubedns/pending.h"
#include "kubedns/relay_tcp.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum {
	PORT_QUERIES = 32, /* RFC 5452 section 10 */
	PORTS_MAX = 2048,
	REPLY_STRIDE = DNS_UDP_QUERY_MAX + 64,
};
static const int64_t retry_ns = 1000 * INT64_C(1000000);
static const int64_t refused_ns =
    50 * INT64_C(1000000); /* dnsmasq is being restarted: it will be back soon */

/* A source port towards the resolver. */
struct relay_port {
	int fd;
	uint32_t slot, generation;
	unsigned used, open;
	uint16_t ids[PORT_QUERIES];
	struct pending *queries[PORT_QUERIES]; /* NULL: answered or over */
};

struct relay {
	struct worker *worker;
	struct server resolver;
	struct relay_tcp *tcp;
	struct relay_port *current;          /* new queries go here; NULL: open one */
	struct relay_port *ports[PORTS_MAX]; /* by slot */
	uint32_t free_slots[PORTS_MAX];
	uint32_t free_count;
	uint32_t generation; /* of the port opened last */

	/* Queries for the current port that this turn has gathered. */
	unsigned out_count;
	struct mmsghdr out[PORT_QUERIES];
	struct iovec out_iov[PORT_QUERIES][2];
	uint8_t out_id[PORT_QUERIES][2];
	uint8_t out_chase[PORT_QUERIES][PENDING_QUESTION_MAX];
	struct pending *out_pending[PORT_QUERIES];

	TAILQ_HEAD(, pending) refused; /* nobody listened: to be sent again soon */
	int64_t refused_at_ns;

	struct mmsghdr in[PORT_QUERIES];
	struct iovec in_iov[PORT_QUERIES];
	uint8_t *replies; /* PORT_QUERIES x REPLY_STRIDE */
	struct ids ids;
};

/* The message to send: the client's own, or a question of ours for a CNAME's target. */
static size_t
write_query(const struct pending *pending, uint16_t id, uint8_t *out)
{
	if (pending->chase)
		return pending_question(pending, id, out);
	memcpy(out, pending->query, pending->query_len);
	wire_put16(out, id);
	return pending->query_len;
}

bool
relay_matches(const struct pending *pending, uint16_t id, const uint8_t *reply, size_t len)
{
	if (len < DNS_HEADER || wire_get16(reply) != id || (reply[2] & 0x80) == 0 ||
	    wire_get16(reply + 4) != 1)
		return false;
	size_t name_len = dname_length(reply + DNS_HEADER, len - DNS_HEADER);
	if (name_len == 0 || len < DNS_HEADER + name_len + 4 ||
	    !dname_equal(reply + DNS_HEADER, pending->name.wire))
		return false;
	const uint8_t *question = reply + DNS_HEADER + name_len;
	return wire_get16(question) == pending->type && wire_get16(question + 2) == CLASS_IN;
}

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

static struct relay_port *
port_open(struct relay *relay)
{
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(&relay->resolver, &ss);
	if (relay->free_count == 0)
		return NULL;
	int fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	uint32_t slot = relay->free_slots[relay->free_count - 1], generation = ++relay->generation;
	/* Connected: the kernel lets nobody else's packets in, and tells when nobody listens. */
	if (connect(fd, (struct sockaddr *)&ss, len) != 0 ||
	    loop_control(relay->worker, EPOLL_CTL_ADD, fd, EPOLLIN,
		loop_key(LOOP_RELAY_UDP, slot, generation)) != 0) {
		close(fd);
		return NULL;
	}
	relay->free_count--;
	struct relay_port *port = xcalloc(1, sizeof(*port));
	port->fd = fd;
	port->slot = slot;
	port->generation = generation;
	relay->ports[slot] = port;
	return port;
}

/* The query is no longer out: its place is free, and the port with it when it was the last. */
static void
leave_port(struct relay *relay, struct pending *pending)
{
	struct relay_port *port = pending->port;
	if (port == NULL)
		return;
	port->queries[pending->place] = NULL;
	pending->port = NULL;
	if (--port->open == 0 && port != relay->current)
		port_close(relay, port);
}

/*
 * Every query of this port that is still out was refused, or may have been: all are sent again
 * soon.
 */
static void
port_refused(struct relay *relay, struct relay_port *port)
{
	stats_add(&relay->worker->stats->forward_server_failures, 1);
	for (unsigned i = 0; i < port->used; i++) {
		struct pending *pending = port->queries[i];
		if (pending == NULL || pending->queued || pending->gathered)
			continue;
		if (TAILQ_EMPTY(&relay->refused))
			relay->refused_at_ns = relay->worker->now_ns + refused_ns;
		pending->queued = true;
		TAILQ_INSERT_TAIL(&relay->refused, pending, by_queue);
	}
}

/*
 * Sends what was gathered; true if the kernel told meanwhile that nobody listens. That is about
 * a query sent before, and the message at hand has not been sent: it gets another try. One that
 * cannot be sent at all waits for its retry time.
 */
static bool
send_gathered(struct relay *relay)
{
	unsigned sent = 0;
	bool refused = false, again = true;
	while (sent < relay->out_count) {
		int n = sendmmsg(
		    relay->current->fd, relay->out + sent, relay->out_count - sent, MSG_DONTWAIT);
		if (n > 0) {
			sent += (unsigned)n;
			again = true;
		} else if (errno == ECONNREFUSED && again) {
			refused = true;
			again = false;
		} else if (errno != EINTR) {
			sent++;
			again = true;
		}
	}
	return refused;
}

static void
flush(struct relay *relay)
{
	if (relay->out_count == 0)
		return;
	struct relay_port *port = relay->current;
	bool refused = send_gathered(relay);
	for (unsigned i = 0; i < relay->out_count; i++)
		relay->out_pending[i]->gathered = false;
	relay->out_count = 0;
	if (refused)
		port_refused(relay, port);
	if (port->used == PORT_QUERIES) {
		relay->current = NULL;
		if (port->open == 0)
			port_close(relay, port);
	}
}

/* Gives the query a place and an ID at the current port. */
static bool
take_place(struct relay *relay, struct pending *pending)
{
	if (relay->current != NULL && relay->current->used == PORT_QUERIES)
		flush(relay);
	if (relay->current == NULL)
		relay->current = port_open(relay);
	struct relay_port *port = relay->current;
	if (port == NULL)
		return false;
	pending->port = port;
	pending->place = port->used;
	port->ids[port->used] = ids_take(&relay->ids, port->ids, port->used);
	port->queries[port->used++] = pending;
	port->open++;
	return true;
}

/* --- asker --- */

static void
ask(void *arg, struct pending *pending)
{
	struct relay *relay = arg;
	if (!take_place(relay, pending))
		return; /* no descriptor: the retry time comes */
	unsigned i = relay->out_count++;
	uint16_t id = pending->port->ids[pending->place];
	wire_put16(relay->out_id[i], id);
	uint8_t *message = pending->query;
	size_t len = pending->query_len;
	if (pending->chase) {
		message = relay->out_chase[i];
		len = write_query(pending, id, message);
	}
	relay->out_iov[i][0] = (struct iovec){ relay->out_id[i], 2 };
	relay->out_iov[i][1] = (struct iovec){ message + 2, len - 2 };
	relay->out_pending[i] = pending;
	pending->gathered = true;
}

/* Once more by the same port with the same ID, so that the reply to the first one counts too. */
static void
send_again(struct relay *relay, struct pending *pending)
{
	uint8_t message[DNS_UDP_QUERY_MAX];
	stats_add(&relay->worker->stats->forward_retries, 1);
	if (pending->port == NULL) {
		ask(relay, pending);
		return;
	}
	size_t len = write_query(pending, pending->port->ids[pending->place], message);
	ssize_t n = send(pending->port->fd, message, len, MSG_DONTWAIT);
	if (n < 0 && errno == ECONNREFUSED) /* told of an earlier one; this one has not been sent */
		n = send(pending->port->fd, message, len, MSG_DONTWAIT);
	if (n < 0)
		log_neterr("relay: send: %s", strerror(errno));
}

static void
retry(void *arg, struct pending *pending)
{
	struct relay *relay = arg;
	if (pending->conn != NULL || pending->queued || pending->gathered)
		return;
	if (pending->port != NULL)
		stats_add(&relay->worker->stats->forward_server_failures, 1);
	if (pending->port == NULL && pending->tried != 0) {
		stats_add(&relay->worker->stats->forward_retries, 1);
		relay_tcp_ask(relay->tcp, pending);
	} else {
		send_again(relay, pending);
	}
}

static void
forget(void *arg, struct pending *pending)
{
	struct relay *relay = arg;
	if (pending->gathered)
		flush(relay); /* its bytes are about to go */
	leave_port(relay, pending);
	if (pending->queued && pending->tried == 0) {
		TAILQ_REMOVE(&relay->refused, pending, by_queue);
		pending->queued = false;
	}
	relay_tcp_forget(relay->tcp, pending);
}

/* --- events --- */

static void
take_reply(struct relay *relay, struct relay_port *port, const uint8_t *reply, size_t len)
{
	if (len < DNS_HEADER)
		return;
	unsigned i = 0;
	uint16_t id = wire_get16(reply);
	while (i < port->used && (port->queries[i] == NULL || port->ids[i] != id))
		i++;
	if (i == port->used || !relay_matches(port->queries[i], id, reply, len))
		return; /* late, or forged */
	struct pending *pending = port->queries[i];
	bool truncated = (wire_get16(reply + 2) & FLAG_TC) != 0;
	if (!truncated || pending->client.proto != PROTO_TCP) {
		pending_finish(relay->worker, pending, reply, len);
		return;
	}
	if (pending->queued)
		return; /* it is being sent again anyway */
	leave_port(relay, pending);
	pending->tried = 1; /* from now on over TCP */
	relay_tcp_ask(relay->tcp, pending);
}

void
relay_udp_event(struct relay *relay, uint32_t slot, uint32_t generation, uint32_t events)
{
	(void)events;
	struct relay_port *port = find_port(relay, slot, generation);
	if (port == NULL)
		return;
	int n = recvmmsg(port->fd, relay->in, PORT_QUERIES, MSG_DONTWAIT, NULL);
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
relay_turn(struct relay *relay)
{
	if (!TAILQ_EMPTY(&relay->refused) && relay->refused_at_ns <= relay->worker->now_ns) {
		struct pending *pending;
		while ((pending = TAILQ_FIRST(&relay->refused)) != NULL) {
			TAILQ_REMOVE(&relay->refused, pending, by_queue);
			pending->queued = false;
			send_again(relay, pending);
		}
	}
	flush(relay);
	return TAILQ_EMPTY(&relay->refused) ? 0 : relay->refused_at_ns;
}

/* --- life --- */

struct relay *
relay_new(struct worker *worker, const struct server *resolver)
{
	struct relay *relay = xcalloc(1, sizeof(*relay));
	relay->worker = worker;
	relay->resolver = *resolver;
	relay->tcp = relay_tcp_new(worker, resolver, write_query);
	relay->replies = xmalloc((size_t)PORT_QUERIES * REPLY_STRIDE);
	TAILQ_INIT(&relay->refused);
	for (uint32_t i = PORTS_MAX; i-- > 0;)
		relay->free_slots[relay->free_count++] = i;
	for (unsigned i = 0; i < PORT_QUERIES; i++) {
		relay->in_iov[i] =
		    (struct iovec){ relay->replies + (size_t)i * REPLY_STRIDE, DNS_UDP_QUERY_MAX };
		relay->in[i].msg_hdr =
		    (struct msghdr){ .msg_iov = &relay->in_iov[i], .msg_iovlen = 1 };
		relay->out[i].msg_hdr =
		    (struct msghdr){ .msg_iov = relay->out_iov[i], .msg_iovlen = 2 };
	}
	*pending_asker(worker->pending) = (struct asker){
		.arg = relay, .ask = ask, .retry = retry, .forget = forget, .retry_ns = retry_ns
	};
	return relay;
}

void
relay_free(struct relay *relay)
{
	if (relay == NULL)
		return;
	relay_tcp_free(relay->tcp);
	for (uint32_t i = 0; i < PORTS_MAX; i++)
		if (relay->ports[i] != NULL)
			port_close(relay, relay->ports[i]);
	free(relay->replies);
	free(relay);
}
