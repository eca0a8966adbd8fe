/* The HTTP server as kubelets, Prometheus, browsers and worse meet it. Server and clients take
 * turns in one thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/addr.h"
#include "lib/http.h"
#include "lib/log.h"
#include "lib/port.h"

static struct http *http;
static char page_text[] = "hello";
static char reply[1 << 20];
static size_t reply_len;
static unsigned streams_freed;

static void
serve_plain(const struct http_request *request, struct http_response *response, void *arg)
{
	(void)request;
	http_text(response, 200, "%s", (const char *)arg);
}

static void
serve_echo(const struct http_request *request, struct http_response *response, void *arg)
{
	const char *name = http_query(request, "name");

	(void)arg;
	response->content_type = "text/html; charset=utf-8";
	response->csp = "default-src 'none'";
	http_text(response, 200, "%s|%s|%s", request->path, name != NULL ? name : "(none)",
	    request->accept != NULL ? request->accept : "(any)");
}

static void
serve_busy(const struct http_request *request, struct http_response *response, void *arg)
{
	(void)request;
	(void)arg;
	http_text(response, 503, "%s", "not synced\n");
}

enum { STREAMED = 500000 };

static ssize_t
stream_digits(void *arg, char *buf, size_t max)
{
	size_t *pos = arg, n = 0;

	while (n < max && *pos < STREAMED) {
		buf[n++] = (char)('0' + *pos % 10);
		(*pos)++;
	}
	return (ssize_t)n;
}

static ssize_t
stream_broken(void *arg, char *buf, size_t max)
{
	size_t *pos = arg;

	(void)max;
	if ((*pos)++ > 0)
		return -1;
	memcpy(buf, "begun", 5);
	return 5;
}

static void
stream_free(void *arg)
{
	free(arg);
	streams_freed++;
}

static void
serve_stream(const struct http_request *request, struct http_response *response, void *arg)
{
	(void)arg;
	response->stream = strcmp(request->path, "/broken") == 0 ? stream_broken : stream_digits;
	response->stream_arg = calloc(1, sizeof(size_t));
	response->stream_free = stream_free;
}

static const struct http_route routes[] = {
	{ "/", serve_plain, false },
	{ "/metrics", serve_plain, false },
	{ "/echo", serve_echo, false },
	{ "/healthcheck/", serve_echo, false },
	{ "/readiness", serve_busy, false },
	{ "/stream", serve_stream, false },
	{ "/broken", serve_stream, false },
	{ "/cache", serve_plain, true },
	{ .path = NULL },
};

static struct http_config
config(void)
{
	return (struct http_config){ .address = "127.0.0.1", .routes = routes, .arg = page_text };
}

static void
start(const struct http_config *c)
{
	assert_int_equal(http_start(&http, c), 0);
	streams_freed = 0;
}

static int
teardown(void **state)
{
	(void)state;
	http_stop(http);
	http = NULL;
	return 0;
}

static int
dial(const char *address)
{
	struct server server = { .port = http_port(http) };
	struct sockaddr_storage ss;

	assert_int_equal(addr_parse(address, &server.addr), 0);
	socklen_t len = server_sockaddr(&server, &ss);
	int fd = socket(server.addr.family, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&ss, len), 0);
	return fd;
}

/* One turn of a program's loop:
 * waits for the server's descriptor, its timeout, or input on `fd`. */
static void
turn(int fd, int at_most_ms)
{
	struct pollfd fds[] = { { .fd = http_fd(http), .events = POLLIN },
		{ .fd = fd, .events = POLLIN } };
	int timeout = http_timeout_ms(http);

	poll(fds, 2, timeout < 0 || timeout > at_most_ms ? at_most_ms : timeout);
	http_run(http);
}

