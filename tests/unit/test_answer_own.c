/* Local names: answers from the ConfigMap keys `hosts` and `records`, in addition to the names of
 * the cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/local_names.h"
#include "kubedns/answer/stage.h"
#include "tests/unit/answer_bed.h"

#define CORP_SOA "SOA ns.corp.example. hostmaster.corp.example. 7 3600 600 86400 20"

static const char records[] = "$ORIGIN corp.example.\n"
			      "$TTL 100\n"
			      "@ SOA ns hostmaster 7 1h 10m 1d 20\n"
			      "@ NS ns\n"
			      "ns A 10.9.0.1\n"
			      "www A 10.9.0.2\n"
			      "www A 10.9.0.3\n"
			      "www TXT \"a b\"\n"
			      "alias CNAME www\n"
			      "twice CNAME alias\n"
			      "in CNAME shop.default.svc.cluster.local.\n"
			      "gone CNAME nobody.default.svc.cluster.local.\n"
			      "out CNAME www.outside.example.\n"
			      "round CNAME and\n"
			      "and CNAME round\n"
			      "*.wild A 10.9.0.4\n"
			      "host.wild A 10.9.0.5\n"
			      "*.also CNAME www\n"
			      "a.b.deep A 10.9.0.6\n"
			      "deeper.sub A 10.9.0.7\n"
			      "$ORIGIN other.example.\n"
			      "mail MX 10 mx\n"
			      "*.any A 10.9.1.1\n"
			      "x.y.any A 10.9.1.2\n"
			      "twin A 10.9.1.3\n"
			      "twin TXT hidden\n"
			      "$ORIGIN apex.example.\n"
			      "@ SOA ns hostmaster 7 1h 10m 1d 20\n"
			      "@ MX 10 mail\n"
			      "www A 10.9.2.1\n"
			      "$ORIGIN default.svc.cluster.local.\n"
			      "extra TXT hello\n"
			      "db CNAME www.corp.example.\n"
			      "web MX 10 mail\n"
			      "1.0.96.10.in-addr.arpa. 5 PTR given.example.\n";

static int
begin(void **state)
{
	bed_begin(state);
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	bed_service("shop", SERVICE_CLUSTERIP, "10.96.0.2", "http/tcp/80");
	bed_service("far", SERVICE_EXTERNALNAME, "alias.corp.example", "");
	bed_records(records, "10.0.0.5 twin.other.example h.wild.corp.example apex.example",
	    "sub.corp.example corp.example apex.example nowhere.example any.other.example");
	bed_publish();
	return 0;
}

struct row {
	const char *name, *type, *want;
};

static void
expect_rows(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		bed_expect(rows[i].name, rows[i].type, rows[i].want);
}
#define EXPECT(rows) expect_rows(rows, sizeof rows / sizeof rows[0])

static void
a_zone_has_its_records_and_denies_the_rest(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "www.corp.example.", "A", "NOERROR A 10.9.0.2, A 10.9.0.3" },
		{ "www.corp.example.", "TXT", "NOERROR TXT \"a b\"" },
		{ "www.corp.example.", "AAAA", "NOERROR SOA of corp.example." },
		{ "www.corp.example.", "ANY", "NOERROR HINFO \"RFC8482\" \"\"" },
		{ "corp.example.", "SOA", "NOERROR " CORP_SOA },
		{ "corp.example.", "NS",
		    "NOERROR NS ns.corp.example. + ns.corp.example.: A 10.9.0.1" },
		{ "corp.example.", "A", "NOERROR SOA of corp.example." },
		{ "nobody.corp.example.", "A", "NXDOMAIN SOA of corp.example." },
		{ "x.www.corp.example.", "A", "NXDOMAIN SOA of corp.example." },
		{ "b.deep.corp.example.", "A", "NOERROR SOA of corp.example." },
		{ "deep.corp.example.", "A", "NOERROR SOA of corp.example." },
		{ "c.deep.corp.example.", "A", "NXDOMAIN SOA of corp.example." },
		{ "example.", "A", "FORWARD" },
		{ "xcorp.example.", "A", "FORWARD" },
	};

	EXPECT(rows);
}

/* The name is in `hosts`. Its zone is in `records`. */
static void
an_address_in_hosts_leaves_a_zone_its_soa(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "apex.example.", "A", "NOERROR A 10.0.0.5" },
		{ "apex.example.", "MX", "NOERROR SOA of apex.example." },
		{ "www.apex.example.", "A", "NOERROR A 10.9.2.1" },
		{ "nobody.apex.example.", "A", "NXDOMAIN SOA of apex.example." },
	};

	EXPECT(rows);
}

