#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/wire.h"

enum {
	OPT_FIXED = 11,
	OPTION_NSID = 3,
	OPTION_TCP_KEEPALIVE = 11,
	/* No query needs more than OPT, TSIG or SIG(0), and the SOA of an IXFR. */
	QUERY_RECORDS_MAX = 8,
	/* The maximum number of labels in a name. A pointer to a pointer adds no label. */
	POINTER_JUMPS_MAX = DNAME_LABELS_MAX,
};

/* Reads the question's name in lower case. The name must not be compressed. Returns its length, or 0. */
static size_t
read_qname(struct query *query, const uint8_t *wire, size_t len)
{
	const uint8_t *name = wire + DNS_HEADER;
	size_t max = len - DNS_HEADER < DNAME_MAX ? len - DNS_HEADER : DNAME_MAX;
	unsigned at = 0, count = 0;

	/* A label is followed at least by the root, so no label starts at the last byte. */
	for (unsigned label; at + 1 < max && (label = name[at]) - 1 < DNAME_LABEL_MAX;
	     at += 1u + label)
		query->labels[count++] = (uint8_t)at;
	if (at >= max || name[at++] != 0) /* no root, or label too long */
		return 0;
	query->label_count = (uint8_t)count;
	query->qname_len = (uint8_t)at;
	memset(query->qname + at, 0, 8);
	memcpy(query->qname, name, at);
	/* Converts whole words; the zero padding does not change. */
	for (unsigned i = 0; i < at; i += 8)
		dname_lower_at(query->qname + i);
	return at;
}

/* Reads the options of the OPT record and uses NSID and TCP keepalive. Returns false if the lengths
 * do not add up. */
static bool
read_options(struct query *query, const uint8_t *options, size_t len)
{
	while (len > 0) {
		if (len < 4)
			return false;
		size_t option_len = wire_get16(options + 2);
		if (option_len > len - 4)
			return false;
		if (wire_get16(options) == OPTION_NSID)
			query->wants_nsid = true;
		if (wire_get16(options) == OPTION_TCP_KEEPALIVE)
			query->wants_keepalive = true;
		options += 4 + option_len;
		len -= 4 + option_len;
	}
	return true;
}

static bool
read_opt(struct query *query, const struct record *record, bool at_root)
{
	if (query->has_edns || !at_root) /* RFC 6891 section 6.1.1: at most one OPT, whose owner is
					  * the root */
		return false;
	query->has_edns = true;
	query->udp_size = record->class < DNS_UDP_MIN ? DNS_UDP_MIN : record->class;
	query->edns_version = (uint8_t)(record->ttl_s >> 16);
	query->edns_do = record->ttl_s & 0x8000;
	return read_options(query, record->rdata, record->rdata_len);
}

/* Reads an OPT record without options. Nearly every client sends such a record, so it does not need
 * the general reader. */
static bool
read_plain_opt(struct query *query, const uint8_t *opt)
{
	struct record record = {
		.class = wire_get16(opt + 3), .ttl_s = wire_get32(opt + 5), .rdata = opt + OPT_FIXED
	};

	return read_opt(query, &record, true);
}

/* Skips a possibly compressed name without expanding it. Returns 0 or -EBADMSG. */
static int
skip_name(const uint8_t *wire, size_t len, size_t *offset)
{
	size_t at = *offset;

	while (at < len && wire[at] != 0 && wire[at] <= DNAME_LABEL_MAX)
		at += 1u + wire[at];
	size_t end = at + (at < len && wire[at] >= 0xc0 ? 2 : 1);
	if (end > len || end - *offset > DNAME_MAX || (wire[at] != 0 && wire[at] < 0xc0))
		return -EBADMSG;
	if (wire[at] != 0) {
		size_t target = wire_get16(wire + at) & 0x3fffu;

		if (target < DNS_HEADER || target >= *offset)
			return -EBADMSG;
	}
	*offset = end;
	return 0;
}

