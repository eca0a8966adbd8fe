/*
 * A cache of other servers' answers (--answer-cache). The answers are stored for a few seconds. In
 * that time, a query for a popular external name is sent to the resolver once, and not for every
 * client.
 *
 *	inflight_start, next candidate of a search list -> forwarded_cache_get: as if the server had replied
 *	inflight_finish, with a server's reply          -> forwarded_cache_put
 *
 *	hash(name, type) -> a set: a lock, and FORWARDED_CACHE_WAYS slots of FORWARDED_CACHE_SLOT bytes,
 *	                    each with one message, its key, and the offsets of its TTLs
 *
 * The cache stores the server's message. answer_forwarded() or answer_chased() handles a cache hit
 * like the original message. These functions check its records against our current zones
 * (bailiwick), and truncate the message to the client's size. TTLs are reduced by the answer's age.
 * Our own names are never in the cache, because it is searched only after answer() has returned
 * FORWARD or CHASE.
 *
 * The cache stores NOERROR with records of the type, and NXDOMAIN or NODATA with an SOA (RFC 2308
 * section 5). Such a message is stored for the lowest TTL in it, and for at most
 * FORWARDED_CACHE_MAX_S. An answer can therefore be older than the resolver's answer by at most
 * that time. The cache never stores messages that are truncated, malformed or longer than a slot,
 * other rcodes, and responses to query types such as ANY and AXFR. Of a truncated message, it only
 * remembers for this time that the answer is too long for UDP. The cache is only used for plain
 * queries, which have RD and no EDNS options. An option may change the answer.
 *
 * forwarded_cache_flush() must be called for every change of the configuration. The resolver may
 * apply the change a little later than kubedns, and old answers may be in flight. Nothing is stored
 * for FORWARDED_CACHE_REST_MS after a flush.
 *
 * One table, allocated once, serves all workers. No thread waits for another thread: if a set is
 * locked, the lookup is a miss. In a full set, the victim is an answer that has not been used since
 * it was last considered (CLOCK).
 *
 * The key contains everything on which an answer depends. The client's view of the cluster is not
 * part of the key. The view decides which name is looked up, but another server's answer for a name
 * is the same for all clients. If clients ever get their own servers, the server must become part
 * of struct forwarded_key and its hash.
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
	/* This time is longer than FORWARD_TIMEOUT_MS. All queries that were sent before the
	 * change have then ended. */
	FORWARDED_CACHE_REST_MS = 5000,
	FORWARDED_CACHE_WAYS = 8,
	FORWARDED_CACHE_SLOT = 512,
	FORWARDED_CACHE_LEAST = 64 * 1024, /* bytes */
};

/* The question that was sent to the other server. */
struct forwarded_key {
	const uint8_t *name; /* in wire format, in any case */
	uint16_t type;
	uint16_t flags; /* FLAG_CD and FLAG_AD, as in the header */
	bool edns_do;
};

enum answer_kept {
	ANSWER_NOT_KEPT,
	ANSWER_KEPT,
	ANSWER_EVICTED /* the answer was stored in place of another answer */
};

/* Creates a cache of at most `bytes`, but at least FORWARDED_CACHE_LEAST. Its pages are
 * allocated when they are first written. `seed` must be random, so that nobody can choose names
 * that share a set. */
struct forwarded_cache *forwarded_cache_new(size_t bytes, uint64_t seed);

/* Returns whether the cache may be used for this query of `query_len` bytes, to find its answer
 * and to store it. */
bool forwarded_cache_takes(const struct query *query, size_t query_len);

/* Writes the answer with this key to `out`, which has FORWARDED_CACHE_SLOT bytes, with its TTLs
 * at the time `now_ns` (monotonic). Returns the length of the answer, or 0 if there is none. */
size_t forwarded_cache_get(
    struct forwarded_cache *cache, const struct forwarded_key *key, int64_t now_ns, uint8_t *out);

/* Returns whether the answer with this key was truncated lately. May be wrong, because the table of
 * hashes is small. */
bool forwarded_cache_was_truncated(
    struct forwarded_cache *cache, const struct forwarded_key *key, int64_t now_ns);

/* Stores a copy of the answer, if the answer may be stored. */
enum answer_kept forwarded_cache_put(struct forwarded_cache *cache, const struct forwarded_key *key,
    const uint8_t *wire, size_t len, int64_t now_ns);

/* Removes all answers. Any thread may call it. */
void forwarded_cache_flush(struct forwarded_cache *cache, int64_t now_ns);

/* For display: returns the age of an answer in seconds, whatever its flags, or -1 if there is
 * none. Any thread may call it. */
int forwarded_cache_age(
    struct forwarded_cache *cache, const uint8_t *name, uint16_t type, int64_t now_ns);

/* NULL is fine. No thread may use the cache any more. */
void forwarded_cache_free(struct forwarded_cache *cache);

#endif
