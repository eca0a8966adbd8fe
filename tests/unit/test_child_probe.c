/* The nanny has a port for queries from dnsmasq. The tests show which packets it accepts at this
 * port. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/wire.h"
#include "nanny/child_probe.h"
#include "nanny/servers/servers_file.h"

enum { FAIL_SAFE_MS = 30 * 1000 };

/* A stand-in for dnsmasq: the queries that it receives, and a socket from which it sends queries. */
struct standin {
	int asked_fd, asks_fd;
	struct child_probe *probe;
};

static int
setup(void **state)
{
	static struct standin s;
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof sin;

	s.asked_fd = socket(AF_INET, SOCK_DGRAM, 0);
	s.asks_fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (bind(s.asked_fd, (struct sockaddr *)&sin, len) < 0 ||
	    getsockname(s.asked_fd, (struct sockaddr *)&sin, &len) < 0)
		return -1;
	struct server dnsmasq;
	server_from_sockaddr((struct sockaddr *)&sin, &dnsmasq);
	s.probe = child_probe_new(&dnsmasq);
	*state = &s;
	return s.probe != NULL ? 0 : -1;
}

static int
teardown(void **state)
{
	struct standin *s = *state;

	child_probe_free(s->probe);
	close(s->asked_fd);
	close(s->asks_fd);
	return 0;
}

/* Sends the nanny's query for the generation, and reads it at the stand-in. Returns its length. */
static size_t
generation_question(struct standin *s, uint8_t *wire, size_t size)
{
	child_probe_ask_generation(s->probe);
	ssize_t len = recv(s->asked_fd, wire, size, 0);
	assert_true(len > DNS_HEADER);
	return (size_t)len;
}

/* Forwards the message like a dnsmasq that has loaded this generation of the servers file. */
static uint32_t
forward(struct standin *s, const uint8_t *wire, size_t len, uint32_t generation)
{
	struct server to = { .addr = servers_generation_addr(generation),
		.port = child_probe_port(s->probe) };
	struct sockaddr_storage ss;
	socklen_t ss_len = server_sockaddr(&to, &ss);
	struct pollfd fd = { .fd = child_probe_questions_fd(s->probe), .events = POLLIN };

	assert_int_equal(sendto(s->asks_fd, wire, len, 0, (struct sockaddr *)&ss, ss_len), len);
	assert_int_equal(poll(&fd, 1, FAIL_SAFE_MS), 1);
	return child_probe_answer(s->probe);
}

static void
the_address_asked_at_is_the_generation(void **state)
{
	struct standin *s = *state;
	uint8_t wire[512];
	size_t len = generation_question(s, wire, sizeof wire);

	assert_int_equal(forward(s, wire, len, 700), 700);
	assert_int_equal(forward(s, wire, len, 701), 701);
}

static void
another_opcode_says_nothing_and_gets_no_answer(void **state)
{
	struct standin *s = *state;
	uint8_t wire[512], reply[512];
	size_t len = generation_question(s, wire, sizeof wire);

	assert_int_equal(forward(s, wire, len, 700), 700);
	assert_true(recv(s->asks_fd, reply, sizeof reply, MSG_DONTWAIT) > 0);
	wire[2] = 5 << 3; /* an UPDATE message */
	assert_int_equal(forward(s, wire, len, 701), 0);
	assert_int_equal(recv(s->asks_fd, reply, sizeof reply, MSG_DONTWAIT), -1);
}

static void
a_question_without_the_secret_is_answered_and_says_nothing(void **state)
{
	struct standin *s = *state;
	uint8_t wire[512], reply[512];
	size_t len = generation_question(s, wire, sizeof wire);

	wire[DNS_HEADER + 1] ^= 1;
	assert_int_equal(forward(s, wire, len, 700), 0);
	assert_true(recv(s->asks_fd, reply, sizeof reply, MSG_DONTWAIT) > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    the_address_asked_at_is_the_generation, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    another_opcode_says_nothing_and_gets_no_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    a_question_without_the_secret_is_answered_and_says_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
