/*
 * The cost of external names. A tenant may have any number of them through Gateways and routes. The
 * tests compare times with a wide margin. Sixteen times as many objects take about sixteen times as
 * long. With quadratic cost, they would take 256 times as long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "kubedns/cluster/external/external.h"
#include "kubedns/cluster/label_selector.h"
#include "kubedns/cluster/external/object_external.h"
#include "lib/wire.h"
#include "tests/unit/cpu_time.h"
#include "treecache/treecache.h"

enum { FEW = 500, MANY = 16 * FEW, SEED = 7 };

static struct external *external;
static struct dname zone;

static void
renew_external(const struct label_selector *selector)
{
	const struct external_config config = {
		.zones = &zone, .zone_count = 1, .ttl_s = 30, .namespace_labels = selector
	};

	external_free(external);
	external = external_new(&config, SEED);
	external_begin(external);
}

static int
begin(void **state)
{
	(void)state;
	assert_int_equal(dname_from_text(&zone, "apps.example.com"), 0);
	renew_external(NULL);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	external_free(external);
	external = NULL;
	return 0;
}

/* Sends one event of an object. */
static void
tell(enum object_kind kind, const char *name, struct object_external *from)
{
	static unsigned version;
	char text[16];
	struct object object = { .kind = kind,
		.namespace = "shop",
		.name = name,
		.resource_version = text,
		.external = from };

	snprintf(text, sizeof text, "%u", ++version);
	external_event(external, kind, from != NULL ? EVENT_MODIFIED : EVENT_DELETED, &object);
}

static void
gateway(const char *name, uint32_t addr, struct object_listener *listeners, size_t count)
{
	struct addr of = { .family = AF_INET };

	wire_put32(of.bytes, addr);
	tell(OBJECT_GATEWAY, name,
	    &(struct object_external){
		.addrs = &of, .addr_count = 1, .listeners = listeners, .listener_count = count });
}

/* Returns the CPU time for Gateways that are added, changed and deleted. There are as many routes
 * as Gateways. Each route belongs to one Gateway. */
static double
gateways(unsigned count)
{
	struct object_listener listener = { "http", "", 80 };
	struct object_parent parent = { OBJECT_GATEWAY, "shop", NULL, "", 0 };
	char name[16], host[32];

	for (unsigned i = 0; i < count; i++) {
		struct object_text text = { host, 0 };

		text.len = (size_t)snprintf(host, sizeof host, "h%u.apps.example.com", i);
		parent.name = name;
		snprintf(name, sizeof name, "gw%u", i);
		tell(OBJECT_HTTPROUTE, name,
		    &(struct object_external){
			.hosts = &text, .host_count = 1, .parents = &parent, .parent_count = 1 });
	}
	double begun_s = cpu_s();
	for (unsigned step = 0; step < 2; step++)
		for (unsigned i = 0; i < count; i++) {
			snprintf(name, sizeof name, "gw%u", i);
			gateway(name, 0x0a000000 + step, &listener, 1);
		}
	assert_int_equal(external_name_count(external), count);
	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof name, "gw%u", i);
		tell(OBJECT_GATEWAY, name, NULL);
	}
	double took_s = cpu_s() - begun_s;
	assert_int_equal(external_name_count(external), 0);
	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof name, "gw%u", i);
		tell(OBJECT_HTTPROUTE, name, NULL);
	}
	treecache_publish(external_tree(external), 1, true);
	treecache_reclaim(external_tree(external));
	return took_s;
}

static void
gateways_cost_their_own_routes(void **state)
{
	(void)state;
	gateways(FEW);
	double few_s = gateways(FEW), many_s = gateways(MANY);
	print_message("%u: %.4f s, %u: %.4f s\n", FEW, few_s, MANY, many_s);
	assert_true(many_s < 60 * few_s + 0.02);
}

/* Returns the CPU time to add namespaces that a label selects. Each namespace has one Ingress. The
 * Ingress was added before the namespace. */
