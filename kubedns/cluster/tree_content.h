/*
 * The content that the cluster adds to the tree, beyond the definitions of treecache.h. The store
 * writes it; answer/ and show/ read it.
 */
#ifndef KUBEDNS_CLUSTER_TREE_CONTENT_H
#define KUBEDNS_CLUSTER_TREE_CONTENT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/hash.h"
#include "treecache/treecache.h"

/*
 * Flags of a node. On a Service's node, they are the kind of Service. On a namespace's node,
 * LABELLED means that the namespace has the label of a module. HAS_HEADLESS
 * means that a headless Service in the namespace has a name.
 */
enum node_flags {
	NODE_CLUSTERIP = 1,
	NODE_HEADLESS = 2,
	NODE_EXTERNALNAME = 4,
	NODE_LABELLED = 8,
	/* With --visibility, marks a Service that every namespace can see, and that Service's
	 * namespace. */
	NODE_OPEN = 16,
	/* IMPORT marks the name of a headless ServiceImport, which has the addresses of all
	 * clusters. IMPORT_CLUSTER marks the name of one cluster below it. */
	NODE_IMPORT = 32,
	NODE_IMPORT_CLUSTER = 64,
	NODE_HAS_HEADLESS = 128
};

/* The label of a module. A namespace has it if its label `key` has this value. */
struct namespace_label {
	const char *key, *value;
};

/* Value of node.number for nodes that always exist: `svc` and `pod` below the zone's name. */
enum { NODE_PERMANENT = UINT32_MAX };

/*
 * pods4 and pods6 map a pod's address to the number of its namespace, with two flag bits.
 * POD_ON_HOST: the pod uses its host's network, so the address is the node's and does not tell
 * which pod sent a query. POD_NOT_RUNNING: the pod is starting or ending. Such a pod sends queries
 * but has no name, so it is stored only with --client-pods.
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
 * Returns the number of the namespace whose pods have the address. Returns 0 if no pod has the
 * address, if a pod on its host's network has it, or if pods of several namespaces have it. Pods of
 * several namespaces can have it for a short time, when a pod has ended and another pod already
 * uses its address.
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

/* --- places of endpoints in their slices (slice_at_place), and places of clients --- */

/*
 * The kinds of places. The `hints` of an endpoint name the zones and nodes that should use it.
 * Without hints for zones, it is meant for its own zone. Without hints for nodes, it is meant for
 * its own node.
 */
enum place_kind {
	PLACE_ZONE,     /* zone where the endpoint is */
	PLACE_FOR_ZONE, /* zone for which the endpoint is meant */
	PLACE_FOR_NODE, /* node for which the endpoint is meant */
};

enum { PLACE_NAME_MAX = 253 };

/*
 * Returns the number of a place, from its kind (enum place_kind) and its name, ignoring case. Names
 * longer than PLACE_NAME_MAX are truncated. The hash needs no secret seed. Only somebody who writes
 * EndpointSlices could choose colliding names, and such a person can name any place in them anyway.
 */
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

/* Returns the place of endpoints that are meant for both this node and this zone. With this place,
 * these endpoints can be counted without looking at each of them. */
static inline uint64_t
place_of_both(uint64_t node, uint64_t zone)
{
	uint64_t both[] = { node, zone },
		 number = hash64(HASH_START, both, sizeof both) & PLACE_MAX;

	return number != 0 ? number : 1;
}

/* Returns the place of the endpoints at `place` that are not ready. This place exists for the same
 * reason as place_of_both(). */
static inline uint64_t
place_not_ready(uint64_t place)
{
	return place_of_both(0, place);
}

/* Location of a client; 0 means unknown. */
struct client_place {
	uint64_t node;    /* number of the place PLACE_FOR_NODE */
	uint64_t zone;    /* number of the place PLACE_FOR_ZONE */
	uint64_t in_zone; /* the same zone as PLACE_ZONE, for the names of --zonal */
};

/* Makes a client_place. Both names may be "". */
struct client_place client_place_of(const char *node, const char *zone);

/* The places of each node. The index is the node's number in places4 and places6 of the same
 * snapshot. */
struct node_places {
	uint32_t count; /* all node numbers are below `count`; 0 stands for no node */
	struct client_place items[];
};

/*
 * Which namespaces the pods of each namespace can see. Namespaces are identified by their numbers
 * in the same snapshot. A new table, in one block of memory, is made whenever a namespace or its
 * annotations change (store_namespaces.c).
 */
struct visibility {
	uint32_t count; /* highest namespace number; number 0 stands for an unknown client */
	/* Serial of the SOA that restricted clients get; it does not reveal changes that they
	 * cannot see. */
	uint32_t serial;
	const uint64_t *open; /* bitmap of namespaces that every client can see */
	const uint64_t *all;  /* bitmap of namespaces whose pods can see every namespace */
	/* The start of each namespace's part of `sees`. The array has count + 2 items. */
	const uint32_t *starts;
	const uint32_t *sees; /* namespace numbers, ascending within each part */
};

static inline bool
visibility_bit(const uint64_t *bits, uint32_t number)
{
	return bits[number / 64] >> number % 64 & 1;
}

/* Whether pods of the namespace `client` can see the namespace `number`. */
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
