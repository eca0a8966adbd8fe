/* The zone stage answers names of the cluster's zone. The stage writes the records of each kind of name, and answers queries with
 * wildcards. */
#include <string.h>

#include "kubedns/answer/zone_lookup.h"
#include "kubedns/answer/stage.h"
#include "kubedns/answer/wildcard.h"
#include "kubedns/answer/zones.h"
#include "lib/own_frame.h"

/* --- records by kind of name --- */

static uint8_t
family_of(uint16_t qtype)
{
	return qtype == TYPE_A ? AF_INET : qtype == TYPE_AAAA ? AF_INET6 : AF_UNSPEC;
}

/* Writes the records of this type at an existing name. Returns false if the name has none. */
static bool
put_resolved(struct reply *reply, size_t owner, const struct resolved *resolved, uint16_t qtype)
{
	unsigned before = reply->counts[SECTION_ANSWER];
	uint8_t family = family_of(qtype);
	const struct rrset *set;

	if (qtype == TYPE_ANY) { /* RFC 8482: one record is enough */
		if (resolved->kind != RESOLVED_EMPTY)
			reply_hinfo(reply, owner);
		return resolved->kind != RESOLVED_EMPTY;
	}
	switch (resolved->kind) {
	case RESOLVED_NODE:
		if ((set = node_rrset(resolved->node, qtype)) == NULL)
			break;
		if (qtype == TYPE_SRV)
			reply_targets(reply, owner, set, resolved->service);
		else
			reply_rrset(reply, owner, set);
		break;
	case RESOLVED_HEADLESS:
		if (family != AF_UNSPEC)
			reply_endpoint_set(reply, owner, resolved->endpoints, family);
		else if (qtype == TYPE_SRV)
			reply_endpoint_set_srv(reply, owner, resolved->endpoints, 0, NULL);
		break;
	case RESOLVED_PORT:
		if (qtype == TYPE_SRV)
			reply_endpoint_set_srv(
			    reply, owner, resolved->endpoints, resolved->port_label, NULL);
		break;
	case RESOLVED_ENDPOINT:
		if (family != AF_UNSPEC)
			reply_endpoints(reply, owner, resolved, family);
		else if (qtype == TYPE_SRV)
			reply_endpoints_srv(reply, owner, resolved, NULL);
		break;
	case RESOLVED_ZONAL:
		reply_zonal(reply, owner, resolved, qtype);
		break;
	case RESOLVED_POD:
		if (family == resolved->addr.family)
			reply_addr(reply, owner, family, resolved->addr.bytes);
		break;
	case RESOLVED_NOTHING:
	case RESOLVED_EMPTY:
	case RESOLVED_CNAME:
		break;
	}
	return reply->counts[SECTION_ANSWER] > before || reply->truncated;
}

/* --- --wildcards --- */

static bool
put_match(void *arg, const struct resolved *resolved)
{
	struct reply *reply = arg;

	uint16_t qtype = reply->query->qtype;

	put_resolved(reply, DNS_HEADER, resolved, qtype);
	return reply_goes_on(reply) && (qtype != TYPE_ANY || reply->counts[SECTION_ANSWER] == 0);
}

/* Answers a query with wildcards. Several of the matching names may have the same address or target, so records are deduplicated. */
OWN_FRAME static void
answer_wildcard(struct lookup *l)
{
	struct reply *reply = l->reply;
	struct record_table table, *outer = reply->table;

	if (outer == NULL) {
		table.mask = 0;
		reply->table = &table;
	}
	reply->dedup = true;
	bool any = wildcard_each(
	    reply->config, reply->tree, &l->name, (unsigned)l->below, put_match, reply);
	lookup_reason(l, STAGE_zone, any ? REASON_WILDCARD : REASON_MISSING, NULL);
	reply->dedup = false;
	reply->table = outer;
	reply_existence(reply,
	    !any                                                    ? NXDOMAIN
	    : reply->counts[SECTION_ANSWER] > 0 || reply->truncated ? FOUND
								    : NODATA,
	    l->apex);
}

