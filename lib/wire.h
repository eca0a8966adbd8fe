/*
 * DNS messages (RFC 1035 section 4, EDNS RFC 6891): a reader that trusts nothing, and a writer that
 * ignores everything after its first overflow.
 */
#ifndef LIB_WIRE_H
#define LIB_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/dname.h"

enum {
	DNS_HEADER = 12,
	DNS_UDP_MIN = 512,        /* without EDNS (RFC 1035 section 4.2.1) */
	DNS_UDP_PAYLOAD = 1232,   /* not fragmented on common paths (DNS flag day 2020) */
	DNS_UDP_QUERY_MAX = 4096, /* large, because padding and cookies make queries long */
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
enum { OPTION_EDE = 15 }; /* in an OPT record; its codes: */
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

/* The contents of a query, parsed once. */
struct query {
	uint16_t id;
	uint16_t flags; /* the second word of the header, as sent */
	uint16_t qtype, qclass;
	uint8_t opcode;
	bool has_question; /* qname is valid; without it qtype and qclass are 0 */
	bool has_edns;
	bool edns_do;
	bool wants_nsid;      /* RFC 5001 */
	bool wants_keepalive; /* RFC 7828; only has a meaning over TCP */
	uint8_t edns_version;
	uint16_t udp_size;     /* the client's limit: 512 without EDNS, never less */
	uint16_t question_len; /* size of the question section in bytes */
	uint8_t qname_len;
	uint8_t label_count;
	uint8_t labels[DNAME_LABELS_MAX]; /* offsets of qname's labels */
	uint8_t qname[DNAME_MAX + 8];     /* lower case; padded for hashing by words */
};

enum query_result {
	QUERY_OK,
	QUERY_IGNORE,  /* send nothing, because the header is incomplete or QR is set */
	QUERY_FORMERR, /* reply FORMERR; id and flags are valid */
	QUERY_SIGNED,  /* like QUERY_OK, but a record is a TSIG (RFC 8945), which is not verified
		        * yet */
};

/* Parses a whole message as a query. It must have one question, then at most 8 records, of which
 * one may be an OPT, and no bytes after them. Costs O(length of the message). */
enum query_result query_read(struct query *query, const uint8_t *wire, size_t len);

/* One record of a message, with its name expanded. */
struct record {
	struct dname owner;
	uint16_t type, class;
	uint32_t ttl_s;
	const uint8_t *rdata; /* points into the message, so names in it may be compressed */
	uint16_t rdata_len;
	size_t offset; /* offset of the record's first byte */
	size_t end;    /* offset of the byte after the record */
};

/*
 * Expands the possibly compressed name at `*offset`, and moves `*offset` past it. Each pointer must
 * point before all bytes read so far, and at most 127 pointers are allowed. Returns 0 or -EBADMSG.
 */
int wire_read_name(const uint8_t *wire, size_t len, size_t *offset, struct dname *name);

/* Reads the record at `*offset`, and moves `*offset` past it. Returns 0 or -EBADMSG. */
int wire_read_record(const uint8_t *wire, size_t len, size_t *offset, struct record *record);

/* Whether `reply` is a reply to exactly this question. `qname` must not be compressed. */
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
 * Iterates over the records of a message, through its three sections. All messages from other
 * servers are read with this iterator. The caller interprets the records.
 *
 *	struct reply_walk walk;
 *	if (!reply_walk_begin(&walk, wire, len))
 *		malformed
 *	while ((more = reply_walk_next(&walk)) > 0)
 *		walk.record in walk.section
 *	more < 0: malformed
 *
 * Nothing is copied, so the message must stay valid during the walk. The cost is O(length of the
 * message), with at most 127 pointers for each name (wire_read_name).
 */
enum walk_section { WALK_ANSWER, WALK_AUTHORITY, WALK_ADDITIONAL, WALK_SECTIONS };

struct reply_walk {
	const uint8_t *wire;
	size_t len;
	size_t at;                    /* offset after the last record read */
	unsigned left[WALK_SECTIONS]; /* records still to come, according to the header */
	enum walk_section section;    /* section of `record` */
	struct record record;         /* the last record read */
};

/* Reads the header and skips any number of questions. Returns false if the message is malformed. */
bool reply_walk_begin(struct reply_walk *walk, const uint8_t *wire, size_t len);

/* Reads the next record. Returns 1, 0 after the last record, or -EBADMSG. */
int reply_walk_next(struct reply_walk *walk);

/* Whether the message ends with its last record. */
static inline bool
reply_walk_ended(const struct reply_walk *walk)
{
	return walk->at == walk->len;
}

/* Expands the name at the end of the record's RDATA, after `fixed` bytes (CNAME, NS, PTR: 0, MX: 2,
 * SRV: 6). Returns 0 or -EBADMSG. */
int reply_walk_target(const struct reply_walk *walk, size_t fixed, struct dname *target);

/* A writer into a caller's buffer. After the first overflow, further writes do nothing. The caller
 * checks `overflow` once, at the end. */
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
 * Appends an OPT record without options (RFC 6891 section 6.1.2), WIRE_OPT_LEN bytes. The caller
 * updates the count in the header.
 */
void writer_put_opt(struct writer *w, uint16_t udp_size, bool edns_do);

/*
 * Builds a query with RD set and one question, and with an OPT record if `udp_size` > 0. Returns
 * its length; `max` must be at least 300.
 */
size_t query_write(uint8_t *out, size_t max, uint16_t id, const uint8_t *qname, uint16_t qtype,
    uint16_t qclass, uint16_t udp_size);

/* Writes "A", "SRV" or "TYPE65280" into `text` of 12 bytes; returns it. */
const char *type_name(uint16_t type, char *text);

/* Returns the number of a type, given by name or as TYPE123 (any case). Returns 0 if the type is unknown. */
uint16_t type_number(const char *text);

/* Writes "NOERROR", "NXDOMAIN", ..., "RCODE11" into `text` of 12 bytes; returns it. */
const char *rcode_name(unsigned rcode, char *text);

#endif
