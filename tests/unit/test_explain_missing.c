/* The other names that an explanation mentions. An explanation over DNS is for anybody, an
 * explanation over HTTP for people. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/show/explain.h"
#include "tests/unit/answer_bed.h"

static int
begin(void **state)
{
	bed_begin(state);
	bed_service("db", SERVICE_HEADLESS, "", "sql/tcp/5432");
	bed_slice("db", "db-x", "sql/tcp/5432", "10.1.0.1=primary");
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	bed_slice("web", "web-x", "http/tcp/80", "10.1.0.2=frontend");
	bed_publish();
	return 0;
}

/* Returns an explanation from malloc(). It is for DNS if `by_dns`, otherwise for HTTP. */
static char *
explanation(const char *name, bool by_dns)
{
	const struct explain_config config = { .answers = &bed.config,
		.tree = tree_current(bed.cache),
		.store = by_dns ? NULL : bed.store };
	size_t len;

	return explain_text(&config, name, &len);
}

static void
expect_nearest(const char *name, bool by_dns, const char *nearest)
{
	char *text = explanation(name, by_dns);
	const char *found = strstr(text, "Nearest there: ");

	assert_non_null(strstr(text, "NXDOMAIN"));
	if (nearest == NULL)
		assert_null(found);
	else
		assert_non_null(found);
	if (nearest != NULL)
		assert_memory_equal(found + 15, nearest, strlen(nearest));
	free(text);
}

static void
hosts_of_a_headless_service_are_in_its_ptrs(void **state)
{
	(void)state;
	expect_nearest("primray.db.default.svc.cluster.local.", true, "primary");
	expect_nearest("primray.db.default.svc.cluster.local.", false, "primary");
}

static void
hosts_below_a_cluster_ip_are_for_local_peers_only(void **state)
{
	(void)state;
	expect_nearest("forntend.web.default.svc.cluster.local.", true, NULL);
	expect_nearest("forntend.web.default.svc.cluster.local.", false, "frontend");
}

static void
the_nearest_has_fewest_other_letters_then_comes_first(void **state)
{
	(void)state;
	bed_service("zoo", SERVICE_HEADLESS, "", "sql/tcp/5432");
	bed_slice("zoo", "zoo-x", "sql/tcp/5432",
	    "10.1.0.5=zebra12 10.1.0.6=zebra11 10.1.0.7=aebra11 10.1.0.8=zebra22");
	bed_publish();
	expect_nearest("zebra13.zoo.default.svc.cluster.local.", false, "zebra11");
	expect_nearest("zebra25.zoo.default.svc.cluster.local.", false, "zebra22");
	expect_nearest("aebra21.zoo.default.svc.cluster.local.", false, "aebra11");
	expect_nearest("xxxra11.zoo.default.svc.cluster.local.", false, NULL);
}

/* An explanation over DNS uses the time of a worker. It must not cost more in a namespace with any
 * number of Services than in one with a thousand. Over HTTP, all names are considered. */
static void
by_dns_a_thousand_names_are_looked_at(void **state)
{
	(void)state;
	enum { SERVICES = 4000, LETTERS = 26 };
	struct explain_config config = { .answers = &bed.config, .store = bed.store };
	unsigned found[2] = { 0 };
	char name[80];

	for (unsigned i = 0; i < SERVICES; i++) {
		snprintf(name, sizeof name, "a-name-of-another-length-%u", i);
		bed_service(name, SERVICE_CLUSTERIP, "10.96.1.1", "http/tcp/80");
	}
	for (unsigned i = 0; i < LETTERS; i++) {
		memset(name, 'a' + (int)i, 6);
		name[6] = '\0';
		bed_service(name, SERVICE_CLUSTERIP, "10.96.1.2", "http/tcp/80");
	}
	bed_publish();
	config.tree = tree_current(bed.cache);
	for (unsigned i = 0; i < 2 * LETTERS; i++) {
		size_t len;

		memset(name, 'a' + (int)i / 2, 5);
		strcpy(name + 5, "0.default.svc.cluster.local.");
		config.store = i % 2 == 0 ? NULL : bed.store;
		char *text = explain_text(&config, name, &len);
		found[i % 2] += strstr(text, "Nearest there: ") != NULL;
		free(text);
	}
	assert_int_equal(found[1], LETTERS);
	assert_in_range(found[0], 1, LETTERS / 2);
}

/* Returns whether the explanation of the name contains this text. */
static bool
says(const char *name, bool by_dns, const char *part)
{
	char *text = explanation(name, by_dns);
	bool found = strstr(text, part) != NULL;

	free(text);
	return found;
}

/* Services count even if they are not mentioned. A tenant may have a Service of this name in any
 * number of namespaces. */
