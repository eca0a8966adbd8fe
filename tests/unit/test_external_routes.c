/* External names: Gateways, ListenerSets and their routes, selected namespaces, and any order of arrival. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/label_selector.h"
#include "kubedns/show/zone.h"
#include "tests/unit/external_bed.h"

static void
listeners_host_names_have_the_gateways_address(void **state)
{
	(void)state;
	add(GATEWAY(LISTENER("a", "80", "gw.apps.example.com") "," LISTENER(
			"b", "443", "*.gw.apps.example.com") "," LISTENER("c", "81", ""),
	    "192.0.2.33"));
	EXPECT({ "gw.apps.example.com.", "A", "NOERROR A 192.0.2.33" },
	    { "x.gw.apps.example.com.", "A", "NOERROR A 192.0.2.33" },
	    { "x.apps.example.com.", "A", GONE });
}

static void
routes_have_the_address_of_the_gateway_that_took_them(void **state)
{
	static const struct {
		const char *hosts, *parent, *accepted, *asked;
		bool answered;
	} rows[] = {
		{ "'r.apps.example.com'", GW, "True", "r.apps.example.com.", true },
		{ "'r.apps.example.com'", GW, "False", "r.apps.example.com.", false },
		{ "'r.apps.example.com'", "'name':'gw'", "True", "r.apps.example.com.", false },
		{ "'r.apps.example.com'", GW ",'kind':'Service'", "True", "r.apps.example.com.",
		    false },
		{ "'r.apps.example.com'", GW ",'sectionName':'b'", "True", "r.apps.example.com.",
		    false },
		{ "'r.b.apps.example.com'", GW ",'sectionName':'b'", "True",
		    "r.b.apps.example.com.", true },
		{ "'r.b.apps.example.com'", GW ",'port':80", "True", "r.b.apps.example.com.",
		    true }, /* listener a accepts any host name */
		{ "'r.b.apps.example.com'", GW ",'port':9", "True", "r.b.apps.example.com.",
		    false },
		{ "'*.apps.example.com'", GW ",'sectionName':'c'", "True", "c.apps.example.com.",
		    true },
		{ "'*.apps.example.com'", GW ",'sectionName':'c'", "True", "d.apps.example.com.",
		    false },
		{ "", GW ",'sectionName':'c'", "True", "c.apps.example.com.", true },
		{ "'b.apps.example.com'", GW ",'sectionName':'b'", "True", "b.apps.example.com.",
		    false }, /* "*.b" does not match b */
	};

	static const char *const kinds[] = { "HTTPRoute", "GRPCRoute", "TLSRoute" };
	/* The Gateway that GW refers to. Its listener a accepts any host name. */
	static const char gateway[] =
	    GATEWAY(LISTENER("a", "80", "") "," LISTENER("b", "443",
			"*.b.apps.example.com") "," LISTENER("c", "444", "c.apps.example.com"),
		"192.0.2.33");

	(void)state;
	for (size_t i = 0; i < 3 * sizeof rows / sizeof rows[0]; i++) {
		char text[1000];
		size_t row = i / 3;
		bool gateway_first = i % 2 == 0;

		snprintf(text, sizeof text, ROUTE("%s", "r", "%s", "%s", "%s"), kinds[i % 3],
		    rows[row].hosts, rows[row].parent, rows[row].accepted);
		if (gateway_first)
			add(gateway);
		add(text);
		if (!gateway_first)
			add(gateway);
		struct external_source source;
		struct dname asked;
		bool found = false, differs;
		assert_int_equal(dname_from_text(&asked, rows[row].asked), 0);
		for (size_t k = 0; external_find(external, asked.wire, k, &source, &differs); k++)
			found = found || strcmp(source.name, "r") == 0;
		if (strncmp(rows[row].hosts, "'*", 2) != 0 && found != rows[row].answered)
			fail_msg("row %zu: %s", row, text);
		if (rows[row].answered)
			bed_expect(rows[row].asked, "A", "NOERROR A 192.0.2.33");
		tell(EVENT_DELETED, text);
		tell(EVENT_DELETED, gateway);
		assert_int_equal(external_name_count(external), 2);
	}
}

