#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kubedns/serve/observe/observe.h"
#include "kubedns/serve/upstream/inflight.h"
#include "kubedns/serve/upstream/transport_internal.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum { PREFIX = 2 };

/* A connection is silent if a question ends after this time, and there was no reply to any question
 * meanwhile. A question may end earlier because another server has answered it. */
static const int64_t silent_ns = 250 * INT64_C(1000000);

/* A connection. It is closed when it has no question, because dnsmasq accepts only a few. */
struct transport_conn {
	struct remote *remote;
	int fd;
	uint32_t slot, generation;
	bool writing;       /* the epoll reports when the connection can be written */
	bool silent;        /* is being closed, because the server does not reply on it */
	bool handling;      /* its event is being handled, so it is not closed */
	unsigned replies;   /* number of questions that the server has answered */
	unsigned forgotten; /* questions that have ended and may still get a reply */
	unsigned open;      /* questions in flight */
	uint16_t ids[TRANSPORT_PIPELINED];
	struct exchange *exchanges[TRANSPORT_PIPELINED]; /* NULL: a free place */
	size_t out_len, out_sent, in_len;
	uint8_t in[PREFIX + DNS_TCP_MAX];
	uint8_t out[]; /* questions that are not sent yet: space for one in each place */
};

static size_t
out_size(const struct remote *remote)
{
	return (size_t)remote->pipelined * (PREFIX + INFLIGHT_QUESTION_MAX);
}

static uint64_t
conn_key(const struct transport_conn *conn)
{
	return worker_key(PART_TRANSPORT_TCP, conn->slot, conn->generation);
}

static struct transport_conn *
find_conn(const struct transport *t, uint32_t slot, uint32_t generation)
{
	struct transport_conn *conn = slot < CONNS_MAX ? t->conns[slot] : NULL;

	return conn != NULL && conn->generation == generation ? conn : NULL;
}

/* --- places --- */

/* Returns whether the connection can take one more question. */
static bool
has_place(const struct transport_conn *conn)
{
	return !conn->silent && conn->open < conn->remote->pipelined &&
	       out_size(conn->remote) - conn->out_len >= PREFIX + INFLIGHT_QUESTION_MAX;
}

/* Takes the exchange off its place. */
static void
leave_conn(struct exchange *exchange)
{
	struct transport_conn *conn = exchange->conn;

	conn->exchanges[exchange->place] = NULL;
	conn->open--;
	exchange->conn = NULL;
}

/* --- connections --- */

/* Closes a connection without questions. */
static void
conn_close(struct transport_conn *conn)
{
	struct remote *remote = conn->remote;
	unsigned i = 0;

	assert(conn->open == 0);
	while (remote->conns[i] != conn)
		i++;
	remote->conns[i] = NULL;
	remote->transport->conns[conn->slot] = NULL;
	close(conn->fd);
	free(conn);
}

/* Closes the connection if it has no question. */
static void
conn_release(struct transport_conn *conn)
{
	if (conn->open == 0 && !conn->handling)
		conn_close(conn);
}

/* Starts to connect. Returns 0 or an errno value. */
static int
conn_connect(struct transport_conn *conn)
{
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(&conn->remote->server, &ss);
	int on = 1;

	setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (connect(conn->fd, (struct sockaddr *)&ss, len) != 0 && errno != EINPROGRESS)
		return errno;
	conn->writing = true;
	return worker_epoll_ctl(conn->remote->transport->context, EPOLL_CTL_ADD, conn->fd,
		   EPOLLIN | EPOLLOUT, conn_key(conn)) != 0
		   ? errno
		   : 0;
}

