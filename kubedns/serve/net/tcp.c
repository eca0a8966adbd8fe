#include "kubedns/serve/net/tcp.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kubedns/serve/client_view.h"
#include "kubedns/serve/net/sockets.h"
#include "kubedns/serve/net/tcp_pool.h"
#include "kubedns/serve/observe/observe.h"
#include "kubedns/serve/rotation.h"
#include "kubedns/serve/upstream/inflight.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/rcu.h"
#include "lib/xalloc.h"
#include "treecache/treecache.h"

enum {
	PREFIX = 2, /* the length that precedes each message (RFC 1035 section 4.2.2) */
	READ_MAX = 16384,
	/* Bytes read from one connection in an iteration of a loaded worker. */
	LOADED_READ = 2048,
	READS_MAX = 4, /* reads from one connection in an iteration */
	/* Bytes of replies that one iteration gathers and sends together. */
	GATHER_MAX = 2 * 65536 + 2,
	KEPT_MAX = 256 * 1024, /* bytes of replies that one client may leave unread */
	/* Connections accepted per call. Not more connections are accepted than read at a time (see worker.c). */
	ACCEPTS_MAX = 8,
	/* How many of the oldest connections are searched for an idle one. */
	EVICT_LOOK = 64,
};

struct tcp {
	struct tcp_pool pool;
	struct worker_context *context;
	struct inflight_table *inflight; /* handles queries for other servers */
	uint64_t rotation;               /* state of rotation_next() */
	struct tcp_config config;
	int listeners[TCP_LISTENERS_MAX];
	size_t listener_count;
	bool listening;
	int64_t accept_again_ns; /* listeners are paused until this time, or CLOCK_NEVER */
	size_t gathered;
	unsigned replied[SYSTEM_COUNT];
	uint8_t *gather;  /* GATHER_MAX bytes */
	uint8_t *scratch; /* READ_MAX bytes */
	uint8_t *reply;   /* PREFIX + DNS_TCP_MAX bytes, for tcp_reply_reserve() */
};

enum {
	/* Descriptors for the API, HTTP and upstreams, not for TCP clients. */
	SPARE_DESCRIPTORS = 256,
	/* rounds of ACCEPTS_MAX connections, which are more than a listener's backlog */
	LEAVE_ROUNDS = 256,
};

/* Pause after accept() failed because there were no descriptors. */
static const int64_t accept_pause_ns = 100 * INT64_C(1000000);

/* --- replies: gathering, sending, storing --- */

enum { KEEPALIVE_UNIT_NS = 100 * 1000000 }; /* RFC 7828 */

/*
 * Stores the bytes that did not fit into the socket's buffer, and stops reading until they are sent. Returns false if the connection was
 * closed.
 */
static bool
keep_out(struct tcp *tcp, struct conn *conn, const uint8_t *bytes, size_t len)
{
	if (conn->out_sent > 0) {
		conn->out_len -= conn->out_sent;
		memmove(conn->out, conn->out + conn->out_sent, conn->out_len);
		conn->out_sent = 0;
	}
	if (conn->out_len + len > KEPT_MAX) {
		conn_drop(&tcp->pool, conn, DROP_TCP_SLOW_READER);
		return false;
	}
	if (!conn_grow(&tcp->pool, conn, &conn->out, &conn->out_size,
		(uint32_t)(conn->out_len + len), KEPT_MAX)) {
		conn_drop(&tcp->pool, conn, DROP_TCP_MEMORY);
		return false;
	}
	memcpy(conn->out + conn->out_len, bytes, len);
	conn->out_len += (uint32_t)len;
	if (!conn->blocked) {
		conn->blocked = true;
		conn_touch(&tcp->pool, conn);
		conn_wait_for(&tcp->pool, conn, EPOLLOUT);
	}
	return true;
}