/* The label and the annotation of k8s_gateway, a plugin of CoreDNS. */
static void
objects_labelled_to_be_ignored_have_no_names(void **state)
{
#define IGNORED ",'labels':{'k8s-gateway.dns/ignore':'%s'}"
	static const struct {
		const char *object, *asked;
		bool gateway;
	} rows[] = {
		{ "{'kind':'Service','metadata':{'namespace':'default','name':'a'" IGNORED
		  ",'annotations':{'coredns.io/hostname':'s.apps.example.com'}},'spec':{"
		  "'type':'LoadBalancer'},'status':{'loadBalancer':{'ingress':[" IP(
		      "192.0.2.33") "]}}}",
		    "s.apps.example.com.", false },
		{ "{'kind':'Service','metadata':{'namespace':'default','name':'a'" IGNORED
		  "},'spec':{'externalIPs':['192.0.2.33']},'status':{}}",
		    "a.default.apps.example.com.", false },
		{ "{'kind':'Ingress','metadata':{'namespace':'shop','name':'i'" IGNORED
		  "},'spec':{'rules':[" RULE("i.apps.example.com") "]},'status':{'loadBalancer':{"
								   "'ingress':[" IP(
								       "192.0.2.33") "]}}}",
		    "i.apps.example.com.", false },
		{ "{'kind':'HTTPRoute','metadata':{'namespace':'shop','name':'r'" IGNORED
		  "},'spec':{},'status':{'parents':[{'parentRef':{" GW
		  ",'sectionName':'c'},'conditions':[{'type':'Accepted','status':'True'}]}]}}",
		    "c.apps.example.com.", true },
		{ "{'kind':'ListenerSet','metadata':{'namespace':'team','name':'set'" IGNORED
		  "},'spec':{'parentRef':{" GW "},'listeners':[" LISTENER("s", "80",
		      "s.apps.example.com") "]},'status':{'conditions':[{'type':'Accepted',"
					    "'status':'True'}]}}",
		    "s.apps.example.com.", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char *plain = NULL, *ignored = NULL;

		if (asprintf(&plain, rows[i].object, "false") < 0 ||
		    asprintf(&ignored, rows[i].object, "true") < 0)
			abort();
		if (rows[i].gateway) /* this Gateway has no names itself, but still serves routes */
			add("{'kind':'Gateway','metadata':{'namespace':'infra','name':'gw',"
			    "'labels':{'k8s-gateway.dns/ignore':'true'}},'spec':{'listeners':"
			    "[" LISTENER(
				"c", "80", "c.apps.example.com") "]},"
								 "'status':{'addresses':[{'value':'"
								 "192.0.2.33'}]}}");
		bed_expect(rows[i].asked, "A", GONE);
		add(plain);
		bed_expect(rows[i].asked, "A", "NOERROR A 192.0.2.33");
		tell(EVENT_MODIFIED, ignored);
		bed_expect(rows[i].asked, "A", GONE);
		tell(EVENT_DELETED, ignored);
		assert_int_equal(external_name_count(external), 2);
		free(plain);
		free(ignored);
	}
}

static void
route_follows_its_gateways(void **state)
{
	(void)state;
	add(GATEWAY(LISTENER("a", "80", ""), "192.0.2.33"));
	add(ROUTE("HTTPRoute", "r", "'r.apps.example.com'", GW, "True"));
	EXPECT({ "r.apps.example.com.", "A", "NOERROR A 192.0.2.33" });
	add(GATEWAY(LISTENER("a", "80", ""), "192.0.2.34"));
	EXPECT({ "r.apps.example.com.", "A", "NOERROR A 192.0.2.34" });
	add(GATEWAY(LISTENER("a", "80", "other.apps.example.com"), "192.0.2.34"));
	EXPECT({ "r.apps.example.com.", "A", GONE });
	tell(EVENT_DELETED, GATEWAY("", "192.0.2.34"));
	EXPECT({ "other.apps.example.com.", "A", GONE });
}

#define TAKEN(NAME)                                                                                \
	"{'parentRef':{'name':'" NAME "','namespace':'infra'},'conditions':[{"                     \
	"'type':'Accepted','status':'True'}]}"
#define OF(PARENTS)                                                                                \
	"{'kind':'HTTPRoute','metadata':{'namespace':'shop','name':'r'},'spec':{'hostnames':["     \
	"'r.apps.example.com']},'status':{'parents':[" PARENTS "]}}"

/* A route has the addresses of all its Gateways. It has the addresses of a Gateway only while that
 * Gateway accepts it. */
static void
route_follows_each_of_its_gateways(void **state)
{
	static const char second[] =
	    "{'kind':'Gateway','metadata':{'namespace':'infra','name':'second'},'spec':{"
	    "'listeners':[" LISTENER("a", "80", "") "," LISTENER(
		"b", "443", "") "]},"
				"'status':{'addresses':[{'value':'192.0.2.%s'}]}}";
	char *before = NULL, *after = NULL;

	(void)state;
	if (asprintf(&before, second, "44") < 0 || asprintf(&after, second, "45") < 0)
		abort();
	add(OF(TAKEN("gw") "," TAKEN("second") "," TAKEN("gw")));
	EXPECT({ "r.apps.example.com.", "A", GONE });
	add(GATEWAY(LISTENER("a", "80", ""), "192.0.2.33"));
	EXPECT({ "r.apps.example.com.", "A", "NOERROR A 192.0.2.33" });
	add(before);
	EXPECT({ "r.apps.example.com.", "A", "NOERROR A 192.0.2.33, A 192.0.2.44" });
	add(after);
	EXPECT({ "r.apps.example.com.", "A", "NOERROR A 192.0.2.33, A 192.0.2.45" });
	add(OF(TAKEN("gw")));
	EXPECT({ "r.apps.example.com.", "A", "NOERROR A 192.0.2.33" });
	add(before);
	EXPECT({ "r.apps.example.com.", "A", "NOERROR A 192.0.2.33" });
	add(OF(TAKEN("second")));
	EXPECT({ "r.apps.example.com.", "A", "NOERROR A 192.0.2.44" });
	tell(EVENT_DELETED, OF(TAKEN("second")));
	add(after);
	tell(EVENT_DELETED, after);
	EXPECT({ "r.apps.example.com.", "A", GONE });
	free(before);
	free(after);
}

/* --- ListenerSets --- */

#define TAKES_ANY GATEWAY(LISTENER("own", "80", "own.apps.example.com"), "192.0.2.33")

static void
listenersets_host_names_have_the_address_of_the_gateway_that_accepted_it(void **state)
{
	static const struct {
		const char *parent, *accepted;
		bool answered;
	} rows[] = {
		{ GW, "True", true },
		{ GW, "False", false },
		{ GW, "Unknown", false },
		{ GW ",'kind':'Gateway','group':'gateway.networking.k8s.io'", "True", true },
		{ "'name':'gw'", "True", false }, /* in the namespace of the ListenerSet */
		{ GW ",'kind':'ListenerSet'", "True", false },
		{ GW ",'kind':'Service'", "True", false },
		{ "'name':''", "True", false },
	};

	(void)state;
	for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
		char text[1000];
		bool gateway_first = i % 2 == 0;

		snprintf(text, sizeof text,
		    LISTENERSET("set",
			LISTENER("a", "443", "a.apps.example.com") "," LISTENER(
			    "b", "443", "*.b.apps.example.com") "," LISTENER("c", "80", ""),
			"%s", "%s"),
		    rows[i / 2].parent, rows[i / 2].accepted);
		if (gateway_first)
			add(TAKES_ANY);
		add(text);
		if (!gateway_first)
			add(TAKES_ANY);
		const char *want = rows[i / 2].answered ? "NOERROR A 192.0.2.33" : GONE;
		EXPECT({ "a.apps.example.com.", "A", want }, { "x.b.apps.example.com.", "A", want },
		    { "own.apps.example.com.", "A", "NOERROR A 192.0.2.33" });
		tell(EVENT_DELETED, text);
		tell(EVENT_DELETED, TAKES_ANY);
		assert_int_equal(external_name_count(external), 2);
		assert_int_equal(external_count(external, OBJECT_LISTENERSET), 0);
	}
}

