/* --print-zone: a zone as a master file. The cluster is so small that its lines can be counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <ldns/ldns.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/show/zone.h"
#include "tests/unit/answer_bed.h"

/* Returns the text of the zone. The caller frees it. */
static char *
printed(const char *which)
{
	size_t zone;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(zone_find(&bed.config, which, &zone), 0);
	assert_int_equal(zone_print(out, &bed.config, tree_current(bed.cache), zone), 0);
	fclose(out);
	return text;
}

/* Returns whether the text contains this record, with any TTL. ldns parses the text as a zone. */
static bool
has(const ldns_zone *zone, const char *record)
{
	ldns_rr *wanted = NULL;
	const ldns_rr_list *rrs = ldns_zone_rrs(zone);
	bool found = false;

	assert_int_equal(ldns_rr_new_frm_str(&wanted, record, 30, NULL, NULL), LDNS_STATUS_OK);
	for (size_t i = 0; i < ldns_rr_list_rr_count(rrs); i++)
		found = found || ldns_rr_compare(ldns_rr_list_rr(rrs, i), wanted) == 0;
	ldns_rr_free(wanted);
	return found;
}

static ldns_zone *
read_again(char *text)
{
	ldns_zone *zone = NULL;
	FILE *in = fmemopen(text, strlen(text), "r");
	ldns_status status = ldns_zone_new_frm_fp(&zone, in, NULL, 0, LDNS_RR_CLASS_IN);

	if (status != LDNS_STATUS_OK)
		fail_msg("%s in:\n%s", ldns_get_errorstr_by_id(status), text);
	fclose(in);
	return zone;
}

static void
make_cluster(void)
{
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	bed_service("out", SERVICE_EXTERNALNAME, "www.example.net", "");
	bed_service("db", SERVICE_HEADLESS, NULL, "pg/tcp/5432");
	bed_slice("db", "db-1", "pg/tcp/5432", "10.1.0.1=db-0 10.1.0.2");
	bed_reverse_zone("10.0.0.0/8");
	bed_publish();
}

static void
every_name_is_in_it_with_what_a_query_would_get(void **state)
{
	static const char *const records[] = {
		"web.default.svc.cluster.local. 30 IN A 10.96.0.1",
		"_http._tcp.web.default.svc.cluster.local. 30 IN SRV 0 100 80 "
		"web.default.svc.cluster.local.",
		"out.default.svc.cluster.local. 30 IN CNAME www.example.net.",
		"db.default.svc.cluster.local. 30 IN A 10.1.0.1",
		"db.default.svc.cluster.local. 30 IN A 10.1.0.2",
		"db-0.db.default.svc.cluster.local. 30 IN A 10.1.0.1",
		"10-1-0-2.db.default.svc.cluster.local. 30 IN A 10.1.0.2",
		"_pg._tcp.db.default.svc.cluster.local. 30 IN SRV 0 50 5432 "
		"db-0.db.default.svc.cluster.local.",
		"_pg._tcp.db.default.svc.cluster.local. 30 IN SRV 0 50 5432 "
		"10-1-0-2.db.default.svc.cluster.local.",
	};
	(void)state;

	make_cluster();
	char *text = printed("");
	ldns_zone *zone = read_again(text);
	assert_non_null(ldns_zone_soa(zone));
	for (size_t i = 0; i < sizeof records / sizeof records[0]; i++)
		if (!has(zone, records[i]))
			fail_msg("%s is not in:\n%s", records[i], text);
	assert_null(strstr(text, "in-addr.arpa"));
	ldns_zone_deep_free(zone);
	free(text);
}

