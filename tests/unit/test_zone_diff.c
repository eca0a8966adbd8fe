/* Random changes of a cluster, and the differences of its records. In each zone, the differences
 * are applied to the old records. The result must be the new records. */
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
#include "tests/unit/external_bed.h"

enum { STEPS = 1500, LINES_MAX = 4000 };

struct lines {
	char *items[LINES_MAX];
	size_t count;
};

enum { ZONES = 4 }; /* our zone, a reverse zone, and two external zones if there are any */

static struct lines before[ZONES], after[ZONES];
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
add_line(void *arg, const struct zone_record *record)
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
all_of(const struct zone_trees *trees, size_t zone, struct lines *lines)
{
	struct zone_walk walk = {
		.config = &bed.config, .trees = *trees, .take = add_line, .arg = lines
	};

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

/* Adds or deletes an object that claims external names. Some of these names also belong to headless
 * Services, or to their endpoints and ports. */
static void
random_claim(void)
{
	static const char *const claims[] = {
		ANNOTATED("one", JANUARY, "db.default.apps.example.com", IP("192.0.2.1")),
		ANNOTATED("two", JANUARY, "a.db.default.apps.example.com", IP("192.0.2.2")),
		ANNOTATED("three", JANUARY, "x.default.in.apps.example.com", IP("192.0.2.3")),
		ANNOTATED("four", JANUARY, "*.apps.example.com", IP("192.0.2.4")),
		ANNOTATED("five", JANUARY, "below.y.default.in.apps.example.com", IP("192.0.2.5")),
		ANNOTATED("six", JANUARY, "default.apps.example.com", IP("192.0.2.6")),
	};

	tell(rand() % 2 == 0 ? EVENT_ADDED : EVENT_DELETED, claims[rand() % 6]);
}

static void
one_step(size_t zone_total)
{
	bool outside = external_config(&bed.config) != NULL;
	struct tree_hold *hold = treecache_hold(bed.cache);
	struct tree_hold *external_hold = outside ? treecache_hold(external_tree(external)) : NULL;

	for (int i = 1 + rand() % 3; i > 0; i--)
		random_change();
	if (outside && rand() % 2 == 0)
		random_claim();
	bed_publish();
	const struct zone_snapshots snapshots = { .before = { tree_held(hold),
						      outside ? tree_held(external_hold) : NULL },
		.after = { tree_current(bed.cache),
		    outside ? tree_current(external_tree(external)) : NULL } };
	for (size_t zone = 0; zone < zone_total; zone++) {
		all_of(&snapshots.before, zone, &before[zone]);
		all_of(&snapshots.after, zone, &after[zone]);
	}
	assert_true(zone_diff(&bed.config, &snapshots, apply, NULL));
	for (size_t zone = 0; zone < zone_total; zone++) {
		qsort(before[zone].items, before[zone].count, sizeof(char *), by_text);
		qsort(after[zone].items, after[zone].count, sizeof(char *), by_text);
		for (size_t i = 0; i < after[zone].count && i < before[zone].count; i++)
			assert_string_equal(before[zone].items[i], after[zone].items[i]);
		assert_int_equal(before[zone].count, after[zone].count);
	}
	tree_hold_drop(hold);
	if (outside)
		tree_hold_drop(external_hold);
	treecache_reclaim(bed.cache);
	if (outside)
		treecache_reclaim(external_tree(external));
}

static void
what_went_and_came_makes_the_next_moment(void **state)
{
	(void)state;
	srand(19);
	told = 0;
	bed_reverse_zone("10.0.0.0/8");
	bed_publish();
	size_t zone_total = zone_count(&bed.config);
	for (unsigned step = 0; step < STEPS; step++)
		one_step(zone_total);
	assert_true(told > 10 * STEPS);
	for (size_t zone = 2; zone < zone_total && zones.headless; zone++)
		assert_true(after[zone].count > 10);
}

/* A secondary of an external zone has the same records as our answers. */
static void
headless_names_for_outside_are_in_the_zone_unless_it_has_others(void **state)
{
	static const char *const want[] = {
		"10-1-0-2.db.default.apps.example.com. 1 30 0a010002",
		"db-0.db.default.apps.example.com. 1 30 0a010001",
		"db.default.apps.example.com. 1 30 0a010001",
		"db.default.apps.example.com. 1 30 0a010002",
	};
	struct lines *lines = &after[2];
	size_t found = 0, srv = 0;
	(void)state;

	bed_reverse_zone("10.0.0.0/8");
	bed_service("db", SERVICE_HEADLESS, NULL, "pg/tcp/5432");
	bed_slice("db", "db-1", "pg/tcp/5432", "10.1.0.1=db-0 10.1.0.2 !10.1.0.3=db-2");
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	bed_slice("web", "web-1", "http/tcp/80", "10.1.1.1=web-0");
	bed_publish();
	for (int taken = 0; taken < 2; taken++, found = srv = 0) {
		if (taken)
			tell(EVENT_ADDED, ANNOTATED("one", JANUARY, "db.default.apps.example.com",
					      IP("192.0.2.1")));
		all_of(&(struct zone_trees){ tree_current(bed.cache),
			   tree_current(external_tree(external)) },
		    2, lines);
		for (size_t i = 0; i < lines->count; i++) {
			assert_null(strstr(lines->items[i], "web.default"));
			assert_null(strstr(lines->items[i], "cluster.local"));
			srv += strstr(lines->items[i], " 33 ") != NULL;
			for (size_t w = 0; w < 4; w++)
				found += strcmp(lines->items[i], want[w]) == 0;
		}
		/* There are two SRV records at the Service, two at its port, and one at each
		 * endpoint. The Service has no SRV records if another object owns its name. */
		assert_int_equal(srv, taken ? 4 : 6);
		assert_int_equal(found, taken ? 2 : 4);
	}
}

static bool
stop(void *arg, size_t zone, bool added, const struct zone_record *record)
{
	(void)zone;
	(void)added;
	(void)record;
	return ++*(unsigned *)arg < 3;
}

static bool
count_all(void *arg, size_t zone, bool added, const struct zone_record *record)
{
	(void)zone;
	(void)added;
	(void)record;
	++*(unsigned *)arg;
	return true;
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
	const struct zone_snapshots hosts = { .before = { tree_held(hold), NULL },
		.after = { tree_current(bed.cache), NULL } };
	assert_false(zone_diff(&bed.config, &hosts, stop, &taken));
	assert_int_equal(taken, 0);
	struct tree_hold *next = treecache_hold(bed.cache);
	for (unsigned i = 0; i < 5; i++) {
		char name[8];

		snprintf(name, sizeof name, "s%u", i);
		bed_service(name, SERVICE_CLUSTERIP, "10.96.0.2", "http/tcp/80");
	}
	bed_publish();
	const struct zone_snapshots many = { .before = { tree_held(next), NULL },
		.after = { tree_current(bed.cache), NULL } };
	assert_false(zone_diff(&bed.config, &many, stop, &taken));
	assert_int_equal(taken, 3); /* the receiver stopped the walk */
	tree_hold_drop(hold);
	tree_hold_drop(next);
}

enum { PORTS = 190, ENDPOINTS = 1000 };

static char ports[PORTS * 16], endpoints[ENDPOINTS * 16];

static void
write_lists(unsigned port_count, unsigned endpoint_count)
{
	size_t len = 0;

	for (unsigned i = 1; i <= port_count; i++)
		len += (size_t)sprintf(ports + len, "p%u/tcp/%u ", i, i);
	len = 0;
	for (unsigned i = 0; i < endpoint_count; i++)
		len += (size_t)sprintf(endpoints + len, "10.1.%u.%u ", i / 250, 1 + i % 250);
}

/* 1,000 endpoints with 190 ports each have 570,000 SRV records. */
static void
a_change_of_too_many_records_is_not_worked_out(void **state)
{
	unsigned taken = 0;

	(void)state;

	write_lists(PORTS, ENDPOINTS);
	bed_service("db", SERVICE_HEADLESS, NULL, "pg/tcp/5432");
	bed_slice("db", "db-1", ports, endpoints);
	bed_publish();
	struct tree_hold *hold = treecache_hold(bed.cache);
	bed_slice("db", "db-1", ports, "10.1.0.1");
	bed_publish();
	const struct zone_snapshots snapshots = { .before = { tree_held(hold), NULL },
		.after = { tree_current(bed.cache), NULL } };
	assert_false(zone_diff(&bed.config, &snapshots, stop, &taken));
	assert_int_equal(taken, 0);
	tree_hold_drop(hold);
}

/* One record of each Service changes. Each Service has records of about 25 MB. */
static void
a_change_of_too_many_records_of_several_names_is_not_worked_out(void **state)
{
	static const char *const services[] = { "a", "b", "c" }, *const small[] = { "a-1", "b-1",
		"c-1" };
	unsigned taken = 0, all = 0;
	(void)state;

	write_lists(PORTS, ENDPOINTS * 1 / 2);
	for (unsigned i = 0; i < 3; i++) {
		bed_service(services[i], SERVICE_HEADLESS, NULL, "pg/tcp/5432");
		bed_slice(services[i], services[i], ports, endpoints);
		bed_slice(services[i], small[i], "", "10.2.0.1=one");
	}
	bed_publish();
	for (unsigned changed = 2; changed <= 3; changed++) {
		struct tree_hold *hold = treecache_hold(bed.cache);

		for (unsigned i = 0; i < changed; i++)
			bed_slice(services[i], small[i], "",
			    changed == 2 ? "10.2.0.2=one" : "10.2.0.3=one");
		bed_publish();
		const struct zone_snapshots snapshots = { .before = { tree_held(hold), NULL },
			.after = { tree_current(bed.cache), NULL } };
		taken = 0;
		assert_int_equal(
		    zone_diff(&bed.config, &snapshots, count_all, &taken), changed == 2);
		all += taken;
		tree_hold_drop(hold);
	}
	assert_true(all >= 2);
}

static int
begin_ignoring_empty(void **state)
{
	bed_begin(state);
	bed.parts.zone.ignore_empty_service = true;
	return 0;
}

/* Names in the ConfigMap key `hosts` replace names of Services. The addresses of these Services
 * still have PTR records. */
static int
begin_with_hosts(void **state)
{
	bed_begin(state);
	bed_context("null", "10.9.9.9 web.default.svc.cluster.local\n"
			    "10.96.0.3 x.default.svc.cluster.local a.db.default.svc.cluster.local");
	return 0;
}

static int
begin_with_headless_outside(void **state)
{
	begin(state);
	zones.headless = true;
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    what_went_and_came_makes_the_next_moment, begin, end),
		cmocka_unit_test_setup_teardown(
		    what_went_and_came_makes_the_next_moment, begin_with_headless_outside, end),
		cmocka_unit_test_setup_teardown(
		    headless_names_for_outside_are_in_the_zone_unless_it_has_others,
		    begin_with_headless_outside, end),
		cmocka_unit_test_setup_teardown(
		    what_went_and_came_makes_the_next_moment, bed_begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    what_went_and_came_makes_the_next_moment, begin_ignoring_empty, bed_end),
		cmocka_unit_test_setup_teardown(
		    what_went_and_came_makes_the_next_moment, begin_with_hosts, bed_end),
		cmocka_unit_test_setup_teardown(
		    a_change_of_everything_is_not_worked_out, bed_begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    a_change_of_too_many_records_is_not_worked_out, bed_begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    a_change_of_too_many_records_of_several_names_is_not_worked_out, bed_begin,
		    bed_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
