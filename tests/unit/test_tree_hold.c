/* Held snapshots. Their content stays the same, whatever the writer does. It is freed after the
 * snapshots are dropped. These tests also run with sanitizers (make asan), which detect reads of
 * freed memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <string.h>

#include "lib/rcu.h"
#include "treecache/treecache.h"

enum { NAMES = 40 };

static const uint8_t name[] = "\3web\3svc";

/* Writes a record set with one A record. `value` is in the record. */
static void
put(struct treecache *cache, unsigned value)
{
	enum { RECORD = 16 };
	_Alignas(struct rrset) uint8_t bytes[sizeof(struct rrset) + RECORD];
	struct rrset *set = (void *)bytes;

	*set = (struct rrset){ .type = 1, .count = 1, .len = RECORD };
	memcpy(set->data, "\300\14\0\1\0\1\0\0\0\36\0\4", 12);
	memcpy(set->data + 12, &value, 4);
	treecache_records(cache, treecache_edit(cache, name), set, sizeof bytes);
}

static unsigned
value_in(const struct tree *tree)
{
	const struct rrset *set = node_rrset(tree_find(tree, name), 1);
	unsigned value;

	memcpy(&value, set->data + 12, 4);
	return value;
}

static void
publish(struct treecache *cache, unsigned value)
{
	put(cache, value);
	treecache_publish(cache, value, true);
	treecache_reclaim(cache);
}

static void
what_is_held_stays_as_it_was(void **state)
{
	struct treecache *cache = treecache_new(1);
	struct tree_hold *holds[NAMES];

	(void)state;

	for (unsigned i = 0; i < NAMES; i++) {
		publish(cache, 1000 + i);
		holds[i] = treecache_hold(cache);
	}
	publish(cache, 1);
	for (unsigned i = 0; i < NAMES; i++) {
		assert_int_equal(tree_held(holds[i])->serial, 1000 + i);
		assert_int_equal(value_in(tree_held(holds[i])), 1000 + i);
	}
	assert_int_equal(value_in(tree_current(cache)), 1);
	for (unsigned i = 0; i < NAMES; i++)
		tree_hold_drop(holds[i]);
	treecache_free(cache);
}

/* A hold must not change when other holds end, whatever the order. */
static void
those_that_are_left_stay_when_others_are_dropped(void **state)
{
	static const unsigned orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 },
		{ 2, 0, 1 }, { 2, 1, 0 } };

	(void)state;

	for (size_t o = 0; o < 6; o++) {
		struct treecache *cache = treecache_new(o);
		struct tree_hold *holds[3];
		bool held[3] = { true, true, true };

		for (unsigned i = 0; i < 3; i++) {
			publish(cache, 10 * i + 1);
			holds[i] = treecache_hold(cache);
			publish(cache, 10 * i + 2);
			publish(cache, 10 * i + 3);
		}
		for (unsigned i = 0; i < 3; i++) {
			tree_hold_drop(holds[orders[o][i]]);
			held[orders[o][i]] = false;
			publish(cache, 100 + i);
			for (unsigned j = 0; j < 3; j++)
				if (held[j])
					assert_int_equal(value_in(tree_held(holds[j])), 10 * j + 1);
		}
		assert_int_equal(treecache_held(cache), 0);
		treecache_free(cache);
	}
}

static void
what_was_kept_is_garbage_once_the_last_share_is_given_back(void **state)
{
	struct treecache *cache = treecache_new(3);

	(void)state;

	publish(cache, 1);
	struct tree_hold *hold = treecache_hold(cache), *share = tree_hold_share(hold);
	assert_int_equal(treecache_held(cache), 0);
	publish(cache, 2);
	size_t kept = treecache_held(cache);
	assert_true(kept > 0);
	assert_int_equal(treecache_garbage(cache), 0);
	tree_hold_drop(share);
	treecache_reclaim(cache);
	assert_int_equal(treecache_held(cache), kept);
	tree_hold_drop(hold);
	assert_int_equal(treecache_garbage(cache), kept);
	treecache_reclaim(cache);
	assert_int_equal(treecache_garbage(cache), 0);
	assert_int_equal(treecache_held(cache), 0);
	tree_hold_drop(NULL);
	treecache_free(cache);
}

/* A snapshot does not keep blocks that were replaced before it was published. */
static void
nothing_older_is_kept(void **state)
{
	struct treecache *cache = treecache_new(4);

	(void)state;

	publish(cache, 1);
	put(cache, 2);
	treecache_publish(cache, 2, true); /* nothing is freed yet */
	size_t garbage = treecache_garbage(cache);
	assert_true(garbage > 0);
	struct tree_hold *first = treecache_hold(cache);
	put(cache, 3);
	treecache_publish(cache, 3, true);
	struct tree_hold *second = treecache_hold(cache);
	tree_hold_drop(first);
	treecache_reclaim(cache);
	assert_int_equal(treecache_held(cache), 0);
	assert_int_equal(value_in(tree_held(second)), 3);
	tree_hold_drop(second);
	treecache_free(cache);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_held_stays_as_it_was),
		cmocka_unit_test(those_that_are_left_stay_when_others_are_dropped),
		cmocka_unit_test(what_was_kept_is_garbage_once_the_last_share_is_given_back),
		cmocka_unit_test(nothing_older_is_kept),
	};

	rcu_join();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