static void
routes_have_the_listeners_of_their_own_parent_only(void **state)
{
	static const struct {
		const char *hosts, *parent, *asked;
		bool answered;
	} rows[] = {
		{ "'r.set.apps.example.com'", SET, "r.set.apps.example.com.", true },
		{ "", SET ",'sectionName':'b'", "b.apps.example.com.", true },
		{ "'b.apps.example.com'", SET ",'sectionName':'b'", "b.apps.example.com.", true },
		{ "'b.apps.example.com'", SET ",'sectionName':'a'", "b.apps.example.com.", false },
		{ "'b.apps.example.com'", SET ",'port':444", "b.apps.example.com.", true },
		{ "'b.apps.example.com'", SET ",'port':80", "b.apps.example.com.", false },
		{ "'own.apps.example.com'", SET, "own.apps.example.com.", false },
		{ "'own.apps.example.com'", GW, "own.apps.example.com.", true },
		{ "'b.apps.example.com'", GW, "b.apps.example.com.", false },
		/* a Gateway and a ListenerSet of one name are two parents */
		{ "'b.apps.example.com'", "'name':'set','namespace':'team'", "b.apps.example.com.",
		    false },
	};
	static const char set[] = LISTENERSET("set",
	    LISTENER("a", "443", "*.set.apps.example.com") "," LISTENER(
		"b", "444", "b.apps.example.com"),
	    GW, "True");
	/* the six orders in which the Gateway, the ListenerSet and the route can arrive */
	static const unsigned orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 },
		{ 2, 0, 1 }, { 2, 1, 0 } };

	(void)state;
	for (size_t i = 0; i < 6 * sizeof rows / sizeof rows[0]; i++) {
		char route[1000];
		const char *const objects[] = { TAKES_ANY, set, route };
		const unsigned *order = orders[i % 6];

		snprintf(route, sizeof route, ROUTE("HTTPRoute", "r", "%s", "%s", "True"),
		    rows[i / 6].hosts, rows[i / 6].parent);
		for (size_t k = 0; k < 3; k++)
			add(objects[order[k]]);
		struct external_source source;
		struct dname asked;
		bool found = false, differs;
		assert_int_equal(dname_from_text(&asked, rows[i / 6].asked), 0);
		for (size_t k = 0; external_find(external, asked.wire, k, &source, &differs); k++)
			found = found || source.kind == OBJECT_HTTPROUTE;
		if (found != rows[i / 6].answered)
			fail_msg("row %zu, order %zu", i / 6, i % 6);
		for (size_t k = 0; k < 3; k++)
			tell(EVENT_DELETED, objects[order[k]]);
		assert_int_equal(external_name_count(external), 2);
	}
}

