/* The local-names stage answers the operator's own names (local_names.h): names in queries, and targets of CNAMEs. */
#include "kubedns/answer/local_names.h"
#include "kubedns/answer/stage.h"
#include "kubedns/answer/zones.h"

/* Writes the SOA of a local zone, for a negative answer (RFC 2308 section 3). */
static void
put_soa(struct lookup *l, const struct own_name *zone)
{
	const uint8_t *record = own_name_rrset(zone, TYPE_SOA)->data;
	size_t len = wire_get16(record + 10);
	uint32_t ttl_s = wire_get32(record + 6), minimum_s = wire_get32(record + 12 + len - 4);
	bool rewritten = l->asked && l->reply->rewritten;

	reply_record(l->reply, rewritten ? l->owner : l->owner + l->name.len - zone->len, TYPE_SOA,
	    minimum_s < ttl_s ? minimum_s : ttl_s, record + 12, len);
}

/* Gives the negative answer for a name that does not exist or has no records of the type. */
static void
deny(struct lookup *l, const struct own_answer *own)
{
	struct reply *reply = l->reply;

	if (own->zone != NULL) {
		reply_denial(reply, own->kind == OWN_DENIED ? NXDOMAIN : NODATA);
		put_soa(l, own->zone);
	} else if (l->below >= 0 && !(l->asked && reply->rewritten)) {
		reply_existence(reply, NODATA, l->owner + l->name.len - reply->config->zone.len);
		/* The name is in no local zone, so it counts as the apex of a zone. */
	} else {
		reply_existence(reply, NODATA, l->owner);
	}
}

/* --- the additional section --- */

/* RDATA of some types contains a host name that the client looks up next. Returns the number of bytes before that name. Returns -1 for
 * other types. */
static int
bytes_before_target(uint16_t type)
{
	switch (type) {
	case TYPE_NS:
		return 0;
	case TYPE_MX:
	case TYPE_SVCB:
	case TYPE_HTTPS:
		return 2;
	case TYPE_SRV:
		return 6;
	default:
		return -1;
	}
}

/* Writes the addresses of the name at offset `at`, if it is a local name. */
static void
put_addresses(struct reply *reply, size_t at, const struct name *name)
{
	static const uint16_t types[] = { TYPE_A, TYPE_AAAA };
	const struct own_answer own = own_ask(reply->config, reply->tree, name);
	const struct rrset *set;

	for (size_t i = 0; i < 2 && own.kind == OWN_FOUND; i++)
		if ((set = own_name_rrset(own.name, types[i])) != NULL)
			reply_rrset(reply, at, set);
}

static void
put_target(struct reply *reply, size_t at, size_t len)
{
	struct name_buf buf;

	const struct name name = name_copy_lower(&buf, reply->w.buf + at, len);
	put_addresses(reply, at, &name);
}

/* Returns the length of an uncompressed name, or 0 if the data ends inside the name. */
static size_t
name_length(const uint8_t *at, const uint8_t *end)
{
	const uint8_t *label = at;

	while (label < end && *label != 0)
		label += 1u + *label;
	return label < end ? (size_t)(label - at) + 1 : 0;
}

/* Writes the addresses of the targets of the records from offset `begin` on (RFC 1035 sections 3.3.9 and 3.3.11, RFC 2782, RFC 9460
 * section 4.1). In SVCB and HTTPS records the target `.` is the owner, `name`. Writes each target once. TARGETS_MAX limits the
 * comparisons. */
static void
put_targets(struct reply *reply, const struct name *name, size_t owner, size_t begin, uint16_t type)
{
	enum { TARGETS_MAX = 16, POINTER_MAX = 0x3fff };
	size_t skip = (size_t)bytes_before_target(type), end = reply->w.len, done[TARGETS_MAX];
	unsigned count = 0;

	reply->section = SECTION_ADDITIONAL;
	for (size_t at = begin, len; at < end && count < TARGETS_MAX; at += 12 + len) {
		const uint8_t *buf = reply->w.buf;

		len = wire_get16(buf + at + 10);
		size_t target = at + 12 + skip, size = 0;
		if (len > skip && target <= POINTER_MAX)
			size = name_length(buf + target, buf + at + 12 + len);
		bool known = size == 0;
		for (unsigned i = 0; i < count && !known; i++)
			known = dname_equal(buf + done[i], buf + target);
		if (known)
			continue;
		done[count++] = target;
		if (size > 1)
			put_target(reply, target, size);
		else if (type == TYPE_SVCB || type == TYPE_HTTPS)
			put_addresses(reply, owner, name);
	}
	reply->section = SECTION_ANSWER;
}

static enum step
local_answer(struct lookup *l)
{
	struct reply *reply = l->reply;
	const struct own_answer own = own_ask(reply->config, reply->tree, &l->name);
	uint16_t qtype = reply->query->qtype;
	struct dname *target = &l->info->target;
	const struct rrset *set;

	/* For our own zones, queries and zone transfers must return the same SOA and NS records. */
	if (own.kind == OWN_NONE || ((qtype == TYPE_SOA || qtype == TYPE_NS) &&
					zone_index(reply->config, l->name.wire) >= 0))
		return STEP_NEXT;
	lookup_reason(l, STAGE_local_names,
	    own.kind == OWN_DENIED  ? REASON_MISSING
	    : own.kind == OWN_EMPTY ? REASON_EMPTY
	    : own.wildcard          ? REASON_WILDCARD
				    : REASON_EXISTS,
	    own.kind == OWN_FOUND ? own.name : own.zone);
	if (own.kind != OWN_FOUND) {
		deny(l, &own);
		return STEP_DONE;
	}
	if (qtype == TYPE_ANY) {
		reply_hinfo(reply, l->owner);
	} else if ((set = own_name_rrset(own.name, qtype)) != NULL) {
		size_t begin = reply->w.len;

		reply_rrset(reply, l->owner, set);
		if (bytes_before_target(qtype) >= 0 && !reply->truncated)
			put_targets(reply, &l->name, l->owner, begin, qtype);
	} else if ((set = own_name_rrset(own.name, TYPE_CNAME)) != NULL) {
		target->len = (uint8_t)wire_get16(set->data + 10);
		memcpy(target->wire, set->data + 12, target->len);
		reply_rrset(reply, l->owner, set);
		return STEP_ALIAS;
	} else {
		deny(l, &own);
		return STEP_DONE;
	}
	reply_existence(reply, FOUND, l->owner);
	return STEP_DONE;
}

const struct stage stage_local_names = { .id = STAGE_local_names,
	.order = ORDER_CONTEXT,
	.standard = stage_without_options,
	.answer = local_answer };
