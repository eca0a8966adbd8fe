#include "kubedns/api/json_prune.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "kubedns/api/json_skip.h"
#include "kubedns/cluster/object_fields.h"

/* Limit on nested arrays. No kind has nested arrays, and each level costs a stack frame. */
enum { ARRAYS_MAX = 8 };

/* clang-format off: rows are made by macros */
/* Makes a row from each row of a list in object_fields.h. keep_NAME is the table for the value's members. */
#define KEEP(key, variable, inside) { key, sizeof(key) - 1, keep_##inside },
#define KEEP_WHOLE(key)             { key, sizeof(key) - 1, NULL },
#define KEEP_METADATA(table)        { "metadata", sizeof("metadata") - 1, table },
#define LAST                                                                                       \
	{                                                                                          \
		NULL, 0, NULL                                                                      \
	}
#define keep_whole NULL

static const struct json_prune_keep keep_annotations[] = { ANNOTATIONS_FIELDS(KEEP)
	    KEEP_WHOLE("k8s.io/initial-events-end") /* of a bookmark */
	LAST };
static const struct json_prune_keep metadata[] = { METADATA_FIELDS(KEEP) LAST };
static const struct json_prune_keep keep_port[] = { PORT_FIELDS(KEEP) LAST };

static const struct json_prune_keep keep_service_spec[] = { SERVICE_SPEC_FIELDS(KEEP) LAST };
const struct json_prune_keep json_prune_service[] = { KEEP_WHOLE("kind") KEEP_METADATA(metadata)
	    SERVICE_FIELDS(KEEP) LAST };

/*
 * A targetRef is as large as all other members of an endpoint together, and only
 * --endpoint-pod-names needs it. The conditions are as large as a targetRef, and nearly always have
 * their default value.
 */
static const struct json_prune_keep keep_conditions[] = { CONDITIONS_FIELDS(KEEP) LAST };
static const char conditions_default[] = "{\"ready\":true}";
static const struct json_prune_keep keep_target_ref[] = { TARGET_REF_FIELDS(KEEP) LAST };
static const struct json_prune_keep keep_slice_labels[] = { SLICE_LABELS_FIELDS(KEEP) LAST };
static const struct json_prune_keep slice_metadata[] = { METADATA_FIELDS(KEEP)
	    SLICE_METADATA_FIELDS(KEEP) LAST };
static const struct json_prune_keep endpoint[] = { SLICE_ENDPOINT_FIELDS(KEEP) LAST };
static const struct json_prune_keep endpoint_with_target[] = { SLICE_ENDPOINT_FIELDS(KEEP)
	    ENDPOINT_TARGET_FIELDS(KEEP) LAST };

#define keep_slice_endpoint endpoint
const struct json_prune_keep json_prune_slice[] = { KEEP_WHOLE("kind") KEEP_METADATA(slice_metadata)
	    SLICE_FIELDS(KEEP) LAST };
#undef keep_slice_endpoint
#define keep_slice_endpoint endpoint_with_target
const struct json_prune_keep json_prune_slice_pods[] = { KEEP_WHOLE("kind")
	    KEEP_METADATA(slice_metadata) SLICE_FIELDS(KEEP) LAST };
#undef keep_slice_endpoint

static const struct json_prune_keep keep_hint[] = { HINT_FIELDS(KEEP) LAST };
static const struct json_prune_keep keep_hints[] = { HINTS_FIELDS(KEEP) LAST };
static const struct json_prune_keep endpoint_with_places[] = { SLICE_ENDPOINT_FIELDS(KEEP)
	    ENDPOINT_PLACE_FIELDS(KEEP) LAST };
static const struct json_prune_keep endpoint_with_both[] = { SLICE_ENDPOINT_FIELDS(KEEP)
	    ENDPOINT_TARGET_FIELDS(KEEP) ENDPOINT_PLACE_FIELDS(KEEP) LAST };
