/*
 * Answers of other servers, kept for a few seconds (--answer-cache): a popular outside name is
 * asked of the resolver once in that time and not for every client.
 *
 *	inflight_start, the next step of a walk -> forwarded_cache_get: as if the server had said it again
 *	inflight_finish, with a server's reply  -> forwarded_cache_put
 *
 *	hash(name, type) -> a set: a lock, and FORWARDED_CACHE_WAYS slots of FORWARDED_CACHE_SLOT bytes,
 *	                    each with one message, its key, and where its TTLs are
 *
 * What is kept is the server's message. A hit passes through answer_forwarded() or answer_chased()
 * as the message did when it came: its records are checked against the zones that are ours now
 * (bailiwick), and it is cut to the client's size. TTLs are less by the answer's age. Names of ours
 * never get here: they are looked for only after answer() has said FORWARD or CHASE.
 *
 * Kept is NOERROR with records of the type, and NXDOMAIN or NODATA with an SOA (RFC 2308 section 5),
 * for the least TTL of the message and at most FORWARDED_CACHE_MAX_S: so long, and no longer, can an
 * answer be older than the resolver's own. Never kept: what is truncated, failed, refused, malformed
 * or longer than a slot, and the types that are questions (ANY, AXFR). A query is looked for only if
 * it is plain: RD, and no EDNS option, for an option may change the answer.
 *
 * forwarded_cache_flush() is for every change of the configuration. The resolver may apply the change a
 * little later than kubedns, and old answers are under way: so nothing is kept for
 * FORWARDED_CACHE_REST_MS after it.
 *
 * One table for all workers, allocated once. No thread waits for another: a set that is locked is
 * passed over as a miss. In a full set the answer that has not been used since the last look at it
 * makes room (CLOCK).
 *
 * The key is all that an answer depends on. What a client may see of the cluster is not part of it:
 * that decides what is looked for, and what another server says of a name is the same for all. If
 * clients come to have servers of their own, that belongs into struct forwarded_key and its hash.
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_FORWARDED_CACHE_H
#define KUBEDNS_SERVE_UPSTREAM_FORWARDED_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/wire.h"

struct forwarded_cache;

enum {
	FORWARDED_CACHE_MAX_S = 5,
	/* More than FORWARD_TIMEOUT_MS, after which no query from before the change is in flight. */
	FORWARDED_CACHE_REST_MS = 5000,
	FORWARDED_CACHE_WAYS = 8,
	FORWARDED_CACHE_SLOT = 512,
	FORWARDED_CACHE_LEAST = 64 * 1024, /* bytes */
};

/* What was asked of the other server. */
struct forwarded_key {
	const uint8_t *name; /* in wire form, in any case */
	uint16_t type;
	uint16_t flags; /* FLAG_CD and FLAG_AD, as in the header */
	bool edns_do;
};

enum answer_kept {
	ANSWER_NOT_KEPT,
	ANSWER_KEPT,
	ANSWER_EVICTED /* kept, in the place of another */
};

/* A cache of at most `bytes`, at least FORWARDED_CACHE_LEAST; its pages are taken as they are written
 * to. `seed` is random: nobody can choose names that meet in one set. */
struct forwarded_cache *forwarded_cache_new(size_t bytes, uint64_t seed);

/* Whether the answer to this query of `query_len` bytes may be kept, and come from what is kept. */
bool forwarded_cache_takes(const struct query *query, size_t query_len);

/* Writes the answer with this key into `out` of FORWARDED_CACHE_SLOT bytes, its TTLs as they are at
 * `now_ns` (monotonic); its length, 0: there is none. */
size_t forwarded_cache_get(
    struct forwarded_cache *cache, const struct forwarded_key *key, int64_t now_ns, uint8_t *out);

/* Keeps a copy of the answer, if it is one of those that are kept. */
enum answer_kept forwarded_cache_put(struct forwarded_cache *cache, const struct forwarded_key *key,
    const uint8_t *wire, size_t len, int64_t now_ns);

/* Drops all. Any thread. */
void forwarded_cache_flush(struct forwarded_cache *cache, int64_t now_ns);

/* For people: seconds since the other server said it, -1 if there is no such answer, whatever the
 * flags. Any thread. */
int forwarded_cache_age(
    struct forwarded_cache *cache, const uint8_t *name, uint16_t type, int64_t now_ns);

/* NULL is fine. No thread may use it any more. */
void forwarded_cache_free(struct forwarded_cache *cache);

#endif