/* Sends whole messages or stores them for later. Returns false if the connection was closed. */
static bool
conn_send(struct tcp *tcp, struct conn *conn, const uint8_t *bytes, size_t len)
{
	if (!conn->blocked) {
		ssize_t n = send(conn->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			conn_close(&tcp->pool, conn);
			return false;
		}
		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
		}
	}
	return len == 0 || keep_out(tcp, conn, bytes, len);
}

/* Sends the replies gathered for the current connection. Returns false if the connection was closed. */
static bool
tcp_gather_flush(struct tcp *tcp)
{
	size_t len = tcp->gathered;

	tcp->gathered = 0;
	return tcp->pool.current != NULL &&
	       (len == 0 || conn_send(tcp, tcp->pool.current, tcp->gather, len));
}

/* Returns space for one more message with its prefix, or NULL if the connection was closed. */
static uint8_t *
tcp_gather_buffer(struct tcp *tcp)
{
	if (GATHER_MAX - tcp->gathered < PREFIX + DNS_TCP_MAX && !tcp_gather_flush(tcp))
		return NULL;
	return tcp->gather + tcp->gathered;
}

/* Adds the message that was written to that space. */
static void
tcp_gather_done(struct tcp *tcp, size_t len)
{
	wire_put16(tcp->gather + tcp->gathered, (unsigned)len);
	tcp->gathered += PREFIX + len;
}

/* --- messages for modules --- */

/*
 * A module may take over the connection (answer/message.h). Its thread writes through a duplicate descriptor. Until the module returns the
 * connection, the connection is blocked, and queries of the client wait.
 */

/* Records the query as a whole message. If the module has not taken over the connection, records the reply too. */
static void
observe_exchange(const struct tcp *tcp, const struct module_message *message, size_t reply)
{
	struct ring *ring = tcp->context->ring;
	int64_t now_ns = tcp->context->now_ns;

	observe_message(ring, RECORD_CLIENT_QUERY, true, message->peer, message->query,
	    message->query_len, now_ns, 0);
	if (reply > 0)
		observe_message(ring, RECORD_CLIENT_RESPONSE, true, message->peer, message->out,
		    reply, now_ns, 0);
}

/* Passes a query of the current connection to the module that takes it. Returns false if the connection was closed. */
static bool
answer_by_module(struct tcp *tcp, const uint8_t *query, size_t len, struct answer_info *info)
{
	struct worker_context *context = tcp->context;
	struct conn *conn = tcp->pool.current;
	uint8_t *buffer;

	/* Earlier replies must be sent first. */
	if (!tcp_gather_flush(tcp) || (buffer = tcp_gather_buffer(tcp)) == NULL)
		return false;
	if (conn->blocked) {
		conn_drop(&tcp->pool, conn, DROP_TCP_SLOW_READER);
		return false;
	}
	struct module_message message = { .answers = conn->answers,
		.peer = &conn->addr.sa,
		.question = &info->query,
		.query = query,
		.query_len = len,
		.out = buffer + PREFIX,
		.max = DNS_TCP_MAX,
		.fd = conn->fd,
		.end = context->connections };
	message.end.slot = conn_slot(&tcp->pool, conn);
	message.end.generation = conn->generation;
	rcu_enter();
	message.tree = tree_current(context->tree);
	size_t reply = message_answer(info->handler, &message);
	rcu_leave();
	observe_exchange(tcp, &message, reply);
	if (reply > 0) {
		answer_replied(info, message.out, reply);
		tcp_gather_done(tcp, reply);
		stats_reply(context->stats, PROTO_TCP, info, reply);
		return true;
	}
	conn->lent = conn->blocked = true;
	/* With EPOLLET and no other events, a single event is reported when the connection is closed. */
	conn_wait_for(&tcp->pool, conn, EPOLLET);
	return true;
}

/* --- messages --- */

/*
 * The messages on TCP connections. Replies of one iteration are gathered and sent together. Bytes that the socket does not accept are
 * stored, up to a limit. Until they are sent, nothing more is read from the client. Only an incomplete message is copied and stored. Most
 * messages arrive whole and are answered from the read buffer.
 */

