/*
 * All records of one of our zones, one by one, for --print-zone and zone transfers. Pure.
 *
 * The zones are the cluster's zone, the reverse zones of --reverse-cidrs, the external zones, and the
 * zone of a cluster set. A static zone cannot contain names of pods, names without records (empty
 * namespaces), or addresses that need a CNAME out of our zones. The walk leaves these out. Names of
 * --external-headless are in the external zones, with records from the cluster's tree. PTR records
 * of a cluster set's names are in the reverse zones, with records from the tree of external zones.
 *
 * Local names (local_names.h) are for the cluster's clients. Local names are in our zone and the
 * reverse zones, and hide the cluster's names there. External zones do not contain local names, and
 * answers at --external-address do not either.
 *
 * No record occurs twice. The time of a walk is proportional to the zone's size. A walk needs 64 KB
 * of memory. For an endpoint set with shared names, it needs 32 bytes more for each endpoint.
 */
#ifndef KUBEDNS_ANSWER_ZONE_WALK_H
#define KUBEDNS_ANSWER_ZONE_WALK_H

#include "kubedns/answer/answer.h"
#include "kubedns/answer/zones.h"
#include "treecache/treecache.h"

struct zone_record {
	const struct dname *owner;
	uint32_t ttl_s;
	uint16_t type;
	uint16_t len; /* length of `rdata`; names in it are not compressed */
	const uint8_t *rdata;
};

struct zone_walk {
	const struct answer_config *config;
	struct zone_trees trees;
	/* Called for each record, which is valid during the call. Returning false ends the walk. */
	bool (*take)(void *arg, const struct zone_record *record);
	void *arg;

	/* Called with hidden_arg for each of the cluster's records that a local name hides. May be
	 * NULL. */
	void (*hidden)(void *arg, const struct zone_record *record);
	void *hidden_arg;

	/* state of the walk */
	/* Local names, which hide the cluster's records of the same name, or NULL. */
	const struct local_names *own;
	struct tree plain; /* the tree without a context, so without rewrites and local names */
	/* The headless Service whose records are being written under its name in an external
	 * zone, or NULL. */
	const struct headless *headless;
	uint8_t *capacity;
	bool stopped;
};

/* Set the members above `own`, then call zone_walk_begin(), then the following functions. Call
 * zone_walk_end() last. */
void zone_walk_begin(struct zone_walk *walk);
void zone_walk_end(struct zone_walk *walk);

/* Walks over the whole zone with this index. Its SOA comes first, then the other records in no
 * particular order. Returns false if `take` ended the walk. */
bool zone_walk_zone(struct zone_walk *walk, size_t index);

/* Walks over the records in our zone at one node and at all nodes below it, including records of
 * their endpoint sets. */
void zone_walk_node(struct zone_walk *walk, const struct node *node, const struct dname *name);
void zone_walk_below(struct zone_walk *walk, const struct node *node, const struct dname *name);

/*
 * With --external-headless: walks over the records that a headless Service, its endpoints and its
 * ports have in the external zone with this index. `service` is `SERVICE.NAMESPACE.`. If the
 * Service does not exist, there are no records.
 */
void zone_walk_headless(struct zone_walk *walk, size_t index, const struct dname *service);

/* Walks over the PTR records of an address, if it is in the reverse zone with this index and not
 * in a zone inside that zone. */
void zone_walk_addr(struct zone_walk *walk, size_t index, const struct addr *addr);

#endif
