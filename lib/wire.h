/*
 * DNS messages (RFC 1035 section 4, EDNS RFC 6891): a reader that trusts nothing and a writer whose
 * first overflow sticks.
 */
#ifndef LIB_WIRE_H
#define LIB_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/dname.h"

enum {
	DNS_HEADER = 12,
	DNS_UDP_MIN = 512,        /* RFC 1035 section 4.2.1: without EDNS */
	DNS_UDP_PAYLOAD = 1232,   /* DNS flag day 2020: no fragments on any common path */
	DNS_UDP_QUERY_MAX = 4096, /* padding and cookies make long queries */
	DNS_TCP_MAX = 65535,
};

enum {
	TYPE_A = 1,
	TYPE_NS = 2,
	TYPE_CNAME = 5,
	TYPE_SOA = 6,
	TYPE_PTR = 12,
	TYPE_HINFO = 13,
	TYPE_MX = 15,
	TYPE_TXT = 16,
	TYPE_AAAA = 28,
	TYPE_SRV = 33,
	TYPE_DS = 43,
	TYPE_OPT = 41,
	TYPE_SVCB = 64,
	TYPE_HTTPS = 65,
	TYPE_TSIG = 250,
	TYPE_IXFR = 251,
	TYPE_AXFR = 252,
	TYPE_ANY = 255,
	TYPE_CAA = 257
};
enum { CLASS_IN = 1, CLASS_CH = 3, CLASS_ANY = 255 };
enum {
	RCODE_NOERROR = 0,
	RCODE_FORMERR = 1,
	RCODE_SERVFAIL = 2,
	RCODE_NXDOMAIN = 3,
	RCODE_NOTIMP = 4,
	RCODE_REFUSED = 5,
	RCODE_NOTAUTH = 9,
	RCODE_BADVERS = 16
};
enum {
	FLAG_QR = 0x8000,
	FLAG_AA = 0x0400,
	FLAG_TC = 0x0200,
	FLAG_RD = 0x0100,
	FLAG_RA = 0x0080,
	FLAG_AD = 0x0020,
	FLAG_CD = 0x0010
};
enum { OPTION_EDE = 15 }; /* of an OPT; its codes: */
enum {
	EDE_OTHER = 0,
	EDE_STALE_ANSWER = 3,
	EDE_CACHED_ERROR = 13,
	EDE_NOT_READY = 14,
	EDE_FILTERED = 17,
	EDE_STALE_NXDOMAIN = 19,
	EDE_NOT_AUTHORITATIVE = 20,
	EDE_NO_REACHABLE_AUTHORITY = 22,
	EDE_NETWORK_ERROR = 23
}; /* RFC 8914 */

/* What a query says, read once. */
struct query {
	uint16_t id;
	uint16_t flags; /* the header's second word, as sent */
	uint16_t qtype, qclass;
	uint8_t opcode;
	bool has_question; /* qname is valid; qtype and qclass are 0 without */
	bool has_edns;
	bool edns_do;
	bool wants_nsid;      /* RFC 5001 */
	bool wants_keepalive; /* RFC 7828; means something over TCP alone */
	uint8_t edns_version;
	uint16_t udp_size;     /* the client's: 512 without EDNS, never less */
	uint16_t question_len; /* bytes of the question section */
	uint8_t qname_len;
	uint8_t label_count;
	uint8_t labels[DNAME_LABELS_MAX]; /* where qname's labels begin */
	uint8_t qname[DNAME_MAX + 8];     /* lower case; padded for hashing by words */
};

enum query_result {
	QUERY_OK,
	QUERY_IGNORE,  /* no ID can be read, or QR is set: send nothing */
	QUERY_FORMERR, /* reply FORMERR; id and flags are valid */
	QUERY_SIGNED,  /* as QUERY_OK; a record is a TSIG (RFC 8945), which nobody has verified */
};

/*
 * Reads a whole message as a query: one question, then at most 8 records, of which one may be an
 * OPT, and nothing after them. Linear in the message's length.
 */
enum query_result query_read(struct query *query, const uint8_t *wire, size_t len);

/* One record of a message, its name expanded. */
struct record {
	struct dname owner;
	uint16_t type, class;
	uint32_t ttl_s;
	const uint8_t *rdata; /* inside the message: names in it may be compressed */
	uint16_t rdata_len;
	size_t offset; /* of the record's first byte */
	size_t end;    /* offset after it */
};

