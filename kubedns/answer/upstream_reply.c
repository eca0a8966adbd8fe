/*
 * Makes our reply from an upstream reply. Each record is checked before it is passed on.
 */
#include <string.h>

#include "kubedns/answer/reply.h"
#include "kubedns/answer/stage.h"
#include "kubedns/answer/upstream_stage.h"
#include "kubedns/answer/zones.h"
#include "lib/own_frame.h"
#include "lib/wire.h"
#include "lib/utf8.h"

/* If the name is in a stub domain whose servers are all refused, the SERVFAIL has the reason. The engine's reply does not know it. */
static void
say_refused(struct reply *reply)
{
	if (reply_has_reason(reply) &&
	    answer_stub_closed(reply->tree->context, reply->query->qname))
		reply_stub_refused(reply, reply->query->qname);
}

/* Makes a REFUSED or SERVFAIL reply when there is no upstream reply to pass on. Before the first sync, a query for our own names never gets
 * REFUSED. */
static size_t
give_up(struct reply *reply, const struct upstream_reply *upstream, struct answer_info *info)
{
	bool refused = upstream->wire == NULL && upstream->refused_by != NULL;

	info->rcode = refused && !info->until_synced ? RCODE_REFUSED : RCODE_SERVFAIL;
	info->truncated = false;
	reply->flags |= info->rcode;
	if (refused) {
		reply->ede = EDE_OTHER;
		reply->ede_text = upstream->refused_by;
	} else if (reply_has_reason(reply)) {
		reply_reason_kind(reply, REASON_UPSTREAM_FAILED);
		say_refused(reply);
	}
	return info->len = reply_end(reply);
}

/* With --fallthrough: returns whether the name is in one of our zones, but does not exist there. */
OWN_FRAME static bool
is_left_to_others(const struct reply *reply, const struct dname *owner)
{
	const struct answer_config *config = reply->config;
	struct name_buf buf;
	struct resolved resolved;
	struct reverse_walk walk;
	struct reverse_ref ref;
	struct addr addr;

	struct name name = name_copy_lower(&buf, owner->wire, owner->len);
	if (!answer_falls_through(config, &name))
		return false;
	int below = name_below(&name, &config->zone);
	if (below >= 0) {
		resolve(config, reply->tree, &name, (unsigned)below, NULL, &resolved);
		return resolved.kind == RESOLVED_NOTHING;
	}
	int bits = resolve_reverse_name(&name, &addr);
	if (bits < 0)
		return true;
	if (bits != 32 && bits != 128)
		return zone_index(config, owner->wire) < 0 &&
		       !reverse_has_below(config, reply->tree, &addr, (unsigned)bits);
	reverse_find(&walk, reply->tree, &addr);
	return !reverse_next(&walk, &ref);
}

/* Returns whether the owner is in the cluster's zone, a reverse zone or the zone of a cluster set, for which only we may answer. Names of
 * --fallthrough that we do not have are not ours. Servers of --until-synced may answer for our zones, because they know the cluster. External
 * zones are public: a reply may lead into one by a CNAME, and the other server has the records from us. */
static bool
is_ours(const struct reply *reply, const struct record *record)
{
	const struct answer_config *config = reply->config;
	const uint8_t *owner = record->owner.wire;
	bool ours = false;

	for (size_t i = 0; i < zone_count(config) && !ours; i++) {
		const struct zone zone = zone_at(config, i);

		ours = zone.kind != ZONE_EXTERNAL && dname_in_zone(owner, zone.name->wire) >= 0;
	}
	return ours && !reply->from_peers &&
	       !answer_stub_takes(config, reply->tree->context, owner) &&
	       (upstream_config(config)->fallthrough_count == 0 ||
		   !is_left_to_others(reply, &record->owner));
}

/* Lowers the TTL of the SOA in a negative answer to --negative-ttl. Used for names that the cluster may get later. Names of addresses
 * and names of --fallthrough are such names. Caches use the lower of TTL and MINIMUM (RFC 2308). */
static void
shorten_denial(struct reply *reply, const uint8_t *upstream, const struct record *record)
{
	/* the TTL is before RDLENGTH and RDATA */
	uint8_t *ttl = reply->w.buf + (record->rdata - upstream) - 6;

	if (record->ttl_s > reply->config->negative_ttl_s)
		wire_put32(ttl, reply->config->negative_ttl_s);
}

/* Returns whether the name, which is not ours now, may become a name of the cluster. */
static bool
may_become_ours(const struct answer_config *config, const struct query *query)
{
	struct name name = { query->qname, query->labels, query->qname_len, query->label_count };
	struct addr addr;

	return resolve_reverse_name(&name, &addr) >= 0 || name_below(&name, &config->zone) >= 0;
}

