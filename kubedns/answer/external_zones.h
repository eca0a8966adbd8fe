/*
 * The zones for the world outside (--external-zones): which names are in them, and what those are
 * in their tree (kubedns/cluster/external.h fills it). Pure.
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
	bool headless;               /* --external-headless: endpoints of the cluster's tree */
	const struct dname *primary; /* MNAME of the SOA; NULL: `ns.dns` of the zone */
};

/* The longest of the zones that the name is in, or NULL. */
const struct dname *external_zone_of(const struct external_zones *zones, const struct name *name);

struct external_name {
	const struct node *node; /* its records, or those of the wildcard; NULL: NXDOMAIN */
	bool wildcard;
};

/* Looks a name of the zones up; a wildcard stands for what does not exist at any depth below it
 * (RFC 4592). */
struct external_name external_lookup(
    const struct tree *tree, const struct name *name, const struct dname *zone);

#endif
