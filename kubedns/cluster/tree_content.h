/*
 * What the cluster puts into the tree and the answers read from it, beyond what treecache.h itself
 * defines. The store writes it; answer/ and show/ read it.
 */
#ifndef KUBEDNS_CLUSTER_TREE_CONTENT_H
#define KUBEDNS_CLUSTER_TREE_CONTENT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/hash.h"
#include "treecache/treecache.h"

/* A node's flags: which kind of Service it is; of a namespace, that its label declines search
 * completion, and that a headless Service in it has a name. */
enum node_flags {
	NODE_CLUSTERIP = 1,
	NODE_HEADLESS = 2,
	NODE_EXTERNALNAME = 4,
	NODE_NO_SEARCH = 8,
	/* With --visibility: a Service that every namespace sees, and the namespace that it is in. */
	NODE_OPEN = 16,
	/* A headless ServiceImport's name, with the addresses of all clusters; and below it a cluster's. */
	NODE_IMPORT = 32,
	NODE_IMPORT_CLUSTER = 64,
	NODE_HAS_HEADLESS = 128
};

/* The number of a node that belongs to the zone itself: `svc`, `pod`. */
enum { NODE_PERMANENT = UINT32_MAX };

/*
 * What pods4 and pods6 hold of a pod's address: its namespace's number, and these bits. An address of
 * a pod on its host's network is the node's, so it says nothing about who asks from it. A pod that is
 * starting or ending asks questions, but has no name: only with --client-pods is it there.
 */
#define POD_ON_HOST     (UINT32_C(1) << 31)
#define POD_NOT_RUNNING (UINT32_C(1) << 30)
#define POD_NUMBER      (POD_NOT_RUNNING - 1)

/* Whether a running pod of the namespace with this number has the address. */
static inline bool
pods_run(const struct tree *tree, const struct addr *addr, uint32_t number)
{
	return pods_has(tree, addr, number) || pods_has(tree, addr, number | POD_ON_HOST);
}

/*
 * The number of the namespace whose pods have the address; 0: no pod has it, or a pod on its host's
 * network, or pods of several namespaces, as when one has gone and its address is another's already.
 */
static inline uint32_t
pods_namespace(const struct tree *tree, const struct addr *addr)
{
	struct addr at = *addr;
	uint32_t value = 0, number = 0;

	for (; pods_seek(tree, &at, &value) && addr_equal(&at, addr); value++) {
		if (value & POD_ON_HOST || (number != 0 && number != (value & POD_NUMBER)))
			return 0;
		number = value & POD_NUMBER;
	}
	return number;
}

/* --- places: of endpoints in their slices (slice_at_place), and of clients --- */

/* `hints` of an endpoint say whom it is meant for; without hints of a kind it is for its own node, and
 * for its own zone. */
enum place_kind {
	PLACE_ZONE,     /* the zone that it is in */
	PLACE_FOR_ZONE, /* a zone that it is for */
	PLACE_FOR_NODE, /* a node that it is for */
};

enum { PLACE_NAME_MAX = 253 };

/* The number that stands for a place of this kind (enum place_kind), by its name without regard to
 * case; longer names are cut. The hash needs no seed: whoever could choose names that collide writes
 * EndpointSlices, and can name any place in them. */
static inline uint64_t
place_number(unsigned kind, const char *name, size_t len)
{
	uint8_t lower[PLACE_NAME_MAX];

	if (len > sizeof lower)
		len = sizeof lower;
	memcpy(lower, name, len);
	dname_lower(lower, len);
	uint64_t number = hash64(HASH_START + kind, lower, len) & PLACE_MAX;
	return number != 0 ? number : 1;
}

/* The place of endpoints that are for this node and for this zone: both at once can be counted without a
 * look at each. */
static inline uint64_t
place_of_both(uint64_t node, uint64_t zone)
{
	uint64_t both[] = { node, zone },
		 number = hash64(HASH_START, both, sizeof both) & PLACE_MAX;

	return number != 0 ? number : 1;
}

/* The place of those at a place that are not ready, for the same reason. */
static inline uint64_t
place_not_ready(uint64_t place)
{
	return place_of_both(0, place);
}

/* Where a client is; 0: unknown. */
struct client_place {
	uint64_t node;    /* PLACE_FOR_NODE */
	uint64_t zone;    /* PLACE_FOR_ZONE */
	uint64_t in_zone; /* the same zone as PLACE_ZONE, for the names of --zonal */
};

/* Both may be "". */
struct client_place client_place_of(const char *node, const char *zone);

/* Where each node is, by the numbers in places4 and places6 of the same snapshot of the tree. */
struct node_places {
	uint32_t count; /* numbers are below it; 0 is no node */
	struct client_place items[];
};

/*
 * Which namespaces the pods of each namespace see, by the namespaces' numbers in the same snapshot of
 * the tree: made anew when a namespace or its annotations change (store_namespaces.c), one block of
 * memory.
 */
struct visibility {
	uint32_t count;  /* of numbers; 0 is the client of whom nothing is known */
	uint32_t serial; /* of the SOAs that restricted clients get: tells nothing of changes */
	const uint64_t *open;   /* bits: seen by every client */
	const uint64_t *all;    /* bits: its pods see every namespace */
	const uint32_t *starts; /* count + 2: where each one's part of `sees` begins */
	const uint32_t *sees;   /* numbers, ascending in each part */
};

static inline bool
visibility_bit(const uint64_t *bits, uint32_t number)
{
	return bits[number / 64] >> number % 64 & 1;
}

/* Whether pods of the namespace `client` see the namespace `number`. */
static inline bool
visibility_sees(const struct visibility *v, uint32_t client, uint32_t number)
{
	if (client != 0 && client == number)
		return true;
	if (number == 0 || number > v->count || client > v->count)
		return false;
	if (visibility_bit(v->open, number) || visibility_bit(v->all, client))
		return true;
	uint32_t from = v->starts[client], to = v->starts[client + 1];
	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (v->sees[middle] == number)
			return true;
		if (v->sees[middle] < number)
			from = middle + 1;
		else
			to = middle;
	}
	return false;
}

#endif