static void
forward_message(struct tcp *tcp, struct conn *conn, const uint8_t *query, size_t len,
    enum answer_outcome outcome, const struct answer_info *info)
{
	struct client client = {
		.proto = PROTO_TCP,
		.family = (enum stats_family)conn->family,
		.hash = conn->client->hash,
		.peer.tcp = { conn_slot(&tcp->pool, conn), conn->generation, conn->addr },
	};

	observe_message(tcp->context->ring, RECORD_CLIENT_QUERY, true, &conn->addr.sa, query, len,
	    tcp->context->now_ns, 0);
	inflight_start(tcp->inflight, &client, query, len, outcome, info);
}

/* Returns whether the connection has reached its maximum age or number of queries. */
static bool
conn_is_retired(const struct tcp *tcp, const struct conn *conn)
{
	return conn->queries >= TCP_QUERIES || tcp->context->now_ns >= conn->retire_ns;
}

/* Returns the idle timeout in units of EDNS TCP keepalive, or 0 if the client should close the connection. */
static uint16_t
keepalive_of(const struct tcp *tcp, const struct conn *conn)
{
	if (conn_is_retired(tcp, conn))
		return 0;
	return (uint16_t)(tcp->config.idle_ns / KEEPALIVE_UNIT_NS);
}

/* Records a reply to the connection's client. */
static void
observe_reply(const struct worker_context *context, const struct conn *conn,
    const struct answer_request *request, const struct answer_info *info)
{
	int64_t now_ns = clock_mono_ns();

	observe_alone(context->ring,
	    &(struct observed){ .client = &conn->addr.sa,
		.info = info,
		.query = request->query,
		.query_len = request->query_len,
		.reply = request->out,
		.at_ns = now_ns },
	    (enum answer_made)info->system, true, now_ns - context->now_ns);
}

/* Answers one message on the current connection. Returns false if the connection was closed. */
static bool
answer_message(struct tcp *tcp, const uint8_t *query, size_t len)
{
	struct worker_context *context = tcp->context;
	struct conn *conn = tcp->pool.current;
	struct answer_info info;
	uint8_t *buffer = tcp_gather_buffer(tcp);

	if (buffer == NULL)
		return false;
	conn->queries++;
	rcu_enter();
	const struct answer_request request = {
		.config = conn->answers,
		.tree = client_view(context, tree_current(context->tree), &conn->addr.sa),
		.query = query,
		.query_len = len,
		.out = buffer + PREFIX,
		.max = DNS_TCP_MAX,
		.tcp = true,
		.keepalive = keepalive_of(tcp, conn),
		.rotation = rotation_next(&tcp->rotation),
		.thread = &context->thread,
		.client = &conn->addr.sa,
	};
	enum answer_outcome outcome = answer(&request, &info);
	rcu_leave();
	if (outcome == ANSWER_DROP) {
		stats_drop(context->stats, DROP_NOT_A_QUERY);
		return true;
	}
	stats_query(context->stats, PROTO_TCP, (enum stats_family)conn->family, &info, len);
	if (outcome == ANSWER_REPLY) {
		tcp_gather_done(tcp, info.len);
		stats_reply(context->stats, PROTO_TCP, &info, info.len);
		tcp->replied[info.system]++;
		if (context->ring != NULL)
			observe_reply(context, conn, &request, &info);
		return true;
	}
	if (outcome == ANSWER_MODULE)
		return answer_by_module(tcp, query, len, &info);
	forward_message(tcp, conn, query, len, outcome, &info);
	return tcp->pool.current != NULL;
}

/*
 * Answers the complete messages at `bytes`. Returns the number of bytes used, or -1 if the
 * connection was closed. Stops early if the client does not read its replies.
 */
