/*
 * What the files of the store share, each of which needs those before it alone: store_namespaces.c, store_pods.c,
 * store_services.c, store.c. There is an entry for each object, and for each Service and
 * namespace that another object names. Every entry begins with its hash (lib/table.h), except a
 * pod's (kubedns/cluster/pod_table.h).
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
	uint32_t number; /* in pods4, pods6 and at the node */
	uint32_t uses;   /* references: by Services, slices and pods' addresses */
	uint32_t shown;  /* Services whose object is there: with one the namespace exists */
	uint32_t named;  /* headless ones whose names exist */
	bool present;    /* the object is there */
	bool chosen;     /* by --namespace-labels; means nothing without it */
	bool no_search;  /* its label declines search completion */
	uint8_t mark;
	uint64_t version;
	uint8_t label[]; /* length-prefixed, lower case, then a NUL */
};

struct service {
	uint32_t hash;
	uint32_t slices; /* that name it */
	struct namespace *namespace;
	struct owner *owner;
	uint64_t version;
	int64_t stamp; /* newest trigger time of a slice that came before its Service */
	struct addr addrs[2];
	uint8_t addr_count;
	uint8_t type; /* enum service_type */
	bool present; /* the object is there, not only slices that name it */
	bool in_tree; /* present, and its namespace is chosen */
	bool cut;     /* it had more than the bounds of object.h allow */
	bool named;   /* headless, and its name exists: counted in its namespace */
	uint8_t mark;
};

struct slice_entry {
	uint32_t hash;
	uint32_t slot; /* of its slice in the tree; 0: none, it names no Service */
	uint64_t version;
	struct namespace *namespace;
	struct service *service;
	uint16_t index; /* of the slices made of one Endpoints object */
	uint8_t mark;
	bool from_endpoints;
	bool cut;
	char name[];
};

/* An address that several pods of a namespace share, on their host's network; `more`: how many pods
 * beyond the first. */
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
	struct table kept, kept_namespaces; /* store_services.c's */
	struct table rules;                 /* store_namespaces.c's, as all of these: */
	bool visibility_due, visibility_cut;
	uint32_t visibility_serial;
	size_t visibility_pairs;
	bool places_due; /* of store_node_places(): a node has come, gone, or has another zone */
	struct pod_table pods[2];        /* of IPv4 addresses, of IPv6 addresses */
	struct client_pods *client_pods; /* NULL: without --client-pods */
	struct namespace **by_number;    /* number - 1 -> namespace; NULL: free */
	size_t number_count, number_room;
	uint32_t lowest_free;            /* no number below it is free */
	uint8_t mark[OBJECT_KIND_COUNT]; /* of the current listing, or of the last one */
	bool listing[OBJECT_KIND_COUNT];
	bool synced[OBJECT_KIND_COUNT];
	size_t present_namespaces, present_services, present_pods;
	size_t with_v4, with_v6; /* cluster IPs, and slices of Services that have endpoints */
	uint64_t cut_total;
	struct stamp stamps[STAMPS_MAX];
	size_t stamp_count;
};

/* 64 bits over two names, keyed by the tree's seed. */
uint64_t store_hash_names(const struct store *store, const char *a, const char *b);

/* A resourceVersion as a number; 0 when there is none. */
uint64_t store_version(const char *text);

/* Makes a length-prefixed lower-case label of `text`; false if it is no legal one. */
bool store_label(uint8_t label[1 + DNAME_LABEL_MAX], const char *text);

/* Counts one more (1) or one fewer (-1) cluster IP, or slice with endpoints, of this family. */
void store_count_family(struct store *store, uint8_t family, int by);

/* Notes whether an object had more than the bounds allow: counts each time that it does, and logs
 * unless `*was` says that it did before. Sets `*was`. */
void store_note_cut(struct store *store, const struct object *object, bool *was);

/* --- store_namespaces.c --- */

/* The entry, or NULL. */
struct namespace *namespace_find(const struct store *store, const char *name);

/* The entry, made if missing; NULL if the name is no label. */
struct namespace *namespace_get(struct store *store, const char *name);

/* Its name below the zone. */
void namespace_name(const struct namespace *namespace, struct dname *name);

/* Whether the label is `default`, the namespace of the Service that every client needs. */
bool is_default(const uint8_t *label);

/* Makes the tree say whether the namespace exists. */
void namespace_show(struct store *store, struct namespace *namespace);

/* Frees the entry if nothing needs it any more. */
void namespace_drop(struct store *store, struct namespace *namespace);

/* --- store_services.c: Services --- */

/* The entry, or NULL. */
struct service *service_find(
    const struct store *store, const struct namespace *namespace, const char *name);

/* Frees the entry if nothing needs it any more. */
void service_drop(struct store *store, struct service *service);

/* Takes the Service out of the tree; slices that name it stay with the entry. */
void service_hide(struct store *store, struct service *service);

/* The records_sink; `arg` is the store. */
void service_put_records(void *arg, const uint8_t *name, const void *sets, size_t len);

void service_event(struct store *store, bool deleted, bool relisted, const struct object *object);

/* --- store_services.c: only with --namespace-labels --- */

/* Sets whether the namespace is chosen; a change adds or removes the names of all its Services. */
void chosen_set(struct store *store, struct namespace *namespace, bool chosen);

/* Sets it by the labels of the namespace's object; does nothing without a selector. */
void chosen_by_labels(
    struct store *store, struct namespace *namespace, const struct object *object);

static inline bool
namespace_is_chosen(const struct store *store, const struct namespace *namespace)
{
	return store->config.namespace_labels == NULL || namespace->chosen;
}

/* --- store_namespaces.c: only with --visibility --- */

/* Takes what the namespace's object says; and forgets it, with the entry's number. */
void visibility_namespace(
    struct store *store, const struct namespace *namespace, const struct object *object);
void visibility_forget(struct store *store, const struct namespace *namespace);

/* --- store_services.c: slices --- */

void slice_drop(struct store *store, struct slice_entry *slice);

void slices_event(struct store *store, bool deleted, bool relisted, const struct object *object);

/* --- store_pods.c: places --- */

/* The places of a slice's endpoints that are wanted, in `*places`, which the caller frees; returns how
 * many. */
size_t places_of_slice(
    const struct store *store, const struct object_slice *from, struct endpoint_place **places);

/* --- store_pods.c --- */

/* The node's object, or NULL. */
struct host *node_find_host(const struct store *store, const char *name);

/* Drops the pods that the listing which has just ended did not show; returns how many. */
size_t pods_sweep(struct store *store);

void pod_event(struct store *store, bool deleted, bool relisted, const struct object *object);

void node_drop(struct store *store, struct host *host);

void node_event(struct store *store, bool deleted, bool relisted, const struct object *object);

#endif
