#include "kubedns/serve/upstream/transport_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kubedns/serve/net/batch_io.h"
#include "kubedns/serve/observe/observe.h"
#include "kubedns/serve/upstream/inflight.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum { REPLY_STRIDE = DNS_UDP_QUERY_MAX + 64 };

/* --- ports --- */

static void
port_close(struct transport *t, struct transport_port *port)
{
	close(port->fd);
	t->ports[port->slot] = NULL;
	t->free_slots[t->free_count++] = port->slot;
	free(port);
}

static struct transport_port *
find_port(const struct transport *t, uint32_t slot, uint32_t generation)
{
	struct transport_port *port = slot < SOCKETS_MAX ? t->ports[slot] : NULL;

	return port != NULL && port->generation == generation ? port : NULL;
}

/* On a connected socket, the kernel drops all packets that are not from the server, and reports
 * ECONNREFUSED. */
static int
port_connect(const struct server *server, int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(server, &ss);

	return connect(fd, (struct sockaddr *)&ss, len) == 0 ? 0 : errno;
}

/* Called when all questions of the port have ended, and it gets no more. Packets that still arrive at the port are dropped. */
static void
port_retire(struct transport *t, struct transport_port *port)
{
	port->remote = NULL;
	port->turn++;
	if (t->idle_count == IDLE_MAX) {
		port_close(t, port);
		return;
	}
	port->used = 0;
	t->idle[t->idle_count++] = port;
}

/* Returns an idle socket of this address family, or NULL. */
static struct transport_port *
take_idle(struct transport *t, int family)
{
	for (unsigned i = t->idle_count; i-- > 0;) {
		struct transport_port *port = t->idle[i];

		if (port->family != family)
			continue;
		t->idle[i] = t->idle[--t->idle_count];
		return port;
	}
	return NULL;
}

/* Gives an idle socket a new source port. A connect() with AF_UNSPEC releases the old port. After it, no
 * error of the old server arrives. An error that has arrived would count as an error of the new server, so
 * getsockopt() clears it. */
static int
port_again(struct transport *t, struct transport_port *port, const struct server *server)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	int rc = connect(port->fd, &none, sizeof none) == 0 ? 0 : errno, error;
	socklen_t len = sizeof error;

	getsockopt(port->fd, SOL_SOCKET, SO_ERROR, &error, &len);
	if (rc == 0)
		rc = port_connect(server, port->fd);
	if (rc != 0)
		port_close(t, port);
	return rc;
}

