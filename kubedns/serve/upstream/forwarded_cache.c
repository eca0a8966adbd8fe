#include "kubedns/serve/upstream/forwarded_cache.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "lib/hash.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

enum {
	/* Bytes in a slot for the message. The offsets of the message's TTLs are stored at the
	 * end. */
	SLOT_ROOM = FORWARDED_CACHE_SLOT - 32,
	/* Query types that ask for more than one type (RFC 6895 section 3.1). */
	QTYPE_FIRST = 128,
	QTYPE_LAST = 255,
	EDNS_WITHOUT_OPTIONS = 11, /* RFC 6891 section 6.1.2 */
	TRUNCATED_PLACES = 1024,
};
static const int64_t second_ns = 1000 * INT64_C(1000000);

struct slot {
	int64_t kept_ns, until_ns;
	uint32_t generation; /* generation of the cache; if it differs, the answer was flushed */
	uint16_t type, flags;
	uint16_t len;  /* length of the message */
	uint16_t ttls; /* number of TTLs */
	bool edns_do;
	uint8_t bytes[SLOT_ROOM];
};
_Static_assert(sizeof(struct slot) <= FORWARDED_CACHE_SLOT, "a slot's size");

/* The part that a lookup reads first. */
struct set {
	pthread_mutex_t lock;
	uint32_t tags[FORWARDED_CACHE_WAYS]; /* hashes of the slots' keys */
	uint8_t filled;                      /* one bit for each slot that was ever written */
	uint8_t used; /* one bit for each slot that had a hit since the CLOCK hand passed it */
	unsigned hand;
};

struct forwarded_cache {
	uint64_t seed;
	size_t count;
	struct set *sets;
	/* The slots of each set. The memory is not zeroed, so its pages are allocated when they are first written. */
	struct slot (*slots)[FORWARDED_CACHE_WAYS];
	_Atomic(int64_t) rest_until_ns;
	_Atomic(uint32_t) generation;
	/* Truncated answers: the upper half of the key's hash, and the time in seconds until which the entry is valid. */
	_Atomic(uint64_t) truncated[TRUNCATED_PLACES];
};

struct forwarded_cache *
forwarded_cache_new(size_t bytes, uint64_t seed)
{
	assert(bytes >= FORWARDED_CACHE_LEAST);
	struct forwarded_cache *cache = xcalloc(1, sizeof *cache);
	cache->seed = seed;
	cache->count = bytes / (sizeof *cache->sets + sizeof *cache->slots);
	cache->sets = xcalloc(cache->count, sizeof *cache->sets);
	cache->slots = xmalloc(cache->count * sizeof *cache->slots);
	for (size_t i = 0; i < cache->count; i++)
		pthread_mutex_init(&cache->sets[i].lock, NULL);
	return cache;
}

void
forwarded_cache_free(struct forwarded_cache *cache)
{
	if (cache == NULL)
		return;
	for (size_t i = 0; i < cache->count; i++)
		pthread_mutex_destroy(&cache->sets[i].lock);
	free(cache->sets);
	free(cache->slots);
	free(cache);
}

void
forwarded_cache_flush(struct forwarded_cache *cache, int64_t now_ns)
{
	/* The order of these two stores matters. A thread that sees the new generation must also see the pause. */
	atomic_store(&cache->rest_until_ns, now_ns + FORWARDED_CACHE_REST_MS * second_ns / 1000);
	atomic_fetch_add(&cache->generation, 1);
}

/* --- keys and sets --- */

bool
forwarded_cache_takes(const struct query *query, size_t query_len)
{
	size_t plain_len = DNS_HEADER + (size_t)query->question_len +
			   (query->has_edns ? EDNS_WITHOUT_OPTIONS : 0u);

	return (query->flags & FLAG_RD) != 0 && query_len == plain_len &&
	       query->qclass == CLASS_IN && query->qtype != TYPE_OPT &&
	       (query->qtype < QTYPE_FIRST || query->qtype > QTYPE_LAST);
}

/* Hashes only name and type. Answers for the same name and type with different flags are therefore in one set. */
static uint64_t
hash_key(const struct forwarded_cache *cache, const uint8_t *name, uint16_t type)
{
	uint8_t lower[DNAME_MAX + 2];
	size_t len = dname_length(name, DNAME_MAX);

	memcpy(lower, name, len);
	dname_lower(lower, len);
	wire_put16(lower + len, type);
	return hash64(cache->seed, lower, len + 2);
}

static size_t
set_index(const struct forwarded_cache *cache, uint64_t hash)
{
	return hash_place(hash, (uint32_t)cache->count);
}

/* Returns whether the slot has a valid answer. */
static bool
is_good(const struct forwarded_cache *cache, size_t index, unsigned i, uint32_t generation,
    int64_t now_ns)
{
	const struct slot *slot = &cache->slots[index][i];

	return (cache->sets[index].filled & 1u << i) != 0 && slot->generation == generation &&
	       slot->until_ns > now_ns;
}

