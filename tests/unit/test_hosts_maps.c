/* ConfigMaps of --hosts-namespaces: which ConfigMaps provide names, which one owns a name if
 * several claim it, and which content is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/answer/answer.h"
#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/local_names.h"
#include "kubedns/config/hosts_maps.h"
#include "lib/clock.h"
#include "lib/conf_hosts.h"
#include "lib/conf_records.h"
#include "lib/metrics.h"
#include "lib/wire.h"
#include "treecache/treecache.h"

static struct answer_config answers;
static struct external_zones external;
static struct dname external_zone;
static struct hosts_maps *maps;
static struct local_names *in_force, *trusted[2];

static char shop[] = "shop", team[] = "team", all[] = "all";
static struct hosts_namespace namespaces[] = { { shop, NULL, 0 }, { team, NULL, 0 },
	{ all, NULL, 0 } };
static uint8_t stubs[64];
static size_t stubs_len;

static int
begin_with(size_t count)
{
	dname_from_text(&answers.zone, "cluster.local.");
	dname_from_text(&external_zone, "apps.example.");
	external = (struct external_zones){ .zones = &external_zone, .zone_count = 1 };
	external_zones_set(&answers, &external);
	answers.ttl_s = 30;
	maps = hosts_maps_new(&answers, namespaces, count);
	return 0;
}

static int
begin(void **state)
{
	(void)state;
	return begin_with(3);
}

/* Begins with one namespace, which has the whole limit. */
static int
begin_alone(void **state)
{
	(void)state;
	return begin_with(1);
}

static int
end(void **state)
{
	(void)state;
	hosts_maps_free(maps);
	free(in_force);
	free(trusted[0]);
	free(trusted[1]);
	in_force = trusted[0] = trusted[1] = NULL;
	namespaces[1].suffix_count = 0;
	stubs_len = 0;
	return 0;
}

static void
event(enum event_type type, const char *namespace, const char *name, int64_t created_s,
    const char *hosts)
{
	struct object_key_value data = { "hosts", hosts, hosts == NULL ? 0 : strlen(hosts) };
	struct object object = { .kind = OBJECT_CONFIGMAP,
		.namespace = namespace,
		.name = name,
		.created_s = created_s,
		.data = &data,
		.data_count = hosts != NULL };
	bool listing = type == EVENT_LISTING || type == EVENT_SYNCED;

	hosts_maps_event(maps, namespace, type, listing ? NULL : &object);
}

static void
settle(void)
{
	const struct local_names *blocks[2 + HOSTS_MAPS_MAX] = { trusted[0], trusted[1] };
	const char *texts[2 + HOSTS_MAPS_MAX] = { "hosts", "records" };
	struct local_names *before = in_force;
	const struct hosts_maps_round round = { 0, before, 2, stubs, stubs_len };
	size_t count = hosts_maps_take(maps, &round, blocks + 2, texts + 2);

	in_force = local_names_merge(&(struct own_sources){
	    blocks, texts, 2 + count, 2, stubs, stubs_len, hosts_maps_claim, maps });
	hosts_maps_judge(maps, in_force);
	free(before);
}

/* Returns the owner of the name and the last byte of its address: "shop/a 1". Returns "" if the
 * name has no owner. */
static const char *
owner_of(const char *text)
{
	static char out[256];
	struct dname name;

	settle();
	dname_from_text(&name, text);
	const struct own_name *own =
	    in_force == NULL ? NULL : local_names_find(in_force, name.wire, name.len);
	if (own == NULL)
		return "";
	const struct rrset *set = own_name_rrset(own, TYPE_A);
	const char *source = local_names_source(in_force, own), *space = strrchr(source, ' ');
	snprintf(out, sizeof out, "%s %u", space == NULL ? source : space + 1, set->data[15]);
	return out;
}

static double
metric(const char *line)
{
	struct metrics *m = metrics_new(METRICS_TEXT);
	size_t len;

	hosts_maps_metrics(maps, m);
	char *text = metrics_finish(m, &len), *at = text;
	while ((at = strstr(at, line)) != NULL && at > text && at[-1] != '\n')
		at++; /* skips comments */
	assert_non_null(at);
	double value = strtod(at + strlen(line), NULL);
	free(text);
	return value;
}

