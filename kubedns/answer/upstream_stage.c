/* The upstream stage handles names that no other stage has. The stage also handles answers that end with a CNAME to such a name. */
#include "kubedns/answer/upstream_stage.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/local_names.h"
#include "kubedns/answer/rewrites.h"
#include "kubedns/answer/stage.h"
#include "kubedns/answer/zones.h"
#include "lib/own_frame.h"

bool
filter_holds(const struct answer_config *config, const struct answer_context *context,
    uint16_t type, const uint8_t *name)
{
	const struct upstream_config *upstream = upstream_config(config);
	bool filtered = context != NULL && ((type == TYPE_AAAA && context->filter_aaaa) ||
					       (type == TYPE_A && context->filter_a));

	for (size_t i = 0; filtered && i < upstream->filter_except_count; i++)
		filtered = dname_in_zone(name, upstream->filter_except[i].wire) < 0;
	return filtered;
}

static bool
filter_answer(struct reply *reply, enum answer_outcome outcome, struct answer_info *info)
{
	const struct query *query = reply->query;
	bool chase = outcome == ANSWER_CHASE;
	/* the name that would be sent to other servers */
	const uint8_t *name = chase || info->rewritten ? info->target.wire : query->qname;

	if (query->edns_do ||
	    !filter_holds(reply->config, reply->tree->context, query->qtype, name))
		return false;
	/* The apex of the name's zone is unknown here. The SOA's owner is therefore the name itself. For an alias, the owner is the
	 * target, which is the last name in the message. */
	size_t owner = chase ? reply->w.len - info->target.len : DNS_HEADER;
	if (reply_has_reason(reply))
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

/* --- stub domains --- */

struct stub_key {
	const uint8_t *wire, *stubs;
};

/* The labels of a stub domain have no NUL, so its name in wire format has none before its end. strcmp() thus
 * finds exactly the same name. */
static int
by_wire(const void *wire, const void *offset)
{
	const struct stub_key *key = wire;

	return strcmp(
	    (const char *)key->wire, (const char *)key->stubs + *(const uint32_t *)offset);
}

const uint8_t *
answer_stub_domain(const struct answer_context *context, const uint8_t *name)
{
	uint8_t lower[DNAME_MAX];

	if (context == NULL || context->stub_count == 0)
		return NULL;
	size_t len = dname_length(name, DNAME_MAX);
	memcpy(lower, name, len);
	dname_lower(lower, len);
	for (const uint8_t *at = lower; *at != 0; at += 1 + *at) {
		const struct stub_key key = { at, context->stubs };
		const uint32_t *found = bsearch(&key, context->stub_order, context->stub_count,
		    sizeof *context->stub_order, by_wire);

		if (found != NULL)
			return context->stubs + *found;
	}
	return NULL;
}

bool
answer_stub_closed(const struct answer_context *context, const uint8_t *name)
{
	if (context == NULL || context->stubs_closed_len == 0) /* the usual case */
		return false;
	const uint8_t *stub = answer_stub_domain(context, name);
	return stub != NULL && stub < context->stubs + context->stubs_closed_len;
}

static int
by_stub(const void *offset, const void *refusal)
{
	uint32_t a = *(const uint32_t *)offset, b = ((const struct stub_refusal *)refusal)->stub;

	return (a > b) - (a < b);
}

const char *
answer_stub_refusal(const struct answer_context *context, const uint8_t *name)
{
	if (!answer_stub_closed(context, name) || context->stub_refusal_count == 0)
		return NULL;
	uint32_t offset = (uint32_t)(answer_stub_domain(context, name) - context->stubs);
	const struct stub_refusal *refusal = bsearch(
	    &offset, context->stub_refusals, context->stub_refusal_count, sizeof *refusal, by_stub);
	const char *text = refusal != NULL ? context->stub_refusal_texts + refusal->text : "";
	return *text != '\0' ? text : NULL;
}

void
reply_stub_refused(struct reply *reply, const uint8_t *name)
{
	const char *text = answer_stub_refusal(reply->tree->context, name);

	reply_reason_text(reply, text != NULL ? REASON_STUB_REFUSED : REASON_STUB_CLOSED, text);
}

bool
answer_stub_takes(
    const struct answer_config *config, const struct answer_context *context, const uint8_t *name)
{
	if (context == NULL || !context->stubs_inside)
		return false;
	const uint8_t *stub = answer_stub_domain(context, name);
	for (size_t i = 0; stub != NULL && i < zone_count(config); i++) {
		const uint8_t *zone = zone_name(config, i)->wire;

		if (dname_in_zone(zone, stub) >= 0 && dname_in_zone(name, zone) >= 0)
			stub = NULL; /* our zone is the longer domain */
	}
	return stub != NULL;
}

static enum step
stub_answer(struct lookup *l)
{
	if (!answer_stub_takes(l->reply->config, l->reply->tree->context, l->name.wire))
		return STEP_NEXT;
	lookup_reason(l, STAGE_stub_domains, REASON_SENT, NULL);
	return STEP_OTHERS;
}

const struct stage stage_stub_domains = { .id = STAGE_stub_domains,
	.order = ORDER_CONTEXT,
	.standard = stage_without_options,
	.answer = stub_answer };

/* --- names that must be encrypted --- */

/* Returns whether kubedns must not send the name to another server in plain text. */
static bool
is_encrypted(const struct answer_context *context, const uint8_t *name)
{
	if (context->closed)
		return true;
	if (context->stubs_encrypted_len == 0) /* the usual case */
		return false;
	const uint8_t *stub = answer_stub_domain(context, name);
	return stub != NULL && stub < context->stubs + context->stubs_encrypted_len;
}

struct reason
answer_closed_reason(const struct answer_context *context, const uint8_t *name)
{
	struct reason reason = { .text = answer_stub_refusal(context, name) };
	bool encrypted = context->front ? context->closed : is_encrypted(context, name);

	if (context->unread)
		reason.kind = REASON_CONFIG_UNREAD;
	else if (answer_stub_closed(context, name))
		reason.kind = reason.text != NULL ? REASON_STUB_REFUSED : REASON_STUB_CLOSED;
	else if (encrypted)
		reason.kind = REASON_ENCRYPTED;
	return reason;
}

/* Returns whether the outcome would be such a query. The engine behind kubedns can encrypt a query, so a
 * query to it is none. */
static bool
would_leak(const struct reply *reply, const struct answer_info *info, enum answer_outcome outcome)
{
	const struct answer_context *context = reply->tree->context;
	bool chase = outcome == ANSWER_CHASE;

	if (context == NULL || context->front ||
	    (chase && upstream_config(reply->config)->search_resolver && !info->direct))
		return false;
	return is_encrypted(context, chase ? info->target.wire : reply->query->qname);
}

/* Writes the answer in place of a query that must be encrypted. A query for the target of an alias ends with the alias, because the engine
 * or the client can look up the target. */
static enum answer_outcome
refuse_leak(struct reply *reply, const struct answer_info *info, enum answer_outcome outcome)
{
	const struct answer_context *context = reply->tree->context;

	if (outcome == ANSWER_CHASE && !info->claim.candidate && !info->rewritten)
		return ANSWER_REPLY;
	reply->w.len = DNS_HEADER + (size_t)reply->query->question_len;
	memset(reply->counts, 0, sizeof reply->counts);
	reply->flags = (reply->flags & ~(unsigned)(FLAG_AA | 15)) | RCODE_SERVFAIL;
	const struct reason reason = answer_closed_reason(
	    context, outcome == ANSWER_CHASE ? info->target.wire : reply->query->qname);
	if (reply_has_reason(reply))
		reply_reason(reply, &reason);
	return ANSWER_REPLY;
}

/* --- the stage --- */

/* Returns whether dnsmasq, the server of --search-resolver, would send the target back to kubedns to be rewritten. */
OWN_FRAME static bool
comes_back(const struct reply *reply, const struct dname *target)
{
	struct name_buf buf;

	struct name name = name_copy_lower(&buf, target->wire, target->len);
	return rewrites_come_back(reply->tree->context, &name);
}

/* Returns the outcome for a CNAME target that other servers must look up. */
static enum answer_outcome
chase(struct reply *reply, struct answer_info *info)
{
	const struct answer_context *context = reply->tree->context;

	if (upstream_config(reply->config)->search_resolver && context != NULL &&
	    context->rewrites != NULL)
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
	/* The queries for candidates only find out whether the candidate exists. Only the last candidate is the name that the client
	 * means. */
	if (may_ask && (!info->claim.candidate || info->claim.last) &&
	    filter_answer(reply, outcome, info)) {
		if (info->claim.stage != NULL)
			info->claim.stage->finish(reply);
		return ANSWER_REPLY;
	}
	if (may_ask) {
		/* the query's name gets the records of the target */
		if (!forward || info->rewritten)
			outcome = chase(reply, info);
		return would_leak(reply, info, outcome) ? refuse_leak(reply, info, outcome)
							: outcome;
	}
	if (forward) {
		reply->flags |= RCODE_REFUSED;
		if ((reply->flags & FLAG_RA) == 0 && reply_has_reason(reply))
			reply_reason_kind(reply, REASON_NO_FORWARDER);
	}
	/* If no server may be queried, the answer ends with the CNAME. */
	return ANSWER_REPLY;
}

static const struct upstream_config standard;

const struct stage stage_upstream = {
	.id = STAGE_upstream, .order = ORDER_LAST, .standard = &standard
};
