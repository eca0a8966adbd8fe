/* External names: queries and answers for Services and Ingresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/zone_diff.h"
#include "kubedns/show/zone.h"
#include "tests/unit/external_bed.h"

static void
service_has_its_load_balancers_addresses_and_external_ips(void **state)
{
	(void)state;
	add(WEB);
	EXPECT({ "web.default.apps.example.com.", "A", "NOERROR A 192.0.2.1, A 198.51.100.7" },
	    { "WEB.default.Apps.example.com.", "AAAA", "NOERROR AAAA 2001:db8::1" },
	    { "web.default.apps.example.com.", "TXT", NODATA },
	    { "web.default.in.apps.example.com.", "A", "NOERROR A 192.0.2.1, A 198.51.100.7" },
	    { "default.apps.example.com.", "A", NODATA },
	    { "other.default.apps.example.com.", "A", GONE },
	    { "x.web.default.apps.example.com.", "A", GONE },
	    { "web.default.example.com.", "A", "FORWARD" });
	tell(EVENT_DELETED, WEB);
	EXPECT({ "web.default.apps.example.com.", "A", GONE },
	    { "_http._tcp.web.default.apps.example.com.", "SRV", GONE },
	    { "default.apps.example.com.", "A", GONE });
}

/* A resourceVersion is opaque. strtoull() would give the same number for these. */
static void
versions_that_are_no_numbers_differ(void **state)
{
	struct external_source sources[2];
	struct dname name;
	bool differs;

	(void)state;
	assert_int_equal(dname_from_text(&name, "x.apps.example.com"), 0);
	for (size_t i = 0; i < 2; i++) {
		struct object object;
		const char *why = NULL;
		struct json_object *json =
		    quoted_json(INGRESS("x", JANUARY, RULE("x.apps.example.com"), IP("192.0.2.4")));

		assert_int_equal(object_extract(json, NULL, &object, &why), 0);
		object_read_external(json, &object, &why);
		object.resource_version = i == 0 ? "7-a" : "7-b";
		external_event(external, object.kind, EVENT_MODIFIED, &object);
		object_clear(&object);
		json_object_put(json);
		assert_true(external_find(external, name.wire, 0, &sources[i], &differs));
	}
	assert_int_not_equal(sources[0].resource_version, sources[1].resource_version);
}

static void
named_ports_are_srv_records_at_their_names(void **state)
{
	(void)state;
	add(WEB);
	EXPECT({ "_http._tcp.web.default.apps.example.com.", "SRV",
		   "NOERROR SRV 0 100 80 web.default.apps.example.com. "
		   "+ web.default.apps.example.com.: A 192.0.2.1, "
		   "+ web.default.apps.example.com.: A 198.51.100.7, "
		   "+ web.default.apps.example.com.: AAAA 2001:db8::1" },
	    { "_http._udp.web.default.apps.example.com.", "SRV", GONE },
	    { "_tcp.web.default.apps.example.com.", "SRV", NODATA });
}

static void
load_balancer_known_by_its_host_name_is_an_alias(void **state)
{
	(void)state;
	bed_forwarding(false);
	bed_publish();
	add(ANNOTATED("aws", JANUARY, "www.apps.example.com, apps.example.com",
	    HOSTNAME("lb.example.net") "," HOSTNAME("z.example.net")));
	EXPECT({ "aws.default.apps.example.com.", "CNAME", "NOERROR CNAME lb.example.net." },
	    { "aws.default.apps.example.com.", "A", "NOERROR CNAME lb.example.net." },
	    { "www.apps.example.com.", "TXT", "NOERROR CNAME lb.example.net." },
	    /* RFC 1034 section 3.6.2: the apex has a SOA, so it has no alias */
	    { "apps.example.com.", "A", NODATA });
	assert_int_equal(external_refused_total(external), 1);
	bed_forwarding(true);
	bed_publish();
	EXPECT({ "www.apps.example.com.", "A", "CHASE lb.example.net." });
	/* If the object has an address, its name has no alias. */
	add(ANNOTATED("aws", JANUARY, "", HOSTNAME("lb.example.net") "," IP("192.0.2.5")));
	EXPECT({ "aws.default.apps.example.com.", "A", "NOERROR A 192.0.2.5" },
	    { "www.apps.example.com.", "A", GONE });
}

static void
alias_of_one_of_our_names_is_followed(void **state)
{
	(void)state;
	add(WEB);
	add(ANNOTATED("a", JANUARY, "", HOSTNAME("web.default.apps.example.com")));
	add(ANNOTATED("b", JANUARY, "", HOSTNAME("a.default.apps.example.com")));
	add(ANNOTATED("lost", JANUARY, "", HOSTNAME("nobody.apps.example.com")));
	add(ANNOTATED("inside", JANUARY, "", HOSTNAME("web.default.svc.cluster.local")));
	EXPECT(
	    { "b.default.apps.example.com.", "AAAA",
		"NOERROR CNAME a.default.apps.example.com., a.default.apps.example.com.: CNAME "
		"web.default.apps.example.com., web.default.apps.example.com.: AAAA 2001:db8::1" },
	    { "lost.default.apps.example.com.", "A",
		"NXDOMAIN CNAME nobody.apps.example.com. SOA of apps.example.com." },
	    { "lost.default.apps.example.com.", "MX",
		"NXDOMAIN CNAME nobody.apps.example.com. SOA of apps.example.com." },
	    { "a.default.apps.example.com.", "TXT",
		"NOERROR CNAME web.default.apps.example.com. SOA of apps.example.com." });
	/* External clients do not see the names of the cluster. Queries for these names are not
	 * forwarded either. */
	bed_forwarding(true);
	bed_publish();
	EXPECT({ "inside.default.apps.example.com.", "A", "NOERROR CNAME web.default.svc" });
}

