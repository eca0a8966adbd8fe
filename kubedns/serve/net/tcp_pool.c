#include "kubedns/serve/net/tcp_pool.h"

#include <assert.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/log.h"
#include "lib/xalloc.h"

enum { FIRST_BUFFER = 512 };

uint32_t
conn_slot(const struct tcp_pool *pool, const struct conn *conn)
{
	return (uint32_t)(conn - pool->conns);
}

struct conn *
conn_find(struct tcp_pool *pool, const struct tcp_peer *peer)
{
	struct conn *conn = &pool->conns[peer->slot];

	return conn->fd >= 0 && conn->generation == peer->generation ? conn : NULL;
}

void
conn_touch(struct tcp_pool *pool, struct conn *conn)
{
	conn->touched_ns = pool->context->now_ns;
	TAILQ_REMOVE(&pool->by_age, conn, by_age);
	TAILQ_INSERT_TAIL(&pool->by_age, conn, by_age);
	TAILQ_REMOVE(&conn->client->by_age, conn, by_client);
	TAILQ_INSERT_TAIL(&conn->client->by_age, conn, by_client);
}

void
conn_charge(struct tcp_pool *pool, struct conn *conn, ssize_t bytes)
{
	assert(conn->client != NULL); /* the connection is open */
	pool->memory += (size_t)bytes;
	conn->client->memory += (size_t)bytes;
}

void
conn_free_in(struct tcp_pool *pool, struct conn *conn)
{
	conn_charge(pool, conn, -(ssize_t)conn->in_size);
	free(conn->in);
	conn->in = NULL;
	conn->in_len = conn->in_size = 0;
}

void
conn_free_out(struct tcp_pool *pool, struct conn *conn)
{
	conn_charge(pool, conn, -(ssize_t)conn->out_size);
	free(conn->out);
	conn->out = NULL;
	conn->out_len = conn->out_sent = conn->out_size = 0;
}

bool
conn_grow(struct tcp_pool *pool, struct conn *conn, uint8_t **buffer, uint32_t *size, uint32_t need,
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
	if (pool->memory + more > pool->memory_max ||
	    conn->client->memory + more > (pool->memory_max - pool->memory) / 2)
		return false;
	conn_charge(pool, conn, (ssize_t)more);
	*buffer = xreallocarray(*buffer, wanted, 1);
	*size = wanted;
	return true;
}

void
conn_wait_for(struct tcp_pool *pool, struct conn *conn, uint32_t events)
{
	if (conn->events == events)
		return;
	conn->events = events;
	if (worker_epoll_ctl(pool->context, EPOLL_CTL_MOD, conn->fd, events,
		worker_key(PART_TCP, conn_slot(pool, conn), conn->generation)) != 0)
		log_fatal("epoll_ctl");
}

