/*
 * The zones for which this server is authoritative, numbered. The cluster's zone is 0. The reverse zones of --reverse-cidrs follow, then
 * the external zones and the zone of a cluster set. Pure.
 *
 *	kind		its records are in			who may have names in it
 *	CLUSTER		the cluster's tree			pods and Services
 *	REVERSE		the cluster's tree			addresses
 *			and with a cluster set, the external tree
 *	EXTERNAL	the external tree			what clients outside of the cluster may see
 *			and with --external-headless, the cluster's tree
 *	CLUSTERSET	the external tree			Services of all clusters
 */
#ifndef KUBEDNS_ANSWER_ZONES_H
#define KUBEDNS_ANSWER_ZONES_H

#include "kubedns/answer/answer.h"
#include "kubedns/answer/soa.h"

struct name; /* kubedns/answer/name.h */
struct treecache;

enum zone_kind { ZONE_NONE, ZONE_CLUSTER, ZONE_REVERSE, ZONE_EXTERNAL, ZONE_CLUSTERSET };

struct zone {
	enum zone_kind kind;      /* ZONE_NONE if a function has found no zone */
	const struct dname *name; /* lower case, or NULL */
};

/* Snapshots of all trees that have records of our zones: the cluster's tree, and the tree of external zones or NULL. A read section or a
 * hold (struct zone_hold) protects both, or the caller is the writer. */
struct zone_trees {
	const struct tree *tree, *external;
};

/* A reverse zone of ours, from --reverse-cidrs, on an octet or nibble boundary. */
struct reverse_zone {
	struct dname name; /* "96.10.in-addr.arpa." */
	struct addr prefix;
	unsigned bits;
};

/* The reverse stage's configuration. */
struct reverse_config {
	struct reverse_zone *zones;
	size_t zone_count;
	/* --ptr=cidrs: addresses outside of these zones have no PTR records here. */
	bool cidrs_only;
};

static inline const struct reverse_config *
reverse_config(const struct answer_config *config)
{
	return config->stage_config[STAGE_reverse];
}

/* zone_count() returns the number of zones. zone_at() returns the zone with a number below that. */
size_t zone_count(const struct answer_config *config);
struct zone zone_at(const struct answer_config *config, size_t index);

static inline const struct dname *
zone_name(const struct answer_config *config, size_t index)
{
	return zone_at(config, index).name;
}

/* Returns the closest zone of the external tree that contains the name, or ZONE_NONE. */
struct zone external_zone_of(const struct answer_config *config, const struct name *name);

/* Returns the snapshots that belong to `tree`, a published snapshot of the cluster's tree. */
struct zone_trees zone_trees_now(const struct answer_config *config, const struct tree *tree);

/* Holds of all trees of the zones (treecache_hold()), from one point in time. If `tree` is NULL, nothing is held. */
struct zone_hold {
	struct tree_hold *tree, *external;
};

/* Holds the published snapshots. Only the writer of the trees may call it. */
struct zone_hold zones_hold(const struct answer_config *config, struct treecache *cache);
struct zone_trees zone_hold_trees(const struct zone_hold *hold);

/* Returns another reference to the hold. */
struct zone_hold zone_hold_share(const struct zone_hold *hold);

/* Drops a reference. A hold of nothing is fine. */
void zone_hold_drop(const struct zone_hold *hold);

/* Returns the number of bytes of replaced blocks that are kept for holds. */
size_t zones_held_bytes(const struct answer_config *config, const struct treecache *cache);

/* Returns the zone's serial in these snapshots. If its records are in both trees, it is the later serial of the two. */
uint32_t zone_serial(
    const struct answer_config *config, struct zone zone, const struct zone_trees *trees);

/* Returns whether all sources of the zone's records have been read. */
bool zone_is_synced(
    const struct answer_config *config, struct zone zone, const struct zone_trees *trees);

/* Returns whether these answers include the zone. At --external-address, only external zones are answered. */
bool zone_is_answered(const struct answer_config *config, struct zone zone);

/* Writes the RDATA of the zone's SOA (RFC 1035 section 3.3.13) with this serial to `rdata`, which
 * has SOA_RDATA_MAX bytes. Returns its length. */
size_t zone_soa(
    const struct answer_config *config, struct zone zone, uint32_t serial, uint8_t *rdata);

/* Returns the index of the zone with exactly this name (wire format, any case), or -1. */
int zone_index(const struct answer_config *config, const uint8_t *name);

/* Returns the closest of our reverse zones that contains the name of these address bits, or NULL. */
const struct reverse_zone *zone_of_address(
    const struct answer_config *config, const struct addr *addr, unsigned bits);

/* Returns whether a name is below the name of this prefix. Such a name is an address with a PTR record, or a reverse zone. */
bool reverse_has_below(const struct answer_config *config, const struct tree *tree,
    const struct addr *prefix, unsigned bits);

/* Returns the closest of our reverse zones that contains this name, or NULL. The name need not spell an address. */
const struct dname *reverse_zone_of_name(
    const struct answer_config *config, const struct name *name);

/* Returns whether the query for a missing name in one of our zones is sent to other servers (--fallthrough). For names of
 * --external-zones, it returns false. */
bool answer_falls_through(const struct answer_config *config, const struct name *name);

#endif