static void
aliases_in_a_circle_answer_each_cname_once(void **state)
{
	(void)state;
	add(ANNOTATED(
	    "loop", JANUARY, "*.x.apps.example.com", HOSTNAME("LOOP.default.apps.example.com")));
	add(ANNOTATED("a", JANUARY, "", HOSTNAME("b.default.apps.example.com")));
	add(ANNOTATED("b", JANUARY, "", HOSTNAME("a.default.apps.example.com")));
	EXPECT({ "Loop.default.apps.example.com.", "A",
		   "NOERROR CNAME loop.default.apps.example.com." },
	    { "a.default.apps.example.com.", "AAAA",
		"NOERROR CNAME b.default.apps.example.com., b.default.apps.example.com.: CNAME "
		"a.default.apps.example.com." },
	    { "y.x.apps.example.com.", "A",
		"NOERROR CNAME loop.default.apps.example.com., loop.default.apps.example.com.: "
		"CNAME loop.default.apps.example.com." });
}

static void
wildcard_stands_for_what_does_not_exist_below_it(void **state)
{
	(void)state;
	add(WEB);
	add(ANNOTATED(
	    "wild", JANUARY, "*.apps.example.com,*.one.apps.example.com", IP("192.0.2.8")));
	EXPECT({ "x.apps.example.com.", "A", "NOERROR A 192.0.2.8" },
	    { "y.x.apps.example.com.", "A", "NOERROR A 192.0.2.8" },
	    { "x.apps.example.com.", "AAAA", NODATA },
	    { "y.one.apps.example.com.", "A", "NOERROR A 192.0.2.8" },
	    { "*.apps.example.com.", "A", "NOERROR A 192.0.2.8" },
	    /* RFC 4592 section 2.2.1: `default` exists, so the wildcard does not match */
	    { "x.default.apps.example.com.", "A", GONE },
	    { "web.default.apps.example.com.", "A", "NOERROR A 192.0.2.1, A 198.51.100.7" },
	    /* this name is in another external zone */
	    { "x.in.apps.example.com.", "A", "NXDOMAIN SOA of in.apps.example.com." });
}

static void
zones_have_what_a_parent_needs_to_delegate_to_them(void **state)
{
	(void)state;
	EXPECT(
	    { "apps.example.com.", "NS",
		"NOERROR NS ns.dns.apps.example.com. + ns.dns.apps.example.com.: A 203.0.113.53" },
	    { "apps.example.com.", "A", NODATA },
	    { "ns.dns.apps.example.com.", "A", "NOERROR A 203.0.113.53" },
	    { "ns.dns.apps.example.com.", "AAAA", NODATA });
	assert_non_null(strstr(bed_ask("apps.example.com.", "SOA"),
	    "SOA ns.dns.apps.example.com. hostmaster.apps.example.com. 1 7200 1800 86400 5"));
	/* No object can take the name of the name server. */
	add(INGRESS("thief", JANUARY, RULE("ns.dns.apps.example.com"), IP("192.0.2.66")));
	EXPECT({ "ns.dns.apps.example.com.", "A", "NOERROR A 203.0.113.53" });
	/* The apex may also have addresses. */
	add(INGRESS("apex", JANUARY, RULE("apps.example.com"), IP("192.0.2.67")));
	EXPECT({ "apps.example.com.", "A", "NOERROR A 192.0.2.67" },
	    { "apps.example.com.", "NS",
		"NOERROR NS ns.dns.apps.example.com. + ns.dns.apps.example.com.: A 203.0.113.53" });
}

static void
name_server_may_be_a_service_of_the_zone(void **state)
{
	static struct dname ns[1];
	struct external_config with = config;

	(void)state;
	assert_int_equal(dname_from_text(&ns[0], "web.default.apps.example.com"), 0);
	with.ns = ns;
	with.ns_count = 1;
	with.ns_addr_count = 0;
	begin_with(&with);
	zones.primary = &ns[0];
	add(WEB);
	EXPECT({ "apps.example.com.", "NS",
		   "NOERROR NS web.default.apps.example.com. "
		   "+ web.default.apps.example.com.: A 192.0.2.1, "
		   "+ web.default.apps.example.com.: A 198.51.100.7, "
		   "+ web.default.apps.example.com.: AAAA 2001:db8::1" },
	    { "ns.dns.apps.example.com.", "A", GONE });
	assert_non_null(
	    strstr(bed_ask("apps.example.com.", "SOA"), "SOA web.default.apps.example.com."));
	zones.primary = NULL;
}