static void
routes_follow_the_gateway_of_their_listenerset(void **state)
{
#define OWN_SET(ACCEPTED)                                                                          \
	LISTENERSET("set", LISTENER("a", "443", "*.set.apps.example.com"), GW, ACCEPTED)
	static const char gone[] = GATEWAY("", "192.0.2.34");

	(void)state;
	add(TAKES_ANY);
	add(OWN_SET("True"));
	add(ROUTE("TLSRoute", "r", "'r.set.apps.example.com'", SET, "True"));
	EXPECT({ "r.set.apps.example.com.", "A", "NOERROR A 192.0.2.33" });
	add(GATEWAY("", "192.0.2.34"));
	EXPECT({ "r.set.apps.example.com.", "A", "NOERROR A 192.0.2.34" },
	    { "x.set.apps.example.com.", "A", "NOERROR A 192.0.2.34" });
	add(OWN_SET("False"));
	EXPECT({ "r.set.apps.example.com.", "A", GONE }, { "x.set.apps.example.com.", "A", GONE });
	add(OWN_SET("True"));
	EXPECT({ "r.set.apps.example.com.", "A", "NOERROR A 192.0.2.34" });
	add(LISTENERSET("set", LISTENER("a", "443", "other.apps.example.com"), GW, "True"));
	EXPECT({ "r.set.apps.example.com.", "A", GONE },
	    { "other.apps.example.com.", "A", "NOERROR A 192.0.2.34" });
	add(OWN_SET("True"));
	tell(EVENT_DELETED, gone);
	EXPECT({ "r.set.apps.example.com.", "A", GONE }, { "x.set.apps.example.com.", "A", GONE });
	add(gone);
	EXPECT({ "r.set.apps.example.com.", "A", "NOERROR A 192.0.2.34" });
	/* a listing without the ListenerSet */
	external_event(external, OBJECT_LISTENERSET, EVENT_LISTING, NULL);
	external_event(external, OBJECT_LISTENERSET, EVENT_SYNCED, NULL);
	treecache_publish(external_tree(external), 1, true);
	EXPECT({ "r.set.apps.example.com.", "A", GONE });
}

