/* --visibility in the store: the namespaces that each namespace sees, from the lists of all
 * namespaces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "kubedns/cluster/store_internal.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/rcu.h"

/* The lists of a Namespace object. A list is NULL if it is missing. */
struct row {
	const char *name;
	struct object_namespace lists;
};

struct bed {
	struct treecache *cache;
	struct store *store;
	struct visibility *now;
};

static void
begin_with(struct bed *bed, bool visible_to_only)
{
	struct store_config config = {
		.records = { .ttl_s = 30 }, .visibility = true, .visible_to_only = visible_to_only
	};

	*bed = (struct bed){ .cache = treecache_new(3) };
	assert_int_equal(dname_from_text(&config.records.zone, "cluster.local."), 0);
	bed->store = store_new(bed->cache, &config);
}

static void
begin(struct bed *bed)
{
	begin_with(bed, false);
}

static void
end(struct bed *bed)
{
	free(bed->now);
	store_free(bed->store);
	treecache_free(bed->cache);
}

static void
tell(struct bed *bed, enum event_type type, const struct row *row)
{
	struct object o = { .kind = OBJECT_NAMESPACE,
		.namespace = "",
		.name = row->name,
		.resource_version = "",
		.visibility = row->lists };

	store_event(bed->store, OBJECT_NAMESPACE, type, &o);
}

/* Returns false if nothing has changed. */
static bool
renew(struct bed *bed)
{
	struct visibility *renewed = store_visibility(bed->store);

	if (renewed == NULL)
		return false;
	free(bed->now);
	bed->now = renewed;
	return true;
}

static uint32_t
number(const struct bed *bed, const char *name)
{
	const struct namespace *found = namespace_find(bed->store, name);

	return found == NULL ? 0 : found->number;
}

/* `seen` has pairs "a b": a pod of the namespace a sees the namespace b. `seen` and `all` end with
 * NULL. */
static void
expect_seen(const struct bed *bed, const char *const *seen, const char *const *all)
{
	for (size_t c = 0; all[c] != NULL; c++)
		for (size_t n = 0; all[n] != NULL; n++) {
			char pair[64];
			bool wanted = c == n;

			snprintf(pair, sizeof pair, "%s %s", all[c], all[n]);
			for (size_t i = 0; seen[i] != NULL; i++)
				wanted |= strcmp(seen[i], pair) == 0;
			if (visibility_sees(bed->now, number(bed, all[c]), number(bed, all[n])) !=
			    wanted)
				fail_msg("%s: %s", pair, wanted ? "seen" : "not seen");
		}
}

#define SEES(text)                                                                                 \
	{                                                                                          \
		.sees = (text)                                                                     \
	}
#define VISIBLE_TO(text)                                                                           \
	{                                                                                          \
		.visible_to = (text)                                                               \
	}

static void
a_list_of_either_namespace_is_enough(void **state)
{
	(void)state;
	static const char *const all[] = { "a", "b", "c", "kube-system", NULL };
	static const struct {
		struct row rows[4];
		const char *seen[12];
	} cases[] = {
		{ { { "a", { 0 } }, { "b", { 0 } }, { "c", { 0 } }, { "kube-system", { 0 } } },
		    { "a kube-system", "b kube-system", "c kube-system" } },
		{ { { "a", SEES("b") }, { "b", { 0 } }, { "c", VISIBLE_TO("b") },
		      { "kube-system", VISIBLE_TO("") } },
		    { "a b", "b c" } },
		{ { { "a", SEES(" b,\tc,,nowhere,b ") }, { "b", { 0 } }, { "c", { 0 } },
		      { "kube-system", VISIBLE_TO("a") } },
		    { "a b", "a c", "a kube-system" } },
		{ { { "a", SEES("*") }, { "b", { 0 } }, { "c", VISIBLE_TO("*") },
		      { "kube-system", VISIBLE_TO("nowhere") } },
		    { "a b", "a c", "a kube-system", "b c", "kube-system c" } },
		{ { { "a", { .sees_label = "b.c" } },
		      { "b", { .visible_to_label = "c_kube-system" } },
		      { "c", { .sees = "a", .sees_label = "b" } },
		      { "kube-system", VISIBLE_TO("b") } },
		    { "a b", "a c", "c b", "kube-system b", "c a", "b kube-system" } },
		/* The words are separated by each separator, and by several in a row. */
		{ { { "a", SEES(" ,.b.,c\n") }, { "b", SEES("a\tc") }, { "c", SEES("a_b\r\n") },
		      { "kube-system", VISIBLE_TO("") } },
		    { "a b", "a c", "b a", "b c", "c a", "c b" } },
		/* An invalid word does not count, even if a part of it is a valid name. The valid
		 * words next to it count. */
		{ { { "a", SEES("B b* *c \"c\" {\"kube-system\"} !b b; **") },
		      { "b", VISIBLE_TO("!c") }, { "c", SEES("a!b,-a b- kube-system") },
		      { "kube-system", VISIBLE_TO("!a,a/b|a") } },
		    { "c kube-system" } },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct bed bed;

		begin(&bed);
		for (size_t r = 0; r < 4; r++)
			tell(&bed, EVENT_ADDED, &cases[i].rows[r]);
		assert_true(renew(&bed));
		expect_seen(&bed, cases[i].seen, all);
		/* An unknown client sees the namespaces that are open to all. */
		for (size_t n = 0; all[n] != NULL; n++)
			assert_int_equal(visibility_sees(bed.now, 0, number(&bed, all[n])),
			    visibility_bit(bed.now->open, number(&bed, all[n])));
		end(&bed);
	}
}