/* Reads a record, starting at its type. */
static int
read_record_behind_owner(const uint8_t *wire, size_t len, size_t *offset, struct record *record)
{
	size_t at = *offset;

	if (len - at < 10)
		return -EBADMSG;
	record->type = wire_get16(wire + at);
	record->class = wire_get16(wire + at + 2);
	record->ttl_s = wire_get32(wire + at + 4);
	record->rdata_len = wire_get16(wire + at + 8);
	at += 10;
	if (record->rdata_len > len - at)
		return -EBADMSG;
	record->rdata = wire + at;
	record->end = *offset = at + record->rdata_len;
	return 0;
}

/* Reads the records after the question. Their owners are skipped rather than expanded, so the cost
 * for untrusted queries is O(length). */
static enum query_result
read_query_records(struct query *query, const uint8_t *wire, size_t len, size_t at, unsigned before,
    unsigned count)
{
	enum query_result result = QUERY_OK;
	struct record record;

	if (count > QUERY_RECORDS_MAX)
		return QUERY_FORMERR;
	for (unsigned i = 0; i < count; i++) {
		size_t owner = at;

		if (skip_name(wire, len, &at) < 0 ||
		    read_record_behind_owner(wire, len, &at, &record) < 0)
			return QUERY_FORMERR;
		if (record.type == TYPE_TSIG)
			result = QUERY_SIGNED;
		if (record.type != TYPE_OPT)
			continue; /* the SOA of an IXFR and a TSIG are checked elsewhere */
		if (i < before || !read_opt(query, &record, wire[owner] == 0))
			return QUERY_FORMERR;
	}
	return at == len ? result : QUERY_FORMERR;
}

enum query_result
query_read(struct query *query, const uint8_t *wire, size_t len)
{
	query->has_question = query->has_edns = query->edns_do = query->wants_nsid = false;
	query->wants_keepalive = false;
	query->edns_version = 0;
	query->udp_size = DNS_UDP_MIN;
	query->question_len = 0;
	query->qtype = query->qclass = 0;
	/* A reply would be up to six times as long, and the address may be forged. */
	if (len < DNS_HEADER)
		return QUERY_IGNORE;
	query->id = wire_get16(wire);
	query->flags = wire_get16(wire + 2);
	query->opcode = query->flags >> 11 & 15;
	if (query->flags & FLAG_QR)
		return QUERY_IGNORE;
	/* Messages with other opcodes have different sections, and get only NOTIMP. */
	if (query->opcode != 0)
		return QUERY_OK;

	unsigned answers = wire_get16(wire + 6), authority = wire_get16(wire + 8);
	unsigned additional = wire_get16(wire + 10);
	size_t name_len;
	if (wire_get16(wire + 4) != 1 || (name_len = read_qname(query, wire, len)) == 0 ||
	    len - DNS_HEADER - name_len < 4)
		return QUERY_FORMERR;
	size_t at = DNS_HEADER + name_len;
	query->qtype = wire_get16(wire + at);
	query->qclass = wire_get16(wire + at + 2);
	at += 4;
	query->question_len = (uint16_t)(name_len + 4);
	query->has_question = true;

	if (answers + authority + additional == 0)
		return at == len ? QUERY_OK : QUERY_FORMERR;
	if (answers == 0 && authority == 0 && additional == 1 && len - at == OPT_FIXED &&
	    wire[at] == 0 && wire_get16(wire + at + 1) == TYPE_OPT &&
	    wire_get16(wire + at + 9) == 0)
		return read_plain_opt(query, wire + at) ? QUERY_OK : QUERY_FORMERR;
	return read_query_records(
	    query, wire, len, at, answers + authority, answers + authority + additional);
}

bool
wire_replies_to(
    const uint8_t *reply, size_t len, const uint8_t *qname, uint16_t qtype, uint16_t qclass)
{
	if (len < DNS_HEADER || (wire_get16(reply + 2) & FLAG_QR) == 0 ||
	    wire_get16(reply + 4) != 1)
		return false;
	size_t name_len = dname_length(reply + DNS_HEADER, len - DNS_HEADER);
	if (name_len == 0 || len - DNS_HEADER - name_len < 4)
		return false;
	const uint8_t *type = reply + DNS_HEADER + name_len;
	return wire_get16(type) == qtype && wire_get16(type + 2) == qclass &&
	       dname_equal(reply + DNS_HEADER, qname);
}

