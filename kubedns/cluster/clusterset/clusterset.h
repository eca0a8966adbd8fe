/*
 * Services that other clusters export to this one (KEP-1645, --clusterset-domain): the records of
 * each ServiceImport, in a tree of absolute names.
 *
 *	ServiceImport ----------------.
 *	EndpointSlice, with labels of   >-- event --> import --clusterset_settle--> treecache
 *	an import and its cluster ----'
 *
 *	ClusterSetIP	SERVICE.NAMESPACE.svc.ZONE		A, AAAA and SRV of spec.ips and spec.ports
 *			_PORT._PROTO.SERVICE...			SRV
 *	Headless	SERVICE.NAMESPACE.svc.ZONE		A, AAAA of all ready endpoints, SRV
 *			_PORT._PROTO.SERVICE...			SRV to the names below
 *			HOST.CLUSTER.SERVICE...			A, AAAA, SRV
 *	the zone	dns-version.ZONE, ns.dns.ZONE, NS
 *
 * A headless import without a ready endpoint has no name (NXDOMAIN). An import of type ClusterSetIP
 * has a name without records until it gets an address. Each address is also in the tree's reverse
 * index. Its PTR record is used if no object of this cluster has the address. The order in which
 * objects arrive does not matter.
 *
 * The endpoints of a headless import are packed like those of a headless Service (treecache.h),
 * separately for each cluster. Their SRV and PTR records are written when a query is answered
 * (answer/clusterset_stage.c). A change costs time in proportion to the size of its object.
 * Everything but the tree is for the main thread only.
 */
#ifndef KUBEDNS_CLUSTER_CLUSTERSET_CLUSTERSET_H
#define KUBEDNS_CLUSTER_CLUSTERSET_CLUSTERSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/cluster/object.h"
#include "lib/dname.h"

struct clusterset;
struct store;
struct treecache;

struct clusterset_config {
	struct dname zone; /* lower case */
	uint32_t ttl_s;
	const struct addr *ns_addrs; /* addresses of `ns.dns.ZONE` */
	size_t ns_addr_count;
	bool endpoint_pod_names; /* an endpoint without a host name is named after its pod */
	/* The store decides which namespaces are shown; NULL: all are. The store must get each
	 * event before this module does. */
	const struct store *store;
};

/* Copies `config`; the store and `cache` must outlive the result. Writes the zone's own records
 * into the tree at once. Free with clusterset_free(). */
struct clusterset *clusterset_new(
    const struct clusterset_config *config, struct treecache *cache, uint64_t seed);

/* The event_sink. It takes every kind and ignores the kinds that do not concern imports. */
void clusterset_event(
    void *arg, enum object_kind kind, enum event_type type, const struct object *object);

/* Writes the changes since the last call into the tree. */
void clusterset_settle(struct clusterset *clusterset);

struct clusterset_counts {
	size_t ip, headless; /* ServiceImports, by type */
	size_t slices;       /* slices of imports, whether or not the ServiceImport exists */
	size_t endpoints;    /* endpoints that readers see */
	/* Imports that have endpoints without a name, because the name would be too long. */
	size_t cut;
};

struct clusterset_counts clusterset_counts(const struct clusterset *clusterset);

/* --- for --explain --- */

struct import_source {
	bool headless;
	bool shown;                /* the import's namespace is shown */
	uint64_t resource_version; /* 0: unknown */
	size_t slices, endpoints;  /* number of ready endpoints, and number of slices that have
				    * them */
	size_t clusters;           /* number of clusters that have these endpoints */
	bool cut;
};

/* Finds the ServiceImport with this name. Returns false if there is no such ServiceImport.
 * `*slices` is set to the number of EndpointSlices that name it. */
bool clusterset_find(const struct clusterset *clusterset, const char *namespace, const char *name,
    struct import_source *source, size_t *slices);

/* Call it before the tree is freed. Removes all imports from the tree. */
void clusterset_free(struct clusterset *clusterset);

#endif