/* Expands the possibly compressed name at `*offset`, which moves behind it. Each pointer must point
 * before all bytes read so far, and there are at most 127. 0 or -EBADMSG. */
int wire_read_name(const uint8_t *wire, size_t len, size_t *offset, struct dname *name);

/* Reads the record at `*offset`, which moves behind it; 0 or -EBADMSG. */
int wire_read_record(const uint8_t *wire, size_t len, size_t *offset, struct record *record);

/* Whether `reply` is a reply to this one question, whose name is not compressed. */
bool wire_replies_to(
    const uint8_t *reply, size_t len, const uint8_t *qname, uint16_t qtype, uint16_t qclass);

static inline uint16_t
wire_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t
wire_get32(const uint8_t *p)
{
	return (uint32_t)wire_get16(p) << 16 | wire_get16(p + 2);
}

static inline void
wire_put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void
wire_put32(uint8_t *p, uint32_t v)
{
	wire_put16(p, v >> 16);
	wire_put16(p + 2, v & 0xffff);
}

/*
 * The reader of replies: iterates over the records of a message, through its three sections. All messages of
 * other servers are read with it. The meaning of a record is left to the caller.
 *
 *	struct reply_walk walk;
 *	if (!reply_walk_begin(&walk, wire, len))
 *		malformed
 *	while ((more = reply_walk_next(&walk)) > 0)
 *		walk.record in walk.section
 *	more < 0: malformed
 *
 * Nothing is copied: the message must stay valid during the walk. The cost is linear in the message's length,
 * with at most 127 pointers for each name (wire_read_name).
 */
enum walk_section { WALK_ANSWER, WALK_AUTHORITY, WALK_ADDITIONAL, WALK_SECTIONS };

struct reply_walk {
	const uint8_t *wire;
	size_t len;
	size_t at;                    /* after what has been read */
	unsigned left[WALK_SECTIONS]; /* records that are still to come, by the header's counts */
	enum walk_section section;    /* of the record */
	struct record record;         /* the last that was read */
};

/* Reads the header and steps over the questions, however many there are; false: malformed. */
bool reply_walk_begin(struct reply_walk *walk, const uint8_t *wire, size_t len);

/* Reads the next record. 1; 0 after the last one; -EBADMSG. */
int reply_walk_next(struct reply_walk *walk);

/* Whether the message ends where its last record does. */
static inline bool
reply_walk_ended(const struct reply_walk *walk)
{
	return walk->at == walk->len;
}

/*
 * The name at the end of the record's RDATA, after `fixed` bytes (CNAME, NS, PTR: 0, MX: 2, SRV:
 * 6), expanded; 0 or -EBADMSG.
 */
int reply_walk_target(const struct reply_walk *walk, size_t fixed, struct dname *target);

/* Writes into a caller's buffer. After the first overflow every further put is a no-op, and
 * `overflow` says so, once, at the end. */
struct writer {
	uint8_t *buf;
	size_t len, max;
	bool overflow;
};

void writer_put(struct writer *w, const void *bytes, size_t len);
void writer_put8(struct writer *w, unsigned v);
void writer_put16(struct writer *w, unsigned v);
void writer_put32(struct writer *w, uint32_t v);

enum { WIRE_OPT_LEN = 11 };

/*
 * An OPT without options (RFC 6891 section 6.1.2), WIRE_OPT_LEN bytes; the header's count is the
 * caller's.
 */
void writer_put_opt(struct writer *w, uint16_t udp_size, bool edns_do);

/*
 * Builds a query: RD set, one question, and with `udp_size` > 0 an OPT. Returns its length; `max`
 * must be at least 300.
 */
size_t query_write(uint8_t *out, size_t max, uint16_t id, const uint8_t *qname, uint16_t qtype,
    uint16_t qclass, uint16_t udp_size);

/* "A", "SRV", or "TYPE65280" in `text` of 12 bytes; returns it. */
const char *type_name(uint16_t type, char *text);

/* The number of a type's name, TYPE123 included (any case), or 0. */
uint16_t type_number(const char *text);

/* "NOERROR", "NXDOMAIN", ..., "RCODE11" in `text` of 12 bytes; returns it. */
const char *rcode_name(unsigned rcode, char *text);

#endif
