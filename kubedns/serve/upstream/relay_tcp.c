#include "kubedns/serve/upstream/relay_tcp.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/serve/upstream/ids.h"
#include "kubedns/serve/observe/observe.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum {
	/* dnsmasq accepts 20 connections, also from other workers. */
	CONNS_MAX = 8,
	PREFIX = 2,
};

struct relay_conn {
	int fd; /* -1 if closed */
	uint32_t generation;
	uint16_t id;
	bool reused;               /* the connection has carried a query before */
	struct relay_query *query; /* NULL if the connection is free */
	size_t out_len, out_sent;
	size_t in_len;
	uint8_t out[PREFIX + DNS_UDP_QUERY_MAX];
	uint8_t in[PREFIX + DNS_TCP_MAX];
};

struct relay_tcp {
	struct worker_context *context;
	struct inflight_table *inflight;
	struct server resolver;
	struct ids ids;
	struct turns *turns;                 /* one place for each connection */
	struct relay_conn *conns[CONNS_MAX]; /* each is allocated when it is first needed */
};

struct relay_tcp *
relay_tcp_new(
    struct worker_context *context, struct inflight_table *inflight, const struct server *resolver)
{
	struct relay_tcp *tcp = xcalloc(1, sizeof *tcp);

	tcp->context = context;
	tcp->inflight = inflight;
	tcp->resolver = *resolver;
	tcp->turns = turns_new(CONNS_MAX);
	return tcp;
}

static void
conn_close(struct relay_conn *conn)
{
	if (conn->fd >= 0)
		close(conn->fd);
	conn->fd = -1;
	conn->generation++;
	if (conn->query != NULL)
		conn->query->conn = NULL;
	conn->query = NULL;
	conn->reused = false;
	conn->out_len = conn->out_sent = conn->in_len = 0;
}

static uint64_t
conn_key(const struct relay_tcp *tcp, const struct relay_conn *conn)
{
	uint32_t slot = 0;

	while (tcp->conns[slot] != conn)
		slot++;
	return worker_key(PART_RELAY_TCP, slot, conn->generation);
}

/* Starts to connect to the resolver. The query is sent when the connection is established. */
static int
conn_open(struct relay_tcp *tcp, struct relay_conn *conn)
{
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(&tcp->resolver, &ss);
	int on = 1;

	conn->fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (conn->fd < 0)
		return -errno;
	setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (connect(conn->fd, (struct sockaddr *)&ss, len) != 0 && errno != EINPROGRESS)
		return -errno;
	if (worker_epoll_ctl(tcp->context, EPOLL_CTL_ADD, conn->fd, EPOLLIN | EPOLLOUT,
		conn_key(tcp, conn)) != 0)
		return -errno;
	return 0;
}

/* Assigns the query to a free connection. */
static void
conn_start(struct relay_tcp *tcp, struct relay_conn *conn, struct relay_query *query)
{
	conn->id = ids_take(&tcp->ids, NULL, 0);
	size_t len = inflight_question(&query->base, conn->id, true, conn->out + PREFIX);
	query->sent_ns =
	    observe_server_query(tcp->context->ring, true, &tcp->resolver, conn->out + PREFIX, len);
	wire_put16(conn->out, (unsigned)len);
	conn->out_len = PREFIX + len;
	conn->out_sent = conn->in_len = 0;
	conn->query = query;
	query->conn = conn;
	int rc = conn->fd < 0 ? conn_open(tcp, conn) : 0;
	if (rc == 0 && worker_epoll_ctl(tcp->context, EPOLL_CTL_MOD, conn->fd, EPOLLIN | EPOLLOUT,
			   conn_key(tcp, conn)) != 0)
		rc = -errno;
	if (rc != 0) {
		log_neterr("relay: tcp: %s", strerror(-rc));
		stats_add(&tcp->context->stats->forward_server_failures, 1);
		conn_close(conn); /* the query is sent again or ends at its deadline */
		turns_leave(tcp->turns, &query->turn);
	}
}

/* Returns a connection that carries no query. An open one is better than a closed one. */
static struct relay_conn *
free_conn(struct relay_tcp *tcp)
{
	struct relay_conn *closed = NULL;

	for (size_t i = 0; i < CONNS_MAX; i++) {
		if (tcp->conns[i] == NULL) {
			tcp->conns[i] = xmalloc(sizeof *tcp->conns[i]);
			*tcp->conns[i] = (struct relay_conn){ .fd = -1 };
		}
		if (tcp->conns[i]->query != NULL)
			continue;
		if (tcp->conns[i]->fd >= 0)
			return tcp->conns[i];
		if (closed == NULL)
			closed = tcp->conns[i];
	}
	assert(closed !=
	       NULL); /* each query on a connection has a place, and there are as many places */
	return closed;
}