static ssize_t
answer_messages(struct tcp *tcp, struct conn *conn, const uint8_t *bytes, size_t len)
{
	size_t used = 0;

	while (len - used >= PREFIX && !conn->blocked) {
		size_t message = wire_get16(bytes + used);

		if (message < DNS_HEADER) {
			conn_drop(&tcp->pool, conn, DROP_TCP_BAD_LENGTH);
			return -1;
		}
		if (len - used < PREFIX + message)
			break;
		if (!answer_message(tcp, bytes + used + PREFIX, message))
			return -1;
		used += PREFIX + message;
	}
	return (ssize_t)used;
}

/*
 * Stores the start of a message, or messages that are not answered while the client is blocked. Returns false if the connection was closed.
 */
static bool
keep_in(struct tcp *tcp, struct conn *conn, const uint8_t *bytes, size_t len)
{
	if (len == 0)
		return true;
	if (!conn_grow(&tcp->pool, conn, &conn->in, &conn->in_size, (uint32_t)(conn->in_len + len),
		PREFIX + DNS_TCP_MAX)) {
		conn_drop(&tcp->pool, conn, DROP_TCP_MEMORY);
		return false;
	}
	memcpy(conn->in + conn->in_len, bytes, len);
	conn->in_len += (uint32_t)len;
	return true;
}

/* Returns how many bytes of the message, or of its length prefix, are missing. */
static size_t
missing(const struct conn *conn)
{
	if (conn->in_len < PREFIX)
		return PREFIX - conn->in_len;
	size_t whole = PREFIX + (size_t)wire_get16(conn->in);
	return whole > conn->in_len ? whole - conn->in_len : 0;
}

/*
 * Answers the stored messages, and stores the incomplete message after them. Returns false if the connection was closed.
 */
static bool
answer_kept(struct tcp *tcp, struct conn *conn)
{
	uint8_t *kept = conn->in;
	uint32_t len = conn->in_len, size = conn->in_size;

	conn->in = NULL;
	conn->in_len = conn->in_size = 0;
	conn_charge(&tcp->pool, conn, -(ssize_t)size);
	ssize_t used = answer_messages(tcp, conn, kept, len);
	bool open = used >= 0 && keep_in(tcp, conn, kept + used, len - (size_t)used);
	free(kept);
	if (open && used > 0)
		conn_touch(&tcp->pool, conn);
	return open;
}

static bool
answer_fresh(struct tcp *tcp, struct conn *conn, size_t len)
{
	ssize_t used = answer_messages(tcp, conn, tcp->scratch, len);

	if (used < 0)
		return false;
	if (used > 0)
		conn_touch(&tcp->pool, conn);
	return keep_in(tcp, conn, tcp->scratch + used, len - (size_t)used);
}

/*
 * Waits for the end of a connection that we have shut down. Closes it when the client has read everything. If the connection were closed
 * earlier, the kernel would keep the unread bytes, outside of all our limits. After the client has also shut down, events are
 * edge-triggered, because EPOLLHUP would otherwise be reported forever.
 */
static void
conn_linger(struct tcp *tcp, struct conn *conn)
{
	ssize_t n = 1;

	for (unsigned i = 0; i < READS_MAX && n > 0 && !conn->finished; i++)
		n = recv(conn->fd, tcp->scratch, READ_MAX, MSG_DONTWAIT);
	if (n == 0)
		conn->finished = true;
	if ((n < 0 && errno != EAGAIN && errno != EINTR) || (conn->finished && !conn_unsent(conn)))
		conn_close(&tcp->pool, conn);
	else
		conn_wait_for(&tcp->pool, conn, conn->finished ? EPOLLET : EPOLLIN);
}

/*
 * Called when the client has closed its sending side, or the connection has reached its maximum
 * age. Closes the connection when no more replies will follow.
 */
static void
close_if_finished(struct tcp *tcp, struct conn *conn)
{
	if (conn->blocked || conn->closing || (!conn->finished && !conn_is_retired(tcp, conn)))
		return;
	if (conn->in_flight > 0) {
		conn_wait_for(&tcp->pool, conn, conn->finished ? 0 : EPOLLIN);
		return;
	}
	conn->closing = true;
	conn_free_in(&tcp->pool, conn);
	if (shutdown(conn->fd, SHUT_WR) != 0)
		conn_close(&tcp->pool, conn);
	else
		conn_linger(tcp, conn);
}

