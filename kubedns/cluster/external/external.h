/*
 * Names for the world outside (--external-zones): which object has which name, and its records in
 * a tree of their own, whose names are whole names.
 *
 *	event --> object --claims--> host name --the oldest claim's records--> treecache
 *
 * An object claims names: a Service `service.namespace.zone` and those of its annotation, an
 * Ingress, a Gateway and a route their host names, as far as these are in one of the zones. A
 * claim is good while something serves it (addresses, or a load balancer's host name). Of several
 * good claims of one name, the first of these has it:
 *
 *	1. the zone's own name server
 *	2. the Service whose `service.namespace.zone` it is, if that has an address or a host name
 *	3. nobody, if it is a name of --external-ns: its owner would be the zones' name server
 *	4. the claim that came first
 *
 * Claims that are there when the zones are first published (external_begin) have no known order. It is
 * made by what no edit of an object can change: the age of the Namespace, then its name; within a namespace
 * the age of the object, then its name and kind. All later claims are behind these. An object keeps its
 * place when it changes or is listed again, and while it has no address: then the next claim has
 * the name, until the address is back.
 *
 * A Service of type LoadBalancer that waits for its address claims its `service.namespace.zone` too, by 4, and
 * behind all others at the beginning. If it is first, the name exists without records. A name of 3 always
 * exists, so no wildcard covers either.
 *
 * Only names below a zone are in the tree; readers see what was published. For the main thread
 * alone, but for the tree.
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
	const struct dname *ns; /* name servers besides: --external-ns */
	size_t ns_count;
	const struct addr *ns_addrs; /* of `ns.dns.ZONE`, which is a name server if it has any */
	size_t ns_addr_count;
	uint32_t ttl_s;
	char *const *namespaces; /* only these exist; NULL-terminated list, or NULL: all */
	/* Of these, only the ones whose object matches; NULL: all. */
	const struct label_selector *namespace_labels;
	bool refuse_wildcards, refuse_apex, refuse_external_ips; /* --external-refuse */
};

/* `config` is copied, what it points at must outlive it. Caller frees with external_free. */
struct external *external_new(const struct external_config *config, uint64_t seed);

/* The event_sink; takes every kind, and ignores those that give no such names. */
void external_event(
    void *arg, enum object_kind kind, enum event_type type, const struct object *object);

/* All objects have been listed once: puts the claims in their order. To be called before the first
 * publication, once. */
void external_begin(struct external *external);

/* The tree that answers come from. */
struct treecache *external_tree(const struct external *external);

/* Objects held: Services and Ingresses with an address or a load balancer's host name, Services that
 * wait for one, all Gateways, and routes that a Gateway has accepted; whether or not they claim a name. */
size_t external_count(const struct external *external, enum object_kind kind);

/* Names that have records; and of them those that another object claims, with other records. */
size_t external_name_count(const struct external *external);
size_t external_conflicts(const struct external *external);

/* How many host names were no names (or too long, or a CNAME at a zone's apex) or are refused by the
 * configuration, each time that they were read. */
uint64_t external_refused_total(const struct external *external);

/* --- for --explain --- */

struct external_source {
	enum object_kind kind; /* OBJECT_KIND_COUNT: the zone itself */
	const char *namespace, *name;
	uint64_t resource_version; /* 0: none known */
};

/* The object that has the name (`wire`, lower case), or with `index` another that claims it, in the
 * order above; false if there is none. `differs`: its records would be others. */
bool external_find(const struct external *external, const uint8_t *wire, size_t index,
    struct external_source *source, bool *differs);

void external_free(struct external *external);

#endif
