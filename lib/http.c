#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

#include "lib/addr.h"
#include "lib/clock.h"
#include "lib/http.h"
#include "lib/http_listeners.h"
#include "lib/http_peer.h"
#include "lib/log.h"
#include "lib/own_loopback.h"
#include "lib/port.h"
#include "lib/xalloc.h"

/*
 * Memory that libmicrohttpd allocates per connection, for the head of the request and of the
 * response. Above 32 KiB it uses mmap, and the memory is returned when the connection closes.
 * Smaller blocks come from the heap, where short-lived connections left megabytes of holes between
 * long-lived blocks. Untouched pages cost nothing. An idle connection uses at most one page until
 * its first response. libmicrohttpd then clears all its pages, and thus touches them. That is why
 * few connections are kept open.
 */
enum { REQUEST_BYTES = 36864 };

enum {
	DEFAULT_CONNECTIONS = 256,
	DEFAULT_HEAD_MS = 10000, /* time limit for a request to arrive completely */
	DEFAULT_IDLE_MS = 30000, /* time limit between requests, and for a client that stops
				  * reading */
	RESPONSE_MS = 300000,    /* time limit for the slowest client and the longest page */
	SPARE_CONNECTIONS = 64,  /* accepted beyond the limit until libmicrohttpd has closed evicted
				  * connections */
	KEPT_CONNECTIONS = 32,   /* connections kept open after a response; further connections are
				  * closed */
	BACKLOG = 1024,          /* space for a burst; without space, clients would retry after a
			       * second */
	STREAM_BLOCK = 32768,    /* bytes written to one client per loop iteration */
};

/*
 * libmicrohttpd restarts its timer at every byte, and stops accepting at its connection limit. A
 * client that sends a byte now and then could lock the kubelet out forever. This module therefore
 * has its own deadline for each connection. At its own limit, it closes the connection that has
 * waited longest.
 */
struct connection {
	TAILQ_ENTRY(connection) entry;
	struct MHD_Connection *mhd;
	int64_t since_ms, deadline_ms;
	bool busy;    /* a response is being sent */
	bool kept;    /* counts towards KEPT_CONNECTIONS */
	bool closing; /* the connection is shut down, but libmicrohttpd has not noticed yet */
};

struct http {
	struct MHD_Daemon *daemon;
	int epoll_fd;
	struct http_listeners listeners;
	uint16_t port;
	struct http_config config;
	TAILQ_HEAD(, connection) connections;
	unsigned open, limit; /* `open` does not include connections that are closing */
	unsigned kept;
	int64_t next_deadline_ms; /* no connection has an earlier deadline */
	int64_t head_ms, idle_ms;
	uint64_t dropped;
};

static void
connection_arm(struct http *http, struct connection *c, bool busy, int64_t allowed_ms)
{
	c->busy = busy;
	c->since_ms = clock_mono_ms();
	c->deadline_ms = c->since_ms + allowed_ms;
	if (c->deadline_ms < http->next_deadline_ms)
		http->next_deadline_ms = c->deadline_ms;
}

/* libmicrohttpd cannot close a connection on demand, but it handles an end of input. */
static void
connection_drop(struct http *http, struct connection *c)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

	c->closing = true;
	http->open--;
	http->dropped++;
	shutdown(info->connect_fd, SHUT_RDWR);
}

/* Closes the connection that has waited longest for a request. If no connection is waiting, closes
 * the connection with the oldest response. */
static void
evict_one(struct http *http, const struct connection *newest)
{
	struct connection *victim = NULL, *c = NULL;

	TAILQ_FOREACH(c, &http->connections, entry)
	{
		if (c->closing || c == newest)
			continue;
		if (victim == NULL || c->busy < victim->busy ||
		    (c->busy == victim->busy && c->since_ms < victim->since_ms))
			victim = c;
	}
	if (victim != NULL)
		connection_drop(http, victim);
}

static void
drop_expired(struct http *http)
{
	int64_t now = clock_mono_ms();
	struct connection *c = NULL;

	if (now < http->next_deadline_ms)
		return;
	http->next_deadline_ms = CLOCK_NEVER;
	TAILQ_FOREACH(c, &http->connections, entry)
	{
		if (c->closing)
			continue;
		if (c->deadline_ms <= now)
			connection_drop(http, c);
		else if (c->deadline_ms < http->next_deadline_ms)
			http->next_deadline_ms = c->deadline_ms;
	}
}