/* Otherwise, an object that owns the name would be the name server of the zones. */
static void
name_servers_name_is_its_services_alone(void **state)
{
	static struct dname ns[1];
	struct external_config with = config;
	struct external_source source;
	bool differs;

	(void)state;
	assert_int_equal(dname_from_text(&ns[0], "dns.kube-system.apps.example.com"), 0);
	with.ns = ns;
	with.ns_count = 1;
	with.ns_addr_count = 0;
	begin_with(&with);
	add(INGRESS("thief", "2020-01-01T00:00:00Z", RULE("dns.kube-system.apps.example.com"),
	    IP("192.0.2.66")));
	add(INGRESS("wild", "2020-01-01T00:00:00Z",
	    RULE("*.kube-system.apps.example.com") "," RULE("*.apps.example.com"),
	    IP("192.0.2.66")));
	EXPECT({ "apps.example.com.", "NS", "NOERROR NS dns.kube-system.apps.example.com." },
	    { "dns.kube-system.apps.example.com.", "A", NODATA },
	    { "x.kube-system.apps.example.com.", "A", "NOERROR A 192.0.2.66" });
	assert_int_equal(external_conflicts(external), 1);
	assert_int_equal(external_name_count(external), 2); /* the two wildcards */
	assert_true(external_find(external, ns[0].wire, 0, &source, &differs));
	assert_int_equal(source.kind, OBJECT_KIND_COUNT);
	assert_false(differs);
	assert_true(external_find(external, ns[0].wire, 1, &source, &differs));
	assert_int_equal(source.kind, OBJECT_INGRESS);
	assert_true(differs);
	assert_false(external_find(external, ns[0].wire, 2, &source, &differs));
	/* The name stays when a name below it is added and removed. */
	add(INGRESS("below", JANUARY, RULE("x.dns.kube-system.apps.example.com"), IP("192.0.2.4")));
	tell(EVENT_DELETED, INGRESS("below", JANUARY, RULE("x"), ""));
	EXPECT({ "dns.kube-system.apps.example.com.", "A", NODATA });
	tell(EVENT_DELETED, INGRESS("thief", JANUARY, RULE("x"), ""));
	EXPECT({ "dns.kube-system.apps.example.com.", "A", NODATA });
	assert_int_equal(external_conflicts(external), 0);
	add("{'kind':'Service','metadata':{'namespace':'kube-system','name':'dns'},'spec':{},"
	    "'status':{'loadBalancer':{'ingress':[{'ip':'203.0.113.53'}]}}}");
	EXPECT({ "apps.example.com.", "NS",
	    "NOERROR NS dns.kube-system.apps.example.com. "
	    "+ dns.kube-system.apps.example.com.: A 203.0.113.53" });
	assert_int_equal(external_conflicts(external), 0);
}

#define OF(NAMESPACE, NAME, CREATED, HOSTS, ADDRESS)                                               \
	"{'kind':'Service','metadata':{'namespace':'" NAMESPACE "','name':'" NAME "',"             \
	"'creationTimestamp':'" CREATED "','annotations':{"                                        \
	"'external-dns.alpha.kubernetes.io/hostname':'" HOSTS "'}},"                               \
	"'spec':{'clusterIP':'10.96.0.2'},'status':{'loadBalancer':{'ingress':[" ADDRESS "]}}}"
#define NAMESPACE(NAME, CREATED)                                                                   \
	"{'kind':'Namespace','metadata':{'name':'" NAME "','creationTimestamp':'" CREATED "'}}"

static void
host_claimed_twice_is_the_first_claims(void **state)
{
	(void)state;
	add(ANNOTATED("young", FEBRUARY, "www.apps.example.com", IP("192.0.2.2")));
	EXPECT({ "www.apps.example.com.", "A", "NOERROR A 192.0.2.2" });
	assert_int_equal(external_conflicts(external), 0);
	add(INGRESS("old", JANUARY, RULE("WWW.apps.example.com"), IP("192.0.2.3")));
	EXPECT({ "www.apps.example.com.", "A", "NOERROR A 192.0.2.2" });
	assert_int_equal(external_conflicts(external), 1);
	/* Two objects with the same addresses are no conflict. */
	add(ANNOTATED("young", FEBRUARY, "www.apps.example.com", IP("192.0.2.3")));
	assert_int_equal(external_conflicts(external), 0);
	add(ANNOTATED("young", FEBRUARY, "www.apps.example.com", IP("192.0.2.2")));
	EXPECT({ "www.apps.example.com.", "A", "NOERROR A 192.0.2.2" });
	/* When an object gives the name up, it loses the name. If it claims the name again, it
	 * comes last. */
	add(ANNOTATED("young", FEBRUARY, "", IP("192.0.2.2")));
	EXPECT({ "www.apps.example.com.", "A", "NOERROR A 192.0.2.3" });
	add(ANNOTATED("young", FEBRUARY, "www.apps.example.com", IP("192.0.2.2")));
	EXPECT({ "www.apps.example.com.", "A", "NOERROR A 192.0.2.3" });
	tell(EVENT_DELETED, INGRESS("old", JANUARY, RULE("x"), ""));
	EXPECT({ "www.apps.example.com.", "A", "NOERROR A 192.0.2.2" });
	assert_int_equal(external_conflicts(external), 0);
}

/* An object that is older than the owner of a name can be edited at any time. The edit must not
 * take the name. */
static void
no_edit_of_an_older_object_takes_a_name(void **state)
{
	(void)state;
	begin_listing();
	add(NAMESPACE("team-a", FEBRUARY));
	add(NAMESPACE("team-b", JANUARY));
	add(OF("team-a", "shop", FEBRUARY, "shop.apps.example.com", IP("203.0.113.10")));
	add(OF("team-b", "old", JANUARY, "", IP("198.51.100.66")));
	external_begin(external);
	add(OF("team-b", "old", JANUARY, "shop.apps.example.com", IP("198.51.100.66")));
	EXPECT({ "shop.apps.example.com.", "A", "NOERROR A 203.0.113.10" });
	assert_int_equal(external_conflicts(external), 1);
	/* The name also stays if the thief is first in a listing, or if its owner changes. */
	external_event(external, OBJECT_SERVICE, EVENT_LISTING, NULL);
	add(OF("team-b", "old", JANUARY, "shop.apps.example.com", IP("198.51.100.66")));
	add(OF("team-a", "shop", FEBRUARY, "x.apps.example.com,shop.apps.example.com",
	    IP("203.0.113.11")));
	external_event(external, OBJECT_SERVICE, EVENT_SYNCED, NULL);
	treecache_publish(external_tree(external), 1, true);
	EXPECT({ "shop.apps.example.com.", "A", "NOERROR A 203.0.113.11" });
}

