/*
 * Names of our zone: the records of each kind of name, wildcards, and chains of CNAMEs.
 */
#include <string.h>

#include "kubedns/answer/answer_internal.h"
#include "kubedns/answer/reply_internal.h"
#include "kubedns/answer/negative_ttl.h"
#include "kubedns/answer/explained.h"
#include "kubedns/answer/search.h"
#include "kubedns/answer/wildcard.h"

enum { CNAME_STEPS_MAX = 8 };

void
set_negative(struct reply *reply, enum existence existence, size_t soa_owner, uint32_t ttl_s)
{
	if (existence == NOT_READY) {
		reply->flags |= RCODE_SERVFAIL;
		reply->not_ready = true;
		if (reply->query->has_edns)
			reply_reason_kind(reply, REASON_NOT_SYNCED);
		return;
	}
	reply->flags |= FLAG_AA;
	if (existence == NXDOMAIN)
		reply->flags |= RCODE_NXDOMAIN;
	reply->section = SECTION_AUTHORITY;
	reply_soa(reply, soa_owner, ttl_s, ttl_s);
}

/* --- records by kind of name --- */

static uint8_t
family_of(uint16_t qtype)
{
	return qtype == TYPE_A ? AF_INET : qtype == TYPE_AAAA ? AF_INET6 : AF_UNSPEC;
}

void
put_hinfo(struct reply *reply, size_t owner)
{
	static const uint8_t rdata[] =
	    "\7RFC8482"; /* CPU "RFC8482", OS "": the literal's NUL is its length */

	reply_record(reply, owner, TYPE_HINFO, reply->config->ttl_s, rdata, sizeof rdata);
}

