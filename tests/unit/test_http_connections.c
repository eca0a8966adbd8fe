/* The HTTP server's connections: their number, their lifetime, and the order in which they are
 * closed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/addr.h"
#include "lib/clock.h"
#include "tests/unit/http_client.h"

static char page_text[] = "hello";

static void
serve_plain(const struct http_request *request, struct http_response *response, void *arg)
{
	(void)request;
	http_text(response, 200, "%s", (const char *)arg);
}

static void
serve_busy(const struct http_request *request, struct http_response *response, void *arg)
{
	(void)request;
	(void)arg;
	http_text(response, 503, "%s", "not synced\n");
}

static const struct http_route routes[] = {
	{ "/metrics", serve_plain, false },
	{ "/readiness", serve_busy, false },
	{ .path = NULL },
};

static struct http_config
config(void)
{
	return (struct http_config){ .address = "127.0.0.1", .routes = routes, .arg = page_text };
}

static void
connections_are_kept_and_requests_may_be_pipelined(void **state)
{
	static const char twice[] =
	    "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\nGET /readiness HTTP/1.1\r\nHost: a\r\n\r\n";
	struct http_config c = config();

	(void)state;
	start(&c);
	int fd = dial("127.0.0.1");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(send(fd, twice, strlen(twice), 0), strlen(twice));
		assert_true(receive(fd, "not synced\n"));
		assert_non_null(strstr(reply, "hello"));
	}
	close(fd);
}

/* Idle connections cannot lock out a new client, such as the probe of the kubelet. */
static void
beyond_the_limit_the_longest_waiting_connection_makes_room(void **state)
{
	enum { LIMIT = 8, CLIENTS = 100 };
	struct http_config c = config();
	int fds[CLIENTS];
	char byte = 0;

	(void)state;
	c.max_connections = LIMIT;
	start(&c);
	for (size_t i = 0; i < CLIENTS; i++) {
		fds[i] = dial("127.0.0.1");
		iterate(-1, 20);
		ask("GET /metrics", "");
		assert_int_equal(status(), 200);
	}
	assert_true(http_dropped(http) >= CLIENTS - LIMIT);
	assert_int_equal(recv(fds[0], &byte, 1, MSG_DONTWAIT), 0); /* the first connection was
								    * closed */
	ssize_t n = recv(fds[CLIENTS - 1], &byte, 1, MSG_DONTWAIT);
	assert_int_equal(n, -1);
	assert_int_equal(errno, EAGAIN); /* the last connection is still open */
	for (size_t i = 0; i < CLIENTS; i++)
		close(fds[i]);
}

/* If the server gets no CPU time, connections wait in the backlog. Without room in the backlog,
 * they would be accepted seconds later, or never. */
static void
a_burst_of_connections_is_let_in(void **state)
{
	enum { BURST = 500 };
	static const char get[] = "GET /metrics HTTP/1.0\r\n\r\n";
	static int fds[BURST];
	struct http_config c = config();
	struct server server = { .addr = { .family = AF_INET, .bytes = { 127, 0, 0, 1 } } };
	struct sockaddr_storage ss;

	(void)state;
	start(&c);
	server.port = http_port(http);
	socklen_t len = server_sockaddr(&server, &ss);
	for (size_t i = 0; i < BURST; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(fds[i], (const struct sockaddr *)&ss, len);
		/* On loopback, the connection is established or refused at once. */
		struct pollfd pollfd = { .fd = fds[i], .events = POLLOUT };
		assert_int_equal(poll(&pollfd, 1, 500), 1);
		assert_int_equal(send(fds[i], get, strlen(get), 0), strlen(get));
	}
	assert_true(receive(fds[BURST - 1], NULL));
	assert_int_equal(status(), 200);
	for (size_t i = 0; i < BURST; i++)
		close(fds[i]);
}

