/*
 * Turns one object into its RRsets, by the Kubernetes DNS specification (1.1.0). Pure: no tree, no
 * clock, no socket. What depends on all endpoints of a headless Service is written at answer time
 * instead (answer/reply_endpoints.c).
 */
#ifndef KUBEDNS_CLUSTER_SERVICE_RECORDS_H
#define KUBEDNS_CLUSTER_SERVICE_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "kubedns/cluster/object.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/dname.h"
#include "treecache/ports.h"

struct sets; /* kubedns/cluster/rrset_writer.h */

struct records_config {
	struct dname zone; /* lower case */
	uint32_t ttl_s;
};

/* Takes the RRsets of `name` (below the zone): `len` bytes of struct rrset after struct rrset,
 * borrowed. */
typedef void (*records_sink)(void *arg, const uint8_t *name, const void *sets, size_t len);

/*
 * The records of a Service at `name` (wire, lower case, below the zone) and below it. ClusterIP: A,
 * AAAA and SRV (specification 2.3); ExternalName: CNAME (2.5), or A/AAAA when the target is an
 * address; headless: none here (2.4). `why` is set when the object cannot be shown as it asks (an
 * external name that is no name), else NULL.
 */
void records_for_service(const struct records_config *config, const uint8_t *name,
    const struct object_service *service, records_sink sink, void *arg, const char **why);

/* SRV at `_port._proto.name` for every named port of a Service with addresses of its own
 * (specification 2.3.2). */
void records_named_ports(struct sets *sets, const struct ports *ports, const uint8_t *name,
    const struct dname *target, records_sink sink, void *arg);

/* The zone's own records: NS, `ns.dns` with these addresses, `dns-version` TXT (specification
 * 2.2). */
void records_for_zone(const struct records_config *config, const struct addr *ns_addrs,
    size_t count, records_sink sink, void *arg);

/* "_http" from a port's name and "_tcp" from its protocol; both labels lower case. */
void records_port(struct port *port, const struct object_port *from);

#endif
