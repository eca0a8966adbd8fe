#include "kubedns/api/response_objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "kubedns/api/resource_watch.h"
#include "kubedns/cluster/object_external.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/xalloc.h"

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
parse_object(struct resource_watch *s, const char *bytes, size_t len)
{
	json_tokener_reset(s->tokener);
	struct json_object *json = json_tokener_parse_ex(s->tokener, bytes, (int)len);
	if (!json || json_tokener_get_parse_end(s->tokener) != len ||
	    !json_object_is_type(json, json_type_object)) {
		enum json_tokener_error error = json_tokener_get_error(s->tokener);
		set_malformed(s, error == json_tokener_success ? "not a JSON object"
							       : json_tokener_error_desc(error));
		json_object_put(json);
		return NULL;
	}
	return json;
}

/* Room for the pruned form of an object of `len` bytes. */
static char *
room_for_pruned(struct api_source *w, size_t len)
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
	/* A Namespace is handed on whatever its name: the sink wants to know which exist. */
	if (!w->namespaces || object->kind == OBJECT_NAMESPACE || object->kind == OBJECT_NODE ||
	    object->kind == OBJECT_CONFIGMAP)
		return true;
	for (const char **n = w->namespaces; *n; n++) {
		if (strcmp(*n, object->namespace) == 0)
			return true;
	}
	return false;
}

/*
 * Hands one object on; 0, or -EBADMSG if it is not of our kind. An invalid one is left out and
 * counted; what was known of it is taken away, as a process that starts now would not know it.
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
		log_neterr("%s %s/%s: %s; left out", s->resource->name, ns ? ns : "",
		    name ? name : "?", why);
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

static const char no_kind[] = "a list that does not say what it is";

static int
list_item(void *arg, const char *bytes, size_t len)
{
	struct resource_watch *s = arg;
	if (reflector_phase(s->reflector) == REFLECTOR_PROBE)
		return 0; /* not looked at */
	char *out = room_for_pruned(s->watch, len);
	size_t trimmed = json_prune_object(s->keep, bytes, len, out);
	if (!trimmed) {
		set_malformed(s, "a malformed object");
		return -EBADMSG;
	}
	struct json_object *json = parse_object(s, out, trimmed);
	if (!json)
		return -EBADMSG;
	/* A list of custom resources says its kind behind its items, but each of them says its own. */
	int error = -EBADMSG;
	if (s->kind_seen || string_at(json, "kind", NULL, NULL))
		error = hand_on(s, json, EVENT_ADDED);
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
	if (!json)
		return -EBADMSG;
	reflector_page(s->reflector, string_at(json, "resourceVersion", NULL, NULL),
	    string_at(json, "continue", NULL, NULL));
	json_object_put(json);
	return 0;
}

/* Reads a Status: its message, and what it means for the version. */
static void
read_status(struct resource_watch *s, struct json_object *json)
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
event_error(struct resource_watch *s, struct json_object *json)
{
	read_status(s, json);
	if (s->error_code == 0)
		s->error_code = 500;
	return -ECANCELED; /* nothing comes after it */
}

static int
event_object(struct resource_watch *s, struct json_object *json, enum api_event type)
{
	static const enum event_type types[] = { [API_EVENT_ADDED] = EVENT_ADDED,
		[API_EVENT_MODIFIED] = EVENT_MODIFIED,
		[API_EVENT_DELETED] = EVENT_DELETED };
	int error = type == API_EVENT_BOOKMARK ? 0 : hand_on(s, json, types[type]);
	if (error)
		return error;
	const char *mark = NULL;
	if (type == API_EVENT_BOOKMARK) {
		const char *kind = string_at(json, "kind", NULL, NULL);
		if (kind && strcmp(kind, s->resource->kind) != 0) {
			set_malformed(s, "a bookmark of another kind");
			return -EBADMSG;
		}
		mark = string_at(json, "metadata", "annotations", "k8s.io/initial-events-end");
	}
	s->objects += reflector_listing(s->reflector) && type != API_EVENT_BOOKMARK;
	enum reflector_event event = type == API_EVENT_ADDED      ? REFLECTOR_ADDED
				     : type == API_EVENT_BOOKMARK ? REFLECTOR_BOOKMARK
								  : REFLECTOR_CHANGED;
	if (reflector_event(s->reflector, clock_mono_ms(), event,
		string_at(json, "metadata", "resourceVersion", NULL),
		mark && strcmp(mark, "true") == 0) &&
	    s->wanted) {
		resource_watch_emit(s, EVENT_SYNCED, NULL);
		log_info("%s: synced, %llu objects by watch list", s->label,
		    (unsigned long long)s->objects);
	}
	return 0;
}

static int
watch_item(void *arg, const char *bytes, size_t len)
{
	struct resource_watch *s = arg;
	struct json_prune_event event;
	if (json_prune_event(s->keep, bytes, len, room_for_pruned(s->watch, len), &event) != 0) {
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
	if (!json)
		return -EBADMSG;
	int error = type == API_EVENT_ERROR ? event_error(s, json) : event_object(s, json, type);
	json_object_put(json);
	return error;
}

void
response_objects_init(struct resource_watch *s)
{
	s->tokener = json_tokener_new_ex(JSON_DEPTH);
	if (!s->tokener)
		log_fatalx("out of memory");
	json_tokener_set_flags(s->tokener,
	    JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8 | JSON_TOKENER_ALLOW_TRAILING_CHARS);
}

void
response_objects_begin(struct resource_watch *s)
{
	bool events = s->verb == API_VERB_WATCH;
	struct framer_sink sink = { .arg = s };
	sink.item = events ? watch_item : list_item;
	sink.head = list_head;
	framer_init(
	    &s->framer, events ? FRAMER_EVENTS : FRAMER_LIST, RESOURCE_STREAM_OBJECT_MAX, &sink);
}

/* Keeps the body of an answer that is not 200, up to the size of a Status. */
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

int
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

/* The Status of an answer that is no 200. */
static void
read_kept(struct resource_watch *s)
{
	if (!s->body || *s->body != '{')
		return;
	bool was = s->malformed;
	struct json_object *json = parse_object(s, s->body, strlen(s->body));
	s->malformed = was;
	if (json) {
		read_status(s, json);
		json_object_put(json);
	}
	s->error_code = 0;
}

void
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

void
response_objects_forget(struct resource_watch *s)
{
	s->error_code = 0;
	s->kind_seen = s->malformed = s->too_large = false;
	free(s->why);
	free(s->token);
	free(s->body);
	s->why = s->token = s->body = NULL;
	s->body_len = 0;
}

void
response_objects_clear(struct resource_watch *s)
{
	response_objects_forget(s);
	framer_clear(&s->framer);
	json_tokener_free(s->tokener);
}
