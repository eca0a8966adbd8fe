/*
 * What clusterset.c (events), clusterset_slices.c (EndpointSlices) and clusterset_records.c (what
 * readers see of an import) share.
 *
 * The endpoints of a slice are packed twice in the tree, and nowhere else: at the import's own name, for
 * the addresses, and at the name of their cluster, with their host names. Both are there before their
 * import is; readers see them while it is headless and shown.
 */
#ifndef KUBEDNS_CLUSTER_CLUSTERSET_INTERNAL_H
#define KUBEDNS_CLUSTER_CLUSTERSET_INTERNAL_H

#include "kubedns/cluster/clusterset.h"
#include "kubedns/cluster/service_records.h"
#include "lib/table.h"
#include "treecache/ports.h"
#include "treecache/treecache.h"

/* The slices of an import that are of one cluster. */
struct import_cluster {
	struct owner *owner; /* `CLUSTER.SERVICE.NAMESPACE.svc.ZONE`; NULL: too long for a name */
	size_t slices;
	uint8_t label[1 + DNAME_LABEL_MAX + 1]; /* a name of one label, lower case */
};

/* An EndpointSlice of an import. */
struct imported_slice {
	uint32_t hash;
	uint8_t mark;
	bool cut; /* endpoints of it have no names */
	struct import *import;
	struct import_cluster *cluster;
	char *name;
	uint64_t version, digest; /* of its ready endpoints */
	const struct ports *ports;
	/* Where its ready endpoints are in the tree, of the import's owner and the cluster's; 0: there
	 * are none. */
	uint32_t slot, cluster_slot;
};

enum import_shows { IMPORT_NOTHING, IMPORT_IP, IMPORT_ENDPOINTS };

/* A ServiceImport, or what slices name as one. */
struct import {
	uint32_t hash;
	uint8_t mark;
	bool present;            /* the object is there */
	bool shown;              /* its namespace was, when it was written last */
	bool dirty;              /* it is in the list of those to be written */
	enum import_shows shows; /* what readers see of it */
	uint64_t version, digest;
	char *namespace, *name;
	struct owner *owner; /* `SERVICE.NAMESPACE.svc.ZONE` */
	enum service_type type;
	struct addr addrs[2];
	uint8_t addr_count;
	struct object_port *ports; /* strings are in the same block */
	size_t port_count;
	struct addr shown_addrs[2]; /* that have PTRs */
	uint8_t shown_addr_count;
	struct import_cluster **clusters; /* by label */
	size_t cluster_count, cluster_room;
	size_t slice_count, cut_slices;
	size_t endpoints; /* of which readers see the names */
	bool cut;         /* readers see it, but not all its names */
	struct import *next_dirty;
};

struct clusterset {
	struct treecache *cache;
	struct clusterset_config config;
	uint64_t seed;
	struct table imports, slices;
	struct table ports; /* port_lists.h */
	uint8_t mark[OBJECT_KIND_COUNT];
	struct import *dirty;
	bool namespaces_changed;
	struct clusterset_counts counts;
};

/* --- clusterset_slices.c --- */

/* The EndpointSlice is there, or has changed. */
void import_slice_here(struct clusterset *clusterset, const struct object *object);

/* It is gone, or names no import any more; NULL: it never named one. */
void import_slice_gone(struct clusterset *clusterset, struct imported_slice *slice);

struct imported_slice *import_slice_find(
    const struct clusterset *clusterset, const char *namespace, const char *name);

/* --- clusterset.c --- */

/* The entry, made if missing. */
struct import *import_get(struct clusterset *clusterset, const char *namespace, const char *name);

/* It is to be written with the next clusterset_settle(). */
void import_mark_dirty(struct clusterset *clusterset, struct import *import);

/* The hash of a namespace and a name, for both tables. */
uint32_t import_hash(const struct clusterset *clusterset, const char *namespace, const char *name);

/* A resourceVersion as a number; 0 when there is none. */
uint64_t import_version(const struct object *object);

/* --- clusterset_records.c --- */

/* `SERVICE.NAMESPACE.svc.ZONE`. */
void import_owner_name(
    const struct clusterset *clusterset, const struct import *import, struct dname *name);

/* Brings what readers see of the import up to date; sets `endpoints` and `cut`. */
void import_write(struct clusterset *clusterset, struct import *import);

#endif
