/*
 * Looks up a name in our zone. The result says whether the name exists and where its records of all
 * types are. Pure. tree_find_paths() has looked up the nodes of the labels before, for a batch of
 * queries together (serve/net/udp.c).
 */
#ifndef KUBEDNS_ANSWER_ZONE_LOOKUP_H
#define KUBEDNS_ANSWER_ZONE_LOOKUP_H

#include "kubedns/answer/answer.h"
#include "kubedns/answer/name.h"
#include "kubedns/cluster/tree_content.h"
#include "treecache/treecache.h"

enum pods_mode { PODS_DISABLED, PODS_INSECURE, PODS_VERIFIED };

/* The zone stage's configuration. */
struct zone_config {
	enum pods_mode pods;
	bool ignore_empty_service;
	bool wildcards;
};

static inline const struct zone_config *
zone_config(const struct answer_config *config)
{
	return config->stage_config[STAGE_zone];
}

enum resolved_kind {
	RESOLVED_NOTHING,  /* NXDOMAIN */
	RESOLVED_EMPTY,    /* an empty non-terminal: the name exists and has no records */
	RESOLVED_NODE,     /* the name has the node's records */
	RESOLVED_HEADLESS, /* the name has the endpoint set's addresses and ports */
	RESOLVED_PORT,     /* `_port._proto` of a headless Service */
	RESOLVED_ENDPOINT, /* the endpoints with this name */
	RESOLVED_ZONAL,    /* the endpoints of a set that are in a zone (nearest.h) */
	RESOLVED_POD,      /* the name is an address */
	RESOLVED_CNAME,    /* the CNAME of a federation */
};

struct resolved {
	enum resolved_kind kind;
	const struct node *node;    /* the last node that was found */
	const struct node *service; /* NODE: the Service to which the name belongs, or NULL */
	const struct endpoint_set *endpoints;
	/* ZONAL: the place of the zone. The place is 0 if no endpoint is in the zone. The name
	 * then has the whole set. */
	uint64_t zone;
	uint64_t port_label;       /* PORT: label made from the name's first two labels */
	const uint8_t *label;      /* ENDPOINT: the host name if an endpoint has it, else NULL */
	struct endpoint_ref first; /* ENDPOINT: the first endpoint with the name */
	/* POD: the address. ENDPOINT: the address in the name if endpoints without a host name
	 * have it, else AF_UNSPEC. */
	struct addr addr;
	struct dname cname; /* CNAME */
};

/*
 * Resolves the first `below` labels of `name`, which are the labels before our zone's name. `path`
 * has the nodes of these labels in this tree (tree_find_paths). If `path` is NULL, this function
 * looks them up.
 */
void resolve(const struct answer_config *config, const struct tree *tree, const struct name *name,
    unsigned below, const struct tree_path *path, struct resolved *resolved);

/* Returns whether this is a Service whose name does not exist because no endpoint is ready.
 * Headless Services have no name then (specification 2.4.1). With --ignore-empty-service,
 * Services with a ClusterIP have no name either. */
bool service_without_ready_endpoints(const struct answer_config *config, const struct node *node);

/*
 * Returns whether the set has a published endpoint with this name. An endpoint's name is its host
 * name, or its address with dashes if it has no host name. If a host name equals another endpoint's
 * address with dashes, the name belongs to both. Sets `endpoints`, `label`, `first` and `addr`.
 */
bool resolve_endpoint(const struct tree *tree, const struct endpoint_set *endpoints,
    const uint8_t *label, struct resolved *resolved);

/* An iterator over the endpoints of a RESOLVED_ENDPOINT. An endpoint that is in two slices is
 * returned twice. */
struct resolved_walk {
	struct endpoint_walk walk;
	const struct tree *tree;
	const struct resolved *resolved;
	bool by_addr;
};

void resolved_endpoints(
    struct resolved_walk *walk, const struct tree *tree, const struct resolved *resolved);
bool resolved_next(struct resolved_walk *walk, struct endpoint_ref *ref);

/* Skips the remaining endpoints in the slice of the endpoint that was returned last. */
void resolved_skip_slice(struct resolved_walk *walk);

/* Parses `4.3.2.1.in-addr.arpa` or a name in ip6.arpa. Returns the number of address bits in the
 * name, or -1 if it is not such a name. A whole address has 32 or 128 bits. */
int resolve_reverse_name(const struct name *name, struct addr *addr);

/* reverse_name_prefix() makes the name of the first `bits` bits of an address. reverse_name()
 * makes the name of the whole address. */
void reverse_name_prefix(const struct addr *addr, unsigned bits, struct dname *name);
void reverse_name(const struct addr *addr, struct dname *name);

/*
 * --- the negative TTL of a name in our zone ---
 *
 * While a cache (dnsmasq, or a cache on a node) stores a negative answer, it does not notice that
 * the name is created. A negative answer for a name that is about to exist must therefore not be
 * cached at all. A negative answer for a name that no object can create may be cached for minutes.
 */

enum denial {
	/* 0 s, for a Service that waits for a ready endpoint, and for a name below a headless
	 * Service. The names of pods below a headless Service change often. */
	DENIAL_SOON,
	DENIAL_USUAL, /* --negative-ttl */
	/* 30 s, or --negative-ttl if that is higher, for names that search lists make from
	 * external names (`example.com`, directly below the zone). No object can create such a
	 * name, but the ConfigMap can. */
	DENIAL_UNLIKELY,
	/* 300 s, or --negative-ttl if that is higher, for names that no object can create
	 * (`www.example.com.default.svc`). */
	DENIAL_NEVER,
};

/* Returns the kind of negative answer for the first `below` labels of `name`. resolve() must
 * have resolved them to RESOLVED_NOTHING. */
enum denial denial_of(const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned below, const struct resolved *resolved);

enum { DENIAL_UNLIKELY_S = 30, DENIAL_NEVER_S = 300 };

/* Returns the negative TTL for this kind. Inline, because search lists make most queries end
 * here. */
static inline uint32_t
denial_ttl_s(const struct answer_config *config, enum denial denial)
{
	uint32_t least_s = denial == DENIAL_NEVER      ? DENIAL_NEVER_S
			   : denial == DENIAL_UNLIKELY ? DENIAL_UNLIKELY_S
						       : 0;

	if (denial == DENIAL_SOON)
		return 0;
	return config->negative_ttl_s > least_s ? config->negative_ttl_s : least_s;
}

#endif
