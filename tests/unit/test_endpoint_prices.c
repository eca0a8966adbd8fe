/*
 * The cost of endpoints that share names and addresses. Anybody who can write EndpointSlices can
 * use one name or address for all of them. The tests compare times with a wide margin. Sixteen
 * times as many endpoints take about sixteen times as long. With quadratic cost, they would take
 * 256 times as long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/zone_walk.h"
#include "kubedns/answer/stage.h"
#include "kubedns/cluster/clusterset/clusterset.h"
#include "kubedns/show/explain.h"
#include "lib/wire.h"
#include "tests/unit/answer_bed.h"
#include "tests/unit/cpu_time.h"
#include "treecache/ports.h"

enum { ENDPOINTS = 500 /* per slice */, FEW = 8, MANY = 16 * FEW };

static struct clusterset *set;
static struct treecache *cache;
static struct external_zones zones;
static struct dname zone;

static int
begin(void **state)
{
	struct clusterset_config config = { .ttl_s = 30 };
	const struct object import = { .kind = OBJECT_IMPORT,
		.namespace = "test",
		.name = "db",
		.resource_version = "",
		.service = { .type = SERVICE_HEADLESS, .external_name = "" } };

	bed_begin(state);
	assert_int_equal(dname_from_text(&zone, "clusterset.local"), 0);
	config.zone = zone;
	zones = (struct external_zones){ .zones = &zone, .zone_count = 1, .clusterset = &zone };
	cache = treecache_new(0x9e3779b97f4a7c15);
	set = clusterset_new(&config, cache, 0x9e3779b97f4a7c15);
	zones.tree = cache;
	external_zones_set(&bed.config, &zones);
	stages_build(&bed.config);
	bed_reverse_zone("10.0.0.0/8");
	clusterset_event(set, OBJECT_IMPORT, EVENT_ADDED, &import);
	bed_publish();
	return 0;
}

static int
end(void **state)
{
	clusterset_free(set);
	treecache_free(cache);
	return bed_end(state);
}

/*
 * Replaces the slices of the import and returns the time that this takes. Each endpoint has the
 * host name `hostname`, or none if it is NULL. "*" means that each endpoint of a slice has its own
 * name, and that all slices have the same names. Each slice has `addrs` different addresses. The
 * first address is the same in all slices. If `addrs` is 0, each endpoint has its own address, and
 * all slices have the same addresses.
 */
static double
fill(unsigned slices, unsigned addrs, const char *hostname)
{
	struct object_endpoint endpoints[ENDPOINTS];
	static struct object_port port = { "http", "tcp", 80 };
	char name[16], own[ENDPOINTS][8];
	bool each = hostname != NULL && *hostname == '*';
	struct object_slice slice = { .name = name,
		.family = AF_INET,
		.endpoints = endpoints,
		.endpoint_count = ENDPOINTS,
		.ports = &port,
		.port_count = 1 };
	const struct object object = { .kind = OBJECT_SLICES,
		.namespace = "test",
		.name = name,
		.resource_version = "",
		.slices = &slice,
		.slice_count = 1,
		.import = { "db", "east" } };
	double begun_s = cpu_s();

	for (unsigned s = 0; s < MANY; s++) {
		snprintf(name, sizeof name, "s%03u", s);
		for (unsigned i = 0; i < ENDPOINTS; i++) {
			unsigned n = addrs == 0       ? 1 + i
				     : i % addrs == 0 ? 1
						      : 1 + s * ENDPOINTS + i % addrs;

			snprintf(own[i], sizeof own[i], "h%u", i);
			endpoints[i] = (struct object_endpoint){ .ready = true,
				.hostname = each ? own[i] : hostname };
			endpoints[i].addr.family = AF_INET;
			wire_put32(endpoints[i].addr.bytes, 10u << 24 | n);
		}
		clusterset_event(
		    set, OBJECT_SLICES, s < slices ? EVENT_MODIFIED : EVENT_DELETED, &object);
	}
	clusterset_settle(set);
	treecache_publish(cache, 1, true);
	treecache_reclaim(cache);
	return cpu_s() - begun_s;
}

static bool
take(void *arg, const struct zone_record *record)
{
	(void)record;
	++*(size_t *)arg;
	return true;
}

/* Returns the time of a walk over the zone of the cluster set. `*records` gets the number of its
 * records. */
