/*
 * Filters addresses of a family that no pod can use. In a cluster without IPv6, --filter-aaaa
 * filters AAAA of external names. In a cluster without IPv4, --filter-a filters A. Such a query is
 * answered NODATA at once, with EDE 17 (Filtered, RFC 8914), and is not forwarded. Pure.
 *
 * Names in our own zones are not filtered, because the tree has all their records. Queries for
 * other types are forwarded, including HTTPS records with their address hints. Queries with DO are
 * forwarded too, because their sender would miss the signature of the negative answer.
 */
#ifndef KUBEDNS_ANSWER_UPSTREAM_STAGE_H
#define KUBEDNS_ANSWER_UPSTREAM_STAGE_H

#include "kubedns/answer/reply.h"

/* The stage's configuration. */
struct upstream_config {
	struct dname *filter_except; /* external names that are never filtered, in lower case */
	size_t filter_except_count;
	/* Names below these domains are sent to other servers if our zones do not have them. */
	struct dname *fallthrough;
	size_t fallthrough_count;
	/* --until-synced: before the first sync, names in our zones are sent to other servers. */
	bool until_synced;
	bool search_resolver; /* --search-resolver gets CNAMEs that leave our zones */
};

static inline const struct upstream_config *
upstream_config(const struct answer_config *config)
{
	return config->stage_config[STAGE_upstream];
}

/* Returns whether this type (A or AAAA) is filtered for an external name (wire format, lower
 * case). */
bool filter_holds(const struct answer_config *config, const struct answer_context *context,
    uint16_t type, const uint8_t *name);

/* Returns the closest stub domain that contains the name, or NULL. Call this function in a read
 * section. The result is valid until the end of the read section. */
const uint8_t *answer_stub_domain(const struct answer_context *context, const uint8_t *name);

/* Returns whether the name is in a stub domain without a usable server. Call this function in a read section. */
bool answer_stub_closed(const struct answer_context *context, const uint8_t *name);

/* Sets the extended error for a name in a closed stub domain. */
void reply_stub_refused(struct reply *reply, const uint8_t *name);

/* Returns why all servers of this closed stub domain are refused, or NULL if that is unknown, or if the
 * name is in no closed stub domain. */
const char *answer_stub_refusal(const struct answer_context *context, const uint8_t *name);

/* Returns whether the name is in a stub domain that comes before the zones of this server: in front, if
 * none of our zones is a longer domain of the name. Call this function in a read section. */
bool answer_stub_takes(
    const struct answer_config *config, const struct answer_context *context, const uint8_t *name);

/* Returns why the name gets SERVFAIL unless it is sent to an engine that can encrypt queries. Otherwise the kind is REASON_NONE. Call this function in a read
 * section. */
struct reason answer_closed_reason(const struct answer_context *context, const uint8_t *name);

/* Returns whether the targets of CNAMEs that leave our zones are looked up at other servers. */
static inline bool
may_chase(const struct reply *reply)
{
	return (reply->flags & FLAG_RA || upstream_config(reply->config)->search_resolver) &&
	       reply->query->flags & FLAG_RD;
}

/* Returns whether the query is sent to other servers instead of the negative answer in `reply`
 * (--fallthrough). If the query's name was rewritten, `target` is the rewritten name. Negative
 * answers of local zones are not replaced. */
bool upstream_takes_denial(const struct reply *reply, const struct dname *target);

/* Returns the outcome for a query for which the stages returned FORWARD or CHASE. If the filter
 * answers or there is no server to query, the outcome is REPLY. Otherwise the outcome does not
 * change. */
enum answer_outcome upstream_ask(
    struct reply *reply, struct answer_info *info, enum answer_outcome outcome);

#endif
