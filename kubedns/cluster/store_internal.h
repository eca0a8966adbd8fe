/*
 * Shared by the files of the store: store_namespaces.c, store_pods.c, store_services.c and store.c.
 * Each of them uses only the files before it in this list. There is an entry for each object, and
 * for each Service and namespace that another object names. Every entry begins with its hash
 * (lib/table.h), except a pod's (kubedns/cluster/pod_table.h).
 */
#ifndef KUBEDNS_CLUSTER_STORE_INTERNAL_H
#define KUBEDNS_CLUSTER_STORE_INTERNAL_H

#include "kubedns/cluster/client_pods.h"
#include "kubedns/cluster/pod_table.h"
#include "kubedns/cluster/store.h"
#include "lib/hash.h"
#include "lib/table.h"

enum { STAMPS_MAX = 4096 };

struct namespace
{
	uint32_t hash;
	uint32_t number; /* stored in pods4, pods6 and the namespace's node */
	uint32_t uses;   /* references from Services, slices and addresses of pods */
	/* Number of the namespace's Services whose object exists. If it is above 0, the namespace exists. */
	uint32_t shown;
	uint32_t named; /* number of the namespace's headless Services whose names exist */
	bool present;   /* the Namespace object exists */
	bool chosen;    /* --namespace-labels matches the namespace; unused without that option */
	bool labelled;  /* the namespace has store_config.label */
	uint8_t mark;
	uint64_t version;
	uint8_t label[]; /* length-prefixed, lower case, then a NUL */
};

struct service {
	uint32_t hash;
	uint32_t slices; /* number of slices that name this Service */
	struct namespace *namespace;
	struct owner *owner;
	uint64_t version;
	int64_t stamp; /* newest trigger time of a slice that arrived before its Service */
	struct addr addrs[2];
	uint8_t addr_count;
	uint8_t type; /* enum service_type */
	bool present; /* the Service object exists, not only slices that name it */
	bool in_tree; /* the Service is present, and its namespace is shown */
	bool cut;     /* the Service exceeds a limit of object.h */
	/* The Service is headless and its name exists, so its namespace counts it in `named`. */
	bool named;
	uint8_t mark;
};

struct slice_entry {
	uint32_t hash;
	uint32_t slot; /* slot of the slice in the tree; 0 if the slice names no Service */
	uint64_t version;
	struct namespace *namespace;
	struct service *service;
	uint16_t index; /* numbers the slices that were made from one Endpoints object */
	uint8_t mark;
	bool from_endpoints;
	bool cut;
	char name[];
};

/* An address that several pods of a namespace share because they are on their host's network.
 * `more` is the number of pods beyond the first. */
struct share {
	uint32_t hash;
	uint32_t number;
	uint32_t more;
	struct addr addr;
};

struct host {
	uint32_t hash;
	uint8_t mark;
	char *zone, *region;
	char name[];
};

struct stamp {
	int64_t time_ns;
	enum service_kind kind;
};

struct store {
	struct treecache *cache;
	struct store_config config;
	struct table namespaces, services, slices, shares, hosts, ports;
	struct table kept, kept_namespaces; /* used by store_services.c */
	/* store_namespaces.c uses this member and the next four members. */
	struct table rules;
	bool visibility_due, visibility_cut;
	uint32_t visibility_serial;
	size_t visibility_pairs;
	/* A node was added or removed, or has a new zone. store_node_places() then makes a new table. */
	bool places_due;
	struct pod_table pods[2];        /* one table for IPv4 addresses, one for IPv6 addresses */
	struct client_pods *client_pods; /* NULL without --client-pods */
	struct namespace **by_number;    /* number - 1 -> namespace; NULL: free */
	size_t number_count, number_capacity;
	uint32_t lowest_free;            /* index in `by_number`; no lower index is free */
	uint8_t mark[OBJECT_KIND_COUNT]; /* mark of the current or the last listing */
	bool listing[OBJECT_KIND_COUNT];
	bool synced[OBJECT_KIND_COUNT];
	size_t present_namespaces, present_services, present_pods;
	/* Number of ClusterIPs, and of slices of Services with endpoints, of this family. */
	size_t with_v4, with_v6;
	uint64_t cut_total;
	struct stamp stamps[STAMPS_MAX];
	size_t stamp_count;
};