#define keep_slice_endpoint endpoint_with_places
const struct json_prune_keep json_prune_slice_places[] = { KEEP_WHOLE("kind")
	    KEEP_METADATA(slice_metadata) SLICE_FIELDS(KEEP) LAST };
#undef keep_slice_endpoint
#define keep_slice_endpoint endpoint_with_both
const struct json_prune_keep json_prune_slice_pods_places[] = { KEEP_WHOLE("kind")
	    KEEP_METADATA(slice_metadata) SLICE_FIELDS(KEEP) LAST };

static const struct json_prune_keep keep_address[] = { ADDRESS_FIELDS(KEEP)
	    ENDPOINT_TARGET_FIELDS(KEEP) LAST };
static const struct json_prune_keep keep_subset[] = { SUBSET_FIELDS(KEEP) LAST };
const struct json_prune_keep json_prune_endpoints[] = { KEEP_WHOLE("kind") KEEP_METADATA(metadata)
	    ENDPOINTS_FIELDS(KEEP) LAST };

#define keep_namespace_labels namespace_labels
static const struct json_prune_keep namespace_labels[] = { NAMESPACE_LABELS_FIELDS(KEEP) LAST };
static const struct json_prune_keep namespace_metadata[] = { METADATA_FIELDS(KEEP)
	    NAMESPACE_METADATA_FIELDS(KEEP) CREATED_METADATA_FIELDS(KEEP) LAST };
#undef keep_namespace_labels
#define keep_namespace_labels NULL
static const struct json_prune_keep namespace_metadata_labels[] = { METADATA_FIELDS(KEEP)
	    NAMESPACE_METADATA_FIELDS(KEEP) CREATED_METADATA_FIELDS(KEEP) LAST };
const struct json_prune_keep json_prune_namespace[] = { KEEP_WHOLE("kind")
	    KEEP_METADATA(namespace_metadata) LAST };
const struct json_prune_keep json_prune_namespace_labels[] = { KEEP_WHOLE("kind")
	    KEEP_METADATA(namespace_metadata_labels) LAST };

static const struct json_prune_keep pod_metadata[] = { METADATA_FIELDS(KEEP)
	    POD_METADATA_FIELDS(KEEP) LAST };
static const struct json_prune_keep keep_pod_ip[] = { POD_IP_FIELDS(KEEP) LAST };
static const struct json_prune_keep keep_pod_spec[] = { POD_SPEC_FIELDS(KEEP) LAST };
static const struct json_prune_keep keep_pod_status[] = { POD_STATUS_FIELDS(KEEP) LAST };
const struct json_prune_keep json_prune_pod[] = { KEEP_WHOLE("kind") KEEP_METADATA(pod_metadata)
	    POD_FIELDS(KEEP) LAST };

static const struct json_prune_keep keep_node_labels[] = { NODE_LABELS_FIELDS(KEEP) LAST };
static const struct json_prune_keep node_metadata[] = { METADATA_FIELDS(KEEP)
	    NODE_METADATA_FIELDS(KEEP) LAST };
const struct json_prune_keep json_prune_node[] = { KEEP_WHOLE("kind") KEEP_METADATA(node_metadata)
	    LAST };

const struct json_prune_keep json_prune_configmap[] = { KEEP_WHOLE("kind") KEEP_METADATA(metadata)
	    CONFIGMAP_FIELDS(KEEP) LAST };
static const struct json_prune_keep hosts_metadata[] = { METADATA_FIELDS(KEEP)
	    CREATED_METADATA_FIELDS(KEEP) LAST };
const struct json_prune_keep json_prune_hosts[] = { KEEP_WHOLE("kind") KEEP_METADATA(hosts_metadata)
	    CONFIGMAP_FIELDS(KEEP) LAST };
/* --- with --clusterset-domain --- */

#undef keep_slice_endpoint
#define keep_slice_labels imported_labels
static const struct json_prune_keep imported_labels[] = { SLICE_LABELS_FIELDS(KEEP)
	    IMPORTED_LABELS_FIELDS(KEEP) LAST };
