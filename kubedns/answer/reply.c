#include <string.h>

#include "kubedns/answer/name.h"
#include "kubedns/answer/nearest.h"
#include "kubedns/answer/record.h"
#include "kubedns/answer/soa.h"
#include "lib/own_frame.h"

enum {
	OPT_FIXED = 11,
	OPTION_NSID = 3,
	OPTION_TCP_KEEPALIVE = 11,
};

static size_t
opt_len(const struct reply *reply)
{
	size_t len = reply->query->has_edns ? OPT_FIXED : 0;

	if (reply->query->wants_nsid)
		len += 4 + strlen(reply->config->hostname);
	if (reply->has_keepalive)
		len += 6;
	return reply->query->has_edns ? len + 6 /* space for an extended error without text */ : 0;
}

void
reply_begin(struct reply *reply, const struct answer_request *request, const struct query *query,
    bool forwarding)
{
	size_t size = request->tcp                        ? DNS_TCP_MAX
		      : query->udp_size < DNS_UDP_PAYLOAD ? query->udp_size
							  : DNS_UDP_PAYLOAD;

	if (size > request->max)
		size = request->max;
	memset(reply, 0, offsetof(struct reply, reason_text));
	reply->w.buf = request->out;
	reply->config = request->config;
	reply->tree = request->tree;
	reply->rotation = request->rotation;
	reply->thread = request->thread;
	reply->client = request->client;
	reply->reason = request->reason;
	reply->query = query;
	const struct endpoint_choice *choice = request->config->choice;
	reply->ordered = choice != NULL && choice->nearest;
	reply->tcp = request->tcp;
	reply->ede = -1;
	reply->work_left = WORK_MAX;
	reply->size = size;
	reply->has_keepalive = request->tcp && query->wants_keepalive;
	reply->keepalive = request->keepalive;
	reply->w.max = size - opt_len(reply);
	reply->w.len = DNS_HEADER;
	reply->flags = FLAG_QR | (query->flags & (0x7800 | FLAG_RD | FLAG_CD));
	if (forwarding)
		reply->flags |= FLAG_RA;
	if (query->has_question && DNS_HEADER + (size_t)query->question_len <= request->query_len)
		writer_put(&reply->w, request->query + DNS_HEADER, query->question_len);
}

void
reply_reason(struct reply *reply, const struct reason *reason)
{
	if (reason->kind == REASON_NONE)
		return;
	reply->ede = reason_ede(reason->kind);
	reason_text(reason, reply->reason_text);
	reply->ede_text = reply->reason_text;
	if (reply->reason != NULL)
		reason_keep(reply->reason, reason);
}

void
reply_reason_text(struct reply *reply, enum reason_kind kind, const char *text)
{
	const struct reason reason = { .kind = kind, .zone = &reply->config->zone, .text = text };

	reply_reason(reply, &reason);
}

void
reply_reason_kind(struct reply *reply, enum reason_kind kind)
{
	const struct reason reason = { .kind = kind, .zone = &reply->config->zone };

	reply_reason(reply, &reason);
}

/* Writes an extended error. If its text does not fit, writes it without the text. If that does not fit either, writes nothing. */
static void
put_ede(struct writer *w, int code, const char *text)
{
	size_t len = text == NULL ? 0 : strlen(text), capacity = w->max - w->len;

	if (capacity < 6)
		return;
	if (6 + len > capacity)
		len = 0;
	writer_put16(w, OPTION_EDE);
	writer_put16(w, (unsigned)(2 + len));
	writer_put16(w, (unsigned)code);
	if (len > 0)
		writer_put(w, text, len);
}

/* Returns the time since which authoritative answers may be stale. Returns 0 if they are not stale, or if this answer is not
 * authoritative. */
static int64_t
stale_since_ns(const struct reply *reply)
{
	const struct answer_context *context = reply->tree == NULL ? NULL : reply->tree->context;

	return context == NULL || reply->thread == NULL || (reply->flags & FLAG_AA) == 0
		   ? 0
		   : context->stale_since_ns;
}

