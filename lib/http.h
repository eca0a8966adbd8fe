/*
 * The HTTP server of all programs: libmicrohttpd, driven from the caller's own poll loop through
 * one epoll descriptor, without threads.
 *
 * It serves GET and HEAD, and PUT and DELETE for routes that change something. It answers 404 and
 * 405 itself. The number of connections, their idle time and the size of requests are limited. At
 * most 32 connections stay open after a response. Further clients get `Connection: close`. No call
 * blocks, so HTTP clients cannot delay DNS.
 */
#ifndef LIB_HTTP_H
#define LIB_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct http;

enum http_method { HTTP_GET /* or HEAD */, HTTP_PUT, HTTP_DELETE };

struct http_request {
	enum http_method method;
	const char *path;   /* decoded, starts with '/' */
	bool local;         /* the client is in the pod itself (lib/http_peer.h), or debug_remote is
			     * set; it may see routes that list the cluster */
	const char *accept; /* or NULL */
	void *internal;     /* for http_query */
};

struct http_response {
	int status;               /* HTTP status; 200 until a handler sets another status */
	const char *content_type; /* static; default text/plain; charset=utf-8 */
	char *body;               /* the server takes it and frees it with free() */
	size_t len;
	const char *csp; /* Content-Security-Policy, or NULL */
	/* Used instead of `body`. It is called until it returns 0 (end) or -1 (abort). stream_free
	 * frees `stream_arg`. */
	ssize_t (*stream)(void *arg, char *buf, size_t max);
	void (*stream_free)(void *arg);
	void *stream_arg;
};

typedef void (*http_handler)(
    const struct http_request *request, struct http_response *response, void *arg);

struct http_route {
	const char *path; /* exact, or a prefix when it ends in '/' and is longer than "/" */
	http_handler handler;
	bool local_only; /* requests that are not local get 403 */
};

struct http_config {
	/*
	 * "0.0.0.0" and "::" listen on both families. IPv6 addresses may be in brackets. If the pod
	 * has its own address (lib/own_loopback.h), the pod next to it may listen on the same port.
	 * The server then also listens at the pod's own address, which no other pod uses. It also
	 * listens at 127.0.0.1, for `kubectl port-forward` and users on the node.
	 */
	const char *address;
	uint16_t port;                   /* 0: the kernel chooses, see http_port */
	const struct http_route *routes; /* ends with a NULL path; must outlive the server */
	/*
	 * Routes for PUT and DELETE without a body, which web pages of other sites cannot send.
	 * NULL if there are none. Only clients in the pod itself may use them, even with
	 * debug_remote.
	 */
	const struct http_route *changes;
	void *arg; /* passed to handlers */
	bool debug_remote;
	/* 0 means 256. One more connection closes the connection that has been idle longest. */
	unsigned max_connections;
	int head_timeout_ms; /* until the first request has arrived completely; 0: 10 s */
	int idle_timeout_ms; /* between requests, and for a client that stops reading; 0: 30 s */
};

/* Binds and listens. Returns 0, or -errno after one log line that names the address, the port and,
 * if possible, the process that uses the port. */
int http_start(struct http **http, const struct http_config *config);

/* http_fd() returns the descriptor to poll for input. http_due_ms() returns the time at which
 * http_run must be called even without input, or CLOCK_NEVER. */
int http_fd(const struct http *http);
int64_t http_due_ms(const struct http *http);

/* Handles everything that is ready; never blocks. */
void http_run(struct http *http);

/* Returns the port in use. */
uint16_t http_port(const struct http *http);

/* Returns the number of connections that were closed since startup because of the limits on number or time. */
uint64_t http_dropped(const struct http *http);

/* Returns the decoded value of the query parameter `name`, or NULL if it is absent or contains a
 * NUL. The value is valid until the handler returns. */
const char *http_query(const struct http_request *request, const char *name);

/* Sets a formatted text body and status. */
void http_text(struct http_response *response, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Stops listening and closes all connections. http_stop(NULL) is allowed. */
void http_stop(struct http *http);

#endif