static int64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Reads into `reply` until the server closes, or `until` has arrived; false after five seconds. */
static bool
receive(int fd, const char *until)
{
	int64_t deadline = now_ms() + 5000;

	reply_len = 0;
	reply[0] = '\0';
	while (now_ms() < deadline) {
		turn(fd, 100);
		ssize_t n =
		    recv(fd, reply + reply_len, sizeof(reply) - 1 - reply_len, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return until == NULL;
		if (n > 0)
			reply_len += (size_t)n;
		reply[reply_len] = '\0';
		if (until != NULL && strstr(reply, until) != NULL)
			return true;
	}
	return false;
}

/* Sends `request` as it is on a connection of its own and reads until the server closes it. */
static const char *
ask_raw(const char *address, const char *request)
{
	int fd = dial(address);

	assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
	assert_true(receive(fd, NULL));
	close(fd);
	return reply;
}

static const char *
ask(const char *method_and_path, const char *headers)
{
	static char request[8192];

	snprintf(request, sizeof(request),
	    "%s HTTP/1.1\r\nHost: localhost:8081\r\nConnection: close\r\n%s\r\n", method_and_path,
	    headers);
	return ask_raw("127.0.0.1", request);
}

static int
status(void)
{
	int code = 0;

	return sscanf(reply, "HTTP/1.%*d %d", &code) == 1 ? code : -1;
}

static const char *
body(void)
{
	const char *end = strstr(reply, "\r\n\r\n");

	assert_non_null(end);
	return end + 4;
}

static void
get_answers_with_the_routes_page(void **state)
{
	struct http_config c = config();

	(void)state;
	start(&c);
	ask("GET /metrics", "");
	assert_int_equal(status(), 200);
	assert_string_equal(body(), "hello");
	assert_non_null(strstr(reply, "Content-Type: text/plain; charset=utf-8\r\n"));
	assert_non_null(strstr(reply, "Content-Length: 5\r\n"));
	assert_non_null(strstr(reply, "X-Content-Type-Options: nosniff\r\n"));
	assert_null(strstr(reply, "Content-Security-Policy"));
	ask("GET /readiness", "");
	assert_int_equal(status(), 503);
	assert_string_equal(body(), "not synced\n");
}

static void
head_has_the_headers_of_get_and_no_body(void **state)
{
	struct http_config c = config();

	(void)state;
	start(&c);
	ask("HEAD /metrics", "");
	assert_int_equal(status(), 200);
	assert_non_null(strstr(reply, "Content-Length: 5\r\n"));
	assert_string_equal(body(), "");
	ask("HEAD /stream", "");
	assert_int_equal(status(), 200);
	assert_string_equal(body(), "");
	assert_int_equal(streams_freed, 1);
}

static void
routes_are_exact_or_prefixes_that_end_in_a_slash(void **state)
{
	static const struct {
		const char *path;
		int status;
	} cases[] = { { "/", 200 }, { "/nothing", 404 }, { "/metrics/", 404 }, { "/metricsx", 404 },
		{ "/healthcheck/a", 200 }, { "/healthcheck/", 200 }, { "/healthcheck", 404 },
		{ "//", 404 }, { "/%6detrics", 200 } };
	struct http_config c = config();
	char line[64];

	(void)state;
	start(&c);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(line, sizeof(line), "GET %s", cases[i].path);
		ask(line, "");
		assert_int_equal(status(), cases[i].status);
	}
}

static void
handlers_see_decoded_path_query_and_accept(void **state)
{
	static const struct {
		const char *request, *body;
	} cases[] = {
		{ "GET /echo?name=a.b", "/echo|a.b|text/plain" },
		{ "GET /echo?other=1&name=a%20b%3d%26", "/echo|a b=&|text/plain" },
		{ "GET /echo?name=a+b", "/echo|a b|text/plain" },
		{ "GET /echo?name=", "/echo||text/plain" },
		{ "GET /echo?name=first&name=second", "/echo|first|text/plain" },
		{ "GET /echo?name", "/echo|(none)|text/plain" },
		{ "GET /echo", "/echo|(none)|text/plain" },
		{ "GET /echo?name=a%00b",
		    "/echo|(none)|text/plain" }, /* never cut into another name */
		{ "GET /echo?name=%zz%", "/echo|%zz%|text/plain" },
		{ "GET /healthcheck/a%2Fb%3Cscript%3E",
		    "/healthcheck/a/b<script>|(none)|text/plain" },
	};
	struct http_config c = config();

	(void)state;
	start(&c);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ask(cases[i].request, "Accept: text/plain\r\n");
		assert_string_equal(body(), cases[i].body);
	}
	assert_non_null(strstr(reply, "Content-Type: text/html; charset=utf-8\r\n"));
	assert_non_null(strstr(reply, "Content-Security-Policy: default-src 'none'\r\n"));
}

static void
other_methods_get_405_and_their_body_is_not_read(void **state)
{
	static const char *const methods[] = { "POST", "PUT", "DELETE", "OPTIONS", "PATCH",
		"BREW" };
	struct http_config c = config();
	char line[64];

	(void)state;
	start(&c);
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		snprintf(line, sizeof(line), "%s /metrics", methods[i]);
		ask(line, "");
		assert_int_equal(status(), 405);
		assert_non_null(strstr(reply, "Allow: GET, HEAD\r\n"));
	}
	/* a gigabyte is announced; the answer comes at once and the connection ends */
	ask_raw(
	    "127.0.0.1", "POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n");
	assert_int_equal(status(), 405);
}

