/*
 * All records of a zone of ours, one by one: what --print-zone prints and a zone transfer sends.
 * Pure.
 *
 * The zones are ours, the reverse zones of --reverse-cidrs, those for the world outside and that of a
 * cluster set. A static zone cannot hold pod names, names without records (empty namespaces) and
 * addresses behind CNAMEs that leave our zones: these are missing. Names of --external-headless are in the
 * zones for outside, with records from the cluster's tree; PTRs to names of a cluster set are in the reverse
 * zones, with records from the tree of those for outside.
 *
 * The operator's own names (own_names.h) are for the cluster's clients: they are in our zone and the
 * reverse zones, and hide the cluster's there. What is for the world outside is as --external-address
 * answers it, without them.
 *
 * No record comes twice. A walk costs the zone's size in time, and 64 KB; of an endpoint
 * set in which names are shared, 32 bytes more for each endpoint.
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
	uint16_t len; /* of rdata, in which names are not compressed */
	const uint8_t *rdata;
};

struct zone_walk {
	const struct answer_config *config;
	const struct tree *tree;     /* in a read section, held, or the writer's */
	const struct tree *external; /* the same of the zones for outside; NULL: there are none */
	/* Called for each record, whose memory lives as long as the call; false ends the walk. */
	bool (*take)(void *arg, const struct zone_record *record);
	void *arg;

	/* Called for each of the cluster's records that one of the operator's own names hides; may
	 * be NULL. Its `arg` is hidden_arg. */
	void (*hidden)(void *arg, const struct zone_record *record);
	void *hidden_arg;

	/* the walk's own */
	const struct own_names
	    *own;          /* hide the cluster's records of the same name; NULL: none do */
	struct tree plain; /* without a context: no rewrites, no names of one's own */
	const struct headless *headless; /* whose records are put, under its name in a zone for
					  * outside; or NULL */
	uint8_t *room;
	bool stopped;
};

/* Before any of the functions below, after the members above `own` are set; and after them. */
void zone_walk_begin(struct zone_walk *walk);
void zone_walk_end(struct zone_walk *walk);

/* The whole zone of this index: its SOA first, then the rest in no order. False if `take` ended
 * it. */
bool zone_walk_zone(struct zone_walk *walk, size_t index);

/* Of our zone: the records at one node, its endpoint set's included; and at all nodes below it. */
void zone_walk_node(struct zone_walk *walk, const struct node *node, const struct dname *name);
void zone_walk_below(struct zone_walk *walk, const struct node *node, const struct dname *name);

/*
 * With --external-headless: the records that a headless Service, its endpoints and its ports have in the
 * zone for outside with this index. `service`: `SERVICE.NAMESPACE.`; no records if there is none.
 */
void zone_walk_headless(struct zone_walk *walk, size_t index, const struct dname *service);

/* The PTRs of an address, if it is in the reverse zone of this index and not in one inside it. */
void zone_walk_addr(struct zone_walk *walk, size_t index, const struct addr *addr);

#endif