/* See RFC 4592. */
static void
a_wildcard_stands_for_names_that_are_not_there(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "x.wild.corp.example.", "A", "NOERROR A 10.9.0.4" },
		{ "x.y.wild.corp.example.", "A", "NOERROR A 10.9.0.4" },
		{ "x.wild.corp.example.", "TXT", "NOERROR SOA of corp.example." },
		{ "*.wild.corp.example.", "A", "NOERROR A 10.9.0.4" },
		{ "wild.corp.example.", "A", "NOERROR SOA of corp.example." },
		{ "host.wild.corp.example.", "A", "NOERROR A 10.9.0.5" },
		{ "x.host.wild.corp.example.", "A", "NXDOMAIN SOA of corp.example." },
		{ "h.wild.corp.example.", "A", "NOERROR A 10.0.0.5" }, /* from the key `hosts` */
		{ "h.wild.corp.example.", "TXT", "NOERROR SOA of corp.example." },
		{ "x.also.corp.example.", "A",
		    "NOERROR CNAME www.corp.example., www.corp.example.: A 10.9.0.2, "
		    "www.corp.example.: A 10.9.0.3" },
		/* Names outside any zone. */
		{ "x.any.other.example.", "A", "NOERROR A 10.9.1.1" },
		{ "z.x.any.other.example.", "A", "NOERROR A 10.9.1.1" },
		{ "any.other.example.", "A", "FORWARD" },
		{ "y.any.other.example.", "A", "FORWARD" },
		{ "z.y.any.other.example.", "A", "FORWARD" },
		{ "x.y.any.other.example.", "A", "NOERROR A 10.9.1.2" },
	};

	EXPECT(rows);
}

/* See RFC 1035 sections 3.3.9 and 3.3.11, RFC 2782, RFC 9460 section 4.1. */
static void
addresses_of_targets_are_in_the_additional_section(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "e.test.", "MX",
		    "NOERROR MX 10 h.e.test., MX 20 h.e.test., MX 30 elsewhere.example. + "
		    "h.e.test.: A 192.0.2.1, + h.e.test.: AAAA 2001:db8::1" },
		{ "e.test.", "NS", "NOERROR NS ns.e.test. + ns.e.test.: A 192.0.2.2" },
		{ "_x._tcp.e.test.", "SRV",
		    "NOERROR SRV 0 5 80 w.wild.e.test. + w.wild.e.test.: A 192.0.2.3" },
		{ "svc.e.test.", "HTTPS",
		    "NOERROR HTTPS 1 h.e.test. alpn=h2 + h.e.test.: A 192.0.2.1, + h.e.test.: AAAA "
		    "2001:db8::1" },
		{ "self.e.test.", "HTTPS",
		    "NOERROR HTTPS 1 . alpn=h2 + self.e.test.: A 192.0.2.4" },
		{ "alias.e.test.", "MX",
		    "NOERROR CNAME m.e.test., m.e.test.: MX 10 h.e.test. + h.e.test.: A "
		    "192.0.2.1, + h.e.test.: AAAA 2001:db8::1" },
	};

	bed_records("$ORIGIN e.test.\n@ SOA ns h 1 1h 10m 1d 20\n@ NS ns\n@ MX 10 h\n@ MX 20 h\n"
		    "@ MX 30 elsewhere.example.\nm MX 10 h\nalias CNAME m\nh A 192.0.2.1\n"
		    "h AAAA 2001:db8::1\nns A 192.0.2.2\n_x._tcp SRV 0 5 80 w.wild\n"
		    "*.wild A 192.0.2.3\nsvc HTTPS 1 h alpn=h2\nself HTTPS 1 . alpn=h2\n"
		    "self A 192.0.2.4\n",
	    "", "");
	bed_publish();
	EXPECT(rows);
}

