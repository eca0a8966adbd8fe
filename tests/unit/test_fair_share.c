/* The top clients, their shares, and the filter that limits their packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/serve/net/socket_filter.h"
#include "kubedns/serve/fair_share.h"
#include "lib/clock.h"
#include "tests/unit/emulator.h"

static struct sockaddr_in
address(uint32_t number)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(number) };
}

static void
add(struct heavy_hitters *hitters, uint32_t number, unsigned times)
{
	struct sockaddr_in from = address(number);

	while (times-- > 0)
		heavy_hitters_add(hitters, (struct sockaddr *)&from);
}

static const struct hitter *
find(const struct heavy_hitters *hitters, uint32_t number)
{
	struct sockaddr_in from = address(number);

	for (unsigned i = 0; i < hitters->used; i++)
		if (memcmp(hitters->entries[i].addr.bytes, &from.sin_addr, 4) == 0)
			return &hitters->entries[i];
	return NULL;
}

static void
the_heaviest_are_found_among_thousands(void **state)
{
	(void)state;
	struct heavy_hitters hitters = { .total = 0 };
	for (unsigned round = 0; round < 1000; round++) {
		add(&hitters, 1, 4);
		add(&hitters, 2, 2);
		for (unsigned i = 0; i < 4; i++)
			add(&hitters, 1000 + round * 4 + i, 1);
	}
	assert_int_equal(hitters.total, 10000);
	assert_int_equal(hitters.used, HITTERS);
	const struct hitter *first = find(&hitters, 1), *second = find(&hitters, 2);
	assert_non_null(first);
	assert_non_null(second);
	assert_in_range(first->count - first->error, 3900, 4000);
	assert_in_range(second->count - second->error, 1900, 2000);
	assert_true(first->count >= 4000);
}

static void
addresses_are_told_apart_by_all_their_bytes(void **state)
{
	(void)state;
	struct heavy_hitters hitters = { .total = 0 };
	struct sockaddr_in6 from = { .sin6_family = AF_INET6 };
	for (unsigned i = 0; i < 16; i++) {
		memset(&from.sin6_addr, 0, sizeof from.sin6_addr);
		from.sin6_addr.s6_addr[i] = 1;
		from.sin6_port = (in_port_t)i;
		heavy_hitters_add(&hitters, (struct sockaddr *)&from);
		from.sin6_port = 99; /* another port counts as the same client */
		heavy_hitters_add(&hitters, (struct sockaddr *)&from);
	}
	assert_int_equal(hitters.used, 16);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(hitters.entries[i].count, 2);
}

static void
the_level_is_max_min_fair(void **state)
{
	(void)state;
	static const struct {
		double demands[3];
		size_t count;
		double others, capacity, level;
	} cases[] = {
		{ { 1000 }, 1, 100, 600, 500 },
		{ { 1000, 1000 }, 2, 100, 600, 250 },
		{ { 1000, 100 }, 2, 0, 600, 500 },
		{ { 100, 1000, 300 }, 3, 0, 600, 250 },
		{ { 1000 }, 1, 700, 600, -1 }, /* the other clients alone exceed the capacity */
		{ { 100, 100 }, 2, 0, 600, 300 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		double level = max_min_level(
		    cases[i].demands, cases[i].count, cases[i].others, cases[i].capacity);

		assert_true(fabs(level - cases[i].level) < 0.001);
	}
}

/* Opens a socket of this family and type. The socket is bound to a local address. */
static int
bound(const char *text, struct sockaddr_storage *ss)
{
	struct server server = { .port = 0 };

	assert_int_equal(addr_parse(text, &server.addr), 0);
	socklen_t len = server_sockaddr(&server, ss);
	int fd = socket(server.addr.family, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)ss, len) != 0)
		return -1;
	len = sizeof *ss;
	assert_int_equal(getsockname(fd, (struct sockaddr *)ss, &len), 0);
	return fd;
}

static unsigned
passed(int server, const struct sockaddr_storage *to, int client, unsigned count)
{
	unsigned got = 0;
	char byte;

	for (unsigned i = 0; i < count; i++) {
		socklen_t len = to->ss_family == AF_INET ? sizeof(struct sockaddr_in)
							 : sizeof(struct sockaddr_in6);

		assert_int_equal(sendto(client, "x", 1, 0, (const struct sockaddr *)to, len), 1);
		got += recv(server, &byte, 1, 0) == 1;
	}
	return got;
}

static void
the_filter_holds_back_these_clients_and_no_others(void **state)
{
	(void)state;
	skip_under_emulator("SO_ATTACH_FILTER");
	struct sockaddr_storage at, from;
	struct client_share shares[SOCKET_FILTER_MAX];
	int server = bound("127.0.0.1", &at), clients[SOCKET_FILTER_MAX], other;
	char text[] = "127.0.1.0";
	assert_true(server >= 0);
	for (unsigned i = 0; i < SOCKET_FILTER_MAX; i++) {
		text[8] = (char)('1' + i);
		assert_int_equal(addr_parse(text, &shares[i].addr), 0);
		shares[i].share = i == 0 ? 0 : i == 1 ? 0.5 : 0;
		clients[i] = bound(text, &from);
		assert_true(clients[i] >= 0);
	}
	other = bound("127.0.0.1", &from);
	assert_int_equal(passed(server, &at, clients[0], 100), 100);
	assert_int_equal(socket_filter_set(server, AF_INET, shares, SOCKET_FILTER_MAX), 0);
	assert_int_equal(passed(server, &at, clients[0], 100), 0);
	assert_in_range(passed(server, &at, clients[1], 1000), 300, 700);
	assert_int_equal(passed(server, &at, clients[SOCKET_FILTER_MAX - 1], 100), 0);
	assert_int_equal(passed(server, &at, other, 100), 100);
	assert_int_equal(socket_filter_set(server, AF_INET, shares, 0), 0);
	assert_int_equal(socket_filter_set(server, AF_INET, shares, 0), 0);
	assert_int_equal(passed(server, &at, clients[0], 100), 100);
	for (unsigned i = 0; i < SOCKET_FILTER_MAX; i++)
		close(clients[i]);
	close(other);
	close(server);
}

