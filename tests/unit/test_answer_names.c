/* The answers for names. Each row is a rule of the Kubernetes DNS specification or of our manual. */
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
#include "kubedns/answer/stage.h"
#include "kubedns/answer/zones.h"
#include "tests/unit/answer_bed.h"

static void
service_with_a_cluster_ip(void **state)
{
	(void)state;
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	bed_publish();
	bed_expect("web.default.svc", "A", "NOERROR A 10.96.0.1");
	bed_expect("web.default.svc", "AAAA", "NOERROR SOA of cluster.local.");
	bed_expect("web.default.svc", "ANY", "NOERROR HINFO \"RFC8482\" \"\"");
	bed_expect("web.default.svc", "SRV",
	    "NOERROR SRV 0 100 80 web.default.svc + web.default.svc: A 10.96.0.1");
	bed_expect("_http._tcp.web.default.svc", "SRV",
	    "NOERROR SRV 0 100 80 web.default.svc + web.default.svc: A 10.96.0.1");
	bed_expect("_tcp.web.default.svc", "SRV", "NOERROR SOA of cluster.local.");
	bed_expect("http.tcp.web.default.svc", "SRV", "NXDOMAIN SOA of cluster.local.");
	bed_expect("1.0.96.10.in-addr.arpa.", "PTR", "NOERROR PTR web.default.svc");
}

/* RFC 8482 allows a reply with one record in place of all records. But if a name has no records,
 * the reply has none either. */
static void
any_at_a_name_without_records_is_nodata(void **state)
{
	(void)state;
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	bed_service("two", SERVICE_CLUSTERIP, "10.96.0.2", "http/tcp/80");
	bed_reverse_zone("10.0.0.0/8");
	bed_publish();
	static const char *const empty[] = { "svc", "default.svc", "dns", "pod", "default.pod",
		"_tcp.web.default.svc" };
	for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++)
		bed_expect(empty[i], "ANY", "NOERROR SOA of cluster.local.");
	bed_expect("96.10.in-addr.arpa.", "ANY", "NOERROR SOA of 10.in-addr.arpa.");
	bed_expect("1.0.96.10.in-addr.arpa.", "ANY", "NOERROR HINFO \"RFC8482\" \"\"");
	bed_expect("10.in-addr.arpa.", "ANY", "NOERROR HINFO \"RFC8482\" \"\"");
	bed_expect("cluster.local.", "ANY", "NOERROR HINFO \"RFC8482\" \"\"");
	bed_expect("_http._tcp.web.default.svc", "ANY", "NOERROR HINFO \"RFC8482\" \"\"");
	bed_expect("1-2-3-4.default.pod", "ANY", "NOERROR HINFO \"RFC8482\" \"\"");
	bed.parts.zone.wildcards = true;
	bed_expect("*.svc", "ANY", "NOERROR SOA of cluster.local.");
	bed_expect("*.default.svc", "ANY", "NOERROR HINFO \"RFC8482\" \"\"");
}

/* "a" is at 10.1.0.1 in two slices. In these slices, the same port name has different numbers. */
static void
host_name_in_several_slices_has_the_ports_of_all(void **state)
{
	(void)state;
	bed_service("db", SERVICE_HEADLESS, NULL, "");
	bed_slice("db", "db-1", "sql/tcp/5432", "10.1.0.1=a");
	bed_slice("db", "db-2", "sql/tcp/5433", "10.1.0.1=a 10.1.0.2=b");
	bed_publish();
	bed_expect("_sql._tcp.db.default.svc", "SRV",
	    "NOERROR SRV 0 50 5432 a.db.default.svc, SRV 0 50 5433 a.db.default.svc, "
	    "SRV 0 50 5433 b.db.default.svc + a.db.default.svc: A 10.1.0.1, + b.db.default.svc: A "
	    "10.1.0.2");
	bed_expect("a.db.default.svc", "A", "NOERROR A 10.1.0.1");
}