int
wire_read_name(const uint8_t *wire, size_t len, size_t *offset, struct dname *name)
{
	/*
	 * A pointer must point before all bytes read so far, so there are no loops. The labels
	 * there must end before the part of the name that was read last, so bytes that follow
	 * cannot change the name.
	 */
	size_t at = *offset, limit = at, end = len;
	size_t out = 0;
	unsigned jumps = 0;

	for (;;) {
		if (at >= end)
			return -EBADMSG;
		unsigned c = wire[at];
		if (c >= 0xc0) {
			if (at + 1 >= end)
				return -EBADMSG;
			size_t target = (size_t)(c & 0x3f) << 8 | wire[at + 1];
			if (jumps == 0)
				*offset = at + 2;
			/* The header contains no name. */
			if (target < DNS_HEADER || target >= limit || ++jumps > POINTER_JUMPS_MAX)
				return -EBADMSG;
			end = limit;
			at = limit = target;
			continue;
		}
		if (c > DNAME_LABEL_MAX || at + 1 + c > end || out + 1 + c > DNAME_MAX ||
		    (c > 0 && out + 1 + c == DNAME_MAX))
			return -EBADMSG;
		memcpy(name->wire + out, wire + at, 1 + c);
		out += 1 + c;
		at += 1 + c;
		if (c == 0)
			break;
	}
	if (jumps == 0)
		*offset = at;
	name->len = (uint8_t)out;
	return 0;
}

int
wire_read_record(const uint8_t *wire, size_t len, size_t *offset, struct record *record)
{
	size_t at = *offset;

	record->offset = at;
	if (wire_read_name(wire, len, &at, &record->owner) < 0 ||
	    read_record_behind_owner(wire, len, &at, record) < 0)
		return -EBADMSG;
	*offset = at;
	return 0;
}

bool
reply_walk_begin(struct reply_walk *walk, const uint8_t *wire, size_t len)
{
	struct dname name;

	walk->wire = wire;
	walk->len = len;
	walk->at = DNS_HEADER;
	walk->section = WALK_ANSWER;
	if (len < DNS_HEADER)
		return false;
	for (unsigned s = 0; s < WALK_SECTIONS; s++)
		walk->left[s] = wire_get16(wire + 6 + 2 * s);
	for (unsigned questions = wire_get16(wire + 4); questions > 0; questions--) {
		if (wire_read_name(wire, len, &walk->at, &name) < 0 || len - walk->at < 4)
			return false;
		walk->at += 4; /* type and class */
	}
	return true;
}

int
reply_walk_next(struct reply_walk *walk)
{
	while (walk->section < WALK_ADDITIONAL && walk->left[walk->section] == 0)
		walk->section++;
	if (walk->left[walk->section] == 0)
		return 0;
	walk->left[walk->section]--;
	return wire_read_record(walk->wire, walk->len, &walk->at, &walk->record) < 0 ? -EBADMSG : 1;
}

int
reply_walk_target(const struct reply_walk *walk, size_t fixed, struct dname *target)
{
	const struct record *record = &walk->record;
	size_t at = (size_t)(record->rdata - walk->wire) + fixed;

	if (record->rdata_len <= fixed ||
	    wire_read_name(walk->wire, record->end, &at, target) < 0 || at != record->end)
		return -EBADMSG;
	return 0;
}

void
writer_put(struct writer *w, const void *bytes, size_t len)
{
	if (w->overflow || len > w->max - w->len) {
		w->overflow = true;
		return;
	}
	memcpy(w->buf + w->len, bytes, len);
	w->len += len;
}

void
writer_put8(struct writer *w, unsigned v)
{
	uint8_t b = (uint8_t)v;

	writer_put(w, &b, 1);
}

