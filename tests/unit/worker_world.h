/* The context of a worker without threads or sockets, for tests of the code that sends queries to
 * other servers. The clients store only their last reply. */
#ifndef TESTS_UNIT_WORKER_WORLD_H
#define TESTS_UNIT_WORKER_WORLD_H

#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/serve/upstream/inflight.h"
#include "lib/rcu.h"
#include "treecache/treecache.h"
#include "kubedns/answer/stage.h"

static struct stats stats;
static struct worker_context context;
static struct answer_config config;
static struct inflight_table *table;

/* Group setup: a tree without names, which forwards all queries. */
static int
make_world(void **state)
{
	struct answer_context *answers = calloc(1, sizeof *answers);

	assert_non_null(answers);
	answers->forwarding = true;
	rcu_join();
	assert_int_equal(dname_from_text(&config.zone, "cluster.local."), 0);
	stages_build(&config);
	struct treecache *cache = treecache_new(1);
	treecache_context(cache, answers);
	treecache_publish(cache, 1, true);
	context = (struct worker_context){ .stats = &stats, .tree = cache, .answers = &config };
	*state = cache;
	return 0;
}

/* Group teardown. */
static int
end_world(void **state)
{
	treecache_free(*state);
	rcu_part();
	return 0;
}

/* How many replies client_ops delivered, and the last reply. */
static struct {
	unsigned replies;
	uint8_t buffer[DNS_TCP_MAX];
} got;

static inline void
client_defer(void *arg, const struct client *client)
{
	(void)arg;
	(void)client;
}

static inline uint8_t *
client_reserve(void *arg, const struct client *client, size_t *max)
{
	(void)arg;
	(void)client;
	*max = DNS_UDP_PAYLOAD;
	return got.buffer;
}

static inline void
client_done(void *arg, const struct client *client, size_t len)
{
	(void)arg;
	(void)client;
	assert_true(len >= DNS_HEADER);
	got.replies++;
}

/* Returns a TCP socket that listens at the address and port of this UDP socket. Returns -1 if another
 * program has this port. */
static inline int
listen_beside(int udp)
{
	struct sockaddr_in in;
	socklen_t len = sizeof in;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(getsockname(udp, (struct sockaddr *)&in, &len), 0);
	if (bind(listener, (struct sockaddr *)&in, len) == 0 && listen(listener, 16) == 0)
		return listener;
	close(listener);
	return -1;
}

/* A server that accepts a connection, reads one question, and sends it back as a truncated reply. Returns
 * the connection. */
static inline int
truncate_over_tcp(int listener)
{
	struct pollfd ready = { .fd = listener, .events = POLLIN };
	uint8_t message[2 + DNS_UDP_QUERY_MAX];

	assert_int_equal(poll(&ready, 1, 5000), 1);
	int fd = accept(listener, NULL, NULL);
	assert_int_equal(recv(fd, message, 2, MSG_WAITALL), 2);
	size_t len = 2u + wire_get16(message);
	assert_int_equal(recv(fd, message + 2, len - 2, MSG_WAITALL), len - 2);
	message[4] |= 0x80 | FLAG_TC >> 8;
	assert_int_equal(send(fd, message, len, MSG_NOSIGNAL), len);
	return fd;
}

#endif
