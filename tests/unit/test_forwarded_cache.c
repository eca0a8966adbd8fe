/* Which answers of other servers are cached, for how long, and how their TTLs change. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <ldns/ldns.h>

#include "kubedns/serve/upstream/forwarded_cache.h"
#include "lib/hash.h"

static const int64_t start_ns = 1000 * INT64_C(1000000000), second_ns = 1000000000;

static struct forwarded_cache *cache;

static struct forwarded_key
key_of(struct dname *name, const char *text, uint16_t type)
{
	assert_int_equal(dname_from_text(name, text), 0);
	return (struct forwarded_key){ .name = name->wire, .type = type };
}

/* Makes a reply to name/type with these records. A SOA goes into the authority section. All other
 * records go into the answer section. */
static size_t
reply(uint8_t **wire, const char *name, uint16_t type, unsigned rcode, const char *const *records)
{
	ldns_pkt *pkt = ldns_pkt_query_new(ldns_dname_new_frm_str(name), (ldns_rr_type)type,
	    LDNS_RR_CLASS_IN, LDNS_RD | LDNS_QR | LDNS_RA);
	size_t len = 0;

	ldns_pkt_set_rcode(pkt, (uint8_t)rcode);
	for (; *records != NULL; records++) {
		ldns_rr *rr = NULL;

		assert_int_equal(
		    ldns_rr_new_frm_str(&rr, *records, 60, NULL, NULL), LDNS_STATUS_OK);
		bool denial = ldns_rr_get_type(rr) == LDNS_RR_TYPE_SOA;
		ldns_pkt_push_rr(pkt, denial ? LDNS_SECTION_AUTHORITY : LDNS_SECTION_ANSWER, rr);
	}
	assert_int_equal(ldns_pkt2wire(wire, pkt, &len), LDNS_STATUS_OK);
	ldns_pkt_free(pkt);
	return len;
}

static enum answer_kept
put(const char *name, uint16_t type, unsigned rcode, const char *const *records, int64_t now_ns)
{
	struct dname dname;
	uint8_t *wire = NULL;
	const struct forwarded_key key = key_of(&dname, name, type);
	size_t len = reply(&wire, name, type, rcode, records);
	enum answer_kept kept = forwarded_cache_put(cache, &key, wire, len, now_ns);

	free(wire);
	return kept;
}

static size_t
get(const char *name, uint16_t type, int64_t now_ns, uint8_t *out)
{
	struct dname dname;
	const struct forwarded_key key = key_of(&dname, name, type);

	return forwarded_cache_get(cache, &key, now_ns, out);
}

static bool
has(const char *name, uint16_t type, int64_t now_ns)
{
	uint8_t out[FORWARDED_CACHE_SLOT];

	return get(name, type, now_ns, out) > 0;
}

#define SOA(ttl, minimum)                                                                          \
	"example.com. " #ttl " IN SOA ns.example.com. host.example.com. 1 2 3 4 " #minimum

static const char *const one_a[] = { "www.example.com. 300 IN A 192.0.2.1", NULL };