static void
route_follows_a_gateway_and_a_listenerset_of_the_same_name(void **state)
{
#define ACCEPTED_BY(KIND)                                                                          \
	"{'parentRef':{'kind':'" KIND "','name':'set','namespace':'team'},'conditions':[{"         \
	"'type':'Accepted','status':'True'}]}"
#define ROUTE_OF(PARENTS)                                                                          \
	"{'kind':'HTTPRoute','metadata':{'namespace':'shop','name':'r'},'spec':{'hostnames':["     \
	"'r.set.apps.example.com']},'status':{'parents':[" PARENTS "]}}"

	(void)state;
	add(TAKES_ANY);
	add("{'kind':'Gateway','metadata':{'namespace':'team','name':'set'},'spec':{'listeners':"
	    "[" LISTENER("a", "80", "") "]},'status':{'addresses':[{'value':'192.0.2.44'}]}}");
	add(ROUTE_OF(ACCEPTED_BY("Gateway") "," ACCEPTED_BY("ListenerSet")));
	EXPECT({ "r.set.apps.example.com.", "A", "NOERROR A 192.0.2.44" });
	add(OWN_SET("True"));
	EXPECT({ "r.set.apps.example.com.", "A", "NOERROR A 192.0.2.33, A 192.0.2.44" });
	add(ROUTE_OF(ACCEPTED_BY("Gateway")));
	EXPECT({ "r.set.apps.example.com.", "A", "NOERROR A 192.0.2.44" });
	add(ROUTE_OF(ACCEPTED_BY("ListenerSet")));
	EXPECT({ "r.set.apps.example.com.", "A", "NOERROR A 192.0.2.33" });
}

/* Its routes keep their names, as the routes of a Gateway with this label do. */
static void
listenerset_labelled_to_be_ignored_still_serves_its_routes(void **state)
{
	(void)state;
	add(TAKES_ANY);
	add("{'kind':'ListenerSet','metadata':{'namespace':'team','name':'set','labels':{"
	    "'k8s-gateway.dns/ignore':'true'}},'spec':{'parentRef':{" GW "},'listeners':[" LISTENER(
		"a", "443", "*.set.apps.example.com") "]},'status':{'conditions':[{"
						      "'type':'Accepted','status':'True'}]}}");
	add(ROUTE("HTTPRoute", "r", "'r.set.apps.example.com'", SET, "True"));
	EXPECT({ "r.set.apps.example.com.", "A", "NOERROR A 192.0.2.33" },
	    { "x.set.apps.example.com.", "A", GONE });
}

/* A ListenerSet keeps its claim while its Gateway has no address, as a Gateway does. */
static void
listenerset_gets_its_name_back(void **state)
{
	static const char set[] =
	    LISTENERSET("set", LISTENER("a", "443", "x.apps.example.com"), GW, "True");

	(void)state;
	add(TAKES_ANY);
	add(set);
	add(ANNOTATED("later", JANUARY, "x.apps.example.com", IP("192.0.2.2")));
	EXPECT({ "x.apps.example.com.", "A", "NOERROR A 192.0.2.33" });
	tell(EVENT_DELETED, TAKES_ANY);
	EXPECT({ "x.apps.example.com.", "A", "NOERROR A 192.0.2.2" });
	add(TAKES_ANY);
	EXPECT({ "x.apps.example.com.", "A", "NOERROR A 192.0.2.33" });
}

/* Two ListenerSets that name each other as parents do not end in endless recursion. */
static void
listenerset_cannot_be_the_parent_of_a_listenerset(void **state)
{
	static const char one[] = LISTENERSET("one", LISTENER("a", "443", "one.apps.example.com"),
	    "'kind':'ListenerSet','name':'two'", "True"),
			  two[] = LISTENERSET("two", LISTENER("a", "443", "two.apps.example.com"),
			      "'kind':'ListenerSet','name':'one'", "True");

	(void)state;
	add(TAKES_ANY);
	add(one);
	add(two);
	add(one);
	EXPECT({ "one.apps.example.com.", "A", GONE }, { "two.apps.example.com.", "A", GONE });
	assert_int_equal(external_count(external, OBJECT_LISTENERSET), 0);
}

