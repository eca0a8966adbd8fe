/*
 * The zones that this server has the authority for, numbered: the cluster's is 0, the reverse zones of --reverse-cidrs
 * follow, then the zones for the world outside and that of a cluster set. Pure.
 */
#ifndef KUBEDNS_ANSWER_ZONES_H
#define KUBEDNS_ANSWER_ZONES_H

#include "kubedns/answer/answer.h"
#include "kubedns/answer/soa.h"

/* How many zones there are, and the name of one: the first is ours. */
size_t zone_count(const struct answer_config *config);
const struct dname *zone_name(const struct answer_config *config, size_t index);

/* Whether it is one for the world outside: of the tree of those, and with its serial. */
bool zone_is_external(const struct answer_config *config, size_t index);

/* The zone's serial, of these snapshots of our tree and of the external one (or NULL): with
 * --external-headless a zone for outside has records of both trees, and the later of their serials; with
 * --clusterset-domain a reverse zone. */
uint32_t zone_serial(const struct answer_config *config, size_t index, const struct tree *tree,
    const struct tree *external);

/* Whether all that has records in the zone had been read. */
bool zone_is_synced(const struct answer_config *config, size_t index, const struct tree *tree,
    const struct tree *external);

/* The RDATA of a zone's SOA (RFC 1035 section 3.3.13) with this serial, into `rdata` of
 * SOA_RDATA_MAX bytes; returns its length. */
size_t zone_soa(const struct answer_config *config, size_t index, uint32_t serial, uint8_t *rdata);

/* The zone of exactly this name (wire, any case), or -1. */
int zone_index(const struct answer_config *config, const uint8_t *name);

/* The closest of our reverse zones that holds the name of these address bits, or NULL. */
const struct reverse_zone *zone_of_address(
    const struct answer_config *config, const struct addr *addr, unsigned bits);

/* Whether this name, if the zone of ours that it is in does not have it, is sent to other servers
 * (--fallthrough). Never in --external-zones. */
bool answer_falls_through(const struct answer_config *config, const struct name *name);

#endif