static const struct json_prune_keep imported_metadata[] = { METADATA_FIELDS(KEEP)
	    SLICE_METADATA_FIELDS(KEEP) LAST };
#undef keep_slice_labels
#define keep_slice_endpoint endpoint
const struct json_prune_keep json_prune_slice_imported[] = { KEEP_WHOLE("kind")
	    KEEP_METADATA(imported_metadata) SLICE_FIELDS(KEEP) LAST };
#undef keep_slice_endpoint
#define keep_slice_endpoint endpoint_with_target
const struct json_prune_keep json_prune_slice_imported_pods[] = { KEEP_WHOLE("kind")
	    KEEP_METADATA(imported_metadata) SLICE_FIELDS(KEEP) LAST };
#undef keep_slice_endpoint
#define keep_slice_endpoint endpoint_with_places
static const struct json_prune_keep slice_imported_places[] = { KEEP_WHOLE("kind")
	    KEEP_METADATA(imported_metadata) SLICE_FIELDS(KEEP) LAST };
#undef keep_slice_endpoint
#define keep_slice_endpoint endpoint_with_both
static const struct json_prune_keep slice_imported_pods_places[] = { KEEP_WHOLE("kind")
	    KEEP_METADATA(imported_metadata) SLICE_FIELDS(KEEP) LAST };

const struct json_prune_keep *
json_prune_slice_for(bool pods, bool imported, bool places)
{
	static const struct json_prune_keep *const tables[2][2][2] = {
		{ { json_prune_slice, json_prune_slice_pods },
		    { json_prune_slice_places, json_prune_slice_pods_places } },
		{ { json_prune_slice_imported, json_prune_slice_imported_pods },
		    { slice_imported_places, slice_imported_pods_places } },
	};

	return tables[imported][places][pods];
}

static const struct json_prune_keep keep_import_spec[] = { IMPORT_SPEC_FIELDS(KEEP) LAST };
const struct json_prune_keep json_prune_import[] = { KEEP_WHOLE("kind") KEEP_METADATA(metadata)
	    IMPORT_FIELDS(KEEP) LAST };

/* --- with --external-zones --- */

static const struct json_prune_keep external_annotations[] = { ANNOTATIONS_FIELDS(KEEP)
	    EXTERNAL_ANNOTATIONS_FIELDS(KEEP) KEEP_WHOLE("k8s.io/initial-events-end") LAST };
#define keep_annotations external_annotations
static const struct json_prune_keep keep_external_labels[] = { EXTERNAL_LABELS_FIELDS(KEEP) LAST };
static const struct json_prune_keep external_metadata[] = { METADATA_FIELDS(KEEP)
	    CREATED_METADATA_FIELDS(KEEP) EXTERNAL_METADATA_FIELDS(KEEP) LAST };
#undef keep_annotations
static const struct json_prune_keep keep_balancer[] = { BALANCER_FIELDS(KEEP) LAST };
static const struct json_prune_keep keep_balanced_status[] = { BALANCED_STATUS_FIELDS(KEEP) LAST };
static const struct json_prune_keep external_service_spec[] = { SERVICE_SPEC_FIELDS(KEEP)
	    SERVICE_EXTERNAL_FIELDS(KEEP) LAST };
#define keep_service_spec external_service_spec
const struct json_prune_keep json_prune_service_external[] = { KEEP_WHOLE("kind")
	    KEEP_METADATA(external_metadata) SERVICE_FIELDS(KEEP) BALANCED_FIELDS(KEEP) LAST };
#undef keep_service_spec

static const struct json_prune_keep keep_ingress_rule[] = { INGRESS_RULE_FIELDS(KEEP) LAST };
static const struct json_prune_keep keep_ingress_spec[] = { INGRESS_SPEC_FIELDS(KEEP) LAST };
const struct json_prune_keep json_prune_ingress[] = { KEEP_WHOLE("kind")
	    KEEP_METADATA(external_metadata) INGRESS_FIELDS(KEEP) BALANCED_FIELDS(KEEP) LAST };