static double
namespaces(unsigned count)
{
	struct addr addr = { .family = AF_INET, .bytes = { 10, 0, 0, 1 } };
	struct object_key_value label = { "dns", "public", 6 };
	char name[16], host[32];
	double took_s = 0;

	for (unsigned step = 0; step < 4; step++) {
		/* The Ingresses are added in the first step and deleted in the third. */
		bool ingresses = step % 2 == 0;
		double begun_s = cpu_s();

		for (unsigned i = 0; i < count; i++) {
			struct object_text text = { host, 0 };
			struct object_external from = {
				.addrs = &addr, .addr_count = 1, .hosts = &text, .host_count = 1
			};

			text.len = (size_t)snprintf(host, sizeof host, "h%u.apps.example.com", i);
			snprintf(name, sizeof name, "n%u", i);
			const struct object object = { .kind = ingresses ? OBJECT_INGRESS
									 : OBJECT_NAMESPACE,
				.namespace = ingresses ? name : "",
				.name = name,
				.resource_version = "1",
				.labels = ingresses ? NULL : &label,
				.label_count = ingresses ? 0 : 1,
				.external = ingresses ? &from : NULL };
			external_event(
			    external, object.kind, step < 2 ? EVENT_ADDED : EVENT_DELETED, &object);
		}
		took_s += step == 1 ? cpu_s() - begun_s : 0;
		assert_int_equal(external_name_count(external), step == 1 ? count : 0);
	}
	treecache_publish(external_tree(external), 1, true);
	treecache_reclaim(external_tree(external));
	return took_s;
}

static void
namespaces_cost_their_own_objects(void **state)
{
	struct label_selector *selector = NULL;
	char *why = NULL;

	(void)state;
	assert_int_equal(label_selector_parse("dns=public", &selector, &why), 0);
	renew_external(selector);
	namespaces(FEW);
	double few_s = namespaces(FEW), many_s = namespaces(MANY);
	print_message("%u: %.4f s, %u: %.4f s\n", FEW, few_s, MANY, many_s);
	assert_true(many_s < 60 * few_s + 0.02);
	renew_external(NULL);
	label_selector_free(selector);
}

/* Returns the CPU time for a route with hosts that match each listener of a Gateway. */
static double
route(unsigned listeners)
{
	enum { HOSTS = 64, ADDRS = EXTERNAL_ADDRS_MAX };
	static struct object_listener at[EXTERNAL_LISTENERS_MAX];
	static struct addr addrs[ADDRS];
	static char hosts[HOSTS][32];
	struct object_text texts[HOSTS];
	struct object_parent parent = { OBJECT_GATEWAY, "shop", "gw", "", 0 };

	for (unsigned i = 0; i < listeners; i++)
		at[i] = (struct object_listener){ "http", "", 80 };
	for (unsigned i = 0; i < ADDRS; i++) {
		addrs[i].family = AF_INET;
		wire_put32(addrs[i].bytes, 10u << 24 | (i + 1));
	}
	for (unsigned i = 0; i < HOSTS; i++) {
		texts[i].text = hosts[i];
		texts[i].len =
		    (size_t)snprintf(hosts[i], sizeof hosts[i], "h%u.apps.example.com", i);
	}
	tell(OBJECT_GATEWAY, "gw",
	    &(struct object_external){ .addrs = addrs,
		.addr_count = ADDRS,
		.listeners = at,
		.listener_count = listeners });
	double begun_s = cpu_s();
	tell(OBJECT_HTTPROUTE, "r",
	    &(struct object_external){
		.hosts = texts, .host_count = HOSTS, .parents = &parent, .parent_count = 1 });
	double took_s = cpu_s() - begun_s;
	assert_int_equal(external_name_count(external), HOSTS);
	tell(OBJECT_HTTPROUTE, "r", NULL);
	tell(OBJECT_GATEWAY, "gw", NULL);
	treecache_publish(external_tree(external), 1, true);
	treecache_reclaim(external_tree(external));
	return took_s;
}

/* The addresses of a Gateway are added once, even if many of its listeners match a host. */
static void
listeners_do_not_multiply_a_gateways_addresses(void **state)
{
	(void)state;
	route(1);
	double one_s = route(1), all_s = route(EXTERNAL_LISTENERS_MAX);
	print_message("1: %.4f s, %u: %.4f s\n", one_s, EXTERNAL_LISTENERS_MAX, all_s);
	assert_true(all_s < 5 * one_s + 0.001);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(gateways_cost_their_own_routes, begin, end),
		cmocka_unit_test_setup_teardown(namespaces_cost_their_own_objects, begin, end),
		cmocka_unit_test_setup_teardown(
		    listeners_do_not_multiply_a_gateways_addresses, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