static void
ipv6_clients_too(void **state)
{
	(void)state;
	skip_under_emulator("SO_ATTACH_FILTER");
	struct sockaddr_storage at, from;
	struct client_share share = { .share = 0 };
	int server = bound("::1", &at), client;
	if (server < 0)
		skip(); /* skipped without IPv6 */
	client = bound("::1", &from);
	assert_int_equal(addr_parse("::2", &share.addr), 0);
	assert_int_equal(socket_filter_set(server, AF_INET6, &share, 1), 0);
	assert_int_equal(passed(server, &at, client, 10), 10);
	assert_int_equal(addr_parse("::1", &share.addr), 0);
	assert_int_equal(socket_filter_set(server, AF_INET6, &share, 1), 0);
	assert_int_equal(passed(server, &at, client, 10), 0);
	/* The filter has no client of this family. */
	assert_int_equal(socket_filter_set(server, AF_INET, &share, 1), 0);
	assert_int_equal(passed(server, &at, client, 10), 10);
	close(client);
	close(server);
}

/* --- the policy, with simulated time and simulated packets --- */

enum { BATCH = 64, WINDOW_MS = 20 };

static struct stats stats;
static struct worker_context context;
static struct mmsghdr batch[BATCH];
static struct sockaddr_in from[BATCH];

/* Fills the socket's queue to more than half. */
static void
fill(int server, const struct sockaddr_storage *at)
{
	static char bytes[1000];
	int small = 65536, client = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	setsockopt(server, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
	for (unsigned i = 0; i < 200; i++)
		sendto(client, bytes, sizeof bytes, 0, (const struct sockaddr *)at,
		    sizeof(struct sockaddr_in));
	close(client);
}

static void
empty(int server)
{
	char byte;

	while (recv(server, &byte, 1, 0) > 0)
		;
}

/*
 * Simulates a window of time. One in `part` packets is from client 2. The other packets are from
 * client 1. There are `batches` batches of 100 us each. The worker is idle for the rest of the
 * window.
 */
static void
window(struct fair_share *fair, unsigned batches, unsigned part)
{
	for (unsigned b = 0; b < batches; b++) {
		for (unsigned i = 0; i < BATCH; i++) {
			from[i] = address((b * BATCH + i) % part == 0 ? 2 : 1);
			batch[i].msg_hdr.msg_name = &from[i];
		}
		context.now_ns += 100000;
		fair_share_batch(fair, batch, BATCH, 100000);
	}
	int64_t idle_ns = WINDOW_MS * INT64_C(1000000) - batches * INT64_C(100000);
	context.now_ns += idle_ns;
	fair_share_idle(fair, idle_ns);
	fair_share_iteration(fair);
}

static void
nobody_is_held_back_while_there_is_room_and_the_heaviest_when_there_is_none(void **state)
{
	(void)state;
	struct sockaddr_storage at;
	struct client_share held[SOCKET_FILTER_MAX];
	struct udp_socket udp = { .fd = bound("127.0.0.1", &at), .family = AF_INET };
	context = (struct worker_context){ .now_ns = 1, .stats = &stats };
	struct fair_share *fair = fair_share_new(&context, &udp, 1);

	fair_share_behind(fair, 0); /* the queue is empty */
	assert_false(context.measuring);
	assert_int_equal(fair_share_iteration(fair), CLOCK_NEVER);

	/* No client is limited if the queue grew while the worker had no CPU time, and is soon
	 * empty. */
	fill(udp.fd, &at);
	fair_share_behind(fair, 0);
	assert_true(context.measuring);
	empty(udp.fd);
	window(fair, 200, 21);
	assert_int_equal(fair_share_clients(fair, held), 0);

	fill(udp.fd, &at);
	fair_share_behind(fair, 0);
	window(fair, 200, 21);
	assert_int_equal(fair_share_clients(fair, held), 1);
	assert_int_equal(held[0].addr.bytes[3], 1);
	assert_true(held[0].share > 0.1 && held[0].share < 0.6);
	assert_int_equal(stats.clients_limited, 1);

	/* The share that passes is fixed. If the client sends twice as many packets, twice as many
	 * pass. */
	double first = held[0].share;
	window(fair, 190, 21);
	assert_int_equal(fair_share_clients(fair, held), 1);
	assert_true(held[0].share > first * 0.8 && held[0].share < first * 1.2);

	/* The client stops. A pause does not end the limit at once. Later, the limit and the
	 * measurement end. */
	window(fair, 1, 21);
	assert_int_equal(fair_share_clients(fair, held), 1);
	for (unsigned i = 0; i < 20; i++)
		window(fair, 0, 21);
	assert_int_equal(fair_share_clients(fair, held), 0);
	for (unsigned i = 0; i < 60; i++)
		window(fair, 1, 21);
	assert_false(context.measuring);
	fair_share_free(fair);
	close(udp.fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_heaviest_are_found_among_thousands),
		cmocka_unit_test(addresses_are_told_apart_by_all_their_bytes),
		cmocka_unit_test(the_level_is_max_min_fair),
		cmocka_unit_test(the_filter_holds_back_these_clients_and_no_others),
		cmocka_unit_test(ipv6_clients_too),
		cmocka_unit_test(
		    nobody_is_held_back_while_there_is_room_and_the_heaviest_when_there_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
