#include "kubedns/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/log.h"
#include "lib/xalloc.h"

enum {
	JSON_DEPTH = 64,
	OUT_MIN = 64 << 10,
	OUT_KEEP = 1 << 20,
	RECEIVE_BUFFER = 64 << 10,
	WAKE_JITTER_MS = 500,
};

static void
malformed(struct stream *s, const char *why)
{
	s->malformed = true;
	free(s->why);
	s->why = xstrdup(why);
}

/*
 * A member by its path "metadata.resourceVersion" as a string; NULL if it is not there or no
 * string.
 */
static const char *
string_at(struct json_object *json, const char *first, const char *second, const char *third)
{
	const char *path[] = { first, second, third };
	for (size_t i = 0; i < 3 && path[i]; i++) {
		struct json_object *value = NULL;
		if (!json_object_is_type(json, json_type_object) ||
		    !json_object_object_get_ex(json, path[i], &value))
			return NULL;
		json = value;
	}
	return json_object_is_type(json, json_type_string) ? json_object_get_string(json) : NULL;
}

static struct json_object *
parse(struct stream *s, const char *bytes, size_t len)
{
	json_tokener_reset(s->tokener);
	struct json_object *json = json_tokener_parse_ex(s->tokener, bytes, (int)len);
	if (!json || json_tokener_get_parse_end(s->tokener) != len ||
	    !json_object_is_type(json, json_type_object)) {
		enum json_tokener_error error = json_tokener_get_error(s->tokener);
		malformed(s, error == json_tokener_success ? "not a JSON object"
							   : json_tokener_error_desc(error));
		json_object_put(json);
		return NULL;
	}
	return json;
}

/* Room for an object of `len` bytes to be trimmed into. */
static char *
room(struct watch *w, size_t len)
{
	if (len <= w->out_max && (w->out_max <= OUT_KEEP || len > OUT_KEEP))
		return w->out;
	w->out_max = len > OUT_MIN ? len : OUT_MIN;
	free(w->out);
	w->out = xmalloc(w->out_max);
	return w->out;
}

static bool
in_namespaces(const struct watch *w, const struct object *object)
{
	const char *name = object->kind == OBJECT_NAMESPACE ? object->name : object->namespace;
	if (!w->namespaces || object->kind == OBJECT_NODE || object->kind == OBJECT_CONFIGMAP)
		return true;
	for (const char **n = w->namespaces; *n; n++) {
		if (strcmp(*n, name) == 0)
			return true;
	}
	return false;
}

static void
tell(struct stream *s, enum event_type type, const struct object *object)
{
	s->watch->sink(s->watch->arg, s->resource->object, type, object);
	s->watch->told = true;
}

/*
 * Hands one object on; 0, or -EBADMSG if it is not of our kind. One that makes no sense is left
 * out, and counted.
 */
static int
hand_on(struct stream *s, struct json_object *json, enum event_type type)
{
	struct object object;
	const char *why = "";
	int error = object_extract(json, s->resource->kind, &object, &why);
	if (error == -EINVAL) {
		const char *ns = string_at(json, "metadata", "namespace", NULL),
			   *name = string_at(json, "metadata", "name", NULL);
		s->rejected++;
		log_neterr("%s %s/%s: %s; left out", s->resource->name, ns ? ns : "",
		    name ? name : "?", why);
		return 0;
	}
	if (error || object.kind != s->resource->object) {
		if (error == 0)
			object_clear(&object);
		malformed(s, "an object of another kind");
		return -EBADMSG;
	}
	if (in_namespaces(s->watch, &object) && s->wanted)
		tell(s, type, &object);
	object_clear(&object);
	return 0;
}

static int
list_item(void *arg, const char *bytes, size_t len)
{
	struct stream *s = arg;
	if (!s->kind_seen) {
		malformed(s, "a list that does not say what it is");
		return -EBADMSG;
	}
	if (s->reflector.phase == REFLECTOR_PROBE)
		return 0;
	char *out = room(s->watch, len);
	size_t trimmed = trim_object(s->keep, bytes, len, out);
	if (!trimmed) {
		malformed(s, "a malformed object");
		return -EBADMSG;
	}
	struct json_object *json = parse(s, out, trimmed);
	if (!json)
		return -EBADMSG;
	int error = hand_on(s, json, EVENT_ADDED);
	json_object_put(json);
	s->objects++;
	return error;
}

static int
list_head(void *arg, const char *key, const char *bytes, size_t len)
{
	struct stream *s = arg;
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
	struct json_object *json = parse(s, bytes, len);
	if (!json)
		return -EBADMSG;
	reflector_page(&s->reflector, string_at(json, "resourceVersion", NULL, NULL),
	    string_at(json, "continue", NULL, NULL));
	json_object_put(json);
	return 0;
}

