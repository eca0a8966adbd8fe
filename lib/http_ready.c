#include "lib/http_ready.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "lib/addr.h"
#include "lib/log.h"
#include "lib/own_loopback.h"

enum { REPLY_MAX = 4096 };

static int
ask(int fd, const struct server *server, char *reply)
{
	static const char request[] = "GET /readiness HTTP/1.0\r\n\r\n";
	const struct timeval wait = { .tv_sec = 1 };
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(server, &ss);
	size_t have = 0;
	ssize_t got = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
	    connect(fd, (struct sockaddr *)&ss, len) < 0 ||
	    send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
		return -errno;
	while (got > 0 && have < REPLY_MAX - 1) {
		got = recv(fd, reply + have, REPLY_MAX - 1 - have, 0);
		have += got > 0 ? (size_t)got : 0;
	}
	reply[have] = '\0';
	return got < 0 ? -errno : 0;
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