/*
 * Reads once and answers. Returns false if the connection was closed or should not be read now. If the start of a message is stored, reads
 * its remaining bytes first.
 */
static bool
read_once(struct tcp *tcp, struct conn *conn)
{
	size_t lack = conn->in != NULL ? missing(conn) : 0;

	if (conn->in != NULL && lack == 0)
		return answer_kept(tcp, conn);
	size_t most = tcp->context->loaded ? LOADED_READ : READ_MAX;
	size_t want = lack > 0 && lack < most ? lack : most;
	ssize_t n = recv(conn->fd, tcp->scratch, want, MSG_DONTWAIT);
	if (n == 0) {
		conn->finished = true;
		return false;
	}
	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			conn_close(&tcp->pool, conn);
		return false;
	}
	if (lack > 0)
		return keep_in(tcp, conn, tcp->scratch, (size_t)n) && missing(conn) == 0 &&
		       answer_kept(tcp, conn) && (size_t)n == want;
	return answer_fresh(tcp, conn, (size_t)n) && (size_t)n == want;
}

/* Reads and answers until there is no more data, the client is blocked, or READS_MAX is reached. */
static void
conn_read(struct tcp *tcp, struct conn *conn)
{
	int64_t start_ns = tcp->context->now_ns;

	tcp->pool.current = conn;
	tcp->gathered = 0;
	memset(tcp->replied, 0, sizeof tcp->replied);
	unsigned reads = tcp->context->loaded ? 1 : READS_MAX;
	for (unsigned read = 0; read < reads && !conn->blocked && !conn->finished; read++)
		if (!read_once(tcp, conn))
			break;
	if (tcp_gather_flush(tcp)) {
		tcp->pool.current = NULL;
		close_if_finished(tcp, conn);
	}
	tcp->pool.current = NULL;
	uint64_t took_ns = (uint64_t)(worker_time(tcp->context) - start_ns);
	for (size_t s = 0; s < SYSTEM_COUNT; s++)
		if (tcp->replied[s] > 0)
			stats_took(&tcp->context->stats->times[s], took_ns, tcp->replied[s]);
}

/* Called when the connection is no longer blocked. Answers the messages that were stored
 * meanwhile. */
static void
tcp_unblocked(struct tcp *tcp, struct conn *conn)
{
	conn->blocked = false;
	conn_touch(&tcp->pool, conn);
	conn_wait_for(&tcp->pool, conn, EPOLLIN);
	if (conn->in != NULL && missing(conn) == 0)
		conn_read(tcp, conn);
	else
		close_if_finished(tcp, conn);
}

/* Sends stored replies. When all replies are sent, answers the messages that were stored meanwhile. */
static void
conn_write(struct tcp *tcp, struct conn *conn)
{
	ssize_t n = send(conn->fd, conn->out + conn->out_sent, conn->out_len - conn->out_sent,
	    MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			conn_close(&tcp->pool, conn);
		return;
	}
	conn->out_sent += (uint32_t)n;
	if (conn->out_sent < conn->out_len)
		return;
	conn_free_out(&tcp->pool, conn);
	tcp_unblocked(tcp, conn);
}

/* Reads from a connection, and adds the time to the time of its client. May close the connection. */
static void
conn_read_and_note(struct tcp *tcp, struct conn *conn)
{
	const uint32_t generation = conn->generation;
	int64_t start_ns = tcp->context->now_ns;

	conn_read(tcp, conn);
	if (conn->fd >= 0 && conn->generation == generation)
		client_note_spent(&tcp->pool, conn->client, tcp->context->now_ns - start_ns);
}

