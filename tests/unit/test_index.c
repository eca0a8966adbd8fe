/* The ordered set of pairs: its order and what is in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "lib/rcu.h"
#include "treecache/internal.h"

static void
an_index_is_in_order_and_a_set(void **state)
{
	(void)state;
	struct treecache *cache = treecache_new(5);
	struct index index = { .key_len = 4 };
	enum { KEYS = 5000 };
	static bool there[KEYS];
	unsigned random = 11, count = 0;

	for (unsigned step = 0; step < 60 * KEYS; step++) {
		random = random * 1103515245u + 12345u;
		unsigned i = (random >> 8) % KEYS;
		uint8_t key[4] = { 0, 0, (uint8_t)(i >> 8), (uint8_t)(i / 4 * 4) };
		bool insert = step < 30 * KEYS ? random % 3 > 0 : random % 3 == 0;
		if (insert)
			assert_int_equal(index_insert(cache, &index, key, i), !there[i]);
		else
			assert_int_equal(index_remove(cache, &index, key, i), there[i]);
		count += (unsigned)(insert - there[i]);
		there[i] = insert;
		if (step % 64 == 0)
			treecache_publish(cache, step, true), treecache_reclaim(cache);
	}
	uint8_t key[4] = { 0 }, last[4] = { 0 };
	uint32_t value = 0, seen = 0;
	while (index_seek(&index, key, &value)) {
		assert_true(there[value]);
		assert_true(memcmp(last, key, 4) <= 0);
		memcpy(last, key, 4);
		seen++;
		value++;
	}
	assert_int_equal(seen, count);
	index_free(&index);
	treecache_free(cache);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_index_is_in_order_and_a_set),
	};

	rcu_join();
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	rcu_part();
	return rc;
}
