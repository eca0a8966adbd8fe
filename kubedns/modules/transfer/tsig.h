/*
 * TSIG (RFC 8945). The last record of a message has an HMAC over the message, which is made with a
 * secret that both sides share. Pure.
 *
 *	request   --tsig_read, tsig_verify-->  its MAC
 *	replies   --tsig_sign-->  each is signed over the MAC of the request or of the previous reply
 *
 * MACs are compared in constant time. Truncated MACs are not accepted.
 */
#ifndef KUBEDNS_MODULES_TRANSFER_TSIG_H
#define KUBEDNS_MODULES_TRANSFER_TSIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/dname.h"

enum {
	TSIG_MAC_MAX = 64,
	TSIG_SECRET_MIN = 16, /* bytes */
	TSIG_SECRET_MAX = 256,
	/* The fudge of our own signatures, and the maximum fudge that is accepted (RFC 8945
	 * section 10). */
	TSIG_FUDGE_S = 300,
	TSIG_RECORDS_MAX = 16,
};

enum tsig_algorithm { TSIG_SHA256, TSIG_SHA384, TSIG_SHA512, TSIG_ALGORITHMS };

/* The extended RCODEs that the TSIG itself contains (RFC 8945 section 3). */
enum tsig_error {
	TSIG_NOERROR = 0,
	TSIG_BADSIG = 16,
	TSIG_BADKEY = 17,
	TSIG_BADTIME = 18,
	TSIG_BADTRUNC = 22,
	TSIG_FORMERR = 0x10000, /* not a TSIG error: the reply has rcode FORMERR */
};

struct tsig_key {
	struct dname name; /* lower case */
	enum tsig_algorithm algorithm;
	uint16_t secret_len;
	uint8_t secret[TSIG_SECRET_MAX];
};

/* A TSIG that was read from a message. */
struct tsig {
	size_t offset;               /* offset of the record in the message */
	struct dname key, algorithm; /* lower case */
	uint64_t time_s;
	uint16_t fudge_s, original_id, error;
	uint16_t mac_len, other_len;
	const uint8_t *mac, *other; /* these point into the message */
};

enum tsig_read { TSIG_NONE, TSIG_FOUND, TSIG_MALFORMED };

/* Searches for the TSIG of a message, which must be its last record. A message with more than
 * TSIG_RECORDS_MAX records is malformed. */
enum tsig_read tsig_read(const uint8_t *wire, size_t len, struct tsig *tsig);

/* tsig_algorithm() returns the number of the algorithm with this name (wire format, lower case),
 * or -1. tsig_algorithm_text() returns the name as text. */
int tsig_algorithm(const struct dname *name);
const char *tsig_algorithm_text(enum tsig_algorithm algorithm);

/* Returns the name of a TSIG error, such as "BADKEY". If the value has no name, returns "without
 * an error" or "with an error". */
const char *tsig_error_name(unsigned error);

/* Returns whether the TSIG has the name and the algorithm of this key. */
bool tsig_is_of(const struct tsig *tsig, const struct tsig_key *key);

/* State of a series of messages that are signed with one key. */
struct tsig_chain {
	struct tsig_key key;
	uint8_t mac[TSIG_MAC_MAX]; /* MAC of the previous message */
	/* The length is 0 if there is no previous message. The next message is then a request. */
	uint16_t mac_len;
	/* True after the first reply. The next replies sign fewer fields (RFC 8945 section
	 * 5.3.1). */
	bool later;
};

/*
 * Verifies a message by the TSIG that tsig_read() has found. The TSIG must be of the chain's key.
 * `now_s` is the wall clock. A fudge above TSIG_FUDGE_S counts as TSIG_FUDGE_S. Sets the chain's
 * MAC to the MAC of the message, unless the result is TSIG_BADSIG, TSIG_BADTRUNC or TSIG_FORMERR.
 */
enum tsig_error tsig_verify(
    const uint8_t *wire, const struct tsig *tsig, struct tsig_chain *chain, int64_t now_s);

/*
 * Signs the message of `len` bytes in `wire`, a buffer of `max` bytes. Returns the length with the
 * TSIG, or 0 if the TSIG does not fit. Sets the chain's MAC to the MAC of the message. If the
 * request had TSIG_BADTIME, `bad_time` is the TSIG of the request, else NULL.
 */
size_t tsig_sign(uint8_t *wire, size_t len, size_t max, struct tsig_chain *chain, int64_t now_s,
    const struct tsig *bad_time);

/* Adds a TSIG without a MAC, to reply to a TSIG with an error (RFC 8945 section 5.2). Returns
 * the same as tsig_sign(). */
size_t tsig_put_error(uint8_t *wire, size_t len, size_t max, const struct tsig *request,
    enum tsig_error error, int64_t now_s);

#endif