static void
at_the_beginning_the_order_is_that_of_the_namespaces(void **state)
{
	static const uint8_t www[] = "\3www\4apps\7example\3com";
	const char *objects[] = {
		OF("old-team", "z", FEBRUARY, "www.apps.example.com", IP("192.0.2.2")),
		OF("new-team", "a", JANUARY, "www.apps.example.com", IP("192.0.2.3")),
		OF("old-team", "y", JANUARY, "www.apps.example.com", IP("192.0.2.1")),
		OF("another", "a", JANUARY, "www.apps.example.com", IP("192.0.2.4")),
		NAMESPACE("new-team", FEBRUARY),
		NAMESPACE("old-team", JANUARY),
	};

	enum { COUNT = sizeof objects / sizeof objects[0] };
	(void)state;

	/* The listing starts with each of the objects once. */
	for (size_t first = 0; first < COUNT; first++) {
		static const char *const want[] = { "y", "z", "a", "a" };
		struct external_source source;
		bool differs;
		begin_listing();
		for (size_t i = 0; i < COUNT; i++)
			add(objects[(first + i) % COUNT]);
		external_begin(external);
		treecache_publish(external_tree(external), 1, true);
		EXPECT({ "www.apps.example.com.", "A", "NOERROR A 192.0.2.1" });
		assert_int_equal(external_conflicts(external), 1);
		for (size_t i = 0; i < 4; i++) {
			assert_true(external_find(external, www, i, &source, &differs));
			assert_string_equal(source.name, want[i]);
		}
		/* The age of the namespace `another` is unknown. */
		assert_string_equal(source.namespace, "another");
		tell(EVENT_DELETED, objects[2]);
		EXPECT({ "www.apps.example.com.", "A", "NOERROR A 192.0.2.2" });
	}
}

/* This happens when an Ingress controller ends and removes the addresses of all Ingresses. */
static void
object_without_addresses_for_a_while_gets_its_name_back(void **state)
{
	(void)state;
	add(INGRESS("holder", JANUARY, RULE("www.apps.example.com"), IP("192.0.2.1")));
	add(OF("team-b", "thief", JANUARY, "www.apps.example.com", IP("198.51.100.66")));
	EXPECT({ "www.apps.example.com.", "A", "NOERROR A 192.0.2.1" });
	add(INGRESS("holder", JANUARY, RULE("www.apps.example.com"), ""));
	EXPECT({ "www.apps.example.com.", "A", "NOERROR A 198.51.100.66" });
	assert_int_equal(external_conflicts(external), 0);
	add(INGRESS(
	    "holder", JANUARY, RULE("www.apps.example.com") "," RULE("b.apps.example.com"), ""));
	add(INGRESS("holder", JANUARY, RULE("www.apps.example.com"), IP("192.0.2.1")));
	EXPECT({ "www.apps.example.com.", "A", "NOERROR A 192.0.2.1" });
	assert_int_equal(external_conflicts(external), 1);
	/* No other object claims the name, so it does not exist in the meantime. */
	tell(EVENT_DELETED, OF("team-b", "thief", JANUARY, "", ""));
	add(INGRESS("holder", JANUARY, RULE("www.apps.example.com"), ""));
	EXPECT({ "www.apps.example.com.", "A", GONE });
	add(INGRESS("holder", JANUARY, RULE("www.apps.example.com"), IP("192.0.2.1")));
	EXPECT({ "www.apps.example.com.", "A", "NOERROR A 192.0.2.1" });
	/* The object gives up the name while it has no address. */
	add(INGRESS("holder", JANUARY, RULE("www.apps.example.com"), ""));
	add(INGRESS("holder", JANUARY, RULE("other.apps.example.com"), ""));
	assert_int_equal(external_count(external, OBJECT_INGRESS), 0);
	add(OF("team-b", "next", JANUARY, "www.apps.example.com", IP("198.51.100.66")));
	add(INGRESS("holder", JANUARY, RULE("www.apps.example.com"), IP("192.0.2.1")));
	EXPECT({ "www.apps.example.com.", "A", "NOERROR A 198.51.100.66" });
	/* The object is deleted. */
	tell(EVENT_DELETED, INGRESS("holder", JANUARY, RULE("x"), ""));
	assert_int_equal(external_conflicts(external), 0);
}

static void
what_is_refused_by_the_flag_has_no_name(void **state)
{
	struct external_config with = config;

	(void)state;
	with.refuse_wildcards = with.refuse_apex = with.refuse_external_ips = true;
	begin_with(&with);
	add(OF("team-b", "a", JANUARY, "*.apps.example.com,apps.example.com,ok.apps.example.com",
	    IP("192.0.2.1")));
	EXPECT({ "x.apps.example.com.", "A", GONE }, { "apps.example.com.", "A", NODATA },
	    { "ok.apps.example.com.", "A", "NOERROR A 192.0.2.1" });
	assert_int_equal(external_refused_total(external), 2);
	add(INGRESS("wild", JANUARY, RULE("*.shop.apps.example.com"), IP("192.0.2.1")));
	EXPECT({ "x.shop.apps.example.com.", "A", GONE });
	assert_int_equal(external_refused_total(external), 3);
	add(WEB);
	EXPECT({ "web.default.apps.example.com.", "A", "NOERROR A 192.0.2.1" });
	add("{'kind':'Service','metadata':{'namespace':'default','name':'ips'},'spec':{"
	    "'externalIPs':['198.51.100.7']}}");
	EXPECT({ "ips.default.apps.example.com.", "A", GONE });
}

