/*
 * The requests for one resource, from the API server to the sink. The reflector decides what to
 * request, a libcurl handle makes the request, and the framer and json-c read the response. A
 * request starts with resource_watch_start(), is in the source's multi handle while it runs, and
 * ends in resource_watch_finish().
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
	enum api_resource_id id; /* API_COUNT: for a namespace of hosts_namespaces */
	const struct api_resource *resource;
	const struct json_prune_keep *keep; /* the resource's table, or a table that keeps more
					     * members */
	struct reflector *reflector;
	bool wanted;
	const char *hosts_namespace; /* NULL: its objects go to the main sink */
	event_sink own_sink;         /* for the audit's lists; NULL: the main sink */
	void *own_arg;
	char *label;    /* name of the resource, for messages and metrics */
	char *place;    /* path below the server's URL */
	char *other;    /* the path in another version of the resource's group; NULL: none */
	bool is_other;  /* `place` and `other` have been swapped */
	char *selector; /* query parameters that filter objects: "" or "&..." */
	CURL *easy;
	struct curl_slist *headers, *connect_to;
	char curl_error[CURL_ERROR_SIZE];
	struct framer framer;
	struct json_tokener *tokener;

	/* the request in flight */
	enum api_verb verb;
	int status;   /* HTTP status; 0: no status line yet */
	bool reached; /* the request was sent on a verified connection */
	/* The next request uses a new connection, because the old one may be dead. */
	bool fresh;
	bool unanswered;  /* the last request got no status line */
	bool missing;     /* the last request got a 404, because the CRD is not installed */
	bool said_silent; /* the missing response has been logged */
	bool kind_seen;   /* the list has the expected kind */
	bool malformed;
	int error_code; /* code of an ERROR event */
	bool went_back; /* an event was older than what is known */
	bool too_large; /* according to a Status, the resource version is too large */
	char *token;    /* `continue` token of a 410 */
	char *why;      /* why the response is malformed, or the message of a Status */
	char *body;     /* body of a response whose status is not 200 */
	size_t body_len;
	curl_off_t received; /* number of bytes counted so far */

	/* for readiness and metrics */
	char *problem; /* why a request failed; NULL: the resource is up to date */
	enum api_problem problem_kind;
	/* The problem concerns this resource only, not the whole server. */
	bool problem_local;
	bool problem_malformed;   /* an answer was malformed since the problem began */
	int64_t problem_since_ms; /* monotonic time; 0: there is no problem */
	uint64_t objects;         /* number of objects in the last listing */
	uint64_t rejected;        /* number of objects that could not be read */
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
	unsigned kinds; /* number of watches of enum api_resource_id, which come first in
			 * `streams` */
	unsigned count; /* number of all watches, including the watches of hosts_namespaces */
	hosts_sink *hosts;
	struct resource_watch *exact; /* the audit's lists (exact_list.c); NULL: none yet */
	bool exact_running;           /* between api_source_list() and the end of the list */
	bool exact_back;              /* see api_source_versions_went_back() */
	uint64_t exact_ns;            /* CPU time of reading the audit's lists */
	char *out;                    /* buffer for one pruned object */
	size_t out_max;
	/* The last server problem that was logged; CURLE_OK: the server responds. */
	CURLcode server_problem;
	const char *user_agent;
	const char **namespaces; /* NULL-terminated; NULL: all */
	bool no_api;
	bool external, imports; /* see api_source_config */
	bool namespaces_required;
	bool pods_required;
	bool headless_slices; /* `streams` of slices use the selector of the node role */
	bool all_slices;      /* the selector is to be removed */
	/* There is no connection to the server. One resource at a time tries to connect, at
	 * away_due_ms. */
	bool away;
	int64_t away_due_ms;
	struct backoff away_backoff;
	bool goaway;         /* a connection received an HTTP/2 GOAWAY */
	bool stale;          /* a reused connection delivers no responses */
	bool emitted;        /* the sink was called in this iteration */
	bool ready;          /* see api_source_ready() */
	bool external_ready; /* see api_source_external_ready() */
	bool external_said;  /* the reason why zones are not ready has been logged */
	int64_t required_ms; /* since when the required resources are synced; 0: they are not
			      * synced */
	uint64_t received_bytes;
};

/* Initialises the watch of the resource `id`. The watch is not wanted yet. With API_COUNT, the
 * watch is of api_hosts_maps_resource. */
void resource_watch_init(struct resource_watch *s, struct api_source *w, enum api_resource_id id);

/* resource_watch_select() adds a query parameter that filters objects.
 * resource_watch_select_namespace() restricts the resource to one namespace. */
void resource_watch_select(
    struct resource_watch *s, const char *parameter, const char *prefix, const char *value);
void resource_watch_select_namespace(struct resource_watch *s, const char *namespace);

/* Adds a watch for each of the namespaces (NULL-terminated list; NULL: none). It is defined in
 * api_source.c. */
void api_hosts_maps_choose(struct api_source *w, const char *const *namespaces);

/* Starts the next request. */
void resource_watch_start(struct resource_watch *s, int64_t now_ms);

/* Handles the end of a request that libcurl has reported. The caller or this function removes it
 * from the multi handle. */
void resource_watch_finish(struct resource_watch *s, int64_t now_ms, CURLcode code);

/*
 * End the request in flight as broken, for the reason `why`. The next request uses a new
 * connection. resource_watch_break() is for a fault of the connection. resource_watch_late() is for
 * a single request that is late.
 */
void resource_watch_break(struct resource_watch *s, int64_t now_ms, const char *why);
void resource_watch_late(struct resource_watch *s, int64_t now_ms, const char *why);

/* Cancels the request in flight, if there is one, without consequences. */
void resource_watch_stop(struct resource_watch *s);

void resource_watch_clear(struct resource_watch *s);

/* Sets connection, verification and headers of the next request, whose verb must be set already
 * (request_setup.c). */
void api_request_setup(struct resource_watch *s);

/* Frees what api_request_setup() made, including the token. */
void api_request_clear(struct resource_watch *s);

enum {
	API_SETTLE_MS = 3000, /* readiness no longer waits for a denied resource after this time */
	API_SILENT_MS = 3000, /* a response that is overdue for this long is reported */
};

/* --- exact_list.c --- */

/* Starts the pages of the audit's list and ends a late one. Returns true if it started a request. */
bool api_exact_run(struct api_source *w, int64_t now_ms);

/* Returns the list's next deadline, or CLOCK_NEVER. */
int64_t api_exact_due_ms(const struct api_source *w);

/* Gives the list up, for example because its connection is closed. */
void api_exact_drop(struct api_source *w);

void api_exact_free(struct api_source *w);

/* --- api_source.c: readiness --- */

/* Sets `ready` and `external_ready`, and logs which kinds they wait for. */
void api_source_check_ready(struct api_source *w, int64_t now_ms);

/* Returns the latest time for the next call of api_source_check_ready(). CLOCK_NEVER means that no
 * call is needed before the next event. */
int64_t api_source_ready_due_ms(const struct api_source *w, int64_t now_ms);

/* Returns text that names the zones of `external_ready`. */
const char *api_source_zones(const struct api_source *w);

/* Calls the sink with an event for this resource's kind of objects. */
void resource_watch_emit(
    struct resource_watch *s, enum event_type type, const struct object *object);

#endif
