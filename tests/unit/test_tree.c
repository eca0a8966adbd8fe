/* Names and their nodes. Names that were added are found, one by one and together. No other names
 * are found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lib/rcu.h"
#include "treecache/treecache_internal.h"

static struct dname
name_of(const char *text)
{
	struct dname name;

	assert_int_equal(dname_from_text(&name, text), 0);
	return name;
}

/* Finds the paths of these names together, and compares them with single lookups. Returns the
 * number of nodes on the paths. */
static unsigned
check_paths(const struct tree *tree, const struct dname *names, unsigned count)
{
	struct tree_path paths[TREE_PATHS_MAX];
	uint8_t wires[TREE_PATHS_MAX][DNAME_MAX + LABEL_PAD],
	    offsets[TREE_PATHS_MAX][DNAME_LABELS_MAX];
	unsigned found = 0;

	for (unsigned i = 0; i < count; i++) {
		/* The bytes after a name must not matter. */
		memset(wires[i], 0xff, sizeof wires[i]);
		memcpy(wires[i], names[i].wire, names[i].len);
		unsigned labels = 0;
		for (unsigned at = 0; wires[i][at] != 0; at += 1u + wires[i][at])
			offsets[i][labels++] = (uint8_t)at;
		paths[i] = (struct tree_path){
			.wire = wires[i], .offsets = offsets[i], .labels = labels, .count = 99
		};
	}
	tree_find_paths(tree, paths, count);
	for (unsigned i = 0; i < count; i++) {
		const struct node *node = tree->root;
		unsigned depth = 0;

		for (; depth < paths[i].labels && depth < TREE_PATH_MAX; depth++) {
			const uint8_t *label = wires[i] + offsets[i][paths[i].labels - 1 - depth];

			if ((node = tree_child(tree, node, label)) == NULL)
				break;
			assert_ptr_equal(paths[i].nodes[depth], node);
		}
		assert_int_equal(paths[i].count, depth);
		found += depth;
	}
	return found;
}

static void
paths_are_what_single_steps_find(void **state)
{
	(void)state;
	enum { SERVICES = 500 };
	struct treecache *cache = treecache_new(8);
	struct dname names[TREE_PATHS_MAX];
	unsigned random = 5, found = 0;
	char text[80];

	for (unsigned i = 0; i < SERVICES; i += 2) {
		snprintf(text, sizeof text, "_p._tcp.svc-%u.ns-%u.svc.", i, i % 40);
		treecache_records(cache, treecache_edit(cache, name_of(text).wire), "12345678", 8);
	}
	for (unsigned round = 0; round < 300; round++) {
		unsigned count = round % (TREE_PATHS_MAX + 1);

		for (unsigned n = 0; n < count; n++) {
			static const char *const forms[] = { "_p._tcp.svc-%u.ns-%u.svc.",
				"svc-%u.ns-%u.svc.", "x.svc-%u.ns-%u.svc.", "a%u.b%u.svc.",
				"svc%.0u%.0u.", "%.0u%.0u.", "c.b.a._p._tcp.svc-%u.ns-%u.svc.",
				"svc-%u.ns-%u." };
			random = random * 1103515245u + 12345u;
			unsigned i = (random >> 8) % SERVICES;
			snprintf(text, sizeof text, forms[(random >> 4) % 8], i, i % 40);
			names[n] = name_of(text);
		}
		found += check_paths(treecache_next(cache), names, count);
	}
	assert_true(found > 10000);
	treecache_free(cache);
}

static void
names_come_and_go_with_their_parents(void **state)
{
	(void)state;
	struct treecache *cache = treecache_new(99);
	enum { NAMES = 3000 };
	static bool there[NAMES];
	char text[64];
	unsigned random = 3;

	for (unsigned step = 0; step < 20 * NAMES; step++) {
		random = random * 1103515245u + 12345u;
		unsigned i = (random >> 8) % NAMES;
		snprintf(text, sizeof text, "_p._tcp.svc-%u.ns-%u.svc.", i, i % 50);
		struct dname name = name_of(text);
		assert_int_equal(tree_find(treecache_next(cache), name.wire) != NULL, there[i]);
		if (there[i]) {
			treecache_clear(cache, treecache_edit(cache, name.wire));
			treecache_prune(cache, name.wire);
		} else {
			treecache_records(cache, treecache_edit(cache, name.wire), "12345678", 8);
		}
		there[i] = !there[i];
		if (step % 7 == 0)
			treecache_publish(cache, step, true);
		if (step % 100 == 0)
			treecache_reclaim(cache);
	}
	for (unsigned i = 0; i < NAMES; i++) {
		snprintf(text, sizeof text, "_p._tcp.svc-%u.ns-%u.svc.", i, i % 50);
		struct dname name = name_of(text);
		if (there[i]) {
			treecache_clear(cache, treecache_edit(cache, name.wire));
			treecache_prune(cache, name.wire);
		}
	}
	assert_null(cache->next.root->children);
	treecache_free(cache);
}

