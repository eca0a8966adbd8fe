/*
 * Services that other clusters export to this one (KEP-1645, --clusterset-domain): the records of each
 * ServiceImport, in a tree of whole names.
 *
 *	ServiceImport ----------------.
 *	EndpointSlice, with labels of   >-- event --> import --clusterset_settle--> treecache
 *	an import and its cluster ----'
 *
 *	ClusterSetIP	SERVICE.NAMESPACE.svc.ZONE		A, AAAA and SRV of spec.ips and spec.ports
 *			_PORT._PROTO.SERVICE...			SRV
 *	Headless	SERVICE.NAMESPACE.svc.ZONE		A, AAAA of all ready endpoints, SRV
 *			_PORT._PROTO.SERVICE...			SRV to the following
 *			HOST.CLUSTER.SERVICE...			A, AAAA, SRV
 *	the zone	dns-version.ZONE, ns.dns.ZONE, NS
 *
 * A headless import without a ready endpoint has no name (NXDOMAIN); one of a ClusterSetIP that it does not
 * have yet has a name without records. Each address is in the tree's reverse index too: its PTR is for
 * addresses that nothing in this cluster has. The order in which objects arrive does not matter.
 *
 * A headless import's endpoints are packed as a headless Service's are (treecache.h), by cluster; their
 * SRV records and PTRs are written at answer time (answer/clusterset_stage.c). A change costs what its object
 * has. For the main thread alone, but for the tree.
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
	const struct addr *ns_addrs; /* of `ns.dns.ZONE` */
	size_t ns_addr_count;
	bool endpoint_pod_names; /* an endpoint without a host name has its pod's */
	const struct store
	    *store; /* says which namespaces are shown; NULL: all are. It has had each
				    * event before */
};

/* `config` is copied; the store and `cache` outlive it. The zone's own records are in the tree at once.
 * Caller frees with clusterset_free. */
struct clusterset *clusterset_new(
    const struct clusterset_config *config, struct treecache *cache, uint64_t seed);

/* The event_sink; takes every kind, and ignores those that give no such names. */
void clusterset_event(
    void *arg, enum object_kind kind, enum event_type type, const struct object *object);

/* Writes what the events since the last call have changed into the tree. */
void clusterset_settle(struct clusterset *clusterset);

struct clusterset_counts {
	size_t ip, headless; /* ServiceImports, by type */
	size_t slices;       /* of imports, whether or not the ServiceImport is there */
	size_t endpoints;    /* that are shown */
	size_t cut;          /* imports whose endpoints do not all have names: too long */
};

struct clusterset_counts clusterset_counts(const struct clusterset *clusterset);

/* --- for --explain --- */

struct import_source {
	bool headless;
	bool shown;                /* its namespace is */
	uint64_t resource_version; /* 0: none known */
	size_t slices, endpoints;  /* ready ones */
	size_t clusters;           /* that these are in */
	bool cut;
};

/* The ServiceImport of this name; false: there is none. `*slices`: EndpointSlices name it. */
bool clusterset_find(const struct clusterset *clusterset, const char *namespace, const char *name,
    struct import_source *source, size_t *slices);

/* Before its tree is; of imports it leaves nothing in it. */
void clusterset_free(struct clusterset *clusterset);

#endif