static void
host_name_that_spells_an_address_has_both(void **state)
{
	(void)state;
	bed_service("odd", SERVICE_HEADLESS, NULL, "");
	bed_slice("odd", "odd-1", "p/tcp/80", "10.1.0.2 10.1.0.3");
	bed_slice("odd", "odd-2", "p/tcp/80", "10.9.9.9=10-1-0-2");
	bed_publish();
	bed_expect("10-1-0-2.odd.default.svc", "A", "NOERROR A 10.1.0.2, A 10.9.9.9");
	bed_expect("10-1-0-3.odd.default.svc", "A", "NOERROR A 10.1.0.3");
	bed_expect("10-9-9-9.odd.default.svc", "A", "NXDOMAIN SOA of cluster.local.");
	const char *text = bed_ask("_p._tcp.odd.default.svc", "SRV");
	assert_non_null(strstr(text, " 80 10-1-0-2.odd.default.svc, SRV"));
	assert_non_null(strstr(text, " 80 10-1-0-3.odd.default.svc + "
				     "10-1-0-2.odd.default.svc: A 10.1.0.2, + "
				     "10-1-0-2.odd.default.svc: A 10.9.9.9, + "
				     "10-1-0-3.odd.default.svc: A 10.1.0.3"));
	assert_int_equal(wire_get16(bed.out + 6), 2);
}

static void
endpoint_answers_srv_of_its_ports(void **state)
{
	(void)state;
	bed_service("db", SERVICE_HEADLESS, NULL, "");
	bed_slice("db", "db-1", "sql/tcp/5432 /tcp/9", "10.1.0.1=a 10.1.0.2");
	bed_slice("db", "db-2", "sql/udp/5432 more/tcp/1", "10.1.0.1=a");
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	bed_slice("web", "web-1", "http/tcp/8080", "10.1.0.3");
	bed_publish();
	bed_expect("a.db.default.svc", "SRV",
	    "NOERROR SRV 0 100 1 a.db.default.svc, SRV 0 100 5432 a.db.default.svc, "
	    "SRV 0 100 9 a.db.default.svc + a.db.default.svc: A 10.1.0.1");
	bed_expect("10-1-0-2.db.default.svc", "SRV",
	    "NOERROR SRV 0 100 5432 10-1-0-2.db.default.svc, SRV 0 100 9 10-1-0-2.db.default.svc + "
	    "10-1-0-2.db.default.svc: A 10.1.0.2");
	bed_expect("10-1-0-3.web.default.svc", "SRV",
	    "NOERROR SRV 0 100 8080 10-1-0-3.web.default.svc + 10-1-0-3.web.default.svc: A "
	    "10.1.0.3");
	bed_slice("web", "web-1", "", "10.1.0.3");
	bed_publish();
	bed_expect("10-1-0-3.web.default.svc", "SRV", "NOERROR SOA of cluster.local.");
}

static void
external_names_in_a_circle_answer_each_cname_once(void **state)
{
	(void)state;
	bed_service("a", SERVICE_EXTERNALNAME, "b.default.svc.cluster.local", "");
	bed_service("b", SERVICE_EXTERNALNAME, "c.default.svc.cluster.local", "");
	bed_service("c", SERVICE_EXTERNALNAME, "A.default.svc.cluster.local", "");
	bed_service("self", SERVICE_EXTERNALNAME, "self.default.svc.cluster.local", "");
	bed_service("in", SERVICE_EXTERNALNAME, "a.default.svc.cluster.local", "");
	bed_publish();
	bed_expect("A.default.svc", "A",
	    "NOERROR CNAME b.default.svc, b.default.svc: CNAME c.default.svc, "
	    "c.default.svc: CNAME a.default.svc");
	bed_expect("self.default.svc", "AAAA", "NOERROR CNAME self.default.svc");
	bed_expect("in.default.svc", "A",
	    "NOERROR CNAME a.default.svc, a.default.svc: CNAME b.default.svc, "
	    "b.default.svc: CNAME c.default.svc, c.default.svc: CNAME a.default.svc");
	bed_expect("in.default.svc", "TXT",
	    "NOERROR CNAME a.default.svc, a.default.svc: CNAME b.default.svc, "
	    "b.default.svc: CNAME c.default.svc, c.default.svc: CNAME a.default.svc");
	bed_expect("in.default.svc", "CNAME", "NOERROR CNAME a.default.svc");
	bed_expect("in.default.svc", "ANY", "NOERROR CNAME a.default.svc");
}

