/* See http_client.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/addr.h"
#include "tests/unit/http_client.h"

#include "lib/clock.h"

struct http *http;
char reply[1 << 20];
static size_t reply_len;

void
start(const struct http_config *c)
{
	assert_int_equal(http_start(&http, c), 0);
}

int
stop(void **state)
{
	(void)state;
	http_stop(http);
	http = NULL;
	return 0;
}

int
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

void
iterate(int fd, int at_most_ms)
{
	struct pollfd fds[] = { { .fd = http_fd(http), .events = POLLIN },
		{ .fd = fd, .events = POLLIN } };
	int timeout = clock_wait_ms(http_due_ms(http), clock_mono_ms());

	poll(fds, 2, timeout < 0 || timeout > at_most_ms ? at_most_ms : timeout);
	http_run(http);
}

int64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

bool
receive(int fd, const char *until)
{
	int64_t deadline = now_ms() + 60000; /* seconds are too few on a busy machine */

	reply_len = 0;
	reply[0] = '\0';
	while (now_ms() < deadline) {
		iterate(fd, 100);
		ssize_t n = recv(fd, reply + reply_len, sizeof reply - 1 - reply_len, MSG_DONTWAIT);
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

const char *
ask_raw(const char *address, const char *request)
{
	int fd = dial(address);

	assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
	assert_true(receive(fd, NULL));
	close(fd);
	return reply;
}

const char *
ask(const char *method_and_path, const char *headers)
{
	static char request[8192];

	snprintf(request, sizeof request,
	    "%s HTTP/1.1\r\nHost: localhost:8081\r\nConnection: close\r\n%s\r\n", method_and_path,
	    headers);
	return ask_raw("127.0.0.1", request);
}

int
status(void)
{
	int code = 0;

	return sscanf(reply, "HTTP/1.%*d %d", &code) == 1 ? code : -1;
}

const char *
body(void)
{
	const char *end = strstr(reply, "\r\n\r\n");

	assert_non_null(end);
	return end + 4;
}
