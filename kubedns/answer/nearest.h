/*
 * --nearest and --zonal: which endpoints of a headless Service are near a client. Pure.
 *
 *	NEAR_NODE	endpoints for the client's node: those whose hints name it, without hints those on it
 *	NEAR_ZONE	of the others those for its zone: by hints, without hints by the zone that they are in
 *	NEAR_FAR	the rest
 *
 * An answer has the classes in this order, each from a random endpoint on and then around: clients that
 * take the first address share the near endpoints evenly. Where the client is, the view says (view.h); or
 * every client is on this node. kubedns keeps neither these answers nor their order, and refuses --nearest
 * where a cache stands before it.
 *
 * Places are found by their number in each slice (slice_at_place); endpoints that are for a node and for a
 * zone have a third place (place_of_both), so that both are counted without a look at each. An answer costs
 * its own records, two or three binary searches in each slice of the Service (controllers make a slice for
 * 100 endpoints), and a look at each endpoint of the slices that it has records of. A set with more slices than
 * NEAREST_SLICES is answered in any order, and --zonal looks at so many of them.
 */
#ifndef KUBEDNS_ANSWER_NEAREST_H
#define KUBEDNS_ANSWER_NEAREST_H

#include "kubedns/answer/view.h"

enum { NEAREST_SLICES = 4096 };

/* The endpoints of a set that an answer may have, and the client's place. */
struct nearest {
	const struct endpoint_set *endpoints;
	uint64_t node, zone; /* places that are near; 0: none is */
	uint8_t family;      /* AF_UNSPEC: both */
	bool doubles;        /* also entries whose address another entry counts, for SRV */
	bool by_port;        /* only slices that have ports under the label, for SRV */
	uint64_t port_label; /* 0: any */
	/* How many there are of each class: nearest_count(). */
	uint32_t counts[NEAR_CLASSES];
};

/* Fills `counts`. */
void nearest_count(struct nearest *nearest);

/* Calls `visit` for each entry of a class once, from number `start` on and then from the first, until it
 * returns false; then returns false too. */
bool nearest_each(const struct nearest *nearest, enum near near, uint32_t start,
    bool (*visit)(void *arg, const struct slice_endpoints *slice, unsigned i), void *arg);

/* Whether one of the near ones is ready. */
bool nearest_is_ready(const struct nearest *nearest);

/* How near an entry of a slice is. */
enum near nearest_class(
    const struct client_place *place, const struct slice_endpoints *slice, unsigned i);

struct name;
struct resolved;

/*
 * The names of --zonal, below a headless Service that exists: `left` labels of the name stand before the
 * Service's.
 *
 *	[ZONE.]pin._zone	the endpoints in the zone, which may have dots
 *	[ZONE.]prefer._zone	the same, or if there are none all of the Service
 *	[LABEL.]_zone		as pin, for a zone without a dot
 *
 * Without ZONE it is the client's own zone; if that is not known, no endpoint is in it. A zone in which
 * nothing is published is RESOLVED_EMPTY, without `endpoints`. False: it is no such name. Else sets kind,
 * `endpoints` and `zone`.
 */
bool nearest_resolve(const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned left, const struct endpoint_set *endpoints,
    struct resolved *resolved);

/* Whether such a name says a zone, and does not mean the client's own. */
bool nearest_spells_zone(const struct name *name, unsigned left);

#endif
