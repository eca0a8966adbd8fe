#include "kubedns/serve/net/tcp_internal.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kubedns/serve/net/sockets.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum {
	SPARE_DESCRIPTORS = 256, /* for API, HTTP and upstreams, beside TCP clients */
	LEAVE_ROUNDS = 256,      /* of ACCEPTS_MAX: more than a listener's backlog */
};

static const int64_t accept_pause_ns =
    100 * INT64_C(1000000); /* after accept() failed for want of descriptors */

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
	struct tcp *tcp = xcalloc(1, sizeof(*tcp));
	tcp->context = context;
	tcp->inflight = inflight;
	tcp->config = *config;
	TAILQ_INIT(&tcp->by_age);
	tcp->conns = xcalloc(config->connections, sizeof(*tcp->conns));
	tcp->rotation = context->hash_key;
	tcp->free_slots = xcalloc(config->connections, sizeof(*tcp->free_slots));
	for (unsigned i = config->connections; i-- > 0;) {
		tcp->conns[i].fd = -1;
		tcp->free_slots[tcp->free_count++] = i;
	}
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

uint32_t
conn_slot(const struct tcp *tcp, const struct conn *conn)
{
	return (uint32_t)(conn - tcp->conns);
}

void
conn_touch(struct tcp *tcp, struct conn *conn)
{
	conn->touched_ns = tcp->context->now_ns;
	TAILQ_REMOVE(&tcp->by_age, conn, by_age);
	TAILQ_INSERT_TAIL(&tcp->by_age, conn, by_age);
	TAILQ_REMOVE(&conn->client->by_age, conn, by_client);
	TAILQ_INSERT_TAIL(&conn->client->by_age, conn, by_client);
}

void
conn_charge(struct tcp *tcp, struct conn *conn, ssize_t bytes)
{
	assert(conn->client != NULL); /* it is open */
	tcp->memory += (size_t)bytes;
	conn->client->memory += (size_t)bytes;
}

void
conn_free_in(struct tcp *tcp, struct conn *conn)
{
	conn_charge(tcp, conn, -(ssize_t)conn->in_size);
	free(conn->in);
	conn->in = NULL;
	conn->in_len = conn->in_size = 0;
}

void
conn_free_out(struct tcp *tcp, struct conn *conn)
{
	conn_charge(tcp, conn, -(ssize_t)conn->out_size);
	free(conn->out);
	conn->out = NULL;
	conn->out_len = conn->out_sent = conn->out_size = 0;
}

static struct tcp_client *
client_join(struct tcp *tcp, uint32_t hash, struct conn *conn)
{
	struct tcp_client *client;
	LIST_FOREACH(client, &tcp->clients[hash % TCP_CLIENT_BUCKETS], by_hash)
	{
		if (client->hash == hash)
			break;
	}
	if (client == NULL) {
		client = xcalloc(1, sizeof(*client));
		client->hash = hash;
		TAILQ_INIT(&client->by_age);
		LIST_INSERT_HEAD(&tcp->clients[hash % TCP_CLIENT_BUCKETS], client, by_hash);
	}
	client->count++;
	TAILQ_INSERT_TAIL(&client->by_age, conn, by_client);
	return client;
}

static void
client_leave(struct conn *conn)
{
	struct tcp_client *client = conn->client;
	TAILQ_REMOVE(&client->by_age, conn, by_client);
	conn->client = NULL;
	if (--client->count > 0)
		return;
	LIST_REMOVE(client, by_hash);
	free(client);
}