/* Were the body skipped or misread, a second answer would appear: request smuggling. */
static void
a_get_with_a_body_is_refused_and_the_connection_ends(void **state)
{
	static const char *const heads[] = { "Content-Length: 38\r\n",
		"Transfer-Encoding: chunked\r\n" };
	struct http_config c = config();
	char request[512];

	(void)state;
	start(&c);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		snprintf(request, sizeof(request),
		    "GET /metrics HTTP/1.1\r\nHost: a\r\n%s\r\nGET /metrics HTTP/1.1\r\nHost: "
		    "inner\r\n\r\n",
		    heads[i]);
		ask_raw("127.0.0.1", request);
		assert_int_equal(status(), 400);
		assert_null(strstr(reply + 1, "HTTP/1.1"));
	}
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

static void
a_request_head_that_is_too_large_is_refused(void **state)
{
	struct http_config c = config();
	static char request[70000];

	(void)state;
	start(&c);
	memset(request, 'a', sizeof(request) - 1);
	memcpy(request, "GET /", 5);
	ask_raw("127.0.0.1", request);
	assert_in_range(status(), 400, 499);
	memcpy(request, "GET /metrics HTTP/1.1\r\nX: ", 26);
	ask_raw("127.0.0.1", request);
	assert_in_range(status(), 400, 499);
	ask("GET /metrics", "");
	assert_int_equal(status(), 200);
}

static void
a_stream_is_written_as_it_is_read(void **state)
{
	struct http_config c = config();

	(void)state;
	start(&c);
	ask_raw("127.0.0.1", "GET /stream HTTP/1.0\r\n\r\n");
	const char *p = body();
	assert_int_equal(strlen(p), STREAMED);
	for (size_t i = 0; i < STREAMED; i++)
		assert_int_equal(p[i], '0' + (int)(i % 10));
	assert_int_equal(streams_freed, 1);
	ask("GET /stream", "");
	assert_non_null(strstr(reply, "Transfer-Encoding: chunked\r\n"));
	assert_non_null(strstr(reply, "\r\n0\r\n"));
	assert_int_equal(streams_freed, 2);
}

/* A reader must be able to tell a page that ended
 * from one that broke: the last chunk is missing. */
static void
a_broken_stream_is_cut_visibly(void **state)
{
	struct http_config c = config();

	(void)state;
	start(&c);
	ask("GET /broken", "");
	assert_non_null(strstr(reply, "begun"));
	assert_null(strstr(reply, "\r\n0\r\n"));
	assert_int_equal(streams_freed, 1);
}