/* After their response, at most 32 connections are kept. This limits their memory. */
static void
beyond_32_kept_connections_each_gets_its_answer_and_is_closed(void **state)
{
	enum { KEPT = 32, CLIENTS = 60 };
	static const char get[] = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
	struct http_config c = config();
	int fds[CLIENTS];

	(void)state;
	start(&c);
	for (size_t i = 0; i < CLIENTS; i++) {
		fds[i] = dial("127.0.0.1");
		assert_int_equal(send(fds[i], get, strlen(get), 0), strlen(get));
		assert_true(receive(fds[i], i < KEPT ? "hello" : NULL));
		assert_int_equal(status(), 200);
		assert_string_equal(body(), "hello");
		assert_int_equal(strstr(reply, "Connection: close") == NULL, i < KEPT);
	}
	/* Kept connections are served again. When one is closed, there is room for a new one. */
	assert_int_equal(send(fds[0], get, strlen(get), 0), strlen(get));
	assert_true(receive(fds[0], "hello"));
	close(fds[1]);
	iterate(-1, 50);
	fds[1] = dial("127.0.0.1");
	assert_int_equal(send(fds[1], get, strlen(get), 0), strlen(get));
	assert_true(receive(fds[1], "hello"));
	assert_null(strstr(reply, "Connection: close"));
	for (size_t i = 0; i < CLIENTS; i++)
		close(fds[i]);
	assert_int_equal(http_dropped(http), 0);
}

/* The timer of libmicrohttpd restarts at every byte, so the server needs its own timer. */
static void
a_request_that_trickles_is_dropped_in_time(void **state)
{
	struct http_config c = config();
	const char *head = "GET /metrics HTTP/1.1\r\nX: ";
	char byte = 0;

	(void)state;
	c.head_timeout_ms = 200;
	start(&c);
	int fd = dial("127.0.0.1");
	int64_t begun = now_ms();
	ssize_t n = -1;
	while (n != 0 && now_ms() < begun + 5000) {
		send(fd, *head != '\0' ? head++ : "a", 1, MSG_NOSIGNAL);
		for (int64_t next = now_ms() + 10; now_ms() < next;)
			iterate(-1, 5);
		n = recv(fd, &byte, 1, MSG_DONTWAIT);
		if (n < 0 && errno == ECONNRESET)
			n = 0;
	}
	assert_int_equal(n, 0);
	assert_in_range(now_ms() - begun, 200, 2000);
	assert_int_equal(http_dropped(http), 1);
	close(fd);
}

static void
an_idle_connection_is_closed(void **state)
{
	struct http_config c = config();

	(void)state;
	c.idle_timeout_ms = 200;
	start(&c);
	int fd = dial("127.0.0.1");
	assert_true(send(fd, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 34, 0) == 34);
	assert_true(receive(fd, "hello"));
	int64_t begun = now_ms();
	assert_true(receive(fd, NULL));
	assert_in_range(now_ms() - begun, 150, 2000);
	close(fd);
}

static void
nothing_to_do_means_no_timeout(void **state)
{
	struct http_config c = config();

	(void)state;
	start(&c);
	assert_int_equal(http_due_ms(http), CLOCK_NEVER);
	ask("GET /metrics", "");
	for (int i = 0; i < 3; i++)
		iterate(-1, 0);
	int fd = dial("127.0.0.1");
	iterate(-1, 20);
	iterate(-1, 20);
	/* This is the deadline of the next request. */
	assert_in_range(http_due_ms(http) - clock_mono_ms(), 1, 10000);
	close(fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(connections_are_kept_and_requests_may_be_pipelined, stop),
		cmocka_unit_test_teardown(
		    beyond_the_limit_the_longest_waiting_connection_makes_room, stop),
		cmocka_unit_test_teardown(a_burst_of_connections_is_let_in, stop),
		cmocka_unit_test_teardown(
		    beyond_32_kept_connections_each_gets_its_answer_and_is_closed, stop),
		cmocka_unit_test_teardown(a_request_that_trickles_is_dropped_in_time, stop),
		cmocka_unit_test_teardown(an_idle_connection_is_closed, stop),
		cmocka_unit_test_teardown(nothing_to_do_means_no_timeout, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
