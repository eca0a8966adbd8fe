/*
 * Turns one object into its RRsets, following the Kubernetes DNS specification (1.1.0). The
 * functions are pure: they use no tree, no clock and no socket. Records that depend on all
 * endpoints of a headless Service are written when a query is answered instead
 * (answer/reply_endpoints.c).
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

/* Receives the RRsets of `name` (below the zone): `len` bytes of struct rrset one after the other.
 * The RRsets are valid during the call only. */
typedef void (*records_sink)(void *arg, const uint8_t *name, const void *sets, size_t len);

/*
 * Makes the records of a Service at `name` (wire format, lower case, below the zone) and below it.
 * ClusterIP: A, AAAA and SRV (specification 2.3). ExternalName: CNAME (2.5), or A/AAAA if the
 * target is an address. Headless: no records here (2.4). Sets `*why` to a reason if the object's
 * external name is invalid, else to NULL.
 */
void records_for_service(const struct records_config *config, const uint8_t *name,
    const struct object_service *service, records_sink sink, void *arg, const char **why);

/* Makes the SRV records at `_port._proto.name` for every named port of a Service that has
 * ClusterIPs (specification 2.3.2). */
void records_named_ports(struct sets *sets, const struct ports *ports, const uint8_t *name,
    const struct dname *target, records_sink sink, void *arg);

/* Makes the zone's own records: NS, `ns.dns` with these addresses, and the TXT record `dns-version`
 * (specification 2.2). */
void records_for_zone(const struct records_config *config, const struct addr *ns_addrs,
    size_t count, records_sink sink, void *arg);

/* Makes the labels of a port, such as "_http" from its name and "_tcp" from its protocol, in lower case. */
void records_port(struct port *port, const struct object_port *from);

#endif