/* Returns a 64-bit hash of two names, keyed with the tree's seed. */
uint64_t store_hash_names(const struct store *store, const char *a, const char *b);

/* Makes a length-prefixed lower-case label from `text`. Returns false if the text is not a valid label. */
bool store_label(uint8_t label[1 + DNAME_LABEL_MAX], const char *text);

/* Adds `by` (1 or -1) to the number of ClusterIPs and slices with endpoints of this family. */
void store_count_family(struct store *store, uint8_t family, int by);

/* Called when an object was read. If the object exceeded a limit, counts that, and logs it unless
 * `*was` is already true. Sets `*was` to whether it exceeded a limit. */
void store_note_cut(struct store *store, const struct object *object, bool *was);

/* --- store_namespaces.c --- */

/* Returns the entry, or NULL. */
struct namespace *namespace_find(const struct store *store, const char *name);

/* Returns the entry, and creates it if necessary. Returns NULL if the name is not a valid label. */
struct namespace *namespace_get(struct store *store, const char *name);

/* Writes the namespace's name below the zone. */
void namespace_name(const struct namespace *namespace, struct dname *name);

/* Whether the label is `default`, the namespace of the Service that every client needs. */
bool is_default(const uint8_t *label);

/* Updates the tree: adds the namespace's node or removes it. */
void namespace_show(struct store *store, struct namespace *namespace);

/* Frees the entry if nothing refers to it any more. */
void namespace_drop(struct store *store, struct namespace *namespace);

/* --- store_services.c: Services --- */

/* Returns the entry, or NULL. */
struct service *service_find(
    const struct store *store, const struct namespace *namespace, const char *name);

/* Frees the entry if nothing refers to it any more. */
void service_drop(struct store *store, struct service *service);

/* Removes the Service from the tree. Its entry keeps the slices that name it. */
void service_hide(struct store *store, struct service *service);

/* The records_sink. `arg` is the store. */
void service_put_records(void *arg, const uint8_t *name, const void *sets, size_t len);

/* Finds the slice of an EndpointSlice, or the first slice of an Endpoints object. Returns NULL if
 * there is none. */
const struct slice_entry *slice_find(
    const struct store *store, const struct namespace *namespace, const char *name);

void service_event(struct store *store, bool deleted, bool relisted, const struct object *object);

/* --- store_services.c: only with --namespace-labels --- */

/* Sets whether --namespace-labels matches the namespace. A change adds or removes the names of all
 * its Services. */
void chosen_set(struct store *store, struct namespace *namespace, bool chosen);

/* Calls chosen_set() according to the labels of the namespace's object. Does nothing if there is no
 * selector. */
void chosen_by_labels(
    struct store *store, struct namespace *namespace, const struct object *object);

static inline bool
namespace_is_chosen(const struct store *store, const struct namespace *namespace)
{
	return store->config.namespace_labels == NULL || namespace->chosen;
}

/* --- store_namespaces.c: only with --visibility --- */

/* Stores the lists in the namespace's annotations and labels. When the entry's number is released,
 * removes the lists. */
void visibility_namespace(
    struct store *store, const struct namespace *namespace, const struct object *object);
void visibility_forget(struct store *store, const struct namespace *namespace);

/* --- store_services.c: slices --- */

void slice_drop(struct store *store, struct slice_entry *slice);

void slices_event(struct store *store, bool deleted, bool relisted, const struct object *object);

/* --- store_pods.c: places --- */

/* Gets the places of a slice's endpoints that the options need. Returns their number. The caller
 * frees `*places`. */
size_t places_of_slice(
    const struct store *store, const struct object_slice *from, struct endpoint_place **places);

/* --- store_pods.c --- */

/* Removes the pods that the listing that has just ended did not contain. Returns their number. */
size_t pods_sweep(struct store *store);

void pod_event(struct store *store, bool deleted, bool relisted, const struct object *object);

void node_drop(struct store *store, struct host *host);

void node_event(struct store *store, bool deleted, bool relisted, const struct object *object);

#endif