/* What a Status says: why, and what it means for the version. */
static void
read_status(struct stream *s, struct json_object *json)
{
	const char *message = string_at(json, "message", NULL, NULL),
		   *token = string_at(json, "metadata", "continue", NULL);
	struct json_object *code = NULL, *details = NULL, *causes = NULL;
	free(s->why);
	s->why = xstrdup(message ? message : "");
	free(s->token);
	s->token = token ? xstrdup(token) : NULL;
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
			s->too_large = s->too_large ||
				       (reason && strcmp(reason, "ResourceVersionTooLarge") == 0);
		}
	}
}

static int
event_error(struct stream *s, struct json_object *json)
{
	read_status(s, json);
	if (s->error_code == 0)
		s->error_code = 500;
	return -ECANCELED; /* nothing comes after it */
}

static int
event_object(struct stream *s, struct json_object *json, enum stream_event type)
{
	static const enum event_type types[] = { [STREAM_ADDED] = EVENT_ADDED,
		[STREAM_MODIFIED] = EVENT_MODIFIED,
		[STREAM_DELETED] = EVENT_DELETED };
	int error = type == STREAM_BOOKMARK ? 0 : hand_on(s, json, types[type]);
	if (error)
		return error;
	const char *mark = NULL;
	if (type == STREAM_BOOKMARK) {
		const char *kind = string_at(json, "kind", NULL, NULL);
		if (kind && strcmp(kind, s->resource->kind) != 0) {
			malformed(s, "a bookmark of another kind");
			return -EBADMSG;
		}
		mark = string_at(json, "metadata", "annotations", "k8s.io/initial-events-end");
	}
	s->objects += s->reflector.listing && type != STREAM_BOOKMARK;
	enum reflector_event event = type == STREAM_ADDED      ? REFLECTOR_ADDED
				     : type == STREAM_BOOKMARK ? REFLECTOR_BOOKMARK
							       : REFLECTOR_CHANGED;
	if (reflector_event(&s->reflector, watch_now_ms(), event,
		string_at(json, "metadata", "resourceVersion", NULL),
		mark && strcmp(mark, "true") == 0) &&
	    s->wanted) {
		tell(s, EVENT_SYNCED, NULL);
		log_info("%s: synced, %llu objects by watch list", s->resource->name,
		    (unsigned long long)s->objects);
	}
	return 0;
}

static int
watch_item(void *arg, const char *bytes, size_t len)
{
	struct stream *s = arg;
	struct trim_event event;
	if (trim_event(s->keep, bytes, len, room(s->watch, len), &event) != 0) {
		malformed(s, "a malformed event");
		return -EBADMSG;
	}
	enum stream_event type = 0;
	while (type < STREAM_EVENT_COUNT && strcmp(event.type, stream_event_names[type]) != 0)
		type++;
	if (type == STREAM_EVENT_COUNT) {
		malformed(s, "an event of an unknown type");
		return -EBADMSG;
	}
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME_COARSE, &ts);
	s->last_event = (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
	s->events[type]++;
	struct json_object *json = parse(s, event.object, event.object_len);
	if (!json)
		return -EBADMSG;
	int error = type == STREAM_ERROR ? event_error(s, json) : event_object(s, json, type);
	json_object_put(json);
	return error;
}

static void
count_received(struct stream *s)
{
	curl_off_t now = 0;
	curl_easy_getinfo(s->easy, CURLINFO_SIZE_DOWNLOAD_T, &now);
	if (now > s->received)
		s->watch->received_bytes += (uint64_t)(now - s->received);
	s->received = now;
}

static void
count_request(struct stream *s)
{
	unsigned code = 0;
	while (code < CODE_OTHER && stream_codes[code] != s->status)
		code++;
	s->requests[s->verb][s->status ? code : CODE_NONE]++;
}

static void
solved(struct stream *s)
{
	struct watch *w = s->watch;
	if (w->server_problem) {
		log_info("api %s: answers", w->cluster.shown_url);
		free(w->server_problem);
		w->server_problem = NULL;
	}
	if (s->problem && s->problem_local)
		log_info("%s: %s works again", s->resource->name,
		    s->verb == VERB_WATCH ? "watch" : "list");
	free(s->problem);
	s->problem = NULL;
}

/* The server is there again: those that wait because it was not need not wait longer. */
static void
wake_others(const struct stream *s)
{
	struct stream *streams = s->watch->streams;
	int64_t soon = watch_now_ms() + backoff_jitter(WAKE_JITTER_MS);
	for (unsigned i = 0; i < RESOURCE_COUNT; i++) {
		if (streams[i].unanswered && streams[i].reflector.due_ms > soon)
			streams[i].reflector.due_ms = soon;
	}
}

