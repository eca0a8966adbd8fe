#include <string.h>

#include "kubedns/answer/reply_internal.h"
#include "kubedns/answer/soa.h"
#include "lib/hash.h"
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
	return reply->query->has_edns ? len + 6 /* room for an EDE */ : 0;
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
	memset(reply, 0, offsetof(struct reply, reason));
	reply->w.buf = request->out;
	reply->config = request->config;
	reply->tree = request->tree;
	reply->rotation = request->rotation;
	reply->thread = request->thread;
	reply->query = query;
	reply->ordered = request->config->nearest | request->config->udp_subset;
	reply->tcp = request->tcp;
	reply->ede = -1;
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
	reason_text(reason, reply->reason);
	reply->ede_text = reply->reason;
}

void
reply_reason_kind(struct reply *reply, enum reason_kind kind)
{
	const struct reason reason = { .kind = kind, .zone = &reply->config->zone };

	reply_reason(reply, &reason);
}

/* Writes an extended error: without its text if that does not fit, not at all if nothing fits. */
static void
put_ede(struct writer *w, int code, const char *text)
{
	size_t len = text == NULL ? 0 : strlen(text), room = w->max - w->len;

	if (room < 6)
		return;
	if (6 + len > room)
		len = 0;
	writer_put16(w, OPTION_EDE);
	writer_put16(w, (unsigned)(2 + len));
	writer_put16(w, (unsigned)code);
	if (len > 0)
		writer_put(w, text, len);
}

/* Since when authoritative answers may be stale; 0: they are not, or this answer is not ours. */
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

/* What an OPT carries besides its fixed part; not what most queries ask for. */
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

	if (reply->size - w->len < OPT_FIXED) /* less room than any client has */
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
record_copy_once(
    struct reply *reply, size_t owner, uint16_t type, uint32_t ttl_s, const void *rdata, size_t len)
{
	uint8_t copy[12 + DNAME_MAX];

	memcpy(record_head(copy, owner, type, ttl_s, len), rdata, len);
	record_once(reply, copy, 12 + len);
}

void
reply_record(
    struct reply *reply, size_t owner, uint16_t type, uint32_t ttl_s, const void *rdata, size_t len)
{
	if (reply->once && len <= DNAME_MAX) {
		record_copy_once(reply, owner, type, ttl_s, rdata, len);
		return;
	}
	uint8_t *p = record_room(reply, 12 + len);

	if (p != NULL)
		memcpy(record_head(p, owner, type, ttl_s, len), rdata, len);
}

/* --- records that may come twice --- */

/* The table's place for a part of the message with these bytes; 0 there: it is not in it. */
static uint16_t *
table_find(struct reply *reply, const uint8_t *bytes, size_t len)
{
	struct record_table *table = reply->table;
	const struct writer *w = &reply->w;

	if (table->mask == 0) {
		uint32_t size = 64;

		while (size < 2 * (w->max - w->len) / 16)
			size *= 2;
		memset(table->offsets, 0, size * sizeof table->offsets[0]);
		table->mask = size - 1;
	}
	uint32_t i = hash_fold(hash64(reply->tree->seed, bytes, len)) & table->mask;
	for (; table->offsets[i] != 0; i = (i + 1) & table->mask) {
		size_t at = table->offsets[i];

		if (len <= w->len - at && memcmp(w->buf + at, bytes, len) == 0)
			break;
	}
	return &table->offsets[i];
}

void
record_once(struct reply *reply, const uint8_t *record, size_t len)
{
	uint16_t *offset = table_find(reply, record, len);
	uint8_t *p = *offset != 0 ? NULL : record_room(reply, len);

	if (p == NULL)
		return;
	memcpy(p, record, len);
	*offset = (uint16_t)(p - reply->w.buf);
}

bool
record_known(struct reply *reply, const uint8_t *bytes, size_t len)
{
	return *table_find(reply, bytes, len) != 0;
}

bool
record_name_is_new(struct reply *reply, size_t at, size_t len)
{
	uint16_t *offset = table_find(reply, reply->w.buf + at, len);

	if (*offset != 0)
		return false;
	*offset = (uint16_t)at;
	return true;
}

/* --- record sets --- */

/* Copies records [from, to) of a set, its owner put right. */
static void
put_records(struct reply *reply, size_t owner, const struct rrset *set, unsigned from, unsigned to)
{
	uint8_t copy[12 + 6 + DNAME_MAX]; /* an SRV; of what is in the tree nothing is longer */
	const uint8_t *record = set->data;
	size_t len = 12u + wire_get16(record + 10);
	unsigned i = 0;

	if (set->len == set->count * len) { /* of one length, as nearly always */
		i = from;
		record += from * len;
	}
	for (; i < to && !reply->full; i++, record += len) {
		len = 12u + wire_get16(record + 10);
		if (i < from)
			continue;
		uint8_t *p = reply->once ? copy : record_room(reply, len);
		if (p != NULL) {
			memcpy(p, record, len);
			wire_put16(p, 0xc000 | (unsigned)owner);
		}
		if (reply->once)
			record_once(reply, copy, len);
	}
}

void
reply_rrset(struct reply *reply, size_t owner, const struct rrset *set)
{
	if (set->count == 1 && !reply->once) { /* most sets */
		size_t len = 12u + wire_get16(set->data + 10);
		uint8_t *p = record_room(reply, len);

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

/* --- SOA --- */

/* Offset of `zone` in the question, which ends in it, or 0. */
static size_t
zone_offset(const struct reply *reply, const struct dname *zone)
{
	const struct query *query = reply->query;

	if (query->qname_len < zone->len ||
	    memcmp(query->qname + query->qname_len - zone->len, zone->wire, zone->len) != 0)
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
	uint8_t *p = record_room(reply, 12 + len);

	if (p != NULL)
		soa_write(&soa, record_head(p, owner, TYPE_SOA, ttl_s, len));
}

/* --- what every stage writes --- */

void
reply_negative(struct reply *reply, enum existence existence, size_t soa_owner, uint32_t ttl_s)
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

void
reply_hinfo(struct reply *reply, size_t owner)
{
	static const uint8_t rdata[] =
	    "\7RFC8482"; /* CPU "RFC8482", OS "": the literal's NUL is its length */

	reply_record(reply, owner, TYPE_HINFO, reply->config->ttl_s, rdata, sizeof rdata);
}