/* RFC 1034 section 4.3.2 step 3a. The rcode belongs to the name at the end of the chain (RFC 6604). */
static void
external_name_is_followed_for_every_type(void **state)
{
	static const char *const types[] = { "A", "SRV", "TXT", "MX", "HTTPS", "PTR", "NS", "SOA" };
	char srv[] = "NOERROR CNAME alias.default.svc, alias.default.svc: CNAME db.default.svc, "
		     "db.default.svc: SRV 0 100 5432 a.db.default.svc + "
		     "a.db.default.svc: A 10.1.0.1";

	(void)state;
	bed_forwarding(true);
	bed_service("db", SERVICE_HEADLESS, "", "pg/tcp/5432");
	bed_slice("db", "db-1", "pg/tcp/5432", "10.1.0.1=a");
	bed_service("alias", SERVICE_EXTERNALNAME, "db.default.svc.cluster.local", "");
	bed_service("second", SERVICE_EXTERNALNAME, "alias.default.svc.cluster.local", "");
	bed_service("gone", SERVICE_EXTERNALNAME, "nothere.default.svc.cluster.local", "");
	bed_service("out", SERVICE_EXTERNALNAME, "www.example.com", "");
	bed_service("apex", SERVICE_EXTERNALNAME, "cluster.local", "");
	bed_service("ptr", SERVICE_EXTERNALNAME, "4.0.96.10.in-addr.arpa", "");
	bed_service("known", SERVICE_CLUSTERIP, "10.96.0.4", "");
	bed_publish();
	bed_expect("second.default.svc", "SRV", srv);
	bed_expect(
	    "alias.default.svc", "TXT", "NOERROR CNAME db.default.svc SOA of cluster.local.");
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		bed_expect("gone.default.svc", types[i],
		    "NXDOMAIN CNAME nothere.default.svc SOA of cluster.local.");
		bed_expect("out.default.svc", types[i], "CHASE www.example.com.");
	}
	bed_expect("ptr.default.svc", "PTR",
	    "NOERROR 4.0.96.10.in-addr.arpa.: PTR known.default.svc, "
	    "CNAME 4.0.96.10.in-addr.arpa.");
	bed_expect("apex.default.svc", "TXT", "NOERROR CNAME cluster.local. SOA of cluster.local.");
	bed_expect("out.default.svc", "CNAME", "NOERROR CNAME www.example.com.");
	bed_forwarding(false);
	bed_publish();
	bed_expect("out.default.svc", "HTTPS", "NOERROR CNAME www.example.com.");
}

static void
external_name_in_a_reverse_zone_is_answered_in_place(void **state)
{
	(void)state;
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "");
	bed_service("known", SERVICE_EXTERNALNAME, "1.0.96.10.in-addr.arpa", "");
	bed_service("none", SERVICE_EXTERNALNAME, "2.0.96.10.in-addr.arpa", "");
	bed_service("odd", SERVICE_EXTERNALNAME, "x.96.10.in-addr.arpa", "");
	bed_service("apex", SERVICE_EXTERNALNAME, "96.10.in-addr.arpa", "");
	bed_service("other", SERVICE_EXTERNALNAME, "1.0.97.10.in-addr.arpa", "");
	bed_publish();
	/* Even without a reverse zone, the reverse name of a known address is ours. The name is
	 * then a zone of its own. */
	bed_expect("known.default.svc", "A",
	    "NOERROR CNAME 1.0.96.10.in-addr.arpa. SOA of 1.0.96.10.in-addr.arpa.");
	bed_expect("none.default.svc", "A", "CHASE 2.0.96.10.in-addr.arpa.");
	bed_reverse_zone("10.96.0.0/16");
	bed_expect("known.default.svc", "A",
	    "NOERROR CNAME 1.0.96.10.in-addr.arpa. SOA of 96.10.in-addr.arpa.");
	bed_expect("none.default.svc", "A",
	    "NXDOMAIN CNAME 2.0.96.10.in-addr.arpa. SOA of 96.10.in-addr.arpa.");
	bed_expect("odd.default.svc", "AAAA",
	    "NXDOMAIN CNAME x.96.10.in-addr.arpa. SOA of 96.10.in-addr.arpa.");
	bed_expect("apex.default.svc", "A",
	    "NOERROR CNAME 96.10.in-addr.arpa. SOA of 96.10.in-addr.arpa.");
	bed_expect("other.default.svc", "A", "CHASE 1.0.97.10.in-addr.arpa.");
}

/* Otherwise anybody who can write EndpointSlices could set the PTR record of any address in the
 * world. */