static double
walk(size_t *records)
{
	struct zone_walk zone_walk = { .config = &bed.config,
		.trees = { tree_current(bed.cache), tree_current(cache) },
		.take = take,
		.arg = records };
	double begun_s = cpu_s();

	*records = 0;
	zone_walk_begin(&zone_walk);
	zone_walk_zone(&zone_walk, 2);
	zone_walk_end(&zone_walk);
	return cpu_s() - begun_s;
}

/* Returns the time of one answer, the fastest of several. The answer must have `records` records. */
static double
ask(const char *text, uint16_t type, unsigned records)
{
	struct dname name;
	uint8_t query[512];
	struct answer_info info;
	double best_s = 1e9;

	assert_int_equal(dname_from_text(&name, text), 0);
	size_t len = query_write(query, sizeof query, 1, name.wire, type, CLASS_IN, 1232);
	const struct answer_request request = { .config = &bed.config,
		.tree = tree_current(bed.cache),
		.query = query,
		.query_len = len,
		.out = bed.out,
		.max = DNS_TCP_MAX,
		.tcp = true };
	for (unsigned i = 0; i < 10; i++) {
		double begun_s = cpu_s();

		answer(&request, &info);
		double took_s = cpu_s() - begun_s;
		best_s = took_s < best_s ? took_s : best_s;
	}
	assert_int_equal(wire_get16(bed.out + 6), records);
	return best_s;
}

static void
slices_of_one_name_are_taken_in_linear_time(void **state)
{
	(void)state;
	fill(FEW, 1, "a");
	fill(0, 1, "a");
	double few_s = fill(FEW, 1, "a");
	fill(0, 1, "a");
	double many_s = fill(MANY, 1, "a");
	assert_true(many_s < 60 * few_s + 0.02);
}

/* Each name is in all slices. When a slice changes, the other slices must not be searched for each
 * of its names. */
static void
slices_of_the_same_names_are_taken_in_linear_time(void **state)
{
	const uint8_t *db = (const uint8_t *)"\2db\4test\3svc\12clusterset\5local";

	(void)state;

	fill(FEW, ENDPOINTS, "*");
	fill(0, 1, "a");
	double few_s = fill(FEW, ENDPOINTS, "*");
	fill(0, 1, "a");
	assert_true(fill(MANY, ENDPOINTS, "*") < 60 * few_s + 0.02);
	assert_int_equal(
	    tree_find(tree_current(cache), db)->endpoints->published, MANY * ENDPOINTS);
}

/* Each address is in all slices. The addresses are counted at the slice that is removed first. */
static void
slices_of_the_same_addresses_are_taken_in_linear_time(void **state)
{
	(void)state;
	fill(FEW, 0, NULL);
	fill(0, 0, NULL);
	double few_s = fill(FEW, 0, NULL), few_gone_s = fill(0, 0, NULL);
	double many_s = fill(MANY, 0, NULL), many_gone_s = fill(0, 0, NULL);
	assert_true(many_s < 60 * few_s + 0.02);
	assert_true(many_gone_s < 60 * few_gone_s + 0.02);
}

static void
a_zone_is_walked_in_linear_time_whoever_shares_a_name(void **state)
{
	size_t few, many;

	(void)state;

	fill(FEW, ENDPOINTS, "a");
	walk(&few);
	double few_s = walk(&few);
	fill(MANY, ENDPOINTS, "a");
	double many_s = walk(&many);
	/* The new records are addresses. Each address is at two names. */
	assert_int_equal(many - few, 2 * (MANY - FEW) * (ENDPOINTS - 1));
	assert_true(many_s < 100 * few_s + 0.02);
}

/* The cost of searching a slice for the address grows with its length. Each match costs more than
 * that. */
static void
an_answer_passes_over_what_a_slice_has_again(void **state)
{
	(void)state;
	fill(MANY, ENDPOINTS, NULL);
	double once_s = ask("1.0.0.10.in-addr.arpa", TYPE_PTR, 1);
	fill(MANY, 1, NULL);
	assert_true(ask("1.0.0.10.in-addr.arpa", TYPE_PTR, 1) < 20 * once_s);
	assert_true(ask("db.test.svc.clusterset.local", TYPE_SRV, 1) < 20 * once_s);
}

/* For each target, all slices that have the target are searched for its addresses. The searches end
 * when too many of them have found nothing. The answer has all addresses of a target or none. */