static void
what_is_kept_and_for_how_long(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		uint16_t type;
		unsigned rcode;
		const char *records[4];
		unsigned life_s; /* 0 if it is not cached */
	} rows[] = {
		{ "an address, at most so long", TYPE_A, RCODE_NOERROR,
		    { "www.example.com. 300 IN A 192.0.2.1" }, FORWARDED_CACHE_MAX_S },
		{ "as long as its TTL", TYPE_A, RCODE_NOERROR,
		    { "www.example.com. 2 IN A 192.0.2.1" }, 2 },
		{ "the least TTL of a chain", TYPE_A, RCODE_NOERROR,
		    { "www.example.com. 3 IN CNAME w.example.net.",
			"w.example.net. 300 IN A 192.0.2.1" },
		    3 },
		{ "nothing with a TTL of 0", TYPE_A, RCODE_NOERROR,
		    { "www.example.com. 0 IN A 192.0.2.1" }, 0 },
		{ "nothing with a TTL that is none, RFC 2181 section 8", TYPE_A, RCODE_NOERROR,
		    { "www.example.com. 2147483648 IN A 192.0.2.1" }, 0 },
		{ "NXDOMAIN with its SOA", TYPE_A, RCODE_NXDOMAIN, { SOA(300, 300) },
		    FORWARDED_CACHE_MAX_S },
		{ "NXDOMAIN as long as the SOA says", TYPE_A, RCODE_NXDOMAIN, { SOA(300, 2) }, 2 },
		{ "or the SOA's TTL", TYPE_A, RCODE_NXDOMAIN, { SOA(1, 300) }, 1 },
		{ "NXDOMAIN without an SOA says nothing of how long", TYPE_A, RCODE_NXDOMAIN,
		    { NULL }, 0 },
		{ "an address does not make up for that", TYPE_A, RCODE_NXDOMAIN,
		    { "www.example.com. 300 IN A 192.0.2.1" }, 0 },
		{ "NODATA with its SOA", TYPE_AAAA, RCODE_NOERROR, { SOA(300, 3) }, 3 },
		{ "NODATA after a CNAME", TYPE_AAAA, RCODE_NOERROR,
		    { "www.example.com. 300 IN CNAME w.example.net.", SOA(300, 3) }, 3 },
		{ "not NODATA without", TYPE_AAAA, RCODE_NOERROR, { NULL }, 0 },
		{ "nor a chain that leads nowhere", TYPE_AAAA, RCODE_NOERROR,
		    { "www.example.com. 300 IN CNAME w.example.net." }, 0 },
		{ "the CNAME itself", TYPE_CNAME, RCODE_NOERROR,
		    { "www.example.com. 4 IN CNAME w.example.net." }, 4 },
		{ "no failure", TYPE_A, RCODE_SERVFAIL, { SOA(300, 300) }, 0 },
		{ "no refusal", TYPE_A, RCODE_REFUSED, { SOA(300, 300) }, 0 },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		int64_t life_ns = rows[i].life_s * second_ns;

		cache = forwarded_cache_new(FORWARDED_CACHE_LEAST, HASH_START);
		enum answer_kept kept =
		    put("www.example.com.", rows[i].type, rows[i].rcode, rows[i].records, start_ns);
		if (kept != (life_ns > 0 ? ANSWER_KEPT : ANSWER_NOT_KEPT) ||
		    has("www.example.com.", rows[i].type, start_ns + life_ns) ||
		    has("www.example.com.", rows[i].type, start_ns + life_ns - 1) != (life_ns > 0))
			fail_msg("%s", rows[i].what);
		forwarded_cache_free(cache);
	}
}

static void
ttls_are_less_by_the_age(void **state)
{
	(void)state;
	static const char *const records[] = { "www.example.com. 60 IN CNAME w.example.net.",
		"w.example.net. 300 IN A 192.0.2.1", NULL };
	static const char *const denial[] = { SOA(300, 60), NULL };
	static const struct {
		int64_t age_ns;
		unsigned less_s;
	} rows[] = { { 0, 0 }, { second_ns - 1, 0 }, { second_ns, 1 }, { 5 * second_ns - 1, 4 },
		{ -second_ns, 0 /* another thread read its clock later */ } };
	cache = forwarded_cache_new(FORWARDED_CACHE_LEAST, HASH_START);
	put("www.example.com.", TYPE_A, RCODE_NOERROR, records, start_ns);
	put("none.example.com.", TYPE_A, RCODE_NXDOMAIN, denial, start_ns);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		uint8_t out[FORWARDED_CACHE_SLOT];
		ldns_pkt *pkt = NULL;
		size_t len = get("www.example.com.", TYPE_A, start_ns + rows[i].age_ns, out);

		assert_int_equal(ldns_wire2pkt(&pkt, out, len), LDNS_STATUS_OK);
		const ldns_rr_list *answer = ldns_pkt_answer(pkt);
		assert_int_equal(ldns_rr_ttl(ldns_rr_list_rr(answer, 0)), 60 - rows[i].less_s);
		assert_int_equal(ldns_rr_ttl(ldns_rr_list_rr(answer, 1)), 300 - rows[i].less_s);
		ldns_pkt_free(pkt);
		/* RFC 2308 section 5: the TTL of a SOA in a negative answer starts at the lifetime
		 * of the negative answer. */
		len = get("none.example.com.", TYPE_A, start_ns + rows[i].age_ns, out);
		assert_int_equal(ldns_wire2pkt(&pkt, out, len), LDNS_STATUS_OK);
		assert_int_equal(
		    ldns_rr_ttl(ldns_rr_list_rr(ldns_pkt_authority(pkt), 0)), 60 - rows[i].less_s);
		ldns_pkt_free(pkt);
	}
	forwarded_cache_free(cache);
}

