/*
 * Removes from an object's JSON the members that DNS does not need, so that json-c builds a tree of
 * a quarter of the size. json_skip.h skips them (managedFields, other annotations, status, selectors)
 * without validating more than matching brackets.
 *
 *	{"metadata":{"name":"web","uid":"...","managedFields":[...]},"spec":{"type":"ClusterIP"}}
 *	{"metadata":{"name":"web"},"spec":{"type":"ClusterIP"}}
 *
 * The tables are made of the lists in kubedns/cluster/object_fields.h, by which object.c reads.
 */
#ifndef KUBEDNS_API_JSON_PRUNE_H
#define KUBEDNS_API_JSON_PRUNE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A member that is kept; a table ends with a NULL key. For an array, the table applies to each
 * element.
 */
struct json_prune_keep {
	const char *key;
	size_t len;
	const struct json_prune_keep *inside; /* NULL: the whole value */
};

/*
 * The tables for an object of each kind in a list or a watch event; metadata.annotations keeps a
 * bookmark's end mark too.
 */
extern const struct json_prune_keep json_prune_service[], json_prune_slice[],
    json_prune_slice_pods[] /* with targetRef */,
    json_prune_slice_places[] /* with zone, node and hints */, json_prune_slice_pods_places[],
    json_prune_endpoints[], json_prune_namespace[],
    json_prune_namespace_labels[] /* with all labels */, json_prune_pod[], json_prune_node[],
    json_prune_configmap[], json_prune_hosts[] /* with creationTimestamp */;

/* The same with --clusterset-domain. */
extern const struct json_prune_keep json_prune_slice_imported[],
    json_prune_slice_imported_pods[] /* with targetRef */, json_prune_import[];

/* The table for slices with the pods' names, with what --clusterset-domain reads, with places. */
const struct json_prune_keep *json_prune_slice_for(bool pods, bool imported, bool places);

/* The same with --external-zones. */
extern const struct json_prune_keep json_prune_service_external[], json_prune_ingress[],
    json_prune_gateway[], json_prune_route[];

/*
 * Writes what `keep` keeps of the object of `len` bytes into `out` (`len` bytes are enough);
 * returns its length, 0 if it is malformed.
 */
size_t json_prune_object(
    const struct json_prune_keep *keep, const char *json, size_t len, char *out);

/* A watch event, taken apart. */
struct json_prune_event {
	char type[12]; /* "ADDED", ...; longer ones are cut off */
	char *object;  /* `out`: trimmed, or whole for an ERROR's Status */
	size_t object_len;
};

/*
 * Reads {"type":..., "object":{...}}, the object pruned into `out` (`len` bytes are enough); 0 or
 * -EBADMSG.
 */
int json_prune_event(const struct json_prune_keep *keep, const char *json, size_t len, char *out,
    struct json_prune_event *event);

#endif