static void
ptr_of_an_address_outside_the_prefixes_is_not_ours_with_the_flag(void **state)
{
	(void)state;
	bed_service("db", SERVICE_HEADLESS, NULL, "");
	bed_slice("db", "db-1", "", "8.8.8.8=dns 10.1.0.1=db-0");
	bed_publish();
	bed_expect("8.8.8.8.in-addr.arpa.", "PTR", "NOERROR PTR dns.db.default.svc");
	bed_reverse_zone("10.0.0.0/8");
	bed.parts.reverse.cidrs_only = true;
	bed_expect("8.8.8.8.in-addr.arpa.", "PTR", "FORWARD");
	bed_expect("8.8.8.8.in-addr.arpa.", "ANY", "FORWARD");
	bed_expect("1.0.1.10.in-addr.arpa.", "PTR", "NOERROR PTR db-0.db.default.svc");
	bed_expect("2.0.1.10.in-addr.arpa.", "PTR", "NXDOMAIN SOA of 10.in-addr.arpa.");
	bed.parts.reverse.cidrs_only = false;
}

static void
closest_of_nested_reverse_zones_answers(void **state)
{
	(void)state;
	bed_service("web", SERVICE_CLUSTERIP, "10.96.1.1", "");
	bed_reverse_zone("10.0.0.0/8");
	bed_reverse_zone("10.96.1.0/24");
	bed_reverse_zone("10.97.1.0/24");
	bed_publish();
	bed_expect("1.1.96.10.in-addr.arpa.", "A", "NOERROR SOA of 1.96.10.in-addr.arpa.");
	bed_expect("2.1.96.10.in-addr.arpa.", "PTR", "NXDOMAIN SOA of 1.96.10.in-addr.arpa.");
	bed_expect("x.1.96.10.in-addr.arpa.", "PTR", "NXDOMAIN SOA of 1.96.10.in-addr.arpa.");
	bed_expect("1.2.96.10.in-addr.arpa.", "PTR", "NXDOMAIN SOA of 10.in-addr.arpa.");
	bed_expect("1.97.10.in-addr.arpa.", "NS", "NOERROR NS ns.dns + ns.dns: A 192.0.2.53");
	/* No address in 10.97/16 is known, but the name of the inner zone is below this name. */
	bed_expect("97.10.in-addr.arpa.", "A", "NOERROR SOA of 10.in-addr.arpa.");
	bed_expect("98.10.in-addr.arpa.", "A", "NXDOMAIN SOA of 10.in-addr.arpa.");
}

/* A wildcard looks up the name of each endpoint. Two of these endpoints have the same name. */
static void
wildcard_for_endpoints_answers_srv_of_each_name_once(void **state)
{
	(void)state;
	bed_service("db", SERVICE_HEADLESS, NULL, "");
	bed_slice("db", "db-1", "sql/tcp/5432 more/tcp/1", "10.1.0.1=a 10.1.0.2=a 10.1.0.3=b");
	bed_publish();
	bed.parts.zone.wildcards = true;
	bed_ask("*.db.default.svc", "SRV");
	assert_int_equal(wire_get16(bed.out + 6), 4);
	assert_int_equal(wire_get16(bed.out + 10), 3);
	bed_ask("*.db.default.svc", "A");
	assert_int_equal(wire_get16(bed.out + 6), 3);
}

/* Services with this address as their ClusterIP come first, in whatever order the objects were
 * added. */
static void
cluster_ip_that_is_an_endpoint_too_is_the_services(void **state)
{
	(void)state;
	bed_service("early", SERVICE_HEADLESS, NULL, "");
	bed_slice("early", "early-1", "", "10.96.0.9 10.96.0.10=b");
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.9", "");
	bed_service("late", SERVICE_HEADLESS, NULL, "");
	bed_slice("late", "late-1", "", "10.96.0.9 10.96.0.10=a");
	bed_publish();
	bed_expect("9.0.96.10.in-addr.arpa.", "PTR", "NOERROR PTR web.default.svc");
	bed_service("also", SERVICE_CLUSTERIP, "10.96.0.9", "");
	bed_publish();
	bed_expect(
	    "9.0.96.10.in-addr.arpa.", "PTR", "NOERROR PTR also.default.svc, PTR web.default.svc");
	bed_service_delete("web");
	bed_service_delete("also");
	bed_publish();
	bed_expect("9.0.96.10.in-addr.arpa.", "PTR",
	    "NOERROR PTR 10-96-0-9.early.default.svc, PTR 10-96-0-9.late.default.svc");
	bed_expect("10.0.96.10.in-addr.arpa.", "PTR",
	    "NOERROR PTR a.late.default.svc, PTR b.early.default.svc");
}