void
tcp_event(struct tcp *tcp, uint32_t slot, uint32_t generation, uint32_t events)
{
	struct conn *conn = &tcp->pool.conns[slot];

	if (conn->fd < 0 || conn->generation != generation)
		return;
	if (conn->lent)
		return; /* the module notices any change of the connection */
	/* EPOLLERR is a reset: the client will not read the remaining bytes. */
	if (conn->closing && (events & EPOLLERR) != 0)
		conn_close(&tcp->pool, conn);
	else if (conn->closing)
		conn_linger(tcp, conn);
	else if (conn->blocked)
		conn_write(tcp, conn);
	else if (conn->finished && (events & (EPOLLERR | EPOLLHUP)) != 0)
		conn_close(&tcp->pool, conn); /* the client cannot read replies any more */
	else if (conn->finished || !client_had_its_share(&tcp->pool, conn->client))
		conn_read_and_note(tcp, conn);
}

void
tcp_defer(struct tcp *tcp, const struct tcp_peer *peer)
{
	struct conn *conn = conn_find(&tcp->pool, peer);

	if (conn != NULL)
		conn->in_flight++;
}

uint8_t *
tcp_reply_reserve(struct tcp *tcp)
{
	return tcp->reply + PREFIX;
}

void
tcp_reply_done(struct tcp *tcp, const struct tcp_peer *peer, size_t len)
{
	struct conn *conn = conn_find(&tcp->pool, peer);

	if (conn == NULL) {
		stats_drop(tcp->context->stats, DROP_REPLY_LATE);
		return;
	}
	conn->in_flight--;
	wire_put16(tcp->reply, (unsigned)len);
	if (len == 0) {
		/* conn_read() closes the current connection after it has sent the gathered replies. */
		if (conn != tcp->pool.current)
			close_if_finished(tcp, conn);
		return;
	}
	if (conn == tcp->pool.current) {
		/*
		 * Called while this connection is being answered. The gathered replies must be sent first.
		 */
		uint8_t *buffer = tcp_gather_buffer(tcp);

		if (buffer == NULL)
			return;
		memcpy(buffer, tcp->reply, PREFIX + len);
		tcp->gathered += PREFIX + len;
		return;
	}
	if (!conn_send(tcp, conn, tcp->reply, PREFIX + len))
		return;
	if (!conn->blocked)
		conn_touch(&tcp->pool, conn);
	close_if_finished(tcp, conn);
}

void
tcp_returned(struct tcp *tcp, uint32_t slot, uint32_t generation, bool usable)
{
	struct conn *conn = &tcp->pool.conns[slot];

	if (conn->fd < 0 || conn->generation != generation)
		return;
	conn->lent = false;
	if (!usable)
		conn_drop(&tcp->pool, conn, DROP_TCP_MODULE);
	/* There are replies of other servers, which were stored meanwhile. */
	else if (conn->out_len > 0)
		conn_wait_for(&tcp->pool, conn, EPOLLOUT);
	else
		tcp_unblocked(tcp, conn);
}

/* --- connections --- */

static uint64_t
listener_key(size_t index)
{
	return worker_key(PART_TCP_LISTENER, (uint32_t)index, 0);
}

struct tcp *
tcp_new(struct worker_context *context, struct inflight_table *inflight, const int *listeners,
    size_t count, const struct tcp_config *config)
{
	assert(count <= TCP_LISTENERS_MAX && config->connections > 0 &&
	       config->connections < WORKER_SLOT_MAX);
	struct tcp *tcp = xcalloc(1, sizeof *tcp);
	tcp->context = context;
	tcp->inflight = inflight;
	tcp->config = *config;
	tcp_pool_init(&tcp->pool, context, config->connections, config->memory);
	tcp->accept_again_ns = CLOCK_NEVER;
	tcp->rotation = context->random;
	tcp->gather = xmalloc(GATHER_MAX);
	tcp->scratch = xmalloc(READ_MAX);
	tcp->reply = xmalloc(PREFIX + DNS_TCP_MAX);
	for (size_t i = 0; i < count; i++)
		tcp->listeners[tcp->listener_count++] = listeners[i];
	return tcp;
}

