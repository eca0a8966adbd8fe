/* Random changes of a cluster, and what they are as records: what was before, without what went and
 * with what came, is what is after, in each zone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/answer/zone_diff.h"
#include "lib/xalloc.h"
#include "tests/unit/answer_bed.h"

enum { STEPS = 1500, LINES_MAX = 4000 };

struct lines {
	char *items[LINES_MAX];
	size_t count;
};

static struct lines before[2], after[2];
static size_t told;

static char *
line_of(const struct zone_record *record)
{
	char name[DNAME_TEXT_MAX];
	char *line = xmalloc(DNAME_TEXT_MAX + 32 + 2 * (size_t)record->len);
	int at = sprintf(line, "%s %u %u ", dname_to_text(record->owner->wire, name), record->type,
	    record->ttl_s);

	for (unsigned i = 0; i < record->len; i++)
		at += sprintf(line + at, "%02x", record->rdata[i]);
	return line;
}

static bool
add(void *arg, const struct zone_record *record)
{
	struct lines *lines = arg;

	assert_true(lines->count < LINES_MAX);
	if (record->type != TYPE_SOA)
		lines->items[lines->count++] = line_of(record);
	return true;
}

static bool
apply(void *arg, size_t zone, bool added, const struct zone_record *record)
{
	struct lines *lines = &before[zone];
	char *line = line_of(record);
	size_t i = 0;

	(void)arg;
	told++;
	while (i < lines->count && strcmp(lines->items[i], line) != 0)
		i++;
	if (added) {
		if (i < lines->count)
			fail_msg("came twice: %s", line);
		lines->items[lines->count++] = line;
		return true;
	}
	if (i == lines->count)
		fail_msg("went, and was not there: %s", line);
	free(line);
	free(lines->items[i]);
	lines->items[i] = lines->items[--lines->count];
	return true;
}

static int
by_text(const void *a, const void *b)
{
	char *const *ta = a, *const *tb = b;

	return strcmp(*ta, *tb);
}

static void
all_of(const struct tree *tree, size_t zone, struct lines *lines)
{
	struct zone_walk walk = { .config = &bed.config, .tree = tree, .take = add, .arg = lines };

	for (size_t i = 0; i < lines->count; i++)
		free(lines->items[i]);
	lines->count = 0;
	zone_walk_begin(&walk);
	zone_walk_zone(&walk, zone);
	zone_walk_end(&walk);
}

static void
random_slice(const char *service)
{
	static const char *const hosts[] = { "", "", "=a", "=b", "=10-1-0-3" };
	static const char *const ports[] = { "http/tcp/80", "http/tcp/80 dns/udp/53", "/tcp/8080",
		"" };
	char name[16], text[512] = "";

	snprintf(name, sizeof name, "%s-%d", service, rand() % 3);
	for (int i = rand() % 5; i > 0; i--)
		sprintf(text + strlen(text), "%s10.1.0.%d%s ", rand() % 4 == 0 ? "!" : "",
		    1 + rand() % 8, hosts[rand() % 5]);
	bed_slice(service, name, ports[rand() % 4], text);
}

static void
random_change(void)
{
	static const char *const services[] = { "web", "db", "x", "y", "z" };
	const char *service = services[rand() % 5];
	char addr[32];

	snprintf(addr, sizeof addr, "10.96.0.%d", 1 + rand() % 6);
	switch (rand() % 7) {
	case 0:
		bed_service(service, SERVICE_CLUSTERIP, addr, "http/tcp/80 dns/udp/53");
		break;
	case 1:
		bed_service(service, SERVICE_HEADLESS, NULL, "http/tcp/80");
		break;
	case 2:
		bed_service(service, SERVICE_EXTERNALNAME, "www.example.net", "");
		break;
	case 3:
		bed_service_delete(service);
		break;
	default:
		random_slice(service);
		break;
	}
}

static void
what_went_and_came_makes_the_next_moment(void **state)
{
	(void)state;
	srand(19);
	bed_reverse_zone("10.0.0.0/8");
	bed_publish();
	for (unsigned step = 0; step < STEPS; step++) {
		struct tree_hold *hold = treecache_hold(bed.cache);
		for (int i = 1 + rand() % 3; i > 0; i--)
			random_change();
		bed_publish();
		const struct zone_moments moments = { .before = tree_held(hold),
			.after = tree_current(bed.cache) };
		for (size_t zone = 0; zone < 2; zone++) {
			all_of(moments.before, zone, &before[zone]);
			all_of(moments.after, zone, &after[zone]);
		}
		assert_true(zone_diff(&bed.config, &moments, apply, NULL));
		for (size_t zone = 0; zone < 2; zone++) {
			assert_int_equal(before[zone].count, after[zone].count);
			qsort(before[zone].items, before[zone].count, sizeof(char *), by_text);
			qsort(after[zone].items, after[zone].count, sizeof(char *), by_text);
			for (size_t i = 0; i < after[zone].count; i++)
				assert_string_equal(before[zone].items[i], after[zone].items[i]);
		}
		tree_hold_drop(hold);
		treecache_reclaim(bed.cache);
	}
	assert_true(told > 10 * STEPS);
}

static bool
stop(void *arg, size_t zone, bool added, const struct zone_record *record)
{
	(void)zone;
	(void)added;
	(void)record;
	return ++*(unsigned *)arg < 3;
}

static void
a_change_of_everything_is_not_worked_out(void **state)
{
	unsigned taken = 0;
	(void)state;

	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	bed_publish();
	struct tree_hold *hold = treecache_hold(bed.cache);
	bed_context("null", "10.9.9.9 web.default.svc.cluster.local");
	bed_publish();
	const struct zone_moments hosts = { .before = tree_held(hold),
		.after = tree_current(bed.cache) };
	assert_false(zone_diff(&bed.config, &hosts, stop, &taken));
	assert_int_equal(taken, 0);
	struct tree_hold *next = treecache_hold(bed.cache);
	for (unsigned i = 0; i < 5; i++) {
		char name[8];
		snprintf(name, sizeof name, "s%u", i);
		bed_service(name, SERVICE_CLUSTERIP, "10.96.0.2", "http/tcp/80");
	}
	bed_publish();
	const struct zone_moments many = { .before = tree_held(next),
		.after = tree_current(bed.cache) };
	assert_false(zone_diff(&bed.config, &many, stop, &taken));
	assert_int_equal(taken, 3); /* whoever takes them has had enough */
	tree_hold_drop(hold);
	tree_hold_drop(next);
}

static int
begin_ignoring_empty(void **state)
{
	bed_begin(state);
	bed.config.ignore_empty_service = true;
	return 0;
}

/* Names of the key hosts are in place of Services', whose addresses have PTRs all the same. */
static int
begin_with_hosts(void **state)
{
	bed_begin(state);
	bed_context("null", "10.9.9.9 web.default.svc.cluster.local\n"
			    "10.96.0.3 x.default.svc.cluster.local a.db.default.svc.cluster.local");
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    what_went_and_came_makes_the_next_moment, bed_begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    what_went_and_came_makes_the_next_moment, begin_ignoring_empty, bed_end),
		cmocka_unit_test_setup_teardown(
		    what_went_and_came_makes_the_next_moment, begin_with_hosts, bed_end),
		cmocka_unit_test_setup_teardown(
		    a_change_of_everything_is_not_worked_out, bed_begin, bed_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
