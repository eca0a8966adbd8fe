/* What a TCP client of kubedns can make it keep. */
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

#include "kubedns/serve/tcp_internal.h"

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
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof sin;
	uint32_t kept = 0;

	(void)state;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int client = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&sin, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&sin, &len), 0);
	struct tcp *tcp = tcp_new(&context, NULL, &listener, 1, &config);
	assert_int_equal(connect(client, (struct sockaddr *)&sin, len), 0);
	assert_int_equal(poll(&(struct pollfd){ .fd = listener, .events = POLLIN }, 1, 10000), 1);
	tcp_accept(tcp, 0);
	assert_int_equal(tcp->count, 1);
	for (unsigned i = 0; i < REPLIES_MAX && tcp->count == 1; i++) {
		kept = tcp->conns[0].out_len;
		tcp_hold(tcp, &peer);
		memset(tcp_reply_room(tcp), 0, REPLY);
		tcp_reply_done(tcp, &peer, REPLY);
	}
	assert_int_equal(tcp->count, 0);
	assert_int_equal(stats.dropped[DROP_TCP_SLOW_READER], 1);
	assert_in_range(kept, BOUND - (PREFIX + REPLY) + 1, BOUND);
	assert_int_equal(tcp->memory, 0);
	tcp_free(tcp);
	close(client);
	close(context.epoll);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_leaves_more_than_256_KiB_of_replies_unread_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
