#include "kubedns/api/json_prune.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "kubedns/api/jsonscan.h"

enum { ARRAYS_MAX = 8 }; /* arrays in arrays: no kind has any, and each costs a stack frame */

#define KEEP(name)                                                                                 \
	{                                                                                          \
		name, sizeof(name) - 1, NULL, NULL                                                 \
	}
#define WITHIN(name, table)                                                                        \
	{                                                                                          \
		name, sizeof(name) - 1, table, NULL                                                \
	}
#define UNLESS(name, table, text)                                                                  \
	{                                                                                          \
		name, sizeof(name) - 1, table, text                                                \
	}
#define LAST                                                                                       \
	{                                                                                          \
		NULL, 0, NULL, NULL                                                                \
	}

static const struct json_prune_keep annotations[] = {
	KEEP("endpoints.kubernetes.io/last-change-trigger-time"),
	KEEP("service.alpha.kubernetes.io/tolerate-unready-endpoints"),
	KEEP("k8s.io/initial-events-end"), /* of a bookmark */
	LAST,
};

/* The same for all kinds but for the labels. */
#define METADATA(...)                                                                              \
	{                                                                                          \
		KEEP("name"), KEEP("namespace"), KEEP("resourceVersion"),                          \
		    WITHIN("annotations", annotations), __VA_ARGS__ LAST,                          \
	}

static const struct json_prune_keep metadata[] = METADATA();

static const struct json_prune_keep port[] = { KEEP("name"), KEEP("protocol"), KEEP("port"), LAST };

static const struct json_prune_keep service_spec[] = {
	KEEP("type"),
	KEEP("clusterIP"),
	KEEP("clusterIPs"),
	WITHIN("ports", port),
	KEEP("externalName"),
	KEEP("publishNotReadyAddresses"),
	LAST,
};

const struct json_prune_keep json_prune_service[] = { KEEP("kind"), WITHIN("metadata", metadata),
	WITHIN("spec", service_spec), LAST };

static const struct json_prune_keep slice_labels[] = { KEEP("kubernetes.io/service-name"), LAST };
static const struct json_prune_keep slice_metadata[] = METADATA(WITHIN("labels", slice_labels), );
static const struct json_prune_keep conditions[] = { KEEP("ready"), LAST };
static const struct json_prune_keep target[] = { KEEP("kind"), KEEP("name"), LAST };

/*
 * A targetRef costs as much as the rest of an endpoint, and only --endpoint-pod-names needs it. So
 * do conditions, which nearly always say what is meant without them.
 */
#define ENDPOINT(...)                                                                              \
	{                                                                                          \
		KEEP("addresses"), UNLESS("conditions", conditions, "{\"ready\":true}"),           \
		    KEEP("hostname"), __VA_ARGS__ LAST,                                            \
	}
#define SLICE(endpoint)                                                                            \
	{                                                                                          \
		KEEP("kind"), WITHIN("metadata", slice_metadata), KEEP("addressType"),             \
		    WITHIN("endpoints", endpoint), WITHIN("ports", port), LAST,                    \
	}

static const struct json_prune_keep slice_endpoint[] = ENDPOINT();
static const struct json_prune_keep slice_endpoint_pod[] = ENDPOINT(WITHIN("targetRef", target), );

const struct json_prune_keep json_prune_slice[] = SLICE(slice_endpoint);
const struct json_prune_keep json_prune_slice_pods[] = SLICE(slice_endpoint_pod);

static const struct json_prune_keep address[] = { KEEP("ip"), KEEP("hostname"),
	WITHIN("targetRef", target), LAST };

static const struct json_prune_keep subset[] = {
	WITHIN("addresses", address),
	WITHIN("notReadyAddresses", address),
	WITHIN("ports", port),
	LAST,
};

const struct json_prune_keep json_prune_endpoints[] = { KEEP("kind"), WITHIN("metadata", metadata),
	WITHIN("subsets", subset), LAST };

const struct json_prune_keep json_prune_namespace[] = { KEEP("kind"), WITHIN("metadata", metadata),
	LAST };

