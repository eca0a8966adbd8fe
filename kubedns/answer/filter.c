#include "kubedns/answer/filter.h"

bool
filter_holds(const struct answer_config *config, const struct answer_context *context,
    uint16_t type, const uint8_t *name)
{
	bool filtered = context != NULL && ((type == TYPE_AAAA && context->filter_aaaa) ||
					       (type == TYPE_A && context->filter_a));

	for (size_t i = 0; filtered && i < config->filter_except_count; i++)
		filtered = dname_in_zone(name, config->filter_except[i].wire) < 0;
	return filtered;
}

bool
filter_answer(struct reply *reply, enum answer_outcome outcome, struct answer_info *info)
{
	const struct query *query = reply->query;
	bool chase = outcome == ANSWER_CHASE;
	/* That others would be asked for. */
	const uint8_t *name = chase || info->rewritten ? info->target.wire : query->qname;

	if (query->edns_do ||
	    !filter_holds(reply->config, reply->tree->context, query->qtype, name))
		return false;
	/* The apex of the name's zone is not known here: the SOA is at the name itself, or for an
	 * alias at the target, which is last in the message. */
	size_t owner = chase ? reply->w.len - info->target.len : DNS_HEADER;
	if (query->has_edns)
		reply_reason(
		    reply, &(struct reason){ .kind = REASON_FILTERED, .qtype = query->qtype });
	reply->section = SECTION_AUTHORITY;
	reply_soa(reply, owner, reply->config->ttl_s, reply->config->ttl_s);
	info->filtered = true;
	return true;
}