static void
put_stale(struct reply *reply, int64_t since_ns)
{
	int64_t seconds = (*reply->thread->now_ns - since_ns) / 1000000000;
	const struct reason stale = { .kind = REASON_STALE,
		.count = seconds < 0 ? 0 : (unsigned)seconds };
	char text[REASON_TEXT_MAX];

	reason_text(&stale, text);
	put_ede(&reply->w,
	    (reply->flags & 15) == RCODE_NXDOMAIN ? EDE_STALE_NXDOMAIN : EDE_STALE_ANSWER, text);
}

/* Writes the options of the OPT record. Most replies have no options. */
static void
put_options(struct reply *reply)
{
	const struct query *query = reply->query;
	struct writer *w = &reply->w;

	if (query->wants_nsid) {
		size_t len = strlen(reply->config->hostname);

		writer_put16(w, OPTION_NSID);
		writer_put16(w, (unsigned)len);
		writer_put(w, reply->config->hostname, len);
	}
	if (reply->has_keepalive) {
		writer_put16(w, OPTION_TCP_KEEPALIVE);
		writer_put16(w, 2);
		writer_put16(w, reply->keepalive);
	}
	if (reply->ede >= 0)
		put_ede(w, reply->ede, reply->ede_text);
}

static void
put_opt(struct reply *reply)
{
	const struct query *query = reply->query;
	struct writer *w = &reply->w;
	uint8_t *p = w->buf + w->len;

	if (reply->size - w->len < OPT_FIXED) /* not enough space for any client's OPT */
		return;
	w->max = reply->size;
	w->len += OPT_FIXED;
	p[0] = 0;
	wire_put16(p + 1, TYPE_OPT);
	wire_put16(p + 3, DNS_UDP_PAYLOAD);
	p[5] = (uint8_t)reply->extended_rcode;
	p[6] = 0;
	wire_put16(p + 7, query->edns_do ? 0x8000 : 0);
	if (query->wants_nsid || reply->has_keepalive || reply->ede >= 0)
		put_options(reply);
	int64_t since_ns = stale_since_ns(reply);
	if (since_ns != 0)
		put_stale(reply, since_ns);
	wire_put16(p + 9, (unsigned)(w->buf + w->len - p - OPT_FIXED));
	reply->counts[SECTION_ADDITIONAL]++;
}

size_t
reply_end(struct reply *reply)
{
	uint8_t *header = reply->w.buf;

	if (reply->query->has_edns)
		put_opt(reply);
	if (reply->truncated)
		reply->flags |= FLAG_TC;
	wire_put16(header, reply->query->id);
	wire_put16(header + 2, reply->flags);
	wire_put16(header + 4, reply->query->has_question);
	for (unsigned s = 0; s < SECTION_COUNT; s++)
		wire_put16(header + 6 + 2 * s, reply->counts[s]);
	return reply->w.len;
}

OWN_FRAME static void
record_copy_dedup(
    struct reply *reply, size_t owner, uint16_t type, uint32_t ttl_s, const void *rdata, size_t len)
{
	uint8_t copy[12 + DNAME_MAX];

	memcpy(record_head(copy, owner, type, ttl_s, len), rdata, len);
	record_dedup(reply, copy, 12 + len);
}

void
reply_record(
    struct reply *reply, size_t owner, uint16_t type, uint32_t ttl_s, const void *rdata, size_t len)
{
	if (reply->dedup && len <= DNAME_MAX) {
		record_copy_dedup(reply, owner, type, ttl_s, rdata, len);
		return;
	}
	uint8_t *p = record_reserve(reply, 12 + len);

	if (p != NULL)
		memcpy(record_head(p, owner, type, ttl_s, len), rdata, len);
}

/* --- record sets --- */