static const struct json_prune_keep keep_listener[] = { LISTENER_FIELDS(KEEP) LAST };
static const struct json_prune_keep keep_gateway_address[] = { GATEWAY_ADDRESS_FIELDS(KEEP) LAST };
static const struct json_prune_keep keep_gateway_spec[] = { GATEWAY_SPEC_FIELDS(KEEP) LAST };
static const struct json_prune_keep keep_gateway_status[] = { GATEWAY_STATUS_FIELDS(KEEP) LAST };
const struct json_prune_keep json_prune_gateway[] = { KEEP_WHOLE("kind")
	    KEEP_METADATA(external_metadata) GATEWAY_FIELDS(KEEP) LAST };

static const struct json_prune_keep keep_parent_ref[] = { PARENT_REF_FIELDS(KEEP) LAST };
static const struct json_prune_keep keep_status_condition[] = { STATUS_CONDITION_FIELDS(KEEP)
	    LAST };
static const struct json_prune_keep keep_listenerset_spec[] = { LISTENERSET_SPEC_FIELDS(KEEP)
	    LAST };
static const struct json_prune_keep keep_listenerset_status[] = { LISTENERSET_STATUS_FIELDS(KEEP)
	    LAST };
const struct json_prune_keep json_prune_listenerset[] = { KEEP_WHOLE("kind")
	    KEEP_METADATA(external_metadata) LISTENERSET_FIELDS(KEEP) LAST };

static const struct json_prune_keep keep_route_parent[] = { ROUTE_PARENT_FIELDS(KEEP) LAST };
static const struct json_prune_keep keep_route_spec[] = { ROUTE_SPEC_FIELDS(KEEP) LAST };
static const struct json_prune_keep keep_route_status[] = { ROUTE_STATUS_FIELDS(KEEP) LAST };
const struct json_prune_keep json_prune_route[] = { KEEP_WHOLE("kind")
	    KEEP_METADATA(external_metadata) ROUTE_FIELDS(KEEP) LAST };
/* clang-format on */

/*
 * Finds the entry for a quoted key. A key with an escape may be any name, so its value is kept
 * whole, and json-c reads it.
 */