static void
an_answer_is_for_all_that_it_depends_on(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		uint16_t type, flags;
		bool edns_do, hit;
	} rows[] = {
		{ "www.example.com.", TYPE_A, 0, false, true },
		{ "WWW.Example.com.", TYPE_A, 0, false, true },
		{ "www.example.org.", TYPE_A, 0, false, false },
		{ "www.example.com.", TYPE_AAAA, 0, false, false },
		{ "www.example.com.", TYPE_A, FLAG_CD, false, false },
		{ "www.example.com.", TYPE_A, FLAG_AD, false, false },
		{ "www.example.com.", TYPE_A, 0, true, false },
	};
	uint8_t out[FORWARDED_CACHE_SLOT];
	cache = forwarded_cache_new(FORWARDED_CACHE_LEAST, HASH_START);
	put("www.example.com.", TYPE_A, RCODE_NOERROR, one_a, start_ns);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct dname name;
		struct forwarded_key key = key_of(&name, rows[i].name, rows[i].type);

		key.flags = rows[i].flags;
		key.edns_do = rows[i].edns_do;
		assert_int_equal(forwarded_cache_get(cache, &key, start_ns, out) > 0, rows[i].hit);
	}
	forwarded_cache_free(cache);
}

/* With this seed, both names have the same place and the same tag. They were found by trying 24 million names. */
static void
names_with_one_hash_are_told_apart(void **state)
{
	(void)state;
	static const char *const records[] = { "06353c4.example.com. 300 IN A 192.0.2.1", NULL };
	static const char a[] = "\00706353c4\7example\3com\0\0\1",
			  b[] = "\007091afed\7example\3com\0\0\1"; /* name and type */
	uint64_t hashes[] = { hash64(HASH_START, a, sizeof a - 1),
		hash64(HASH_START, b, sizeof b - 1) };
	assert_int_equal((uint32_t)hashes[0], (uint32_t)hashes[1]);
	assert_int_equal(hash_place(hashes[0], 4096), hash_place(hashes[1], 4096));
	cache = forwarded_cache_new(FORWARDED_CACHE_LEAST, HASH_START);
	put("06353c4.example.com.", TYPE_A, RCODE_NOERROR, records, start_ns);
	assert_true(has("06353c4.example.com.", TYPE_A, start_ns));
	assert_false(has("091afed.example.com.", TYPE_A, start_ns));
	forwarded_cache_free(cache);
}

static void
only_plain_queries_are_looked_for(void **state)
{
	(void)state;
	static const struct {
		uint16_t type, udp_size, flags;
		size_t more; /* the length of the EDNS options */
		bool takes;
	} rows[] = {
		{ TYPE_A, 0, FLAG_RD, 0, true },
		{ TYPE_A, 1232, FLAG_RD, 0, true },
		{ TYPE_A, 1232, FLAG_RD, 12, false },
		{ TYPE_A, 0, 0, 0, false },
		{ TYPE_HTTPS, 0, FLAG_RD, 0, true },
		{ TYPE_CAA, 0, FLAG_RD, 0, true },
		{ TYPE_ANY, 0, FLAG_RD, 0, false },
		{ TYPE_AXFR, 0, FLAG_RD, 0, false },
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct dname name;
		struct query query;
		uint8_t wire[512];

		assert_int_equal(dname_from_text(&name, "www.example.com."), 0);
		size_t len = query_write(
		    wire, sizeof wire, 1, name.wire, rows[i].type, CLASS_IN, rows[i].udp_size);
		assert_int_equal(query_read(&query, wire, len), QUERY_OK);
		query.flags = rows[i].flags;
		assert_int_equal(forwarded_cache_takes(&query, len + rows[i].more), rows[i].takes);
	}
}

/* When the configuration changes, cached answers are dropped. Answers in flight at that time are
 * not cached. */