/* Ingresses with one host name are added, changed and deleted. They have any age and one of three
 * sets of addresses. */
static void
conflicts_are_those_of_whoever_claims_now(void **state)
{
	static const uint8_t www[] = "\3www\4apps\7example\3com";

	static const char *const created[] = { JANUARY, FEBRUARY };
	static const char *const address[] = { IP("192.0.2.1"), IP("192.0.2.2"),
		IP("192.0.2.1") "," IP("192.0.2.2") };
	struct external_source source;
	unsigned random = 1;
	size_t seen[2] = { 0 };
	(void)state;

	for (unsigned i = 0; i < 2000; i++) {
		char text[512];
		bool differs = false, other;

		random = random * 1103515245 + 12345;
		snprintf(text, sizeof text,
		    INGRESS("i%u", "%s", RULE("www.apps.example.com"), "%s"), random >> 16 & 3,
		    created[random >> 16 & 1], address[(random >> 20) % 3]);
		tell((random >> 24) % 3 == 0 ? EVENT_DELETED : EVENT_MODIFIED, text);
		for (size_t k = 0; external_find(external, www, k, &source, &other); k++)
			differs = differs || other;
		assert_int_equal(external_conflicts(external), differs);
		seen[differs]++;
	}
	assert_true(seen[0] > 100 && seen[1] > 100);
}

static void
services_own_name_cannot_be_taken_by_an_older_object(void **state)
{
	(void)state;
	add(INGRESS(
	    "old", "2020-01-01T00:00:00Z", RULE("web.default.apps.example.com"), IP("192.0.2.3")));
	add(WEB);
	EXPECT({ "web.default.apps.example.com.", "AAAA", "NOERROR AAAA 2001:db8::1" });
	assert_int_equal(external_conflicts(external), 1);
}

#define WAITING                                                                                    \
	"{'kind':'Service','metadata':{'namespace':'default','name':'web'},'spec':{"               \
	"'type':'LoadBalancer','clusterIP':'10.96.0.1','ports':[{'name':'http','port':80}]},"      \
	"'status':{'loadBalancer':{}}}"
#define OTHERS                                                                                     \
	INGRESS("old", "2020-01-01T00:00:00Z",                                                     \
	    RULE("web.default.apps.example.com") "," RULE("*.default.apps.example.com"),           \
	    IP("192.0.2.3"))

static void
service_that_waits_for_its_load_balancer_keeps_its_name(void **state)
{
	(void)state;
	add(WAITING);
	add(OTHERS);
	EXPECT({ "web.default.apps.example.com.", "A", NODATA },
	    { "web.default.apps.example.com.", "ANY", NODATA },
	    { "_http._tcp.web.default.apps.example.com.", "SRV", GONE },
	    { "web2.default.apps.example.com.", "A", "NOERROR A 192.0.2.3" });
	assert_int_equal(external_conflicts(external), 1);
	add(WEB);
	EXPECT({ "web.default.apps.example.com.", "AAAA", "NOERROR AAAA 2001:db8::1" });
	add(WAITING);
	EXPECT({ "web.default.apps.example.com.", "AAAA", NODATA },
	    { "_http._tcp.web.default.apps.example.com.", "SRV", GONE });
	tell(EVENT_DELETED, WAITING);
	EXPECT({ "web.default.apps.example.com.", "A", "NOERROR A 192.0.2.3" });
}

/* A Service without an address must not block a host. Otherwise, anybody who can choose the names
 * of a namespace and a Service could block any host of four labels. */
static void
service_that_waits_does_not_silence_a_host_that_was_there_before(void **state)
{
	(void)state;
	add(OTHERS);
	add(WAITING);
	EXPECT({ "web.default.apps.example.com.", "A", "NOERROR A 192.0.2.3" });
	assert_int_equal(external_conflicts(external), 1);
	add(WEB); /* with addresses, the Service gets its own name */
	EXPECT({ "web.default.apps.example.com.", "AAAA", "NOERROR AAAA 2001:db8::1" });
	add(WAITING);
	EXPECT({ "web.default.apps.example.com.", "A", "NOERROR A 192.0.2.3" });
	/* The result is the same after a restart, because a Service that waits has never had an
	 * address. */
	for (int first = 0; first < 2; first++) {
		begin_listing();
		add(first == 0 ? WAITING : OTHERS);
		add(first == 0 ? OTHERS : WAITING);
		external_begin(external);
		treecache_publish(external_tree(external), 1, true);
		EXPECT({ "web.default.apps.example.com.", "A", "NOERROR A 192.0.2.3" });
	}
}

static void
without_an_address_there_is_no_name(void **state)
{
	(void)state;
	add(INGRESS("soon", JANUARY, RULE("soon.apps.example.com"), ""));
	EXPECT({ "soon.apps.example.com.", "A", GONE });
	assert_int_equal(external_count(external, OBJECT_INGRESS), 0);
	add(INGRESS("soon", JANUARY, RULE("soon.apps.example.com") "," RULE("a.example.org"),
	    IP("192.0.2.4")));
	EXPECT({ "soon.apps.example.com.", "A", "NOERROR A 192.0.2.4" });
	add(INGRESS("soon", JANUARY, RULE("soon.apps.example.com"), ""));
	EXPECT({ "soon.apps.example.com.", "A", GONE });
}