bool
conn_unsent(const struct conn *conn)
{
	int bytes = 0;

	return ioctl(conn->fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

bool
conn_is_idle(const struct conn *conn)
{
	return conn->in_flight == 0 && !conn->blocked;
}

static struct tcp_client *
client_join(struct tcp_pool *pool, uint32_t hash, struct conn *conn)
{
	struct tcp_client *client;

	LIST_FOREACH(client, &pool->clients[hash % TCP_CLIENT_BUCKETS], by_hash)
	{
		if (client->hash == hash)
			break;
	}
	if (client == NULL) {
		client = xcalloc(1, sizeof *client);
		client->hash = hash;
		TAILQ_INIT(&client->by_age);
		LIST_INSERT_HEAD(&pool->clients[hash % TCP_CLIENT_BUCKETS], client, by_hash);
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
client_has_too_many(const struct tcp_pool *pool, const struct tcp_client *client)
{
	return client->count > 1 && client->count > pool->free_count / 2;
}

bool
client_had_its_share(const struct tcp_pool *pool, const struct tcp_client *client)
{
	return client->iteration == pool->context->iteration &&
	       client->spent_ns >= TCP_CLIENT_ITERATION_NS;
}

void
client_note_spent(const struct tcp_pool *pool, struct tcp_client *client, int64_t spent_ns)
{
	if (client->iteration != pool->context->iteration)
		client->spent_ns = 0;
	client->iteration = pool->context->iteration;
	client->spent_ns += spent_ns;
}

/* Returns when to close the connection. The time has jitter, so connections that were opened together are not closed together. */
static int64_t
retire_time(const struct tcp_pool *pool, const struct conn *conn)
{
	uint64_t mix = (pool->context->random ^ (uint64_t)pool->context->now_ns ^
			   (uint64_t)(conn - pool->conns)) *
		       0x9e3779b97f4a7c15ULL;

	return pool->context->now_ns +
	       (TCP_AGE_MS + (int64_t)(mix >> 40) % TCP_AGE_JITTER_MS) * 1000000;
}

struct conn *
conn_open(struct tcp_pool *pool, int fd, const struct sockaddr *peer)
{
	const struct worker_context *context = pool->context;
	struct conn *conn = &pool->conns[pool->free_slots[pool->free_count - 1]];
	uint64_t key = worker_key(PART_TCP, conn_slot(pool, conn), conn->generation);

	if (worker_epoll_ctl(context, EPOLL_CTL_ADD, fd, EPOLLIN, key) != 0) {
		stats_drop(context->stats, DROP_TCP_ACCEPT);
		close(fd);
		return NULL;
	}
	pool->free_count--;
	conn->fd = fd;
	conn->family = peer->sa_family == AF_INET ? FAMILY_4 : FAMILY_6;
	memcpy(&conn->addr, peer, sizeof conn->addr);
	conn->in_flight = conn->queries = 0;
	conn->blocked = conn->lent = conn->finished = conn->closing = false;
	conn->events = EPOLLIN;
	conn->touched_ns = context->now_ns;
	conn->retire_ns = retire_time(pool, conn);
	TAILQ_INSERT_TAIL(&pool->by_age, conn, by_age);
	conn->client = client_join(pool, client_hash(peer, context->hash_key), conn);
	pool->count++;
	stats_add(&context->stats->tcp_accepted, 1);
	stats_add(&context->stats->tcp_connections, 1);
	return conn;
}

void
conn_close(struct tcp_pool *pool, struct conn *conn)
{
	if (conn->lent) /* the module has a second descriptor, which would keep the connection in
			 * the epoll */
		worker_epoll_ctl(pool->context, EPOLL_CTL_DEL, conn->fd, 0, 0);
	close(conn->fd); /* if this is the only descriptor, close() removes it from the epoll */
	conn->fd = -1;
	conn->generation++;
	conn_free_in(pool, conn);
	conn_free_out(pool, conn);
	TAILQ_REMOVE(&pool->by_age, conn, by_age);
	client_leave(conn);
	pool->free_slots[pool->free_count++] = conn_slot(pool, conn);
	pool->count--;
	stats_sub(&pool->context->stats->tcp_connections, 1);
	if (pool->current == conn)
		pool->current = NULL; /* makes tcp_gather_flush() return false */
}

void
conn_drop(struct tcp_pool *pool, struct conn *conn, enum stats_drop reason)
{
	const struct linger reset = { .l_onoff = 1, .l_linger = 0 };

	stats_drop(pool->context->stats, reason);
	if (conn->blocked || conn_unsent(conn))
		setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	conn_close(pool, conn);
}

void
tcp_pool_init(
    struct tcp_pool *pool, struct worker_context *context, unsigned connections, size_t memory)
{
	*pool = (struct tcp_pool){ .context = context, .memory_max = memory };
	TAILQ_INIT(&pool->by_age);
	pool->conns = xcalloc(connections, sizeof *pool->conns);
	pool->free_slots = xcalloc(connections, sizeof *pool->free_slots);
	for (unsigned i = connections; i-- > 0;) {
		pool->conns[i].fd = -1;
		pool->free_slots[pool->free_count++] = i;
	}
}

void
tcp_pool_free(struct tcp_pool *pool)
{
	struct conn *conn;

	while ((conn = TAILQ_FIRST(&pool->by_age)) != NULL)
		conn_close(pool, conn);
	free(pool->conns);
	free(pool->free_slots);
}
