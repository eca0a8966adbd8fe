/*
 * Names of our zone: the records of each kind of name, wildcards, and chains of CNAMEs.
 */
#include <string.h>

#include "kubedns/answer/answer_internal.h"
#include "kubedns/answer/wildcard.h"

enum { CNAME_STEPS_MAX = 8 };

void
set_negative(struct reply *reply, enum existence existence, size_t soa_owner)
{
	if (existence == NOT_READY) {
		reply->flags |= RCODE_SERVFAIL;
		reply->ede = EDE_NOT_READY;
		return;
	}
	reply->flags |= FLAG_AA;
	if (existence == NXDOMAIN)
		reply->flags |= RCODE_NXDOMAIN;
	reply->section = SECTION_AUTHORITY;
	reply_soa(reply, soa_owner, reply->config->negative_ttl_s);
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

	if (qtype == TYPE_ANY) { /* RFC 8482: one record says that the name exists */
		put_hinfo(reply, owner);
		return true;
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
			reply_endpoint_set_srv(reply, owner, resolved->endpoints, NULL, NULL);
		break;
	case RESOLVED_PORT:
		if (qtype == TYPE_SRV)
			reply_endpoint_set_srv(
			    reply, owner, resolved->endpoints, resolved->port, resolved->proto);
		break;
	case RESOLVED_ENDPOINT:
		if (family != AF_UNSPEC)
			reply_endpoints(reply, owner, resolved, family);
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

struct wildcard {
	struct reply *reply;
	size_t first; /* where the answer section begins */
};

/* Removes the last record if the section has it already: two Services may have one address. */
static void
drop_double(struct wildcard *w, size_t at)
{
	struct reply *reply = w->reply;
	size_t len = reply->w.len - at;

	for (size_t i = w->first; i < at; i += 12u + wire_get16(reply->w.buf + i + 10))
		if (i + len <= at && memcmp(reply->w.buf + i, reply->w.buf + at, len) == 0) {
			reply_drop(reply, at);
			return;
		}
}

static bool
put_match(void *arg, const struct resolved *resolved)
{
	struct wildcard *w = arg;
	uint16_t qtype = w->reply->query->qtype;
	size_t at = w->reply->w.len;
	unsigned before = w->reply->counts[SECTION_ANSWER];

	if (qtype != TYPE_ANY)
		put_resolved(w->reply, DNS_HEADER, resolved, qtype);
	if (w->reply->counts[SECTION_ANSWER] == before + 1)
		drop_double(w, at);
	return !w->reply->truncated;
}

static void
answer_wildcard(struct reply *reply, const struct name *name, unsigned below, size_t apex)
{
	struct wildcard w = { reply, reply->w.len };
	bool any = wildcard_each(reply->config, reply->tree, name, below, put_match, &w);

	if (any && reply->query->qtype == TYPE_ANY)
		put_hinfo(reply, DNS_HEADER);
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
		reply_soa(reply, owner, reply->config->ttl_s);
	else if (qtype == TYPE_NS && ns != NULL)
		reply_targets(reply, owner, ns, tree_find(reply->tree, ns_name));
	else if (qtype == TYPE_ANY)
		put_hinfo(reply, owner);
	else
		return false;
	return true;
}

enum answer_outcome
answer_zone(struct reply *reply, const struct name *qname, unsigned below,
    const struct tree_path *path, struct dname *chase)
{
	const struct answer_config *config = reply->config;
	uint16_t qtype = reply->query->qtype;
	size_t owner = DNS_HEADER,
	       apex = DNS_HEADER + (size_t)reply->query->qname_len - config->zone.len;
	struct resolved resolved;
	struct name name = *qname;
	uint8_t padded[DNAME_MAX + 8], offsets[DNAME_LABELS_MAX];

	if (config->wildcards && wildcard_in(qname, below)) {
		answer_wildcard(reply, qname, below, apex);
		return ANSWER_REPLY;
	}
	for (unsigned step = 0;; step++) {
		if (below == 0) {
			set_rcode_and_soa(
			    reply, zone_apex(reply, qtype, owner) ? FOUND : NODATA, apex);
			return ANSWER_REPLY;
		}
		resolve(config, reply->tree, &name, below, step == 0 ? path : NULL, &resolved);
		if (!put_cname(reply, owner, &resolved, chase))
			break;
		/* RFC 1034 section 3.6.2: a CNAME answers every type. The chain is followed for
		 * addresses only. */
		if (family_of(qtype) == AF_UNSPEC || reply->truncated ||
		    step + 1 == CNAME_STEPS_MAX) {
			set_rcode_and_soa(reply, FOUND, apex);
			return ANSWER_REPLY;
		}
		owner = reply->w.len - chase->len;
		memcpy(padded, chase->wire, chase->len);
		memset(padded + chase->len, 0, 8);
		name = name_cut(padded, chase->len, offsets);
		int in_zone = name_below(&name, &config->zone);
		if (in_zone < 0) {
			set_rcode_and_soa(reply, FOUND, apex);
			return ANSWER_CHASE;
		}
		below = (unsigned)in_zone;
	}
	if (resolved.kind == RESOLVED_NOTHING)
		set_rcode_and_soa(reply, NXDOMAIN, apex);
	else
		set_rcode_and_soa(
		    reply, put_resolved(reply, owner, &resolved, qtype) ? FOUND : NODATA, apex);
	return ANSWER_REPLY;
}