/* See RFC 4592 sections 2.1.1, 2.2.1 and 2.2.2. */
static void
an_asterisk_that_is_not_the_first_label_is_a_label(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "sub.*.lit.test.", "TXT", "NOERROR TXT \"x\"" },
		{ "sub.y.lit.test.", "TXT", "NOERROR SOA of lit.test." },
		/* This name matches `*`, which has no A record. */
		{ "y.lit.test.", "TXT", "NOERROR SOA of lit.test." },
		{ "*.lit.test.", "A", "NOERROR SOA of lit.test." },
		{ "x.sub.*.lit.test.", "A", "NXDOMAIN SOA of lit.test." },
		{ "a.*.one.test.", "A", "NOERROR A 192.0.2.9" },
		{ "a.b.one.test.", "A", "FORWARD" },
	};

	bed_records("lit.test. SOA a b 1 2 3 4 5\nsub.*.lit.test. TXT x\n"
		    "a.*.one.test. A 192.0.2.9\n",
	    "", "");
	bed_publish();
	EXPECT(rows);
}

static void
an_alias_is_followed_for_each_type(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "twice.corp.example.", "A",
		    "NOERROR CNAME alias.corp.example., alias.corp.example.: CNAME "
		    "www.corp.example., www.corp.example.: A 10.9.0.2, www.corp.example.: A "
		    "10.9.0.3" },
		{ "alias.corp.example.", "TXT",
		    "NOERROR CNAME www.corp.example., www.corp.example.: TXT \"a b\"" },
		{ "alias.corp.example.", "MX",
		    "NOERROR CNAME www.corp.example. SOA of corp.example." },
		{ "alias.corp.example.", "CNAME", "NOERROR CNAME www.corp.example." },
		{ "in.corp.example.", "A",
		    "NOERROR CNAME shop.default.svc, shop.default.svc: A 10.96.0.2" },
		{ "gone.corp.example.", "A",
		    "NXDOMAIN CNAME nobody.default.svc SOA of cluster.local." },
		{ "out.corp.example.", "TXT", "CHASE www.outside.example." },
		{ "far.default.svc", "A",
		    "NOERROR CNAME alias.corp.example., alias.corp.example.: CNAME "
		    "www.corp.example., www.corp.example.: A 10.9.0.2, www.corp.example.: A "
		    "10.9.0.3" },
		{ "db.default.svc", "A",
		    "NOERROR CNAME www.corp.example., www.corp.example.: A "
		    "10.9.0.2, www.corp.example.: A 10.9.0.3" },
	};

	EXPECT(rows);
	bed_ask("round.corp.example.", "A"); /* the loop of aliases ends */
	assert_int_equal(bed.info.rcode, 0);
}

static void
names_in_no_zone_are_ours_and_no_others(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "mail.other.example.", "MX", "NOERROR MX 10 mx.other.example." },
		{ "mail.other.example.", "A", "NOERROR SOA of mail.other.example." },
		{ "x.mail.other.example.", "A", "FORWARD" },
		{ "other.example.", "A", "FORWARD" },
		/* `hosts` replaces all records of the name. */
		{ "twin.other.example.", "A", "NOERROR A 10.0.0.5" },
		{ "twin.other.example.", "TXT", "NOERROR SOA of twin.other.example." },
		{ "extra.default.svc", "TXT", "NOERROR TXT \"hello\"" },
		{ "web.default.svc", "MX", "NOERROR MX 10 mail.default.svc" },
		/* In the same way, `records` replaces all records of the name. */
		{ "web.default.svc", "A", "NOERROR SOA of cluster.local." },
		{ "1.0.96.10.in-addr.arpa.", "PTR", "NOERROR PTR given.example." },
	};

	EXPECT(rows);
}

static void
a_stub_domain_inside_a_zone_stays_with_its_servers(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "x.sub.corp.example.", "A", "FORWARD" },
		{ "sub.corp.example.", "A", "FORWARD" },
		{ "deeper.sub.corp.example.", "A", "NOERROR A 10.9.0.7" },
		{ "deeper.sub.corp.example.", "TXT", "NOERROR SOA of deeper.sub.corp.example." },
		{ "x.deeper.sub.corp.example.", "A", "FORWARD" },
		{ "nowhere.example.", "A", "FORWARD" },
	};

	EXPECT(rows);
}