static void
the_additional_section_of_shared_names_has_a_bound(void **state)
{
	(void)state;
	fill(FEW, 0, "*");
	double few_s = ask("db.test.svc.clusterset.local", TYPE_SRV, ENDPOINTS);
	unsigned few = wire_get16(bed.out + 10);
	fill(MANY, 0, "*");
	double many_s = ask("db.test.svc.clusterset.local", TYPE_SRV, ENDPOINTS);
	unsigned many = wire_get16(bed.out + 10);
	assert_in_range(few, 200, ENDPOINTS);
	assert_in_range(many, 10, 60);
	/* The cost of the records alone is below this limit. With all addresses, the factor would
	 * be 20. */
	assert_true(many_s < 8 * few_s);
}

enum { FEW_TINY = 2000, SOME_TINY = 2 * FEW_TINY, MANY_TINY = 16 * FEW_TINY };

/* Adds slices of a headless Service. Each slice has one endpoint. All endpoints have the same
 * address and this host name. */
static struct owner *
fill_tiny(unsigned slices, const char *hostname)
{
	static char names[MANY_TINY][16];
	struct dname name;
	struct endpoint endpoint = { .addr = { .family = AF_INET, .bytes = { 10, 0, 0, 1 } },
		.ready = true,
		.name = hostname };
	struct port http = { 80, "\5_http", "\4_tcp" };
	static struct ports *ports[2]; /* some slices use the first list, some the second */

	for (unsigned i = 0; i < 2 && ports[i] == NULL; i++)
		ports[i] = ports_new(tree_current(bed.cache)->seed, &http, 1);
	dname_from_text(&name, "big.test.svc");
	struct owner *owner = treecache_owner(bed.cache, name.wire);
	treecache_endpoint_set_flags(
	    bed.cache, owner, ENDPOINTS_APEX | ENDPOINTS_REVERSE | ENDPOINTS_ATTACHED);
	for (unsigned s = 0; s < slices; s++) {
		snprintf(names[s], sizeof names[s], "s%05u", s);
		treecache_slice(bed.cache, owner, 0,
		    &(struct slice_source){ .name = names[s],
			.family = AF_INET,
			.ports = ports[s % 2],
			.endpoints = &endpoint,
			.count = 1 });
	}
	treecache_publish(bed.cache, 1, true);
	return owner;
}

static void
drop_tiny(struct owner *owner)
{
	while (owner->endpoints->count > 0)
		treecache_slice_remove(
		    bed.cache, owner, owner->endpoints->slices[owner->endpoints->count - 1].slot);
	treecache_endpoint_set_flags(bed.cache, owner, 0);
	treecache_prune(bed.cache, owner->name);
	treecache_owner_free(bed.cache, owner);
	treecache_publish(bed.cache, 1, true);
	treecache_reclaim(bed.cache);
}

/* There are eight times as many slices, but no more records. An answer does not cost more than the
 * limit. */
static void
an_answer_in_vain_has_a_bound(void **state)
{
	static const struct {
		const char *hostname, *question;
		uint16_t type;
		unsigned records;
	} cases[] = {
		{ NULL, "1.0.0.10.in-addr.arpa", TYPE_PTR, 1 },
		{ "a", "1.0.0.10.in-addr.arpa", TYPE_PTR, 1 },
		{ NULL, "big.test.svc.cluster.local", TYPE_SRV, 1 },
		{ NULL, "10-0-0-1.big.test.svc.cluster.local", TYPE_SRV, 1 },
		{ "a", "a.big.test.svc.cluster.local", TYPE_A, 1 },
		{ "a", "a.big.test.svc.cluster.local", TYPE_AAAA, 0 },
		{ "a", "a.big.test.svc.cluster.local", TYPE_SRV, 1 },
		{ "a", "10-0-0-1.big.test.svc.cluster.local", TYPE_A, 0 },
		{ "10-0-0-1", "10-0-0-1.big.test.svc.cluster.local", TYPE_A, 1 },
		{ "10-0-0-1", "10-0-0-1.big.test.svc.cluster.local", TYPE_SRV, 1 },
	};

	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct owner *owner = fill_tiny(SOME_TINY, cases[i].hostname);
		double few_s = ask(cases[i].question, cases[i].type, cases[i].records);

		drop_tiny(owner);
		owner = fill_tiny(MANY_TINY, cases[i].hostname);
		double many_s = ask(cases[i].question, cases[i].type, cases[i].records);
		drop_tiny(owner);
		print_message("%s %u: %.0f us, %.0f us\n", cases[i].question, cases[i].type,
		    few_s * 1e6, many_s * 1e6);
		assert_true(many_s < 6 * few_s + 0.0005);
	}
}

