/*
 * What the files of answer() share: answer.c (any query), answer_zone.c (names of our zone) and
 * answer_reverse.c (names that spell addresses).
 */
#ifndef KUBEDNS_ANSWER_ANSWER_INTERNAL_H
#define KUBEDNS_ANSWER_ANSWER_INTERNAL_H

#include "kubedns/answer/own_names.h"
#include "kubedns/answer/reply.h"

enum existence { FOUND, NODATA, NXDOMAIN, NOT_READY };

/* A negative reply that may be kept for `ttl_s`. */
void set_negative(struct reply *reply, enum existence existence, size_t soa_owner, uint32_t ttl_s);

/* The one place that turns existence into rcode, AA and SOA. `soa_owner`: offset of the zone's name
 * in the message. */
static inline void
set_rcode_and_soa(struct reply *reply, enum existence existence, size_t soa_owner)
{
	if (existence == FOUND)
		reply->flags |= FLAG_AA;
	else
		set_negative(reply, existence, soa_owner, reply->config->negative_ttl_s);
}

/* The one record that answers ANY (RFC 8482). */
void put_hinfo(struct reply *reply, size_t owner);

/* The records at the apex of a zone of ours; false: none of this type. */
bool zone_apex(struct reply *reply, uint16_t qtype, size_t owner);

/* Whether other servers are asked for the targets of CNAMEs that leave our zones. */
bool may_chase(const struct reply *reply);

/* Answers the name of our zone at offset `owner` from what it was resolved to: its records, its
 * CNAMEs and what they lead to, or the negative answer. `below`, `chase` and the outcome as in
 * answer_zone. */
enum answer_outcome zone_resolved(struct reply *reply, size_t owner, const struct name *name,
    unsigned below, const struct resolved *resolved, size_t apex, struct dname *chase);

/*
 * Answers a name of our zone and follows its CNAMEs. `path`: its path in the tree. ANSWER_CHASE:
 * the last CNAME, to `chase`, leaves our zones.
 */
enum answer_outcome answer_zone(struct reply *reply, const struct name *qname, unsigned below,
    const struct tree_path *path, struct dname *chase);

static inline bool
has_own_names(const struct reply *reply)
{
	const struct answer_context *context = reply->tree->context;

	/* A rewrite could lead from a zone for the world outside to the cluster's. */
	return context != NULL && context->own && !reply->config->external_only;
}

/*
 * The offset in the message of `zone`, which `name` at offset `owner` ends in. A rewritten question
 * need not end in the zone's name: then the SOA is owned by the question's name.
 */
static inline size_t
zone_in_message(
    const struct reply *reply, const struct name *name, size_t owner, const struct dname *zone)
{
	return reply->rewritten ? DNS_HEADER : owner + name->len - zone->len;
}

/* Whether the CNAME of an alias is followed for this type: RFC 1034 section 4.3.2 step 3a. ANY has the
 * CNAME as its one record (RFC 8482). */
static inline bool
alias_is_followed(uint16_t qtype)
{
	return qtype != TYPE_CNAME && qtype != TYPE_ANY;
}

enum own_step {
	OWN_STEP_NOT_OWN, /* nothing is written */
	OWN_STEP_DONE,    /* its records, or the denial */
	OWN_STEP_ALIAS,   /* a CNAME record to `target`, the last record so far */
};

/* Writes the records of one of the operator's own names (own_names.h), or its denial. `owner`: the name's
 * offset in the message: the question's, or an alias's target. */
enum own_step put_own(
    struct reply *reply, const struct name *name, size_t owner, struct dname *target);

/* Answers one of these names, and follows it if it is an alias; false: the name is none of them. `chase`
 * and the outcome as in answer_zone. */
bool answer_own(struct reply *reply, const struct name *name, size_t owner, struct dname *chase,
    enum answer_outcome *outcome);

/* Follows one of these names at offset `owner` that is an alias; its CNAME is the last record so far. */
enum answer_outcome answer_own_alias(struct reply *reply, size_t owner, struct dname *target);

/* A name that spells `bits` bits of an address and stands at `owner`: the question's, or a CNAME's
 * target. ANSWER_FORWARD: not ours to answer. */
enum answer_outcome answer_reverse(struct reply *reply, const struct name *name, size_t owner,
    const struct addr *addr, unsigned bits);

/* A name outside of our zone that spells no address: NXDOMAIN in a reverse zone of ours, and the
 * zones for the world outside. ANSWER_CHASE: a CNAME, to `chase`, leaves those. */
enum answer_outcome answer_odd_reverse(
    struct reply *reply, const struct name *name, size_t owner, struct dname *chase);

/* A name of the zones for the world outside, else ANSWER_FORWARD; as above. */
enum answer_outcome answer_external(
    struct reply *reply, const struct name *name, size_t owner, struct dname *chase);

#endif
