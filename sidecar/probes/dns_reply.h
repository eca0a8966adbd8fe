/*
 * Judges the reply to one question. Pure: no socket, no clock.
 *
 * A datagram is either an answer to our question (good, bad or truncated) or a stray:
 * another ID, another question, or bytes that are no DNS message. A stray is not the end,
 * since the true answer may still come; but it is remembered, because "wrong ID" tells an
 * operator more than "timeout" does.
 */
#ifndef SIDECAR_PROBES_DNS_REPLY_H
#define SIDECAR_PROBES_DNS_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/dname.h"

/* How a question ended. The order is that of the metrics page. */
enum cause {
	CAUSE_OK,
	CAUSE_NOT_READY, /* SERVFAIL with EDE 14: kubedns is alive and has not synced yet */
	CAUSE_TIMEOUT,
	CAUSE_CONNECTION_REFUSED, /* nothing listens there */
	CAUSE_UNREACHABLE,        /* any other error of the network, see detail */
	CAUSE_MALFORMED,          /* not a DNS message, or another question's */
	CAUSE_WRONG_ID,
	CAUSE_NXDOMAIN,
	CAUSE_SERVFAIL,
	CAUSE_REFUSED,    /* rcode REFUSED */
	CAUSE_RCODE,      /* any other rcode */
	CAUSE_NO_RECORDS, /* NOERROR with an empty answer section */
	CAUSE_COUNT,
};

struct question {
	uint16_t id;
	uint16_t type, class;
	struct dname name;
};

enum dns_reply_kind {
	DNS_REPLY_STRAY,     /* keep waiting; `cause` says what was odd */
	DNS_REPLY_TRUNCATED, /* ask again over TCP */
	DNS_REPLY_DONE,
};

struct dns_reply {
	enum cause cause;
	unsigned rcode;   /* with EDNS's upper bits */
	unsigned answers; /* records in the answer section */
	int ede;          /* RFC 8914 info code, -1 without */
};

/* Judges `len` bytes as the reply to `question`; every section is read to its end. */
enum dns_reply_kind dns_reply_read(
    struct dns_reply *reply, const struct question *question, const uint8_t *wire, size_t len);

/* The label of the cause in metrics and JSON: "timeout", "connection_refused", ... */
const char *cause_label(enum cause cause);

/* The cause in words, "" for CAUSE_OK; `rcode` is used for CAUSE_RCODE; into `text` of
 * CAUSE_TEXT_MAX bytes. */
enum { CAUSE_TEXT_MAX = 48 };
const char *cause_text(enum cause cause, unsigned rcode, char *text);

/* Whether a liveness probe may be satisfied: answered, or alive and waiting for its first sync. */
static inline bool
cause_is_alive(enum cause cause)
{
	return cause == CAUSE_OK || cause == CAUSE_NOT_READY;
}

/*
 * Calls `each` for every string of every TXT record that answers `question` (CHAOS statistics).
 * The strings are raw bytes. Returns how many there were, or -EBADMSG when a record does not
 * hold whole strings.
 */
int dns_reply_strings(const uint8_t *wire, size_t len, const struct question *question,
    void (*each)(void *arg, const uint8_t *string, size_t len), void *arg);

/*
 * The answer section as text, one record a line: "name. 30 A 10.0.0.1". Unknown types in the form
 * of RFC 3597. At most `max` records, then a line that says how many more. Caller frees.
 */
char *dns_reply_text(const uint8_t *wire, size_t len, unsigned max);

#endif