/* Adds a slice to the slices of fill_tiny(). The new slice has this many unnamed endpoints. Port 80
 * has this many names. */
static void
add_slice(struct owner *owner, unsigned endpoint_count, unsigned port_count)
{
	static struct endpoint endpoints[ENDPOINTS];
	static struct port items[ENDPOINTS];
	/* The list of the last call. The test removes the owner of the slice before it calls this
	 * function again. */
	static struct ports *ports;

	for (unsigned i = 0; i < port_count; i++) {
		items[i] = (struct port){ .number = 80, .proto = "\4_tcp" };
		items[i].name[0] = (uint8_t)snprintf(
		    (char *)items[i].name + 1, sizeof items[i].name - 1, "_p%u", i);
	}
	for (unsigned i = 0; i < endpoint_count; i++) {
		endpoints[i] = (struct endpoint){ .addr = { .family = AF_INET }, .ready = true };
		wire_put32(endpoints[i].addr.bytes, (10u << 24) + 1 + i);
	}
	free(ports);
	ports = ports_new(tree_current(bed.cache)->seed, items, port_count);
	treecache_slice(bed.cache, owner, 0,
	    &(struct slice_source){ .name = "more",
		.family = AF_INET,
		.ports = ports,
		.endpoints = endpoints,
		.count = endpoint_count });
	treecache_publish(bed.cache, 1, true);
}

/* The target of an unnamed endpoint is its address. Other endpoints with this address have a name,
 * and are not searched. */
static void
the_additional_section_of_an_address_is_the_address(void **state)
{
	double took_s[2];

	(void)state;

	for (unsigned i = 0; i < 2; i++) {
		struct owner *owner = fill_tiny(i == 0 ? FEW_TINY : MANY_TINY, "a");

		add_slice(owner, 100, 1);
		took_s[i] = ask("_p0._tcp.big.test.svc.cluster.local", TYPE_SRV, 100);
		assert_int_equal(wire_get16(bed.out + 10), 100 + 1); /* and the OPT */
		/* This name finds the endpoint, although many other endpoints have the same address
		 * and a name. */
		ask("10-0-0-1.big.test.svc.cluster.local", TYPE_A, 1);
		drop_tiny(owner);
	}
	assert_true(took_s[1] < 8 * took_s[0] + 0.002);
}

/* With --nearest, the slices are examined up to a limit. The answer has the endpoints of all
 * slices. */
static void
slices_beyond_a_bound_are_not_put_in_order(void **state)
{
	struct client_place here = client_place_of("node-1", "zone-a");
	const struct endpoint last = { .addr = { .family = AF_INET, .bytes = { 10, 9, 9, 9 } },
		.ready = true };
	double took_s[2];
	size_t len;

	(void)state;

	bed.parts.choice.place = &here;
	bed.parts.choice.nearest = bed.parts.choice.zonal = true;
	for (unsigned i = 0; i < 2; i++) {
		struct owner *owner = fill_tiny(i == 0 ? FEW_TINY : MANY_TINY, NULL);

		/* This slice comes after all others. */
		treecache_slice(bed.cache, owner, 0,
		    &(struct slice_source){ .name = "z",
			.family = AF_INET,
			.ports = owner->endpoints->slices[0].slice->ports,
			.endpoints = &last,
			.count = 1 });
		treecache_publish(bed.cache, 1, true);
		took_s[i] = ask("big.test.svc.cluster.local", TYPE_A, 2) +
			    ask("zone-a.pin._zone.big.test.svc.cluster.local", TYPE_A, 0);
		char *text = explain_text(&(struct explain_config){ .answers = &bed.config,
					      .tree = tree_current(bed.cache),
					      .store = bed.store },
		    "big.test.svc.cluster.local.", &len);
		assert_non_null(strstr(text,
		    i == 0 ? "nearest first (--nearest)"
			   : "there are 32001 EndpointSlices, and --nearest orders at most 4096"));
		free(text);
		drop_tiny(owner);
	}
	assert_true(took_s[1] < 6 * took_s[0] + 0.0001);
}