static const struct json_prune_keep pod_metadata[] = METADATA(KEEP("deletionTimestamp"), );
static const struct json_prune_keep pod_ip[] = { KEEP("ip"), LAST };
static const struct json_prune_keep pod_status[] = { KEEP("phase"), KEEP("podIP"),
	WITHIN("podIPs", pod_ip), LAST };

const struct json_prune_keep json_prune_pod[] = { KEEP("kind"), WITHIN("metadata", pod_metadata),
	WITHIN("status", pod_status), LAST };

static const struct json_prune_keep node_labels[] = {
	KEEP("topology.kubernetes.io/zone"),
	KEEP("topology.kubernetes.io/region"),
	KEEP("failure-domain.beta.kubernetes.io/zone"),
	KEEP("failure-domain.beta.kubernetes.io/region"),
	LAST,
};
static const struct json_prune_keep node_metadata[] = METADATA(WITHIN("labels", node_labels), );

const struct json_prune_keep json_prune_node[] = { KEEP("kind"), WITHIN("metadata", node_metadata),
	LAST };

const struct json_prune_keep json_prune_configmap[] = { KEEP("kind"), WITHIN("metadata", metadata),
	KEEP("data"), LAST };

/*
 * The entry for a key in quotes. One with an escape in it may be any name: json-c shall decide,
 * so it is kept whole.
 */
static const struct json_prune_keep *
find(const struct json_prune_keep *keep, const char *key, size_t len, bool escapes)
{
	static const struct json_prune_keep whole = KEEP("");
	if (escapes)
		return &whole;
	for (; keep->key; keep++) {
		if (keep->len == len && memcmp(keep->key, key, len) == 0)
			return keep;
	}
	return NULL;
}

struct output {
	char *p;
};

static void
put(struct output *out, const char *bytes, size_t len)
{
	memcpy(out->p, bytes, len);
	out->p += len;
}

static const char *json_prune_value(const struct json_prune_keep *keep, const char *p,
    const char *end, unsigned arrays, struct output *out);

/*
 * One `"key": value` at `p`, copied if it is kept; returns the position after it, or NULL.
 * `*first` says whether a comma is due.
 */
static const char *
json_prune_member(const struct json_prune_keep *keep, const char *p, const char *end,
    unsigned arrays, bool *first, struct output *out)
{
	bool escapes = false;
	if (p == end || *p != '"')
		return NULL;
	const char *key = p, *key_end = jsonscan_string(p, end, &escapes);
	if (!key_end)
		return NULL;
	p = jsonscan_space(key_end, end);
	if (p == end || *p != ':')
		return NULL;
	p = jsonscan_space(p + 1, end);
	const struct json_prune_keep *found =
	    find(keep, key + 1, (size_t)(key_end - key) - 2, escapes);
	if (!found)
		return jsonscan_value(p, end);
	struct output before = *out;
	if (!*first)
		put(out, ",", 1);
	put(out, key, (size_t)(key_end - key));
	put(out, ":", 1);
	const char *value = out->p;
	p = json_prune_value(found->inside, p, end, arrays, out);
	if (p && found->unless && (size_t)(out->p - value) == strlen(found->unless) &&
	    memcmp(value, found->unless, strlen(found->unless)) == 0)
		*out = before;
	else
		*first = false;
	return p;
}

/*
 * After a member or an element: the position of the next one, or with `*last` that after the
 * closing bracket; NULL if malformed.
 */
static const char *
next(const char *p, const char *end, char close, bool *last)
{
	p = jsonscan_space(p, end);
	if (p == end || (*p != ',' && *p != close))
		return NULL;
	*last = *p == close;
	return *last ? p + 1 : jsonscan_space(p + 1, end);
}

