/* Names of one's own (own_names.h): a question for one, and a CNAME that leads to one. */
#include "kubedns/answer/answer_internal.h"
#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/own_names.h"
#include "kubedns/answer/zone_walk.h"

struct own_answer
own_ask(const struct answer_config *config, const struct tree *tree, const struct name *name)
{
	const struct answer_context *context = tree->context;
	const struct own_names *names = context == NULL ? NULL : context->names;

	if (names == NULL)
		return (struct own_answer){ .kind = OWN_NONE };
	/* A zone or wildcard around the cluster's zones does not answer for names in them. */
	return own_names_ask(names, name,
	    !names->walks || name_below(name, &config->zone) >= 0 ||
		(config->external != NULL && external_zone_of(config->external, name) != NULL));
}

/* The SOA record of a zone of one's own, for a denial (RFC 2308 section 3). */
static void
put_soa(struct reply *reply, const struct name *name, size_t owner, const struct own_name *zone)
{
	const uint8_t *record = own_name_rrset(zone, TYPE_SOA)->data;
	size_t len = wire_get16(record + 10);
	uint32_t ttl_s = wire_get32(record + 6), minimum_s = wire_get32(record + 12 + len - 4);
	bool asked = owner == DNS_HEADER && reply->rewritten;

	reply->section = SECTION_AUTHORITY;
	reply_record(reply, asked ? owner : owner + name->len - zone->len, TYPE_SOA,
	    minimum_s < ttl_s ? minimum_s : ttl_s, record + 12, len);
}

/* The name at `owner` has no records of the type, or does not exist. */
static void
deny(struct reply *reply, const struct name *name, size_t owner, const struct own_answer *own)
{
	bool cluster = name_below(name, &reply->config->zone) >= 0;

	if (own->zone != NULL) {
		reply->flags |= FLAG_AA | (own->kind == OWN_DENIED ? RCODE_NXDOMAIN : 0u);
		put_soa(reply, name, owner, own->zone);
	} else if (cluster && !(owner == DNS_HEADER && reply->rewritten)) {
		set_rcode_and_soa(reply, NODATA, owner + name->len - reply->config->zone.len);
	} else { /* in no zone the name is its own zone's apex */
		set_rcode_and_soa(reply, NODATA, owner);
	}
}

enum own_step
put_own(struct reply *reply, const struct name *name, size_t owner, struct dname *target)
{
	const struct own_answer own = own_ask(reply->config, reply->tree, name);
	uint16_t qtype = reply->query->qtype;
	const struct rrset *set;

	/* Our zones' own are what their transfers begin with. */
	if (own.kind == OWN_NONE ||
	    ((qtype == TYPE_SOA || qtype == TYPE_NS) && zone_index(reply->config, name->wire) >= 0))
		return OWN_STEP_NOT_OWN;
	if (own.kind != OWN_FOUND) {
		deny(reply, name, owner, &own);
		return OWN_STEP_DONE;
	}
	if (qtype == TYPE_ANY) {
		put_hinfo(reply, owner);
	} else if ((set = own_name_rrset(own.name, qtype)) != NULL) {
		reply_rrset(reply, owner, set);
	} else if ((set = own_name_rrset(own.name, TYPE_CNAME)) != NULL) {
		target->len = (uint8_t)wire_get16(set->data + 10);
		memcpy(target->wire, set->data + 12, target->len);
		reply_rrset(reply, owner, set);
		return OWN_STEP_ALIAS;
	} else {
		deny(reply, name, owner, &own);
		return OWN_STEP_DONE;
	}
	set_rcode_and_soa(reply, FOUND, owner);
	return OWN_STEP_DONE;
}

bool
answer_own(struct reply *reply, const struct name *name, size_t owner, struct dname *chase,
    enum answer_outcome *outcome)
{
	enum own_step step = put_own(reply, name, owner, chase);

	*outcome = step == OWN_STEP_ALIAS ? answer_own_alias(reply, owner, chase) : ANSWER_REPLY;
	return step != OWN_STEP_NOT_OWN;
}