void
writer_put16(struct writer *w, unsigned v)
{
	uint8_t b[2];

	wire_put16(b, v);
	writer_put(w, b, 2);
}

void
writer_put32(struct writer *w, uint32_t v)
{
	uint8_t b[4];

	wire_put32(b, v);
	writer_put(w, b, 4);
}

void
writer_put_opt(struct writer *w, uint16_t udp_size, bool edns_do)
{
	writer_put8(w, 0);
	writer_put16(w, TYPE_OPT);
	writer_put16(w, udp_size);
	writer_put32(w, edns_do ? 0x8000 : 0);
	writer_put16(w, 0);
}

size_t
query_write(uint8_t *out, size_t max, uint16_t id, const uint8_t *qname, uint16_t qtype,
    uint16_t qclass, uint16_t udp_size)
{
	struct writer w = { .buf = out, .max = max };

	writer_put16(&w, id);
	writer_put16(&w, FLAG_RD);
	writer_put16(&w, 1);
	writer_put32(&w, 0);
	writer_put16(&w, udp_size > 0);
	writer_put(&w, qname, dname_length(qname, DNAME_MAX));
	writer_put16(&w, qtype);
	writer_put16(&w, qclass);
	if (udp_size > 0)
		writer_put_opt(&w, udp_size, false);
	return w.overflow ? 0 : w.len;
}

static const struct {
	uint16_t number;
	const char *name;
} types[] = { { TYPE_A, "A" }, { TYPE_NS, "NS" }, { TYPE_CNAME, "CNAME" }, { TYPE_SOA, "SOA" },
	{ TYPE_PTR, "PTR" }, { TYPE_HINFO, "HINFO" }, { 15, "MX" }, { TYPE_TXT, "TXT" },
	{ TYPE_AAAA, "AAAA" }, { TYPE_SRV, "SRV" }, { 35, "NAPTR" }, { TYPE_OPT, "OPT" },
	{ TYPE_DS, "DS" }, { 46, "RRSIG" }, { 47, "NSEC" }, { 48, "DNSKEY" }, { 64, "SVCB" },
	{ TYPE_HTTPS, "HTTPS" }, { TYPE_IXFR, "IXFR" }, { TYPE_AXFR, "AXFR" }, { TYPE_ANY, "ANY" },
	{ TYPE_CAA, "CAA" } };
enum { TYPES_COUNT = sizeof types / sizeof types[0] };

const char *
type_name(uint16_t type, char *text)
{
	for (size_t i = 0; i < TYPES_COUNT; i++)
		if (types[i].number == type)
			return strcpy(text, types[i].name);
	snprintf(text, 12, "TYPE%u", type);
	return text;
}

uint16_t
type_number(const char *text)
{
	char *end;

	for (size_t i = 0; i < TYPES_COUNT; i++)
		if (strcasecmp(types[i].name, text) == 0)
			return types[i].number;
	if (strncasecmp(text, "TYPE", 4) != 0 || text[4] < '0' || text[4] > '9')
		return 0;
	unsigned long number = strtoul(text + 4, &end, 10);
	return *end == '\0' && number <= UINT16_MAX ? (uint16_t)number : 0;
}

const char *
rcode_name(unsigned rcode, char *text)
{
	static const char *const names[] = { [RCODE_NOERROR] = "NOERROR",
		[RCODE_FORMERR] = "FORMERR",
		[RCODE_SERVFAIL] = "SERVFAIL",
		[RCODE_NXDOMAIN] = "NXDOMAIN",
		[RCODE_NOTIMP] = "NOTIMP",
		[RCODE_REFUSED] = "REFUSED",
		[RCODE_NOTAUTH] = "NOTAUTH",
		[RCODE_BADVERS] = "BADVERS" };

	if (rcode < sizeof names / sizeof names[0] && names[rcode] != NULL)
		return strcpy(text, names[rcode]);
	snprintf(text, 12, "RCODE%u", rcode);
	return text;
}
