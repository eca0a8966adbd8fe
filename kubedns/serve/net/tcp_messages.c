/*
 * The messages on TCP connections: bytes to queries, replies to bytes. Replies of one turn are
 * gathered and sent together; what the socket does not take is kept, up to a bound, and nothing
 * more is read from the client meanwhile. Only an incomplete message is copied and kept: most
 * arrive whole and are answered from the read buffer.
 */
#include "kubedns/serve/client_view.h"
#include "kubedns/serve/rotation.h"
#include "kubedns/serve/net/tcp_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "kubedns/dnstap/dnstap_queue.h"
#include "kubedns/serve/observe/answer_observers.h"
#include "kubedns/serve/upstream/inflight.h"
#include "lib/rcu.h"
#include "treecache/treecache.h"

enum { KEEPALIVE_UNIT_NS = 100 * 1000000 }; /* RFC 7828 */

/*
 * Keeps what did not fit into the socket's buffer and stops reading until it has been sent; false
 * if the connection is gone.
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
		conn_drop(tcp, conn, DROP_TCP_SLOW_READER);
		return false;
	}
	if (!conn_grow(tcp, conn, &conn->out, &conn->out_size, (uint32_t)(conn->out_len + len),
		KEPT_MAX)) {
		conn_drop(tcp, conn, DROP_TCP_MEMORY);
		return false;
	}
	memcpy(conn->out + conn->out_len, bytes, len);
	conn->out_len += (uint32_t)len;
	if (!conn->blocked) {
		conn->blocked = true;
		conn_touch(tcp, conn);
		conn_wait_for(tcp, conn, EPOLLOUT);
	}
	return true;
}

/* Sends whole messages or keeps them for later; false if the connection is gone. */
static bool
conn_send(struct tcp *tcp, struct conn *conn, const uint8_t *bytes, size_t len)
{
	if (!conn->blocked) {
		ssize_t n = send(conn->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			conn_close(tcp, conn);
			return false;
		}
		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
		}
	}
	return len == 0 || keep_out(tcp, conn, bytes, len);
}

bool
tcp_gather_flush(struct tcp *tcp)
{
	size_t len = tcp->gathered;
	tcp->gathered = 0;
	return tcp->current != NULL && (len == 0 || conn_send(tcp, tcp->current, tcp->gather, len));
}

uint8_t *
tcp_gather_room(struct tcp *tcp)
{
	if (GATHER_MAX - tcp->gathered < PREFIX + DNS_TCP_MAX && !tcp_gather_flush(tcp))
		return NULL;
	return tcp->gather + tcp->gathered;
}

void
tcp_gather_done(struct tcp *tcp, size_t len)
{
	wire_put16(tcp->gather + tcp->gathered, (unsigned)len);
	tcp->gathered += PREFIX + len;
}

static void
forward_message(struct tcp *tcp, struct conn *conn, const uint8_t *query, size_t len,
    enum answer_outcome outcome, const struct answer_info *info)
{
	struct client client = {
		.proto = PROTO_TCP,
		.family = (enum stats_family)conn->family,
		.hash = conn->client->hash,
		.peer.tcp = { conn_slot(tcp, conn), conn->generation, conn->addr },
	};
	if (tcp->context->dnstap != NULL)
		dnstap_add(tcp->context->dnstap, DNSTAP_CLIENT_QUERY, true, &conn->addr.sa, query,
		    len, tcp->context->now_ns, 0);
	inflight_start(tcp->inflight, &client, query, len, outcome, info);
}

/* Whether the connection has reached its age or its number of queries. */
static bool
conn_is_retired(const struct tcp *tcp, const struct conn *conn)
{
	return conn->queries >= TCP_QUERIES || tcp->context->now_ns >= conn->retire_ns;
}

/* How long it may be idle, in the units of EDNS TCP keepalive; 0: the client shall close it. */
static uint16_t
keepalive_of(const struct tcp *tcp, const struct conn *conn)
{
	if (conn_is_retired(tcp, conn))
		return 0;
	return (uint16_t)(tcp->config.idle_ns / KEEPALIVE_UNIT_NS);
}

/* Notes a reply to the connection's client. */
static void
log_reply(const struct tcp *tcp, const struct conn *conn, const struct answer_info *info)
{
	const struct worker_context *context = tcp->context;
	int64_t now_ns = clock_mono_ns();
	answer_observers_one(context->observers, &conn->addr.sa, info, now_ns,
	    now_ns - context->now_ns, (enum answer_made)info->system, true);
}

