/*
 * The cluster state that DNS needs: one small entry for each object. Records and endpoints, from
 * which answers are made, are only in the tree, where the store writes them.
 *
 *	event --> store entry --records--> treecache
 *
 * A slice is stored whether or not its Service exists, so the order in which Services and slices
 * arrive does not matter. A listing is handled by mark and sweep in place. The listed objects are
 * marked, and the end of the listing removes all objects without a mark. Only the main thread uses
 * the store.
 */
#ifndef KUBEDNS_CLUSTER_STORE_H
#define KUBEDNS_CLUSTER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/cluster/object.h"
#include "kubedns/cluster/service_records.h"
#include "kubedns/cluster/tree_content.h"
#include "treecache/treecache.h"

struct label_selector;
struct store;

struct store_config {
	struct records_config records;
	bool reverse_all_endpoints;
	bool endpoint_pod_names;
	bool visibility;      /* --visibility: the caller calls store_visibility() */
	bool visible_to_only; /* with --visibility: ignore the lists in kubedns/sees */
	/* --nearest: the tree stores for which nodes and zones endpoints are meant */
	bool nearest;
	bool zonal; /* --zonal: the tree stores in which zones endpoints are */
	/* With client_pods, the tree stores on which node each pod is; see store_node_places(). */
	bool pod_places;
	/* Store also pods that are starting or ending, and the name and node of every pod. */
	bool client_pods;
	/* Only these namespaces are shown; NULL-terminated list, or NULL: all. */
	char *const *namespaces;
	/* A namespace is shown only if its labels match. NULL: all labels match. */
	const struct label_selector *namespace_labels;
	struct namespace_label label; /* for NODE_LABELLED; the key is NULL if there is none */
};

/* The kinds of Services for which the programming latency is measured separately. */
enum service_kind {
	SERVICE_KIND_CLUSTERIP,
	SERVICE_KIND_HEADLESS,
	SERVICE_KIND_OTHER,
	SERVICE_KIND_COUNT
};

/* Copies `config`; the objects to which it points must outlive the store. Free with
 * store_free(). */
struct store *store_new(struct treecache *cache, const struct store_config *config);

/* Writes the zone's own records (records_for_zone) into the tree. `addrs` are the addresses of this server. */
void store_addresses(struct store *store, const struct addr *addrs, size_t count);

/* The event_sink of the store. It handles Services, slices, namespaces, pods and nodes. `arg` is
 * the store. */
void store_event(
    void *arg, enum object_kind kind, enum event_type type, const struct object *object);

/* Returns the number of stored objects of this kind. Each subset of an Endpoints object counts as a slice. */
size_t store_count(const struct store *store, enum object_kind kind);

/* Whether a Service or an endpoint of a Service has an address of this family. */
bool store_has_family(const struct store *store, uint8_t family);

/* Returns the number of objects read that exceeded a limit of object.h: too many ports, endpoints,
 * subsets or addresses. */
uint64_t store_cut_total(const struct store *store);

/* Gets the zone and region of this cluster. Of the nodes that have both labels, the node with the
 * lowest name decides. Both are "" if unknown. */
void store_location(const struct store *store, const char **zone, const char **region);

/*
 * Calls `each` with the trigger time (Unix time, ns) of each change that reached the tree since the
 * last call. Used to measure the programming latency.
 */
void store_stamps(struct store *store,
    void (*each)(void *arg, enum service_kind kind, int64_t trigger_time_ns), void *arg);

/* --- for --visibility --- */

struct visibility; /* kubedns/cluster/tree_content.h */

/* Makes a new visibility table for the current tree and the next publish. Returns NULL if the
 * previous table is still valid. The caller frees it with free() when no reader uses it. */
struct visibility *store_visibility(struct store *store);

/* Returns the name of the namespace with this number, or NULL. */
const char *store_namespace_name(const struct store *store, uint32_t number);

/* Gets the number of namespaces that have lists, and the number of pairs of namespaces in the lists. */
void store_visibility_size(const struct store *store, size_t *listed, size_t *pairs);

/* --- for --nearest --- */

struct node_places; /* kubedns/cluster/tree_content.h */

/* Makes a new table of the places of nodes, for the next publish. Returns NULL if the previous
 * table is still valid. The caller frees it with free() when no reader uses it. */
struct node_places *store_node_places(struct store *store);

/* --- for --explain: the object from which an answer comes --- */

struct store_source {
	enum object_kind kind;
	const char *namespace, *name;
	uint64_t resource_version; /* 0: unknown */
	bool from_endpoints;       /* the object is an Endpoints object, not an EndpointSlice */
};

/* Finds a Service by namespace and name (lower-case text). Returns false if there is no such Service. */
bool store_find_service(const struct store *store, const char *namespace, const char *service,
    struct store_source *source);

/* Finds the EndpointSlice or Endpoints object in this slot of the tree. */
bool store_find_slice(const struct store *store, uint32_t slot, struct store_source *source);

/* Whether the Namespace object exists. */
bool store_find_namespace(
    const struct store *store, const char *namespace, struct store_source *source);

/* Whether the Namespace object exists but --namespace-labels does not match its labels. */
bool store_leaves_namespace_out(const struct store *store, const char *namespace);

/* Whether --namespaces and --namespace-labels allow names in the namespace. */
bool store_shows_namespace(const struct store *store, const char *namespace);

/* Whether names can exist in the namespace: either its object or a Service in it exists. */
bool store_has_namespace(const struct store *store, const char *namespace);

/* --- for the audit: Services, slices and namespaces --- */

/* Gets the version of an object, 0 if it is unknown. Returns false if the store does not have the object. For an object of OBJECT_NAMESPACE,
 * `namespace` is "". */
bool store_find_version(const struct store *store, enum object_kind kind, const char *namespace,
    const char *name, uint64_t *version);

/* Calls `each` for each object of this kind in the namespace. `each` must not change the store. Costs
 * a walk over all objects of the kind. */
void store_each(const struct store *store, enum object_kind kind, const char *namespace,
    void (*each)(void *arg, const char *name, uint64_t version), void *arg);

/* Returns the first known namespace after `name` in the order of strcmp(), or NULL. */
const char *store_namespace_after(const struct store *store, const char *name);

/* Returns a resourceVersion as a number, or 0 if there is none. Other text than a number is hashed. */
uint64_t store_version(const char *text);

/* --- for the status pages --- */

struct neighbour {
	struct addr addr;
	bool ready;
};

/*
 * Finds the other pods of this server's Services. A Service in this namespace counts if one of its
 * endpoints for port 53 has an `own` address. Its other endpoints for port 53 are the result.
 * Stores at most `capacity` of them in `found`, in no particular order and without duplicates, and
 * returns their number. Costs a walk over all slices.
 */
size_t store_neighbours(const struct store *store, const char *namespace, const struct addr *own,
    size_t own_count, struct neighbour *found, size_t capacity);

/* The pod of a client. The strings are valid until the next event. */
struct store_pod {
	const char *namespace;
	/* NULL without --client-pods, because names are not stored then; `node` may be "" */
	const char *name, *node;
};

/*
 * Finds the pod that has this address, if pods are watched. Returns false if no pod is known to
 * have the address, if a pod on its host's network has it, or if pods of several namespaces have
 * it.
 */
bool store_find_pod(const struct store *store, const struct addr *addr, struct store_pod *pod);

void store_free(struct store *store);

#endif
