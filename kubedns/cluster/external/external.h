/*
 * Names for clients outside the cluster (--external-zones). This module decides which object has
 * which name, and stores the records in a separate tree of absolute names.
 *
 *	event --> object --claims--> host name --the oldest claim's records--> treecache
 *
 * An object claims names. A Service claims `service.namespace.zone` and the names in its
 * annotation. An Ingress, a Gateway, a ListenerSet and a route claim their host names, if these are
 * in one of the zones. A claim is valid while the object has addresses or a load balancer's host name. If a name
 * has several valid claims, the first of these gets the name:
 *
 * 1. the zone's own name server
 * 2. the Service whose `service.namespace.zone` it is, if that Service has an address or a host
 *    name
 * 3. nobody, if it is a name of --external-ns, because its owner would be the zones' name server
 * 4. the oldest claim
 *
 * Claims that exist when the zones are first published (external_begin) arrived in no meaningful
 * order. These claims are ordered by properties that no edit of an object can change. The age of
 * the Namespace comes first, then its name, then the age of the object, then its name and kind. All
 * later claims come after these claims. An object keeps its position when it changes or is listed
 * again. It also keeps its position while it has no address. The next claim has the name until the
 * address returns.
 *
 * A Service of type LoadBalancer that waits for its address also claims its
 * `service.namespace.zone`, by rule 4. In the initial order, this claim comes after all other
 * claims. If its claim is first, the name exists without records. A name of rule 3 always exists.
 * No wildcard therefore matches either name.
 *
 * The tree contains only names below a zone. Readers see the published tree. Everything else is for
 * the main thread only.
 */
#ifndef KUBEDNS_CLUSTER_EXTERNAL_EXTERNAL_H
#define KUBEDNS_CLUSTER_EXTERNAL_EXTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/cluster/object.h"
#include "lib/dname.h"

struct external;
struct label_selector;
struct treecache;

struct external_config {
	const struct dname *zones; /* lower case */
	size_t zone_count;
	const struct dname *ns; /* additional name servers: --external-ns */
	size_t ns_count;
	/* Addresses of `ns.dns.ZONE`, which is a name server if it has addresses. */
	const struct addr *ns_addrs;
	size_t ns_addr_count;
	uint32_t ttl_s;
	/* Only these namespaces count; NULL-terminated list, or NULL: all. */
	char *const *namespaces;
	/* A namespace counts only if its labels match. NULL: all labels match. */
	const struct label_selector *namespace_labels;
	bool refuse_wildcards, refuse_apex, refuse_external_ips; /* --external-refuse */
};

/* Copies `config`; the objects to which it points must outlive the result. Free with
 * external_free(). */
struct external *external_new(const struct external_config *config, uint64_t seed);

/* The event_sink. It takes every kind and ignores the kinds that cannot have external names. */
void external_event(
    void *arg, enum object_kind kind, enum event_type type, const struct object *object);

/* Puts the existing claims into their initial order. Call it once, when all objects have been
 * listed and before the first publish. */
void external_begin(struct external *external);

/* Returns the tree from which external names are answered. */
struct treecache *external_tree(const struct external *external);

/*
 * Returns the number of stored objects, whether or not they claim a name. A Service or an Ingress
 * is stored if it has an address or a load balancer's host name, and a Service also if it waits for
 * a load balancer. All Gateways are stored, and ListenerSets and routes that have been accepted.
 */
size_t external_count(const struct external *external, enum object_kind kind);

/* external_name_count() returns the number of names that have records. external_conflicts() returns
 * how many of these names another object claims with different records. */
size_t external_name_count(const struct external *external);
size_t external_conflicts(const struct external *external);

/* Returns how often a host name was read that is invalid, too long, a CNAME at a zone's apex, or
 * refused by the configuration. */
uint64_t external_refused_total(const struct external *external);

/* --- for --explain --- */

struct external_source {
	enum object_kind kind; /* OBJECT_KIND_COUNT: the zone itself */
	const char *namespace, *name;
	uint64_t resource_version; /* 0: unknown */
};

/*
 * Finds a claim of the name (`wire`, lower case). Index 0 is the claim that has the name; higher
 * indexes are the other claims in the order above. Returns false if there is no such claim. Sets
 * `*differs` to whether the records of this claim differ from the records of the name.
 */
bool external_find(const struct external *external, const uint8_t *wire, size_t index,
    struct external_source *source, bool *differs);

void external_free(struct external *external);

#endif
