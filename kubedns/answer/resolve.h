/*
 * What a name is: existence first, type second (dns.md). Pure.
 */
#ifndef KUBEDNS_ANSWER_RESOLVE_H
#define KUBEDNS_ANSWER_RESOLVE_H

#include "kubedns/answer/answer.h"
#include "kubedns/cluster/tree_content.h"
#include "treecache/treecache.h"

/* A name cut into labels, borrowed; `wire` is lower case and readable 7 bytes behind its end. */
struct name {
	const uint8_t *wire;
	const uint8_t *offsets; /* of the labels, first to last */
	uint8_t len;
	uint8_t count; /* labels */
};

/* Cuts the name at `wire`, whose labels' offsets are put into `offsets`. */
struct name name_cut(const uint8_t *wire, size_t len, uint8_t offsets[DNAME_LABELS_MAX]);

/* How many labels of `name` stand before `zone`
 * (0: it is the zone), or -1 if it is not in the zone. */
int name_below(const struct name *name, const struct dname *zone);

enum resolved_kind {
	RESOLVED_NOTHING,  /* NXDOMAIN */
	RESOLVED_EMPTY,    /* exists and has no record of its own */
	RESOLVED_NODE,     /* the node's records */
	RESOLVED_HEADLESS, /* the endpoint set's addresses and ports */
	RESOLVED_PORT,     /* `_port._proto` of a headless Service */
	RESOLVED_ENDPOINT, /* the endpoints of one name */
	RESOLVED_POD,      /* the address that the name spells */
	RESOLVED_CNAME,    /* a federation's */
};

struct resolved {
	enum resolved_kind kind;
	const struct node *node;    /* the deepest one on the way */
	const struct node *service; /* NODE: the Service's own, if it is one's */
	const struct endpoint_set *endpoints;
	const uint8_t *port, *proto; /* PORT: labels of the name */
	const uint8_t *label;        /* ENDPOINT: by host name; NULL: by address */
	struct endpoint_ref first;   /* of these, if its slice is not NULL */
	struct addr addr;            /* ENDPOINT by address, POD */
	struct dname cname;          /* CNAME */
};

/*
 * Resolves the first `below` labels of `name`, those before our zone. `path`: these labels' in this
 * tree, or NULL.
 */
void resolve(const struct answer_config *config, const struct tree *tree, const struct name *name,
    unsigned below, const struct tree_path *path, struct resolved *resolved);

/* Whether a Service answers at all:
 * a headless one without a ready endpoint does not exist (specification 2.4.1). */
bool service_without_ready_endpoints(const struct answer_config *config, const struct node *node);

/* Begins a walk over the endpoints of a RESOLVED_ENDPOINT. */
void resolved_endpoints(
    struct endpoint_walk *walk, const struct tree *tree, const struct resolved *resolved);

/* Whether a slice listens on this port ("_http", "_tcp"; NULL, NULL: on any) with a number, and the
 * next such from `*at` on. */
bool slice_port(
    const struct slice_endpoints *slice, const uint8_t *port, const uint8_t *proto, unsigned *at);

/* Reads `4.3.2.1.in-addr.arpa` or its IPv6 kin; the number of address bits that the name spells
 * (32, 128: whole), -1 if it is no such name. */
int resolve_reverse_name(const struct name *name, struct addr *addr);

/* The name that spells the first `bits` bits of an address, and the whole address. */
void reverse_name_prefix(const struct addr *addr, unsigned bits, struct dname *name);
void reverse_name(const struct addr *addr, struct dname *name);

#endif