/* As after a restart: all claims are known before the first round. */
static void
the_order_of_the_flag_decides_between_namespaces_and_age_within_one(void **state)
{
	(void)state;
	event(EVENT_ADDED, "team", "old", 1, "10.0.0.1 a.example b.example c.example");
	event(EVENT_ADDED, "shop", "young", 30, "10.0.0.2 a.example b.example");
	event(EVENT_ADDED, "shop", "old", 20, "10.0.0.3 a.example");
	assert_string_equal(owner_of("a.example"), "shop/old 3");
	assert_string_equal(owner_of("b.example"), "shop/young 2");
	assert_string_equal(owner_of("c.example"), "team/old 1");
	assert_true(metric("kubedns_hosts_names{state=\"left_out\"} ") == 3);
	/* If two ConfigMaps have the same age, their names decide. */
	event(EVENT_ADDED, "shop", "first", 20, "10.0.0.4 a.example");
	assert_string_equal(owner_of("a.example"), "shop/first 4");
}

/* A ConfigMap may be older than the claim of another namespace, and it can be edited at any time.
 * The edit must not take the name. */
static void
no_edit_takes_a_name_from_the_namespace_that_has_it(void **state)
{
	(void)state;
	event(EVENT_LISTING, "shop", NULL, 0, NULL);
	event(EVENT_ADDED, "shop", "old", 1, "10.0.0.6 x.example");
	event(EVENT_ADDED, "team", "a", 50, "10.0.0.2 git.example");
	assert_string_equal(owner_of("git.example"), "team/a 2");
	event(EVENT_SYNCED, "shop", NULL, 0, NULL);
	assert_string_equal(owner_of("x.example"), "shop/old 6");
	event(EVENT_MODIFIED, "shop", "old", 1, "10.0.0.6 x.example git.example");
	assert_string_equal(owner_of("git.example"), "team/a 2");
	assert_string_equal(owner_of("x.example"), "shop/old 6");
	assert_true(metric("kubedns_hosts_names{state=\"left_out\"} ") == 1);
	/* The namespace also keeps the name in three other cases: during a listing, if the owner is
	 * edited, and if a younger ConfigMap replaces the owner. */
	event(EVENT_LISTING, "team", NULL, 0, NULL);
	assert_string_equal(owner_of("git.example"), "team/a 2");
	event(EVENT_ADDED, "team", "a", 50, "10.0.0.2 git.example");
	event(EVENT_SYNCED, "team", NULL, 0, NULL);
	assert_string_equal(owner_of("git.example"), "team/a 2");
	event(EVENT_MODIFIED, "team", "a", 50, "10.0.0.3 b.example git.example");
	assert_string_equal(owner_of("git.example"), "team/a 3");
	event(EVENT_ADDED, "team", "b", 90, "10.0.0.4 git.example");
	event(EVENT_DELETED, "team", "a", 50, NULL);
	assert_string_equal(owner_of("git.example"), "team/b 4");
	/* When the namespace gives the name up, the next namespace gets it. */
	event(EVENT_MODIFIED, "team", "b", 90, "10.0.0.4 other.example");
	assert_string_equal(owner_of("git.example"), "shop/old 6");
	event(EVENT_MODIFIED, "team", "b", 90, "10.0.0.4 git.example");
	assert_string_equal(owner_of("git.example"), "shop/old 6");
	event(EVENT_MODIFIED, "shop", "old", 1, NULL); /* the key is deleted */
	assert_string_equal(owner_of("git.example"), "team/b 4");
	assert_true(metric("kubedns_hosts_names{state=\"left_out\"} ") == 0);
}

/* Each namespace has its own watch. No watch waits for another watch. */
static void
the_order_of_the_first_listings_does_not_matter(void **state)
{
	(void)state;
	event(EVENT_ADDED, "team", "a", 1, "10.0.0.1 a.example");
	event(EVENT_SYNCED, "team", NULL, 0, NULL);
	assert_string_equal(owner_of("a.example"), "team/a 1");
	event(EVENT_ADDED, "all", "c", 1, "10.0.0.3 a.example");
	event(EVENT_SYNCED, "all", NULL, 0, NULL);
	assert_string_equal(owner_of("a.example"), "team/a 1");
	event(EVENT_ADDED, "shop", "b", 1, "10.0.0.2 a.example");
	event(EVENT_SYNCED, "shop", NULL, 0, NULL);
	assert_string_equal(owner_of("a.example"), "shop/b 2");
	event(EVENT_DELETED, "shop", "b", 1, NULL);
	assert_string_equal(owner_of("a.example"), "team/a 1");
	event(EVENT_ADDED, "shop", "b", 1, "10.0.0.2 a.example");
	assert_string_equal(owner_of("a.example"), "team/a 1");
}