/* Copies records [from, to) of an RRset and sets their owner. */
static void
put_records(struct reply *reply, size_t owner, const struct rrset *set, unsigned from, unsigned to)
{
	uint8_t copy[12 + 6 + DNAME_MAX]; /* enough for an SRV record, the longest in the tree */
	const uint8_t *record = set->data;
	size_t len = 12u + wire_get16(record + 10);
	unsigned i = 0;

	/* the records of nearly every set have the same length */
	if (set->len == set->count * len) {
		i = from;
		record += from * len;
	}
	for (; i < to && !reply->full; i++, record += len) {
		len = 12u + wire_get16(record + 10);
		if (i < from)
			continue;
		uint8_t *p = reply->dedup ? copy : record_reserve(reply, len);
		if (p != NULL) {
			memcpy(p, record, len);
			wire_put16(p, 0xc000 | (unsigned)owner);
		}
		if (reply->dedup)
			record_dedup(reply, copy, len);
	}
}

void
reply_rrset(struct reply *reply, size_t owner, const struct rrset *set)
{
	if (set->count == 1 && !reply->dedup) { /* most sets have one record */
		size_t len = 12u + wire_get16(set->data + 10);
		uint8_t *p = record_reserve(reply, len);

		if (p != NULL) {
			memcpy(p, set->data, len);
			wire_put16(p, 0xc000 | (unsigned)owner);
		}
		return;
	}
	unsigned start = reply->rotation % set->count;
	put_records(reply, owner, set, start, set->count);
	put_records(reply, owner, set, 0, start);
}

void
reply_addr(struct reply *reply, size_t owner, uint8_t family, const uint8_t *bytes)
{
	record_addr(reply, owner, family, bytes);
}

/* --- the SOA record --- */

/* Returns the offset of `zone` in the message if the query's name ends in `zone`, otherwise 0. */
static size_t
zone_offset(const struct reply *reply, const struct dname *zone)
{
	const struct query *query = reply->query;

	if (query->qname_len < zone->len ||
	    !name_same_bytes(query->qname + query->qname_len - zone->len, zone->wire, zone->len))
		return 0;
	return DNS_HEADER + (size_t)query->qname_len - zone->len;
}

void
reply_soa(struct reply *reply, size_t owner, uint32_t ttl_s, uint32_t minimum_s)
{
	const struct dname *zone = &reply->config->zone;
	const struct soa soa = { .zone = zone,
		.zone_at = zone_offset(reply, zone),
		.serial = reply->tree->serial,
		.minimum_s = minimum_s };
	size_t len = soa_size(&soa);
	uint8_t *p = record_reserve(reply, 12 + len);

	if (p != NULL)
		soa_write(&soa, record_head(p, owner, TYPE_SOA, ttl_s, len));
}

/* --- records and flags that all stages need --- */

void
reply_denial(struct reply *reply, enum existence existence)
{
	reply->flags |= FLAG_AA | (existence == NXDOMAIN ? RCODE_NXDOMAIN : 0u);
	reply->section = SECTION_AUTHORITY;
}

void
reply_negative(struct reply *reply, enum existence existence, size_t soa_owner, uint32_t ttl_s)
{
	if (existence == NOT_READY) {
		reply->flags |= RCODE_SERVFAIL;
		reply->not_ready = true;
		if (reply_has_reason(reply))
			reply_reason_kind(reply, REASON_NOT_SYNCED);
		return;
	}
	reply_denial(reply, existence);
	reply_soa(reply, soa_owner, ttl_s, ttl_s);
}

void
reply_hinfo(struct reply *reply, size_t owner)
{
	/* CPU is "RFC8482", and OS is empty. The 0 at the end of the literal is the length of OS. */
	static const uint8_t rdata[] = "\7RFC8482";

	reply_record(reply, owner, TYPE_HINFO, reply->config->ttl_s, rdata, sizeof rdata);
}
