/*
 * One resource on its way from the API server to the sink: a reflector that decides, a libcurl
 * handle that asks, a framer and json-c that read. A request is started with api_stream_start(),
 * lives in the watch's multi handle, and ends in api_stream_finish().
 *
 * Private to watch*.c, stream.c, body.c, request.c and api_error.c.
 */
#ifndef KUBEDNS_API_API_STREAM_H
#define KUBEDNS_API_API_STREAM_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/api/api_server.h"
#include "kubedns/api/backoff.h"
#include "kubedns/api/framer.h"
#include "kubedns/cluster/object.h"
#include "kubedns/api/reflector.h"
#include "kubedns/api/json_prune.h"
#include "kubedns/api/watch.h"

enum { API_STREAM_OBJECT_MAX = 8 << 20, API_STREAM_BODY_MAX = 64 << 10 };

enum api_resource_id {
	API_SERVICES,
	API_SLICES,
	API_ENDPOINTS, /* where slices are denied */
	API_NAMESPACES,
	API_PODS,
	API_NODES,
	API_CONFIGMAPS,
	API_COUNT,
};

struct api_resource {
	const char *name, *group_path, *kind, *list_kind;
	const char *group; /* as RBAC spells it */
	const struct json_prune_keep *keep;
	enum object_kind object;
	bool namespaced;
	bool required; /* readiness waits for it, or for the Endpoints in its stead, for ever */
};

extern const struct api_resource api_resources[API_COUNT];

enum api_stream_verb { VERB_LIST, VERB_WATCH, VERB_COUNT };

/* Answers that are told apart in the metrics; the last two are any other status, and none. */
enum { CODE_COUNT = 14, CODE_OTHER = CODE_COUNT - 2, CODE_NONE = CODE_COUNT - 1 };
extern const int api_stream_codes[CODE_COUNT - 2];

enum api_stream_event {
	API_STREAM_ADDED,
	API_STREAM_MODIFIED,
	API_STREAM_DELETED,
	API_STREAM_BOOKMARK,
	API_STREAM_ERROR,
	API_STREAM_EVENT_COUNT
};
extern const char *const api_stream_event_names[API_STREAM_EVENT_COUNT];

struct json_tokener;

struct api_stream {
	struct watch *watch;
	enum api_resource_id id;
	const struct api_resource *resource;
	const struct json_prune_keep *keep;
	struct reflector *reflector;
	bool wanted;
	char *place,
	    *selector; /* path below the server's URL; query parameters that filter, "" or "&..." */
	CURL *easy;
	struct curl_slist *headers, *connect_to;
	char curl_error[CURL_ERROR_SIZE];
	struct framer framer;
	struct json_tokener *tokener;
	/* the request in flight */
	enum api_stream_verb verb;
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
	uint64_t events[API_STREAM_EVENT_COUNT];
	double last_event; /* Unix time; 0: none */
};

struct watch {
	struct api_server cluster;
	event_sink sink;
	void *arg;
	CURLM *multi;
	struct api_stream streams[API_COUNT];
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
void api_stream_init(struct api_stream *s, struct watch *w, enum api_resource_id id);

/* Begins the next request. */
void api_stream_start(struct api_stream *s, int64_t now_ms);

/* libcurl has ended the request (removed from the multi handle by the caller or here). */
void api_stream_finish(struct api_stream *s, int64_t now_ms, CURLcode code);

/* Ends the request in flight as broken, for this reason; the next one uses a new connection. */
void api_stream_break(struct api_stream *s, int64_t now_ms, const char *why);

/* The same for what is the fault of this request alone. */
void api_stream_late(struct api_stream *s, int64_t now_ms, const char *why);

/* Ends the request in flight, if any, without consequence. */
void api_stream_stop(struct api_stream *s);

void api_stream_clear(struct api_stream *s);

/* Connection, verification and headers of the next request, whose verb is known (request.c). */
void api_request_options(struct api_stream *s);

/* Frees what api_request_options() made, the token among it. */
void api_request_clear(struct api_stream *s);

/* To the sink, as the next word on this stream's kind. */
void api_stream_tell(struct api_stream *s, enum event_type type, const struct object *object);

#endif