/* Answers one message of the current connection; false if the connection is gone. */
static bool
answer_message(struct tcp *tcp, const uint8_t *query, size_t len)
{
	struct worker_context *context = tcp->context;
	struct conn *conn = tcp->current;
	struct answer_info info;
	uint8_t *room = tcp_gather_room(tcp);
	if (room == NULL)
		return false;
	conn->queries++;
	rcu_enter();
	const struct answer_request request = {
		.config = conn->answers,
		.tree = client_view(context, tree_current(context->tree), &conn->addr.sa),
		.query = query,
		.query_len = len,
		.out = room + PREFIX,
		.max = DNS_TCP_MAX,
		.tcp = true,
		.keepalive = keepalive_of(tcp, conn),
		.may_wait = true,
		.rotation = rotation_next(&tcp->rotation),
		.thread = &context->thread,
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
		if (context->observers != NULL)
			log_reply(tcp, conn, &info);
		if (context->dnstap != NULL)
			dnstap_answered(context->dnstap, true, &conn->addr.sa, query, len,
			    request.out, info.len, context->now_ns);
		return true;
	}
	if (outcome == ANSWER_TRANSFER)
		return tcp_transfer(tcp, query, len, &info);
	forward_message(tcp, conn, query, len, outcome, &info);
	return tcp->current != NULL;
}

/*
 * Answers the whole messages at `bytes`; returns the bytes used, or -1 if the connection is
 * gone. Stops early when the client does not read its replies.
 */