void
relay_tcp_ask(struct relay_tcp *tcp, struct relay_query *query)
{
	query->queued = !turns_ask(tcp->turns, &query->turn, query->base.client.hash);
	if (!query->queued)
		conn_start(tcp, free_conn(tcp), query);
}

/* Starts the queries that wait and may have a connection now. */
static void
start_waiting(struct relay_tcp *tcp)
{
	struct turn *turn;

	while ((turn = turns_next(tcp->turns)) != NULL) {
		struct relay_query *query = relay_query_of_turn(turn);

		query->queued = false;
		conn_start(tcp, free_conn(tcp), query);
	}
}

void
relay_tcp_forget(struct relay_tcp *tcp, struct relay_query *query)
{
	if (query->turn.client == NULL)
		return;
	/* otherwise its reply would be taken for the reply to the next query */
	if (query->conn != NULL)
		conn_close(query->conn);
	query->queued = false;
	turns_leave(tcp->turns, &query->turn);
	start_waiting(tcp);
}

/*
 * Called when the connection broke. The query is sent again at its retry time. If the connection had carried other queries and ended before
 * the reply started, the query is sent at once. (dnsmasq closes a connection after 100 queries.)
 */
static void
conn_failed(struct relay_tcp *tcp, struct relay_conn *conn)
{
	struct relay_query *query = conn->query;
	bool again = conn->reused && conn->in_len == 0;

	conn_close(conn);
	if (again && query != NULL) {
		conn_start(tcp, conn, query);
		return;
	}
	stats_add(&tcp->context->stats->forward_server_failures, 1);
	if (query != NULL)
		turns_leave(tcp->turns, &query->turn);
	start_waiting(tcp);
}

/* Sends the remaining bytes. Returns false if the connection broke. */
static bool
conn_write(struct relay_tcp *tcp, struct relay_conn *conn)
{
	if (conn->out_sent == conn->out_len)
		return true;
	ssize_t n = send(conn->fd, conn->out + conn->out_sent, conn->out_len - conn->out_sent,
	    MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	conn->out_sent += (size_t)n;
	if (conn->out_sent == conn->out_len && worker_epoll_ctl(tcp->context, EPOLL_CTL_MOD,
						   conn->fd, EPOLLIN, conn_key(tcp, conn)) != 0)
		return false;
	return true;
}

/* Reads until one message is complete. Returns 1 if the message is complete, 0 if it is not, and -1 if the connection broke. */
static int
conn_read(struct relay_conn *conn)
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

void
relay_tcp_ready(struct relay_tcp *tcp, uint32_t slot, uint32_t generation, uint32_t events)
{
	struct relay_conn *conn = slot < CONNS_MAX ? tcp->conns[slot] : NULL;

	if (conn == NULL || conn->fd < 0 || conn->generation != generation)
		return;
	struct relay_query *query = conn->query;
	if ((events & EPOLLOUT) != 0 && !conn_write(tcp, conn)) {
		conn_failed(tcp, conn);
		return;
	}
	int rc = (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0 ? conn_read(conn) : 0;
	size_t len = conn->in_len - PREFIX;
	if (rc == 0)
		return;
	if (rc < 0 || query == NULL ||
	    !relay_matches(&query->base, conn->id, conn->in + PREFIX, len)) {
		conn_failed(tcp, conn);
		return;
	}
	observe_server_response(
	    tcp->context->ring, true, &tcp->resolver, conn->in + PREFIX, len, query->sent_ns);
	conn->reused = true;
	conn->query = NULL;
	query->conn = NULL;
	turns_leave(tcp->turns, &query->turn);
	inflight_finish(tcp->inflight, &query->base, conn->in + PREFIX, len);
	start_waiting(tcp);
	/* dnsmasq accepts few connections, so an idle connection is closed */
	if (conn->query == NULL)
		conn_close(conn);
}

void
relay_tcp_free(struct relay_tcp *tcp)
{
	if (tcp == NULL)
		return;
	for (size_t i = 0; i < CONNS_MAX; i++) {
		if (tcp->conns[i] != NULL)
			conn_close(tcp->conns[i]);
		free(tcp->conns[i]);
	}
	turns_free(tcp->turns);
	free(tcp);
}

bool
relay_matches(const struct inflight *inflight, uint16_t id, const uint8_t *reply, size_t len)
{
	return len >= DNS_HEADER && wire_get16(reply) == id &&
	       wire_replies_to(reply, len, inflight_name(inflight), inflight->type, CLASS_IN);
}
