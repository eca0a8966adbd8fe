/*
 * Fetches one page from another container of the pod with GET, or sends a PUT without a body.
 *
 * libcurl would add 20 shared objects and 4.9 MB of resident memory to a program that needs 5 MB and may use 8. This client is small and
 * strict. The client uses HTTP/1.0, so there is no chunking and no second response. The host is an IP address, because the sidecar checks
 * DNS and must not depend on DNS. The body has at most `max` bytes, and ends at Content-Length or with the connection. The client does not
 * support redirects, cookies or TLS. For any other response, the fetch fails with a reason.
 */
#ifndef SIDECAR_CONTAINERS_FETCH_H
#define SIDECAR_CONTAINERS_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

enum { URL_PATH_MAX = 128, FETCH_HEAD_MAX = 8192, FETCH_TIMEOUT_MS = 2000, FETCH_ERROR_MAX = 96 };

/* http://ip[:port][/path]; "localhost" means 127.0.0.1. */
struct url {
	struct server server;
	char path[URL_PATH_MAX]; /* path without a final '/', so that "/metrics" can be appended */
};

/* Parses a URL. Returns 0, or -EINVAL with a static reason in `why`. */
int url_parse(struct url *url, const char *text, const char **why);

/* The head of a response. */
struct fetch_head {
	int status;
	size_t body; /* offset of the body */
	bool has_length;
	size_t content_length;
};

enum fetch_head_result { HEAD_MORE, HEAD_OK, HEAD_BAD };

/* Reads the status line and headers at the start of `bytes`. */
enum fetch_head_result fetch_head_read(struct fetch_head *head, const char *bytes, size_t len);

struct fetch {
	bool busy;
	int fd;
	short events;
	int64_t deadline_ns;
	size_t max;
	char *request;
	size_t request_len, request_done;
	char *buf;
	size_t len, size;
	bool have_head;
	struct fetch_head head;

	/* The result, valid until the next fetch_start. Status 0 means that the fetch failed with the reason in `error`. The body is
	 * NUL-terminated. */
	int status;
	bool refused; /* the connection was refused, because no process listens at the port */
	char error[FETCH_ERROR_MAX];
	const char *body;
	size_t body_len;
};

void fetch_init(struct fetch *fetch);

/* Starts to fetch `url` with `target` appended ("/metrics", "/explain?name=..."). Returns true if the fetch has already ended. */
bool fetch_start(struct fetch *fetch, const struct url *url, const char *target, size_t max_body);

/* Starts a PUT without a body. The response is treated like a page. */
bool fetch_start_put(
    struct fetch *fetch, const struct url *url, const char *target, size_t max_body);

/* Continues the fetch after poll() reported `revents` (0 if none). Returns true once the fetch has ended. */
bool fetch_run(struct fetch *fetch, short revents);

/* Closes the connection and frees the page. Call this function as soon as the body has been read, because pages are large compared with the
 * rest of the program. */
void fetch_close(struct fetch *fetch);

#endif