static void
what_is_no_host_name_is_refused(void **state)
{
	static const char *const bad[] = { "a..apps.example.com", "-a.apps.example.com",
		"a.*.apps.example.com", "**.apps.example.com", "a\\\\046.apps.example.com",
		"_http._tcp.web.default.apps.example.com", "*" };

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		char text[600];

		snprintf(text, sizeof text, INGRESS("bad", JANUARY, RULE("%s"), IP("192.0.2.4")),
		    bad[i]);
		add(text);
		assert_int_equal(external_refused_total(external), i + 1);
		/* The two names are ns.dns in each zone. */
		assert_int_equal(external_name_count(external), 2);
	}
}

static void
ttl_is_the_annotations_or_the_zones(void **state)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	add(WEB);
	add(ANNOTATED("timed", JANUARY, "t.apps.example.com", IP("192.0.2.5")));
	assert_int_equal(zone_print(out, &bed.config, tree_current(bed.cache), 1), 0);
	fclose(out);
	assert_non_null(strstr(text, "t.apps.example.com. 60 IN A 192.0.2.5\n"));
	assert_non_null(strstr(text, "web.default.apps.example.com. 30 IN A 192.0.2.1\n"));
	assert_null(strstr(text, "in.apps.example.com."));
	free(text);
}

static void
relisted_without_an_object_its_names_are_gone(void **state)
{
	(void)state;
	add(WEB);
	add(ANNOTATED("stays", JANUARY, "", IP("192.0.2.5")));
	external_event(external, OBJECT_SERVICE, EVENT_LISTING, NULL);
	add(ANNOTATED("stays", JANUARY, "", IP("192.0.2.5")));
	external_event(external, OBJECT_SERVICE, EVENT_SYNCED, NULL);
	treecache_publish(external_tree(external), 1, true);
	EXPECT({ "web.default.apps.example.com.", "A", GONE },
	    { "stays.default.apps.example.com.", "A", "NOERROR A 192.0.2.5" });
}

static void
headless_services_have_their_pods_addresses_when_asked_for(void **state)
{
	(void)state;
	bed_service("db", SERVICE_HEADLESS, NULL, "pg/tcp/5432");
	bed_slice("db", "db-1", "pg/tcp/5432", "10.1.0.1=db-0 10.1.0.2 !10.1.0.3=db-2");
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	bed_slice("web", "web-1", "http/tcp/80", "10.1.1.1=web-0");
	bed_publish();
	EXPECT({ "db.default.apps.example.com.", "A", GONE });
	zones.headless = true;
	EXPECT({ "db.default.apps.example.com.", "A", "NOERROR A 10.1.0.1, A 10.1.0.2" },
	    { "db-0.db.default.apps.example.com.", "A", "NOERROR A 10.1.0.1" },
	    { "10-1-0-2.db.default.apps.example.com.", "A", "NOERROR A 10.1.0.2" },
	    { "db.default.apps.example.com.", "AAAA", NODATA },
	    { "_pg._tcp.db.default.apps.example.com.", "SRV",
		"NOERROR SRV 0 50 5432 10-1-0-2.db.default.apps.example.com., "
		"SRV 0 50 5432 db-0.db.default.apps.example.com. "
		"+ 10-1-0-2.db.default.apps.example.com.: A 10.1.0.2, "
		"+ db-0.db.default.apps.example.com.: A 10.1.0.1" },
	    { "db.default.apps.example.com.", "SRV",
		"NOERROR SRV 0 50 5432 10-1-0-2.db.default.apps.example.com., "
		"SRV 0 50 5432 db-0.db.default.apps.example.com. "
		"+ 10-1-0-2.db.default.apps.example.com.: A 10.1.0.2, "
		"+ db-0.db.default.apps.example.com.: A 10.1.0.1" },
	    { "db-0.db.default.apps.example.com.", "SRV",
		"NOERROR SRV 0 100 5432 db-0.db.default.apps.example.com. "
		"+ db-0.db.default.apps.example.com.: A 10.1.0.1" },
	    { "_pg._tcp.db.default.apps.example.com.", "A", NODATA },
	    { "_tcp.db.default.apps.example.com.", "SRV", NODATA },
	    { "_udp.db.default.apps.example.com.", "SRV", GONE },
	    { "_pg._udp.db.default.apps.example.com.", "SRV", GONE },
	    { "x._pg._tcp.db.default.apps.example.com.", "SRV", GONE },
	    { "db-2.db.default.apps.example.com.", "A", GONE },
	    { "default.apps.example.com.", "A", NODATA },
	    { "nowhere.apps.example.com.", "A", GONE },
	    /* The pods of a Service with a ClusterIP have no names, because the Service is not
	     * headless. */
	    { "web.default.apps.example.com.", "A", GONE },
	    { "_http._tcp.web.default.apps.example.com.", "SRV", GONE },
	    { "_tcp.web.default.apps.example.com.", "SRV", GONE },
	    { "web-0.web.default.apps.example.com.", "A", GONE });
	/* The names of --zonal do not exist either, whether or not the zone has endpoints. */
	bed.parts.choice.zonal = true;
	EXPECT({ "_zone.db.default.apps.example.com.", "A", GONE },
	    { "pin._zone.db.default.apps.example.com.", "A", GONE },
	    { "prefer._zone.db.default.apps.example.com.", "A", GONE },
	    { "_tcp.db.default.apps.example.com.", "SRV", NODATA });
	bed.parts.choice.zonal = false;
	/* The names of headless Services take precedence over a wildcard, but not over records. */
	add(INGRESS("wild", JANUARY, RULE("*.apps.example.com"), IP("192.0.2.8")));
	EXPECT({ "db.default.apps.example.com.", "A", "NOERROR A 10.1.0.1, A 10.1.0.2" });
	/* The wildcard does not match names below a headless Service or its namespace (RFC 4592
	 * section 3.3.1). */
	EXPECT({ "x.apps.example.com.", "A", "NOERROR A 192.0.2.8" },
	    { "x.y.apps.example.com.", "A", "NOERROR A 192.0.2.8" },
	    { "default.apps.example.com.", "A", NODATA },
	    { "nothing.default.apps.example.com.", "A", GONE },
	    { "web.default.apps.example.com.", "A", GONE },
	    { "nothing.db.default.apps.example.com.", "A", GONE },
	    { "x._pg._tcp.db.default.apps.example.com.", "A", GONE },
	    { "a.b.c.x._pg._tcp.db.default.apps.example.com.", "A", GONE });
	/* A closer wildcard does not match names below a headless Service either. */
	add(INGRESS("near", JANUARY, RULE("*.default.apps.example.com"), IP("192.0.2.7")));
	EXPECT({ "nothing.default.apps.example.com.", "A", "NOERROR A 192.0.2.7" },
	    { "nothing.web.default.apps.example.com.", "A", "NOERROR A 192.0.2.7" },
	    { "nothing.db.default.apps.example.com.", "A", GONE });
	/* A namespace without names of headless Services is not part of the zone. A secondary also
	 * sees it like this. */
	bed_slice("db", "db-1", "pg/tcp/5432", "!10.1.0.1=db-0");
	bed_publish();
	EXPECT({ "nothing.db.default.apps.example.com.", "A", "NOERROR A 192.0.2.7" });
	tell(EVENT_DELETED,
	    INGRESS("near", JANUARY, RULE("*.default.apps.example.com"), IP("192.0.2.7")));
	EXPECT({ "default.apps.example.com.", "A", "NOERROR A 192.0.2.8" },
	    { "nothing.db.default.apps.example.com.", "A", "NOERROR A 192.0.2.8" });
	bed_slice("db", "db-1", "pg/tcp/5432", "10.1.0.1=db-0 10.1.0.2");
	bed_publish();
	EXPECT({ "default.apps.example.com.", "A", NODATA });
	add(INGRESS("db", JANUARY, RULE("db.default.apps.example.com"), IP("192.0.2.9")));
	EXPECT({ "db.default.apps.example.com.", "A", "NOERROR A 192.0.2.9" });
	zones.headless = false;
}