/* Copies the text of an extended error, up to the first byte that is not UTF-8. The text must be UTF-8. Some libraries reject the whole
 * reply if it is not. Leaves out characters that could control a terminal. */
static void
copy_ede_text(struct reply *reply, const uint8_t *text, size_t len)
{
	static const char head[] = "upstream: ";
	char *out = reply->reason_text;
	size_t n = sizeof head - 1, max = sizeof reply->reason_text - 1, size;
	uint32_t cp;

	memcpy(out, head, n);
	for (; len > 0 && (size = utf8_read((const char *)text, len, &cp)) > 0 && n + size <= max;
	     text += size, len -= size) {
		if (utf8_unsafe(cp))
			continue;
		memcpy(out + n, text, size);
		n += size;
	}
	if (n == sizeof head - 1)
		n -= 2; /* no text follows the colon */
	out[n] = '\0';
}

/* Copies the first extended error of the upstream's OPT into ours, and adds the server that reported it (RFC 8914 section 3). Most
 * replies have no extended error. */
OWN_FRAME static void
take_ede(struct reply *reply, const struct record *opt)
{
	const uint8_t *option = opt->rdata, *end = opt->rdata + opt->rdata_len;

	for (; end - option >= 4; option += 4 + wire_get16(option + 2)) {
		size_t len = wire_get16(option + 2);

		if ((size_t)(end - option) - 4 < len)
			return;
		if (wire_get16(option) != OPTION_EDE || len < 2)
			continue;
		reply->ede = (int)wire_get16(option + 4);
		copy_ede_text(reply, option + 6, len - 2);
		reply->ede_text = reply->reason_text;
		return;
	}
}

/*
 * Appends the upstream's records byte for byte, except the TTL that shorten_denial() changes. Compression pointers stay valid for two
 * reasons. The question before the records has the same length, and no record between two copied records is left out. The copy ends at the
 * first record in our zones. The copy also ends at the OPT record, which is hop-by-hop. Only an extended error of the OPT record is used.
 * The additional records after it are optional. Returns false if the reply is malformed.
 */
static bool
append_sections(struct reply *reply, const uint8_t *upstream, size_t len)
{
	struct reply_walk walk;
	const struct record *record = &walk.record;
	bool ours = false;
	int more;

	if (!reply_walk_begin(&walk, upstream, len))
		return false;
	while ((more = reply_walk_next(&walk)) > 0) {
		if (record->type == TYPE_OPT) {
			if (walk.section != WALK_ADDITIONAL || record->owner.len != 1)
				return false;
			reply->extended_rcode = record->ttl_s >> 24;
			if (record->rdata_len > 0 && reply->query->has_edns && !reply->from_peers)
				take_ede(reply, record);
			return true;
		}
		ours = ours || is_ours(reply, record);
		if (ours) /* after a record of our zones, only the OPT is needed */
			continue;
		if (record->end > reply->w.max) {
			if (walk.section != WALK_ADDITIONAL) /* RFC 2181 section 9 */
				reply->truncated = true;
			return true;
		}
		memcpy(reply->w.buf + record->offset, upstream + record->offset,
		    record->end - record->offset);
		reply->w.len = record->end;
		reply->counts[walk.section]++;
		if (reply->short_denial && walk.section == WALK_AUTHORITY &&
		    record->type == TYPE_SOA)
			shorten_denial(reply, upstream, record);
	}
	return more == 0;
}

size_t
answer_forwarded(const struct answer_request *request, const struct upstream_reply *upstream,
    struct answer_info *info)
{
	const uint8_t *wire = upstream->wire;
	struct query *query = &info->query;
	struct reply reply;

	info->system = SYSTEM_RECURSIVE;
	enum query_result read = query_read(query, request->query, request->query_len);
	if ((read != QUERY_OK && read != QUERY_SIGNED) || !query->has_question)
		return info->len = 0;
	reply_begin(&reply, request, query, true);
	if (wire == NULL ||
	    !wire_replies_to(wire, upstream->len, query->qname, query->qtype, query->qclass))
		return give_up(&reply, upstream, info);
	reply.short_denial = may_become_ours(request->config, query);
	reply.from_peers = info->until_synced;
	if (!append_sections(&reply, wire, upstream->len)) {
		reply_begin(&reply, request, query, true);
		return give_up(&reply, upstream, info);
	}
	reply.flags |= wire[3] & 15u;
	if ((wire[3] & 15) == RCODE_SERVFAIL)
		say_refused(&reply);
	if (reply.from_peers)
		reply.flags |= wire_get16(wire + 2) & FLAG_AA;
	if (wire_get16(wire + 2) & FLAG_TC)
		reply.truncated = true;
	info->rcode = (uint8_t)((wire[3] & 15) | reply.extended_rcode << 4);
	info->truncated = reply.truncated;
	return info->len = reply_end(&reply);
}

