/*
 * Removes from an object's JSON the members that DNS does not need (managedFields, other
 * annotations, status, selectors). The tree that json-c builds is then a quarter of the size.
 * json_skip.h skips these members, and validates only that their brackets match.
 *
 *	{"metadata":{"name":"web","uid":"...","managedFields":[...]},"spec":{"type":"ClusterIP"}}
 *	{"metadata":{"name":"web"},"spec":{"type":"ClusterIP"}}
 *
 * The tables are made from the lists in kubedns/cluster/object_fields.h, which object.c also uses
 * to read objects.
 */
#ifndef KUBEDNS_API_JSON_PRUNE_H
#define KUBEDNS_API_JSON_PRUNE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A member that is kept. A table ends with a NULL key. If the value is an array, the table `inside`
 * applies to each element.
 */
struct json_prune_keep {
	const char *key;
	size_t len;
	const struct json_prune_keep *inside; /* NULL: keep the whole value */
};

/* The tables for an object of each kind, in a list or a watch event. The tables also keep the
 * annotation that marks the last bookmark of an initial list. */
extern const struct json_prune_keep json_prune_service[], json_prune_slice[],
    json_prune_slice_pods[] /* with targetRef */,
    json_prune_slice_places[] /* with zone, node and hints */, json_prune_slice_pods_places[],
    json_prune_endpoints[], json_prune_namespace[],
    json_prune_namespace_labels[] /* with all labels */, json_prune_pod[], json_prune_node[],
    json_prune_configmap[], json_prune_hosts[] /* with creationTimestamp */;

/* More tables, used with --clusterset-domain. */
extern const struct json_prune_keep json_prune_slice_imported[],
    json_prune_slice_imported_pods[] /* with targetRef */, json_prune_import[];

/* Returns the table for slices. The table also keeps the names of pods, the labels for
 * --clusterset-domain, or places, if the argument of that name is true. */
const struct json_prune_keep *json_prune_slice_for(bool pods, bool imported, bool places);

/* More tables, used with --external-zones. */
extern const struct json_prune_keep json_prune_service_external[], json_prune_ingress[],
    json_prune_gateway[], json_prune_listenerset[], json_prune_route[];

/*
 * Writes the members that `keep` lists to `out`, for which `len` bytes are enough. Returns the
 * length, or 0 if the object is malformed.
 */
size_t json_prune_object(
    const struct json_prune_keep *keep, const char *json, size_t len, char *out);

/* The parts of a watch event. */
struct json_prune_event {
	char type[12]; /* "ADDED", ...; longer types are truncated */
	char *object;  /* the object, in `out`: pruned, or complete if it is the Status of an
		        * ERROR */
	size_t object_len;
};

/*
 * Reads {"type":..., "object":{...}} and writes the pruned object to `out`, for which `len` bytes
 * are enough. Returns 0 or -EBADMSG.
 */
int json_prune_event(const struct json_prune_keep *keep, const char *json, size_t len, char *out,
    struct json_prune_event *event);

#endif