static void
before_the_first_sync_is_servfail(void **state)
{
	(void)state;
	begin_with(&config);
	treecache_publish(external_tree(external), 1, false);
	EXPECT({ "web.default.apps.example.com.", "A", "SERVFAIL" });
}

static void
elsewhere_nothing_but_these_zones_is_answered(void **state)
{
	(void)state;
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	add(WEB);
	bed_forwarding(true);
	bed_publish();
	zones.alone = true;
	stages_build(&bed.config);
	EXPECT({ "web.default.apps.example.com.", "AAAA", "NOERROR AAAA 2001:db8::1" },
	    { "web.default.svc", "A", "REFUSED" }, { "cluster.local.", "SOA", "REFUSED" },
	    { "web.default._explain", "TXT", "REFUSED" }, { "example.com.", "A", "REFUSED" },
	    { "1.0.96.10.in-addr.arpa.", "PTR", "REFUSED" }, { ".", "NS", "REFUSED" });
	/* There is no recursion either. The answer is only the alias. */
	add(ANNOTATED("aws", JANUARY, "", HOSTNAME("lb.example.net")));
	EXPECT({ "aws.default.apps.example.com.", "A", "NOERROR CNAME lb.example.net." });
	zones.alone = false;
	stages_build(&bed.config);
}

/* The zone of --domain may be inside an external zone. Its names still belong to the cluster. */
static void
elsewhere_a_cluster_domain_inside_such_a_zone_is_not_answered(void **state)
{
	(void)state;
	assert_int_equal(dname_from_text(&names[0], "local"), 0);
	begin_with(&config);
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	bed_publish();
	add(INGRESS("shop", JANUARY, RULE("shop.local") "," RULE("*.local"), IP("192.0.2.9")));
	add(INGRESS("in", JANUARY, RULE("web.default.svc.cluster.local"), IP("192.0.2.9")));
	add(ANNOTATED("alias", JANUARY, "alias.local", HOSTNAME("web.default.svc.cluster.local")));
	EXPECT({ "web.default.svc", "A", "NOERROR A 10.96.0.1" });
	/* For a name of the cluster, no address of an Ingress is returned. */
	add("{'kind':'Service','metadata':{'namespace':'default','name':'lb'},"
	    "'spec':{'type':'LoadBalancer','clusterIP':'10.96.0.3',"
	    "'ports':[{'name':'http','port':80}]},'status':{'loadBalancer':{'ingress':[" HOSTNAME(
		"web.default.svc.cluster.local") "]}}}");
	EXPECT({ "_http._tcp.lb.default.local.", "SRV", "NOERROR SRV 0 100 80 web.default.svc" });
	zones.alone = true;
	stages_build(&bed.config);
	EXPECT({ "shop.local.", "A", "NOERROR A 192.0.2.9" },
	    { "cluster.local.", "SOA", "REFUSED" }, { "web.default.svc", "A", "REFUSED" },
	    { "WEB.default.svc.Cluster.local.", "A", "REFUSED" },
	    { "none.default.svc", "A", "REFUSED" }, { "x.default.s", "A", "REFUSED" },
	    { "web.default._explain", "TXT", "REFUSED" },
	    { "1.0.96.10.in-addr.arpa.", "PTR", "REFUSED" },
	    { "alias.local.", "A", "NOERROR CNAME web.default.svc" });
	zones.alone = false;
	stages_build(&bed.config);
}

