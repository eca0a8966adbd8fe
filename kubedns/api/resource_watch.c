#include "kubedns/api/resource_watch.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/api/api_error.h"
#include "kubedns/cluster/external/object_external.h"
#include "lib/clock.h"
#include "lib/json_strict.h"
#include "lib/log.h"
#include "lib/percent.h"
#include "lib/xalloc.h"

/*
 * Reads the response to a request: the items of a list, the events of a watch, or the Status that
 * explains an error. Objects go to the sink one by one as they arrive. The other results
 * (malformed, error_code, too_large, token, why) are stored in the stream for
 * resource_watch_finish().
 */
static void response_objects_init(struct resource_watch *s);

/* Called after the status line 200. What the body contains depends on the stream's verb. */
static void response_objects_begin(struct resource_watch *s);

/* Reads the next bytes of the body. Returns 0, or -errno to end the request. -ECANCELED means an
 * ERROR event. */
static int response_objects_take(struct resource_watch *s, const char *bytes, size_t len);

/* Called at the end of the body. `whole` is true if the connection did not break. */
static void response_objects_end(struct resource_watch *s, bool whole);

/* Frees the results of the last response, before the next request. */
static void response_objects_forget(struct resource_watch *s);

static void response_objects_clear(struct resource_watch *s);

enum {
	RECEIVE_BUFFER = 64 << 10,
	WAKE_JITTER_MS = 500,
};

void
resource_watch_emit(struct resource_watch *s, enum event_type type, const struct object *object)
{
	if (s->own_sink != NULL)
		s->own_sink(s->own_arg, s->resource->object, type, object);
	else if (s->hosts_namespace != NULL)
		s->watch->hosts(s->watch->arg, s->hosts_namespace, type, object);
	else
		s->watch->sink(s->watch->arg, s->resource->object, type, object);
	s->watch->emitted = true;
}

static void
count_received(struct resource_watch *s)
{
	curl_off_t now = 0;

	curl_easy_getinfo(s->easy, CURLINFO_SIZE_DOWNLOAD_T, &now);
	if (now > s->received)
		s->watch->received_bytes += (uint64_t)(now - s->received);
	s->received = now;
}

static void
count_request(struct resource_watch *s)
{
	unsigned code = 0;

	while (code < API_CODE_OTHER && api_codes[code] != s->status)
		code++;
	s->requests[s->verb][s->status ? code : API_CODE_NONE]++;
}

static void
clear_server_problem(struct api_source *w)
{
	if (w->server_problem)
		log_info("api %s: answers", w->server.shown_url);
	w->server_problem = CURLE_OK;
}

/*
 * Ends the problem of a resource: a list is complete, or a watch has begun. After a malformed
 * answer, a watch must also deliver an event. The probe before a watch ends no problem, because the
 * watch may fail again.
 */
static void
clear_problem(struct resource_watch *s)
{
	if (s->problem == NULL)
		return;
	if (s->problem_local)
		log_info(
		    "%s: %s works again", s->label, s->verb == API_VERB_WATCH ? "watch" : "list");
	free(s->problem);
	s->problem = NULL;
	s->problem_kind = API_PROBLEM_NONE;
	s->problem_malformed = false;
	s->problem_since_ms = 0;
}

/* Stores a problem. `text` now belongs to the stream. */
static void
set_problem(struct resource_watch *s, enum api_problem kind, char *text, bool local)
{
	free(s->problem);
	s->problem = text;
	s->problem_malformed = s->problem_malformed || s->malformed;
	s->problem_kind = kind;
	s->problem_local = local;
	if (s->problem_since_ms == 0)
		s->problem_since_ms = clock_mono_ms();
}

/*
 * Whether the request got no connection. Other resources cannot get a connection then either. A
 * failed certificate check does not count: the server was reached, and has spent CPU time on a
 * handshake.
 */
static bool
is_unreached(const struct resource_watch *s, CURLcode code)
{
	return !s->reached && !s->status && code != CURLE_PEER_FAILED_VERIFICATION;
}

