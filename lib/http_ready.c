#include "lib/http_ready.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "lib/addr.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/own_loopback.h"

enum { REPLY_MAX = 4096, WAIT_MS = 1000 };

/* Limits the time of the next call to the time left until the deadline. Returns 0, or -1 with errno. */
static int
limit(int fd, int option, int64_t deadline_ms)
{
	int64_t left_ms = deadline_ms - clock_mono_ms();
	const struct timeval wait = { .tv_sec = left_ms / 1000,
		.tv_usec = (suseconds_t)(left_ms % 1000 * 1000) };

	if (left_ms > 0)
		return setsockopt(fd, SOL_SOCKET, option, &wait, sizeof wait);
	errno = ETIMEDOUT;
	return -1;
}

/* Returns the error of a call on a socket that has a timeout. */
static int
failure(void)
{
	return errno == EAGAIN || errno == EINPROGRESS ? -ETIMEDOUT : -errno;
}

static int
ask(int fd, const struct server *server, char *reply)
{
	static const char request[] = "GET /readiness HTTP/1.0\r\n\r\n";
	int64_t deadline_ms = clock_mono_ms() + WAIT_MS;
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(server, &ss);
	size_t have = 0;
	ssize_t got = 1;

	if (fd < 0 || limit(fd, SO_SNDTIMEO, deadline_ms) < 0 ||
	    connect(fd, (struct sockaddr *)&ss, len) < 0 ||
	    send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0)
		return failure();
	while (got > 0 && have < REPLY_MAX - 1) {
		if (limit(fd, SO_RCVTIMEO, deadline_ms) < 0)
			return -errno;
		got = recv(fd, reply + have, REPLY_MAX - 1 - have, 0);
		have += got > 0 ? (size_t)got : 0;
	}
	reply[have] = '\0';
	return got < 0 ? failure() : 0;
}

int
http_ready_ask(uint16_t port)
{
	char reply[REPLY_MAX], where[SERVER_TEXT_MAX];
	struct server server = { .port = port };
	unsigned status = 0;

	own_loopback(&server.addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc = ask(fd, &server, reply);
	if (fd >= 0)
		close(fd);
	if (rc < 0) {
		errno = -rc;
		log_warn("--ready: %s", server_format(&server, where));
		return rc;
	}
	if (sscanf(reply, "HTTP/1.%*u %u", &status) == 1 && status == 200)
		return 0;
	const char *body = strstr(reply, "\r\n\r\n");
	fprintf(stderr, "%s", body != NULL ? body + 4 : "no HTTP\n");
	return -EAGAIN;
}