static void
of_a_label_a_thousand_services_are_looked_at(void **state)
{
	char name[16];

	(void)state;
	for (unsigned i = 0; i < 1001; i++) {
		snprintf(name, sizeof name, "ns%u", i);
		bed_namespace(name);
		bed_service("out", SERVICE_EXTERNALNAME, "example.com", "");
		if (i == 999) {
			bed_publish();
			assert_true(
			    says("out.", true, "no namespace has a Service out with records"));
		}
	}
	bed_publish();
	assert_true(says("out.", true,
	    "more than 1000 namespaces have a Service out: the others were not examined"));
	assert_false(says("out.", true, "no namespace has a Service out with records"));
	bed_namespace("default");
}

/* A slice counts even if it publishes no endpoint. */
static void
by_dns_a_thousand_slices_are_looked_at(void **state)
{
	char name[16];

	(void)state;
	/* All of these slices come before the slice with the endpoint. */
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "a%03u", i);
		bed_slice("db", name, "sql/tcp/5432", "");
		if (i == 900) {
			bed_publish();
			expect_nearest("x.primray.db.default.svc.cluster.local.", true, "primary");
		}
	}
	bed_publish();
	expect_nearest("x.primray.db.default.svc.cluster.local.", true, NULL);
	expect_nearest("x.primray.db.default.svc.cluster.local.", false, "primary");
}

static void
of_a_service_twenty_slices_are_shown(void **state)
{
	char name[16], address[32];

	(void)state;
	/* The Service already has one slice. */
	for (unsigned i = 0; i < 20; i++) {
		if (i == 19) {
			bed_publish();
			assert_false(says("db.default.svc.cluster.local.", false, "from more"));
		}
		snprintf(name, sizeof name, "db-%02u", i);
		snprintf(address, sizeof address, "10.1.0.1=primary 10.2.0.%u", i);
		bed_slice("db", name, "sql/tcp/5432", address);
	}
	bed_publish();
	assert_true(
	    says("db.default.svc.cluster.local.", false, "\n  and from more EndpointSlices\n"));
	assert_true(says(
	    "primary.db.default.svc.cluster.local.", false, "\n  and from more EndpointSlices\n"));
}

/* For a name in our reverse zones, the answer and the explanation agree. */
static void
names_of_prefixes_in_reverse_zones_are_ours(void **state)
{
	static const struct {
		const char *name, *says, *rcode;
	} rows[] = {
		{ "10.in-addr.arpa.",
		    "10.in-addr.arpa. is a zone of --reverse-cidrs.\n  10.in-addr.arpa. ",
		    "NOERROR" },
		{ "1.10.in-addr.arpa.",
		    "1.10.in-addr.arpa. exists, in the zone 10.in-addr.arpa. of", "NOERROR" },
		{ "9.10.in-addr.arpa.",
		    "NXDOMAIN: 9.10.in-addr.arpa. is in the zone 10.in-addr.arpa. of", "NXDOMAIN" },
		{ "x.10.in-addr.arpa.",
		    "NXDOMAIN: x.10.in-addr.arpa. is in the zone 10.in-addr.arpa. of", "NXDOMAIN" },
		{ "9.0.9.10.in-addr.arpa.", "NXDOMAIN: no Service or endpoint has this address",
		    "NXDOMAIN" },
	};

	(void)state;
	bed_reverse_zone("10.0.0.0/8");
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		assert_true(says(rows[i].name, false, rows[i].says));
		assert_true(says(rows[i].name, true, rows[i].says));
		assert_false(says(rows[i].name, false, "not in a zone of this server"));
		assert_non_null(strstr(bed_ask(rows[i].name, "TXT"), rows[i].rcode));
	}
	assert_true(says("9.9.9.in-addr.arpa.", false, "not in a zone of this server"));
}

/* --fallthrough applies to the name, but the ConfigMap asks for TLS, so the answer is SERVFAIL. */
static void
a_missing_name_that_kubedns_must_not_send_in_plain_text_is_servfail(void **state)
{
	static const char *const names[] = { "none.default.svc.cluster.local.",
		"9.0.9.10.in-addr.arpa.", "9.10.in-addr.arpa." };
	struct dname everything = { .len = 1 };

	(void)state;
	bed_reverse_zone("10.0.0.0/8");
	bed.parts.upstream.fallthrough = &everything;
	bed.parts.upstream.fallthrough_count = 1;
	bed_context("null", "null")->closed = true;
	bed_publish();
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		assert_string_equal(bed_ask(names[i], "A"), "SERVFAIL");
		assert_true(says(names[i], false, "SERVFAIL: "));
		assert_true(says(names[i], false,
		    "--fallthrough sends such names to other servers, but the ConfigMap asks for "
		    "TLS"));
		assert_false(says(names[i], false, "NXDOMAIN"));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    of_a_label_a_thousand_services_are_looked_at, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    by_dns_a_thousand_slices_are_looked_at, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    of_a_service_twenty_slices_are_shown, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    by_dns_a_thousand_names_are_looked_at, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    hosts_of_a_headless_service_are_in_its_ptrs, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    hosts_below_a_cluster_ip_are_for_local_peers_only, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    names_of_prefixes_in_reverse_zones_are_ours, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    the_nearest_has_fewest_other_letters_then_comes_first, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    a_missing_name_that_kubedns_must_not_send_in_plain_text_is_servfail, begin,
		    bed_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