/* If several requests fail at the same time, only the first request increases the backoff. */
static void
server_is_away(struct api_source *w, int64_t now_ms)
{
	if (w->away && now_ms < w->away_due_ms)
		return;
	w->away = true;
	w->away_due_ms = now_ms + backoff_failed(&w->away_backoff, now_ms, BACKOFF_AWAY_MAX_MS);
}

/*
 * Called when there is a connection and the request is sent. A second call means that libcurl has
 * found the reused connection dead and repeats the request on a new connection. A watch must not be
 * repeated, because the new server may have older state than the server that answered the probe.
 */
static int
on_request(void *arg, char *to, char *from, int to_port, int from_port)
{
	struct resource_watch *s = arg;

	(void)to;
	(void)from;
	(void)to_port;
	(void)from_port;
	if (s->reached && reflector_phase(s->reflector) == REFLECTOR_WATCH)
		return CURL_PREREQFUNC_ABORT;
	s->reached = true;
	s->watch->away = false;
	backoff_good(&s->watch->away_backoff, clock_mono_ms());
	return CURL_PREREQFUNC_OK;
}

/* The server is reachable again, so the resources that wait for it start soon. */
static void
wake_others(const struct resource_watch *s)
{
	struct resource_watch *streams = s->watch->streams;
	int64_t soon = clock_mono_ms() + backoff_jitter(WAKE_JITTER_MS);

	for (unsigned i = 0; i < s->watch->count; i++) {
		if (streams[i].unanswered)
			reflector_bring_forward(streams[i].reflector, soon);
	}
}

/* The status line and all headers have arrived. */
static void
headers_arrived(struct resource_watch *s)
{
	long status = 0;

	curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status < 200 || s->status)
		return;
	s->status = (int)status;
	count_request(s);
	if (status != 200)
		return;
	wake_others(s);
	response_objects_begin(s);
	bool lists = reflector_answered(s->reflector, clock_mono_ms());
	if (reflector_phase(s->reflector) == REFLECTOR_WATCH && !s->problem_malformed)
		clear_problem(s);
	if (!lists || !s->wanted)
		return;
	s->objects = 0;
	if (s->id == API_SLICES && s->watch->streams[API_ENDPOINTS].wanted) {
		/* Events of Endpoints must not mix with events of slices. The next iteration ends
		 * the request for Endpoints. */
		s->watch->streams[API_ENDPOINTS].wanted = false;
		log_info("endpointslices: allowed again; Endpoints are no longer used");
	}
	resource_watch_emit(s, EVENT_LISTING, NULL);
}

static size_t
on_header(char *line, size_t size, size_t count, void *arg)
{
	if (size * count <= 2 && (*line == '\r' || *line == '\n'))
		headers_arrived(arg);
	return size * count;
}

static size_t
on_body(char *bytes, size_t size, size_t count, void *arg)
{
	struct resource_watch *s = arg;
	size_t len = size * count;
	int64_t begun_ns = s->own_sink != NULL ? clock_cpu_ns() : 0;

	count_received(s);
	if (s->status == 200)
		reflector_progress(s->reflector, clock_mono_ms(), len);
	int error = response_objects_take(s, bytes, len);
	if (s->own_sink != NULL)
		s->watch->exact_ns += (uint64_t)(clock_cpu_ns() - begun_ns);
	if (s->status == 200 && !s->malformed && !error)
		clear_server_problem(s->watch);
	s->missing = s->missing && s->status != 200;
	return error ? CURL_WRITEFUNC_ERROR : len;
}

static void
clear_request(struct resource_watch *s)
{
	response_objects_forget(s);
	s->status = 0;
	s->reached = false;
	s->received = 0;
	s->curl_error[0] = '\0';
}

