/*
 * A GET of one page from another container of the pod.
 *
 * Why not a library: libcurl brings 20 shared objects and 4.9 MB of resident memory to a program
 * that otherwise needs 5 MB and may use 8. The part that is needed is small, and strict: HTTP/1.0,
 * so that there is no chunking and no second response; a literal address, since DNS is what is
 * being checked; a status line, headers, and a body of at most `max` bytes that ends at
 * Content-Length or with the connection. No redirect, no cookie, no TLS. Anything else is an error
 * with a reason.
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
	char path[URL_PATH_MAX]; /* without a final '/', so that "/metrics" can be put behind it */
};

/* Parses one; 0, or -EINVAL with a static reason in `why`. */
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

	/* The outcome, valid until the next fetch_start: status 0 means `error`. The body is
	 * NUL-terminated. */
	int status;
	char error[FETCH_ERROR_MAX];
	const char *body;
	size_t body_len;
};

void fetch_init(struct fetch *fetch);

/* Starts to get `url` + `target` ("/metrics", "/explain?name=..."); true if it ended at once. */
bool fetch_start(struct fetch *fetch, const struct url *url, const char *target, size_t max_body);

/* Goes on after poll() reported `revents` (0 for none); true when it has ended. */
bool fetch_run(struct fetch *fetch, short revents);

/* Frees the body as soon as it has been read: pages are large beside the rest of the program. */
void fetch_close(struct fetch *fetch);

#endif