static void
a_namespace_has_names_in_its_domains_alone(void **state)
{
	static struct dname suffixes[2];

	(void)state;
	dname_from_text(&suffixes[0], "office.example");
	dname_from_text(&suffixes[1], "lab.example");
	namespaces[1].suffixes = suffixes;
	namespaces[1].suffix_count = 2;
	event(EVENT_ADDED, "team", "a", 1,
	    "10.0.0.1 office.example p.Office.example x.y.lab.example");
	assert_string_equal(owner_of("office.example"), "team/a 1");
	assert_string_equal(owner_of("p.office.example"), "team/a 1");
	assert_string_equal(owner_of("x.y.lab.example"), "team/a 1");
	static const char *const bad[] = { "10.0.0.2 git.example", "10.0.0.2 backoffice.example",
		"10.0.0.2 p.office.example sts.amazonaws.com", "10.0.0.2 example" };
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		event(EVENT_MODIFIED, "team", "a", 1, bad[i]);
		assert_true(metric("kubedns_hosts_configmaps_refused ") == 1);
		assert_string_equal(owner_of("p.office.example"), "team/a 1");
		assert_string_equal(owner_of("git.example"), "");
	}
	event(EVENT_ADDED, "shop", "b", 1, "10.0.0.3 git.example");
	assert_string_equal(owner_of("git.example"), "shop/b 3");
}

static void
a_stub_domains_names_need_a_domain_of_the_flag(void **state)
{
	static struct dname suffix, stub;

	(void)state;
	dname_from_text(&suffix, "corp.example");
	dname_from_text(&stub, "zz.example"); /* sorts after `suffix` */
	memcpy(stubs, stub.wire, stub.len);
	stubs_len = stub.len;
	memcpy(stubs + stubs_len, suffix.wire, suffix.len);
	stubs_len += suffix.len;
	namespaces[1].suffixes = &suffix;
	namespaces[1].suffix_count = 1;
	event(EVENT_ADDED, "shop", "a", 1,
	    "10.0.0.1 x.corp.example corp.example y.zz.example mycorp.example");
	event(EVENT_SYNCED, "shop", NULL, 0, NULL);
	assert_string_equal(owner_of("x.corp.example"), "");
	assert_string_equal(owner_of("corp.example"), "");
	assert_string_equal(owner_of("y.zz.example"), "");
	assert_string_equal(owner_of("mycorp.example"), "shop/a 1");
	assert_true(metric("kubedns_hosts_names{state=\"left_out\"} ") == 3);
	event(EVENT_ADDED, "team", "b", 2, "10.0.0.2 x.corp.example");
	assert_string_equal(owner_of("x.corp.example"), "team/b 2");
	stubs_len = 0; /* the stub domains are removed */
	assert_string_equal(owner_of("corp.example"), "shop/a 1");
	assert_string_equal(owner_of("x.corp.example"), "team/b 2");
}

static void
the_operators_names_and_zones_are_not_given(void **state)
{
	(void)state;
	struct conf_hosts hosts;
	struct conf_records records;
	static const char lines[] = "corp.example SOA a b 1 1 1 1 1\n*.wild.example A 10.0.0.9\n";
	char *why;

	assert_int_equal(conf_hosts_parse("10.0.0.9 mine.example", 21, &hosts, &why), 0);
	trusted[0] = local_names_of_hosts(&hosts, true, 30, 1);
	conf_hosts_free(&hosts);
	assert_int_equal(
	    conf_records_parse(lines, strlen(lines), "cluster.local", &records, &why), 0);
	trusted[1] = local_names_of_records(&records, 30, 1);
	conf_records_free(&records);
	event(EVENT_ADDED, "shop", "a", 1,
	    "10.0.0.1 mine.example x.corp.example x.wild.example wild.example ok.example");
	assert_string_equal(owner_of("mine.example"), "hosts 9");
	assert_string_equal(owner_of("x.corp.example"), "");
	assert_string_equal(owner_of("x.wild.example"), "");
	/* The wildcard does not match this name. */
	assert_string_equal(owner_of("wild.example"), "shop/a 1");
	assert_string_equal(owner_of("ok.example"), "shop/a 1");
	assert_true(metric("kubedns_hosts_names{state=\"left_out\"} ") == 3);
	assert_true(metric("kubedns_hosts_names{state=\"in_force\"} ") == 2);
}