void
tcp_listen(struct tcp *tcp)
{
	for (size_t i = 0; i < tcp->listener_count && !tcp->listening; i++) {
		if (listen(tcp->listeners[i], SOCKETS_BACKLOG) != 0)
			log_fatal("tcp: listen");
		if (worker_epoll_ctl(tcp->context, EPOLL_CTL_ADD, tcp->listeners[i], EPOLLIN,
			listener_key(i)) != 0)
			log_fatal("epoll_ctl");
	}
	tcp->listening = true;
}

/*
 * Closes the connection to make way for another connection. If the connection was never read, it is read first. Its query may have waited
 * in the socket because we were slow. A client without an answer would retry over yet another connection.
 */
static void
give_way(struct tcp *tcp, struct conn *conn, enum stats_drop reason)
{
	uint32_t generation = conn->generation;

	if (conn->queries == 0 && conn_is_idle(conn) && !conn->closing)
		/* the connection is read even if its client has used up its time */
		conn_read_and_note(tcp, conn);
	if (conn->fd >= 0 && conn->generation == generation)
		conn_drop(&tcp->pool, conn, reason);
}

/* Closes the connection that has been idle longest. If no connection is idle, closes the connection that was least recently touched. */
static void
evict(struct tcp *tcp)
{
	struct conn *conn, *victim = TAILQ_FIRST(&tcp->pool.by_age);
	unsigned looked = 0;

	TAILQ_FOREACH(conn, &tcp->pool.by_age, by_age)
	{
		if (looked++ == EVICT_LOOK)
			break;
		if (conn_is_idle(conn)) {
			victim = conn;
			break;
		}
	}
	give_way(tcp, victim, DROP_TCP_LIMIT);
}

/* Does the same among the connections of one client. */
static void
evict_of(struct tcp *tcp, struct tcp_client *client)
{
	struct conn *conn, *victim = TAILQ_FIRST(&client->by_age);
	unsigned looked = 0;

	TAILQ_FOREACH(conn, &client->by_age, by_client)
	{
		if (looked++ == EVICT_LOOK)
			break;
		if (conn_is_idle(conn)) {
			victim = conn;
			break;
		}
	}
	give_way(tcp, victim, DROP_TCP_CLIENT);
}

static void
open_conn(struct tcp *tcp, int fd, const struct sockaddr *peer, unsigned listener)
{
	const struct worker_context *context = tcp->context;
	bool second = listener >= tcp->listener_count - tcp->config.second;

	if (tcp->pool.free_count == 0)
		evict(tcp);
	struct conn *conn = conn_open(&tcp->pool, fd, peer);
	if (conn == NULL)
		return;
	conn->answers = second ? context->second : context->answers;
	if (client_has_too_many(&tcp->pool, conn->client))
		evict_of(tcp, conn->client);
}

static void
listen_for(struct tcp *tcp, uint32_t events)
{
	for (size_t i = 0; i < tcp->listener_count; i++)
		if (worker_epoll_ctl(tcp->context, EPOLL_CTL_MOD, tcp->listeners[i], events,
			listener_key(i)) != 0)
			log_fatal("epoll_ctl");
}

/*
 * Called when accept() failed for lack of descriptors or memory. If `first` is true, closes an idle connection. Otherwise stops accepting
 * for a while.
 */
static bool
make_room(struct tcp *tcp, bool first)
{
	stats_drop(tcp->context->stats, DROP_TCP_ACCEPT);
	log_neterr("tcp: accept: %s", strerror(errno));
	if (first && tcp->pool.count > 0) {
		evict(tcp);
		return true;
	}
	/* If the worker is not listening, tcp_leave() accepts as many connections as it can, once. */
	if (tcp->listening) {
		listen_for(tcp, 0);
		tcp->accept_again_ns = tcp->context->now_ns + accept_pause_ns;
	}
	return false;
}

