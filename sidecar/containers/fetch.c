#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/xalloc.h"
#include "lib/clock.h"
#include "sidecar/containers/fetch.h"

enum {
	READ_FIRST = 4096,
	READS_MAX = 16 /* maximum per call, so that a fast peer cannot block the loop */
};

int
url_parse(struct url *url, const char *text, const char **why)
{
	static const char scheme[] = "http://";
	char host[80];

	*why =
	    "must begin with http:// (there is no TLS inside a pod), such as http://127.0.0.1:8081";
	if (strncasecmp(text, scheme, sizeof scheme - 1) != 0)
		return -EINVAL;
	const char *p = text + sizeof scheme - 1;
	size_t len = strcspn(p, "/");
	*why = "the host must be an IP address";
	if (len == 0 || len >= sizeof host)
		return -EINVAL;
	memcpy(host, p, len);
	host[len] = '\0';
	if (strncasecmp(host, "localhost", 9) == 0 && (host[9] == ':' || host[9] == '\0')) {
		char literal[80];

		snprintf(literal, sizeof literal, "127.0.0.1%s", host + 9);
		memcpy(host, literal, sizeof host);
	}
	if (server_parse(host, 80, &url->server, why) < 0)
		return -EINVAL;
	p += len;
	len = strlen(p);
	while (len > 0 && p[len - 1] == '/')
		len--;
	*why = "the path has at most 127 printable characters without '?' and '#'";
	if (len >= sizeof url->path)
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		if (p[i] <= ' ' || p[i] > '~' || p[i] == '?' || p[i] == '#')
			return -EINVAL;
	memcpy(url->path, p, len);
	url->path[len] = '\0';
	return 0;
}

/* Reads one header line without its line end. Returns false if the line is malformed. Uses only Content-Length. */
static bool
read_header(struct fetch_head *head, const char *line, size_t len)
{
	static const char length[] = "content-length:", encoding[] = "transfer-encoding:";

	enum { DIGITS_MAX = 15 };

	if (memchr(line, ':', len) == NULL || line[0] == ' ' || line[0] == '\t')
		return false;
	if (len >= sizeof encoding - 1 && strncasecmp(line, encoding, sizeof encoding - 1) == 0)
		return false; /* this header is not allowed in a response to HTTP/1.0 */
	if (len < sizeof length - 1 || strncasecmp(line, length, sizeof length - 1) != 0)
		return true;
	size_t i = sizeof length - 1, digits = 0, value = 0;
	while (i < len && line[i] == ' ')
		i++;
	for (; i < len && isdigit((unsigned char)line[i]); i++, digits++)
		value = value * 10 + (size_t)(line[i] - '0');
	if (digits == 0 || digits > DIGITS_MAX || i != len ||
	    (head->has_length && head->content_length != value))
		return false;
	head->has_length = true;
	head->content_length = value;
	return true;
}

static bool
read_status(struct fetch_head *head, const char *line, size_t len)
{
	if (len < 12 || memcmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') ||
	    line[8] != ' ' || (len > 12 && line[12] != ' '))
		return false;
	for (int i = 9; i < 12; i++) {
		if (!isdigit((unsigned char)line[i]))
			return false;
		head->status = head->status * 10 + (line[i] - '0');
	}
	return head->status >= 200 && head->status < 600;
}

enum fetch_head_result
fetch_head_read(struct fetch_head *head, const char *bytes, size_t len)
{
	size_t at = 0;

	*head = (struct fetch_head){ 0 };
	for (bool first = true;; first = false) {
		const char *line = bytes + at, *nl = memchr(line, '\n', len - at);

		if (nl == NULL)
			return len > FETCH_HEAD_MAX ? HEAD_BAD : HEAD_MORE;
		size_t line_len = (size_t)(nl - line);
		at += line_len + 1;
		if (at > FETCH_HEAD_MAX)
			return HEAD_BAD;
		if (line_len > 0 && line[line_len - 1] == '\r')
			line_len--;
		if (line_len == 0) {
			head->body = at;
			return first ? HEAD_BAD : HEAD_OK;
		}
		if (!(first ? read_status : read_header)(head, line, line_len))
			return HEAD_BAD;
	}
}

void
fetch_init(struct fetch *fetch)
{
	*fetch = (struct fetch){ .fd = -1, .deadline_ns = CLOCK_NEVER };
}

static void
finish(struct fetch *fetch)
{
	if (fetch->fd >= 0)
		close(fetch->fd);
	fetch->fd = -1;
	fetch->events = 0;
	fetch->busy = false;
	fetch->deadline_ns = CLOCK_NEVER;
	free(fetch->request);
	fetch->request = NULL;
}

