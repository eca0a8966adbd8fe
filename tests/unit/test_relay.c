/* The relay and a resolver that is a socket of this test, or gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/serve/upstream/relay.h"
#include "tests/unit/worker_world.h"

enum { WAIT_MS = 5000 };

static struct relay *relay;
/* A port of 127.0.0.1 at which no program listens: it is bound to another address. */
static struct server
closed_port(int *fd)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr = { htonl(INADDR_LOOPBACK + 1) } };
	socklen_t len = sizeof in;

	*fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(*fd >= 0);
	assert_int_equal(bind(*fd, (struct sockaddr *)&in, len), 0);
	assert_int_equal(getsockname(*fd, (struct sockaddr *)&in, &len), 0);
	return (struct server){ .addr = { .family = AF_INET, .bytes = { 127, 0, 0, 1 } },
		.port = ntohs(in.sin_port) };
}

static void
query(const char *text)
{
	struct client client = { .proto = PROTO_UDP, .hash = 1 };
	struct answer_info info = { .below = -1 };
	struct dname name;
	struct tree_path path;
	uint8_t wire[DNS_UDP_QUERY_MAX];

	assert_int_equal(dname_from_text(&name, text), 0);
	size_t len = query_write(wire, sizeof wire, 1, name.wire, TYPE_A, CLASS_IN, 0);
	answer_read(&config, wire, len, &info, &path);
	info.system = SYSTEM_RECURSIVE;
	inflight_start(table, &client, wire, len, ANSWER_FORWARD, &info);
}

static void
at_ms(int64_t ms)
{
	context.now_ns = 1 + ms * 1000000;
	relay_turn(relay);
}

/* Takes the event: the resolver's host has refused what was sent. */
static void
take_refusal(void)
{
	struct epoll_event event;

	assert_int_equal(epoll_wait(context.epoll, &event, 1, WAIT_MS), 1);
	uint64_t key = event.data.u64;
	assert_true((event.events & EPOLLERR) != 0);
	relay_udp_event(relay, worker_key_slot(key), worker_key_tag(key), event.events);
}

static void
each_refused_query_waits_for_its_own_pause(void **state)
{
	(void)state;
	const struct client_ops clients = { NULL, client_hold, client_room, client_done };
	int fd;
	struct server server = closed_port(&fd);
	memset(&stats, 0, sizeof stats);
	context.epoll = epoll_create1(EPOLL_CLOEXEC);
	context.now_ns = 1;
	table = inflight_new(&context, &clients, 100, 100);
	relay = relay_new(&context, table, &server);
	query("a.example.com.");
	at_ms(0);
	take_refusal();
	context.now_ns += 40 * INT64_C(1000000);
	query("b.example.com.");
	at_ms(40);
	take_refusal();
	at_ms(50);
	assert_int_equal(stats.forward_retries, 1);
	at_ms(89);
	assert_int_equal(stats.forward_retries, 1);
	at_ms(90);
	assert_int_equal(stats.forward_retries, 2);
	inflight_finish_all(table);
	assert_int_equal(got.replies, 2);
	inflight_free(table);
	relay_free(relay);
	close(context.epoll);
	close(fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_refused_query_waits_for_its_own_pause),
	};

	return cmocka_run_group_tests(tests, make_world, end_world);
}
