/*
 * Looks up a name of our zone: whether it exists, and where its records are, whatever the type
 * asked for. Pure. The nodes of its labels are found before, for a batch of queries at a time
 * (tree_find_paths, called by serve/udp.c).
 */
#ifndef KUBEDNS_ANSWER_ZONE_LOOKUP_H
#define KUBEDNS_ANSWER_ZONE_LOOKUP_H

#include "kubedns/answer/answer.h"
#include "kubedns/answer/name.h"
#include "kubedns/cluster/tree_content.h"
#include "treecache/treecache.h"

enum resolved_kind {
	RESOLVED_NOTHING,  /* NXDOMAIN */
	RESOLVED_EMPTY,    /* an empty non-terminal: exists and has no records */
	RESOLVED_NODE,     /* the node's records */
	RESOLVED_HEADLESS, /* the endpoint set's addresses and ports */
	RESOLVED_PORT,     /* `_port._proto` of a headless Service */
	RESOLVED_ENDPOINT, /* the endpoints of one name */
	RESOLVED_ZONAL,    /* those endpoints of a set that are in a zone (nearest.h) */
	RESOLVED_POD,      /* the address that the name spells */
	RESOLVED_CNAME,    /* a federation's */
};

struct resolved {
	enum resolved_kind kind;
	const struct node *node;    /* the last one that was found */
	const struct node *service; /* NODE: the Service that the name belongs to, or NULL */
	const struct endpoint_set *endpoints;
	uint64_t zone;             /* ZONAL: the place; 0: the whole set, none being in the zone */
	uint64_t port_label;       /* PORT: of the name's first two labels */
	const uint8_t *label;      /* ENDPOINT: the host name of some; NULL: of none */
	struct endpoint_ref first; /* ENDPOINT: the first that has it */
	struct addr addr;          /* POD; ENDPOINT: what the name spells, if endpoints without
				      * a host name have it, else AF_UNSPEC */
	struct dname cname;        /* CNAME */
};

/*
 * Resolves the first `below` labels of `name`, those before our zone. `path`: the nodes of these
 * labels in this tree (tree_find_paths), or NULL: they are looked up here.
 */
void resolve(const struct answer_config *config, const struct tree *tree, const struct name *name,
    unsigned below, const struct tree_path *path, struct resolved *resolved);

/* Whether this is a Service whose name does not exist because no endpoint is ready: a headless one
 * (specification 2.4.1), or with --ignore-empty-service one with a ClusterIP. */
bool service_without_ready_endpoints(const struct answer_config *config, const struct node *node);

/*
 * Whether the set has a published endpoint of this name: its host name, or its address with dashes
 * if it has none. A host name may spell another endpoint's address: then the name is that of both.
 * Sets `endpoints`, `label`, `first` and `addr`.
 */
bool resolve_endpoint(const struct tree *tree, const struct endpoint_set *endpoints,
    const uint8_t *label, struct resolved *resolved);

/* A walk over the endpoints of a RESOLVED_ENDPOINT. One that is in two slices comes twice. */
struct resolved_walk {
	struct endpoint_walk walk;
	const struct tree *tree;
	const struct resolved *resolved;
	bool by_addr;
};

void resolved_endpoints(
    struct resolved_walk *walk, const struct tree *tree, const struct resolved *resolved);
bool resolved_next(struct resolved_walk *walk, struct endpoint_ref *ref);

/* Leaves out what else the slice of the last endpoint has. */
void resolved_skip_slice(struct resolved_walk *walk);

/* Reads `4.3.2.1.in-addr.arpa` or a name of ip6.arpa. Returns the number of address bits that it
 * spells (32 and 128: a whole address), -1: it is no such name. */
int resolve_reverse_name(const struct name *name, struct addr *addr);

/* The name that spells the first `bits` bits of an address; the name of the whole address. */
void reverse_name_prefix(const struct addr *addr, unsigned bits, struct dname *name);
void reverse_name(const struct addr *addr, struct dname *name);

#endif
