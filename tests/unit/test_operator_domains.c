/* Names below a local name (`hosts`, `records`, `rewrites`). If such a name is in a stub domain,
 * dnsmasq must still send it to the servers of the stub domain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "nanny/config.h"
#include "nanny/engine.h"

#define NOTHING "# nothing\n"

enum { LISTED_MAX = 4096 };

static struct confdir_key
key(const char *name, const char *value)
{
	return (struct confdir_key){
		.name = strdup(name), .value = strdup(value), .len = strlen(value)
	};
}

static bool kubedns_has_address = true;

/* Returns the table as `domain=server,server domain=...`. kubedns is 10.0.0.53. The command line of
 * dnsmasq has 10.7.7.7 for given.example. */
static const char *
table_with_records(const char *stubs, const char *hosts, const char *rewrites, const char *records)
{
	static char listed[LISTED_MAX];
	struct confdir_key keys[] = { key("stubDomains", stubs),
		key("upstreamNameservers", "[\"9.9.9.9\"]"), key("hosts", hosts),
		key("rewrites", rewrites), key("records", records) };
	struct confdir_set set = { .keys = keys, .count = 5, .exists = true };
	struct args args = { 0 };
	struct forwarding_loop guard = { .port = 53 };
	struct resolv resolv = { 0 };
	struct config config = { 0 };
	static const struct engine engine = { .name = "dnsmasq" };
	struct config_rules rules = { .path = "/etc/k8s",
		.domain = "cluster.local.",
		.args = &args,
		.engine = &engine,
		.guard = &guard };
	struct server kubedns, other;
	char text[SERVER_TEXT_MAX];
	size_t len = 0;

	assert_int_equal(server_parse("10.0.0.53", 53, &kubedns, NULL), 0);
	struct domain_servers *cluster = domain_table_add(&args.fixed, "cluster.local");
	if (kubedns_has_address)
		assert_true(domain_servers_add_server(cluster, &kubedns));
	assert_int_equal(server_parse("10.7.7.7", 53, &other, NULL), 0);
	assert_true(
	    domain_servers_add_server(domain_table_add(&args.fixed, "given.example"), &other));
	assert_true(
	    domain_servers_add_server(domain_table_add(&args.fixed, "in-addr.arpa"), &kubedns));
	assert_true(config_apply(&config, &set, &rules));
	assert_int_equal(conf_keys_mistakes(&config.keys), 0);
	/* If the same configuration is applied again, that is not a change. */
	assert_false(config_apply(&config, &set, &rules));
	struct domain_table table = config_domain_table(&config, &resolv, NULL, &guard, NULL);
	for (size_t i = 0; i < table.count; i++) {
		len += (size_t)snprintf(listed + len, sizeof listed - len, "%s%s=", i ? " " : "",
		    table.items[i].domain);
		for (size_t k = 0; k < table.items[i].count; k++)
			len += (size_t)snprintf(listed + len, sizeof listed - len, "%s%s",
			    k ? "," : "", server_format(&table.items[i].servers[k], text));
		assert_true(len < sizeof listed);
		if (i > 0)
			assert_true(strcmp(table.items[i - 1].domain, table.items[i].domain) < 0);
	}
	domain_table_free(&table);
	config_free(&config);
	domain_table_free(&args.fixed);
	for (size_t i = 0; i < 5; i++) {
		free(keys[i].name);
		free(keys[i].value);
	}
	return listed;
}

static const char *
table_of(const char *stubs, const char *hosts, const char *rewrites)
{
	return table_with_records(stubs, hosts, rewrites, "; nothing\n");
}

static void
below_an_own_name_the_stub_domain_around_it_is_asked(void **state)
{
	(void)state;
	assert_string_equal(table_of("{\"corp\": [\"10.1.1.1\", \"10.1.1.2\"]}",
				"10.0.0.5 example.corp\n", NOTHING),
	    "=9.9.9.9:53 *.example.corp=10.1.1.1:53,10.1.1.2:53 corp=10.1.1.1:53,10.1.1.2:53 "
	    "example.corp=10.0.0.53:53");
	assert_string_equal(table_of("{\"corp\": [\"10.1.1.1\"], \"b.corp\": [\"10.1.1.2\"]}",
				NOTHING, "exact a.corp x.example\nexact a.b.corp x.example\n"),
	    "=9.9.9.9:53 *.a.b.corp=10.1.1.2:53 *.a.corp=10.1.1.1:53 a.b.corp=10.0.0.53:53 "
	    "a.corp=10.0.0.53:53 b.corp=10.1.1.2:53 corp=10.1.1.1:53");
}

static void
below_an_own_name_the_servers_of_the_command_line_are_asked(void **state)
{
	(void)state;
	assert_string_equal(
	    table_of("{\"corp\": [\"10.1.1.1\"]}",
		"10.0.0.5 h.given.example\n10.0.0.6 5.0.0.10.in-addr.arpa\n", NOTHING),
	    "=9.9.9.9:53 *.h.given.example=10.7.7.7:53 5.0.0.10.in-addr.arpa=10.0.0.53:53 "
	    "corp=10.1.1.1:53 h.given.example=10.0.0.53:53");
	assert_string_equal(
	    table_of("{\"example\": [\"10.1.1.1\"], \"b.given.example\": [\"10.1.1.2\"]}",
		"10.0.0.5 h.given.example h.b.given.example\n", NOTHING),
	    "=9.9.9.9:53 *.h.b.given.example=10.1.1.2:53 *.h.given.example=10.7.7.7:53 "
	    "b.given.example=10.1.1.2:53 example=10.1.1.1:53 "
	    "h.b.given.example=10.0.0.53:53 h.given.example=10.0.0.53:53");
}