static void
a_client_that_leaves_during_a_stream_frees_it(void **state)
{
	struct http_config c = config();

	(void)state;
	start(&c);
	int fd = dial("127.0.0.1");
	assert_true(send(fd, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n", 34, 0) == 34);
	assert_true(receive(fd, "0123456789"));
	close(fd);
	for (int64_t end = now_ms() + 5000; streams_freed == 0 && now_ms() < end;)
		turn(-1, 20);
	assert_int_equal(streams_freed, 1);
}

static void
wildcard_addresses_listen_on_both_families(void **state)
{
	static const char *const wildcards[] = { "0.0.0.0", "::", "[::]" };

	(void)state;
	for (size_t i = 0; i < sizeof(wildcards) / sizeof(wildcards[0]); i++) {
		struct http_config c = config();

		c.address = wildcards[i];
		start(&c);
		ask_raw("127.0.0.1", "GET /metrics HTTP/1.0\r\n\r\n");
		assert_int_equal(status(), 200);
		ask_raw("::1", "GET /metrics HTTP/1.0\r\n\r\n");
		assert_int_equal(status(), 200);
		teardown(NULL);
	}
}

/* An address of this machine that is not loopback, so that a connection to it comes from it; false
 * without a network. */
static bool
outer_address(char *text)
{
	struct ifaddrs *list = NULL;
	struct server server;
	bool found = false;

	if (getifaddrs(&list) != 0)
		return false;
	for (struct ifaddrs *i = list; i != NULL && !found; i = i->ifa_next) {
		if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET ||
		    server_from_sockaddr(i->ifa_addr, &server) < 0 || server.addr.bytes[0] == 127)
			continue;
		addr_format(&server.addr, text);
		found = true;
	}
	freeifaddrs(list);
	return found;
}

static void
local_pages_are_refused_to_other_hosts(void **state)
{
	struct http_config c = config();
	char outer[ADDR_TEXT_MAX];

	(void)state;
	if (!outer_address(outer))
		skip();
	c.address = "0.0.0.0";
	start(&c);
	ask_raw(outer, "GET /cache HTTP/1.0\r\n\r\n");
	assert_int_equal(status(), 403);
	ask_raw(outer, "GET /metrics HTTP/1.0\r\n\r\n");
	assert_int_equal(status(), 200);
	ask_raw("127.0.0.1", "GET /cache HTTP/1.0\r\n\r\n"); /* v4-mapped at our end */
	assert_int_equal(status(), 200);
	ask_raw("::1", "GET /cache HTTP/1.0\r\n\r\n");
	assert_int_equal(status(), 200);
	teardown(NULL);
	c.debug_remote = true;
	start(&c);
	ask_raw(outer, "GET /cache HTTP/1.0\r\n\r\n");
	assert_int_equal(status(), 200);
}

static void
local_pages_are_refused_to_names_that_were_rebound(void **state)
{
	static const struct {
		const char *host;
		int status;
	} cases[] = { { "localhost", 200 }, { "LOCALHOST:8081", 200 }, { "127.0.0.1:8081", 200 },
		{ "[::1]:8081", 200 }, { "10.1.2.3", 200 }, { "evil.example", 403 },
		{ "localhost.evil.example", 403 }, { "127.0.0.1.evil.example:80", 403 },
		{ "", 403 } };
	struct http_config c = config();
	char request[256];

	(void)state;
	start(&c);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(request, sizeof(request),
		    "GET /cache HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", cases[i].host);
		ask_raw("127.0.0.1", request);
		assert_int_equal(status(), cases[i].status);
	}
}

/* Idle connections cannot keep a new client, such as the kubelet's probe, out. */
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
		turn(-1, 20);
		ask("GET /metrics", "");
		assert_int_equal(status(), 200);
	}
	assert_true(http_dropped(http) >= CLIENTS - LIMIT);
	assert_int_equal(recv(fds[0], &byte, 1, MSG_DONTWAIT), 0); /* the first to come is gone */
	ssize_t n = recv(fds[CLIENTS - 1], &byte, 1, MSG_DONTWAIT);
	assert_int_equal(n, -1);
	assert_int_equal(errno, EAGAIN); /* the last is still welcome */
	for (size_t i = 0; i < CLIENTS; i++)
		close(fds[i]);
}

/* While the server has no time at all: a connection that finds no room would be let in seconds
 * later, or never. */
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
		/* On loopback it is there at once, or was turned away. */
		struct pollfd pollfd = { .fd = fds[i], .events = POLLOUT };
		assert_int_equal(poll(&pollfd, 1, 500), 1);
		assert_int_equal(send(fds[i], get, strlen(get), 0), strlen(get));
	}
	assert_true(receive(fds[BURST - 1], NULL));
	assert_int_equal(status(), 200);
	for (size_t i = 0; i < BURST; i++)
		close(fds[i]);
}

/* What an answered connection holds in memory is what 32 may hold. */
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
	/* Those that stay are served again, and one that leaves makes room for another. */
	assert_int_equal(send(fds[0], get, strlen(get), 0), strlen(get));
	assert_true(receive(fds[0], "hello"));
	close(fds[1]);
	turn(-1, 50);
	fds[1] = dial("127.0.0.1");
	assert_int_equal(send(fds[1], get, strlen(get), 0), strlen(get));
	assert_true(receive(fds[1], "hello"));
	assert_null(strstr(reply, "Connection: close"));
	for (size_t i = 0; i < CLIENTS; i++)
		close(fds[i]);
	assert_int_equal(http_dropped(http), 0);
}

/* libmicrohttpd's own timer starts again at every byte. */
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
			turn(-1, 5);
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
	assert_int_equal(http_timeout_ms(http), -1);
	ask("GET /metrics", "");
	for (int i = 0; i < 3; i++)
		turn(-1, 0);
	int fd = dial("127.0.0.1");
	turn(-1, 20);
	turn(-1, 20);
	assert_in_range(
	    http_timeout_ms(http), 1, 10000); /* the deadline of the request that may come */
	close(fd);
}

