/*
 * One resource on its way from the API server to the sink: a reflector that decides, a libcurl
 * handle that asks, a framer and json-c that read. A request is started with stream_start(),
 * lives in the watch's multi handle, and ends in stream_finish().
 *
 * Private to watch*.c, stream.c, body.c, request.c and api_error.c.
 */
#ifndef KUBEDNS_STREAM_H
#define KUBEDNS_STREAM_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/api/api_server.h"
#include "kubedns/api/framer.h"
#include "kubedns/cluster/object.h"
#include "kubedns/api/reflector.h"
#include "kubedns/api/json_prune.h"
#include "kubedns/api/watch.h"

enum { STREAM_OBJECT_MAX = 8 << 20, STREAM_BODY_MAX = 64 << 10 };

enum resource_id {
	RESOURCE_SERVICES,
	RESOURCE_SLICES,
	RESOURCE_ENDPOINTS, /* where slices are denied */
	RESOURCE_NAMESPACES,
	RESOURCE_PODS,
	RESOURCE_NODES,
	RESOURCE_CONFIGMAPS,
	RESOURCE_COUNT,
};

struct resource {
	const char *name, *group_path, *kind, *list_kind;
	const char *group; /* as RBAC spells it */
	const struct trim_keep *keep;
	enum object_kind object;
	bool namespaced;
	bool required; /* readiness waits for it, or for the Endpoints in its stead, for ever */
};

extern const struct resource resources[RESOURCE_COUNT];

enum stream_verb { VERB_LIST, VERB_WATCH, VERB_COUNT };

/* Answers that are told apart in the metrics; the last two are any other status, and none. */
enum { CODE_COUNT = 14, CODE_OTHER = CODE_COUNT - 2, CODE_NONE = CODE_COUNT - 1 };
extern const int stream_codes[CODE_COUNT - 2];

enum stream_event {
	STREAM_ADDED,
	STREAM_MODIFIED,
	STREAM_DELETED,
	STREAM_BOOKMARK,
	STREAM_ERROR,
	STREAM_EVENT_COUNT
};
extern const char *const stream_event_names[STREAM_EVENT_COUNT];

struct json_tokener;

struct stream {
	struct watch *watch;
	enum resource_id id;
	const struct resource *resource;
	const struct trim_keep *keep;
	struct reflector reflector;
	bool wanted;
	char *place,
	    *selector; /* path below the server's URL; query parameters that filter, "" or "&..." */
	CURL *easy;
	struct curl_slist *headers, *connect_to;
	char curl_error[CURL_ERROR_SIZE];
	struct framer framer;
	struct json_tokener *tokener;
	/* the request in flight */
	enum stream_verb verb;
	int status;      /* 0: no status line yet */
	bool reached;    /* it has a connection, verified, to go out on */
	bool fresh;      /* the next request shall use a new connection: the old one may be dead */
	bool unanswered; /* the last request brought no status line */
	bool kind_seen;  /* the list said what it is */
	bool malformed;
	int error_code; /* of an ERROR event */
	bool too_large;
	char *token; /* continue of a 410 */
	char *why;   /* what is malformed, or what a Status says */
	char *body;  /* of an answer that is no 200 */
	size_t body_len;
	curl_off_t received; /* bytes counted so far */
	int64_t listing_ms;  /* when the listing began */
	/* what the outside may know */
	char *problem;      /* why it does not work at the moment; NULL: it does */
	bool problem_local; /* it is this resource's own, not the server's as a whole */
	uint64_t objects;   /* offered in the last listing */
	uint64_t rejected;  /* objects that could not be read */
	uint64_t requests[VERB_COUNT][CODE_COUNT];
	uint64_t events[STREAM_EVENT_COUNT];
	double last_event; /* Unix time; 0: none */
};

struct watch {
	struct cluster cluster;
	event_sink sink;
	void *arg;
	CURLM *multi;
	struct stream streams[RESOURCE_COUNT];
	char *out; /* where objects are trimmed into */
	size_t out_max;
	CURLcode server_problem; /* the last one that was logged; CURLE_OK: it answers */
	const char *user_agent;
	const char **namespaces; /* NULL-terminated; NULL: all */
	bool no_api;
	bool away; /* no connection could be had: one resource at a time tries, when it is due */
	int64_t away_due_ms;
	struct backoff away_backoff;
	bool goaway; /* a connection's server said that it will take no more requests on it */
	bool told;   /* the sink was called in this turn */
	bool ready;
	int64_t required_ms; /* since when the required ones are synced; 0: not yet */
	uint64_t received_bytes;
};

/* Prepares the stream of `id`, not wanted yet. */
void stream_init(struct stream *s, struct watch *w, enum resource_id id);

/* Begins the next request. */
void stream_start(struct stream *s, int64_t now_ms);

/* libcurl has ended the request (removed from the multi handle by the caller or here). */
void stream_finish(struct stream *s, int64_t now_ms, CURLcode code);

/* Ends the request in flight as broken, for this reason; the next one uses a new connection. */
void stream_break(struct stream *s, int64_t now_ms, const char *why);

/* The same for what is the fault of this request alone. */
void stream_late(struct stream *s, int64_t now_ms, const char *why);

/* Ends the request in flight, if any, without consequence. */
void stream_stop(struct stream *s);

void stream_clear(struct stream *s);

/* Connection, verification and headers of the next request, whose verb is known (request.c). */
void request_options(struct stream *s);

/* Frees what request_options() made, the token among it. */
void request_clear(struct stream *s);

/* To the sink, as the next word on this stream's kind. */
void stream_tell(struct stream *s, enum event_type type, const struct object *object);

#endif