static void
the_clusters_names_are_not_denied_by_a_zone_around_them(void **state)
{
	(void)state;
	static struct external_zones external;
	static struct dname zone;

	bed_begin(state);
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	bed_records("local SOA a b 1 1 1 1 20\n*.local A 10.9.0.1\n"
		    "example SOA a b 1 1 1 1 20\n"
		    "apps.example SOA a b 7 1 1 1 20\n"
		    "apps.example TXT here\n",
	    "10.0.0.5 cluster.local", "");
	bed_publish();
	bed_expect("cluster.local.", "A", "NOERROR A 10.0.0.5");
	bed_expect(
	    "cluster.local.", "SOA", "NOERROR SOA ns.dns hostmaster 1700000000 7200 1800 86400 5");
	bed_expect("web.default.svc", "A", "NOERROR A 10.96.0.1");
	bed_expect("no.default.svc", "A", "NXDOMAIN SOA of cluster.local.");
	bed_expect("other.local.", "A", "NOERROR A 10.9.0.1");
	bed_expect("x.apps.example.", "A", "NXDOMAIN SOA of apps.example.");
	dname_from_text(&zone, "apps.example.");
	external = (struct external_zones){ .zones = &zone, .zone_count = 1, .tree = bed.cache };
	external_zones_set(&bed.config, &external);
	stages_build(&bed.config);
	if (strstr(bed_ask("apps.example.", "SOA"), " 7 1 1 1 20") != NULL)
		fail_msg("the SOA of records hides it: %s", bed_ask("apps.example.", "SOA"));
	bed_expect("apps.example.", "TXT", "NOERROR TXT \"here\"");
	if (strstr(bed_ask("x.apps.example.", "A"), "SOA of example.") != NULL)
		fail_msg("a zone of records answers for an external zone");
	bed_expect("y.example.", "A", "NXDOMAIN SOA of example.");
	bed_end(state);
}

/* RFC 2308 section 5: the TTL is the lower of the SOA's TTL and the SOA's last field. */
static void
a_denial_is_kept_for_the_soas_minimum(void **state)
{
	(void)state;
	bed_ask("nobody.corp.example.", "A");
	/* The owner of the SOA is a compression pointer after the question. */
	const uint8_t *record = bed.out + 12 + 21 + 4;
	assert_int_equal(wire_get16(record + 2), TYPE_SOA);
	assert_int_equal(wire_get32(record + 6), 20);
	assert_true((bed.out[2] & 4) != 0); /* the bit AA */
}

static void
a_source_is_told(void **state)
{
	(void)state;
	const struct local_names *names = bed.hosts;
	struct dname name;

	dname_from_text(&name, "twin.other.example.");
	assert_string_equal(local_names_source(names, local_names_find(names, name.wire, name.len)),
	    "the ConfigMap's key hosts");
	dname_from_text(&name, "mail.other.example.");
	assert_string_equal(local_names_source(names, local_names_find(names, name.wire, name.len)),
	    "the ConfigMap's key records");
	dname_from_text(&name, "deep.corp.example."); /* an empty non-terminal */
	assert_null(local_names_find(names, name.wire, name.len));
}

static void
without_zones_and_wildcards_nothing_is_walked(void **state)
{
	bed_begin(state);
	bed_records("a.example A 10.0.0.1\n", "10.0.0.5 b.example", "example");
	assert_false(bed.hosts->walks);
	bed_end(state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    a_zone_has_its_records_and_denies_the_rest, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    an_address_in_hosts_leaves_a_zone_its_soa, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    a_wildcard_stands_for_names_that_are_not_there, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    an_asterisk_that_is_not_the_first_label_is_a_label, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    addresses_of_targets_are_in_the_additional_section, begin, bed_end),
		cmocka_unit_test_setup_teardown(an_alias_is_followed_for_each_type, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    names_in_no_zone_are_ours_and_no_others, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    a_stub_domain_inside_a_zone_stays_with_its_servers, begin, bed_end),
		cmocka_unit_test(the_clusters_names_are_not_denied_by_a_zone_around_them),
		cmocka_unit_test_setup_teardown(
		    a_denial_is_kept_for_the_soas_minimum, begin, bed_end),
		cmocka_unit_test_setup_teardown(a_source_is_told, begin, bed_end),
		cmocka_unit_test(without_zones_and_wildcards_nothing_is_walked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