static void
on_connection(void *arg, struct MHD_Connection *mhd, void **socket_context,
    enum MHD_ConnectionNotificationCode code)
{
	struct http *http = arg;
	struct connection *c = *socket_context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		c = xcalloc(1, sizeof *c);
		c->mhd = mhd;
		*socket_context = c;
		TAILQ_INSERT_TAIL(&http->connections, c, entry);
		connection_arm(http, c, false, http->head_ms);
		if (++http->open > http->limit)
			evict_one(http, c);
	} else if (c != NULL) {
		TAILQ_REMOVE(&http->connections, c, entry);
		http->open -= !c->closing;
		http->kept -= c->kept;
		free(c);
		*socket_context = NULL;
	}
}

static struct connection *
connection_of(struct MHD_Connection *mhd)
{
	return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void
on_completed(void *arg, struct MHD_Connection *mhd, void **request_context,
    enum MHD_RequestTerminationCode code)
{
	struct http *http = arg;

	(void)request_context;
	(void)code;
	connection_arm(http, connection_of(mhd), false, http->idle_ms);
}

static const struct http_route *
route_find(const struct http_route *routes, const char *path)
{
	for (const struct http_route *r = routes; r->path != NULL; r++) {
		size_t len = strlen(r->path);
		bool prefix = len > 1 && r->path[len - 1] == '/';

		if (prefix ? strncmp(r->path, path, len) == 0 : strcmp(r->path, path) == 0)
			return r;
	}
	return NULL;
}

/* Notes a header that announces a body. Proxies differ in which of two Content-Lengths they use, so
 * each of them counts. */
static enum MHD_Result
note_body(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
	bool *body = arg;

	(void)kind;
	if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0 ||
	    (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0 &&
		strspn(value, "0") != strlen(value)))
		*body = true;
	return MHD_YES;
}

/* Only GET and HEAD without a body are served. Other requests are refused before their body is read. */
static bool
has_body(struct MHD_Connection *mhd)
{
	bool body = false;

	MHD_get_connection_values(mhd, MHD_HEADER_KIND, note_body, &body);
	return body;
}

/* Whether the connection may stay open after its response. */
static bool
may_stay(struct http *http, struct connection *c)
{
	if (!c->kept && http->kept < KEPT_CONNECTIONS) {
		c->kept = true;
		http->kept++;
	}
	return c->kept;
}

struct outcome {
	struct http_response response;
	const char *allow; /* the allowed methods, for the Allow header; or NULL */
	bool close;        /* a body may follow, or too many connections are open */
	bool head;
};

/* Whether the method is PUT or DELETE; sets `method`. */
static bool
method_changes(const char *text, enum http_method *method)
{
	bool put = strcmp(text, MHD_HTTP_METHOD_PUT) == 0;

	if (put || strcmp(text, MHD_HTTP_METHOD_DELETE) == 0) {
		*method = put ? HTTP_PUT : HTTP_DELETE;
		return true;
	}
	return false;
}

static void
respond(struct http *http, struct MHD_Connection *mhd, const char *path, const char *method,
    struct outcome *out)
{
	struct http_request request = {
		.path = path,
		.local = http->config.debug_remote || http_peer_is_local(mhd),
		.accept = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT),
		.internal = mhd,
	};
	const struct http_route *change =
	    http->config.changes != NULL ? route_find(http->config.changes, path) : NULL;
	const struct http_route *route = route_find(http->config.routes, path);

	out->head = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
	if (change != NULL && method_changes(method, &request.method)) {
		route = change;
		request.local = http_peer_is_local(mhd);
	} else if (!out->head && strcmp(method, MHD_HTTP_METHOD_GET) != 0) {
		out->allow = change != NULL ? "GET, HEAD, PUT, DELETE" : "GET, HEAD";
		out->close = true;
		http_text(&out->response, MHD_HTTP_METHOD_NOT_ALLOWED, "only %s\n", out->allow);
		return;
	}
	if (http_listeners_is_others(&http->listeners, mhd)) {
		http_text(&out->response, 421, "%s", "the request is for another pod's address\n");
	} else if (has_body(mhd)) {
		out->close = true;
		http_text(
		    &out->response, MHD_HTTP_BAD_REQUEST, "%s", "requests must not have a body\n");
	} else if (route == NULL) {
		http_text(&out->response, MHD_HTTP_NOT_FOUND, "%s", "no such page\n");
	} else if (route->local_only && !request.local) {
		http_text(&out->response, MHD_HTTP_FORBIDDEN, "%s",
		    "this page shows names of the cluster: request it from inside the pod (kubectl "
		    "port-forward), as localhost or by IP address\n");
	} else {
		route->handler(&request, &out->response, http->config.arg);
	}
}