/* Returns the age in whole seconds. Another thread may have stored the answer, and may have read the clock later than this thread. */
static uint32_t
age_of(const struct slot *slot, int64_t now_ns)
{
	return now_ns > slot->kept_ns ? (uint32_t)((now_ns - slot->kept_ns) / second_ns) : 0;
}

/* Returns the index in the set of an answer for this name and type, or -1 if there is none. If `key` is NULL, the flags do not matter. */
static int
find_slot(const struct forwarded_cache *cache, size_t index, uint32_t tag, const uint8_t *name,
    uint16_t type, const struct forwarded_key *key, int64_t now_ns)
{
	uint32_t generation = atomic_load(&cache->generation);

	for (int i = 0; i < FORWARDED_CACHE_WAYS; i++) {
		const struct slot *slot = &cache->slots[index][i];

		if (cache->sets[index].tags[i] == tag &&
		    is_good(cache, index, (unsigned)i, generation, now_ns) && slot->type == type &&
		    (key == NULL || (slot->flags == key->flags && slot->edns_do == key->edns_do)) &&
		    dname_equal(slot->bytes + DNS_HEADER, name))
			return i;
	}
	return -1;
}

/* --- messages --- */

/* Returns the address at which the offset of the message's TTL number `i` is stored. */
static uint8_t *
ttl_place(struct slot *slot, unsigned i)
{
	return slot->bytes + SLOT_ROOM - 2 * (i + 1);
}

static uint32_t
least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Stores the offset of the record's TTL and sets the TTL. For a negative answer, the TTL is the lower of the SOA's TTL and MINIMUM (RFC
 * 2308 section 5). Returns false if there is no space. */
static bool
note_ttl(struct slot *slot, const struct record *record, uint32_t ttl_s)
{
	/* Offset of the TTL. RDLENGTH and RDATA follow the TTL. */
	size_t at = (size_t)(record->end - record->rdata_len - 6);

	if (slot->len + 2u * (slot->ttls + 1u) > SLOT_ROOM)
		return false;
	wire_put32(slot->bytes + at, ttl_s);
	wire_put16(ttl_place(slot, slot->ttls++), (unsigned)at);
	return true;
}

/* Returns how many seconds the slot's message may be stored, or 0 if it may not be stored. Also stores the offsets of its TTLs. */
static uint32_t
measure(struct slot *slot)
{
	bool denied = (slot->bytes[3] & 15) == RCODE_NXDOMAIN, any = false, soa = false;
	uint32_t life_s = FORWARDED_CACHE_MAX_S;
	struct reply_walk walk;
	int more;

	if (!reply_walk_begin(&walk, slot->bytes, slot->len))
		return 0;
	while ((more = reply_walk_next(&walk)) > 0) {
		const struct record *record = &walk.record;
		uint32_t ttl_s = record->ttl_s;

		if (record->type == TYPE_OPT && ttl_s >> 24 == 0)
			continue;
		if (record->type == TYPE_OPT) /* the upper bits of the rcode are not 0 */
			return 0;
		if (walk.section == WALK_ANSWER)
			any = any || record->type == slot->type;
		if (walk.section == WALK_AUTHORITY && record->type == TYPE_SOA &&
		    record->rdata_len >= 22) {
			soa = true;
			ttl_s = least(ttl_s, wire_get32(record->rdata + record->rdata_len - 4));
		}
		if (ttl_s > INT32_MAX || !note_ttl(slot, record, ttl_s)) /* RFC 2181 section 8 */
			return 0;
		life_s = least(life_s, ttl_s);
	}
	bool complete = any && !denied;
	return more == 0 && (complete || soa) ? life_s : 0;
}

/* --- truncated answers --- */

static uint64_t
truncated_hash(const struct forwarded_cache *cache, const struct forwarded_key *key)
{
	return hash_key(cache, key->name, key->type) ^ key->edns_do;
}

static void
note_truncated(struct forwarded_cache *cache, const struct forwarded_key *key, int64_t now_ns)
{
	uint64_t hash = truncated_hash(cache, key);
	uint32_t until_s = (uint32_t)(now_ns / second_ns) + FORWARDED_CACHE_MAX_S;

	atomic_store(
	    &cache->truncated[hash % TRUNCATED_PLACES], (hash & ~(uint64_t)UINT32_MAX) | until_s);
}

bool
forwarded_cache_was_truncated(
    struct forwarded_cache *cache, const struct forwarded_key *key, int64_t now_ns)
{
	uint64_t hash = truncated_hash(cache, key);
	uint64_t entry = atomic_load(&cache->truncated[hash % TRUNCATED_PLACES]);

	return entry >> 32 == hash >> 32 && (uint32_t)entry > (uint32_t)(now_ns / second_ns);
}

/* --- answers --- */