/* dnsmasq has --local=/cluster.local/. */
static void
without_an_address_of_kubedns_own_names_are_nobodys(void **state)
{
	(void)state;
	kubedns_has_address = false;
	assert_string_equal(table_of("{\"corp\": [\"10.1.1.1\"]}",
				"10.0.0.5 h.given.example h.corp example.org\n", NOTHING),
	    "=9.9.9.9:53 corp=10.1.1.1:53");
	kubedns_has_address = true;
}

static void
outside_of_stub_domains_it_is_kubedns_with_its_upstream_servers(void **state)
{
	(void)state;
	assert_string_equal(table_of("{\"corp\": [\"10.1.1.1\"]}",
				"10.0.0.5 example.org myexample.xcorp\n", NOTHING),
	    "=9.9.9.9:53 corp=10.1.1.1:53 example.org=10.0.0.53:53 myexample.xcorp=10.0.0.53:53");
	assert_string_equal(table_of("{\"corp\": []}", "10.0.0.5 example.corp\n", NOTHING),
	    "=9.9.9.9:53 example.corp=10.0.0.53:53");
}

static void
below_a_suffix_every_name_is_kubedns_s(void **state)
{
	(void)state;
	assert_string_equal(table_of("{\"corp\": [\"10.1.1.1\"]}", "10.0.0.5 h.k8s.corp\n",
				"suffix k8s.corp svc.cluster.local\n"
				"exact k8s.corp x.example\n"),
	    "=9.9.9.9:53 corp=10.1.1.1:53 h.k8s.corp=10.0.0.53:53 k8s.corp=10.0.0.53:53");
}

static void
a_stub_domain_of_the_own_name_keeps_all_of_it(void **state)
{
	(void)state;
	assert_string_equal(table_of("{\"corp\": [\"10.1.1.1\"], \"a.corp\": [\"10.1.1.2\"]}",
				"10.0.0.5 a.corp\n", NOTHING),
	    "=9.9.9.9:53 a.corp=10.1.1.2:53 corp=10.1.1.1:53");
}

#define SOA " SOA a b 1 1 1 1 1\n"

static void
a_zone_of_records_is_kubedns_s_with_all_below(void **state)
{
	(void)state;
	assert_string_equal(
	    table_with_records("{\"corp\": [\"10.1.1.1\"], \"s.z.corp\": [\"10.1.1.2\"]}",
		"10.0.0.5 h.z.corp\n", NOTHING,
		"z.corp" SOA "a.z.corp A 10.0.0.1\nz.corp A 10.0.0.1\na.n.z.corp A 10.0.0.1\n"
		"n.z.corp" SOA "y.example TXT x\nweb.default.svc.cluster.local TXT x\n"),
	    "=9.9.9.9:53 corp=10.1.1.1:53 h.z.corp=10.0.0.53:53 n.z.corp=10.0.0.53:53 "
	    "s.z.corp=10.1.1.2:53 y.example=10.0.0.53:53 z.corp=10.0.0.53:53");
}

static void
a_wildcard_of_records_is_kubedns_s_without_its_domain(void **state)
{
	(void)state;
	assert_string_equal(
	    table_with_records("{\"corp\": [\"10.1.1.1\"], \"w.corp\": [\"10.1.1.2\"]}", NOTHING,
		NOTHING,
		"*.w.corp A 10.0.0.1\n*.v.corp A 10.0.0.1\nv.corp A 10.0.0.1\n"
		"a.corp A 10.0.0.1\nz.corp A 10.0.0.1\n"),
	    "=9.9.9.9:53 *.a.corp=10.1.1.1:53 *.v.corp=10.0.0.53:53 *.w.corp=10.0.0.53:53 "
	    "*.z.corp=10.1.1.1:53 a.corp=10.0.0.53:53 corp=10.1.1.1:53 v.corp=10.0.0.53:53 "
	    "w.corp=10.1.1.2:53 z.corp=10.0.0.53:53");
}

static void
a_name_that_several_keys_have_stands_there_once(void **state)
{
	(void)state;
	assert_string_equal(table_with_records("{}", "10.0.0.5 a.example\n",
				"exact a.example b.example\n", "a.example TXT x\n"),
	    "=9.9.9.9:53 a.example=10.0.0.53:53");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(below_an_own_name_the_stub_domain_around_it_is_asked),
		cmocka_unit_test(below_an_own_name_the_servers_of_the_command_line_are_asked),
		cmocka_unit_test(without_an_address_of_kubedns_own_names_are_nobodys),
		cmocka_unit_test(outside_of_stub_domains_it_is_kubedns_with_its_upstream_servers),
		cmocka_unit_test(below_a_suffix_every_name_is_kubedns_s),
		cmocka_unit_test(a_stub_domain_of_the_own_name_keeps_all_of_it),
		cmocka_unit_test(a_zone_of_records_is_kubedns_s_with_all_below),
		cmocka_unit_test(a_wildcard_of_records_is_kubedns_s_without_its_domain),
		cmocka_unit_test(a_name_that_several_keys_have_stands_there_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