static void
a_table_is_made_when_a_list_or_a_namespace_changes_and_not_before(void **state)
{
	(void)state;
	struct row a = { "a", SEES("b") }, b = { "b", { 0 } };
	struct bed bed;

	begin(&bed);
	assert_true(renew(&bed)); /* the first table */
	assert_non_null(bed.now);
	tell(&bed, EVENT_ADDED, &a);
	assert_true(renew(&bed));
	tell(&bed, EVENT_MODIFIED, &a);
	assert_false(renew(&bed));
	tell(&bed, EVENT_ADDED, &b);
	assert_true(renew(&bed));
	assert_true(visibility_sees(bed.now, number(&bed, "a"), number(&bed, "b")));
	uint32_t was = number(&bed, "b");
	tell(&bed, EVENT_DELETED, &b);
	assert_true(renew(&bed));
	/* Another namespace gets the number of the deleted namespace. That must not make the new
	 * namespace visible. */
	struct row c = { "c", { 0 } };
	tell(&bed, EVENT_ADDED, &c);
	assert_int_equal(number(&bed, "c"), was);
	assert_true(renew(&bed));
	assert_false(visibility_sees(bed.now, number(&bed, "a"), number(&bed, "c")));
	a.lists = (struct object_namespace)SEES("c");
	tell(&bed, EVENT_MODIFIED, &a);
	assert_true(renew(&bed));
	assert_true(visibility_sees(bed.now, number(&bed, "a"), number(&bed, "c")));
	a.lists = (struct object_namespace){ 0 };
	tell(&bed, EVENT_MODIFIED, &a);
	assert_true(renew(&bed));
	assert_false(visibility_sees(bed.now, number(&bed, "a"), number(&bed, "c")));
	end(&bed);
}

/* Returns the log text for a namespace `a` with this list, or "" if there is no log text. The next
 * call overwrites the text. */
static const char *
logged_of(const char *list)
{
	static char said[4096];
	struct row a = { "a", SEES(list) };
	struct bed bed;
	int saved = dup(2), fd = memfd_create("log", 0);

	begin(&bed);
	fflush(stderr);
	dup2(fd, 2);
	tell(&bed, EVENT_ADDED, &a);
	dup2(saved, 2);
	close(saved);
	ssize_t len = pread(fd, said, sizeof said - 1, 0);
	assert_true(len >= 0);
	said[len] = '\0';
	close(fd);
	end(&bed);
	return said;
}

static void
what_is_left_out_of_a_list_is_said(void **state)
{
	(void)state;
	enum { KEPT = 999 };
	static char list[2 * KEPT + 16];

	assert_string_equal(logged_of("b, c.d_*"), "");
	assert_non_null(strstr(logged_of("b !shop %s"),
	    "namespace a: kubedns/sees: \"!shop\": neither a namespace's name nor *: ignored"));
	for (unsigned i = 0; i < KEPT; i++)
		strcat(list, "b,");
	assert_string_equal(logged_of(list), "");
	strcat(list, "c");
	assert_non_null(strstr(logged_of(list), "more than 999 names: the others are ignored"));
}

/* The size of a table is limited, whatever the annotations contain. Namespaces beyond the limit are
 * hidden. */
