/*
 * The zones for the world outside (--external-zones) and that of a cluster set (--clusterset-domain):
 * which names are in them, and what those are in their tree, which kubedns/cluster/external/external.h and
 * kubedns/cluster/clusterset/clusterset.h fill. Pure.
 */
#ifndef KUBEDNS_ANSWER_EXTERNAL_ZONES_H
#define KUBEDNS_ANSWER_EXTERNAL_ZONES_H

#include "kubedns/answer/zone_lookup.h"

struct treecache;

/* Part of struct answer_config. */
struct external_zones {
	const struct treecache *tree; /* of whole names */
	const struct dname *zones;    /* lower case */
	size_t zone_count;
	const struct dname
	    *clusterset;             /* one of them, to which the next two do not apply; or NULL */
	bool headless;               /* --external-headless: endpoints of the cluster's tree */
	const struct dname *primary; /* MNAME of the SOA; NULL: `ns.dns` of the zone */
};

/* The MNAME of this zone's SOA, or NULL. */
static inline const struct dname *
external_primary(const struct external_zones *zones, const struct dname *zone)
{
	return zone == zones->clusterset ? NULL : zones->primary;
}

/* The longest of the zones that the name is in, or NULL. */
const struct dname *external_zone_of(const struct external_zones *zones, const struct name *name);

struct external_name {
	const struct node *node; /* its records, or those of the wildcard; NULL: NXDOMAIN */
	bool wildcard;
	uint8_t missing; /* of the name's labels, the first ones, below the closest encloser */
};

/* Looks a name of the zones up; a wildcard stands for what does not exist at any depth below it
 * (RFC 4592). */
struct external_name external_lookup(
    const struct tree *tree, const struct name *name, const struct dname *zone);

/* The same in `external`; with --external-headless names of the cluster's `tree` exist too, so that a
 * wildcard stands for none below them. */
struct external_name external_find_name(const struct answer_config *config, const struct tree *tree,
    const struct tree *external, const struct name *name, const struct dname *zone);

/*
 * --external-headless: the name without its first `skip` labels, `[HOST.|_PORT._PROTO.]SERVICE.NAMESPACE`
 * in the zone, is looked up as the cluster's `[HOST.|_PORT._PROTO.]SERVICE.NAMESPACE.svc`, into `buf`,
 * to which `resolved` may point. Headless Services only. A namespace exists if one in it does (RFC 8020).
 */
bool external_find_headless(const struct answer_config *config, const struct tree *tree,
    const struct name *asked, unsigned skip, const struct dname *zone, struct name_buf *buf,
    struct resolved *resolved);

/* --- the zone of a cluster set --- */

/* The name of an owner in it, which is whole there. */
struct dname import_owner_name(const struct owner *owner);

/* What the name is: RESOLVED_NODE is a name with records of its own, or without any; the other kinds are a
 * headless import's, with `node` its node (or for RESOLVED_ENDPOINT its cluster's), `endpoints`,
 * `port_label`. */
enum resolved_kind import_resolve(
    const struct tree *tree, const struct name *name, struct resolved *resolved);

/* The names that PTRs of an address lead to, in no order; one may come twice. */
struct import_ptrs {
	struct reverse_walk all;
	const struct slice_endpoints *slice;
	unsigned i;
};

void import_ptrs_find(struct import_ptrs *walk, const struct tree *tree, const struct addr *addr);
bool import_ptrs_next(struct import_ptrs *walk, struct dname *name);

/* The serial of the zones: of their tree, or with --external-headless the later of both trees'. */
uint32_t external_serial(
    const struct external_zones *zones, const struct tree *tree, const struct tree *external);

/* That of the reverse zones: of the cluster's tree, or with a cluster set, whose PTRs are in them too, the
 * later of both. `zones` and `external` may be NULL. */
uint32_t reverse_serial(
    const struct external_zones *zones, const struct tree *tree, const struct tree *external);

#endif
