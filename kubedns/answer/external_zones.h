/*
 * The external zones (--external-zones) and the zone of a cluster set (--clusterset-domain). This
 * module knows which names these zones contain, and looks up names in their tree.
 * kubedns/cluster/external/external.h and kubedns/cluster/clusterset/clusterset.h fill that tree.
 * Pure.
 */
#ifndef KUBEDNS_ANSWER_EXTERNAL_ZONES_H
#define KUBEDNS_ANSWER_EXTERNAL_ZONES_H

#include "kubedns/answer/reason.h"
#include "kubedns/answer/zones.h"

struct treecache;

/* Own reason of both stages: the name exists because of endpoints (--external-headless, a headless
 * ServiceImport). The object of all their reasons is the zone. */
enum { EXTERNAL_ENDPOINTS = REASON_OF_STAGE };

/* The configuration of both stages. For a stage without a zone, the configuration is NULL. */
struct external_zones {
	struct treecache *tree;    /* tree of absolute names */
	const struct dname *zones; /* lower case */
	size_t zone_count;
	/* The zone of the cluster set, which is one of `zones`, or NULL. `headless` and
	 * `primary` do not apply to it. */
	const struct dname *clusterset;
	/* --external-address: no other stage is called, and `clusterset` is NULL. */
	bool alone;
	bool headless; /* --external-headless: includes endpoints of the cluster's tree */
	const struct dname *primary; /* MNAME of the SOA, or NULL for `ns.dns` of the zone */
};

static inline const struct external_zones *
external_config(const struct answer_config *config)
{
	return config->stage_config[STAGE_external];
}

static inline const struct external_zones *
clusterset_config(const struct answer_config *config)
{
	return config->stage_config[STAGE_clusterset];
}

/* Sets these zones as the configuration of both stages. NULL means that there are no zones. */
static inline void
external_zones_set(struct answer_config *config, const struct external_zones *zones)
{
	config->stage_config[STAGE_external] = zones;
	config->stage_config[STAGE_clusterset] =
	    zones != NULL && zones->clusterset != NULL ? zones : NULL;
}

struct external_name {
	const struct node *node; /* node of the name or of the wildcard, or NULL for NXDOMAIN */
	bool wildcard;
	uint8_t missing; /* number of the name's first labels that are below the closest encloser */
};

/* Looks up a name in the zones. A wildcard matches missing names at any depth below it (RFC
 * 4592). */
struct external_name external_lookup(
    const struct tree *tree, const struct name *name, const struct dname *zone);

/* Looks up a name in `external`. With --external-headless, names of the cluster's `tree` exist too,
 * so no wildcard matches names below them. */
struct external_name external_find_name(const struct answer_config *config, const struct tree *tree,
    const struct tree *external, const struct name *name, struct zone zone);

/*
 * --external-headless: looks up the name without its first `skip` labels. In the zone, the name has
 * the form `[HOST.|_PORT._PROTO.]SERVICE.NAMESPACE`. In the cluster's tree, it is
 * `[HOST.|_PORT._PROTO.]SERVICE.NAMESPACE.svc`. The function writes that name to `buf` and looks it
 * up. `resolved` may point into `buf`. Only headless Services have such names. A namespace exists
 * if one of its names exists (RFC 8020).
 */
bool external_find_headless(const struct answer_config *config, const struct tree *tree,
    const struct name *asked, unsigned skip, const struct dname *zone, struct name_buf *buf,
    struct resolved *resolved);

/* --- the zone of a cluster set --- */

/* Returns the name of an owner in that zone. In the tree of this zone, owners have absolute
 * names. */
struct dname import_owner_name(const struct owner *owner);

/* Resolves a name. RESOLVED_NODE is a node of the tree, with or without records. The other kinds
 * are names of a headless import, and `endpoints` and `port_label` are set. `node` is then the
 * node of the import, or for RESOLVED_ENDPOINT the node of the import's cluster. */
enum resolved_kind import_resolve(
    const struct tree *tree, const struct name *name, struct resolved *resolved);

/* Iterates over the names to which the PTR records of an address point, in no particular order. A
 * name may occur twice. */
struct import_ptrs {
	struct reverse_walk all;
	const struct slice_endpoints *slice;
	unsigned i;
};

void import_ptrs_find(struct import_ptrs *walk, const struct tree *tree, const struct addr *addr);
bool import_ptrs_next(struct import_ptrs *walk, struct dname *name);

#endif