struct visited {
	unsigned count, most;
};

static bool
visit_some(void *arg, const struct node *child)
{
	struct visited *visited = arg;

	(void)child;
	return ++visited->count < visited->most;
}

static void
whoever_looks_at_some_children_is_not_shown_the_others(void **state)
{
	(void)state;
	enum { CHILDREN = 2000 };
	struct treecache *cache = treecache_new(5);
	char text[64];

	for (unsigned i = 0; i < CHILDREN; i++) {
		snprintf(text, sizeof text, "web-%u.svc.", i);
		treecache_records(cache, treecache_edit(cache, name_of(text).wire), "12345678", 8);
	}
	const struct node *parent = tree_find(treecache_next(cache), name_of("svc.").wire);
	static const unsigned mosts[] = { 1, 2, 17, CHILDREN, CHILDREN + 1 };
	for (unsigned i = 0; i < sizeof mosts / sizeof mosts[0]; i++) {
		struct visited visited = { .most = mosts[i] };
		bool all = tree_children_until(parent, visit_some, &visited);

		assert_int_equal(all, mosts[i] > CHILDREN);
		assert_int_equal(visited.count, mosts[i] > CHILDREN ? CHILDREN : mosts[i]);
	}
	treecache_free(cache);
}

static int
by_hash(const void *a, const void *b)
{
	const uint64_t *ha = a, *hb = b;

	return *ha < *hb ? -1 : *ha > *hb;
}

static void
labels_with_one_hash_are_kept_apart(void **state)
{
	(void)state;
	enum { TRIES = 400000 }; /* about 18 pairs of labels have the same 32-bit hash */
	struct treecache *cache = treecache_new(HASH_START);
	uint64_t *hashes = calloc(TRIES, sizeof *hashes);
	unsigned pairs = 0;

	for (unsigned i = 0; i < TRIES; i++) {
		uint8_t label[16] = { 6 };

		snprintf((char *)label + 1, 8, "%06u", i);
		hashes[i] = (uint64_t)label_hash(HASH_START, label, 7) << 32 | i;
	}
	qsort(hashes, TRIES, sizeof *hashes, by_hash);
	for (unsigned i = 0; i + 1 < TRIES; i++) {
		if (hashes[i] >> 32 != hashes[i + 1] >> 32)
			continue;
		char a[16], b[16];
		snprintf(a, sizeof a, "%06u.", (unsigned)hashes[i]);
		snprintf(b, sizeof b, "%06u.", (unsigned)hashes[i + 1]);
		struct dname na = name_of(a), nb = name_of(b);
		treecache_records(cache, treecache_edit(cache, na.wire), "12345678", 8);
		assert_null(tree_find(treecache_next(cache), nb.wire));
		treecache_records(cache, treecache_edit(cache, nb.wire), "12345678", 8);
		assert_non_null(tree_find(treecache_next(cache), na.wire));
		assert_non_null(tree_find(treecache_next(cache), nb.wire));
		struct dname both[] = { na, nb };
		assert_int_equal(check_paths(treecache_next(cache), both, 2), 2);
		treecache_publish(cache, 1, true);
		treecache_clear(cache, treecache_edit(cache, na.wire));
		treecache_prune(cache, na.wire);
		assert_null(tree_find(treecache_next(cache), na.wire));
		assert_non_null(tree_find(treecache_next(cache), nb.wire));
		pairs++;
	}
	assert_true(pairs > 0);
	free(hashes);
	treecache_free(cache);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_are_what_single_steps_find),
		cmocka_unit_test(names_come_and_go_with_their_parents),
		cmocka_unit_test(whoever_looks_at_some_children_is_not_shown_the_others),
		cmocka_unit_test(labels_with_one_hash_are_kept_apart),
	};

	rcu_join();
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	rcu_part();
	return rc;
}