static ssize_t
answer_messages(struct tcp *tcp, struct conn *conn, const uint8_t *bytes, size_t len)
{
	size_t used = 0;
	while (len - used >= PREFIX && !conn->blocked) {
		size_t message = wire_get16(bytes + used);
		if (message < DNS_HEADER) {
			conn_drop(tcp, conn, DROP_TCP_BAD_LENGTH);
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
 * Keeps the beginning of a message, or what is not read while the client is blocked; false if
 * the connection is gone.
 */
static bool
keep_in(struct tcp *tcp, struct conn *conn, const uint8_t *bytes, size_t len)
{
	if (len == 0)
		return true;
	if (!conn_grow(tcp, conn, &conn->in, &conn->in_size, (uint32_t)(conn->in_len + len),
		PREFIX + DNS_TCP_MAX)) {
		conn_drop(tcp, conn, DROP_TCP_MEMORY);
		return false;
	}
	memcpy(conn->in + conn->in_len, bytes, len);
	conn->in_len += (uint32_t)len;
	return true;
}

/* How many bytes of the message, or of its length prefix, have not arrived yet. */
static size_t
missing(const struct conn *conn)
{
	if (conn->in_len < PREFIX)
		return PREFIX - conn->in_len;
	size_t whole = PREFIX + (size_t)wire_get16(conn->in);
	return whole > conn->in_len ? whole - conn->in_len : 0;
}

/*
 * Answers the kept bytes and keeps the incomplete rest; false if the connection is gone.
 */
static bool
answer_kept(struct tcp *tcp, struct conn *conn)
{
	uint8_t *kept = conn->in;
	uint32_t len = conn->in_len, size = conn->in_size;
	conn->in = NULL;
	conn->in_len = conn->in_size = 0;
	conn_charge(tcp, conn, -(ssize_t)size);
	ssize_t used = answer_messages(tcp, conn, kept, len);
	bool open = used >= 0 && keep_in(tcp, conn, kept + used, len - (size_t)used);
	free(kept);
	if (open && used > 0)
		conn_touch(tcp, conn);
	return open;
}

static bool
answer_fresh(struct tcp *tcp, struct conn *conn, size_t len)
{
	ssize_t used = answer_messages(tcp, conn, tcp->scratch, len);
	if (used < 0)
		return false;
	if (used > 0)
		conn_touch(tcp, conn);
	return keep_in(tcp, conn, tcp->scratch + used, len - (size_t)used);
}

/*
 * Waits for the end of a connection that we have shut down, and closes it once the client has read
 * everything: closed earlier, the kernel would keep the rest, outside of every bound. Events are
 * edge-triggered once the client has shut down too, or EPOLLHUP would be reported without end.
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
		conn_close(tcp, conn);
	else
		conn_wait_for(tcp, conn, conn->finished ? EPOLLET : EPOLLIN);
}

/*
 * After the client has closed its sending side, or the connection has reached its age: closes it
 * once no reply is due.
 */
static void
close_if_finished(struct tcp *tcp, struct conn *conn)
{
	if (conn->blocked || conn->closing || (!conn->finished && !conn_is_retired(tcp, conn)))
		return;
	if (conn->held > 0) {
		conn_wait_for(tcp, conn, conn->finished ? 0 : EPOLLIN);
		return;
	}
	conn->closing = true;
	conn_free_in(tcp, conn);
	if (shutdown(conn->fd, SHUT_WR) != 0)
		conn_close(tcp, conn);
	else
		conn_linger(tcp, conn);
}

/*
 * Reads once and answers; false if the connection is gone or nothing more is to be read now. A
 * message whose beginning is kept is completed first, straight into its buffer.
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
			conn_close(tcp, conn);
		return false;
	}
	if (lack > 0)
		return keep_in(tcp, conn, tcp->scratch, (size_t)n) && missing(conn) == 0 &&
		       answer_kept(tcp, conn) && (size_t)n == want;
	return answer_fresh(tcp, conn, (size_t)n) && (size_t)n == want;
}

/* Reads and answers until nothing is left, the client blocks, or READS_MAX is reached. */
static void
conn_read(struct tcp *tcp, struct conn *conn)
{
	int64_t start_ns = tcp->context->now_ns;
	tcp->current = conn;
	tcp->gathered = 0;
	memset(tcp->replied, 0, sizeof(tcp->replied));
	unsigned reads = tcp->context->loaded ? 1 : READS_MAX;
	for (unsigned turn = 0; turn < reads && !conn->blocked && !conn->finished; turn++)
		if (!read_once(tcp, conn))
			break;
	if (tcp_gather_flush(tcp)) {
		tcp->current = NULL;
		close_if_finished(tcp, conn);
	}
	tcp->current = NULL;
	uint64_t took_ns = (uint64_t)(worker_time(tcp->context) - start_ns);
	for (size_t s = 0; s < SYSTEM_COUNT; s++)
		if (tcp->replied[s] > 0)
			stats_took(&tcp->context->stats->times[s], took_ns, tcp->replied[s]);
}

void
tcp_unblocked(struct tcp *tcp, struct conn *conn)
{
	conn->blocked = false;
	conn_touch(tcp, conn);
	conn_wait_for(tcp, conn, EPOLLIN);
	if (conn->in != NULL && missing(conn) == 0)
		conn_read(tcp, conn);
	else
		close_if_finished(tcp, conn);
}

/* Sends what was kept; once all of it is sent, answers what was left unread. */
static void
conn_write(struct tcp *tcp, struct conn *conn)
{
	ssize_t n = send(conn->fd, conn->out + conn->out_sent, conn->out_len - conn->out_sent,
	    MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			conn_close(tcp, conn);
		return;
	}
	conn->out_sent += (uint32_t)n;
	if (conn->out_sent < conn->out_len)
		return;
	conn_free_out(tcp, conn);
	tcp_unblocked(tcp, conn);
}

/* Whether the client has used up its part of this turn. Its level-triggered events come again. */
static bool
client_has_had_its_turn(const struct tcp *tcp, const struct tcp_client *client)
{
	return client->turn == tcp->context->turn && client->spent_ns >= TCP_CLIENT_TURN_NS;
}

static void
note_spent(const struct tcp *tcp, struct tcp_client *client, int64_t spent_ns)
{
	if (client->turn != tcp->context->turn)
		client->spent_ns = 0;
	client->turn = tcp->context->turn;
	client->spent_ns += spent_ns;
}

void
conn_read_and_note(struct tcp *tcp, struct conn *conn)
{
	const uint32_t generation = conn->generation;
	int64_t start_ns = tcp->context->now_ns;
	conn_read(tcp, conn);
	if (conn->fd >= 0 && conn->generation == generation)
		note_spent(tcp, conn->client, tcp->context->now_ns - start_ns);
}

void
tcp_event(struct tcp *tcp, uint32_t slot, uint32_t generation, uint32_t events)
{
	struct conn *conn = &tcp->conns[slot];
	if (conn->fd < 0 || conn->generation != generation)
		return;
	if (conn->streaming)
		return; /* the transfer's thread sees what becomes of it */
	if (conn->closing && (events & EPOLLERR) != 0)
		conn_close(tcp, conn); /* reset: the client will not read the rest */
	else if (conn->closing)
		conn_linger(tcp, conn);
	else if (conn->blocked)
		conn_write(tcp, conn);
	else if (conn->finished && (events & (EPOLLERR | EPOLLHUP)) != 0)
		conn_close(tcp, conn); /* the client cannot read replies any more */
	else if (conn->finished || !client_has_had_its_turn(tcp, conn->client))
		conn_read_and_note(tcp, conn);
}

static struct conn *
find_conn(struct tcp *tcp, const struct tcp_peer *peer)
{
	struct conn *conn = &tcp->conns[peer->slot];
	return conn->fd >= 0 && conn->generation == peer->generation ? conn : NULL;
}

void
tcp_hold(struct tcp *tcp, const struct tcp_peer *peer)
{
	struct conn *conn = find_conn(tcp, peer);
	if (conn != NULL)
		conn->held++;
}

uint8_t *
tcp_reply_room(struct tcp *tcp)
{
	return tcp->reply + PREFIX;
}

void
tcp_reply_done(struct tcp *tcp, const struct tcp_peer *peer, size_t len)
{
	struct conn *conn = find_conn(tcp, peer);
	if (conn == NULL) {
		stats_drop(tcp->context->stats, DROP_REPLY_LATE);
		return;
	}
	conn->held--;
	wire_put16(tcp->reply, (unsigned)len);
	if (len == 0) {
		if (conn != tcp->current) /* conn_read() closes it, behind the gathered replies */
			close_if_finished(tcp, conn);
		return;
	}
	if (conn == tcp->current) {
		/*
		 * Called while this connection is being answered: the gathered replies come first.
		 */
		uint8_t *room = tcp_gather_room(tcp);
		if (room == NULL)
			return;
		memcpy(room, tcp->reply, PREFIX + len);
		tcp->gathered += PREFIX + len;
		return;
	}
	if (!conn_send(tcp, conn, tcp->reply, PREFIX + len))
		return;
	if (!conn->blocked)
		conn_touch(tcp, conn);
	close_if_finished(tcp, conn);
}