size_t
forwarded_cache_get(
    struct forwarded_cache *cache, const struct forwarded_key *key, int64_t now_ns, uint8_t *out)
{
	uint64_t hash = hash_key(cache, key->name, key->type);
	size_t index = set_index(cache, hash), len = 0;
	struct set *set = &cache->sets[index];

	if (pthread_mutex_trylock(&set->lock) != 0)
		return 0;
	int i = find_slot(cache, index, (uint32_t)hash, key->name, key->type, key, now_ns);
	if (i >= 0) {
		struct slot *slot = &cache->slots[index][i];
		uint32_t age_s = age_of(slot, now_ns);

		len = slot->len;
		memcpy(out, slot->bytes, len);
		for (unsigned t = 0; t < slot->ttls; t++) {
			uint8_t *ttl = out + wire_get16(ttl_place(slot, t));

			wire_put32(ttl, wire_get32(ttl) - age_s);
		}
		set->used |= (uint8_t)(1u << i);
	}
	pthread_mutex_unlock(&set->lock);
	return len;
}

/* Returns a slot for a new answer. If possible, the slot has no valid answer. Otherwise it is a slot that was not used recently. */
static unsigned
choose_slot(struct forwarded_cache *cache, size_t index, uint32_t generation, int64_t now_ns)
{
	struct set *set = &cache->sets[index];

	for (unsigned i = 0; i < FORWARDED_CACHE_WAYS; i++)
		if (!is_good(cache, index, i, generation, now_ns))
			return i;
	while ((set->used & 1u << set->hand) != 0) {
		set->used &= (uint8_t) ~(1u << set->hand);
		set->hand = (set->hand + 1) % FORWARDED_CACHE_WAYS;
	}
	unsigned i = set->hand;
	set->hand = (set->hand + 1) % FORWARDED_CACHE_WAYS;
	return i;
}

/* Writes the message into a slot. Returns false if the message may not be stored. */
static bool
fill_slot(struct slot *slot, const struct forwarded_key *key, const uint8_t *wire, size_t len,
    int64_t now_ns)
{
	unsigned rcode = len >= DNS_HEADER ? wire[3] & 15u : RCODE_SERVFAIL;

	if (len > SLOT_ROOM || (rcode != RCODE_NOERROR && rcode != RCODE_NXDOMAIN) ||
	    (wire_get16(wire + 2) & FLAG_TC) != 0 ||
	    !wire_replies_to(wire, len, key->name, key->type, CLASS_IN))
		return false;
	*slot = (struct slot){ .kept_ns = now_ns,
		.type = key->type,
		.flags = key->flags,
		.edns_do = key->edns_do,
		.len = (uint16_t)len };
	memcpy(slot->bytes, wire, len);
	uint32_t life_s = measure(slot);
	slot->until_ns = now_ns + life_s * second_ns;
	return life_s > 0;
}

enum answer_kept
forwarded_cache_put(struct forwarded_cache *cache, const struct forwarded_key *key,
    const uint8_t *wire, size_t len, int64_t now_ns)
{
	enum answer_kept kept = ANSWER_KEPT;
	struct slot slot;

	if (len >= DNS_HEADER && (wire_get16(wire + 2) & FLAG_TC) != 0) {
		note_truncated(cache, key, now_ns);
		return ANSWER_NOT_KEPT;
	}
	uint32_t generation = atomic_load(&cache->generation);
	if (now_ns < atomic_load(&cache->rest_until_ns) ||
	    !fill_slot(&slot, key, wire, len, now_ns))
		return ANSWER_NOT_KEPT;
	slot.generation = generation;
	uint64_t hash = hash_key(cache, key->name, key->type);
	size_t index = set_index(cache, hash);
	struct set *set = &cache->sets[index];
	if (pthread_mutex_trylock(&set->lock) != 0)
		return ANSWER_NOT_KEPT;
	int found = find_slot(cache, index, (uint32_t)hash, key->name, key->type, key, now_ns);
	unsigned i = (unsigned)found;
	if (found < 0) {
		i = choose_slot(cache, index, generation, now_ns);
		if (is_good(cache, index, i, generation, now_ns))
			kept = ANSWER_EVICTED;
		set->used &= (uint8_t) ~(1u << i);
	}
	cache->slots[index][i] = slot;
	set->tags[i] = (uint32_t)hash;
	set->filled |= (uint8_t)(1u << i);
	pthread_mutex_unlock(&set->lock);
	return kept;
}

int
forwarded_cache_age(
    struct forwarded_cache *cache, const uint8_t *name, uint16_t type, int64_t now_ns)
{
	uint64_t hash = hash_key(cache, name, type);
	size_t index = set_index(cache, hash);
	struct set *set = &cache->sets[index];
	int age_s = -1;

	if (pthread_mutex_trylock(&set->lock) != 0)
		return -1;
	int i = find_slot(cache, index, (uint32_t)hash, name, type, NULL, now_ns);
	if (i >= 0)
		age_s = (int)age_of(&cache->slots[index][i], now_ns);
	pthread_mutex_unlock(&set->lock);
	return age_s;
}