/* The status line and all headers are there. */
static void
answered(struct stream *s)
{
	static const struct framer_sink none;
	long status = 0;
	curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status < 200 || s->status)
		return;
	s->status = (int)status;
	count_request(s);
	if (status != 200)
		return;
	wake_others(s);
	struct framer_sink sink = none;
	bool events = s->verb == VERB_WATCH;
	sink.arg = s;
	sink.item = events ? watch_item : list_item;
	sink.head = list_head;
	framer_init(&s->framer, events ? FRAMER_EVENTS : FRAMER_LIST, STREAM_OBJECT_MAX, &sink);
	if (!reflector_answered(&s->reflector, watch_now_ms()) || !s->wanted)
		return;
	s->objects = 0;
	if (s->id == RESOURCE_SLICES && s->watch->streams[RESOURCE_ENDPOINTS].wanted) {
		/* Its events must not mix with ours; the request is ended by the next turn. */
		s->watch->streams[RESOURCE_ENDPOINTS].wanted = false;
		log_info("endpointslices: allowed again; Endpoints are no longer used");
	}
	tell(s, EVENT_LISTING, NULL);
}

static size_t
on_header(char *line, size_t size, size_t count, void *arg)
{
	if (size * count <= 2 && (*line == '\r' || *line == '\n'))
		answered(arg);
	return size * count;
}

static size_t
on_body(char *bytes, size_t size, size_t count, void *arg)
{
	struct stream *s = arg;
	size_t len = size * count;
	count_received(s);
	if (s->status != 200) {
		size_t more =
		    len < STREAM_BODY_MAX - s->body_len ? len : STREAM_BODY_MAX - s->body_len;
		s->body = xreallocarray(s->body, s->body_len + more + 1, 1);
		memcpy(s->body + s->body_len, bytes, more);
		s->body_len += more;
		s->body[s->body_len] = '\0';
		return len;
	}
	reflector_progress(&s->reflector, watch_now_ms());
	int error = framer_feed(&s->framer, bytes, len);
	if (error && error != -ECANCELED && !s->malformed)
		malformed(s, s->framer.why);
	if (!s->malformed && !error && s->problem)
		solved(s);
	return error ? CURL_WRITEFUNC_ERROR : len;
}

static void
forget_request(struct stream *s)
{
	s->status = s->error_code = 0;
	s->kind_seen = s->malformed = s->too_large = false;
	free(s->why);
	free(s->token);
	free(s->body);
	s->why = s->token = s->body = NULL;
	s->body_len = 0;
	s->received = 0;
	s->curl_error[0] = '\0';
}