/* Opens a socket. Returns 0 and sets `*out`, or returns an errno value. */
static int
socket_open(struct transport *t, const struct server *server, struct transport_port **out)
{
	if (t->free_count == 0)
		return EMFILE;
	int fd = socket(server->addr.family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	uint32_t slot = t->free_slots[t->free_count - 1], generation = ++t->generation;
	int rc = port_connect(server, fd);
	if (rc == 0 && worker_epoll_ctl(t->context, EPOLL_CTL_ADD, fd, EPOLLIN,
			   worker_key(PART_TRANSPORT_UDP, slot, generation)) != 0)
		rc = errno;
	if (rc != 0) {
		close(fd);
		return rc;
	}
	t->free_count--;
	struct transport_port *port = xcalloc(1, sizeof *port);
	port->fd = fd;
	port->family = server->addr.family;
	port->slot = slot;
	port->generation = generation;
	t->ports[slot] = *out = port;
	return 0;
}

static int
port_open(struct remote *remote)
{
	struct transport *t = remote->transport;
	struct transport_port *port = take_idle(t, remote->server.addr.family);
	int rc = port != NULL ? port_again(t, port, &remote->server)
			      : socket_open(t, &remote->server, &port);

	if (rc != 0)
		return rc;
	assert(port != NULL);
	port->remote = remote;
	remote->port = port;
	return 0;
}

/* Reports the loss to the caller. Any question in flight at this port may be the lost one. */
static void
port_lost(struct transport *t, struct transport_port *port)
{
	uint32_t slot = port->slot, generation = port->generation, turn = port->turn;

	for (unsigned i = 0; i < PORT_QUESTIONS; i++) {
		if (find_port(t, slot, generation) != port || port->turn != turn || i >= port->used)
			return; /* all its exchanges have ended meanwhile */
		if (port->exchanges[i] == NULL)
			continue;
		t->lost = true;
		port->remote->ops.lost(port->remote->ops.arg, port->exchanges[i], false);
	}
}

static void
send_batch(struct transport *t)
{
	struct transport_port *port = t->batch_port;

	if (port == NULL)
		return;
	t->batch_port = NULL;
	t->batch_number++;
	if (transport_batch_send(&t->batch, port->fd))
		port_lost(t, port);
}

/* Gives the port no more questions. */
static void
leave_port(struct remote *remote)
{
	struct transport *t = remote->transport;
	struct transport_port *port = remote->port;

	if (port == NULL)
		return;
	remote->port = NULL;
	if (port->open == 0) {
		if (t->batch_port == port)
			send_batch(t);
		port_retire(t, port);
	}
}

/* Frees the exchange's place. If it was the last one of the port, frees the port too. */
static void
leave_place(struct exchange *exchange)
{
	struct transport_port *port = exchange->port;
	struct remote *remote = exchange->remote;
	struct transport *t = remote->transport;

	port->exchanges[exchange->place] = NULL;
	exchange->port = NULL;
	if (--port->open > 0 || port == remote->port)
		return;
	if (t->batch_port == port)
		send_batch(t);
	port_retire(t, port);
}

/* Assigns the exchange a place and an ID at the server's current port. Returns 0 or an errno value. */
static int
take_place(struct exchange *exchange)
{
	struct remote *remote = exchange->remote;
	struct transport *t = remote->transport;

	if (remote->port != NULL && remote->port->used == PORT_QUESTIONS)
		leave_port(remote);
	int rc = remote->port == NULL ? port_open(remote) : 0;
	if (rc != 0)
		return rc;
	struct transport_port *port = remote->port;
	exchange->port = port;
	exchange->place = port->used;
	port->ids[port->used] = ids_take(&t->ids, port->ids, port->used);
	port->exchanges[port->used++] = exchange;
	port->open++;
	return 0;
}

/* --- exchanges --- */

size_t
exchange_write(const struct exchange *exchange, uint16_t id, uint8_t *out)
{
	return inflight_question(exchange->question, id, !exchange->without_opt, out);
}

bool
exchange_matches(const struct exchange *exchange, const uint8_t *reply, size_t len)
{
	const struct inflight *question = exchange->question;

	if (len < DNS_HEADER)
		return false;
	if (wire_get16(reply + 4) == 0) /* no question, and then no answer and authority records */
		return (wire_get16(reply + 2) & FLAG_QR) != 0 && wire_get32(reply + 6) == 0 &&
		       reply_declines(reply);
	return wire_replies_to(reply, len, inflight_name(question), question->type, CLASS_IN);
}

/* Opens the exchange. Returns 0 or an errno value. */
static int
begin(struct exchange *exchange)
{
	assert(!exchange_is_open(exchange));
	exchange->answered = false;
	int rc = take_place(exchange);
	if (rc == 0)
		remote_exchange_begins(exchange->remote);
	return rc;
}

int
exchange_send(struct exchange *exchange)
{
	struct remote *remote = exchange->remote;
	struct transport *t = remote->transport;

	int rc = begin(exchange);
	if (rc != 0)
		return rc;
	struct transport_port *port = exchange->port;
	if (t->batch_port != port)
		send_batch(t);
	uint8_t *message = transport_batch_next(&t->batch);
	size_t len = exchange_write(exchange, port->ids[exchange->place], message);
	exchange->sent_ns =
	    observe_server_query(t->context->ring, false, &remote->server, message, len);
	transport_batch_add(&t->batch, len);
	t->batch_port = port;
	exchange->batch = t->batch_number;
	return 0;
}

/* Sends the message of an open exchange. Returns the time. */
static int64_t
send_alone(const struct exchange *exchange)
{
	const struct remote *remote = exchange->remote;
	const struct transport_port *port = exchange->port;
	uint8_t message[INFLIGHT_QUESTION_MAX];

	assert(port != NULL);
	size_t len = exchange_write(exchange, port->ids[exchange->place], message);
	int64_t sent_ns = observe_server_query(
	    remote->transport->context->ring, false, &remote->server, message, len);
	ssize_t n = send(port->fd, message, len, MSG_DONTWAIT);
	/* the error belongs to an earlier message; the current message was not sent */
	if (n < 0 && errno == ECONNREFUSED)
		n = send(port->fd, message, len, MSG_DONTWAIT);
	if (n < 0)
		log_neterr("upstream: send: %s", strerror(errno));
	return sent_ns;
}

int
exchange_send_at_once(struct exchange *exchange)
{
	struct transport *t = exchange->remote->transport;

	send_batch(t); /* this is first, because an open exchange may be lost with the batch */
	int rc = begin(exchange);
	if (rc != 0)
		return rc;
	exchange->batch = t->batch_number;
	exchange->sent_ns = send_alone(exchange);
	return 0;
}

void
exchange_send_again(struct exchange *exchange)
{
	send_alone(exchange);
}

bool
exchange_is_open(const struct exchange *exchange)
{
	return exchange->port != NULL || exchange->turn.client != NULL;
}

void
exchange_end(struct exchange *exchange)
{
	struct remote *remote = exchange->remote;

	if (!exchange_is_open(exchange))
		return;
	if (exchange->port != NULL) {
		if (!exchange->answered && exchange->port == remote->port)
			leave_port(remote);
		leave_place(exchange);
	} else {
		transport_tcp_end(exchange);
	}
	remote_exchange_ends(remote);
}

/* --- events --- */

/* Returns the exchange whose ID and question the reply has, or NULL. */
static struct exchange *
find_exchange(const struct transport_port *port, const uint8_t *reply, size_t len)
{
	unsigned i = 0;

	if (len < DNS_HEADER)
		return NULL;
	uint16_t id = wire_get16(reply);
	while (i < port->used && (port->ids[i] != id || port->exchanges[i] == NULL))
		i++;
	return i < port->used && exchange_matches(port->exchanges[i], reply, len)
		   ? port->exchanges[i]
		   : NULL;
}

/* Turns a reply that is longer than the buffer into a truncated reply without records. Returns its length. */
static size_t
drop_records(uint8_t *reply, size_t len)
{
	size_t end = DNS_HEADER;

	if (wire_get16(reply + 4) > 0)
		end += dname_length(reply + DNS_HEADER, len - DNS_HEADER) + 4;
	memset(reply + 6, 0, DNS_HEADER - 6);
	reply[2] |= FLAG_TC >> 8;
	return end;
}

/* The port may be idle. Then the reply is late. */
static void
take_reply(struct transport *t, const struct transport_port *port, const struct mmsghdr *message)
{
	uint8_t *reply = message->msg_hdr.msg_iov->iov_base;
	size_t len = message->msg_len;
	struct exchange *exchange = find_exchange(port, reply, len);
	const struct remote *remote = port->remote;

	if (exchange == NULL) {
		stats_add(&t->context->stats->forward_replies_ignored, 1);
		return;
	}
	observe_server_response(
	    t->context->ring, false, &remote->server, reply, len, exchange->sent_ns);
	exchange->answered = true;
	if ((message->msg_hdr.msg_flags & MSG_TRUNC) != 0)
		len = drop_records(reply, len);
	remote->ops.reply(remote->ops.arg, exchange, reply, len, false);
}

void
transport_udp_event(struct transport *t, uint32_t slot, uint32_t generation)
{
	struct transport_port *port = find_port(t, slot, generation);

	if (port == NULL)
		return;
	uint32_t turn = port->turn;
	int n = messages_receive(port->fd, t->in, PORT_QUESTIONS);
	if (n < 0 && errno == ECONNREFUSED)
		port_lost(t, port); /* it may free the port */
	for (int i = 0; i < n && find_port(t, slot, generation) == port && port->turn == turn; i++)
		take_reply(t, port, &t->in[i]);
}

bool
transport_iteration(struct transport *t)
{
	send_batch(t);
	bool lost = t->lost;
	t->lost = false;
	return lost;
}

/* --- servers --- */

struct remote *
remote_new(
    struct transport *t, const struct server *server, unsigned pipelined, struct remote_ops ops)
{
	struct remote *remote = xcalloc(1, sizeof *remote);

	assert(pipelined > 0 && pipelined <= TRANSPORT_PIPELINED);
	remote->transport = t;
	remote->server = *server;
	remote->ops = ops;
	remote->pipelined = pipelined;
	remote->turns = turns_new(REMOTE_CONNS * pipelined);
	return remote;
}

static void
remote_free(struct remote *remote)
{
	leave_port(remote);
	transport_tcp_close(remote);
	turns_free(remote->turns);
	free(remote);
}

void
remote_release(struct remote *remote)
{
	remote->released = true;
	if (remote->open == 0)
		remote_free(remote);
}

void
remote_exchange_begins(struct remote *remote)
{
	remote->open++;
}

void
remote_exchange_ends(struct remote *remote)
{
	assert(remote->open > 0);
	if (--remote->open == 0 && remote->released)
		remote_free(remote);
}

/* --- set-up --- */

struct transport *
transport_new(struct worker_context *context)
{
	struct transport *t = xcalloc(1, sizeof *t);

	t->context = context;
	transport_batch_init(&t->batch);
	t->replies = xmalloc((size_t)PORT_QUESTIONS * REPLY_STRIDE);
	for (uint32_t i = SOCKETS_MAX; i-- > 0;)
		t->free_slots[t->free_count++] = i;
	for (unsigned i = 0; i < PORT_QUESTIONS; i++) {
		t->in_iov[i] =
		    (struct iovec){ t->replies + (size_t)i * REPLY_STRIDE, DNS_UDP_QUERY_MAX };
		t->in[i].msg_hdr = (struct msghdr){ .msg_iov = &t->in_iov[i], .msg_iovlen = 1 };
	}
	return t;
}

void
transport_free(struct transport *t)
{
	if (t == NULL)
		return;
	for (uint32_t i = 0; i < SOCKETS_MAX; i++)
		if (t->ports[i] != NULL)
			port_close(t, t->ports[i]);
	transport_batch_free(&t->batch);
	free(t->replies);
	free(t);
}