static const char *
json_prune_members(const struct json_prune_keep *keep, const char *p, const char *end,
    unsigned arrays, struct output *out)
{
	bool last = false, first = true;
	put(out, "{", 1);
	p = jsonscan_space(p + 1, end);
	if (p < end && *p == '}') {
		p++;
		last = true;
	}
	while (p && !last) {
		p = json_prune_member(keep, p, end, arrays, &first, out);
		if (p)
			p = next(p, end, '}', &last);
	}
	if (p)
		put(out, "}", 1);
	return p;
}

static const char *
json_prune_elements(const struct json_prune_keep *keep, const char *p, const char *end,
    unsigned arrays, struct output *out)
{
	bool last = false, first = true;
	if (arrays == ARRAYS_MAX)
		return NULL;
	put(out, "[", 1);
	p = jsonscan_space(p + 1, end);
	if (p < end && *p == ']') {
		p++;
		last = true;
	}
	while (p && !last) {
		if (!first)
			put(out, ",", 1);
		first = false;
		p = json_prune_value(keep, p, end, arrays + 1, out);
		if (p)
			p = next(p, end, ']', &last);
	}
	if (p)
		put(out, "]", 1);
	return p;
}

static const char *
json_prune_value(const struct json_prune_keep *keep, const char *p, const char *end,
    unsigned arrays, struct output *out)
{
	if (keep && p < end && *p == '{')
		return json_prune_members(keep, p, end, arrays, out);
	if (keep && p < end && *p == '[')
		return json_prune_elements(keep, p, end, arrays, out);
	const char *stop = jsonscan_value(p, end);
	if (stop)
		put(out, p, (size_t)(stop - p));
	return stop;
}

size_t
json_prune_object(const struct json_prune_keep *keep, const char *json, size_t len, char *out)
{
	struct output o = { out };
	if (len < 2 || *json != '{')
		return 0;
	const char *stop = json_prune_value(keep, json, json + len, 0, &o);
	return stop == json + len ? (size_t)(o.p - out) : 0;
}

static void
event_type(struct json_prune_event *event, const char *value, const char *stop)
{
	size_t len = *value == '"' ? (size_t)(stop - value) - 2 : 0;
	if (len > sizeof(event->type) - 1)
		len = sizeof(event->type) - 1;
	memcpy(event->type, value + 1, len);
	event->type[len] = '\0';
}

/* The object, read when its type is known: a Status is wanted whole. */
static const char *
event_object(const struct json_prune_keep *keep, const char *p, const char *end, char *out,
    struct json_prune_event *event)
{
	struct output o = { out };
	const char *stop =
	    json_prune_value(strcmp(event->type, "ERROR") == 0 ? NULL : keep, p, end, 0, &o);
	event->object = out;
	event->object_len = stop && *p == '{' ? (size_t)(o.p - out) : 0;
	return stop;
}

int
json_prune_event(const struct json_prune_keep *keep, const char *json, size_t len, char *out,
    struct json_prune_event *event)
{
	const char *end = json + len, *p = jsonscan_space(json + 1, end), *early = NULL;
	bool last = false;
	*event = (struct json_prune_event){ .object = out };
	while (p && !last) {
		const char *key = p, *value = NULL;
		bool escapes = false;
		p = p < end && *p == '"' ? jsonscan_string(p, end, &escapes) : NULL;
		size_t key_len = p ? (size_t)(p - key) : 0;
		p = p ? jsonscan_space(p, end) : NULL;
		if (!p || p == end || *p != ':')
			return -EBADMSG;
		value = jsonscan_space(p + 1, end);
		if (key_len == 8 && memcmp(key, "\"object\"", 8) == 0 && event->type[0]) {
			p = event_object(keep, value, end, out, event);
		} else {
			p = jsonscan_value(value, end);
			if (p && key_len == 6 && memcmp(key, "\"type\"", 6) == 0)
				event_type(event, value, p);
			else if (key_len == 8 && memcmp(key, "\"object\"", 8) == 0)
				early = value;
		}
		p = p ? next(p, end, '}', &last) : NULL;
	}
	if (p && early && event->type[0])
		event_object(keep, early, end, out, event);
	return p && event->type[0] && event->object_len ? 0 : -EBADMSG;
}