static void
lists_without_end_are_cut(void **state)
{
	(void)state;
	enum { NAMES = 1500, LONG = 1 << 18 };
	static char list[NAMES * 8], letters[LONG + 1];
	struct row a = { "a", SEES(list) }, b = { "b", SEES(letters) };
	char name[16];
	struct bed bed;

	begin(&bed);
	for (unsigned i = 0; i < NAMES; i++) {
		struct row row = { name, { 0 } };

		snprintf(name, sizeof name, "n-%u", i);
		tell(&bed, EVENT_ADDED, &row);
		strcat(strcat(list, name), ",");
	}
	for (unsigned i = 0; i < LONG; i++)
		letters[i] = i % 2 == 0 ? 'x' : ',';
	tell(&bed, EVENT_ADDED, &a);
	tell(&bed, EVENT_ADDED, &b);
	assert_true(renew(&bed));
	assert_true(visibility_sees(bed.now, number(&bed, "a"), number(&bed, "n-998")));
	assert_false(visibility_sees(bed.now, number(&bed, "a"), number(&bed, "n-999")));
	memset(letters, 'x', LONG);
	tell(&bed, EVENT_MODIFIED, &b);
	assert_true(renew(&bed));
	end(&bed);
}

/* The limit is a million pairs in total. Anybody who can create namespaces can list a million
 * names. That must not truncate the short lists of other namespaces. */
static void
long_lists_of_many_do_not_cut_short_ones(void **state)
{
	(void)state;
	enum { NAMES = 999, LONG = 1100 };
	static char list[NAMES * 8];
	struct row victim = { "victim", SEES("n-1 n-500 n-998") },
		   seen = { "seen", VISIBLE_TO("n-2,victim") };
	char name[16];
	struct bed bed;
	size_t listed, pairs;

	begin(&bed);
	for (unsigned i = 0; i < NAMES; i++) {
		snprintf(name, sizeof name, "n-%u", i);
		strcat(strcat(list, name), ",");
	}
	for (unsigned i = 0; i < LONG; i++) {
		struct row row = { name, { .sees = list, .visible_to = list } };

		snprintf(name, sizeof name, "n-%u", i);
		tell(&bed, EVENT_ADDED, &row);
	}
	tell(&bed, EVENT_ADDED, &victim);
	tell(&bed, EVENT_ADDED, &seen);
	assert_true(renew(&bed));
	assert_true(visibility_sees(bed.now, number(&bed, "victim"), number(&bed, "n-1")));
	assert_true(visibility_sees(bed.now, number(&bed, "victim"), number(&bed, "n-500")));
	assert_true(visibility_sees(bed.now, number(&bed, "victim"), number(&bed, "n-998")));
	assert_true(visibility_sees(bed.now, number(&bed, "n-2"), number(&bed, "seen")));
	assert_true(visibility_sees(bed.now, number(&bed, "victim"), number(&bed, "seen")));
	/* All long lists are truncated to the same length: 909 of their 1,998 names. */
	assert_true(visibility_sees(bed.now, number(&bed, "n-1099"), number(&bed, "n-908")));
	assert_false(visibility_sees(bed.now, number(&bed, "n-1099"), number(&bed, "n-909")));
	store_visibility_size(bed.store, &listed, &pairs);
	assert_int_equal(listed, LONG + 2);
	assert_int_equal(pairs, LONG * 909 + 5);
	end(&bed);
}

/* Anybody who can create a namespace can write the list of namespaces that it sees. The list alone
 * must not make a namespace visible. */
static void
a_namespace_cannot_grant_itself_sight_with_visible_to(void **state)
{
	(void)state;
	struct row rows[] = { { "thief", { .sees = "*", .sees_label = "stock" } },
		{ "stock", VISIBLE_TO("shop") }, { "shop", SEES("stock,open") },
		{ "open", VISIBLE_TO("*") } };
	struct bed bed;

	begin_with(&bed, true);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		tell(&bed, EVENT_ADDED, &rows[i]);
	assert_true(renew(&bed));
	assert_false(visibility_sees(bed.now, number(&bed, "thief"), number(&bed, "stock")));
	assert_false(visibility_sees(bed.now, number(&bed, "thief"), number(&bed, "shop")));
	assert_true(visibility_sees(bed.now, number(&bed, "thief"), number(&bed, "open")));
	assert_true(visibility_sees(bed.now, number(&bed, "shop"), number(&bed, "stock")));
	end(&bed);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_of_either_namespace_is_enough),
		cmocka_unit_test(a_table_is_made_when_a_list_or_a_namespace_changes_and_not_before),
		cmocka_unit_test(what_is_left_out_of_a_list_is_said),
		cmocka_unit_test(lists_without_end_are_cut),
		cmocka_unit_test(long_lists_of_many_do_not_cut_short_ones),
		cmocka_unit_test(a_namespace_cannot_grant_itself_sight_with_visible_to),
	};

	rcu_join();
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	rcu_part();
	return rc;
}