/* There are more PTR records than are sorted in one pass. The answer has each of them once. */
static void
address_of_many_endpoints_has_a_ptr_of_each(void **state)
{
	char service[24], slice[24];

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		snprintf(service, sizeof service, "s%u", i);
		bed_service(service, SERVICE_HEADLESS, NULL, "");
		for (unsigned copy = 0; copy < 2; copy++) {
			snprintf(slice, sizeof slice, "s%u-%u", i, copy);
			bed_slice(service, slice, "", "10.1.0.1");
		}
	}
	bed_publish();
	bed_ask("1.0.1.10.in-addr.arpa.", "PTR");
	assert_int_equal(wire_get16(bed.out + 6), 300);
	assert_false(bed.info.truncated);
}

/* The index of the names in the set would find "a" first. The answer has all endpoints with that
 * name, and each address once. */
static void
host_name_of_many_endpoints_has_all_their_addresses(void **state)
{
	static char endpoints[BED_TEXT_MAX];
	size_t len = 0;

	(void)state;
	bed_service("same", SERVICE_HEADLESS, NULL, "");
	for (unsigned slice = 0; slice < 8; slice++) {
		char name[24];

		len = 0;
		for (unsigned i = 0; i < 500; i++)
			len += (size_t)snprintf(endpoints + len, sizeof endpoints - len,
			    "10.1.%u.%u=a 10.2.0.%u=a ", slice * 2 + i / 250, i % 250 + 1,
			    i % 10 + 1);
		snprintf(name, sizeof name, "same-%u", slice);
		bed_slice("same", name, "p/tcp/80", endpoints);
	}
	bed_publish();
	bed_ask("a.same.default.svc", "A");
	assert_int_equal(wire_get16(bed.out + 6), 4010);
	bed_ask("_p._tcp.same.default.svc", "SRV");
	assert_int_equal(wire_get16(bed.out + 6), 1);
	assert_int_equal(wire_get16(bed.out + 10), 4010);
}

static void
what_our_zones_do_not_have_falls_through(void **state)
{
	struct dname zones[2];
	static const struct {
		const char *zones, *name, *type, *want;
	} rows[] = {
		{ ".", "web.default.svc", "A", "NOERROR A 10.96.0.1" },
		{ ".", "web.default.svc", "AAAA", "NOERROR SOA of cluster.local." },
		{ ".", "default.svc", "A", "NOERROR SOA of cluster.local." },
		{ ".", "nothing.default.svc", "A", "FORWARD" },
		{ ".", "nothing", "SRV", "FORWARD" },
		{ ".", "9.0.1.10.in-addr.arpa.", "PTR", "FORWARD" },
		{ ".", "1.0.96.10.in-addr.arpa.", "PTR", "NOERROR PTR web.default.svc" },
		{ ".", "x.9.10.in-addr.arpa.", "PTR", "FORWARD" },
		{ "other.cluster.local.", "www.other", "A", "FORWARD" },
		{ "other.cluster.local.", "other", "A", "FORWARD" },
		{ "other.cluster.local.", "www.another", "A", "NXDOMAIN SOA of cluster.local." },
		{ "other.cluster.local.", "9.0.1.10.in-addr.arpa.", "PTR",
		    "NXDOMAIN SOA of 10.in-addr.arpa." },
		{ "in-addr.arpa.", "9.0.1.10.in-addr.arpa.", "PTR", "FORWARD" },
		{ "in-addr.arpa.", "nothing", "A", "NXDOMAIN SOA of cluster.local." },
		{ ".", "gone.default.svc", "A", "CHASE other.default.svc.cluster.local." },
		{ "in-addr.arpa.", "gone.default.svc", "A",
		    "NXDOMAIN CNAME other.default.svc SOA of cluster.local." },
	};

	(void)state;
	bed_forwarding(true);
	bed_reverse_zone("10.0.0.0/8");
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "");
	bed_service("gone", SERVICE_EXTERNALNAME, "other.default.svc.cluster.local.", "");
	bed_publish();
	bed.parts.upstream.fallthrough = zones;
	bed.parts.upstream.fallthrough_count = 1;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		dname_from_text(&zones[0], rows[i].zones);
		bed_expect(rows[i].name, rows[i].type, rows[i].want);
		assert_int_equal(bed.info.fell_through, strcmp(rows[i].want, "FORWARD") == 0);
	}
	dname_from_text(&zones[0], "in-addr.arpa.");
	dname_from_text(&zones[1], "cluster.local.");
	bed.parts.upstream.fallthrough_count = 2;
	bed_expect("nothing", "A", "FORWARD");
	bed_forwarding(false); /* there is no server to forward to, so the name does not exist */
	bed_publish();
	bed_expect("nothing", "A", "NXDOMAIN SOA of cluster.local.");
	bed.parts.upstream.fallthrough_count = 0;
	bed_forwarding(true);
	bed_publish();
	bed_expect("nothing", "A", "NXDOMAIN SOA of cluster.local.");
}