struct stream {
	ssize_t (*read)(void *arg, char *buf, size_t max);
	void (*free)(void *arg);
	void *arg;
};

static ssize_t
stream_read(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct stream *s = arg;
	ssize_t n = s->read(s->arg, buf, max);

	(void)pos;
	return n > 0    ? n
	       : n == 0 ? MHD_CONTENT_READER_END_OF_STREAM
			: MHD_CONTENT_READER_END_WITH_ERROR;
}

static void
stream_free(void *arg)
{
	struct stream *s = arg;

	if (s->free != NULL)
		s->free(s->arg);
	free(s);
}

static struct MHD_Response *
response_make(struct http_response *r)
{
	if (r->stream == NULL)
		return MHD_create_response_from_buffer(r->body != NULL ? r->len : 0, r->body,
		    r->body != NULL ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	struct stream *s = xmalloc(sizeof *s);
	*s = (struct stream){ .read = r->stream, .free = r->stream_free, .arg = r->stream_arg };
	free(r->body);
	return MHD_create_response_from_callback(
	    MHD_SIZE_UNKNOWN, STREAM_BLOCK, stream_read, s, stream_free);
}

static enum MHD_Result
send_response(struct MHD_Connection *mhd, struct outcome *out)
{
	struct http_response *r = &out->response;
	struct MHD_Response *response = response_make(r);

	if (response == NULL)
		log_fatalx("out of memory");
	if (r->stream != NULL && out->head) /* libmicrohttpd 0.9.75 would send the last chunk of a
					     * body in a response to HEAD */
		MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
	    r->content_type != NULL ? r->content_type : "text/plain; charset=utf-8");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	if (r->csp != NULL)
		MHD_add_response_header(response, "Content-Security-Policy", r->csp);
	if (out->allow != NULL)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, out->allow);
	if (out->close)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	enum MHD_Result result = MHD_queue_response(mhd, (unsigned)r->status, response);
	MHD_destroy_response(response);
	return result;
}

/*
 * libmicrohttpd calls this function with the request's target, which is in its own buffer, before
 * it parses the query. If the last argument of the query has no '=', overwrites the argument with
 * '=': an argument with an empty name, which no page uses.
 *
 * libmicrohttpd 1.0.1 would crash without this: it takes back unused space of its buffer from the
 * end of the last argument's value, but such an argument has no value. This needs a request whose
 * length is just below that of the buffer, so no memory limit prevents it. 1.0.10 has a fix.
 */
static void *
on_target(void *arg, const char *target, struct MHD_Connection *mhd)
{
	char *query = strchr(target, '?');

	(void)arg;
	(void)mhd;
	if (query != NULL && *++query != '\0') {
		size_t len = strlen(query), end = len - (query[len - 1] == '&'), start = end;

		while (start > 0 && query[start - 1] != '&')
			start--;
		if (memchr(query + start, '=', end - start) == NULL)
			memset(query + start, '=', len - start);
	}
	return NULL; /* the initial context of on_request() */
}

/* libmicrohttpd calls this function for a request's head, and again when the request is complete. A
 * request with a body is answered in the first call. */
static enum MHD_Result
on_request(void *arg, struct MHD_Connection *mhd, const char *path, const char *method,
    const char *version, const char *upload, size_t *upload_len, void **context)
{
	static char seen;
	struct http *http = arg;
	struct connection *c = connection_of(mhd);
	struct outcome out = { .response = { .status = MHD_HTTP_OK } };

	(void)version;
	(void)upload;
	if (*context == NULL && !has_body(mhd)) {
		*context = &seen;
		return MHD_YES;
	}
	*upload_len = 0;
	connection_arm(http, c, true, RESPONSE_MS);
	out.close = !may_stay(http, c);
	respond(http, mhd, path, method, &out);
	return send_response(mhd, &out);
}

