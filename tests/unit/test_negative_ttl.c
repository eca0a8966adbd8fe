/* How long negative answers may be cached. There is a row for each reason why a name can be
 * missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/answer/zone_lookup.h"
#include "tests/unit/answer_bed.h"

/* Sends a query. Returns the TTL of the SOA in the authority section. The MINIMUM of the SOA must
 * be the same. */
static unsigned
kept_s(const char *name, const char *type, const char *rcode)
{
	const char *text = bed_ask(name, type);
	size_t at = DNS_HEADER;
	struct record record = { 0 };
	struct dname question;

	if (strncmp(text, rcode, strlen(rcode)) != 0 || strstr(text, "SOA of") == NULL)
		fail_msg("%s %s: %s", name, type, text);
	assert_int_equal(wire_read_name(bed.out, bed.info.len, &at, &question), 0);
	at += 4;
	for (unsigned i = 0; i < wire_get16(bed.out + 6) + 1u; i++)
		assert_int_equal(wire_read_record(bed.out, bed.info.len, &at, &record), 0);
	assert_int_equal(record.type, TYPE_SOA);
	unsigned minimum = wire_get32(record.rdata + record.rdata_len - 4);
	assert_int_equal(record.ttl_s, minimum);
	return minimum;
}

static unsigned
missing(const char *name)
{
	return kept_s(name, "A", "NXDOMAIN");
}

static void
service_that_is_not_there_is_kept_as_the_flag_says(void **state)
{
	(void)state;
	assert_int_equal(missing("nobody.default.svc"), 5);
	assert_int_equal(missing("nobody.nowhere.svc"), 5);
	assert_int_equal(missing("nowhere.svc"), 5);
	assert_int_equal(missing("_http._tcp.nobody.default.svc"), 5);
	assert_int_equal(missing("1-2-3.default.pod"), 5);
	assert_int_equal(missing("nowhere.pod"), 5);
	bed.config.negative_ttl_s = 0;
	assert_int_equal(missing("nobody.default.svc"), 0);
}

static void
headless_service_without_a_ready_endpoint_is_about_to_exist(void **state)
{
	(void)state;
	bed_service("db", SERVICE_HEADLESS, NULL, "sql/tcp/5432");
	bed_publish();
	assert_int_equal(missing("db.default.svc"), 0); /* the slice has not arrived yet */
	assert_int_equal(missing("db-0.db.default.svc"), 0);
	assert_int_equal(missing("_sql._tcp.db.default.svc"), 0);
	bed_slice("db", "db-1", "sql/tcp/5432", "!10.1.0.1=db-0");
	bed_publish();
	assert_int_equal(missing("db.default.svc"), 0);
	assert_int_equal(missing("db-0.db.default.svc"), 0);
}

static void
members_of_a_headless_service_come_and_go(void **state)
{
	(void)state;
	bed_service("db", SERVICE_HEADLESS, NULL, "sql/tcp/5432");
	bed_slice("db", "db-1", "sql/tcp/5432", "10.1.0.1=db-0 !10.1.0.2=db-1");
	bed_publish();
	assert_int_equal(missing("db-1.db.default.svc"), 0);
	assert_int_equal(missing("db-2.db.default.svc"), 0);
	assert_int_equal(kept_s("db-0.db.default.svc", "AAAA", "NOERROR"), 5);
	bed_service("alias", SERVICE_EXTERNALNAME, "db-1.db.default.svc.cluster.local", "");
	bed_publish();
	assert_int_equal(missing("alias.default.svc"), 0);
}

static void
empty_cluster_ip_service_with_ignore_empty_service_too(void **state)
{
	(void)state;
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "");
	bed_slice("web", "web-1", "", "!10.1.0.1");
	bed_publish();
	assert_int_equal(kept_s("web.default.svc", "AAAA", "NOERROR"), 5);
	bed.parts.zone.ignore_empty_service = true;
	assert_int_equal(missing("web.default.svc"), 0);
}

/* A pod of the namespace default with ndots:5 looks up `example.com`. */
static void
what_search_lists_make_of_outside_names_is_kept_longer(void **state)
{
	(void)state;
	assert_int_equal(missing("example.com.default.svc"), 5); /* pod `example`, Service `com` */
	assert_int_equal(missing("www.example.com.default.svc"), 300);
	assert_int_equal(missing("api.eu-west-1.example.com.default.svc"), 300);
	assert_int_equal(missing("www.example.com.svc"), 5);
	assert_int_equal(missing("api.www.example.com.svc"), 300);
	assert_int_equal(missing("com"), 30);
	assert_int_equal(missing("www.example.com"), 30);
	assert_int_equal(missing("_ldap._tcp.dc.example.com.default.svc"), 300);
	assert_int_equal(missing("http.tcp.nobody.default.svc"), 300);
	assert_int_equal(missing("_http.tcp.nobody.default.svc"), 300);
	assert_int_equal(missing("http._tcp.nobody.default.svc"), 300);
	assert_int_equal(missing("x.1-2-3-4.default.pod"), 300);
	assert_int_equal(missing("x.ns.dns"), 300);
	bed.config.negative_ttl_s = 600;
	assert_int_equal(missing("www.example.com.default.svc"), 600);
	assert_int_equal(missing("example.com.default.svc"), 600);
	bed.config.negative_ttl_s = 0;
	assert_int_equal(missing("www.example.com.default.svc"), 300);
}

static void
pod_whose_service_is_not_there_yet_is_not(void **state)
{
	(void)state;
	assert_int_equal(missing("web-0.web.default.svc"), 5);
	assert_int_equal(missing("web-x.web.default.svc"), 5);
	bed.config.negative_ttl_s = 0;
	assert_int_equal(missing("web-x.web.default.svc"), 0);
}

static void
a_service_named_as_the_last_label_changes_that(void **state)
{
	(void)state;
	bed_service("com", SERVICE_CLUSTERIP, "10.96.0.7", "");
	bed_publish();
	assert_int_equal(missing("example.com.default.svc"), 5);
	assert_int_equal(missing("www.example.com.default.svc"), 300);
}

static void
the_apexs_soa_and_nodata_are_as_they_were(void **state)
{
	(void)state;
	assert_int_equal(kept_s("default.svc", "A", "NOERROR"), 5);
	bed_ask("cluster.local.", "SOA");
	assert_int_equal(wire_get32(bed.out + bed.info.len - 4), 5);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_begin, bed_end)
	const struct CMUnitTest tests[] = {
		TEST(service_that_is_not_there_is_kept_as_the_flag_says),
		TEST(headless_service_without_a_ready_endpoint_is_about_to_exist),
		TEST(members_of_a_headless_service_come_and_go),
		TEST(empty_cluster_ip_service_with_ignore_empty_service_too),
		TEST(what_search_lists_make_of_outside_names_is_kept_longer),
		TEST(pod_whose_service_is_not_there_yet_is_not),
		TEST(a_service_named_as_the_last_label_changes_that),
		TEST(the_apexs_soa_and_nodata_are_as_they_were),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