/* Opens a connection. Returns NULL with errno if that is not possible now. */
static struct transport_conn *
conn_open(struct remote *remote)
{
	struct transport *t = remote->transport;
	unsigned slot = 0, i = 0;

	while (slot < CONNS_MAX && t->conns[slot] != NULL)
		slot++;
	while (i < REMOTE_CONNS && remote->conns[i] != NULL)
		i++;
	if (slot == CONNS_MAX || i == REMOTE_CONNS) {
		errno = EMFILE;
		return NULL;
	}
	int fd = socket(remote->server.addr.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	struct transport_conn *conn = xmalloc(sizeof *conn + out_size(remote));
	memset(conn, 0, offsetof(struct transport_conn, in));
	conn->remote = remote;
	conn->fd = fd;
	conn->slot = slot;
	conn->generation = ++t->generation;
	remote->conns[i] = t->conns[slot] = conn;
	int rc = conn_connect(conn);
	if (rc != 0) {
		conn_close(conn);
		errno = rc;
		return NULL;
	}
	return conn;
}

/* Adds the question to those that are sent when the connection can be written. Returns 0 or an errno value. */
static int
conn_start(struct transport_conn *conn, struct exchange *exchange)
{
	struct remote *remote = conn->remote;
	struct transport *t = remote->transport;
	uint8_t *message = conn->out + conn->out_len + PREFIX;
	unsigned place = 0;

	if (!conn->writing && worker_epoll_ctl(t->context, EPOLL_CTL_MOD, conn->fd,
				  EPOLLIN | EPOLLOUT, conn_key(conn)) != 0)
		return errno;
	conn->writing = true;
	while (conn->exchanges[place] != NULL)
		place++;
	/* An ID of a free place is not used again either, because its question may get a second reply. */
	uint16_t id = ids_take(&t->ids, conn->ids, TRANSPORT_PIPELINED);
	conn->ids[place] = id;
	conn->exchanges[place] = exchange;
	conn->open++;
	exchange->conn = conn;
	exchange->place = place;
	exchange->replies = conn->replies;
	exchange->taken_ns = t->context->now_ns;
	size_t len = exchange_write(exchange, id, message);
	wire_put16(message - PREFIX, (unsigned)len);
	conn->out_len += PREFIX + len;
	exchange->sent_ns =
	    observe_server_query(t->context->ring, true, &remote->server, message, len);
	return 0;
}

/* Returns a connection for a new question, or NULL with errno. A new connection is opened only if no open one has a place. */
static struct transport_conn *
conn_for(struct remote *remote)
{
	for (unsigned i = 0; i < REMOTE_CONNS; i++)
		if (remote->conns[i] != NULL && has_place(remote->conns[i]))
			return remote->conns[i];
	return conn_open(remote);
}

/* Ends the exchange, because its question or reply is lost. */
static void
lost(struct exchange *exchange)
{
	struct remote *remote = exchange->remote;

	turns_leave(remote->turns, &exchange->turn);
	remote->transport->lost = true;
	remote->ops.lost(remote->ops.arg, exchange, true); /* it may free the exchange */
	remote_exchange_ends(remote);
}

/* Sends the question. The exchange has a place among those of all connections. */
static void
send_question(struct exchange *exchange)
{
	struct transport_conn *conn = conn_for(exchange->remote);
	int rc = conn != NULL ? conn_start(conn, exchange) : errno;

	if (rc == 0)
		return;
	if (conn != NULL)
		conn_release(conn);
	log_neterr("upstream: tcp: %s", strerror(rc));
	exchange->unsent = rc == EMFILE || rc == ENFILE || rc == ENOBUFS || rc == ENOMEM;
	lost(exchange);
}

/* Sends the questions that wait and may have a place now. */
static void
send_waiting(struct remote *remote)
{
	struct turn *turn;

	remote_exchange_begins(remote); /* it stays until this function returns */
	while ((turn = turns_next(remote->turns)) != NULL)
		send_question(
		    (struct exchange *)(void *)((uint8_t *)turn - offsetof(struct exchange, turn)));
	remote_exchange_ends(remote);
}

void
exchange_over_tcp(struct exchange *exchange)
{
	struct remote *remote = exchange->remote;

	/* This is first, because the end of the last exchange frees a released server. */
	remote_exchange_begins(remote);
	exchange_end(exchange);
	exchange->sent_again = exchange->unsent = false;
	if (turns_ask(remote->turns, &exchange->turn, exchange->question->client.hash))
		send_question(exchange);
}

void
transport_tcp_end(struct exchange *exchange)
{
	struct remote *remote = exchange->remote;
	struct transport_conn *conn = exchange->conn;

	turns_leave(remote->turns, &exchange->turn);
	if (conn != NULL) {
		int64_t waited_ns = remote->transport->context->now_ns - exchange->taken_ns;
		bool silent = exchange->replies == conn->replies && waited_ns >= silent_ns;

		leave_conn(exchange);
		conn->forgotten++;
		if (silent && !conn->silent && conn->open > 0) {
			/* The other questions of the connection are lost when its event arrives. */
			conn->silent = true;
			shutdown(conn->fd, SHUT_RDWR);
		}
		conn_release(conn);
	}
	send_waiting(remote);
}

void
transport_tcp_close(struct remote *remote)
{
	for (unsigned i = 0; i < REMOTE_CONNS; i++)
		if (remote->conns[i] != NULL)
			conn_close(remote->conns[i]);
}

/* --- events --- */

/*
 * Called when the connection broke. A server may close a connection that it has used (dnsmasq does so after 100 questions). If it had not
 * started to reply, its questions are sent once more, on another connection. All others are lost.
 */
static void
conn_failed(struct transport_conn *conn)
{
	struct remote *remote = conn->remote;
	struct exchange *exchanges[TRANSPORT_PIPELINED];
	bool again = conn->replies > 0 && conn->in_len == 0;
	unsigned count = 0;

	for (unsigned i = 0; i < TRANSPORT_PIPELINED; i++) {
		if (conn->exchanges[i] == NULL)
			continue;
		exchanges[count++] = conn->exchanges[i];
		leave_conn(conn->exchanges[i]);
	}
	conn_close(conn);
	remote_exchange_begins(remote); /* it stays until this function returns */
	for (unsigned i = 0; i < count; i++) {
		if (!again || exchanges[i]->sent_again) {
			lost(exchanges[i]);
			continue;
		}
		exchanges[i]->sent_again = true;
		send_question(exchanges[i]);
	}
	send_waiting(remote);
	remote_exchange_ends(remote);
}

/* Sends the bytes that are left. Returns false if the connection broke. */
static bool
conn_write(struct transport_conn *conn)
{
	if (conn->out_sent < conn->out_len) {
		ssize_t n = send(conn->fd, conn->out + conn->out_sent,
		    conn->out_len - conn->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		conn->out_sent += (size_t)n;
	}
	if (conn->out_sent < conn->out_len)
		return true;
	conn->out_len = conn->out_sent = 0;
	conn->writing = false;
	return worker_epoll_ctl(conn->remote->transport->context, EPOLL_CTL_MOD, conn->fd, EPOLLIN,
		   conn_key(conn)) == 0;
}

/* Reads until one message is complete. Returns 1 if the message is complete, 0 if it is not, and -1 if the connection broke. */
static int
conn_read(struct transport_conn *conn)
{
	for (;;) {
		size_t whole =
		    conn->in_len < PREFIX ? PREFIX : PREFIX + (size_t)wire_get16(conn->in);

		if (conn->in_len >= PREFIX && conn->in_len == whole)
			return 1;
		ssize_t n =
		    recv(conn->fd, conn->in + conn->in_len, whole - conn->in_len, MSG_DONTWAIT);
		if (n == 0)
			return -1;
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		conn->in_len += (size_t)n;
	}
}

/* Returns the exchange that this message answers, or NULL. */
static struct exchange *
find_exchange(const struct transport_conn *conn, const uint8_t *reply, size_t len)
{
	if (len < DNS_HEADER)
		return NULL;
	for (unsigned i = 0; i < TRANSPORT_PIPELINED; i++)
		if (conn->exchanges[i] != NULL && conn->ids[i] == wire_get16(reply))
			return exchange_matches(conn->exchanges[i], reply, len) ? conn->exchanges[i]
										: NULL;
	return NULL;
}

/* Passes the complete message to the caller. Returns false if it answers no question. */
static bool
take_reply(struct transport_conn *conn)
{
	struct remote *remote = conn->remote;
	const uint8_t *reply = conn->in + PREFIX;
	size_t len = conn->in_len - PREFIX;
	struct exchange *exchange = find_exchange(conn, reply, len);

	if (exchange == NULL) {
		stats_add(&remote->transport->context->stats->forward_replies_ignored, 1);
		if (conn->forgotten == 0)
			return false;
		conn->forgotten--;
		return true;
	}
	observe_server_response(
	    remote->transport->context->ring, true, &remote->server, reply, len, exchange->sent_ns);
	conn->replies++;
	leave_conn(exchange);
	turns_leave(remote->turns, &exchange->turn);
	remote->ops.reply(remote->ops.arg, exchange, reply, len, true);
	remote_exchange_ends(remote);
	return true;
}

/* Reads replies. Returns false if the connection broke. */
static bool
take_replies(struct transport_conn *conn)
{
	int rc;

	while ((rc = conn_read(conn)) > 0) {
		if (!take_reply(conn))
			return false;
		conn->in_len = 0;
	}
	return rc == 0;
}

void
transport_tcp_event(struct transport *t, uint32_t slot, uint32_t generation, uint32_t events)
{
	struct transport_conn *conn = find_conn(t, slot, generation);

	if (conn == NULL)
		return;
	struct remote *remote = conn->remote;
	/* A callback may end all other exchanges of the connection and of the server. Both stay until this function returns. */
	remote_exchange_begins(remote);
	conn->handling = true;
	bool works = (events & EPOLLOUT) == 0 || conn_write(conn);
	if (works && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0)
		works = take_replies(conn);
	if (works)
		send_waiting(remote);
	conn->handling = false;
	if (works)
		conn_release(conn);
	else
		conn_failed(conn);
	remote_exchange_ends(remote);
}