static bool
end(struct fetch *fetch, const char *error)
{
	finish(fetch);
	fetch->status = 0;
	snprintf(fetch->error, sizeof fetch->error, "%s", error);
	return true;
}

static bool
end_page(struct fetch *fetch)
{
	finish(fetch);
	fetch->status = fetch->head.status;
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): assumes that strerror returns NULL, which it never does */
	fetch->buf[fetch->len] = '\0';
	fetch->body = fetch->buf + fetch->head.body;
	fetch->body_len = fetch->len - fetch->head.body;
	return true;
}

static bool
end_errno(struct fetch *fetch, int error)
{
	fetch->refused = error == ECONNREFUSED;
	return end(fetch, fetch->refused ? "connection refused" : strerror(error));
}

static bool
start(struct fetch *fetch, const char *method, const struct url *url, const char *target,
    size_t max_body)
{
	struct sockaddr_storage ss;
	socklen_t ss_len = server_sockaddr(&url->server, &ss);
	char host[SERVER_TEXT_MAX];

	fetch_close(fetch);
	fetch->max = max_body;
	fetch->request = xasprintf("%s %s%s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n",
	    method, url->path, target, server_format(&url->server, host));
	fetch->request_len = strlen(fetch->request);
	fetch->busy = true;
	fetch->deadline_ns = clock_mono_ns() + FETCH_TIMEOUT_MS * NS_PER_MS;
	fetch->fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fetch->fd < 0)
		return end_errno(fetch, errno);
	fetch->events = POLLOUT;
	if (connect(fetch->fd, (struct sockaddr *)&ss, ss_len) < 0 && errno != EINPROGRESS)
		return end_errno(fetch, errno);
	return false;
}

bool
fetch_start(struct fetch *fetch, const struct url *url, const char *target, size_t max_body)
{
	return start(fetch, "GET", url, target, max_body);
}

bool
fetch_start_put(struct fetch *fetch, const struct url *url, const char *target, size_t max_body)
{
	return start(fetch, "PUT", url, target, max_body);
}

static bool
run_send(struct fetch *fetch)
{
	ssize_t n = send(fetch->fd, fetch->request + fetch->request_done,
	    fetch->request_len - fetch->request_done, MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? false : end_errno(fetch, errno);
	fetch->request_done += (size_t)n;
	if (fetch->request_done == fetch->request_len)
		fetch->events = POLLIN;
	return false;
}

/* Examines the bytes read so far. Called after each read, also at the end of the connection. Returns true once the response is complete or
 * malformed. */
static bool
examine(struct fetch *fetch, bool eof)
{
	if (!fetch->have_head) {
		switch (fetch_head_read(&fetch->head, fetch->buf, fetch->len)) {
		case HEAD_MORE:
			return eof ? end(fetch, "the connection ended early") : false;
		case HEAD_BAD:
			return end(fetch, "not an HTTP response");
		case HEAD_OK:
			fetch->have_head = true;
		}
	}
	size_t body = fetch->len - fetch->head.body;
	if (body > fetch->max ||
	    (fetch->head.has_length && fetch->head.content_length > fetch->max))
		return end(fetch, "the page is too large");
	if (fetch->head.has_length && body >= fetch->head.content_length) {
		fetch->len = fetch->head.body + fetch->head.content_length;
		return end_page(fetch);
	}
	if (!eof)
		return false;
	return fetch->head.has_length ? end(fetch, "the connection ended early") : end_page(fetch);
}

static bool
run_read(struct fetch *fetch)
{
	for (int i = 0; i < READS_MAX; i++) {
		if (fetch->size - fetch->len < 2) {
			fetch->size = fetch->size == 0 ? READ_FIRST : 2 * fetch->size;
			fetch->buf = xreallocarray(fetch->buf, fetch->size, 1);
		}
		ssize_t n =
		    recv(fetch->fd, fetch->buf + fetch->len, fetch->size - fetch->len - 1, 0);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? false : end_errno(fetch, errno);
		fetch->len += (size_t)n;
		if (examine(fetch, n == 0))
			return true;
	}
	return false;
}

bool
fetch_run(struct fetch *fetch, short revents)
{
	if (!fetch->busy)
		return false;
	if (revents != 0 && (fetch->events == POLLOUT ? run_send : run_read)(fetch))
		return true;
	if (clock_mono_ns() >= fetch->deadline_ns)
		return end(fetch, "timeout");
	return false;
}

void
fetch_close(struct fetch *fetch)
{
	if (fetch->fd >= 0)
		close(fetch->fd);
	free(fetch->request);
	free(fetch->buf);
	fetch_init(fetch);
}