/* --fallthrough applies to the zone of the cluster and to the reverse zones. Our other zones give
 * negative answers themselves. */
static void
fallthrough_spares_zones_of_records_and_external_zones(void **state)
{
	struct dname everything = { .wire = { 0 }, .len = 1 }, outside[2];
	struct external_zones external = { .zones = outside, .zone_count = 2 };
	struct dname name;
	struct name_buf buf;
	static const struct {
		const char *name;
		bool falls;
	} rows[] = { { "gone.ex.test.", false }, { "ex.test.", false },
		{ "x.cluster.local.", true }, { "x.set.test.", true }, { "x.other.test.", true } };

	(void)state;
	dname_from_text(&outside[0], "ex.test.");
	dname_from_text(&outside[1], "set.test.");
	external.clusterset = &outside[1];
	bed.parts.upstream.fallthrough = &everything;
	bed.parts.upstream.fallthrough_count = 1;
	bed_records("lab.test. SOA a. b. 1 2 3 4 5", "", "");
	bed_publish();
	bed_expect("gone", "A", "FORWARD");
	bed_expect("gone.lab.test.", "A", "NXDOMAIN SOA of lab.test.");
	external_zones_set(&bed.config, &external);
	stages_build(&bed.config);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		assert_int_equal(dname_from_text(&name, rows[i].name), 0);
		const struct name cut = name_copy(&buf, name.wire, name.len);
		assert_int_equal(answer_falls_through(&bed.config, &cut), rows[i].falls);
	}
	external_zones_set(&bed.config, NULL);
	stages_build(&bed.config);
	bed.parts.upstream.fallthrough_count = 0;
}

static void
alias_of_a_name_of_hosts_without_the_type_is_nodata(void **state)
{
	(void)state;
	bed_service("out", SERVICE_EXTERNALNAME, "own.example", "");
	bed_service("in", SERVICE_EXTERNALNAME, "own.default.svc.cluster.local", "");
	bed_context("null", "10.9.9.9 own.example own.default.svc.cluster.local");
	bed_publish();
	bed_expect("out.default.svc", "A", "NOERROR CNAME own.example., own.example.: A 10.9.9.9");
	bed_expect("out.default.svc", "AAAA", "NOERROR CNAME own.example. SOA of own.example.");
	bed_expect(
	    "in.default.svc", "A", "NOERROR CNAME own.default.svc, own.default.svc: A 10.9.9.9");
	bed_expect("in.default.svc", "AAAA", "NOERROR CNAME own.default.svc SOA of cluster.local.");
}

int
main(void)
{
#define ROW(f) cmocka_unit_test_setup_teardown(f, bed_begin, bed_end)
	const struct CMUnitTest tests[] = {
		ROW(service_with_a_cluster_ip),
		ROW(any_at_a_name_without_records_is_nodata),
		ROW(host_name_in_several_slices_has_the_ports_of_all),
		ROW(host_name_that_spells_an_address_has_both),
		ROW(endpoint_answers_srv_of_its_ports),
		ROW(external_names_in_a_circle_answer_each_cname_once),
		ROW(external_name_is_followed_for_every_type),
		ROW(external_name_in_a_reverse_zone_is_answered_in_place),
		ROW(ptr_of_an_address_outside_the_prefixes_is_not_ours_with_the_flag),
		ROW(closest_of_nested_reverse_zones_answers),
		ROW(wildcard_for_endpoints_answers_srv_of_each_name_once),
		ROW(cluster_ip_that_is_an_endpoint_too_is_the_services),
		ROW(address_of_many_endpoints_has_a_ptr_of_each),
		ROW(host_name_of_many_endpoints_has_all_their_addresses),
		ROW(what_our_zones_do_not_have_falls_through),
		ROW(fallthrough_spares_zones_of_records_and_external_zones),
		ROW(alias_of_a_name_of_hosts_without_the_type_is_nodata),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
