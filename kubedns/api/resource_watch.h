/*
 * One resource on its way from the API server to the sink: the reflector decides what to request, a
 * libcurl handle makes the request, the framer and json-c read the response. A request begins with
 * resource_watch_start(), lives in the source's multi handle, and ends in resource_watch_finish().
 *
 * Private to the files that api_source.h lists.
 */
#ifndef KUBEDNS_API_RESOURCE_WATCH_H
#define KUBEDNS_API_RESOURCE_WATCH_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/api/resource_table.h"
#include "kubedns/api/api_credentials.h"
#include "kubedns/api/backoff.h"
#include "kubedns/api/framer.h"
#include "kubedns/api/reflector.h"
#include "kubedns/api/api_source.h"
#include "lib/api_problem.h"

enum { RESOURCE_STREAM_OBJECT_MAX = 8 << 20, RESOURCE_STREAM_BODY_MAX = 64 << 10 };

struct json_tokener;

struct resource_watch {
	struct api_source *watch;
	enum api_resource_id id; /* API_COUNT: one of hosts_namespaces */
	const struct api_resource *resource;
	const struct json_prune_keep *keep; /* the resource's, or one that keeps more */
	struct reflector *reflector;
	bool wanted;
	const char *hosts_namespace; /* NULL: its objects are the sink's */
	char *label;                 /* for people and metrics: the resource's name */
	char *place;                 /* path below the server's URL */
	char *other; /* the same in another version of the resource's group; NULL: there is none */
	bool is_other;  /* the two have changed places */
	char *selector; /* query parameters that filter, "" or "&..." */
	CURL *easy;
	struct curl_slist *headers, *connect_to;
	char curl_error[CURL_ERROR_SIZE];
	struct framer framer;
	struct json_tokener *tokener;

	/* the request in flight */
	enum api_verb verb;
	int status;       /* HTTP; 0: no status line yet */
	bool reached;     /* it was sent on a connection that is verified */
	bool fresh;       /* the next request uses a new connection: the old one may be dead */
	bool unanswered;  /* the last request brought no status line */
	bool missing;     /* the last request got 404: its CRD is not installed */
	bool said_silent; /* that it brings nothing has been logged */
	bool kind_seen;   /* the list has named its kind, which is ours */
	bool malformed;
	int error_code; /* of an ERROR event */
	bool too_large; /* a Status says: resourceVersion too large */
	char *token;    /* continue of a 410 */
	char *why;      /* what is malformed, or the message of a Status */
	char *body;     /* of an answer that is not 200 */
	size_t body_len;
	curl_off_t received; /* bytes counted so far */

	/* for readiness and metrics */
	char *problem; /* why the last request failed; NULL: it did not */
	enum api_problem problem_kind;
	bool problem_local;       /* of this resource alone, not of the server as a whole */
	int64_t problem_since_ms; /* monotonic; 0: there is none */
	uint64_t objects;         /* in the last listing */
	uint64_t rejected;        /* objects that could not be read */
	uint64_t requests[API_VERB_COUNT][API_CODE_COUNT];
	uint64_t events[API_EVENT_COUNT];
	double last_event; /* Unix time; 0: none */
};

struct api_source {
	struct api_credentials server;
	event_sink sink;
	void *arg;
	CURLM *multi;
	struct resource_watch streams[API_COUNT + API_HOSTS_MAX];
	unsigned kinds; /* of them, by enum api_resource_id: see there */
	unsigned count; /* with those of hosts_namespaces behind; then come no more */
	hosts_sink *hosts;
	char *out; /* room for one pruned object */
	size_t out_max;
	CURLcode server_problem; /* the one last logged; CURLE_OK: the server answers */
	const char *user_agent;
	const char **namespaces; /* NULL-terminated; NULL: all */
	bool no_api;
	bool external, imports; /* see api_source_config */
	bool namespaces_required;
	bool pods_required;
	bool headless_slices; /* the selector of slices is the node role's */
	bool all_slices;      /* it is to go */
	bool away; /* no connection to the server: one resource at a time tries, at away_due_ms */
	int64_t away_due_ms;
	struct backoff away_backoff;
	bool goaway;         /* HTTP/2 GOAWAY came on a connection */
	bool stale;          /* some kept connection brings no answers */
	bool emitted;        /* the sink was called in this turn */
	bool ready;          /* see api_source_ready() */
	bool external_ready; /* see api_source_external_ready() */
	bool external_said;  /* what they wait for has been logged */
	int64_t required_ms; /* since when the required resources are synced; 0: not yet */
	uint64_t received_bytes;
};

/* Prepares the watch of `id`, not wanted yet. API_COUNT: of api_hosts_maps_resource. */
void resource_watch_init(struct resource_watch *s, struct api_source *w, enum api_resource_id id);

/* Adds a query parameter that filters; and restricts the resource to one namespace. */
void resource_watch_select(
    struct resource_watch *s, const char *parameter, const char *prefix, const char *value);
void resource_watch_select_namespace(struct resource_watch *s, const char *namespace);

/* Adds a watch for each of the namespaces (NULL ends; NULL: none). api_source.c */
void api_hosts_maps_choose(struct api_source *w, const char *const *namespaces);

/* Begins the next request. */
void resource_watch_start(struct resource_watch *s, int64_t now_ms);

/* libcurl has ended the request (removed from the multi handle by the caller or here). */
void resource_watch_finish(struct resource_watch *s, int64_t now_ms, CURLcode code);

/*
 * Ends the request in flight as broken, for this reason; the next one uses a new connection. The
 * first is for a fault of the connection, the second for one request that is late.
 */
void resource_watch_break(struct resource_watch *s, int64_t now_ms, const char *why);
void resource_watch_late(struct resource_watch *s, int64_t now_ms, const char *why);

/* Ends the request in flight, if any, without consequence. */
void resource_watch_stop(struct resource_watch *s);

void resource_watch_clear(struct resource_watch *s);

/* Connection, verification and headers of the next request, whose verb is known (request_setup.c). */
void api_request_setup(struct resource_watch *s);

/* Frees what api_request_setup() made, the token among it. */
void api_request_clear(struct resource_watch *s);

enum {
	API_SETTLE_MS = 3000, /* a denial that lasts so long keeps readiness waiting no longer */
	API_SILENT_MS = 3000, /* an answer that is owed for so long is reported */
};

/* --- api_source.c: readiness --- */

/* Sets `ready` and `external_ready`, and logs what they wait for. */
void api_source_check_ready(struct api_source *w, int64_t now_ms);

/* When that has to be done at the latest; INT64_MAX: after the next event. */
int64_t api_source_ready_due_ms(const struct api_source *w, int64_t now_ms);

/* The zones that `external_ready` is about, in words. */
const char *api_source_zones(const struct api_source *w);

/* Calls the sink with an event of this kind of object. */
void resource_watch_emit(
    struct resource_watch *s, enum event_type type, const struct object *object);

#endif