void
tcp_accept(struct tcp *tcp, unsigned listener)
{
	bool again = true, failed = false;

	for (unsigned i = 0; i < ACCEPTS_MAX && again; i++) {
		struct sockaddr_storage peer = { 0 };
		socklen_t len = sizeof peer;
		int fd = accept4(tcp->listeners[listener], (struct sockaddr *)&peer, &len,
		    SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			open_conn(tcp, fd, (struct sockaddr *)&peer, listener);
			again = !failed; /* only one descriptor was freed */
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			   errno == ENOMEM) {
			again = make_room(tcp, !failed);
			failed = true;
		} else {
			again = errno == ECONNABORTED || errno == EINTR || errno == EPROTO;
		}
	}
}

void
tcp_leave(struct tcp *tcp)
{
	bool listening = tcp->listening;

	tcp->listening = false;
	for (unsigned i = 0; i < tcp->listener_count && listening; i++) {
		struct pollfd waiting = { .fd = tcp->listeners[i], .events = POLLIN };

		for (unsigned rounds = 0; rounds < LEAVE_ROUNDS && poll(&waiting, 1, 0) > 0;
		     rounds++)
			tcp_accept(tcp, i);
		/* The socket stays bound. tcp_listen() then does not need the permission to bind port 53. */
		if (worker_epoll_ctl(tcp->context, EPOLL_CTL_DEL, tcp->listeners[i], 0, 0) != 0 ||
		    shutdown(tcp->listeners[i], SHUT_RD) != 0)
			log_fatal("tcp: cannot stop listening");
	}
	tcp->accept_again_ns = CLOCK_NEVER;
}

static enum stats_drop
overdue_reason(const struct conn *conn)
{
	if (conn->blocked || (conn->closing && conn_unsent(conn)))
		return DROP_TCP_SLOW_READER;
	return conn->in != NULL ? DROP_TCP_SLOW_QUERY : DROP_TCP_IDLE;
}

int64_t
tcp_iteration(struct tcp *tcp)
{
	int64_t now_ns = tcp->context->now_ns;

	if (tcp->accept_again_ns <= now_ns) {
		tcp->accept_again_ns = CLOCK_NEVER;
		listen_for(tcp, EPOLLIN);
	}
	struct conn *oldest;
	while ((oldest = TAILQ_FIRST(&tcp->pool.by_age)) != NULL &&
	       oldest->touched_ns + tcp->config.idle_ns <= now_ns) {
		if (oldest->lent)
			conn_touch(&tcp->pool, oldest); /* the module has its own deadlines */
		else
			conn_drop(&tcp->pool, oldest, overdue_reason(oldest));
	}
	return clock_earlier(tcp->accept_again_ns,
	    oldest != NULL ? oldest->touched_ns + tcp->config.idle_ns : CLOCK_NEVER);
}

unsigned
tcp_connections_allowed(unsigned wanted)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return wanted;
	if (limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit) != 0 && getrlimit(RLIMIT_NOFILE, &limit) != 0)
			return wanted;
	}
	if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= (rlim_t)wanted + SPARE_DESCRIPTORS)
		return wanted;
	unsigned fewer = limit.rlim_cur > (rlim_t)2 * SPARE_DESCRIPTORS
			     ? (unsigned)limit.rlim_cur - SPARE_DESCRIPTORS
			     : SPARE_DESCRIPTORS;
	if (fewer >= wanted)
		return wanted;
	log_warnx("dns: %u TCP connections instead of %u: the limit of open files is %llu", fewer,
	    wanted, (unsigned long long)limit.rlim_cur);
	return fewer;
}

void
tcp_free(struct tcp *tcp)
{
	if (tcp == NULL)
		return;
	tcp_pool_free(&tcp->pool);
	for (size_t i = 0; i < tcp->listener_count; i++)
		close(tcp->listeners[i]);
	free(tcp->gather);
	free(tcp->scratch);
	free(tcp->reply);
	free(tcp);
}