/* Puts the records of this type at an existing name; false: it has none. */
static bool
put_resolved(struct reply *reply, size_t owner, const struct resolved *resolved, uint16_t qtype)
{
	unsigned before = reply->counts[SECTION_ANSWER];
	uint8_t family = family_of(qtype);
	const struct rrset *set;

	if (qtype == TYPE_ANY) { /* RFC 8482: one record stands for all that there are */
		if (resolved->kind != RESOLVED_EMPTY)
			put_hinfo(reply, owner);
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
	return !reply->full && reply->passed < PASSED_MAX &&
	       (qtype != TYPE_ANY || reply->counts[SECTION_ANSWER] == 0);
}

/* Two of the names that match may have one address, or one target. Not inlined: other queries need
 * not touch the table on its stack. */
static __attribute__((noinline)) void
answer_wildcard(struct reply *reply, const struct name *name, unsigned below, size_t apex)
{
	struct record_table table, *outer = reply->table;

	if (outer == NULL) {
		table.mask = 0;
		reply->table = &table;
	}
	reply->once = true;
	bool any = wildcard_each(reply->config, reply->tree, name, below, put_match, reply);
	reply->once = false;
	reply->table = outer;
	set_rcode_and_soa(reply,
	    !any                                                    ? NXDOMAIN
	    : reply->counts[SECTION_ANSWER] > 0 || reply->truncated ? FOUND
								    : NODATA,
	    apex);
}

/* The target of the CNAME at this name, written as a record; false if it has none. */
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

bool
zone_apex(struct reply *reply, uint16_t qtype, size_t owner)
{
	static const uint8_t ns_name[] = "\2ns\3dns"; /* the set's one name */
	const struct rrset *ns = node_rrset(reply->tree->root, TYPE_NS);

	if (qtype == TYPE_SOA)
		reply_soa(reply, owner, reply->config->ttl_s, reply->config->negative_ttl_s);
	else if (qtype == TYPE_NS && ns != NULL)
		reply_targets(reply, owner, ns, tree_find(reply->tree, ns_name));
	else if (qtype == TYPE_ANY)
		put_hinfo(reply, owner);
	else
		return false;
	return true;
}

/* A chain of CNAMEs: where its names stand in the message, the question's first. */
struct chain {
	struct name name; /* the last one */
	struct name_buf buf;
	size_t owners[CNAME_STEPS_MAX];
	unsigned count;
};

/* Goes on to the CNAME's target, which is last in the message. False: the chain is a loop, or too
 * long. */
static bool
chain_step(struct chain *chain, const struct reply *reply, const struct dname *target)
{
	if (chain->count == CNAME_STEPS_MAX)
		return false;
	for (unsigned i = 0; i < chain->count; i++)
		if (dname_equal(reply->w.buf + chain->owners[i], target->wire))
			return false;
	chain->name = name_copy(&chain->buf, target->wire, target->len);
	chain->owners[chain->count++] = reply->w.len - target->len;
	return true;
}

/* The last name of a chain, `target`, which is outside of our zone. */
static enum answer_outcome
answer_chain_end(struct reply *reply, const struct chain *chain, size_t apex, struct dname *target)
{
	size_t owner = chain->owners[chain->count - 1];
	struct addr addr;
	int bits = resolve_reverse_name(&chain->name, &addr);
	enum answer_outcome outcome =
	    bits >= 0 ? answer_reverse(reply, &chain->name, owner, &addr, (unsigned)bits)
		      : answer_odd_reverse(reply, &chain->name, owner, target);

	if (outcome == ANSWER_REPLY)
		return outcome;
	set_rcode_and_soa(reply, FOUND, apex);
	return ANSWER_CHASE;
}

/* Not inlined: most queries have an answer, or no OPT. */
static __attribute__((noinline)) void
say_why(struct reply *reply, const struct name *name, unsigned below,
    const struct resolved *resolved, uint16_t qtype)
{
	struct reason reason;

	reason_find(&reason, reply->config, reply->tree, name, below, resolved, qtype);
	reply_reason(reply, &reason);
}

/* Answers the end of the chain, or the question's own name, with `below` labels before our zone. */
static inline __attribute__((always_inline)) void
put_resolved_or_soa(struct reply *reply, size_t owner, const struct name *name, unsigned below,
    const struct resolved *resolved, size_t apex)
{
	uint16_t qtype = reply->query->qtype;
	enum existence existence = resolved->kind == RESOLVED_NOTHING            ? NXDOMAIN
				   : put_resolved(reply, owner, resolved, qtype) ? FOUND
										 : NODATA;

	if (existence == NXDOMAIN) {
		enum denial denial = denial_of(reply->config, reply->tree, name, below, resolved);
		if (reply->config->hold_ms > 0)
			reply->about_to_exist =
			    denial == DENIAL_SOON && denial_is_passing(resolved);
		set_negative(reply, NXDOMAIN, apex, denial_ttl_s(reply->config, denial));
	} else {
		set_rcode_and_soa(reply, existence, apex);
	}
	if (existence != FOUND && reply->query->has_edns)
		say_why(reply, name, below, resolved, qtype);
}

/* Follows the alias at `first`, whose CNAME is the last record so far. `apex` 0: it is not in our zone. */
static __attribute__((noinline)) enum answer_outcome
answer_alias(struct reply *reply, size_t first, struct dname *target, size_t apex)
{
	uint16_t qtype = reply->query->qtype;
	struct chain chain = { .owners = { first }, .count = 1 };
	struct resolved resolved;

	while (alias_is_followed(qtype) && !reply->truncated && chain_step(&chain, reply, target)) {
		size_t owner = chain.owners[chain.count - 1];
		int below = name_below(&chain.name, &reply->config->zone);
		if (has_own_names(reply)) {
			enum own_step step = put_own(reply, &chain.name, owner, target);
			if (step == OWN_STEP_DONE)
				return ANSWER_REPLY;
			if (step == OWN_STEP_ALIAS)
				continue;
		}
		if (apex == 0 && below >= 0)
			apex = owner + chain.name.len - reply->config->zone.len;
		if (below < 0)
			return answer_chain_end(reply, &chain, apex, target);
		if (below == 0) {
			set_rcode_and_soa(
			    reply, zone_apex(reply, qtype, owner) ? FOUND : NODATA, apex);
			return ANSWER_REPLY;
		}
		resolve(reply->config, reply->tree, &chain.name, (unsigned)below, NULL, &resolved);
		if (resolved.kind == RESOLVED_NOTHING &&
		    answer_falls_through(reply->config, &chain.name)) {
			set_rcode_and_soa(reply, FOUND, apex);
			return ANSWER_CHASE;
		}
		if (!put_cname(reply, owner, &resolved, target)) {
			put_resolved_or_soa(
			    reply, owner, &chain.name, (unsigned)below, &resolved, apex);
			return ANSWER_REPLY;
		}
	}
	set_rcode_and_soa(reply, FOUND, apex);
	return ANSWER_REPLY;
}

bool
may_chase(const struct reply *reply)
{
	return (reply->flags & FLAG_RA || reply->config->search_resolver) &&
	       reply->query->flags & FLAG_RD;
}

enum answer_outcome
answer_zone(struct reply *reply, const struct name *qname, unsigned below,
    const struct tree_path *path, struct dname *chase)
{
	const struct answer_config *config = reply->config;
	uint16_t qtype = reply->query->qtype;
	size_t apex = zone_in_message(reply, qname, DNS_HEADER, &config->zone);
	struct resolved resolved;

	if (below == 0) {
		set_rcode_and_soa(
		    reply, zone_apex(reply, qtype, DNS_HEADER) ? FOUND : NODATA, apex);
		return ANSWER_REPLY;
	}
	if (config->wildcards && wildcard_in(qname, below)) {
		answer_wildcard(reply, qname, below, apex);
		return ANSWER_REPLY;
	}
	resolve(config, reply->tree, qname, below, path, &resolved);
	if (resolved.kind == RESOLVED_NOTHING) {
		/* The target of a rewrite does not come from a search list. */
		if (!reply->rewritten && search_may_complete(config, qname, below))
			return answer_search(reply, qname, below, &resolved, apex, chase);
		if (explained_asks(reply, qname, below)) {
			explained_answer(reply, qname, below, apex);
			return ANSWER_REPLY;
		}
	}
	if (put_cname(reply, DNS_HEADER, &resolved, chase))
		return answer_alias(reply, DNS_HEADER, chase, apex);
	put_resolved_or_soa(reply, DNS_HEADER, qname, below, &resolved, apex);
	return ANSWER_REPLY;
}

enum answer_outcome
answer_own_alias(struct reply *reply, size_t owner, struct dname *target)
{
	return answer_alias(reply, owner, target, 0);
}

/* answer_zone() does the same, inlined: most queries come that way. */
enum answer_outcome
zone_resolved(struct reply *reply, size_t owner, const struct name *name, unsigned below,
    const struct resolved *resolved, size_t apex, struct dname *chase)
{
	if (put_cname(reply, owner, resolved, chase))
		return answer_alias(reply, owner, chase, apex);
	put_resolved_or_soa(reply, owner, name, below, resolved, apex);
	return ANSWER_REPLY;
}
