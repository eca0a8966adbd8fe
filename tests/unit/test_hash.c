/* The hash of bytes, as a place in a table. Similar inputs are scattered like random numbers, with every seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

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

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(neighbours_need_few_probes),
		cmocka_unit_test(neighbours_are_scattered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