static void
a_reverse_zone_has_the_ptrs_and_nothing_of_the_other(void **state)
{
	static const char *const records[] = {
		"1.0.96.10.in-addr.arpa. 30 IN PTR web.default.svc.cluster.local.",
		"1.0.1.10.in-addr.arpa. 30 IN PTR db-0.db.default.svc.cluster.local.",
		"2.0.1.10.in-addr.arpa. 30 IN PTR 10-1-0-2.db.default.svc.cluster.local.",
	};
	(void)state;

	make_cluster();
	char *text = printed("10.in-addr.arpa");
	ldns_zone *zone = read_again(text);
	for (size_t i = 0; i < sizeof records / sizeof records[0]; i++)
		if (!has(zone, records[i]))
			fail_msg("%s is not in:\n%s", records[i], text);
	assert_null(strstr(text, " A\t"));
	ldns_zone_deep_free(zone);
	free(text);
}

/* Many slices have the same address with the same host name. Some other slices have the address
 * with other names, which must be in the zone too. Over TCP, 1,425 records of that length fill a
 * message. */
static void
an_address_in_many_slices_has_each_of_its_names(void **state)
{
	enum { SLICES = 3000, OTHERS_EVERY = 500 };
	char slice[16], address[32], record[96];

	(void)state;

	bed_service("db", SERVICE_HEADLESS, NULL, "pg/tcp/5432");
	for (unsigned i = 0; i < SLICES; i++) {
		snprintf(slice, sizeof slice, "db-%u", i);
		if (i % OTHERS_EVERY == 0)
			snprintf(address, sizeof address, "10.1.0.9=other-%u", i);
		else
			strcpy(address, "10.1.0.9=same");
		bed_slice("db", slice, "pg/tcp/5432", address);
	}
	bed_reverse_zone("10.0.0.0/8");
	bed_publish();
	char *text = printed("10.in-addr.arpa");
	ldns_zone *zone = read_again(text);
	assert_true(
	    has(zone, "9.0.1.10.in-addr.arpa. 30 IN PTR same.db.default.svc.cluster.local."));
	for (unsigned i = 0; i < SLICES; i += OTHERS_EVERY) {
		snprintf(record, sizeof record,
		    "9.0.1.10.in-addr.arpa. 30 IN PTR other-%u.db.default.svc.cluster.local.", i);
		if (!has(zone, record))
			fail_msg("%s is missing", record);
	}
	ldns_zone_deep_free(zone);
	free(text);
}

static void
a_zone_of_others_is_refused(void **state)
{
	size_t zone;

	(void)state;

	make_cluster();
	assert_int_equal(zone_find(&bed.config, "example.org", &zone), -EINVAL);
	assert_int_equal(zone_find(&bed.config, "11.in-addr.arpa", &zone), -EINVAL);
}

/* Two clusters have the same objects, which were created in different orders. Their text is the
 * same. */
static void
it_is_sorted_whatever_the_order_of_events(void **state)
{
	(void)state;

	make_cluster();
	char *one = printed("");
	bed_end(NULL);
	bed_begin(NULL);
	bed_slice("db", "db-1", "pg/tcp/5432", "10.1.0.2 10.1.0.1=db-0");
	bed_service("db", SERVICE_HEADLESS, NULL, "pg/tcp/5432");
	bed_service("out", SERVICE_EXTERNALNAME, "www.example.net", "");
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	bed_reverse_zone("10.0.0.0/8");
	bed_publish();
	char *other = printed("");
	assert_string_equal(one, other);
	ldns_zone *zone = read_again(one);
	const ldns_rr_list *rrs = ldns_zone_rrs(zone);
	for (size_t i = 1; i < ldns_rr_list_rr_count(rrs); i++)
		assert_true(ldns_dname_compare(ldns_rr_owner(ldns_rr_list_rr(rrs, i - 1)),
				ldns_rr_owner(ldns_rr_list_rr(rrs, i))) <= 0);
	ldns_zone_deep_free(zone);
	free(one);
	free(other);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_begin, bed_end)
	const struct CMUnitTest tests[] = {
		TEST(every_name_is_in_it_with_what_a_query_would_get),
		TEST(a_reverse_zone_has_the_ptrs_and_nothing_of_the_other),
		TEST(an_address_in_many_slices_has_each_of_its_names),
		TEST(a_zone_of_others_is_refused),
		TEST(it_is_sorted_whatever_the_order_of_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
