/* The ordered set of pairs: its contents, its earlier snapshots, and how full its nodes are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "lib/rcu.h"
#include "treecache/treecache_internal.h"

static void
an_index_is_in_order_and_a_set(void **state)
{
	(void)state;
	struct treecache *cache = treecache_new(5);
	struct pair_btree index = { .key_len = 4 };
	enum { KEYS = 5000 };
	static bool there[KEYS];
	unsigned random = 11, count = 0;

	for (unsigned step = 0; step < 60 * KEYS; step++) {
		random = random * 1103515245u + 12345u;
		unsigned i = (random >> 8) % KEYS;
		uint8_t key[4] = { 0, 0, (uint8_t)(i >> 8), (uint8_t)(i / 4 * 4) };
		bool insert = step < 30 * KEYS ? random % 3 > 0 : random % 3 == 0;
		if (insert)
			assert_int_equal(pair_btree_insert(cache, &index, key, i), !there[i]);
		else
			assert_int_equal(pair_btree_remove(cache, &index, key, i), there[i]);
		count += (unsigned)(insert - there[i]);
		there[i] = insert;
		if (step % 64 == 0)
			treecache_publish(cache, step, true), treecache_reclaim(cache);
	}
	uint8_t key[4] = { 0 }, last[4] = { 0 };
	uint32_t value = 0, seen = 0;
	while (pair_btree_seek(&index, key, &value)) {
		assert_true(there[value]);
		assert_true(memcmp(last, key, 4) <= 0);
		memcpy(last, key, 4);
		seen++;
		value++;
	}
	assert_int_equal(seen, count);
	pair_btree_free(&index);
	treecache_free(cache);
}

static void
put_key(struct treecache *cache, struct pair_btree *index, unsigned i, bool present)
{
	const uint32_t key = htobe32(i);

	if (present)
		assert_true(pair_btree_insert(cache, index, (const uint8_t *)&key, i));
	else
		assert_true(pair_btree_remove(cache, index, (const uint8_t *)&key, i));
}

/* Checks that the index has exactly the expected pairs, in order. */
static void
check_keys(const struct pair_btree *index, const bool *there, unsigned count)
{
	uint8_t key[4] = { 0 };
	uint32_t value = 0;

	for (unsigned i = 0; i < count; i++) {
		if (!there[i])
			continue;
		assert_true(pair_btree_seek(index, key, &value));
		assert_int_equal(value, i);
		value++;
	}
	assert_false(pair_btree_seek(index, key, &value));
}

static void
ranges_go_and_come_back_and_an_older_moment_stays_as_it_was(void **state)
{
	(void)state;
	enum { KEYS = 8000, ROUNDS = 300, RANGE = 2000 };
	struct treecache *cache = treecache_new(5);
	struct pair_btree index = { .key_len = 4 };
	static bool there[KEYS], before[KEYS];
	unsigned random = 3;

	for (unsigned round = 0; round < ROUNDS; round++) {
		const struct pair_btree older = index;

		memcpy(before, there, sizeof there);
		random = random * 1103515245u + 12345u;
		unsigned from = (random >> 8) % KEYS, step = 1 + (random >> 24) % 3;
		bool present = !there[from];
		for (unsigned i = from; i < KEYS && i < from + RANGE; i += step)
			if (there[i] != present)
				put_key(cache, &index, i, there[i] = present);
		check_keys(&index, there, KEYS);
		check_keys(&older, before, KEYS);
		treecache_publish(cache, round, true);
		treecache_reclaim(cache);
	}
	pair_btree_free(&index);
	treecache_free(cache);
}

static void
a_pair_more_among_full_nodes_replaces_its_path_alone(void **state)
{
	(void)state;
	enum { KEYS = 8000, HEIGHT = 3, NODE = 520 };
	struct treecache *cache = treecache_new(5);
	struct pair_btree index = { .key_len = 4 };

	for (unsigned i = 0; i < KEYS; i += 2)
		put_key(cache, &index, i, true);
	treecache_publish(cache, 1, true);
	put_key(cache, &index, KEYS / 2 + 1, true);
	assert_true(cache->fresh.bytes <= HEIGHT * NODE);
	pair_btree_free(&index);
	treecache_free(cache);
}

/* Returns the bytes per pair of an index. The keys are inserted in this order. */
static double
bytes_a_pair(const uint32_t *keys, unsigned count)
{
	struct treecache *cache = treecache_new(5);
	struct pair_btree index = { .key_len = 4 };

	for (unsigned i = 0; i < count; i++)
		put_key(cache, &index, keys[i], true);
	/* The tree is published first. So each node is replaced when the index is emptied. */
	treecache_publish(cache, 1, true);
	for (unsigned i = 0; i < count; i++)
		put_key(cache, &index, keys[i], false);
	assert_null(index.root);
	double bytes = (double)cache->fresh.bytes / count;
	treecache_free(cache);
	return bytes;
}