static bool
count_record(void *arg, size_t zone, bool added, const struct zone_record *record)
{
	unsigned *counts = arg;

	assert_true(zone >= 1);
	assert_int_equal(record->type, TYPE_A);
	counts[added]++;
	return true;
}

/* A secondary serves external clients. They do not see the ConfigMap key `hosts`. */
static void
zone_for_a_secondary_is_without_the_key_hosts(void **state)
{
	char *text = NULL;
	size_t len = 0;

	(void)state;
	bed_context("null", "10.9.9.9 www.apps.example.com own.apps.example.com");
	bed_publish();
	add(ANNOTATED("web", JANUARY, "www.apps.example.com", IP("192.0.2.5")));
	EXPECT({ "www.apps.example.com.", "A", "NOERROR A 10.9.9.9" });
	FILE *out = open_memstream(&text, &len);
	assert_int_equal(zone_print(out, &bed.config, tree_current(bed.cache), 1), 0);
	fclose(out);
	assert_non_null(strstr(text, "\nwww.apps.example.com. 60 IN A 192.0.2.5\n"));
	assert_null(strstr(text, "10.9.9.9"));
	free(text);
	/* The same with IXFR. */
	struct tree_hold *hold = treecache_hold(external_tree(external));
	unsigned counts[2] = { 0, 0 };
	add(ANNOTATED("web", JANUARY, "www.apps.example.com", IP("192.0.2.6")));
	const struct zone_snapshots snapshots = { { tree_current(bed.cache), tree_held(hold) },
		{ tree_current(bed.cache), tree_current(external_tree(external)) } };
	assert_true(zone_diff(&bed.config, &snapshots, count_record, counts));
	assert_int_equal(counts[0], 3); /* web.default in each of the two zones, and others */
	assert_int_equal(counts[1], 3);
	tree_hold_drop(hold);
}

/* Each host name has all addresses, so a small Service could have 64,000 records. */
static void
host_names_times_addresses_have_a_limit(void **state)
{
	(void)state;
	struct json_object *json =
	    quoted_json(ANNOTATED("many", JANUARY, "HOSTS", IP("192.0.2.1")));
	struct json_object *annotations, *spec, *list = json_object_new_array();
	char hosts[16 * 1000] = "", address[32];
	const char *why = NULL;
	struct object object;

	for (int i = 0; i < 1000; i++)
		snprintf(hosts + strlen(hosts), sizeof hosts - strlen(hosts), "n%d.a.b,", i);
	for (int i = 0; i < 49; i++) {
		snprintf(address, sizeof address, "198.51.100.%d", i);
		json_object_array_add(list, json_object_new_string(address));
	}
	assert_int_equal(json_pointer_get(json, "/metadata/annotations", &annotations), 0);
	json_object_object_add(annotations, "external-dns.alpha.kubernetes.io/hostname",
	    json_object_new_string(hosts));
	assert_int_equal(json_pointer_get(json, "/spec", &spec), 0);
	json_object_object_add(spec, "externalIPs", list);
	assert_int_equal(object_extract(json, NULL, &object, &why), 0);
	object_read_external(json, &object, &why);
	assert_int_equal(object.external->addr_count, 50);
	assert_int_equal(object.external->host_count, 80);
	assert_true(object.cut);
	assert_string_equal(why, "host names times addresses are more than 4,000");
	object_clear(&object);
	json_object_put(json);
}

int
main(void)
{
#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(service_has_its_load_balancers_addresses_and_external_ips),
		TEST(host_names_times_addresses_have_a_limit),
		TEST(versions_that_are_no_numbers_differ),
		TEST(named_ports_are_srv_records_at_their_names),
		TEST(load_balancer_known_by_its_host_name_is_an_alias),
		TEST(alias_of_one_of_our_names_is_followed),
		TEST(aliases_in_a_circle_answer_each_cname_once),
		TEST(wildcard_stands_for_what_does_not_exist_below_it),
		TEST(zones_have_what_a_parent_needs_to_delegate_to_them),
		TEST(name_server_may_be_a_service_of_the_zone),
		TEST(name_servers_name_is_its_services_alone),
		TEST(host_claimed_twice_is_the_first_claims),
		TEST(no_edit_of_an_older_object_takes_a_name),
		TEST(at_the_beginning_the_order_is_that_of_the_namespaces),
		TEST(object_without_addresses_for_a_while_gets_its_name_back),
		TEST(what_is_refused_by_the_flag_has_no_name),
		TEST(service_that_waits_does_not_silence_a_host_that_was_there_before),
		TEST(conflicts_are_those_of_whoever_claims_now),
		TEST(services_own_name_cannot_be_taken_by_an_older_object),
		TEST(service_that_waits_for_its_load_balancer_keeps_its_name),
		TEST(without_an_address_there_is_no_name),
		TEST(what_is_no_host_name_is_refused),
		TEST(ttl_is_the_annotations_or_the_zones),
		TEST(relisted_without_an_object_its_names_are_gone),
		TEST(headless_services_have_their_pods_addresses_when_asked_for),
		TEST(before_the_first_sync_is_servfail),
		TEST(elsewhere_nothing_but_these_zones_is_answered),
		TEST(elsewhere_a_cluster_domain_inside_such_a_zone_is_not_answered),
		TEST(zone_for_a_secondary_is_without_the_key_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