static const struct json_prune_keep *
find(const struct json_prune_keep *keep, const char *key, size_t len, bool escapes)
{
	static const struct json_prune_keep whole = { "", 0, NULL };

	if (escapes)
		return &whole;
	for (; keep->key != NULL; keep++) {
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

/* Reads one `"key": value` at `p` and copies it if it is kept. Returns the position after it, or
 * NULL. `*first` is true until a member has been copied; no comma is written then. */
static const char *
json_prune_member(const struct json_prune_keep *keep, const char *p, const char *end,
    unsigned arrays, bool *first, struct output *out)
{
	bool escapes = false;

	if (p == end || *p != '"')
		return NULL;
	const char *key = p, *key_end = json_skip_string(p, end, &escapes);
	if (key_end == NULL)
		return NULL;
	p = json_skip_space(key_end, end);
	if (p == end || *p != ':')
		return NULL;
	p = json_skip_space(p + 1, end);
	const struct json_prune_keep *found =
	    find(keep, key + 1, (size_t)(key_end - key) - 2, escapes);
	if (found == NULL)
		return json_skip_value(p, end);
	struct output before = *out;
	if (!*first)
		put(out, ",", 1);
	put(out, key, (size_t)(key_end - key));
	put(out, ":", 1);
	const char *value = out->p;
	p = json_prune_value(found->inside, p, end, arrays, out);
	if (p != NULL && found->inside == keep_conditions &&
	    (size_t)(out->p - value) == sizeof conditions_default - 1 &&
	    memcmp(value, conditions_default, sizeof conditions_default - 1) == 0)
		*out = before;
	else
		*first = false;
	return p;
}

/*
 * Called after a member or an element. Returns the position of the next member or element. After
 * the last one, sets `*last` and returns the position after the closing bracket. Returns NULL if
 * the JSON is malformed.
 */
static const char *
next(const char *p, const char *end, char close, bool *last)
{
	p = json_skip_space(p, end);
	if (p == end || (*p != ',' && *p != close))
		return NULL;
	*last = *p == close;
	return *last ? p + 1 : json_skip_space(p + 1, end);
}

static const char *
json_prune_members(const struct json_prune_keep *keep, const char *p, const char *end,
    unsigned arrays, struct output *out)
{
	bool last = false, first = true;

	put(out, "{", 1);
	p = json_skip_space(p + 1, end);
	if (p < end && *p == '}') {
		p++;
		last = true;
	}
	while (p != NULL && !last) {
		p = json_prune_member(keep, p, end, arrays, &first, out);
		if (p != NULL)
			p = next(p, end, '}', &last);
	}
	if (p != NULL)
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
	p = json_skip_space(p + 1, end);
	if (p < end && *p == ']') {
		p++;
		last = true;
	}
	while (p != NULL && !last) {
		if (!first)
			put(out, ",", 1);
		first = false;
		p = json_prune_value(keep, p, end, arrays + 1, out);
		if (p != NULL)
			p = next(p, end, ']', &last);
	}
	if (p != NULL)
		put(out, "]", 1);
	return p;
}

static const char *
json_prune_value(const struct json_prune_keep *keep, const char *p, const char *end,
    unsigned arrays, struct output *out)
{
	if (keep != NULL && p < end && *p == '{')
		return json_prune_members(keep, p, end, arrays, out);
	if (keep != NULL && p < end && *p == '[')
		return json_prune_elements(keep, p, end, arrays, out);
	const char *stop = json_skip_value(p, end);
	if (stop != NULL)
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

	if (len > sizeof event->type - 1)
		len = sizeof event->type - 1;
	memcpy(event->type, value + 1, len);
	event->type[len] = '\0';
}

/* Reads the object. The event's type must be known already, because a Status is kept whole. */
static const char *
event_object(const struct json_prune_keep *keep, const char *p, const char *end, char *out,
    struct json_prune_event *event)
{
	struct output o = { out };
	const char *stop =
	    json_prune_value(strcmp(event->type, "ERROR") == 0 ? NULL : keep, p, end, 0, &o);

	event->object = out;
	event->object_len = stop != NULL && *p == '{' ? (size_t)(o.p - out) : 0;
	return stop;
}

int
json_prune_event(const struct json_prune_keep *keep, const char *json, size_t len, char *out,
    struct json_prune_event *event)
{
	const char *end = json + len, *p = json_skip_space(json + 1, end), *early = NULL;
	bool last = false;

	*event = (struct json_prune_event){ .object = out };
	while (p != NULL && !last) {
		const char *key = p, *value = NULL;
		bool escapes = false;

		p = p < end && *p == '"' ? json_skip_string(p, end, &escapes) : NULL;
		size_t key_len = p != NULL ? (size_t)(p - key) : 0;
		p = p != NULL ? json_skip_space(p, end) : NULL;
		if (p == NULL || p == end || *p != ':')
			return -EBADMSG;
		value = json_skip_space(p + 1, end);
		if (key_len == 8 && memcmp(key, "\"object\"", 8) == 0 && event->type[0]) {
			p = event_object(keep, value, end, out, event);
		} else {
			p = json_skip_value(value, end);
			if (p != NULL && key_len == 6 && memcmp(key, "\"type\"", 6) == 0)
				event_type(event, value, p);
			else if (key_len == 8 && memcmp(key, "\"object\"", 8) == 0)
				early = value;
		}
		p = p != NULL ? next(p, end, '}', &last) : NULL;
	}
	if (p != NULL && early != NULL && event->type[0])
		event_object(keep, early, end, out, event);
	return p != NULL && event->type[0] && event->object_len ? 0 : -EBADMSG;
}
