/*
 * Judges the reply to one query. Pure: no socket, no clock.
 *
 * A datagram is an answer to our query (good, bad or truncated) or a stray. A stray has another ID or another question, or is not a DNS
 * message. After a stray, the sidecar continues to wait for the true answer. The sidecar records why the stray was rejected, because "wrong
 * ID" tells an operator more than "timeout".
 */
#ifndef SIDECAR_PROBES_REPLY_CHECK_H
#define SIDECAR_PROBES_REPLY_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/dname.h"

/* How a query ended. The metrics page has the same order. */
enum cause {
	CAUSE_OK,
	CAUSE_NOT_READY, /* SERVFAIL with EDE 14: kubedns is alive but not synced yet */
	CAUSE_TIMEOUT,
	CAUSE_CONNECTION_REFUSED, /* no process listens at the port */
	CAUSE_UNREACHABLE,        /* any other network error; its errno is in struct dns_exchange */
	CAUSE_MALFORMED,          /* the answer is for another question, or is not a DNS message */
	CAUSE_WRONG_ID,
	CAUSE_NXDOMAIN,
	CAUSE_SERVFAIL,
	CAUSE_REFUSED,    /* the rcode is REFUSED */
	CAUSE_RCODE,      /* the server returned any other rcode */
	CAUSE_NO_RECORDS, /* NOERROR with an empty answer section */
	/* Only tls:// servers have the causes from here on. */
	CAUSE_TLS_WRONG_NAME, /* the certificate does not have the name that the operator wrote */
	CAUSE_TLS_EXPIRED,
	CAUSE_TLS_NOT_YET_VALID,
	CAUSE_TLS_UNKNOWN_CA,
	CAUSE_TLS_CERTIFICATE, /* the certificate is refused for another reason, such as weak keys */
	CAUSE_TLS_HANDSHAKE,   /* the handshake failed; often, the server does not use TLS */
	CAUSE_TLS_STALLED,     /* the connection was open in time, but not the handshake complete */
	CAUSE_TLS_CA_BUNDLE,   /* --upstream-ca cannot be read */
	CAUSE_COUNT,
	CAUSE_PLAIN_COUNT = CAUSE_TLS_WRONG_NAME,
};

struct question {
	uint16_t id;
	uint16_t type, class;
	struct dname name;
};

enum dns_reply_kind {
	DNS_REPLY_STRAY,     /* not the answer, so keep waiting; `cause` says why */
	DNS_REPLY_TRUNCATED, /* repeat the query over TCP */
	DNS_REPLY_DONE,
};

struct dns_reply {
	enum cause cause;
	unsigned rcode;   /* response code, including the upper bits from EDNS */
	unsigned answers; /* number of records in the answer section */
	int ede;          /* info code of RFC 8914; -1 if there is none */
};

/* Judges `len` bytes as the reply to `question`. All sections must be well-formed. */
enum dns_reply_kind dns_reply_read(
    struct dns_reply *reply, const struct question *question, const uint8_t *wire, size_t len);

/* Returns the label of the cause in metrics and JSON: "timeout", "connection_refused", ... */
const char *cause_label(enum cause cause);

/* Writes the cause in words ("" for CAUSE_OK) to `text` of CAUSE_TEXT_MAX bytes, and returns `text`. Uses `rcode` for CAUSE_RCODE. */
enum { CAUSE_TEXT_MAX = 56 };
const char *cause_text(enum cause cause, unsigned rcode, char *text);

/* Whether a liveness probe succeeds. A probe succeeds if the server answered, or if the server is alive and waits for its first sync. */
static inline bool
cause_is_alive(enum cause cause)
{
	return cause == CAUSE_OK || cause == CAUSE_NOT_READY;
}

/* Calls `each` for every string of every TXT record in the answer section (CHAOS statistics). The strings are raw bytes. Returns
 * their number, or -EBADMSG if a record is malformed. */
int dns_reply_strings(const uint8_t *wire, size_t len, const struct question *question,
    void (*each)(void *arg, const uint8_t *string, size_t len), void *arg);

/* Returns the answer section as text, one record per line: "name. 30 A 10.0.0.1". Unknown types have the format of RFC 3597. After `max`
 * records, a line shows the number of further records. Caller frees. */
char *dns_reply_text(const uint8_t *wire, size_t len, unsigned max);

#endif
