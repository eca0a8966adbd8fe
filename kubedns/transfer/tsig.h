/*
 * TSIG (RFC 8945): a message's last record is an HMAC over the message and a secret that both sides
 * have. Pure.
 *
 *	request   --tsig_read, tsig_verify-->  its MAC
 *	replies   --tsig_sign-->  each signed over the MAC before it: the request's, then its own last
 *
 * A MAC is compared in a time that does not depend on it. Only whole MACs are accepted.
 */
#ifndef KUBEDNS_TRANSFER_TSIG_H
#define KUBEDNS_TRANSFER_TSIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/dname.h"

enum {
	TSIG_MAC_MAX = 64,
	TSIG_SECRET_MIN = 16, /* bytes */
	TSIG_SECRET_MAX = 256,
	TSIG_FUDGE_S =
	    300, /* RFC 8945 section 10: what we sign with, and the most that is granted */
	TSIG_RECORDS_MAX = 16,
};

enum tsig_algorithm { TSIG_SHA256, TSIG_SHA384, TSIG_SHA512, TSIG_ALGORITHMS };

/* The extended RCODEs that a TSIG has in itself (RFC 8945 section 3). */
enum tsig_error {
	TSIG_NOERROR = 0,
	TSIG_BADSIG = 16,
	TSIG_BADKEY = 17,
	TSIG_BADTIME = 18,
	TSIG_BADTRUNC = 22,
	TSIG_FORMERR = 0x10000, /* no error of TSIG's: the message is FORMERR */
};

struct tsig_key {
	struct dname name; /* lower case */
	enum tsig_algorithm algorithm;
	uint16_t secret_len;
	uint8_t secret[TSIG_SECRET_MAX];
};

/* A TSIG as it was read. */
struct tsig {
	size_t offset;               /* of the record in the message */
	struct dname key, algorithm; /* lower case */
	uint64_t time_s;
	uint16_t fudge_s, original_id, error;
	uint16_t mac_len, other_len;
	const uint8_t *mac, *other; /* in the message */
};

enum tsig_read { TSIG_NONE, TSIG_FOUND, TSIG_MALFORMED };

/* Looks for the TSIG of a message: its last record, and no other. At most TSIG_RECORDS_MAX records
 * are looked at; a message with more is malformed. */
enum tsig_read tsig_read(const uint8_t *wire, size_t len, struct tsig *tsig);

/* The number of an algorithm's name in wire form, lower case, or -1; and its text. */
int tsig_algorithm(const struct dname *name);
const char *tsig_algorithm_text(enum tsig_algorithm algorithm);

/* "BADKEY" for a TSIG's error; "without an error" or "with an error" where it has no name. */
const char *tsig_error_name(unsigned error);

/* Whether the TSIG is one of this key: its name and its algorithm. */
bool tsig_is_of(const struct tsig *tsig, const struct tsig_key *key);

/* What has been signed with a key so far. */
struct tsig_chain {
	struct tsig_key key;
	uint8_t mac[TSIG_MAC_MAX]; /* of the message before */
	uint16_t mac_len;          /* 0: there is none before, this is a request */
	bool later; /* a reply went before: the next signs less (RFC 8945 section 5.3.1) */
};

/*
 * Verifies a message by the TSIG that tsig_read() has found, which is of the chain's key. `now_s` is the
 * wall clock. A fudge above TSIG_FUDGE_S counts as TSIG_FUDGE_S. The chain's MAC becomes the message's, unless the result is TSIG_BADSIG, TSIG_BADTRUNC or
 * TSIG_FORMERR.
 */
enum tsig_error tsig_verify(
    const uint8_t *wire, const struct tsig *tsig, struct tsig_chain *chain, int64_t now_s);

/*
 * Signs the message of `len` bytes in `wire`, whose room is `max`; returns the length with its TSIG, or
 * 0 if that does not fit. The chain's MAC becomes the message's. `bad_time`: the TSIG of the request that
 * this replies to, if that was TSIG_BADTIME; else NULL.
 */
size_t tsig_sign(uint8_t *wire, size_t len, size_t max, struct tsig_chain *chain, int64_t now_s,
    const struct tsig *bad_time);

/* Adds a TSIG without a MAC, for the reply to one that is in error (RFC 8945 section 5.2). Returns as
 * tsig_sign(). */
size_t tsig_put_error(uint8_t *wire, size_t len, size_t max, const struct tsig *request,
    enum tsig_error error, int64_t now_s);

#endif
