/*
 * The part of the cluster's state that DNS needs: one small entry per object. What an answer is
 * made of, records and endpoints, is in the tree only, where the entry writes it.
 *
 *	event --> store entry --records--> treecache
 *
 * Slices are kept whether their Service is there or not, so the order in which Services and slices
 * arrive does not matter. A listing is a mark and sweep, in place: its objects are marked, and its
 * end removes the others. For the main thread alone.
 */
#ifndef KUBEDNS_CLUSTER_STORE_H
#define KUBEDNS_CLUSTER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/cluster/object.h"
#include "kubedns/cluster/service_records.h"
#include "treecache/treecache.h"

struct label_selector;
struct store;

struct store_config {
	struct records_config records;
	bool reverse_all_endpoints;
	bool endpoint_pod_names;
	bool visibility;      /* --visibility: store_visibility() is asked for */
	bool visible_to_only; /* with it: lists kubedns/sees do not count */
	bool nearest;         /* --nearest: the tree has for which nodes and zones endpoints are */
	bool zonal;           /* --zonal: the tree has in which zones they are */
	bool
	    pod_places; /* with client_pods: the tree has where pods are; see store_node_places() */
	bool client_pods; /* pods that start or end are kept too, and every pod's name and node */
	char *const *namespaces; /* only these exist; NULL-terminated list, or NULL: all */
	/* Of these, only the ones whose object matches; NULL: all. */
	const struct label_selector *namespace_labels;
};

/* The programming latency is measured for each kind. */
enum service_kind {
	SERVICE_KIND_CLUSTERIP,
	SERVICE_KIND_HEADLESS,
	SERVICE_KIND_OTHER,
	SERVICE_KIND_COUNT
};

/* `config` is copied, what it points at must outlive the store. Caller frees with store_free. */
struct store *store_new(struct treecache *cache, const struct store_config *config);

/* Puts the zone's own records (records_for_zone) into the tree; `addrs` are this server's. */
void store_addresses(struct store *store, const struct addr *addrs, size_t count);

/* The event_sink of services, slices, namespaces, pods and nodes; `arg` is the store. */
void store_event(
    void *arg, enum object_kind kind, enum event_type type, const struct object *object);

/* How many objects of this kind are held; each subset of an Endpoints object counts as a slice. */
size_t store_count(const struct store *store, enum object_kind kind);

/* Whether a Service or an endpoint of one has an address of this family. */
bool store_has_family(const struct store *store, uint8_t family);

/* How many objects had more ports, endpoints, subsets or addresses than the bounds of object.h
 * allow, each time that they were read. */
uint64_t store_cut_total(const struct store *store);

/* This cluster's zone and region, from its first node by name that has both labels;
 * "" if unknown. */
void store_location(const struct store *store, const char **zone, const char **region);

/*
 * Takes the trigger times (Unix, ns) of the changes since the last call that are now in the tree,
 * for the programming latency; calls `each` for every one.
 */
void store_stamps(struct store *store,
    void (*each)(void *arg, enum service_kind kind, int64_t trigger_time_ns), void *arg);

/* --- for --visibility --- */

struct visibility; /* kubedns/cluster/tree_content.h */

/*
 * A new table of who sees what, for the tree as it is and the next publish; NULL: the last one still
 * holds. Caller frees it with free, once no reader has it.
 */
struct visibility *store_visibility(struct store *store);

/* The name of the namespace with this number; NULL: none has it. */
const char *store_namespace_name(const struct store *store, uint32_t number);

/* How many namespaces have lists, and how many pairs of namespaces they make. */
void store_visibility_size(const struct store *store, size_t *listed, size_t *pairs);

/* --- for --nearest --- */

struct node_places; /* kubedns/cluster/tree_content.h */

/* A new table of where the nodes of pods are, for the next publish; NULL: the last one still holds.
 * Caller frees it with free, once no reader has it. */
struct node_places *store_node_places(struct store *store);

/* --- for --explain: which object an answer comes from --- */

struct store_source {
	enum object_kind kind;
	const char *namespace, *name;
	uint64_t resource_version; /* 0: none known */
	bool from_endpoints;       /* an Endpoints object in place of EndpointSlices */
};

/* The Service that is `service` in `namespace` (text, lower case); false if there is none. */
bool store_find_service(const struct store *store, const char *namespace, const char *service,
    struct store_source *source);

/* The slice in this slot of the tree. */
bool store_find_slice(const struct store *store, uint32_t slot, struct store_source *source);

/* Whether the Namespace object is there. */
bool store_find_namespace(
    const struct store *store, const char *namespace, struct store_source *source);

/* Whether the Namespace object is there, but --namespace-labels does not match its labels. */
bool store_leaves_namespace_out(const struct store *store, const char *namespace);

/* Whether --namespaces and --namespace-labels let the namespace have names. */
bool store_shows_namespace(const struct store *store, const char *namespace);

/* Whether names can exist in the namespace: its object is there, or a Service in it. */
bool store_has_namespace(const struct store *store, const char *namespace);

/* --- for the status pages --- */

struct neighbour {
	struct addr addr;
	bool ready;
};

/*
 * The other endpoints of the Services for port 53 in this namespace that have one of the `own`
 * addresses among theirs, each once, `room` at most, in no order; returns how many. Costs a walk
 * over all slices.
 */
size_t store_neighbours(const struct store *store, const char *namespace, const struct addr *own,
    size_t own_count, struct neighbour *found, size_t room);

/* Who a client is; borrowed until the next event. */
struct store_pod {
	const char *namespace;
	const char *name, *node; /* NULL: not kept, without --client-pods; a node may be "" */
};

/*
 * The pod that has this address, where pods are watched. False: none is known to have it, one on its
 * host's network has, or pods of several namespaces.
 */
bool store_find_pod(const struct store *store, const struct addr *addr, struct store_pod *pod);

void store_free(struct store *store);

#endif
