/*
 * A forwarder's reply made into ours. Upstream's bytes are read record by record before any of them
 * is passed on.
 */
#include <string.h>

#include "kubedns/answer/reply.h"

static size_t
give_up(struct reply *reply, struct answer_info *info)
{
	reply->flags |= RCODE_SERVFAIL;
	info->rcode = RCODE_SERVFAIL;
	info->truncated = false;
	return info->len = reply_end(reply);
}

/*
 * Appends upstream's records as they stand, which needs the same offsets: the question is of the
 * same length. Stops at an OPT, which speaks of one hop only; what then follows in the additional
 * section can be missed. False: malformed.
 */
static bool
append_sections(struct reply *reply, const uint8_t *upstream, size_t len)
{
	size_t at = reply->w.len, counts[SECTION_COUNT];
	struct record record;

	for (unsigned s = 0; s < SECTION_COUNT; s++)
		counts[s] = wire_get16(upstream + 6 + 2 * s);
	for (unsigned s = 0; s < SECTION_COUNT; s++) {
		for (size_t i = 0; i < counts[s]; i++) {
			if (wire_read_record(upstream, len, &at, &record) < 0)
				return false;
			if (record.type == TYPE_OPT) {
				if (s != SECTION_ADDITIONAL || record.owner.len != 1)
					return false;
				reply->extended_rcode = record.ttl_s >> 24;
				return true;
			}
			if (record.end > reply->w.max) {
				if (s != SECTION_ADDITIONAL) /* RFC 2181 section 9 */
					reply->truncated = true;
				return true;
			}
			memcpy(reply->w.buf + record.offset, upstream + record.offset,
			    record.end - record.offset);
			reply->w.len = record.end;
			reply->counts[s]++;
		}
	}
	return true;
}

size_t
answer_forwarded(const struct answer_config *config, const uint8_t *query, size_t query_len,
    const uint8_t *upstream, size_t upstream_len, bool tcp, uint8_t *out, size_t max,
    struct answer_info *info)
{
	static const struct answer_context forwarding = { .forwarding = true };
	static const struct tree tree = { .context = &forwarding };
	struct reply reply;

	info->system = SYSTEM_RECURSIVE;
	if (query_read(&info->query, query, query_len) != QUERY_OK || !info->query.has_question)
		return info->len = 0;
	reply_begin(&reply, config, &tree, &info->query, query, query_len, tcp, out, max);
	if (upstream == NULL || !wire_replies_to(upstream, upstream_len, info->query.qname,
				    info->query.qtype, info->query.qclass))
		return give_up(&reply, info);
	if (!append_sections(&reply, upstream, upstream_len)) {
		reply_begin(&reply, config, &tree, &info->query, query, query_len, tcp, out, max);
		return give_up(&reply, info);
	}
	reply.flags |= upstream[3] & 15u;
	if (wire_get16(upstream + 2) & FLAG_TC)
		reply.truncated = true;
	info->rcode = (uint8_t)((upstream[3] & 15) | reply.extended_rcode << 4);
	info->truncated = reply.truncated;
	return info->len = reply_end(&reply);
}

/* --- a chain of CNAMEs that left our zones --- */

/* Copies one record of upstream's answer section, its names written out.
 * False: it does not fit, or is malformed. */
static bool
append_answer(struct reply *reply, const uint8_t *upstream, size_t len, const struct record *record)
{
	struct writer *w = &reply->w;
	size_t start = w->len, at = (size_t)(record->rdata - upstream);
	struct dname target;

	writer_put(w, record->owner.wire, record->owner.len);
	writer_put16(w, record->type);
	writer_put16(w, record->class);
	writer_put32(w, record->ttl_s);
	if (record->type == TYPE_CNAME) { /* the one type here whose RDATA may be compressed */
		if (wire_read_name(upstream, len, &at, &target) < 0)
			return false;
		writer_put16(w, target.len);
		writer_put(w, target.wire, target.len);
	} else {
		writer_put16(w, record->rdata_len);
		writer_put(w, record->rdata, record->rdata_len);
	}
	if (!w->overflow) {
		reply->counts[SECTION_ANSWER]++;
		return true;
	}
	w->len = start;
	w->overflow = false;
	reply->truncated = true;
	return false;
}

/* Our CNAMEs, which `out` ends in as answer() left it,
 * followed by upstream's answers of the wanted types. */
static bool
append_chased(struct reply *reply, const uint8_t *upstream, size_t len)
{
	size_t at = DNS_HEADER;
	struct dname name;
	struct record record;

	if (wire_read_name(upstream, len, &at, &name) < 0)
		return false;
	at += 4;
	for (unsigned i = wire_get16(upstream + 6); i > 0; i--) {
		if (wire_read_record(upstream, len, &at, &record) < 0)
			return false;
		if (record.type != TYPE_CNAME && record.type != reply->query->qtype)
			continue; /* a signature over names that are not the client's question */
		if (!append_answer(reply, upstream, len, &record))
			return reply->truncated;
	}
	return true;
}

size_t
answer_chased(const struct answer_config *config, const struct tree *tree, const uint8_t *query,
    size_t query_len, const uint8_t *upstream, size_t upstream_len, bool tcp, uint8_t *out,
    size_t max, struct answer_info *info)
{
	struct dname asked = info->target;
	struct reply reply;
	struct record record;
	size_t at;

	/* The way to the target again, from the newest tree: while upstream was asked the Service
	 * may have changed. */
	if (answer(config, tree, query, query_len, tcp, 0, out, max, info) != ANSWER_CHASE)
		return info->len;
	unsigned cnames = wire_get16(out + 6);
	bool same = dname_equal(asked.wire, info->target.wire);
	reply_begin(&reply, config, tree, &info->query, query, query_len, tcp, out, max);
	reply.flags |= FLAG_AA;
	if (!same || upstream == NULL ||
	    !wire_replies_to(
		upstream, upstream_len, info->target.wire, info->query.qtype, CLASS_IN))
		return give_up(&reply, info);
	at = reply.w.len;
	for (unsigned i = 0; i < cnames; i++)
		if (wire_read_record(out, info->len, &at, &record) < 0)
			return give_up(&reply, info);
	reply.w.len = at;
	reply.counts[SECTION_ANSWER] = cnames;
	reply.flags |= upstream[3] & 15u;
	if (!append_chased(&reply, upstream, upstream_len)) {
		reply_begin(&reply, config, tree, &info->query, query, query_len, tcp, out, max);
		return give_up(&reply, info);
	}
	if (wire_get16(upstream + 2) & FLAG_TC)
		reply.truncated = true;
	info->rcode = (uint8_t)(reply.flags & 15);
	info->truncated = reply.truncated;
	return info->len = reply_end(&reply);
}