static void
only_chosen_namespaces_have_names(void **state)
{
	static const char chosen[] =
	    "{'kind':'Namespace','metadata':{'name':'default','labels':{'dns':'yes'}}}";
	static const char left[] = "{'kind':'Namespace','metadata':{'name':'default','labels':{}}}";
	struct external_config with = config;
	struct label_selector *selector = NULL;
	char *why = NULL;

	(void)state;
	assert_int_equal(label_selector_parse("dns=yes", &selector, &why), 0);
	with.namespace_labels = selector;
	begin_with(&with);
	add(WEB);
	EXPECT({ "web.default.apps.example.com.", "A", GONE });
	add(chosen);
	EXPECT({ "web.default.apps.example.com.", "AAAA", "NOERROR AAAA 2001:db8::1" });
	add(left);
	EXPECT({ "web.default.apps.example.com.", "A", GONE });
	add(chosen);
	external_event(external, OBJECT_NAMESPACE, EVENT_LISTING, NULL);
	external_event(external, OBJECT_NAMESPACE, EVENT_SYNCED, NULL);
	treecache_publish(external_tree(external), 1, true);
	EXPECT({ "web.default.apps.example.com.", "A", GONE });
	label_selector_free(selector);
}

static char *
zone_text(void)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	zone_print(out, &bed.config, tree_current(bed.cache), 1);
	fclose(out);
	return text;
}

/* This order applies after startup. Later, the first object that claims a name gets it. */
static void
order_of_arrival_does_not_matter(void **state)
{
	static const char *const objects[] = { WEB,
		ANNOTATED("a", JANUARY, "x.apps.example.com,y.apps.example.com", IP("192.0.2.2")),
		ANNOTATED("b", JANUARY, "x.apps.example.com", IP("192.0.2.3")),
		INGRESS("i", FEBRUARY, RULE("y.apps.example.com") "," RULE("*.y.apps.example.com"),
		    HOSTNAME("lb.example.net")),
		INGRESS("j", JANUARY, RULE("web.default.apps.example.com"), IP("192.0.2.4")),
		GATEWAY(LISTENER("a", "80", "") "," LISTENER("b", "81", "g.apps.example.com"),
		    "192.0.2.33"),
		ROUTE("HTTPRoute", "r", "'x.apps.example.com','z.apps.example.com'", GW, "True"),
		ROUTE("TLSRoute", "r", "'z.apps.example.com'", GW, "True"),
		LISTENERSET("set", LISTENER("a", "443", "*.set.apps.example.com"), GW, "True"),
		ROUTE("GRPCRoute", "r", "'r.set.apps.example.com'", SET, "True") };
	enum { OBJECTS = sizeof objects / sizeof objects[0] };
	unsigned random = 1;
	char *want = NULL;

	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		bool there[OBJECTS] = { false };

		begin_listing();
		for (unsigned step = 0; step < 40; step++) {
			unsigned i = (random = random * 1103515245u + 12345u) >> 16;

			tell(
			    there[i % OBJECTS] ? EVENT_DELETED : EVENT_ADDED, objects[i % OBJECTS]);
			there[i % OBJECTS] = !there[i % OBJECTS];
		}
		for (unsigned i = 0; i < OBJECTS; i++)
			if (!there[i])
				add(objects[i]);
		external_begin(external);
		treecache_publish(external_tree(external), 1, true);
		char *text = zone_text();
		if (want == NULL)
			want = strdup(text);
		assert_string_equal(text, want);
		assert_int_equal(external_conflicts(external), 3);
		free(text);
	}
	free(want);
}

int
main(void)
{
#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(listeners_host_names_have_the_gateways_address),
		TEST(routes_have_the_address_of_the_gateway_that_took_them),
		TEST(objects_labelled_to_be_ignored_have_no_names),
		TEST(route_follows_its_gateways),
		TEST(route_follows_each_of_its_gateways),
		TEST(listenersets_host_names_have_the_address_of_the_gateway_that_accepted_it),
		TEST(routes_have_the_listeners_of_their_own_parent_only),
		TEST(routes_follow_the_gateway_of_their_listenerset),
		TEST(route_follows_a_gateway_and_a_listenerset_of_the_same_name),
		TEST(listenerset_labelled_to_be_ignored_still_serves_its_routes),
		TEST(listenerset_gets_its_name_back),
		TEST(listenerset_cannot_be_the_parent_of_a_listenerset),
		TEST(only_chosen_namespaces_have_names),
		TEST(order_of_arrival_does_not_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