static void
a_bad_one_is_refused_by_itself_and_keeps_its_last_names(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"10.0.0.2 a.example web.default.svc.cluster.local",
		"10.0.0.2 a.example cluster.local",
		"10.0.0.2 a.example 1.0.0.10.in-addr.arpa",
		"10.0.0.2 a.example x.ip6.arpa",
		"10.0.0.2 a.example www.apps.example",
		"10.0.0.2 a.example apps.example",
		"10.0.0.300 a.example",
	};

	event(EVENT_ADDED, "shop", "good", 2, "10.0.0.7 good.example");
	event(EVENT_ADDED, "shop", "a", 1, "10.0.0.1 a.example");
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		event(EVENT_MODIFIED, "shop", "a", 1, bad[i]);
		assert_string_equal(owner_of("a.example"), "shop/a 1");
		assert_true(metric("kubedns_hosts_configmaps_refused ") == 1);
	}
	assert_string_equal(owner_of("good.example"), "shop/good 7");
	event(EVENT_MODIFIED, "shop", "a", 1, "10.0.0.3 a.example");
	assert_string_equal(owner_of("a.example"), "shop/a 3");
	assert_true(metric("kubedns_hosts_configmaps_refused ") == 0);
	event(EVENT_MODIFIED, "shop", "a", 1, "");
	assert_string_equal(owner_of("a.example"), "");
	assert_true(metric("kubedns_hosts_configmaps_refused ") == 0);
}

static void
no_address_gets_a_ptr(void **state)
{
	(void)state;
	struct dname name;

	event(EVENT_ADDED, "shop", "a", 1, "10.96.0.1 a.example");
	settle();
	dname_from_text(&name, "1.0.96.10.in-addr.arpa");
	assert_null(local_names_find(in_force, name.wire, name.len));
}

static void
a_listing_sweeps_its_namespace_alone(void **state)
{
	(void)state;
	event(EVENT_ADDED, "shop", "a", 1, "10.0.0.1 a.example");
	event(EVENT_ADDED, "team", "b", 1, "10.0.0.2 b.example");
	event(EVENT_LISTING, "shop", NULL, 0, NULL);
	/* The name stays until the listing ends. */
	assert_string_equal(owner_of("a.example"), "shop/a 1");
	event(EVENT_ADDED, "shop", "c", 1, "10.0.0.3 c.example");
	event(EVENT_SYNCED, "shop", NULL, 0, NULL);
	assert_string_equal(owner_of("a.example"), "");
	assert_string_equal(owner_of("b.example"), "team/b 2");
	assert_string_equal(owner_of("c.example"), "shop/c 3");
}

/* Returns a text with this many names. */
static char *
many(unsigned count, const char *prefix)
{
	char *text = malloc(40 * (size_t)count + 1);
	size_t len = 0;

	for (unsigned i = 0; i < count; i++)
		len += (size_t)sprintf(text + len, "10.0.%u.1 %s-%u.example\n", i / 200, prefix, i);
	return text;
}

static void
the_bounds_hold(void **state)
{
	(void)state;
	char name[16], *text = many(1001, "x");

	event(EVENT_ADDED, "shop", "big", 1, text);
	assert_true(metric("kubedns_hosts_configmaps_refused ") == 1);
	free(text);
	for (unsigned i = 0; i < 11; i++) { /* the newest ConfigMap does not fit */
		snprintf(name, sizeof name, "m%u", i);
		text = many(1000, name);
		event(EVENT_ADDED, "shop", name, 100 - i, text);
		free(text);
	}
	assert_string_equal(owner_of("m10-0.example"), "shop/m10 1");
	assert_string_equal(owner_of("m0-0.example"), "");
	assert_true(metric("kubedns_hosts_names{state=\"in_force\"} ") == 10000);
	event(EVENT_DELETED, "shop", "m5", 95, NULL);
	assert_string_equal(owner_of("m0-0.example"), "shop/m0 1");
	for (unsigned i = 0; i < HOSTS_MAPS_MAX; i++) {
		snprintf(name, sizeof name, "n%u", i);
		event(EVENT_ADDED, "shop", name, 1000, "10.0.0.1 n.example");
	}
	assert_true(metric("kubedns_hosts_configmaps ") == HOSTS_MAPS_MAX);
	assert_true(metric("kubedns_hosts_configmaps_crowded_total ") == 11);
	text = malloc(HOSTS_MAP_BYTES_MAX + 2);
	memset(text, '#', HOSTS_MAP_BYTES_MAX + 1);
	text[HOSTS_MAP_BYTES_MAX + 1] = '\0';
	event(EVENT_MODIFIED, "shop", "m1", 99, text);
	assert_true(metric("kubedns_hosts_configmaps_refused ") == 2);
	free(text);
}