bool
conn_unsent(const struct conn *conn)
{
	int bytes = 0;
	return ioctl(conn->fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

void
conn_close(struct tcp *tcp, struct conn *conn)
{
	if (conn->streaming) /* has another descriptor, with which it would stay in the epoll */
		worker_epoll_ctl(tcp->context, EPOLL_CTL_DEL, conn->fd, 0, 0);
	close(conn->fd); /* and leaves the epoll with its only descriptor */
	conn->fd = -1;
	conn->generation++;
	conn_free_in(tcp, conn);
	conn_free_out(tcp, conn);
	TAILQ_REMOVE(&tcp->by_age, conn, by_age);
	client_leave(conn);
	tcp->free_slots[tcp->free_count++] = conn_slot(tcp, conn);
	tcp->count--;
	stats_sub(&tcp->context->stats->tcp_connections, 1);
	if (tcp->current == conn)
		tcp->current = NULL; /* tcp_gather_flush() returns false then */
}

void
conn_drop(struct tcp *tcp, struct conn *conn, enum stats_drop reason)
{
	const struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	stats_drop(tcp->context->stats, reason);
	if (conn->blocked || conn_unsent(conn))
		setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	conn_close(tcp, conn);
}

bool
conn_grow(struct tcp *tcp, struct conn *conn, uint8_t **buffer, uint32_t *size, uint32_t need,
    uint32_t cap)
{
	if (need <= *size)
		return true;
	uint32_t wanted = *size * 2 > need ? *size * 2 : need;
	if (wanted < FIRST_BUFFER)
		wanted = FIRST_BUFFER;
	if (wanted > cap)
		wanted = need;
	size_t more = wanted - *size;
	if (tcp->memory + more > tcp->config.memory ||
	    conn->client->memory + more > (tcp->config.memory - tcp->memory) / 2)
		return false;
	conn_charge(tcp, conn, (ssize_t)more);
	*buffer = xreallocarray(*buffer, wanted, 1);
	*size = wanted;
	return true;
}

void
conn_wait_for(struct tcp *tcp, struct conn *conn, uint32_t events)
{
	if (conn->events == events)
		return;
	conn->events = events;
	if (worker_epoll_ctl(tcp->context, EPOLL_CTL_MOD, conn->fd, events,
		worker_key(PART_TCP, conn_slot(tcp, conn), conn->generation)) != 0)
		log_fatal("epoll_ctl");
}

/* Whether no query is in flight and no reply waits to be sent. */
static bool
conn_is_idle(const struct conn *conn)
{
	return conn->held == 0 && !conn->blocked;
}

/*
 * Closes the connection to make room for another, after it has been read if it never was: after a pause
 * of ours its query waits in the socket, and a client that is not answered comes again over yet another
 * connection.
 */
static void
give_way(struct tcp *tcp, struct conn *conn, enum stats_drop reason)
{
	uint32_t generation = conn->generation;
	if (conn->queries == 0 && conn_is_idle(conn) && !conn->closing)
		conn_read_and_note(tcp, conn); /* whether or not its client has had its turn */
	if (conn->fd >= 0 && conn->generation == generation)
		conn_drop(tcp, conn, reason);
}

/* Closes the connection that has been idle for longest, else the least recently touched one. */
static void
evict(struct tcp *tcp)
{
	struct conn *conn, *victim = TAILQ_FIRST(&tcp->by_age);
	unsigned looked = 0;
	TAILQ_FOREACH(conn, &tcp->by_age, by_age)
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

/* The same among the connections of one client. */
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

/* How many connections one client may have: half of those that are free, as in inflight.c. */
static unsigned
client_limit(const struct tcp *tcp)
{
	unsigned limit = tcp->free_count / 2;
	return limit > 0 ? limit : 1;
}

/* Jittered: connections that were opened together are not closed together. */
static int64_t
retire_time(const struct tcp *tcp, const struct conn *conn)
{
	uint64_t mix = (tcp->context->hash_key ^ (uint64_t)tcp->context->now_ns ^
			   (uint64_t)(conn - tcp->conns)) *
		       0x9e3779b97f4a7c15ULL;
	return tcp->context->now_ns +
	       (TCP_AGE_MS + (int64_t)(mix >> 40) % TCP_AGE_JITTER_MS) * 1000000;
}

static void
conn_open(struct tcp *tcp, int fd, const struct sockaddr *peer, unsigned listener)
{
	const struct worker_context *context = tcp->context;
	bool external = listener >= tcp->listener_count - tcp->config.external;
	if (tcp->free_count == 0)
		evict(tcp);
	struct conn *conn = &tcp->conns[tcp->free_slots[tcp->free_count - 1]];
	uint64_t key = worker_key(PART_TCP, conn_slot(tcp, conn), conn->generation);
	if (worker_epoll_ctl(tcp->context, EPOLL_CTL_ADD, fd, EPOLLIN, key) != 0) {
		stats_drop(tcp->context->stats, DROP_TCP_ACCEPT);
		close(fd);
		return;
	}
	tcp->free_count--;
	conn->fd = fd;
	conn->family = peer->sa_family == AF_INET ? FAMILY_4 : FAMILY_6;
	memcpy(&conn->addr, peer, sizeof(conn->addr));
	conn->answers = external ? context->external : context->answers;
	conn->held = conn->queries = 0;
	conn->blocked = conn->streaming = conn->finished = conn->closing = false;
	conn->events = EPOLLIN;
	conn->touched_ns = tcp->context->now_ns;
	conn->retire_ns = retire_time(tcp, conn);
	TAILQ_INSERT_TAIL(&tcp->by_age, conn, by_age);
	conn->client = client_join(tcp, client_hash(peer, tcp->context->hash_key), conn);
	tcp->count++;
	stats_add(&tcp->context->stats->tcp_accepted, 1);
	stats_add(&tcp->context->stats->tcp_connections, 1);
	if (conn->client->count > 1 && conn->client->count > client_limit(tcp))
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
 * accept() failed for lack of descriptors or memory: the first time closes an idle connection, then
 * stops accepting for a while.
 */
static bool
make_room(struct tcp *tcp, bool first)
{
	stats_drop(tcp->context->stats, DROP_TCP_ACCEPT);
	log_neterr("tcp: accept: %s", strerror(errno));
	if (first && tcp->count > 0) {
		evict(tcp);
		return true;
	}
	if (tcp->listening) { /* else tcp_leave() takes what it can, once */
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
		socklen_t len = sizeof(peer);
		int fd = accept4(tcp->listeners[listener], (struct sockaddr *)&peer, &len,
		    SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			conn_open(tcp, fd, (struct sockaddr *)&peer, listener);
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
		/* It stays bound, so that tcp_listen() needs no right to port 53. */
		if (worker_epoll_ctl(tcp->context, EPOLL_CTL_DEL, tcp->listeners[i], 0, 0) != 0 ||
		    shutdown(tcp->listeners[i], SHUT_RD) != 0)
			log_fatal("tcp: cannot stop to listen");
	}
	tcp->accept_again_ns = 0;
}

static enum stats_drop
overdue_reason(const struct conn *conn)
{
	if (conn->blocked || (conn->closing && conn_unsent(conn)))
		return DROP_TCP_SLOW_READER;
	return conn->in != NULL ? DROP_TCP_SLOW_QUERY : DROP_TCP_IDLE;
}

int64_t
tcp_turn(struct tcp *tcp)
{
	int64_t now_ns = tcp->context->now_ns;
	if (tcp->accept_again_ns != 0 && tcp->accept_again_ns <= now_ns) {
		tcp->accept_again_ns = 0;
		listen_for(tcp, EPOLLIN);
	}
	struct conn *oldest;
	while ((oldest = TAILQ_FIRST(&tcp->by_age)) != NULL &&
	       oldest->touched_ns + tcp->config.idle_ns <= now_ns) {
		if (oldest->streaming)
			conn_touch(tcp, oldest); /* the transfer has deadlines of its own */
		else
			conn_drop(tcp, oldest, overdue_reason(oldest));
	}
	return earlier(
	    tcp->accept_again_ns, oldest != NULL ? oldest->touched_ns + tcp->config.idle_ns : 0);
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
	struct conn *conn;
	while ((conn = TAILQ_FIRST(&tcp->by_age)) != NULL)
		conn_close(tcp, conn);
	for (size_t i = 0; i < tcp->listener_count; i++)
		close(tcp->listeners[i]);
	free(tcp->conns);
	free(tcp->free_slots);
	free(tcp->gather);
	free(tcp->scratch);
	free(tcp->reply);
	free(tcp);
}
