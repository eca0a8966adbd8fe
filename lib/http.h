/*
 * The programs' HTTP server, on libmicrohttpd driven from the caller's own poll loop (one epoll
 * descriptor, no thread). It listens from the start, serves GET and HEAD, and PUT and DELETE for
 * routes that change something, answers 404 and 405 itself, and bounds connections, their idle time
 * and the size of requests. At most 32 connections are kept open after an answer; a client beyond
 * them gets its answer with `Connection: close`. Nothing here waits, so nothing here can delay DNS.
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
	bool local;         /* from the pod itself (lib/http_peer.h), or debug_remote is set: what
			     * lists the cluster may be shown */
	const char *accept; /* or NULL */
	void *internal;     /* for http_query */
};

struct http_response {
	int status;               /* 200 until a handler sets another */
	const char *content_type; /* static; default text/plain; charset=utf-8 */
	char *body;               /* taken, freed with free() */
	size_t len;
	const char *csp; /* Content-Security-Policy, or NULL */
	/* Instead of body: called until it returns 0 (end) or -1 (abort); `arg` is freed with
	 * stream_free. */
	ssize_t (*stream)(void *arg, char *buf, size_t max);
	void (*stream_free)(void *arg);
	void *stream_arg;
};

typedef void (*http_handler)(
    const struct http_request *request, struct http_response *response, void *arg);

struct http_route {
	const char *path; /* exact, or a prefix when it ends in '/' and is longer than "/" */
	http_handler handler;
	bool local_only; /* 403 to requests that are not local */
};

struct http_config {
	/*
	 * "0.0.0.0" and "::" listen on both families; IPv6 with or without brackets. In a pod with
	 * an address of its own (lib/own_loopback.h) the port is shared with the pod beside it. It
	 * is also served at the pod's own address, where no other pod answers, and at 127.0.0.1, where
	 * `kubectl port-forward` and people on the node ask.
	 */
	const char *address;
	uint16_t port;                   /* 0 picks a free one, see http_port */
	const struct http_route *routes; /* ends with a NULL path; must outlive the server */
	/*
	 * Routes for PUT and DELETE without a body, which no page of another site can send; NULL:
	 * none. Only for clients in the pod itself, whatever debug_remote says.
	 */
	const struct http_route *changes;
	void *arg; /* passed to handlers */
	bool debug_remote;
	/* 0: 256. A further one closes the connection that has waited longest for a request. */
	unsigned max_connections;
	int head_timeout_ms; /* for a connection's first request to arrive whole; 0: 10 s */
	int idle_timeout_ms; /* between requests, and for a reader that has stopped; 0: 30 s */
};

/* Binds and listens; 0, or -errno after one log line that names address, port and, if it can be
 * found, who holds the port. */
int http_start(struct http **http, const struct http_config *config);

/* The descriptor to poll for input, and the milliseconds until http_run must be called anyway (-1:
 * never). */
int http_fd(const struct http *http);
int http_timeout_ms(const struct http *http);

/* Does what is ready, never waits. */
void http_run(struct http *http);

/* The port in use. */
uint16_t http_port(const struct http *http);

/* Connections closed to keep within the limit on their number or time, since the start. */
uint64_t http_dropped(const struct http *http);

/* The decoded value of query parameter `name`, or NULL if it is absent or holds a NUL; valid during
 * the handler. */
const char *http_query(const struct http_request *request, const char *name);

/* Sets a formatted text body and status. */
void http_text(struct http_response *response, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Stops listening and closes every connection; http_stop(NULL) is fine. */
void http_stop(struct http *http);

#endif