static void
a_flush_drops_all_and_rests(void **state)
{
	(void)state;
	const int64_t rest_ns = FORWARDED_CACHE_REST_MS * (second_ns / 1000);
	cache = forwarded_cache_new(FORWARDED_CACHE_LEAST, HASH_START);
	put("www.example.com.", TYPE_A, RCODE_NOERROR, one_a, start_ns);
	forwarded_cache_flush(cache, start_ns);
	assert_false(has("www.example.com.", TYPE_A, start_ns));
	assert_int_equal(
	    put("www.example.com.", TYPE_A, RCODE_NOERROR, one_a, start_ns + rest_ns - 1),
	    ANSWER_NOT_KEPT);
	assert_int_equal(
	    put("www.example.com.", TYPE_A, RCODE_NOERROR, one_a, start_ns + rest_ns), ANSWER_KEPT);
	assert_true(has("www.example.com.", TYPE_A, start_ns + rest_ns));
	forwarded_cache_free(cache);
}

/* Whatever the number of names, the cache stores only as many as fit. Names that are often looked
 * up stay. */
static void
what_is_used_stays_when_the_cache_is_full(void **state)
{
	(void)state;
	enum { NAMES = 2000 };
	unsigned kept = 0, evicted = 0, popular = 0;
	cache = forwarded_cache_new(FORWARDED_CACHE_LEAST, HASH_START);
	put("www.example.com.", TYPE_A, RCODE_NOERROR, one_a, start_ns);
	for (unsigned i = 0; i < NAMES; i++) {
		char name[64], record[128];

		snprintf(name, sizeof name, "x%u.example.com.", i);
		snprintf(record, sizeof record, "%s 300 IN A 192.0.2.1", name);
		const char *const records[] = { record, NULL };
		evicted += put(name, TYPE_A, RCODE_NOERROR, records, start_ns) == ANSWER_EVICTED;
		popular += (unsigned)has("www.example.com.", TYPE_A, start_ns);
	}
	for (unsigned i = 0; i < NAMES; i++) {
		char name[64];

		snprintf(name, sizeof name, "x%u.example.com.", i);
		kept += (unsigned)has(name, TYPE_A, start_ns);
	}
	assert_int_equal(kept + evicted, NAMES);
	assert_in_range(kept, FORWARDED_CACHE_LEAST / FORWARDED_CACHE_SLOT * 3 / 4,
	    FORWARDED_CACHE_LEAST / FORWARDED_CACHE_SLOT);
	assert_int_equal(popular, NAMES);
	forwarded_cache_free(cache);
}

static void
a_message_with_a_mistake_is_not_kept(void **state)
{
	(void)state;
	struct dname name;
	uint8_t *wire = NULL, changed[512];
	const struct forwarded_key key = key_of(&name, "www.example.com.", TYPE_A);
	size_t len = reply(&wire, "www.example.com.", TYPE_A, RCODE_NOERROR, one_a);
	static const struct {
		const char *what;
		size_t at;
		uint8_t value;
	} rows[] = { { "truncated", 2, 0x83 }, { "a query", 2, 0x01 }, { "two questions", 5, 2 },
		{ "a record too many", 7, 2 }, { "another name", DNS_HEADER + 1, 'x' } };
	cache = forwarded_cache_new(FORWARDED_CACHE_LEAST, HASH_START);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		memcpy(changed, wire, len);
		changed[rows[i].at] = rows[i].value;
		if (forwarded_cache_put(cache, &key, changed, len, start_ns) != ANSWER_NOT_KEPT)
			fail_msg("%s", rows[i].what);
	}
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(
		    forwarded_cache_put(cache, &key, wire, cut, start_ns), ANSWER_NOT_KEPT);
	assert_int_equal(forwarded_cache_put(cache, &key, wire, len, start_ns), ANSWER_KEPT);
	free(wire);
	forwarded_cache_free(cache);
}

/* A message must fit into a slot. Each of its records needs two more bytes, for the offset of its
 * TTL. */