static void
addresses_that_come_in_ascending_order_fill_their_nodes(void **state)
{
	(void)state;
	enum { KEYS = 40000, RUN = 10 };
	static uint32_t keys[KEYS];
	unsigned random = 1;

	for (unsigned i = 0; i < KEYS; i++)
		keys[i] = i;
	double ascending = bytes_a_pair(keys, KEYS);
	/* The pods are in the order of their names. They belong to two Deployments in turn. The
	 * runs of a Deployment ascend, and the keys of a run are shuffled. */
	for (unsigned i = 0; i < KEYS; i++)
		keys[i] = (i / RUN % 2) << 24 | (i / RUN / 2 * RUN + i * 7 % RUN);
	double runs = bytes_a_pair(keys, KEYS);
	for (unsigned i = KEYS - 1; i > 0; i--) {
		random = random * 1103515245u + 12345u;
		unsigned j = (random >> 8) % (i + 1);
		uint32_t key = keys[i];
		keys[i] = keys[j];
		keys[j] = key;
	}
	double shuffled = bytes_a_pair(keys, KEYS);
	print_message("bytes a pair of 8: %.1f ascending, %.1f in runs, %.1f shuffled\n", ascending,
	    runs, shuffled);
	assert_true(ascending < 9);
	assert_true(runs < 9);
	assert_true(shuffled < 13);
}

static void
the_last_pair_of_all_is_found(void **state)
{
	(void)state;
	struct treecache *cache = treecache_new(5);
	struct pair_btree index = { .key_len = 4 };
	uint8_t last[4] = { 0xff, 0xff, 0xff, 0xff }, key[4];
	uint32_t value;

	for (unsigned i = 0; i < 1000; i++)
		pair_btree_insert(cache, &index, last, UINT32_MAX - i);
	memcpy(key, last, 4);
	value = UINT32_MAX;
	assert_true(pair_btree_seek(&index, key, &value));
	assert_int_equal(value, UINT32_MAX);
	assert_true(pair_btree_remove(cache, &index, last, UINT32_MAX));
	value = UINT32_MAX;
	assert_false(pair_btree_seek(&index, key, &value));
	pair_btree_free(&index);
	treecache_free(cache);
}

/* Some keys have no value, some have one value, some have more values than fit into a leaf. */
static unsigned
values_of(unsigned i)
{
	static const unsigned counts[] = { 1, 0, 2, 200, 1, 61, 62, 63, 0, 1000, 1 };

	return counts[i % (sizeof counts / sizeof counts[0])];
}

static void
check_walks(unsigned key_len)
{
	enum { KEYS = 44, STEP = 3 };
	struct treecache *cache = treecache_new(5);
	struct pair_btree index = { .key_len = key_len };
	uint8_t key[16] = { 10 };
	struct pair_walk walk = { 0 };
	uint32_t value;

	assert_false(pair_btree_next(&index, key, &walk, &value));
	for (unsigned i = 0; i < KEYS; i++) {
		key[key_len - 1] = (uint8_t)i;
		for (unsigned v = 0; v < values_of(i); v++)
			pair_btree_insert(cache, &index, key, UINT32_MAX - v * STEP);
	}
	for (unsigned i = 0; i < KEYS; i++) {
		walk = (struct pair_walk){ 0 };
		key[key_len - 1] = (uint8_t)i;
		for (unsigned v = values_of(i); v-- > 0;) {
			assert_true(pair_btree_next(&index, key, &walk, &value));
			assert_int_equal(value, UINT32_MAX - v * STEP);
		}
		assert_false(pair_btree_next(&index, key, &walk, &value));
		assert_false(pair_btree_next(&index, key, &walk, &value));
	}
	pair_btree_free(&index);
	treecache_free(cache);
}

static void
a_walk_has_each_value_of_its_key_in_order(void **state)
{
	(void)state;
	check_walks(4);
	check_walks(16);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_index_is_in_order_and_a_set),
		cmocka_unit_test(the_last_pair_of_all_is_found),
		cmocka_unit_test(a_walk_has_each_value_of_its_key_in_order),
		cmocka_unit_test(ranges_go_and_come_back_and_an_older_moment_stays_as_it_was),
		cmocka_unit_test(a_pair_more_among_full_nodes_replaces_its_path_alone),
		cmocka_unit_test(addresses_that_come_in_ascending_order_fill_their_nodes),
	};

	rcu_join();
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	rcu_part();
	return rc;
}