/* Writes the CNAME of the name and sets `*target`. Returns false if the name has no CNAME. */
static bool
put_cname(struct reply *reply, size_t owner, const struct resolved *resolved, struct dname *target)
{
	const struct rrset *set;

	if (resolved->kind == RESOLVED_CNAME) {
		*target = resolved->cname;
		reply_record(
		    reply, owner, TYPE_CNAME, reply->config->ttl_s, target->wire, target->len);
		return true;
	}
	if (resolved->kind != RESOLVED_NODE ||
	    (set = node_rrset(resolved->node, TYPE_CNAME)) == NULL)
		return false;
	target->len = (uint8_t)wire_get16(set->data + 10);
	memcpy(target->wire, set->data + 12, target->len);
	reply_rrset(reply, owner, set);
	return true;
}

/* Adds the reason for a negative answer. Not inlined, because most replies are positive or have no OPT. */
OWN_FRAME static void
give_reason(struct reply *reply, const struct name *name, unsigned below,
    const struct resolved *resolved, uint16_t qtype)
{
	struct reason reason;

	reason_find(&reason, reply->config, reply->tree, name, below, resolved, qtype);
	reply_reason(reply, &reason);
}

/* Writes the records of an existing name, or gives NODATA. */
static inline __attribute__((always_inline)) void
put_existing(struct lookup *l)
{
	struct reply *reply = l->reply;
	uint16_t qtype = reply->query->qtype;
	bool any = put_resolved(reply, l->owner, &l->resolved, qtype);

	reply_existence(reply, any ? FOUND : NODATA, l->apex);
	if (!any && reply_has_reason(reply))
		give_reason(reply, &l->name, (unsigned)l->below, &l->resolved, qtype);
}

enum step
zone_deny(struct lookup *l)
{
	struct reply *reply = l->reply;
	const struct answer_config *config = reply->config;
	const struct resolved *resolved = &l->resolved;
	unsigned below = (unsigned)l->below;

	/* The target of an alias, or a candidate. For the query's name, answer_found() does this. */
	if (!l->asked && answer_falls_through(config, &l->name))
		return STEP_OTHERS;
	enum denial denial = denial_of(config, reply->tree, &l->name, below, resolved);

	reply_negative(reply, NXDOMAIN, l->apex, denial_ttl_s(config, denial));
	lookup_reason(l, STAGE_zone, REASON_MISSING, &l->resolved);
	if (reply_has_reason(reply))
		give_reason(reply, &l->name, below, resolved, reply->query->qtype);
	return STEP_DONE;
}

enum step
zone_answer(struct lookup *l)
{
	struct reply *reply = l->reply;
	const struct answer_config *config = reply->config;
	struct resolved *resolved = &l->resolved;
	unsigned below = (unsigned)l->below;

	if (!reply->tree->synced) {
		lookup_reason(l, STAGE_zone, REASON_NOT_SYNCED, NULL);
		reply_existence(reply, NOT_READY, 0);
		return STEP_DONE;
	}
	if (l->apex == 0)
		l->apex = l->asked ? zone_in_message(reply, &l->name, l->owner, &config->zone)
				   : l->owner + l->name.len - config->zone.len;
	if (below == 0) {
		bool any = reply_apex(reply, reply->query->qtype, l->owner);

		lookup_reason(l, STAGE_zone, REASON_EXISTS, NULL);
		reply_existence(reply, any ? FOUND : NODATA, l->apex);
		return STEP_DONE;
	}
	if (zone_config(config)->wildcards && l->asked && wildcard_in(&l->name, below)) {
		answer_wildcard(l);
		return STEP_DONE;
	}
	resolve(config, reply->tree, &l->name, below, l->path, resolved);
	if (resolved->kind == RESOLVED_NOTHING)
		return STEP_MISSING;
	lookup_reason(l, STAGE_zone, REASON_EXISTS, resolved);
	if (put_cname(reply, l->owner, resolved, &l->info->target))
		return STEP_ALIAS;
	put_existing(l);
	return STEP_DONE;
}

static const struct zone_config standard;

const struct stage stage_zone = {
	.id = STAGE_zone, .order = ORDER_ZONE, .standard = &standard, .answer = zone_answer
};
