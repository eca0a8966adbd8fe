/*
 * Denies addresses of a family that no pod can use: AAAA of outside names in a cluster without
 * IPv6, A in one without IPv4 (--filter-aaaa, --filter-a). Such a query is answered NODATA at once,
 * with EDE 17 (Filtered, RFC 8914), and not forwarded. Pure.
 *
 * Names of our own zones are not filtered: the tree is complete for them. Other types are
 * forwarded, HTTPS records with their address hints included, and so is a query with DO, whose
 * sender would miss the signature of the denial.
 */
#ifndef KUBEDNS_ANSWER_UPSTREAM_STAGE_H
#define KUBEDNS_ANSWER_UPSTREAM_STAGE_H

#include "kubedns/answer/reply.h"

/* Whether this type (A or AAAA) is filtered for an outside name (wire, lower case). */
bool filter_holds(const struct answer_config *config, const struct answer_context *context,
    uint16_t type, const uint8_t *name);

/* The closest stub domain that holds the name, or NULL. Inside a read section; valid until its end. */
const uint8_t *answer_stub_domain(const struct answer_context *context, const uint8_t *name);

/* Whether other servers are asked for the targets of CNAMEs that leave our zones. */
static inline bool
may_chase(const struct reply *reply)
{
	return (reply->flags & FLAG_RA || reply->config->search_resolver) &&
	       reply->query->flags & FLAG_RD;
}

/* Whether the denial in `reply` is left to other servers (--fallthrough). `target`: what the question was rewritten
 * to, if it was. A zone of local names denies for itself. */
bool upstream_takes_denial(const struct reply *reply, const struct dname *target);

/* What becomes of a query that the stages left with `outcome` FORWARD or CHASE: the same, or REPLY where the filter
 * answers or no other server may be asked. */
enum answer_outcome upstream_ask(
    struct reply *reply, struct answer_info *info, enum answer_outcome outcome);

#endif
