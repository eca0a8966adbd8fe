/*
 * The upstream stage: names that no other stage has, and answers that end with a CNAME to such a name.
 */
#include "kubedns/answer/upstream_stage.h"

#include <string.h>

#include "kubedns/answer/own_names.h"
#include "kubedns/answer/rewrites.h"
#include "kubedns/answer/search.h"
#include "kubedns/answer/stage.h"
#include "kubedns/answer/zones.h"
#include "lib/own_frame.h"

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

static bool
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

/* --- --fallthrough --- */

bool
upstream_takes_denial(const struct reply *reply, const struct dname *target)
{
	const struct query *q = reply->query;
	struct name_buf buf;
	struct name name = { q->qname, q->labels, q->qname_len, q->label_count };

	if ((reply->flags & 15) != RCODE_NXDOMAIN || reply->counts[SECTION_ANSWER] > 0)
		return false;
	if (reply->rewritten) {
		name = name_copy(&buf, target->wire, target->len);
	}
	return answer_falls_through(reply->config, &name) &&
	       own_ask(reply->config, reply->tree, &name).kind == OWN_NONE;
}

const uint8_t *
answer_stub_domain(const struct answer_context *context, const uint8_t *name)
{
	const uint8_t *closest = NULL;
	size_t len, longest = 0;

	if (context == NULL)
		return NULL;
	for (size_t at = 0; at < context->stubs_len; at += len) {
		const uint8_t *stub = context->stubs + at;

		len = dname_length(stub, DNAME_MAX);
		if (len > longest && dname_in_zone(name, stub) >= 0) {
			closest = stub;
			longest = len;
		}
	}
	return closest;
}

/* --- the stage --- */

/* --search-resolver, which is dnsmasq: whether the target would come back here and be rewritten. */
OWN_FRAME static bool
comes_back(const struct reply *reply, const struct dname *target)
{
	struct name_buf buf;

	struct name name = name_copy_lower(&buf, target->wire, target->len);
	return rewrites_come_back(reply->tree->context, &name);
}

/* The target is asked of others. */
static enum answer_outcome
chase(struct reply *reply, struct answer_info *info)
{
	const struct answer_context *context = reply->tree->context;

	if (reply->config->search_resolver && context != NULL && context->rewrites != NULL)
		info->direct = comes_back(reply, &info->target);
	return ANSWER_CHASE;
}

enum answer_outcome
upstream_ask(struct reply *reply, struct answer_info *info, enum answer_outcome outcome)
{
	bool forward = outcome == ANSWER_FORWARD;
	bool may_ask =
	    forward ? reply->flags & FLAG_RA && reply->query->flags & FLAG_RD : may_chase(reply);

	if (forward)
		info->system = SYSTEM_RECURSIVE;
	/* A walk asks about existence: only its last step is the name that the client means. */
	if (may_ask && (!info->search.asking || info->search.last) &&
	    filter_answer(reply, outcome, info)) {
		if (info->search.form != SEARCH_NONE)
			search_settle_ttl(reply);
		return ANSWER_REPLY;
	}
	if (forward && may_ask) /* the other name's records are put at the question's */
		return info->rewritten ? chase(reply, info) : outcome;
	if (forward) {
		reply->flags |= RCODE_REFUSED;
		if ((reply->flags & FLAG_RA) == 0 && reply->query->has_edns)
			reply_reason_kind(reply, REASON_NO_FORWARDER);
	}
	/* Where nobody may be asked the answer ends with the CNAME. */
	return may_ask ? chase(reply, info) : ANSWER_REPLY;
}

static bool
upstream_match(
    const struct answer_config *config, const struct tree *tree, const struct name *name, int below)
{
	(void)config, (void)tree, (void)name;
	return below < 0;
}

const struct stage stage_upstream = {
	.id = STAGE_upstream, .turn = TURN_LAST, .match = upstream_match
};
