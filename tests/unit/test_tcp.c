/* How much memory a TCP client can use, how much time it gets, and connections that a module takes over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/serve/net/tcp.c" /* NOLINT(bugprone-suspicious-include): tests read its state */

/* Makes an accepted connection and returns the client's socket. */
static int
connected(struct worker_context *context, const struct tcp_config *config, struct tcp **tcp)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof sin;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int client = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&sin, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&sin, &len), 0);
	*tcp = tcp_new(context, NULL, &listener, 1, config);
	tcp_listen(*tcp);
	assert_int_equal(connect(client, (struct sockaddr *)&sin, len), 0);
	assert_int_equal(poll(&(struct pollfd){ .fd = listener, .events = POLLIN }, 1, 10000), 1);
	tcp_accept(*tcp, 0);
	assert_int_equal((*tcp)->pool.count, 1);
	return client;
}

static void
who_leaves_more_than_256_KiB_of_replies_unread_is_dropped(void **state)
{
	enum { BOUND = 256 * 1024, REPLY = 4096, REPLIES_MAX = 10000 };
	static struct stats stats;
	const struct tcp_config config = {
		.connections = 1, .memory = 4 * BOUND, .idle_ns = NS_PER_S
	};
	const struct tcp_peer peer = { .slot = 0 };
	struct worker_context context = { .epoll = epoll_create1(EPOLL_CLOEXEC), .stats = &stats };
	struct tcp *tcp;
	uint32_t kept = 0;

	(void)state;
	int client = connected(&context, &config, &tcp);
	for (unsigned i = 0; i < REPLIES_MAX && tcp->pool.count == 1; i++) {
		kept = tcp->pool.conns[0].out_len;
		tcp_defer(tcp, &peer);
		memset(tcp_reply_reserve(tcp), 0, REPLY);
		tcp_reply_done(tcp, &peer, REPLY);
	}
	assert_int_equal(tcp->pool.count, 0);
	assert_int_equal(stats.dropped[DROP_TCP_SLOW_READER], 1);
	assert_in_range(kept, BOUND - (PREFIX + REPLY) + 1, BOUND);
	assert_int_equal(tcp->pool.memory, 0);
	tcp_free(tcp);
	close(client);
	close(context.epoll);
}

/* The client has sent only the start of a message. So reading it produces no answer. */
static void
who_had_a_part_of_the_turn_waits_for_the_next(void **state)
{
	static struct stats stats;
	const struct tcp_config config = {
		.connections = 1, .memory = 1 << 20, .idle_ns = NS_PER_S
	};
	struct worker_context context = { .epoll = epoll_create1(EPOLL_CLOEXEC), .stats = &stats };
	struct tcp *tcp;

	(void)state;
	int client = connected(&context, &config, &tcp);
	struct conn *conn = &tcp->pool.conns[0];
	context.iteration = 7;
	conn->client->iteration = 7;
	conn->client->spent_ns = TCP_CLIENT_ITERATION_NS;
	assert_int_equal(send(client, "\0\20x", 3, 0), 3);
	assert_int_equal(poll(&(struct pollfd){ .fd = conn->fd, .events = POLLIN }, 1, 10000), 1);
	tcp_event(tcp, 0, conn->generation, EPOLLIN);
	assert_null(conn->in);
	context.iteration = 8;
	tcp_event(tcp, 0, conn->generation, EPOLLIN);
	assert_non_null(conn->in);
	assert_int_equal(conn->client->iteration, 8);
	tcp_free(tcp);
	close(client);
	close(context.epoll);
}