static void
a_message_longer_than_a_slot_is_not_kept(void **state)
{
	(void)state;
	enum { MOST = 40 };
	unsigned longest = 0;
	cache = forwarded_cache_new(FORWARDED_CACHE_LEAST, HASH_START);
	for (unsigned n = 1; n < MOST; n++) {
		char text[MOST][64];
		const char *records[MOST + 1] = { NULL };

		for (unsigned i = 0; i < n; i++) {
			snprintf(
			    text[i], sizeof text[i], "www.example.com. 300 IN A 192.0.2.%u", i);
			records[i] = text[i];
		}
		if (put("www.example.com.", TYPE_A, RCODE_NOERROR, records, start_ns) ==
		    ANSWER_KEPT)
			longest = n;
	}
	assert_in_range(longest, 12, 30);
	forwarded_cache_free(cache);
}

static void
people_are_told_the_age_whatever_the_flags(void **state)
{
	(void)state;
	struct dname name;
	uint8_t *wire = NULL;
	struct forwarded_key key = key_of(&name, "www.example.com.", TYPE_A);
	size_t len = reply(&wire, "www.example.com.", TYPE_A, RCODE_NOERROR, one_a);
	key.flags = FLAG_AD;
	cache = forwarded_cache_new(FORWARDED_CACHE_LEAST, HASH_START);
	forwarded_cache_put(cache, &key, wire, len, start_ns);
	int64_t later_ns = start_ns + 3 * second_ns;
	assert_int_equal(forwarded_cache_age(cache, name.wire, TYPE_A, later_ns), 3);
	assert_int_equal(forwarded_cache_age(cache, name.wire, TYPE_AAAA, later_ns), -1);
	free(wire);
	forwarded_cache_free(cache);
}

/* --- threads --- */

enum { THREADS = 3, ROUNDS = 3000, SHARED_NAMES = 40 };

/* Stores and looks up a few names. The address of each name is its number. Returns the number of
 * hits. */
static void *
use_cache(void *arg)
{
	unsigned *hits = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint8_t wire[512] = { 0 }, out[FORWARDED_CACHE_SLOT];
		uint8_t number = (uint8_t)(i * 7 % SHARED_NAMES);
		struct dname name = { .len = 4, .wire = { 2, 'x', (uint8_t)('a' + number), 0 } };
		const uint8_t record[] = { 0xc0, DNS_HEADER, 0, TYPE_A, 0, CLASS_IN, 0, 0, 1, 0, 0,
			4, 192, 0, 2, number };
		const struct forwarded_key key = { .name = name.wire, .type = TYPE_A };
		size_t len = query_write(wire, sizeof wire, 1, name.wire, TYPE_A, CLASS_IN, 0);

		wire[2] |= 0x80;
		wire[7] = 1;
		memcpy(wire + len, record, sizeof record);
		len += sizeof record;
		int64_t now_ns = start_ns + (int64_t)i * 1000;
		size_t got = forwarded_cache_get(cache, &key, now_ns, out);
		if (got > 0 && (got != len || memcmp(out, wire, len) != 0))
			abort();
		*hits += got > 0;
		forwarded_cache_put(cache, &key, wire, len, now_ns);
		if (i % 1000 == 999)
			forwarded_cache_age(cache, name.wire, TYPE_A, now_ns);
	}
	return NULL;
}

static void
threads_share_it_and_get_whole_answers(void **state)
{
	(void)state;
	pthread_t threads[THREADS];
	unsigned hits[THREADS] = { 0 };
	cache = forwarded_cache_new(FORWARDED_CACHE_LEAST, HASH_START);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use_cache, &hits[i]), 0);
	forwarded_cache_flush(cache, start_ns - FORWARDED_CACHE_REST_MS * (second_ns / 1000));
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_in_range(hits[i], ROUNDS / 2, ROUNDS);
	}
	forwarded_cache_free(cache);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_kept_and_for_how_long),
		cmocka_unit_test(ttls_are_less_by_the_age),
		cmocka_unit_test(an_answer_is_for_all_that_it_depends_on),
		cmocka_unit_test(names_with_one_hash_are_told_apart),
		cmocka_unit_test(only_plain_queries_are_looked_for),
		cmocka_unit_test(a_flush_drops_all_and_rests),
		cmocka_unit_test(what_is_used_stays_when_the_cache_is_full),
		cmocka_unit_test(a_message_with_a_mistake_is_not_kept),
		cmocka_unit_test(a_message_longer_than_a_slot_is_not_kept),
		cmocka_unit_test(threads_share_it_and_get_whole_answers),
		cmocka_unit_test(people_are_told_the_age_whatever_the_flags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
