/* The HTTP server's second listener, which is at the pod's own address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/own_loopback.h"
#include "tests/unit/http_client.h"

static void
serve(const struct http_request *request, struct http_response *response, void *arg)
{
	(void)request;
	(void)arg;
	http_text(response, 200, "%s", "hello");
}

static const struct http_route routes[] = { { "/metrics", serve, false }, { .path = NULL } };

static struct addr own;

static void
start_with_own_address(void)
{
	const struct http_config config = { .address = "127.0.0.1", .routes = routes };

	setenv("OWN_LOOPBACK", "3f0c8a52-0000-4c1e-9c7e-b7d5c1a0e000", 1);
	assert_true(own_loopback(&own));
	start(&config);
}

static int
dial_own(void)
{
	char text[ADDR_TEXT_MAX];

	return dial(addr_format(&own, text));
}

static void
get(int fd)
{
	static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";

	assert_int_equal(send(fd, request, sizeof request - 1, 0), sizeof request - 1);
	assert_true(receive(fd, NULL));
	assert_string_equal(body(), "hello");
	close(fd);
}

static void
it_answers_there_too(void **state)
{
	(void)state;
	start_with_own_address();
	get(dial_own());
	get(dial("127.0.0.1"));
}

/* In the network of the host, a pod listens only at the address of the node. It does not listen at
 * the other addresses of the host. */
static void
loopback_is_served_beside_an_address_and_no_other_is(void **state)
{
	const struct http_config config = { .address = "127.0.0.9", .routes = routes };

	(void)state;

	setenv("OWN_LOOPBACK", "3f0c8a52-0000-4c1e-9c7e-b7d5c1a0e000", 1);
	assert_true(own_loopback(&own));
	start(&config);
	get(dial("127.0.0.9"));
	get(dial_own());
	get(dial("127.0.0.1"));
	struct server elsewhere = { .addr = { AF_INET, { 127, 0, 0, 10 } },
		.port = http_port(http) };
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(&elsewhere, &ss);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&ss, len), -1);
	assert_int_equal(errno, ECONNREFUSED);
	close(fd);
}

static void
without_descriptors_it_waits_and_goes_on_when_there_are_some(void **state)
{
	struct rlimit all, none;
	unsigned iterations = 0;

	(void)state;

	start_with_own_address();
	int client = dial_own(), next = dup(client);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
	none = all;
	none.rlim_cur = (rlim_t)next;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (int64_t end_ms = now_ms() + 300; now_ms() < end_ms; iterations++)
		iterate(-1, 50);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
	assert_true(iterations < 50); /* the loop does not spin */
	get(client);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(it_answers_there_too, stop),
		cmocka_unit_test_teardown(
		    loopback_is_served_beside_an_address_and_no_other_is, stop),
		cmocka_unit_test_teardown(
		    without_descriptors_it_waits_and_goes_on_when_there_are_some, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