/* The oldest ConfigMaps are accepted, in whatever order they arrive. */
static void
the_oldest_are_known(void **state)
{
	(void)state;
	char name[16], hosts[40];

	for (int i = 0; i <= HOSTS_MAPS_MAX; i++) {
		snprintf(name, sizeof name, "m%d", i);
		snprintf(hosts, sizeof hosts, "10.0.0.1 m%d.example", i);
		event(EVENT_ADDED, "shop", name, 1000 - i, hosts);
	}
	assert_true(metric("kubedns_hosts_configmaps ") == HOSTS_MAPS_MAX);
	assert_string_equal(owner_of("m0.example"), "");
	assert_string_equal(owner_of("m1.example"), "shop/m1 1");
	assert_string_equal(owner_of("m100.example"), "shop/m100 1");
	event(EVENT_MODIFIED, "shop", "m0", 1000, "10.0.0.2 m0.example");
	assert_string_equal(owner_of("m0.example"), "");
	assert_true(metric("kubedns_hosts_configmaps_crowded_total ") == 2);
	event(EVENT_DELETED, "shop", "m7", 993, NULL);
	event(EVENT_MODIFIED, "shop", "m0", 1000, "10.0.0.3 m0.example");
	assert_string_equal(owner_of("m0.example"), "shop/m0 3");
}

/* A namespace keeps its share, whatever the other namespaces do. */
static void
no_namespace_uses_up_anothers_part(void **state)
{
	(void)state;
	char name[16], *text;

	event(EVENT_ADDED, "team", "young", 5000, "10.0.0.1 printer.example");
	for (unsigned i = 0; i < 2 * HOSTS_MAPS_MAX; i++) {
		snprintf(name, sizeof name, "m%u", i);
		text = many(1000, name);
		event(EVENT_ADDED, "shop", name, 1 + i, text);
		free(text);
	}
	assert_string_equal(owner_of("printer.example"), "team/young 1");
	assert_true(metric("kubedns_hosts_configmaps ") == HOSTS_MAPS_MAX / 3 + 1);
	/* The share is 3,333 names. Three ConfigMaps of 1,000 names fit into it. */
	assert_true(metric("kubedns_hosts_names{state=\"in_force\"} ") == 3001);
	event(EVENT_ADDED, "team", "more", 5001, "10.0.0.2 printer-2.example");
	assert_string_equal(owner_of("printer-2.example"), "team/more 2");
}

/* Changes are applied once per period, however many there are. Identical content is not a change. */
static void
changes_are_taken_together(void **state)
{
	(void)state;
	assert_int_equal(hosts_maps_due_ms(maps), CLOCK_NEVER);
	event(EVENT_ADDED, "shop", "a", 1, "10.0.0.1 a.example");
	assert_true(hosts_maps_due_ms(maps) <= 5000);
	const struct local_names *blocks[HOSTS_MAPS_MAX];
	const char *texts[HOSTS_MAPS_MAX];
	const struct hosts_maps_round at = { 5000, NULL, 0, NULL, 0 };
	assert_int_equal(hosts_maps_take(maps, &at, blocks, texts), 1);
	event(EVENT_MODIFIED, "shop", "a", 1, "10.0.0.1   a.example # the same");
	assert_int_equal(hosts_maps_due_ms(maps), CLOCK_NEVER);
	event(EVENT_MODIFIED, "shop", "a", 1, "10.0.0.2 a.example");
	assert_int_equal(hosts_maps_due_ms(maps), 5000 + HOSTS_MAPS_PERIOD_MS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    the_order_of_the_first_listings_does_not_matter, begin, end),
		cmocka_unit_test_setup_teardown(
		    the_order_of_the_flag_decides_between_namespaces_and_age_within_one, begin,
		    end),
		cmocka_unit_test_setup_teardown(
		    no_edit_takes_a_name_from_the_namespace_that_has_it, begin, end),
		cmocka_unit_test_setup_teardown(
		    a_namespace_has_names_in_its_domains_alone, begin, end),
		cmocka_unit_test_setup_teardown(
		    a_stub_domains_names_need_a_domain_of_the_flag, begin, end),
		cmocka_unit_test_setup_teardown(
		    the_operators_names_and_zones_are_not_given, begin, end),
		cmocka_unit_test_setup_teardown(
		    a_bad_one_is_refused_by_itself_and_keeps_its_last_names, begin, end),
		cmocka_unit_test_setup_teardown(no_address_gets_a_ptr, begin, end),
		cmocka_unit_test_setup_teardown(a_listing_sweeps_its_namespace_alone, begin, end),
		cmocka_unit_test_setup_teardown(the_bounds_hold, begin_alone, end),
		cmocka_unit_test_setup_teardown(the_oldest_are_known, begin_alone, end),
		cmocka_unit_test_setup_teardown(no_namespace_uses_up_anothers_part, begin, end),
		cmocka_unit_test_setup_teardown(changes_are_taken_together, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