/* --- a chain of CNAMEs that leaves our zones --- */

/* Types whose RDATA may have compressed names (RFC 3597 section 4). The numbers are the number of bytes before the names, and the number
 * of names. */
static const struct {
	uint16_t type;
	uint8_t skip, names;
} compressible[] = { { TYPE_NS, 0, 1 }, { 3 /* MD */, 0, 1 }, { 4 /* MF */, 0, 1 },
	{ TYPE_CNAME, 0, 1 }, { TYPE_SOA, 0, 2 }, { 7 /* MB */, 0, 1 }, { 8 /* MG */, 0, 1 },
	{ 9 /* MR */, 0, 1 }, { TYPE_PTR, 0, 1 }, { 14 /* MINFO */, 0, 2 }, { TYPE_MX, 2, 1 },
	{ 17 /* RP */, 0, 2 }, { 18 /* AFSDB */, 2, 1 }, { 21 /* RT */, 2, 1 },
	{ 26 /* PX */, 2, 2 }, { TYPE_SRV, 6, 1 }, { 36 /* KX */, 2, 1 },
	{ 39 /* DNAME */, 0, 1 } };

/* Writes the record's RDATA with uncompressed names. Returns false if it is malformed. */
static bool
put_rdata(struct writer *w, const uint8_t *upstream, size_t len, const struct record *record)
{
	size_t at = (size_t)(record->rdata - upstream), start = w->len;
	unsigned skip = 0, names = 0;
	struct dname name;

	for (size_t i = 0; i < sizeof compressible / sizeof compressible[0]; i++)
		if (compressible[i].type == record->type) {
			skip = compressible[i].skip;
			names = compressible[i].names;
		}
	if (skip > record->rdata_len)
		return false;
	writer_put16(w, 0);
	writer_put(w, upstream + at, skip);
	at += skip;
	for (; names > 0; names--) {
		if (wire_read_name(upstream, len, &at, &name) < 0 || at > record->end)
			return false;
		writer_put(w, name.wire, name.len);
	}
	writer_put(w, upstream + at, record->end - at);
	if (!w->overflow)
		wire_put16(w->buf + start, (unsigned)(w->len - start - 2));
	return true;
}

/* Copies one of the upstream's records, with uncompressed names. If `instead` was looked up in place of the query's name, a record of
 * `instead` gets the query's name. Returns false if the record does not fit or is malformed. */
static bool
append_record(struct reply *reply, enum section section, const struct reply_walk *walk,
    const struct dname *instead)
{
	const struct record *record = &walk->record;
	struct writer *w = &reply->w;
	size_t start = w->len;

	if (instead != NULL && dname_equal(record->owner.wire, instead->wire))
		writer_put16(w, 0xc000 | DNS_HEADER);
	else
		writer_put(w, record->owner.wire, record->owner.len);
	writer_put16(w, record->type);
	writer_put16(w, record->class);
	writer_put32(w, record->ttl_s);
	bool whole = put_rdata(w, walk->wire, walk->len, record);
	if (whole && !w->overflow) {
		reply->counts[section]++;
		return true;
	}
	w->len = start;
	w->overflow = false;
	reply->truncated = reply->truncated || (whole && section == SECTION_ANSWER);
	return false;
}

/* Appends the upstream's CNAMEs and records of the query's type to our CNAMEs. Afterwards, `walk` is at the end of the answer section.
 * Sets `*any` if there was a record of the type. Returns false if the reply is malformed. */
static bool
append_chased(struct reply *reply, const struct upstream_reply *upstream, struct reply_walk *walk,
    bool *any, const struct dname *instead)
{
	const struct record *record = &walk->record;

	*any = false;
	if (!reply_walk_begin(walk, upstream->wire, upstream->len))
		return false;
	while (walk->left[WALK_ANSWER] > 0) {
		if (reply_walk_next(walk) < 0)
			return false;
		*any = *any || record->type == reply->query->qtype;
		if (record->type != TYPE_CNAME && record->type != reply->query->qtype)
			/* Skips records of other types, such as signatures, and records of names that the client did not query. */
			continue;
		if (is_ours(reply, record))
			continue;
		if (!append_record(reply, SECTION_ANSWER, walk, instead))
			return reply->truncated;
	}
	return true;
}

/* --- external candidates of a stage --- */

/* Continues to the SOA of the authority section. Returns false if there is none. */
static bool
find_soa(struct reply_walk *walk)
{
	while (walk->left[WALK_ANSWER] + walk->left[WALK_AUTHORITY] > 0) {
		if (reply_walk_next(walk) < 0)
			return false;
		if (walk->section == WALK_AUTHORITY && walk->record.type == TYPE_SOA &&
		    walk->record.rdata_len >= 22)
			return true;
	}
	return false;
}