void
stream_start(struct stream *s, int64_t now_ms)
{
	struct watch *w = s->watch;
	const char *verb = NULL;
	char *query = reflector_query(&s->reflector, now_ms, &verb);
	char *url = xasprintf("%s%s?%s%s", w->cluster.url, s->place, query, s->selector);
	forget_request(s);
	s->verb = *verb == 'w' ? VERB_WATCH : VERB_LIST;
	curl_easy_reset(s->easy);
	curl_easy_setopt(s->easy, CURLOPT_URL, url);
	curl_easy_setopt(s->easy, CURLOPT_PRIVATE, s);
	curl_easy_setopt(s->easy, CURLOPT_ERRORBUFFER, s->curl_error);
	curl_easy_setopt(s->easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(s->easy, CURLOPT_HEADERDATA, s);
	curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
	curl_easy_setopt(s->easy, CURLOPT_BUFFERSIZE, (long)RECEIVE_BUFFER);
	request_options(s);
	s->fresh = false;
	log_debug("%s: %s %s", s->resource->name, verb, url);
	if (curl_multi_add_handle(w->multi, s->easy) != CURLM_OK)
		log_fatalx("out of memory");
	free(query);
	free(url);
}

/* Says once what is wrong: a problem of the server as a whole in one line for all resources. */
static void
problem(struct stream *s, char *text, bool local)
{
	struct watch *w = s->watch;
	bool known = s->problem && strcmp(s->problem, text) == 0;
	free(s->problem);
	s->problem = text;
	s->problem_local = local;
	if (local && !known) {
		log_warnx("api %s: %s: %s", w->cluster.shown_url, s->resource->name, text);
	} else if (!local && (!w->server_problem || strcmp(w->server_problem, text) != 0)) {
		log_warnx("api %s: %s", w->cluster.shown_url, text);
		free(w->server_problem);
		w->server_problem = xstrdup(text);
	}
}

/* What a request that is over leaves to be said. */
static void
report(struct stream *s, CURLcode code, bool clean)
{
	bool refused = s->status == 400 || s->status == 422;
	if (refused && s->reflector.phase == REFLECTOR_WATCHLIST)
		log_info(
		    "%s: no watch list here (%d); listing in pages", s->resource->name, s->status);
	else if (s->status == 410 || s->too_large)
		log_info(
		    "%s: %s", s->resource->name, s->why && *s->why ? s->why : "version expired");
	else if (s->status && s->status != 200)
		problem(s, explain_status(s), true);
	else if (s->error_code)
		log_info("%s: watch ended by the server: %d %s", s->resource->name, s->error_code,
		    s->why);
	else if (s->malformed)
		problem(s,
		    xasprintf("%s: malformed answer: %s; keeping what is known, trying again",
			s->verb == VERB_WATCH ? "watch" : "list", s->why),
		    true);
	else if (code != CURLE_OK)
		problem(s, explain_transport(s, code), false);
	else if (clean)
		solved(s);
}

/* Reads the Status of an answer that is no 200. */
static void
read_body(struct stream *s)
{
	if (!s->body || *s->body != '{')
		return;
	bool was = s->malformed;
	struct json_object *json = parse(s, s->body, strlen(s->body));
	s->malformed = was;
	if (json) {
		read_status(s, json);
		json_object_put(json);
	}
	s->error_code = 0;
}

void
stream_finish(struct stream *s, int64_t now_ms, CURLcode code)
{
	struct watch *w = s->watch;
	curl_off_t after_s = 0;
	count_received(s);
	if (!s->status)
		count_request(s);
	s->unanswered = !s->status;
	bool own = code == CURLE_WRITE_ERROR && (s->malformed || s->error_code);
	if (s->status == 200 && !s->malformed && !s->error_code && framer_end(&s->framer) != 0) {
		if (code == CURLE_OK)
			malformed(s, s->framer.why);
	}
	framer_clear(&s->framer);
	if (s->status && s->status != 200)
		read_body(s);
	curl_easy_getinfo(s->easy, CURLINFO_RETRY_AFTER, &after_s);
	struct reflector_end end = {
		.status = s->status,
		.broken = code != CURLE_OK && !own,
		.malformed = s->malformed,
		.error_code = s->error_code,
		.too_large = s->too_large,
		.token = s->token,
		.retry_after_ms = after_s > 0 ? (int64_t)after_s * 1000 : -1,
		.new_token = s->status == 401 && cluster_token_refresh(&w->cluster, now_ms, true),
	};
	report(s, own ? CURLE_OK : code, !end.broken && !end.malformed);
	if (reflector_ended(&s->reflector, now_ms, &end) && s->wanted) {
		tell(s, EVENT_SYNCED, NULL);
		log_info("%s: synced, %llu objects by list", s->resource->name,
		    (unsigned long long)s->objects);
	}
	for (unsigned i = 0; i < RESOURCE_COUNT && (end.broken || !end.status); i++)
		reflector_doubt(&w->streams[i].reflector);
	curl_multi_remove_handle(w->multi, s->easy);
	request_clear(s);
}

void
stream_break(struct stream *s, int64_t now_ms, const char *why)
{
	snprintf(s->curl_error, sizeof(s->curl_error), "%s", why);
	s->fresh = true;
	stream_finish(s, now_ms, CURLE_ABORTED_BY_CALLBACK);
}

void
stream_late(struct stream *s, int64_t now_ms, const char *why)
{
	char text[CURL_ERROR_SIZE];
	snprintf(text, sizeof(text), "%s: %s", s->resource->name, why);
	stream_break(s, now_ms, text);
}

void
stream_stop(struct stream *s)
{
	if (!s->reflector.running)
		return;
	s->reflector.running = false;
	curl_multi_remove_handle(s->watch->multi, s->easy);
	framer_clear(&s->framer);
	request_clear(s);
}

void
stream_init(struct stream *s, struct watch *w, enum resource_id id)
{
	*s = (struct stream){
		.watch = w, .id = id, .resource = &resources[id], .keep = resources[id].keep
	};
	s->place = xasprintf("%s/%s", s->resource->group_path, s->resource->name);
	s->selector = xstrdup("");
	s->easy = curl_easy_init();
	s->tokener = json_tokener_new_ex(JSON_DEPTH);
	if (!s->easy || !s->tokener)
		log_fatalx("out of memory");
	json_tokener_set_flags(s->tokener,
	    JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8 | JSON_TOKENER_ALLOW_TRAILING_CHARS);
	reflector_init(&s->reflector, !s->resource->required);
}

void
stream_clear(struct stream *s)
{
	stream_stop(s);
	forget_request(s);
	curl_easy_cleanup(s->easy);
	json_tokener_free(s->tokener);
	reflector_clear(&s->reflector);
	free(s->place);
	free(s->selector);
	free(s->problem);
}
