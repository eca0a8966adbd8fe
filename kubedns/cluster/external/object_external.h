/*
 * What names for the world outside (--external-zones) need of Kubernetes objects beyond object.h:
 * the host names that an object claims, and the addresses of what serves them.
 *
 *	Service                       annotation          status.loadBalancer, spec.externalIPs
 *	Ingress                       spec.rules[].host   status.loadBalancer
 *	Gateway                       spec.listeners[]    status.addresses
 *	HTTPRoute, GRPCRoute,         spec.hostnames      those of the Gateways that have accepted it
 *	TLSRoute
 *
 * Strings are borrowed from the json-c tree, as in object.h; the arrays belong to the struct.
 */
#ifndef KUBEDNS_CLUSTER_EXTERNAL_OBJECT_EXTERNAL_H
#define KUBEDNS_CLUSTER_EXTERNAL_OBJECT_EXTERNAL_H

#include "kubedns/cluster/object.h"

/* What is read of one object; the rest is left out, and object->cut set. The Gateway API itself
 * allows 64 listeners and 32 parents. */
enum {
	EXTERNAL_ADDRS_MAX = 64,
	EXTERNAL_HOSTS_MAX = 1000,
	EXTERNAL_LISTENERS_MAX = 64,
	EXTERNAL_PARENTS_MAX = 32,
	EXTERNAL_TTL_MAX_S = 86400,
};

struct object_text {
	const char *text; /* not NUL-terminated */
	size_t len;
};

struct object_listener {
	const char *name;
	const char *hostname; /* "": any */
	uint16_t port;
};

/* A Gateway that has accepted the route (condition Accepted of status.parents): it says which
 * namespaces' routes it takes, so the route's own spec.parentRefs are no proof. */
struct object_parent {
	const char *namespace, *name;
	const char *section; /* one listener; "": all */
	uint16_t port;       /* one port; 0: all */
};

struct object_external {
	int64_t
	    created_s; /* metadata.creationTimestamp, Unix; INT64_MAX: missing, so the youngest */
	bool has_ttl;
	uint32_t ttl_s;     /* external-dns.alpha.kubernetes.io/ttl */
	struct addr *addrs; /* each once */
	size_t addr_count;
	size_t balancer_addr_count; /* of a Service: the first so many; then come externalIPs */
	const char *target; /* the first by name of the load balancer's host names; NULL: none */
	size_t target_count;
	bool balanced;             /* a Service of type LoadBalancer, which may have neither yet */
	struct object_text *hosts; /* as written */
	size_t host_count;
	struct object_listener *listeners;
	size_t listener_count;
	struct object_parent *parents;
	size_t parent_count;
};

/*
 * Reads it of a Service, Ingress, Gateway or route that object_extract() has read, into
 * object->external, which object_clear() frees. `*why` is set, if it was NULL, to the first field
 * that made no sense and was left out.
 */
void object_read_external(struct json_object *json, struct object *object, const char **why);

/* A hash of what was read, by which two readings of an object are compared. */
uint64_t object_external_digest(uint64_t seed, const struct object_external *external);

void object_external_free(struct object_external *external);

#endif