/* What a start that fails says, on stderr. */
static int
start_failing(const struct http_config *c, char *said, size_t size)
{
	int fds[2], saved = dup(STDERR_FILENO);

	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	log_init("t", LOG_FORMAT_TEXT, 0);
	int rc = http_start(&http, c);
	dup2(saved, STDERR_FILENO);
	log_init("t", LOG_FORMAT_TEXT, 0);
	close(saved);
	close(fds[1]);
	ssize_t n = read(fds[0], said, size - 1);
	said[n > 0 ? n : 0] = '\0';
	close(fds[0]);
	return rc;
}

static void
a_port_in_use_is_reported_with_its_holder(void **state)
{
	struct http_config c = config();
	char said[512], expected[256];

	(void)state;
	start(&c);
	struct http *first = http;
	c.port = http_port(first);
	assert_int_equal(start_failing(&c, said, sizeof(said)), -EADDRINUSE);
	snprintf(expected, sizeof(expected),
	    "t: error: http: cannot listen on tcp 127.0.0.1:%u: port %u is in use by %s (pid %d)\n",
	    c.port, c.port, "test_http", (int)getpid());
	assert_non_null(strstr(said, expected));
	http = first;
}

static void
an_address_that_cannot_be_is_reported(void **state)
{
	struct http_config c = config();
	char said[512];

	(void)state;
	c.address = "localhost";
	assert_int_equal(start_failing(&c, said, sizeof(said)), -EINVAL);
	assert_non_null(strstr(said, "http: cannot listen on \"localhost\": not an address\n"));
	c.address = "192.0.2.77";
	c.port = 8081;
	assert_int_equal(start_failing(&c, said, sizeof(said)), -EADDRNOTAVAIL);
	assert_non_null(strstr(said, "http: cannot listen on tcp 192.0.2.77:8081: Cannot assign "
				     "requested address (no interface here has this address)\n"));
	http = NULL;
}

static void
the_holder_of_a_udp_port_is_found(void **state)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sin);
	char holder[PORT_HOLDER_MAX], expected[64];

	(void)state;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	snprintf(expected, sizeof(expected), "test_http (pid %d)", (int)getpid());
	assert_string_equal(port_holder(SOCK_DGRAM, ntohs(sin.sin_port), holder), expected);
	close(fd);
	assert_null(port_holder(SOCK_DGRAM, ntohs(sin.sin_port), holder));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(get_answers_with_the_routes_page, teardown),
		cmocka_unit_test_teardown(head_has_the_headers_of_get_and_no_body, teardown),
		cmocka_unit_test_teardown(
		    routes_are_exact_or_prefixes_that_end_in_a_slash, teardown),
		cmocka_unit_test_teardown(handlers_see_decoded_path_query_and_accept, teardown),
		cmocka_unit_test_teardown(
		    other_methods_get_405_and_their_body_is_not_read, teardown),
		cmocka_unit_test_teardown(
		    a_get_with_a_body_is_refused_and_the_connection_ends, teardown),
		cmocka_unit_test_teardown(
		    connections_are_kept_and_requests_may_be_pipelined, teardown),
		cmocka_unit_test_teardown(a_request_head_that_is_too_large_is_refused, teardown),
		cmocka_unit_test_teardown(a_stream_is_written_as_it_is_read, teardown),
		cmocka_unit_test_teardown(a_broken_stream_is_cut_visibly, teardown),
		cmocka_unit_test_teardown(a_client_that_leaves_during_a_stream_frees_it, teardown),
		cmocka_unit_test_teardown(wildcard_addresses_listen_on_both_families, teardown),
		cmocka_unit_test_teardown(local_pages_are_refused_to_other_hosts, teardown),
		cmocka_unit_test_teardown(
		    local_pages_are_refused_to_names_that_were_rebound, teardown),
		cmocka_unit_test_teardown(
		    beyond_the_limit_the_longest_waiting_connection_makes_room, teardown),
		cmocka_unit_test_teardown(a_burst_of_connections_is_let_in, teardown),
		cmocka_unit_test_teardown(
		    beyond_32_kept_connections_each_gets_its_answer_and_is_closed, teardown),
		cmocka_unit_test_teardown(a_request_that_trickles_is_dropped_in_time, teardown),
		cmocka_unit_test_teardown(an_idle_connection_is_closed, teardown),
		cmocka_unit_test_teardown(nothing_to_do_means_no_timeout, teardown),
		cmocka_unit_test_teardown(a_port_in_use_is_reported_with_its_holder, teardown),
		cmocka_unit_test_teardown(an_address_that_cannot_be_is_reported, teardown),
		cmocka_unit_test(the_holder_of_a_udp_port_is_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
