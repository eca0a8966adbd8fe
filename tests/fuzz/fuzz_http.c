/*
 * Bytes that an attacker sends to the HTTP server. For any bytes, the server must answer or close
 * the connection, pass only NUL-terminated strings to its handlers, and accept the next client.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
serve(const struct http_request *request, struct http_response *response, void *arg)
{
	const char *name = http_query(request, "name");

	(void)arg;
	if (request->path[0] != '/')
		abort();
	http_text(response, 200, "%s %s %s", request->path, name != NULL ? name : "",
	    request->accept != NULL ? request->accept : "");
}

static void
serve_local(const struct http_request *request, struct http_response *response, void *arg)
{
	/* A request with a foreign Host must not reach a handler that is for loopback only. */
	if (!request->local)
		abort();
	serve(request, response, arg);
}

static const struct http_route routes[] = {
	{ "/explain", serve_local, true },
	{ "/healthcheck/", serve, false },
	{ .path = NULL },
};

static const struct http_route changes[] = {
	{ "/explain", serve_local, true },
	{ .path = NULL },
};

static struct http *
server(void)
{
	static struct http *http;
	const struct http_config config = {
		.address = "127.0.0.1", .routes = routes, .changes = changes
	};

	if (http == NULL && http_start(&http, &config) < 0)
		abort();
	return http;
}

static int
dial(struct http *http)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_port = htons(http_port(http)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), failed;

	/* The fuzzer's alarm may interrupt connect(). The connection attempt continues, and a
	 * second call waits for its end. */
	do
		failed = fd < 0 || connect(fd, (const struct sockaddr *)&sin, sizeof sin) < 0;
	while (failed && errno == EINTR);
	if (failed && errno != EISCONN)
		abort();
	return fd;
}

/* Lets the server do all possible work now, and discards its output except for the first bytes. */
static void
settle(struct http *http, int fd, char *first, size_t max)
{
	char rest[4096];
	struct pollfd pfd = { .fd = http_fd(http), .events = POLLIN };
	size_t len = 0;

	for (int rounds = 0;
	     clock_wait_ms(http_due_ms(http), clock_mono_ms()) == 0 || poll(&pfd, 1, 0) == 1;
	     rounds++) {
		if (rounds > 100000)
			abort(); /* the server loops without progress */
		http_run(http);
		ssize_t n = recv(fd, len < max ? first + len : rest,
		    len < max ? max - len : sizeof rest, MSG_DONTWAIT);
		len += n > 0 && len < max ? (size_t)n : 0;
	}
}

/* Closes the connection without TIME_WAIT, because a long run would otherwise use up the ports. */
static void
hang_up(int fd)
{
	setsockopt(
	    fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 }, sizeof(struct linger));
	close(fd);
}

static void
check_alive(struct http *http)
{
	static const char request[] = "GET /healthcheck/x HTTP/1.0\r\n\r\n";
	char reply[16] = "";
	int fd = dial(http);

	if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		abort();
	settle(http, fd, reply, sizeof reply - 1);
	if (strncmp(reply, "HTTP/1.", 7) != 0 || strncmp(reply + 8, " 200", 4) != 0)
		abort();
	hang_up(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned runs;
	struct http *http = server();
	int fd = dial(http);

	for (size_t sent = 0; sent < size;) {
		ssize_t part = send(fd, data + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (part < 0 && errno != EAGAIN)
			break;
		sent += part > 0 ? (size_t)part : 0;
		http_run(http);
	}
	settle(http, fd, NULL, 0);
	hang_up(fd);
	if (runs++ % 16 == 0)
		check_alive(http);
	return 0;
}
