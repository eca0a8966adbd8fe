/*
 * Denies addresses of a family that no pod can use: AAAA of outside names in a cluster without
 * IPv6, A in one without IPv4 (--filter-aaaa, --filter-a). Such a query is answered NODATA at once,
 * with EDE 17 (Filtered, RFC 8914), and not forwarded. Pure.
 *
 * Names of our own zones are not filtered: the tree is complete for them. Other types are
 * forwarded, HTTPS records with their address hints included, and so is a query with DO, whose
 * sender would miss the signature of the denial.
 */
#ifndef KUBEDNS_ANSWER_FILTER_H
#define KUBEDNS_ANSWER_FILTER_H

#include "kubedns/answer/reply.h"

/*
 * Completes the reply to a query that would be forwarded (`outcome` FORWARD or CHASE), and notes
 * that in `info`; false: forward it.
 */
bool filter_answer(struct reply *reply, enum answer_outcome outcome, struct answer_info *info);

/* Whether this type (A or AAAA) is filtered for an outside name (wire, lower case). */
bool filter_holds(const struct answer_config *config, const struct answer_context *context,
    uint16_t type, const uint8_t *name);

#endif