void
resource_watch_start(struct resource_watch *s, int64_t now_ms)
{
	struct api_source *w = s->watch;
	const char *verb = NULL;
	char *query = reflector_query(s->reflector, now_ms, &verb);
	char *url = xasprintf("%s%s?%s%s", w->server.url, s->place, query, s->selector);

	clear_request(s);
	s->said_silent = false;
	s->verb = *verb == 'w' ? API_VERB_WATCH : API_VERB_LIST;
	curl_easy_reset(s->easy);
	curl_easy_setopt(s->easy, CURLOPT_URL, url);
	curl_easy_setopt(s->easy, CURLOPT_PRIVATE, s);
	curl_easy_setopt(s->easy, CURLOPT_ERRORBUFFER, s->curl_error);
	curl_easy_setopt(s->easy, CURLOPT_PREREQFUNCTION, on_request);
	curl_easy_setopt(s->easy, CURLOPT_PREREQDATA, s);
	curl_easy_setopt(s->easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(s->easy, CURLOPT_HEADERDATA, s);
	curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
	curl_easy_setopt(s->easy, CURLOPT_BUFFERSIZE, (long)RECEIVE_BUFFER);
	api_request_setup(s);
	s->fresh = false;
	log_debug("%s: %s %s", s->label, verb, url);
	if (curl_multi_add_handle(w->multi, s->easy) != CURLM_OK)
		log_fatalx("out of memory");
	free(query);
	free(url);
}

/* Sets the problem of this resource. Logs the problem if it is new. */
static void
set_own_problem(struct resource_watch *s, enum api_problem kind, char *text)
{
	if (s->problem == NULL || strcmp(s->problem, text) != 0)
		log_warnx("api %s: %s: %s", s->watch->server.shown_url, s->label, text);
	set_problem(s, kind, text, true);
}

/* Sets a problem of the whole server. Logs the problem once for all resources, even if its details
 * differ with each attempt. */
static void
set_server_problem(struct resource_watch *s, CURLcode code)
{
	struct api_source *w = s->watch;

	set_problem(s, api_problem_of_transport(s, code), api_error_transport(s, code), false);
	if (w->server_problem != code)
		log_warnx("api %s: %s", w->server.shown_url, s->problem);
	w->server_problem = code;
}

/* Handles a resource whose CRD is not installed, which is no error. If the CRD is installed later,
 * the resource is found. */
static void
report_missing(struct resource_watch *s)
{
	bool last = s->other == NULL || s->is_other; /* there is no other version to try */

	if (last && !s->missing)
		log_info("%s.%s: the API server does not serve this resource: it is read as soon "
			 "as the server does",
		    s->resource->name, s->resource->group);
	s->missing = s->missing || last;
	clear_server_problem(s->watch);
	clear_problem(s);
}

/* Logs the result of a request. */
static void
report_end(struct resource_watch *s, CURLcode code, bool clean)
{
	bool refused = s->status == 400 || s->status == 422;

	if (refused && reflector_phase(s->reflector) == REFLECTOR_WATCHLIST)
		log_info("%s: the API server has no watch lists (%d); listing in pages", s->label,
		    s->status);
	else if (s->status == 410 || s->too_large)
		log_info(
		    "%s: %s", s->label, s->why != NULL && *s->why ? s->why : "version expired");
	else if (s->status == 404 && s->resource->may_be_missing)
		report_missing(s);
	else if (s->status && s->status != 200)
		set_own_problem(s, api_problem_of_status(s->status), api_error_status(s));
	else if (s->error_code)
		log_info("%s: watch ended by the server: %d %s", s->label, s->error_code, s->why);
	else if (s->malformed)
		set_own_problem(s, API_PROBLEM_OTHER,
		    xasprintf("%s: malformed answer: %s; keeping the last data, trying again",
			s->verb == API_VERB_WATCH ? "watch" : "list", s->why));
	else if (code == CURLE_OPERATION_TIMEDOUT && s->reached)
		set_own_problem(s, API_PROBLEM_SILENT, xstrdup(s->curl_error));
	else if (code != CURLE_OK)
		set_server_problem(s, code);
	else if (clean && reflector_phase(s->reflector) == REFLECTOR_WATCH)
		clear_problem(s);
}

/* After a 404, requests the group's other version at once. If that version is missing too, both are
 * tried from time to time. */
static void
try_other_version(struct resource_watch *s, int64_t now_ms)
{
	char *place = s->place;

	s->place = s->other;
	s->other = place;
	s->is_other = !s->is_other;
	if (s->is_other)
		reflector_bring_forward(s->reflector, now_ms);
}

/*
 * Whether the request was sent on an existing connection and got no response. libcurl may keep
 * using that connection. If the peer has closed its sending side but still reads, libcurl may never
 * notice that.
 */
static bool
connection_is_stale(const struct resource_watch *s)
{
	long made = 0;

	curl_easy_getinfo(s->easy, CURLINFO_NUM_CONNECTS, &made);
	return s->reached && !s->status && made == 0;
}

void
resource_watch_finish(struct resource_watch *s, int64_t now_ms, CURLcode code)
{
	struct api_source *w = s->watch;
	curl_off_t after_s = 0;

	count_received(s);
	if (!s->status)
		count_request(s);
	s->unanswered = !s->status;
	bool own = code == CURLE_WRITE_ERROR && (s->malformed || s->error_code || s->went_back);
	response_objects_end(s, code == CURLE_OK);
	curl_easy_getinfo(s->easy, CURLINFO_RETRY_AFTER, &after_s);
	struct reflector_end end = {
		.status = s->status,
		.unreached = is_unreached(s, code),
		.broken = code != CURLE_OK && !own,
		.malformed = s->malformed,
		.went_back = s->went_back,
		.error_code = s->error_code,
		.too_large = s->too_large,
		.token = s->token,
		.retry_after_ms = after_s > 0 ? (int64_t)after_s * 1000 : -1,
		.new_token =
		    s->status == 401 && api_credentials_token_refresh(&w->server, now_ms, true),
	};
	if (end.unreached)
		server_is_away(w, now_ms);
	w->stale = w->stale || (end.broken && connection_is_stale(s));
	/* The audit reports the failures of its lists (audit.c). */
	if (s->own_sink == NULL)
		report_end(s, own ? CURLE_OK : code, !end.broken && !end.malformed);
	if (reflector_ended(s->reflector, now_ms, &end) && s->wanted) {
		resource_watch_emit(s, EVENT_SYNCED, NULL);
		clear_problem(s);
		if (s->own_sink == NULL)
			log_info("%s: synced, %llu objects by list", s->label,
			    (unsigned long long)s->objects);
	}
	if (end.status == 404 && s->other != NULL)
		try_other_version(s, now_ms);
	for (unsigned i = 0; i < w->count && (end.broken || !end.status); i++)
		reflector_doubt(w->streams[i].reflector);
	curl_multi_remove_handle(w->multi, s->easy);
	api_request_clear(s);
}

/* Ends the request. The next request uses a new connection. */
static void
end_request(struct resource_watch *s, int64_t now_ms, CURLcode code, const char *why)
{
	snprintf(s->curl_error, sizeof s->curl_error, "%s", why);
	s->fresh = true;
	resource_watch_finish(s, now_ms, code);
}

void
resource_watch_break(struct resource_watch *s, int64_t now_ms, const char *why)
{
	end_request(s, now_ms, CURLE_ABORTED_BY_CALLBACK, why);
}

void
resource_watch_late(struct resource_watch *s, int64_t now_ms, const char *why)
{
	end_request(s, now_ms, CURLE_OPERATION_TIMEDOUT, why);
}

void
resource_watch_stop(struct resource_watch *s)
{
	if (!reflector_running(s->reflector))
		return;
	reflector_dropped(s->reflector);
	curl_multi_remove_handle(s->watch->multi, s->easy);
	framer_clear(&s->framer);
	api_request_clear(s);
}

void
resource_watch_init(struct resource_watch *s, struct api_source *w, enum api_resource_id id)
{
	const struct api_resource *resource =
	    id == API_COUNT ? &api_hosts_maps_resource : &api_resources[id];

	*s = (struct resource_watch){
		.watch = w, .id = id, .resource = resource, .keep = resource->keep
	};
	s->label = xstrdup(resource->name);
	s->place = xasprintf("%s/%s", s->resource->group_path, s->resource->name);
	if (s->resource->other_path != NULL)
		s->other = xasprintf("%s/%s", s->resource->other_path, s->resource->name);
	s->selector = xstrdup("");
	s->easy = curl_easy_init();
	if (s->easy == NULL)
		log_fatalx("out of memory");
	response_objects_init(s);
	s->reflector = reflector_new(!s->resource->required);
}

void
resource_watch_select(
    struct resource_watch *s, const char *parameter, const char *prefix, const char *value)
{
	char *plain = xasprintf("%s%s", prefix, value);
	char *escaped = percent_encode(plain);
	char *more = xasprintf("%s&%s=%s", s->selector, parameter, escaped);

	free(escaped);
	free(plain);
	free(s->selector);
	s->selector = more;
}

void
resource_watch_select_namespace(struct resource_watch *s, const char *namespace)
{
	char *escaped = percent_encode(namespace);
	const struct api_resource *of = s->resource;

	free(s->place);
	s->place = xasprintf("%s/namespaces/%s/%s", of->group_path, escaped, of->name);
	if (s->other != NULL) {
		free(s->other);
		s->other = xasprintf("%s/namespaces/%s/%s", of->other_path, escaped, of->name);
	}
	free(escaped);
}

void
resource_watch_clear(struct resource_watch *s)
{
	resource_watch_stop(s);
	response_objects_clear(s);
	curl_easy_cleanup(s->easy);
	reflector_free(s->reflector);
	free(s->label);
	free(s->place);
	free(s->other);
	free(s->selector);
	free(s->problem);
}

/* --- objects of a response --- */

enum {
	JSON_DEPTH = 64,
	OUT_MIN = 64 << 10,
	OUT_KEEP = 1 << 20,
};

static void
set_malformed(struct resource_watch *s, const char *why)
{
	s->malformed = true;
	free(s->why);
	s->why = xstrdup(why);
}

/* Returns a string member by its path, such as "metadata.resourceVersion". Returns NULL if the
 * member is missing or not a string. */
static const char *
string_at(struct json_object *json, const char *first, const char *second, const char *third)
{
	const char *path[] = { first, second, third };

	for (size_t i = 0; i < 3 && path[i] != NULL; i++) {
		struct json_object *value = NULL;

		if (!json_object_is_type(json, json_type_object) ||
		    !json_object_object_get_ex(json, path[i], &value))
			return NULL;
		json = value;
	}
	return json_object_is_type(json, json_type_string) ? json_object_get_string(json) : NULL;
}

static struct json_object *
parse_object(struct resource_watch *s, const char *bytes, size_t len)
{
	json_tokener_reset(s->tokener);
	size_t end;
	struct json_object *json =
	    json_strict_parse(s->tokener, JSON_TOKENER_VALIDATE_UTF8, bytes, len, &end);
	if (json == NULL || end != len || !json_object_is_type(json, json_type_object)) {
		enum json_tokener_error error = json_tokener_get_error(s->tokener);

		set_malformed(s, error == json_tokener_success ? "not a JSON object"
							       : json_tokener_error_desc(error));
		json_object_put(json);
		return NULL;
	}
	return json;
}

/* Returns a buffer for the pruned form of an object of `len` bytes. */
static char *
reserve_pruned(struct api_source *w, size_t len)
{
	if (len <= w->out_max && (w->out_max <= OUT_KEEP || len > OUT_KEEP))
		return w->out;
	w->out_max = len > OUT_MIN ? len : OUT_MIN;
	free(w->out);
	w->out = xmalloc(w->out_max);
	return w->out;
}

static bool
in_namespaces(const struct api_source *w, const struct object *object)
{
	/* Every Namespace is passed on, because the sink needs to know which namespaces exist. */
	if (w->namespaces == NULL || object->kind == OBJECT_NAMESPACE ||
	    object->kind == OBJECT_NODE || object->kind == OBJECT_CONFIGMAP)
		return true;
	for (const char **n = w->namespaces; *n != NULL; n++) {
		if (strcmp(*n, object->namespace) == 0)
			return true;
	}
	return false;
}

/*
 * Passes one object to the sink. Returns 0, or -EBADMSG if the object has another kind. An invalid
 * object is skipped and counted. The previous state of such an object is removed too, because a
 * process that started now would not have it.
 */
static int
hand_on(struct resource_watch *s, struct json_object *json, enum event_type type)
{
	struct object object;
	const char *why = "";
	int error = object_extract(json, s->resource->kind, &object, &why);

	if (error == 0 && object.invalid && type != EVENT_DELETED) {
		if (object.kind == s->resource->object && in_namespaces(s->watch, &object) &&
		    s->wanted)
			resource_watch_emit(s, EVENT_DELETED, &object);
		object_clear(&object);
		error = -EINVAL;
	}
	if (error == -EINVAL) {
		const char *ns = string_at(json, "metadata", "namespace", NULL),
			   *name = string_at(json, "metadata", "name", NULL);

		s->rejected++;
		log_neterr("%s %s/%s: %s; ignored", s->resource->name, ns != NULL ? ns : "",
		    name != NULL ? name : "?", why);
		return 0;
	}
	if (error || object.kind != s->resource->object) {
		if (error == 0)
			object_clear(&object);
		set_malformed(s, "an object of another kind");
		return -EBADMSG;
	}
	if (s->watch->external)
		object_read_external(json, &object, &why);
	if (s->watch->imports)
		object_read_import_labels(json, &object, &why);
	if (in_namespaces(s->watch, &object) && s->wanted)
		resource_watch_emit(s, type, &object);
	object_clear(&object);
	return 0;
}

/* The sink ignores an added object of a listing if its version is the same as before. After versions
 * have gone back, the same version does not mean the same content. */
static enum event_type
listed_type(const struct resource_watch *s)
{
	return reflector_new_epoch(s->reflector) ? EVENT_MODIFIED : EVENT_ADDED;
}

static const char no_kind[] = "a list without a kind";

static int
list_item(void *arg, const char *bytes, size_t len)
{
	struct resource_watch *s = arg;

	if (reflector_phase(s->reflector) == REFLECTOR_PROBE)
		return 0; /* the items of a probe are ignored */
	if (!reflector_at_version(s->reflector)) {
		set_malformed(s, "a list at another version than requested");
		return -EBADMSG;
	}
	char *out = reserve_pruned(s->watch, len);
	size_t trimmed = json_prune_object(s->keep, bytes, len, out);
	if (!trimmed) {
		set_malformed(s, "a malformed object");
		return -EBADMSG;
	}
	struct json_object *json = parse_object(s, out, trimmed);
	if (json == NULL)
		return -EBADMSG;
	/* A list of custom resources names its kind after its items, but each item has its own kind. */
	int error = -EBADMSG;
	if (s->kind_seen || string_at(json, "kind", NULL, NULL) != NULL)
		error = hand_on(s, json, listed_type(s));
	else
		set_malformed(s, no_kind);
	json_object_put(json);
	s->objects++;
	return error;
}

static int
list_head(void *arg, const char *key, const char *bytes, size_t len)
{
	struct resource_watch *s = arg;

	if (strcmp(key, "kind") == 0) {
		size_t n = strlen(s->resource->list_kind);

		s->kind_seen = len == n + 2 && memcmp(bytes + 1, s->resource->list_kind, n) == 0;
		if (s->kind_seen)
			return 0;
		free(s->why);
		s->malformed = true;
		s->why = xasprintf(
		    "not a %s but a %.*s", s->resource->list_kind, len < 66 ? (int)len : 66, bytes);
		return -EBADMSG;
	}
	struct json_object *json = parse_object(s, bytes, len);
	if (json == NULL)
		return -EBADMSG;
	reflector_page(s->reflector, string_at(json, "resourceVersion", NULL, NULL),
	    string_at(json, "continue", NULL, NULL));
	json_object_put(json);
	return 0;
}

/* Reads a Status: its message, `continue` token and code, and whether it says that the version is
 * too large. */
static void
read_status(struct resource_watch *s, struct json_object *json)
{
	const char *message = string_at(json, "message", NULL, NULL),
		   *token = string_at(json, "metadata", "continue", NULL);
	struct json_object *code = NULL, *details = NULL, *causes = NULL;

	free(s->why);
	s->why = xstrdup(message != NULL ? message : "");
	free(s->token);
	s->token = token != NULL ? xstrdup(token) : NULL;
	if (json_object_object_get_ex(json, "code", &code) &&
	    json_object_is_type(code, json_type_int))
		s->error_code = json_object_get_int(code);
	s->too_large = strcasestr(s->why, "too large resource version") != NULL;
	if (json_object_object_get_ex(json, "details", &details) &&
	    json_object_is_type(details, json_type_object) &&
	    json_object_object_get_ex(details, "causes", &causes) &&
	    json_object_is_type(causes, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(causes); i++) {
			const char *reason =
			    string_at(json_object_array_get_idx(causes, i), "reason", NULL, NULL);

			s->too_large =
			    s->too_large ||
			    (reason != NULL && strcmp(reason, "ResourceVersionTooLarge") == 0);
		}
	}
}

static int
event_error(struct resource_watch *s, struct json_object *json)
{
	read_status(s, json);
	if (s->error_code == 0)
		s->error_code = 500;
	return -ECANCELED; /* no more events follow */
}

static void
note_went_back(struct resource_watch *s, const char *version)
{
	s->went_back = true;
	log_warnx(
	    "%s: the API server sent version %s, which is older than an earlier one: its data "
	    "was restored from a backup, or it is broken: listing everything again",
	    s->label, version);
}

static int
event_object(struct resource_watch *s, struct json_object *json, enum api_event type)
{
	const char *mark = NULL, *version = string_at(json, "metadata", "resourceVersion", NULL);

	if (type == API_EVENT_BOOKMARK) {
		const char *kind = string_at(json, "kind", NULL, NULL);

		if (kind != NULL && strcmp(kind, s->resource->kind) != 0) {
			set_malformed(s, "a bookmark of another kind");
			return -EBADMSG;
		}
		mark = string_at(json, "metadata", "annotations", "k8s.io/initial-events-end");
	}
	bool end_mark = mark != NULL && strcmp(mark, "true") == 0;
	if (reflector_goes_back(s->reflector, version, end_mark)) {
		note_went_back(s, version);
		return -ECANCELED;
	}
	enum event_type meaning = type == API_EVENT_DELETED    ? EVENT_DELETED
				  : type == API_EVENT_MODIFIED ? EVENT_MODIFIED
							       : listed_type(s);
	int error = type == API_EVENT_BOOKMARK ? 0 : hand_on(s, json, meaning);
	if (error)
		return error;
	s->objects += reflector_listing(s->reflector) && type != API_EVENT_BOOKMARK;
	enum reflector_event event = type == API_EVENT_ADDED      ? REFLECTOR_ADDED
				     : type == API_EVENT_BOOKMARK ? REFLECTOR_BOOKMARK
								  : REFLECTOR_CHANGED;
	if (reflector_event(s->reflector, clock_mono_ms(), event, version, end_mark) && s->wanted) {
		resource_watch_emit(s, EVENT_SYNCED, NULL);
		log_info("%s: synced, %llu objects by watch list", s->label,
		    (unsigned long long)s->objects);
	}
	if (!reflector_listing(s->reflector))
		clear_problem(s);
	return 0;
}

static int
watch_item(void *arg, const char *bytes, size_t len)
{
	struct resource_watch *s = arg;
	struct json_prune_event event;

	if (json_prune_event(s->keep, bytes, len, reserve_pruned(s->watch, len), &event) != 0) {
		set_malformed(s, "a malformed event");
		return -EBADMSG;
	}
	enum api_event type = 0;
	while (type < API_EVENT_COUNT && strcmp(event.type, api_event_names[type]) != 0)
		type++;
	if (type == API_EVENT_COUNT) {
		set_malformed(s, "an event of an unknown type");
		return -EBADMSG;
	}
	s->last_event = clock_wall_s();
	s->events[type]++;
	struct json_object *json = parse_object(s, event.object, event.object_len);
	if (json == NULL)
		return -EBADMSG;
	int error = type == API_EVENT_ERROR ? event_error(s, json) : event_object(s, json, type);
	json_object_put(json);
	return error;
}

static void
response_objects_init(struct resource_watch *s)
{
	s->tokener = json_strict_new(JSON_DEPTH);
}

static void
response_objects_begin(struct resource_watch *s)
{
	bool events = s->verb == API_VERB_WATCH;
	struct framer_sink sink = { .arg = s };

	sink.item = events ? watch_item : list_item;
	sink.head = list_head;
	framer_init(
	    &s->framer, events ? FRAMER_EVENTS : FRAMER_LIST, RESOURCE_STREAM_OBJECT_MAX, &sink);
}

/* Stores the body of a response whose status is not 200, up to the size of a Status. */
static void
keep_body(struct resource_watch *s, const char *bytes, size_t len)
{
	size_t more = len < RESOURCE_STREAM_BODY_MAX - s->body_len
			  ? len
			  : RESOURCE_STREAM_BODY_MAX - s->body_len;

	s->body = xreallocarray(s->body, s->body_len + more + 1, 1);
	memcpy(s->body + s->body_len, bytes, more);
	s->body_len += more;
	s->body[s->body_len] = '\0';
}

static int
response_objects_take(struct resource_watch *s, const char *bytes, size_t len)
{
	if (s->status != 200) {
		keep_body(s, bytes, len);
		return 0;
	}
	int error = framer_feed(&s->framer, bytes, len);
	if (error && error != -ECANCELED && !s->malformed)
		set_malformed(s, s->framer.why);
	return error;
}

/* Reads the Status object in a response whose status is not 200. */
static void
read_kept(struct resource_watch *s)
{
	if (s->body == NULL || *s->body != '{')
		return;
	bool was = s->malformed;
	struct json_object *json = parse_object(s, s->body, strlen(s->body));
	s->malformed = was;
	if (json != NULL) {
		read_status(s, json);
		json_object_put(json);
	}
	s->error_code = 0;
}

static void
response_objects_end(struct resource_watch *s, bool whole)
{
	if (s->status == 200 && !s->malformed && !s->error_code && whole) {
		if (framer_end(&s->framer) != 0)
			set_malformed(s, s->framer.why);
		else if (s->verb == API_VERB_LIST && !s->kind_seen)
			set_malformed(s, no_kind);
	}
	framer_clear(&s->framer);
	if (s->status && s->status != 200)
		read_kept(s);
}

static void
response_objects_forget(struct resource_watch *s)
{
	s->error_code = 0;
	s->kind_seen = s->malformed = s->too_large = s->went_back = false;
	free(s->why);
	free(s->token);
	free(s->body);
	s->why = s->token = s->body = NULL;
	s->body_len = 0;
}

static void
response_objects_clear(struct resource_watch *s)
{
	response_objects_forget(s);
	framer_clear(&s->framer);
	json_tokener_free(s->tokener);
}
