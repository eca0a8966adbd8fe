/*
 * A digest of the records that the cluster's tree holds, to compare replicas. Two processes with
 * the same options that have read the same versions of the objects have the same digest, in
 * whatever order the objects arrived.
 *
 *	digest = sum, modulo 2^64, of a hash for each
 *		name			its flags, and whether it is a namespace
 *		RRset			name, type, TTL, RDATA
 *		set of endpoints	name, flags
 *		published endpoint	name, address, host name, ports
 *
 * The sum does not depend on an order. A change therefore subtracts the hashes of what it removed
 * and adds the hashes of what it added. Nothing is stored for a name: the tree before the change is
 * still in memory when the change is published, and both trees share what did not change.
 *
 * The digest leaves out all data that replicas may have differently although they agree:
 *	- the addresses of `ns.dns`, which are the server's own
 *	- numbers of namespaces, slots, and the serial, which depend on the order of events
 *	- endpoints that are not published, and the places of endpoints and nodes (nearest.h)
 * It does not cover the names of pods, local names of the ConfigMap, and the zones of
 * --external-zones and --clusterset-domain.
 *
 * The hash has no key, because all processes must compute the same. The digest finds faults. It
 * does not find a person who constructs records with a chosen hash.
 */
#ifndef KUBEDNS_CLUSTER_RECORDS_DIGEST_H
#define KUBEDNS_CLUSTER_RECORDS_DIGEST_H

#include <stdint.h>

#include "treecache/treecache.h"

/*
 * Returns what must be added to the digest of `before` to get the digest of `after`. Both are
 * snapshots of one tree, and `after` may be unpublished. If `before` is NULL, returns the digest of
 * `after`. The cost is linear in the names, records and slices that differ.
 */
uint64_t records_digest_change(const struct tree *before, const struct tree *after);

#endif