/* There are very many slices. Each name is in one slice. */
static void
a_wildcard_for_ports_has_a_bound(void **state)
{
	double took_s[2];

	(void)state;

	bed.parts.zone.wildcards = true;
	for (unsigned i = 0; i < 2; i++) {
		struct owner *owner = fill_tiny(i == 0 ? FEW_TINY : MANY_TINY, NULL);

		add_slice(owner, 1, ENDPOINTS);
		took_s[i] = ask("*._tcp.big.test.svc.cluster.local", TYPE_SRV, 1);
		drop_tiny(owner);
	}
	assert_true(took_s[1] < 8 * took_s[0] + 0.002);
}

/* Returns the time of a search for a port. */
static double
look_for_port(const struct endpoint_set *endpoints, uint64_t label, bool there)
{
	double begun_s = cpu_s();

	for (unsigned n = 0; n < 500; n++)
		assert_int_equal(endpoint_set_has_port(endpoints, label), there);
	return cpu_s() - begun_s;
}

/* No endpoint has the port in the query. The search examines a limited number of slices, whatever
 * port lists the slices have. Beyond the limit, the name exists without records. */
static void
a_port_is_looked_for_in_a_bounded_number_of_slices(void **state)
{
	enum { MOST = 16 * PORT_SLICES_MAX };
	static struct ports *lists[MOST];
	struct treecache *tree = treecache_new(1);
	struct owner *owner = treecache_owner(tree, (const uint8_t *)"\2db\2ns\3svc");
	const struct endpoint endpoint = { .addr = { .family = AF_INET }, .ready = true };
	const uint8_t *tcp = (const uint8_t *)"\4_tcp";
	uint64_t none = port_label(1, (const uint8_t *)"\5_none", tcp);
	uint64_t last = port_label(1, (const uint8_t *)"\5_last", tcp);
	static char names[MOST][8];
	double at_bound_s = 0;
	(void)state;

	for (unsigned s = 0; s < MOST; s++) {
		struct port port = { .number = 80, .name = "\5_http", .proto = "\4_tcp" };

		if (s == PORT_SLICES_MAX - 1)
			memcpy(port.name, "\5_last", 6);
		lists[s] = ports_new(1, &port, 1);
		snprintf(names[s], sizeof names[s], "s%05u", s);
		const struct slice_source source = { .name = names[s],
			.family = AF_INET,
			.ports = lists[s],
			.endpoints = &endpoint,
			.count = 1 };
		treecache_slice(tree, owner, 0, &source);
		if (s == PORT_SLICES_MAX - 1) {
			assert_true(endpoint_set_has_port(owner->endpoints, last));
			at_bound_s = look_for_port(owner->endpoints, none, false);
		}
	}
	assert_true(look_for_port(owner->endpoints, none, true) < 5 * at_bound_s + 0.005);
	while (owner->endpoints->count > 0)
		treecache_slice_remove(
		    tree, owner, owner->endpoints->slices[owner->endpoints->count - 1].slot);
	treecache_owner_free(tree, owner);
	treecache_free(tree);
	for (unsigned s = 0; s < MOST; s++)
		free(lists[s]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    a_port_is_looked_for_in_a_bounded_number_of_slices, begin, end),
		cmocka_unit_test_setup_teardown(
		    slices_of_one_name_are_taken_in_linear_time, begin, end),
		cmocka_unit_test_setup_teardown(
		    slices_of_the_same_names_are_taken_in_linear_time, begin, end),
		cmocka_unit_test_setup_teardown(
		    slices_of_the_same_addresses_are_taken_in_linear_time, begin, end),
		cmocka_unit_test_setup_teardown(an_answer_in_vain_has_a_bound, begin, end),
		cmocka_unit_test_setup_teardown(
		    the_additional_section_of_an_address_is_the_address, begin, end),
		cmocka_unit_test_setup_teardown(
		    slices_beyond_a_bound_are_not_put_in_order, begin, end),
		cmocka_unit_test_setup_teardown(a_wildcard_for_ports_has_a_bound, begin, end),
		cmocka_unit_test_setup_teardown(
		    the_additional_section_of_shared_names_has_a_bound, begin, end),
		cmocka_unit_test_setup_teardown(
		    a_zone_is_walked_in_linear_time_whoever_shares_a_name, begin, end),
		cmocka_unit_test_setup_teardown(
		    an_answer_passes_over_what_a_slice_has_again, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
