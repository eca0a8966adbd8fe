/* The hash of bytes, as a place in a table. Similar inputs are scattered like random numbers, with every seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "kubedns/serve/client.h"
#include "lib/hash.h"

enum { SEEDS = 20000, NEIGHBOURS = 10, PLACES = 20 };

/* Writes input number `i` of a kind and returns its length. The inputs of a kind differ in one byte. */
static size_t
neighbour(unsigned kind, unsigned i, uint8_t bytes[16])
{
	memset(bytes, 0, 16);
	memcpy(bytes + 10, "\377\377\177\1", 4); /* an IPv4 address below 127.1.0.0, mapped */
	switch (kind) {
	case 0:
		bytes[15] = (uint8_t)i;
		return 16;
	case 1:
		bytes[14] = (uint8_t)i;
		return 16;
	default:
		return (size_t)snprintf((char *)bytes, 16, "default/web-%u", i);
	}
}

static void
neighbours_are_scattered(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < 3; kind++) {
		unsigned crowded = 0;

		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			unsigned in[PLACES] = { 0 }, most = 0;

			for (unsigned i = 0; i < NEIGHBOURS; i++) {
				uint8_t bytes[16];
				size_t len = neighbour(kind, i, bytes);
				uint64_t key = seed * UINT64_C(0xd1342543de82ef95);
				size_t place = hash_place(hash64(key, bytes, len), PLACES);

				assert_true(place < PLACES);
				in[place]++;
				most = in[place] > most ? in[place] : most;
			}
			crowded += most >= NEIGHBOURS / 2;
		}
		/* Among random places, five of ten in one place are expected for 27 of 20,000 seeds. */
		assert_in_range(crowded, 0, 60);
	}
}

/* A table with linear probing that is half full, as for the addresses of the pods of a cluster. */
static void
neighbours_need_few_probes(void **state)
{
	enum { ADDRESSES = 1000, CAPACITY = 2048 };

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS / 20; seed++) {
		uint8_t used[CAPACITY] = { 0 };
		unsigned probes = 0;

		for (unsigned i = 0; i < ADDRESSES; i++) {
			const uint8_t addr[4] = { 10, 244, (uint8_t)(i >> 8), (uint8_t)i };
			uint64_t key = seed * UINT64_C(0xd1342543de82ef95);
			uint32_t place = hash_fold(hash64(key, addr, sizeof addr)) % CAPACITY;

			for (probes++; used[place]; probes++)
				place = (place + 1) % CAPACITY;
			used[place] = 1;
		}
		/* 1.5 probes for each address are expected. */
		assert_in_range(probes, ADDRESSES, 2 * ADDRESSES);
	}
}

/* The hashes of 0, 00, 00 01 and so on, with the key 00 01 ... 0f. The fifteen bytes under SipHash-2-4 are the example of the
 * paper's appendix A. The others are from the vectors of the authors' program and of Rust's tests. */
static void
published_vectors(void **state)
{
	static const uint64_t of_2_4[] = { 0x726fdb47dd0e0e31, 0x74f839c593dc67fd,
		0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d, 0xcf2794e0277187b7, 0x18765564cd99a68d,
		0xcbc9466e58fee3ce, 0xab0200f58b01d137, 0x93f5f5799a932462, 0x9e0082df0ba9e4b0,
		0x7a5dbbc594ddb9f3, 0xf4b32f46226bada7, 0x751e8fbc860ee5fb, 0x14ea5627c0843d90,
		0xf723ca908e7af2ee, 0xa129ca6149be45e5, 0x3f2acc7f57c29bdb },
			      of_1_3[] = { 0xabac0158050fc4dc, 0xc9f49bf37d57ca93,
				      0x82cb9b024dc7d44d, 0x8bf80ab8e7ddf7fb, 0xcf75576088d38328,
				      0xdef9d52f49533b67, 0xc50d2b50c59f22a7, 0xd3927d989bb11140,
				      0x369095118d299a8e, 0x25a48eb36c063de4, 0x79de85ee92ff097f,
				      0x70c118c1f94dc352, 0x78a384b157b4d9a2, 0x306f760c1229ffa7,
				      0x605aa111c0f95d34, 0xd320d86d2a519956, 0xcc4fdd1a7d908b66 };
	const uint64_t k0 = UINT64_C(0x0706050403020100), k1 = UINT64_C(0x0f0e0d0c0b0a0908);
	uint8_t bytes[sizeof of_2_4 / sizeof of_2_4[0]];

	(void)state;
	for (size_t len = 0; len < sizeof bytes; len++) {
		assert_true(siphash(k0, k1, bytes, len, 2, 4) == of_2_4[len]);
		assert_true(siphash(k0, k1, bytes, len, 1, 3) == of_1_3[len]);
		bytes[len] = (uint8_t)len;
	}
}

/* Inputs of different lengths need no common hash under any seed, even if zeros follow the shorter one. */
static void
lengths_do_not_collide(void **state)
{
	static const struct {
		const char *a, *b;
		size_t a_len, b_len;
	} pairs[] = {
		{ "a", "b\0", 1, 2 },
		{ "\6abcdef\0\0\1", "\6abcdef\0\1\0", 10, 10 },
		{ "\7abcdef\0\0\1", "\6abcdef\0\1\0", 10, 10 },
		{ "", "\1", 0, 1 },
	};

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
			uint64_t key = seed * UINT64_C(0xd1342543de82ef95);

			assert_true(hash64(key, pairs[i].a, pairs[i].a_len) !=
				    hash64(key, pairs[i].b, pairs[i].b_len));
		}
}

/* These two addresses had the same hash under every key. */
static void
a_client_cannot_choose_the_hash_of_another(void **state)
{
	union client_addr victim = { .in6 = { .sin6_family = AF_INET6 } }, chosen = victim;

	(void)state;
	assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", &victim.in6.sin6_addr), 1);
	assert_int_equal(inet_pton(AF_INET6, "2001:db8:400:80::81", &chosen.in6.sin6_addr), 1);
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t key = seed * UINT64_C(0xd1342543de82ef95);

		assert_int_not_equal(client_hash(&victim.sa, key), client_hash(&chosen.sa, key));
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_vectors),
		cmocka_unit_test(lengths_do_not_collide),
		cmocka_unit_test(a_client_cannot_choose_the_hash_of_another),
		cmocka_unit_test(neighbours_need_few_probes),
		cmocka_unit_test(neighbours_are_scattered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
