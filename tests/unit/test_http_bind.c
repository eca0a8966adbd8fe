/* The addresses that the HTTP server listens on, and the clients that may read local pages. Also
 * the error if the server cannot listen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/addr.h"
#include "lib/log.h"
#include "tests/unit/http_client.h"

static char page_text[] = "hello";

static void
serve_plain(const struct http_request *request, struct http_response *response, void *arg)
{
	(void)request;
	http_text(response, 200, "%s", (const char *)arg);
}

static const struct http_route routes[] = {
	{ "/metrics", serve_plain, false },
	{ "/cache", serve_plain, true },
	{ .path = NULL },
};

static struct http_config
config(void)
{
	return (struct http_config){ .address = "127.0.0.1", .routes = routes, .arg = page_text };
}

static void
wildcard_addresses_listen_on_both_families(void **state)
{
	static const char *const wildcards[] = { "0.0.0.0", "::", "[::]" };

	(void)state;
	for (size_t i = 0; i < sizeof wildcards / sizeof wildcards[0]; i++) {
		struct http_config c = config();

		c.address = wildcards[i];
		start(&c);
		ask_raw("127.0.0.1", "GET /metrics HTTP/1.0\r\n\r\n");
		assert_int_equal(status(), 200);
		ask_raw("::1", "GET /metrics HTTP/1.0\r\n\r\n");
		assert_int_equal(status(), 200);
		stop(NULL);
	}
}

/* Finds an address of this machine other than loopback. A connection to this address also comes
 * from it. Returns false without a network. */
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
	/* On the server's side, the address of this connection is IPv4-mapped. */
	ask_raw("127.0.0.1", "GET /cache HTTP/1.0\r\n\r\n");
	assert_int_equal(status(), 200);
	ask_raw("::1", "GET /cache HTTP/1.0\r\n\r\n");
	assert_int_equal(status(), 200);
	stop(NULL);
	c.debug_remote = true;
	start(&c);
	ask_raw(outer, "GET /cache HTTP/1.0\r\n\r\n");
	assert_int_equal(status(), 200);
}

/* Like ask_raw(), but the client has this local address. */
static void
ask_from(const char *source, const char *request)
{
	struct server from = { 0 }, to = { .port = http_port(http) };
	struct sockaddr_storage ss;

	assert_int_equal(addr_parse(source, &from.addr), 0);
	assert_int_equal(addr_parse("127.0.0.1", &to.addr), 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = server_sockaddr(&from, &ss);
	assert_int_equal(bind(fd, (const struct sockaddr *)&ss, len), 0);
	len = server_sockaddr(&to, &ss);
	assert_int_equal(connect(fd, (const struct sockaddr *)&ss, len), 0);
	assert_int_equal(write(fd, request, strlen(request)), (ssize_t)strlen(request));
	assert_true(receive(fd, NULL));
	close(fd);
}

/* A service mesh's proxy in the pod forwards the requests of all clients from 127.0.0.6. */
static void
local_pages_are_refused_to_other_loopback_addresses(void **state)
{
	struct http_config c = config();

	(void)state;
	start(&c);
	ask_from("127.0.0.1", "GET /cache HTTP/1.0\r\n\r\n");
	assert_int_equal(status(), 200);
	ask_from("127.0.0.6", "GET /cache HTTP/1.0\r\n\r\n");
	assert_int_equal(status(), 403);
	ask_from("127.0.0.6", "GET /metrics HTTP/1.0\r\n\r\n");
	assert_int_equal(status(), 200);
}

static void
local_pages_are_refused_to_what_a_proxy_hands_on(void **state)
{
	static const char *const headers[] = { "X-Forwarded-For: 127.0.0.1",
		"x-forwarded-proto: http", "Forwarded: for=127.0.0.1", "Via: 1.1 envoy",
		"X-Real-IP: 127.0.0.1", "x-envoy-attempt-count: 1" };
	struct http_config c = config();
	char request[256];

	(void)state;
	start(&c);
	for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
		snprintf(request, sizeof request, "GET /cache HTTP/1.0\r\n%s\r\n\r\n", headers[i]);
		ask_raw("127.0.0.1", request);
		assert_int_equal(status(), 403);
	}
	ask_raw("127.0.0.1", "GET /cache HTTP/1.0\r\nX-Request-Start: 1\r\n\r\n");
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
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		snprintf(request, sizeof request,
		    "GET /cache HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", cases[i].host);
		ask_raw("127.0.0.1", request);
		assert_int_equal(status(), cases[i].status);
	}
}

/* The error on stderr if the server cannot start. */
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
	char said[512], expected[256], name[16];

	(void)state;
	assert_int_equal(prctl(PR_GET_NAME, name), 0);
	start(&c);
	struct http *first = http;
	c.port = http_port(first);
	assert_int_equal(start_failing(&c, said, sizeof said), -EADDRINUSE);
	snprintf(expected, sizeof expected,
	    "t: error: http: cannot listen on tcp 127.0.0.1:%u: port %u is in use by %s (pid %d): "
	    "stop it, or use another port\n",
	    c.port, c.port, name, (int)getpid());
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
	assert_int_equal(start_failing(&c, said, sizeof said), -EINVAL);
	assert_non_null(strstr(said, "http: cannot listen on \"localhost\": not an address\n"));
	c.address = "192.0.2.77";
	c.port = 8081;
	assert_int_equal(start_failing(&c, said, sizeof said), -EADDRNOTAVAIL);
	assert_non_null(strstr(said, "http: cannot listen on tcp 192.0.2.77:8081: Cannot assign "
				     "requested address (no interface here has this address)\n"));
	http = NULL;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(wildcard_addresses_listen_on_both_families, stop),
		cmocka_unit_test_teardown(local_pages_are_refused_to_other_hosts, stop),
		cmocka_unit_test_teardown(
		    local_pages_are_refused_to_other_loopback_addresses, stop),
		cmocka_unit_test_teardown(local_pages_are_refused_to_what_a_proxy_hands_on, stop),
		cmocka_unit_test_teardown(local_pages_are_refused_to_names_that_were_rebound, stop),
		cmocka_unit_test_teardown(a_port_in_use_is_reported_with_its_holder, stop),
		cmocka_unit_test_teardown(an_address_that_cannot_be_is_reported, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