/* After the reset, the unread bytes of the client in the kernel still count as unread. */
static void
who_closes_its_side_and_resets_is_gone_at_once(void **state)
{
	enum { REPLIES = 4, REPLY = 60000, BUFFER = 1 << 20 };
	static struct stats stats;
	const struct tcp_config config = {
		.connections = 1, .memory = 1 << 20, .idle_ns = NS_PER_S
	};
	const struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	const struct tcp_peer peer = { .slot = 0 };
	struct worker_context context = { .epoll = epoll_create1(EPOLL_CLOEXEC), .stats = &stats };
	struct epoll_event event;
	struct tcp *tcp;
	int buffer = BUFFER;

	(void)state;
	int client = connected(&context, &config, &tcp);
	struct conn *conn = &tcp->pool.conns[0];
	setsockopt(conn->fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
	for (unsigned i = 0; i < REPLIES; i++)
		tcp_defer(tcp, &peer);
	assert_int_equal(shutdown(client, SHUT_WR), 0);
	assert_int_equal(epoll_wait(context.epoll, &event, 1, 10000), 1);
	tcp_event(tcp, 0, 0, event.events);
	for (unsigned i = 0; i < REPLIES; i++) {
		memset(tcp_reply_reserve(tcp), 0, REPLY);
		tcp_reply_done(tcp, &peer, REPLY);
	}
	assert_true(tcp->pool.count == 1 && conn->closing && conn_unsent(conn));
	setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	close(client);
	while (tcp->pool.count > 0 && epoll_wait(context.epoll, &event, 1, 10000) == 1)
		tcp_event(tcp, 0, 0, event.events);
	assert_int_equal(tcp->pool.count, 0);
	tcp_free(tcp);
	close(context.epoll);
}

/* A query ends without a reply while the connection is being read. Its client
 * has closed its sending side. The replies that were gathered before must be sent first. */
static void
a_query_without_reply_does_not_close_ahead_of_gathered_replies(void **state)
{
	enum { REPLY = 100 };
	static struct stats stats;
	const struct tcp_config config = {
		.connections = 1, .memory = 1 << 20, .idle_ns = NS_PER_S
	};
	const struct tcp_peer peer = { .slot = 0 };
	struct worker_context context = { .epoll = epoll_create1(EPOLL_CLOEXEC), .stats = &stats };
	struct tcp *tcp;
	uint8_t got[PREFIX + REPLY + 1];

	(void)state;
	int client = connected(&context, &config, &tcp);
	struct conn *conn = &tcp->pool.conns[0];
	conn->finished = true;
	tcp->pool.current = conn;
	memset(tcp_gather_buffer(tcp), 0, PREFIX + REPLY);
	tcp_gather_done(tcp, REPLY);
	tcp_defer(tcp, &peer);
	tcp_reply_done(tcp, &peer, 0);
	assert_false(conn->closing);
	assert_true(tcp_gather_flush(tcp));
	tcp->pool.current = NULL;
	assert_int_equal(recv(client, got, sizeof got, MSG_DONTWAIT), PREFIX + REPLY);
	tcp_free(tcp);
	close(client);
	close(context.epoll);
}

/* The module of this test takes AXFR, and takes over the connection. */
struct module {
	unsigned taken;
	struct connection_return end; /* of the last connection */
};

static bool
takes_axfr(const void *state, const struct answer_config *answers, const struct query *query,
    bool has_tsig)
{
	(void)state;
	(void)answers;
	(void)has_tsig;
	return query->qtype == TYPE_AXFR;
}

static size_t
take_over(void *state, const struct module_message *message)
{
	struct module *module = state;

	assert_true(message->fd >= 0);
	module->taken++;
	module->end = message->end;
	return 0;
}

/* The client sends three queries at once. Each takes the connection over. */
static void
a_connection_that_a_module_has_is_left_alone_until_the_module_returns_it(void **state)
{
	static struct stats stats;
	const struct tcp_config config = {
		.connections = 1, .memory = 1 << 20, .idle_ns = NS_PER_S
	};
	struct treecache *cache = treecache_new(1);
	struct module module = { 0 };
	const struct message_handler handler = { takes_axfr, take_over, &module };
	const struct message_handler *const handlers[] = { &handler, NULL };
	const struct answer_config answers = { .zone = { 15, "\7cluster\5local" },
		.handlers = handlers };
	struct worker_context context = { .epoll = epoll_create1(EPOLL_CLOEXEC),
		.stats = &stats,
		.answers = &answers,
		.tree = cache };
	uint8_t queries[3 * 64];
	struct tcp *tcp;
	size_t len = 0;

	(void)state;
	rcu_join();
	worker_thread_init(&context);
	int client = connected(&context, &config, &tcp);
	struct conn *conn = &tcp->pool.conns[0];
	for (uint16_t i = 0; i < 3; i++) {
		size_t size = query_write(queries + len + PREFIX, 64 - PREFIX, i, answers.zone.wire,
		    TYPE_AXFR, CLASS_IN, 0);
		wire_put16(queries + len, (unsigned)size);
		len += PREFIX + size;
	}
	assert_int_equal(send(client, queries, len, 0), len);
	assert_int_equal(poll(&(struct pollfd){ .fd = conn->fd, .events = POLLIN }, 1, 10000), 1);
	tcp_event(tcp, 0, conn->generation, EPOLLIN);
	assert_int_equal(module.taken, 1);
	/* The idle timeout does not apply, and the next queries wait. */
	context.now_ns += 2 * config.idle_ns;
	tcp_iteration(tcp);
	tcp_event(tcp, 0, conn->generation, EPOLLIN);
	assert_int_equal(module.taken, 1);
	assert_int_equal(tcp->pool.count, 1);
	tcp_returned(tcp, module.end.slot, module.end.generation, true);
	assert_int_equal(module.taken, 2);
	/* A return of an earlier connection in this slot has no effect. */
	tcp_returned(tcp, module.end.slot, module.end.generation + 1, false);
	assert_int_equal(tcp->pool.count, 1);
	/* An unusable connection is closed. Its last query is not answered. */
	tcp_returned(tcp, module.end.slot, module.end.generation, false);
	assert_int_equal(module.taken, 2);
	assert_int_equal(tcp->pool.count, 0);
	assert_int_equal(stats.dropped[DROP_TCP_MODULE], 1);
	assert_int_equal(stats.dropped[DROP_TCP_SLOW_READER], 0);
	tcp_free(tcp);
	close(client);
	close(context.epoll);
	rcu_part();
	treecache_free(cache);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_leaves_more_than_256_KiB_of_replies_unread_is_dropped),
		cmocka_unit_test(who_closes_its_side_and_resets_is_gone_at_once),
		cmocka_unit_test(who_had_a_part_of_the_turn_waits_for_the_next),
		cmocka_unit_test(a_query_without_reply_does_not_close_ahead_of_gathered_replies),
		cmocka_unit_test(
		    a_connection_that_a_module_has_is_left_alone_until_the_module_returns_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