static void
on_log(void *arg, const char *fmt, va_list ap)
{
	char line[512];

	(void)arg;
	if (!log_is_debug())
		return;
	vsnprintf(line, sizeof line, fmt, ap);
	line[strcspn(line, "\n")] = '\0';
	log_netdebug("http: %s", line);
}

static void
configure(struct http *http, const struct http_config *config)
{
	http->config = *config;
	http->limit = config->max_connections > 0 ? config->max_connections : DEFAULT_CONNECTIONS;
	http->head_ms = config->head_timeout_ms > 0 ? config->head_timeout_ms : DEFAULT_HEAD_MS;
	http->idle_ms = config->idle_timeout_ms > 0 ? config->idle_timeout_ms : DEFAULT_IDLE_MS;
	http->next_deadline_ms = CLOCK_NEVER;
	http->listeners.again_ms = CLOCK_NEVER;
	TAILQ_INIT(&http->connections);
}

int
http_start(struct http **result, const struct http_config *config)
{
	struct addr own;
	bool has_own = own_loopback(&own);
	int fd = port_listen("http", config->address, config->port, has_own, BACKLOG);

	if (fd < 0)
		return fd;

	struct http *http = xcalloc(1, sizeof *http);
	configure(http, config);
	http->port = port_bound(fd);
	/* clang-format off */
	http->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_ERROR_LOG, http->port, NULL, NULL, on_request, http,
	    MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
	    MHD_OPTION_LISTEN_SOCKET, fd,
	    MHD_OPTION_CONNECTION_LIMIT, http->limit + SPARE_CONNECTIONS,
	    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)((http->idle_ms + 999) / 1000),
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
	    MHD_OPTION_URI_LOG_CALLBACK, on_target, NULL,
	    MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
	    MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
	    MHD_OPTION_END);
	/* clang-format on */
	if (http->daemon == NULL)
		log_fatalx("http: libmicrohttpd could not start");
	http->epoll_fd = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	*result = http;
	if (!has_own)
		return 0;
	return http_listeners_open(
	    &http->listeners, http->epoll_fd, &own, config->address, http->port);
}

int
http_fd(const struct http *http)
{
	return http->listeners.epoll_fd > 0 ? http->listeners.epoll_fd : http->epoll_fd;
}

int64_t
http_due_ms(const struct http *http)
{
	MHD_UNSIGNED_LONG_LONG theirs = 0;
	int64_t due_ms = clock_earlier(http->next_deadline_ms, http->listeners.again_ms);

	if (MHD_get_timeout(http->daemon, &theirs) == MHD_YES && theirs < INT_MAX)
		due_ms = clock_earlier(due_ms, clock_mono_ms() + (int64_t)theirs);
	return due_ms;
}

void
http_run(struct http *http)
{
	drop_expired(http);
	if (http->listeners.epoll_fd > 0)
		http_listeners_accept(&http->listeners, http->daemon);
	MHD_run(http->daemon);
}

uint16_t
http_port(const struct http *http)
{
	return http->port;
}

uint64_t
http_dropped(const struct http *http)
{
	return http->dropped;
}

const char *
http_query(const struct http_request *request, const char *name)
{
	const char *value = NULL;
	size_t len = 0;

	if (MHD_lookup_connection_value_n(request->internal, MHD_GET_ARGUMENT_KIND, name,
		strlen(name), &value, &len) == MHD_NO ||
	    value == NULL)
		return NULL;
	return strlen(value) == len ? value : NULL; /* %00 would truncate the value */
}

void
http_text(struct http_response *response, int status, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		log_fatalx("out of memory");
	free(response->body);
	response->status = status;
	response->body = text;
	response->len = (size_t)n;
}

void
http_stop(struct http *http)
{
	if (http == NULL)
		return;
	MHD_stop_daemon(http->daemon);
	assert(TAILQ_EMPTY(&http->connections));
	http_listeners_close(&http->listeners);
	free(http);
}
