/*
 * The fields of Kubernetes objects that external names (--external-zones) need, in addition to
 * object.h: the host names that an object claims, and its addresses.
 *
 *	Service                       annotation          status.loadBalancer, spec.externalIPs
 *	Ingress                       spec.rules[].host   status.loadBalancer
 *	Gateway                       spec.listeners[]    status.addresses
 *	ListenerSet                   spec.listeners[]    addresses of the Gateway that accepted it
 *	HTTPRoute, GRPCRoute,         spec.hostnames      addresses of the Gateways that accepted it,
 *	TLSRoute                                          itself or through a ListenerSet
 *
 * Strings point into the json-c tree, as in object.h. The arrays belong to the struct.
 */
#ifndef KUBEDNS_CLUSTER_EXTERNAL_OBJECT_EXTERNAL_H
#define KUBEDNS_CLUSTER_EXTERNAL_OBJECT_EXTERNAL_H

#include "kubedns/cluster/object.h"

/* Limits on one object. Excess entries are ignored, and object->cut is set. The Gateway API itself
 * allows 64 listeners and 32 parents. */
enum {
	EXTERNAL_ADDRS_MAX = 64,
	EXTERNAL_HOSTS_MAX = 1000,
	EXTERNAL_RECORDS_MAX = 4000, /* host names times addresses: each name has all addresses */
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
	const char *hostname; /* "": any host name */
	uint16_t port;
};

/*
 * A Gateway or ListenerSet that has accepted the route (condition Accepted in status.parents), or
 * the Gateway that has accepted the ListenerSet (condition Accepted in status.conditions). Only the
 * Gateway decides from which namespaces it takes them, so a parentRef in `spec` proves nothing.
 */
struct object_parent {
	enum object_kind kind; /* OBJECT_GATEWAY or OBJECT_LISTENERSET */
	const char *namespace, *name;
	const char *section; /* name of a listener; "": all listeners */
	uint16_t port;       /* 0: all ports */
};

struct object_external {
	/* metadata.creationTimestamp as Unix time. INT64_MAX if missing, so the object counts as
	 * the youngest. */
	int64_t created_s;
	bool has_ttl;
	uint32_t ttl_s;     /* external-dns.alpha.kubernetes.io/ttl */
	struct addr *addrs; /* without duplicates */
	size_t addr_count;
	/* In a Service, the number of the load balancer's addresses. They precede the
	 * externalIPs. */
	size_t balancer_addr_count;
	const char *target; /* the lowest of the load balancer's host names; NULL: none */
	size_t target_count;
	/* A Service of type LoadBalancer, which may not have an address or host name yet. */
	bool balanced;
	struct object_text *hosts; /* as written */
	size_t host_count;
	struct object_listener *listeners;
	size_t listener_count;
	struct object_parent *parents;
	size_t parent_count;
};

/*
 * Reads a Service, Ingress, Gateway, ListenerSet or route into object->external, after
 * object_extract(). object_clear() frees it. If a field is invalid and `*why` is NULL, sets `*why`;
 * the field is ignored.
 */
void object_read_external(struct json_object *json, struct object *object, const char **why);

/* Returns a hash of all fields that were read. A different hash shows that the object has changed. */
uint64_t object_external_digest(uint64_t seed, const struct object_external *external);

void object_external_free(struct object_external *external);

#endif