/* Returns how long a negative answer with this SOA may be cached (RFC 2308 section 5). */
static uint32_t
denial_ttl(const struct record *soa)
{
	uint32_t minimum_s = wire_get32(soa->rdata + soa->rdata_len - 4);

	return minimum_s < soa->ttl_s ? minimum_s : soa->ttl_s;
}

/* Appends the SOA of a negative answer. With an SOA, caches can keep the answer. If `instead` was looked up and there is no CNAME, the
 * negative answer is for the query's name. That name may be outside the SOA's zone, so the SOA's owner becomes the query's name. */
static void
append_denial(struct reply *reply, struct reply_walk *walk, const struct dname *instead)
{
	bool own = instead != NULL && reply->counts[SECTION_ANSWER] == 0;
	struct dname zone;

	if (!find_soa(walk) || is_ours(reply, &walk->record))
		return;
	zone = walk->record.owner;
	walk->record.ttl_s = denial_ttl(&walk->record);
	append_record(reply, SECTION_AUTHORITY, walk, own ? &zone : NULL);
}

/* Calls answer() again with the request's tree. The block of the stage that has claimed the query is kept. */
static enum answer_outcome
answer_again(const struct answer_request *request, struct answer_info *info)
{
	const struct stage *owner = info->claim.owner;
	struct tree_path path;

	answer_read(request->config, request->query, request->query_len, info, &path);
	info->claim.owner = owner;
	tree_find_paths(request->tree, &path, 1);
	return answer_found(request, &path, info);
}

bool
answer_chases_on(const struct answer_request *request, const struct upstream_reply *upstream,
    struct answer_info *info)
{
	uint8_t capacity[DNS_UDP_QUERY_MAX];
	struct answer_request again = *request;
	const uint8_t *wire = upstream->wire;
	struct claim *claim = &info->claim;
	struct reply_walk walk;

	if (!claim->candidate || wire == NULL ||
	    !wire_replies_to(wire, upstream->len, info->target.wire, info->query.qtype, CLASS_IN) ||
	    (wire[3] & 15) != RCODE_NXDOMAIN || !reply_walk_begin(&walk, wire, upstream->len))
		return false;
	/* A negative answer without an SOA does not limit the TTL. Such answers may come from a cache. */
	claim->stage->denied(claim->block, find_soa(&walk) ? denial_ttl(&walk.record) : UINT32_MAX);
	again.out = capacity;
	again.max = sizeof capacity;
	return answer_again(&again, info) == ANSWER_CHASE;
}

size_t
answer_chased(const struct answer_request *request, const struct upstream_reply *upstream,
    struct answer_info *info)
{
	const uint8_t *wire = upstream->wire;
	struct dname asked = info->target;
	struct reply reply;
	struct record record;
	struct reply_walk walk;
	size_t at;
	bool any;

	/* Makes the chain to the target again from the newest tree, because the Service may have changed while the query was in
	 * flight. */
	if (answer_again(request, info) != ANSWER_CHASE)
		return info->len;
	const struct stage *stage = info->claim.stage;
	unsigned cnames = wire_get16(request->out + 6);
	bool same = dname_equal(asked.wire, info->target.wire);
	reply_begin(&reply, request, &info->query, true);
	/* if a rewritten name has no CNAMEs of ours, all its records are from other servers */
	if (cnames > 0 || stage != NULL)
		reply_existence(&reply, FOUND, 0);
	if (!same || wire == NULL ||
	    !wire_replies_to(wire, upstream->len, info->target.wire, info->query.qtype, CLASS_IN))
		return give_up(&reply, upstream, info);
	at = reply.w.len;
	for (unsigned i = 0; i < cnames; i++)
		if (wire_read_record(request->out, info->len, &at, &record) < 0)
			return give_up(&reply, upstream, info);
	reply.w.len = at;
	reply.counts[SECTION_ANSWER] = cnames;
	reply.flags |= wire[3] & 15u;
	/* If our CNAME leads to the target, the upstream's records keep their names. */
	const struct dname *instead = info->rewritten && cnames == 0 ? &info->target : NULL;
	/* A candidate must not be in the reply unless it is known to exist. */
	bool failed = info->claim.candidate && (wire[3] & 15) != RCODE_NOERROR;
	if (failed || !append_chased(&reply, upstream, &walk, &any, instead)) {
		reply_begin(&reply, request, &info->query, true);
		return give_up(&reply, upstream, info);
	}
	if (!any)
		append_denial(&reply, &walk, instead);
	if (stage != NULL)
		stage->finish(&reply);
	if (wire_get16(wire + 2) & FLAG_TC)
		reply.truncated = true;
	info->rcode = (uint8_t)(reply.flags & 15);
	info->truncated = reply.truncated;
	return info->len = reply_end(&reply);
}
