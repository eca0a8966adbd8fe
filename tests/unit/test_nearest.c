/* --nearest and --zonal: the specification of nearest.c and reply_endpoints.c. The tests begin with
 * the JSON of an EndpointSlice and end with the answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <json-c/json.h>

#include "kubedns/answer/nearest.h"
#include "kubedns/cluster/store_internal.h"
#include "kubedns/cluster/tree_content.h"
#include "tests/unit/answer_bed.h"

enum { TEXT_MAX = 4096 };

static struct client_place here;
static uint64_t counted[NEAR_COUNT], zonal[2];

static void
tell(enum object_kind kind, const char *json)
{
	struct json_object *tree = json_tokener_parse(json);
	struct object o;
	const char *why;

	assert_non_null(tree);
	assert_int_equal(object_extract(tree, NULL, &o, &why), 0);
	if (why != NULL)
		fail_msg("%s", why);
	store_event(bed.store, kind, EVENT_ADDED, &o);
	object_clear(&o);
	json_object_put(tree);
}

/* Adds a slice of the Service db. `endpoints` are JSON objects without their braces. The list ends
 * with NULL. */
static void
slice(const char *name, const char *const *endpoints)
{
	char json[TEXT_MAX];
	size_t len = (size_t)snprintf(json, sizeof json,
	    "{\"kind\": \"EndpointSlice\", \"apiVersion\": \"discovery.k8s.io/v1\", \"metadata\": "
	    "{\"name\": \"%s\", \"namespace\": \"default\", \"labels\": "
	    "{\"kubernetes.io/service-name\": "
	    "\"db\"}}, \"addressType\": \"IPv4\", \"ports\": [{\"name\": \"pg\", \"port\": 5432, "
	    "\"protocol\": \"TCP\"}], \"endpoints\": [",
	    name);

	for (unsigned i = 0; endpoints[i] != NULL; i++)
		len += (size_t)snprintf(
		    json + len, sizeof json - len, "%s{%s}", i > 0 ? ", " : "", endpoints[i]);
	snprintf(json + len, sizeof json - len, "]}");
	tell(OBJECT_SLICES, json);
}

static void
be_at(const char *node, const char *zone)
{
	here = client_place_of(node, zone);
	bed.parts.choice.place = &here;
	bed.parts.choice.nearest = true;
}

/* Returns the last bytes of the addresses of db in the order of the answer, such as "1 2 5". With
 * `tcp`, the answer has all addresses. In SRV records, the address is in the target: "10-1-0-5". */
static const char *
order_of(uint16_t type, uint32_t rotation, bool tcp)
{
	static char text[TEXT_MAX];
	static struct answer_thread thread;
	uint8_t query[512];
	struct dname name;
	struct record record;

	thread =
	    (struct answer_thread){ .now_ns = &bed.now_ns, .nearest = counted, .zonal = zonal };
	assert_int_equal(dname_from_text(&name, "db.default.svc.cluster.local."), 0);
	size_t len = query_write(query, sizeof query, 1, name.wire, type, CLASS_IN, 1232), at,
	       end = 0;
	const struct answer_request request = { .config = &bed.config,
		.tree = tree_current(bed.cache),
		.query = query,
		.query_len = len,
		.out = bed.out,
		.max = tcp ? DNS_TCP_MAX : 1232,
		.tcp = tcp,
		.rotation = rotation,
		.thread = &thread };
	assert_int_equal(answer(&request, &bed.info), ANSWER_REPLY);
	*text = '\0';
	at = DNS_HEADER + bed.info.query.question_len;
	for (unsigned i = 0; i < wire_get16(bed.out + 6); i++) {
		assert_int_equal(wire_read_record(bed.out, bed.info.len, &at, &record), 0);
		unsigned number = type == TYPE_SRV
				      ? record.rdata[6 + record.rdata[6]] - (unsigned)'0'
				      : wire_get16(record.rdata + 2);
		end += (size_t)snprintf(
		    text + end, sizeof text - end, "%s%u", i > 0 ? " " : "", number);
	}
	return text;
}

static const char *
order(uint32_t rotation, bool tcp)
{
	return order_of(TYPE_A, rotation, tcp);
}

/* --- the class of one endpoint --- */

static void
an_endpoint_is_as_near_as_its_hints_say_or_without_any_as_it_is(void **state)
{
	static const struct {
		const char *endpoint;
		enum near near; /* as a client on node n1 in zone a sees the endpoint */
	} rows[] = {
		{ "\"nodeName\": \"n1\", \"zone\": \"a\"", NEAR_NODE },
		{ "\"nodeName\": \"n1\"", NEAR_NODE },
		{ "\"nodeName\": \"n2\", \"zone\": \"a\"", NEAR_ZONE },
		{ "\"zone\": \"a\"", NEAR_ZONE },
		{ "\"zone\": \"A\"", NEAR_ZONE },
		{ "\"nodeName\": \"n2\", \"zone\": \"b\"", NEAR_FAR },
		{ "\"hostname\": \"alone\"", NEAR_FAR },
		{ "\"nodeName\": \"a\", \"zone\": \"n1\"", NEAR_FAR },
		/* trafficDistribution: PreferSameZone, and service.kubernetes.io/topology-mode: Auto */
		{ "\"nodeName\": \"n2\", \"zone\": \"a\", \"hints\": {\"forZones\": [{\"name\": "
		  "\"a\"}]}",
		    NEAR_ZONE },
		{ "\"nodeName\": \"n2\", \"zone\": \"a\", \"hints\": {\"forZones\": [{\"name\": "
		  "\"b\"}]}",
		    NEAR_FAR },
		{ "\"nodeName\": \"n2\", \"zone\": \"b\", \"hints\": {\"forZones\": [{\"name\": "
		  "\"a\"}]}",
		    NEAR_ZONE },
		{ "\"nodeName\": \"n2\", \"zone\": \"b\", \"hints\": {\"forZones\": [{\"name\": "
		  "\"c\"}, "
		  "{\"name\": \"a\"}]}",
		    NEAR_ZONE },
		{ "\"nodeName\": \"n1\", \"zone\": \"b\", \"hints\": {\"forZones\": [{\"name\": "
		  "\"b\"}]}",
		    NEAR_NODE },
		/* PreferSameNode */
		{ "\"nodeName\": \"n1\", \"zone\": \"a\", \"hints\": {\"forZones\": [{\"name\": "
		  "\"a\"}], "
		  "\"forNodes\": [{\"name\": \"n1\"}]}",
		    NEAR_NODE },
		{ "\"nodeName\": \"n2\", \"zone\": \"a\", \"hints\": {\"forNodes\": [{\"name\": "
		  "\"n2\"}]}",
		    NEAR_ZONE },
		{ "\"nodeName\": \"n2\", \"zone\": \"b\", \"hints\": {\"forNodes\": [{\"name\": "
		  "\"n1\"}]}",
		    NEAR_NODE },
		{ "\"nodeName\": \"n1\", \"zone\": \"b\", \"hints\": {\"forNodes\": [{\"name\": "
		  "\"n2\"}]}",
		    NEAR_FAR },
		/* the hints are empty */
		{ "\"nodeName\": \"n2\", \"zone\": \"a\", \"hints\": {\"forZones\": [], "
		  "\"forNodes\": null}",
		    NEAR_ZONE },
		{ "\"nodeName\": \"n1\", \"zone\": \"\", \"hints\": {}", NEAR_NODE },
	};

	(void)state;

	bed_service("db", SERVICE_HEADLESS, "", "pg/tcp/5432");
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char text[TEXT_MAX], near_me[TEXT_MAX];

		static const char *const orders[] = {
			[NEAR_NODE] = "1 2 3 4", [NEAR_ZONE] = "2 1 3 4", [NEAR_FAR] = "2 3"
		};
		snprintf(text, sizeof text, "\"addresses\": [\"10.1.0.1\"], %s", rows[i].endpoint);
		slice("s1",
		    (const char *const[]){ text,
			"\"addresses\": [\"10.1.0.2\"], \"nodeName\": \"n1\", \"zone\": \"a\"",
			"\"addresses\": [\"10.1.0.3\"], \"nodeName\": \"n3\", \"zone\": \"a\"",
			"\"addresses\": [\"10.1.0.4\"], \"nodeName\": \"n4\", \"zone\": \"d\"",
			NULL });
		bed_publish();
		be_at("n1", "a");
		snprintf(near_me, sizeof near_me, "%s", order(0, true));
		if (strncmp(near_me, orders[rows[i].near], strlen(orders[rows[i].near])) != 0)
			fail_msg("%s: %s", rows[i].endpoint, near_me);
	}
}

/* --- the whole answer --- */

/* The endpoints of two slices: 1 and 2 are on the node, 3 to 5 in the zone, 6 to 9 elsewhere. */
static void
nine(void)
{
	bed_service("db", SERVICE_HEADLESS, "", "pg/tcp/5432");
	slice("s1",
	    (const char *const[]){
		"\"addresses\": [\"10.1.0.6\"], \"nodeName\": \"n6\", \"zone\": \"b\"",
		"\"addresses\": [\"10.1.0.1\"], \"nodeName\": \"n1\", \"zone\": \"a\"",
		"\"addresses\": [\"10.1.0.3\"], \"nodeName\": \"n3\", \"zone\": \"a\"",
		"\"addresses\": [\"10.1.0.7\"], \"nodeName\": \"n7\", \"zone\": \"c\"", NULL });
	slice("s2",
	    (const char *const[]){
		"\"addresses\": [\"10.1.0.2\"], \"nodeName\": \"n1\", \"zone\": \"a\"",
		"\"addresses\": [\"10.1.0.5\"], \"nodeName\": \"n5\", \"zone\": \"a\"",
		"\"addresses\": [\"10.1.0.8\"], \"nodeName\": \"n8\"",
		"\"addresses\": [\"10.1.0.9\"]",
		"\"addresses\": [\"10.1.0.4\"], \"nodeName\": \"n4\", \"zone\": \"a\"",
		"\"addresses\": [\"10.1.0.3\"], \"nodeName\": \"n3\", \"zone\": \"a\"", NULL });
	bed_publish();
}

static void
those_at_a_place_that_are_not_ready_are_found_at_once(void **state)
{
	const struct client_place at = client_place_of("n1", "a");
	struct place_entries found;

	(void)state;
	bed_service("db", SERVICE_HEADLESS, "", "pg/tcp/5432");
	slice("s1",
	    (const char *const[]){
		"\"addresses\": [\"10.1.0.1\"], \"nodeName\": \"n1\", \"zone\": \"a\", "
		"\"conditions\": {\"ready\": false}",
		"\"addresses\": [\"10.1.0.2\"], \"nodeName\": \"n1\", \"zone\": \"a\"", NULL });
	bed_publish();
	const struct node *node =
	    tree_find(tree_current(bed.cache), (const uint8_t *)"\2db\7default\3svc");
	const struct slice_endpoints *made = node->endpoints->slices[0].slice;
	slice_at_place(made, place_not_ready(at.node), 2, &found);
	assert_int_equal(found.count, 1);
	slice_at_place(made, place_not_ready(at.zone), 2, &found);
	assert_int_equal(found.count, 1);
	assert_false(slice_ready(made, place_entry(&found, 0)));
}

/* A lookup must not examine each endpoint. If a tenant has a Service with 100,000 endpoints on one
 * node, that would take a millisecond of a worker for every query. */
static void
those_for_a_node_and_for_a_zone_are_found_by_both(void **state)
{
	static const struct {
		const char *endpoint;
		bool both; /* whether the key for node n1 and zone a finds it */
	} rows[] = {
		{ "\"nodeName\": \"n1\", \"zone\": \"a\"", true },
		{ "\"nodeName\": \"N1\", \"zone\": \"A\"", true },
		{ "\"nodeName\": \"n1\"", false },
		{ "\"zone\": \"a\"", false },
		{ "\"nodeName\": \"n1\", \"zone\": \"b\"", false },
		{ "\"nodeName\": \"a\", \"zone\": \"n1\"", false },
		{ "\"nodeName\": \"n1\", \"zone\": \"b\", \"hints\": {\"forZones\": [{\"name\": "
		  "\"c\"}, {\"name\": \"a\"}]}",
		    true },
		{ "\"nodeName\": \"n1\", \"zone\": \"a\", \"hints\": {\"forZones\": [{\"name\": "
		  "\"c\"}]}",
		    false },
		{ "\"nodeName\": \"n2\", \"zone\": \"a\", \"hints\": {\"forNodes\": [{\"name\": "
		  "\"n3\"}, {\"name\": \"n1\"}]}",
		    true },
	};
	const uint64_t both =
	    place_of_both(client_place_of("n1", "a").node, client_place_of("n1", "a").zone);

	(void)state;
	bed_service("db", SERVICE_HEADLESS, "", "pg/tcp/5432");
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char text[512];
		struct place_entries found;

		snprintf(text, sizeof text, "\"addresses\": [\"10.1.0.1\"], %s", rows[i].endpoint);
		slice("s1", (const char *const[]){ text, "\"addresses\": [\"10.1.0.2\"]", NULL });
		bed_publish();
		const struct node *node =
		    tree_find(tree_current(bed.cache), (const uint8_t *)"\2db\7default\3svc");
		slice_at_place(node->endpoints->slices[0].slice, both, 2, &found);
		assert_int_equal(found.count, rows[i].both);
	}
}

static void
the_nearest_come_first_and_each_class_begins_anywhere(void **state)
{
	static const struct {
		const char *node, *zone;
		const char *orders[4]; /* the orders for rotation 0 to 3 */
	} rows[] = {
		{ "n1", "a",
		    { "1 2 3 4 5 6 7 8 9", "2 1 4 5 3 7 8 9 6", "1 2 5 3 4 8 9 6 7",
			"2 1 3 4 5 9 6 7 8" } },
		{ "n1", "", { "1 2 3 6 7 4 5 8 9", "2 1 6 7 4 5 8 9 3", NULL, NULL } },
		{ "", "b", { "6 1 3 7 2 4 5 8 9", "6 3 7 2 4 5 8 9 1", NULL, NULL } },
		{ "n9", "d", { "1 3 6 7 2 4 5 8 9", "3 6 7 2 4 5 8 9 1", NULL, NULL } },
		{ "", "", { "1 3 6 7 2 4 5 8 9", "3 6 7 2 4 5 8 9 1", NULL, NULL } },
	};

	(void)state;

	nine();
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		for (unsigned r = 0; r < 4 && rows[i].orders[r] != NULL; r++) {
			be_at(rows[i].node, rows[i].zone);
			assert_string_equal(order(r, true), rows[i].orders[r]);
		}
	/* Without the flag, the addresses are in order. The first one depends on the rotation. */
	be_at("n1", "a");
	bed.parts.choice.nearest = false;
	assert_string_equal(order(1, true), "3 6 7 2 4 5 8 9 1");
}

static void
every_endpoint_of_the_nearest_class_comes_first_equally_often(void **state)
{
	unsigned first[10] = { 0 };

	(void)state;
	nine();
	be_at("none", "a"); /* endpoints 1 to 5 are in the zone */
	for (uint32_t r = 0; r < 5000; r++)
		first[atoi(order(r, true))]++;
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(first[i], i >= 1 && i <= 5 ? 1000 : 0);
}

static void
answers_are_counted_by_how_near_their_first_endpoint_is(void **state)
{
	(void)state;
	nine();
	memset(counted, 0, sizeof counted);
	be_at("n1", "a");
	order(0, true);
	be_at("n3x", "a");
	order(0, true);
	order(0, true);
	be_at("n", "x");
	order(0, true);
	be_at("", "");
	order(0, true);
	assert_int_equal(counted[NEAR_NODE], 1);
	assert_int_equal(counted[NEAR_ZONE], 2);
	assert_int_equal(counted[NEAR_FAR], 1);
	assert_int_equal(counted[NEAR_UNKNOWN], 1);
}

static void
nearest_only_leaves_the_rest_out_while_a_near_one_is_ready(void **state)
{
	static const struct {
		const char *node, *zone, *order;
	} rows[] = {
		{ "n1", "a", "1 2 3 4 5" },
		{ "none", "a", "1 3 2 4 5" },
		{ "n8", "", "8" },
		{ "none", "z", "1 3 6 7 2 4 5 8 9" },
		{ "", "", "1 3 6 7 2 4 5 8 9" },
	};

	(void)state;

	nine();
	bed.parts.choice.nearest_only = true;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		be_at(rows[i].node, rows[i].zone);
		assert_string_equal(order(0, true), rows[i].order);
	}
	/* An endpoint that is not ready is not in the answer. */
	slice("s2", (const char *const[]){ "\"addresses\": [\"10.1.0.8\"], \"nodeName\": \"n8\", "
					   "\"conditions\": {\"ready\": false}",
			NULL });
	bed_publish();
	be_at("n8", "");
	assert_string_equal(order(0, true), "1 3 6 7");
}

static void
one_that_is_published_though_not_ready_leaves_nothing_out(void **state)
{
	struct object o = { .kind = OBJECT_SERVICE,
		.namespace = "default",
		.name = "db",
		.resource_version = "1",
		.service = {
		    .type = SERVICE_HEADLESS, .external_name = "", .publish_not_ready = true } };

	(void)state;
	store_event(bed.store, OBJECT_SERVICE, EVENT_ADDED, &o);
	bed.parts.choice.nearest_only = true;
	be_at("n1", "a");
	slice("s1", (const char *const[]){
			"\"addresses\": [\"10.1.0.1\"], \"nodeName\": \"n1\", \"zone\": \"a\", "
			"\"conditions\": {\"ready\": false}",
			"\"addresses\": [\"10.1.0.6\"], \"zone\": \"b\"", NULL });
	bed_publish();
	assert_string_equal(order(0, true), "1 6");
	slice(
	    "s2", (const char *const[]){ "\"addresses\": [\"10.1.0.2\"], \"zone\": \"a\"", NULL });
	bed_publish();
	assert_string_equal(order(0, true), "1 2");
}

/* There are 3,000 endpoints. Every third endpoint is in the zone. 60 to 75 endpoints fit into a UDP
 * reply. */
static void
what_fits_into_a_reply_are_near_ones(void **state)
{
	(void)state;
	bed_service("db", SERVICE_HEADLESS, "", "pg/tcp/5432");
	for (unsigned s = 0; s < 100; s++) {
		char name[16], texts[30][100];
		const char *rows[31] = { NULL };

		snprintf(name, sizeof name, "s%02u", s);
		for (unsigned i = 0; i < 30; i++) {
			unsigned n = s * 30 + i;

			snprintf(texts[i], sizeof texts[i],
			    "\"addresses\": [\"10.2.%u.%u\"], \"zone\": \"%c\"", n / 256, n % 256,
			    "abc"[n % 3]);
			rows[i] = texts[i];
		}
		slice(name, rows);
	}
	bed_publish();
	be_at("", "b");
	for (uint32_t r = 0; r < 1000; r += 37) {
		char *text = strdup(order(r, false)), *rest = text, *word;
		unsigned count = 0;
		for (; (word = strsep(&rest, " ")) != NULL; count++)
			assert_int_equal(atoi(word) % 3, 1);
		assert_true(count > 60);
		assert_true(bed.out[2] & 2); /* the bit TC */
		free(text);
	}
}

static void
srv_records_come_in_the_same_order_with_the_weight_of_the_set(void **state)
{
	(void)state;
	nine();
	be_at("n1", "a");
	assert_string_equal(order_of(TYPE_SRV, 0, true), "1 2 3 4 5 6 7 8 9");
	assert_string_equal(order_of(TYPE_SRV, 1, true), "2 1 4 5 3 7 8 9 6");
	bed.parts.choice.nearest_only = true;
	bed_expect("_pg._tcp.db.default.svc", "SRV",
	    "NOERROR SRV 0 11 5432 10-1-0-1.db.default.svc, SRV 0 11 5432 10-1-0-2.db.default.svc, "
	    "SRV 0 11 5432 10-1-0-3.db.default.svc, SRV 0 11 5432 10-1-0-4.db.default.svc, "
	    "SRV 0 11 5432 10-1-0-5.db.default.svc "
	    "+ 10-1-0-1.db.default.svc: A 10.1.0.1, + 10-1-0-2.db.default.svc: A 10.1.0.2, "
	    "+ 10-1-0-3.db.default.svc: A 10.1.0.3, + 10-1-0-4.db.default.svc: A 10.1.0.4, "
	    "+ 10-1-0-5.db.default.svc: A 10.1.0.5");
	be_at("n6", "");
	bed_expect("db.default.svc", "SRV",
	    "NOERROR SRV 0 11 5432 10-1-0-6.db.default.svc + 10-1-0-6.db.default.svc: A 10.1.0.6");
}

/* --- the names of --zonal --- */

static void
names_of_zones(void **state)
{
	static const char
	    denied[] = "NXDOMAIN SOA of cluster.local.",
	    empty[] = "NOERROR SOA of cluster.local.",
	    a[] = "NOERROR A 10.1.0.1, A 10.1.0.2, A 10.1.0.3, A 10.1.0.4, A 10.1.0.5",
	    all[] = "NOERROR A 10.1.0.1, A 10.1.0.2, A 10.1.0.3, A 10.1.0.4, A 10.1.0.5, A "
		    "10.1.0.6, A 10.1.0.7, A 10.1.0.8, A 10.1.0.9";
	static const struct {
		const char *name, *type, *want;
	} rows[] = {
		/* CoreDNS has the same names */
		{ "a.pin._zone.db.default.svc", "A", a },
		{ "A.PIN._ZONE.db.default.svc", "A", a },
		{ "b.pin._zone.db.default.svc", "A", "NOERROR A 10.1.0.6" },
		{ "z.pin._zone.db.default.svc", "A", empty },
		{ "a.prefer._zone.db.default.svc", "A", a },
		{ "z.prefer._zone.db.default.svc", "A", all },
		{ "a.pin._zone.db.default.svc", "AAAA", empty },
		{ "a.prefer._zone.db.default.svc", "AAAA", empty },
		{ "z.pin._zone.db.default.svc", "TXT", empty },
		{ "a.pin._zone.db.default.svc", "TXT", empty },
		{ "z.prefer._zone.db.default.svc", "TXT", empty },
		{ "b.pin._zone.db.default.svc", "SRV",
		    "NOERROR SRV 0 11 5432 10-1-0-6.db.default.svc + 10-1-0-6.db.default.svc: A "
		    "10.1.0.6" },
		{ "a.florp._zone.db.default.svc", "A", denied },
		{ "a.pin._zone.none.default.svc", "A", denied },
		{ "a.pin._zone.web.default.svc", "A", denied },
		{ "a.pin._zone.out.default.svc", "A", denied },
		{ "a.pin._zone.db.default.pod", "A", denied },
		{ "corp.example.com.pin._zone.dotted.default.svc", "A", "NOERROR A 10.1.0.20" },
		{ "example.com.pin._zone.dotted.default.svc", "A", empty },
		/* CoreDNS does not have these names: after a zone without dots, the word `pin` may
		 * be omitted */
		{ "a._zone.db.default.svc", "A", a },
		{ "z._zone.db.default.svc", "A", empty },
		{ "corp.example.com._zone.dotted.default.svc", "A", denied },
		{ "pin.pin._zone.db.default.svc", "A", empty },
		{ "_pg._tcp.db.default.svc", "A", empty },
		{ "_zone._tcp.db.default.svc", "SRV", denied },
		{ "_a._zone.db.default.svc", "SRV", denied },
		{ "_http._tcp.a.pin._zone.db.default.svc", "SRV", denied },
		/* the zone may be omitted too; then it is the zone of the client */
		{ "_zone.db.default.svc", "A", "NOERROR A 10.1.0.6" },
		{ "pin._zone.db.default.svc", "A", "NOERROR A 10.1.0.6" },
		{ "prefer._zone.db.default.svc", "A", "NOERROR A 10.1.0.6" },
		/* if a name does not exist, there are no names below it */
		{ "late.default.svc", "A", denied },
		{ "a.pin._zone.late.default.svc", "A", denied },
		{ "a.prefer._zone.late.default.svc", "A", denied },
	};

	(void)state;

	nine();
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.10", "http/tcp/80");
	bed_service("out", SERVICE_EXTERNALNAME, "www.example.com", "");
	bed_service("late", SERVICE_HEADLESS, "", "http/tcp/80");
	bed_service("dotted", SERVICE_HEADLESS, "", "http/tcp/80");
	tell(OBJECT_SLICES, "{\"kind\": \"EndpointSlice\", \"apiVersion\": "
			    "\"discovery.k8s.io/v1\", \"metadata\": {\"name\": "
			    "\"dotted-1\", \"namespace\": \"default\", \"labels\": "
			    "{\"kubernetes.io/service-name\": "
			    "\"dotted\"}}, \"addressType\": \"IPv4\", \"ports\": [], "
			    "\"endpoints\": [{\"addresses\": "
			    "[\"10.1.0.20\"], \"zone\": \"Corp.Example.com\"}]}");
	bed_publish();
	bed.parts.choice.zonal = true;
	be_at("n6", "b");
	bed.parts.choice.nearest = false;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		bed_expect(rows[i].name, rows[i].type, rows[i].want);
	/* The place of the client is unknown, so no endpoint is near the client. */
	bed.parts.choice.place = NULL;
	bed_expect("_zone.db.default.svc", "A", empty);
	bed_expect("pin._zone.db.default.svc", "A", empty);
	bed_expect("prefer._zone.db.default.svc", "A", all);
	/* Without the flag, these names do not exist. */
	bed.parts.choice.zonal = false;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (strstr(rows[i].name, "_zone.") != NULL)
			bed_expect(rows[i].name, rows[i].type, denied);
}

/* Hints decide about routing. A zone in a name is the location of the endpoints. */
static void
a_zone_in_a_name_is_where_endpoints_are_not_whom_they_are_for(void **state)
{
	(void)state;
	bed_service("db", SERVICE_HEADLESS, "", "pg/tcp/5432");
	slice("s1",
	    (const char *const[]){ "\"addresses\": [\"10.1.0.1\"], \"zone\": \"a\", \"hints\": "
				   "{\"forZones\": [{\"name\": \"b\"}]}",
		"\"addresses\": [\"10.1.0.2\"], \"zone\": \"b\"", NULL });
	bed_publish();
	bed.parts.choice.zonal = true;
	bed_expect("a.pin._zone.db.default.svc", "A", "NOERROR A 10.1.0.1");
	bed_expect("b.pin._zone.db.default.svc", "A", "NOERROR A 10.1.0.2");
}

/* --- an address in two slices --- */

/* The lower slice decides the address's class. The other slice then moves the address behind those
 * that it still counts, and the rest of its places must stay sorted. */
static void
an_address_that_a_lower_slice_takes_over_leaves_the_others_near(void **state)
{
	static const char near[] = "\"addresses\": [\"10.4.0.%u\"], \"nodeName\": \"n1\"",
			  far[] = "\"addresses\": [\"10.4.0.%u\"], \"nodeName\": \"n2\"";
	(void)state;
	bed_service("db", SERVICE_HEADLESS, "", "pg/tcp/5432");
	be_at("n1", "z1");
	for (unsigned taken = 1; taken <= 4; taken++) {
		char texts[5][80];
		const char *rows[] = { texts[0], texts[1], texts[2], texts[3], NULL };

		for (unsigned i = 0; i < 4; i++)
			snprintf(texts[i], sizeof texts[i], near, i + 1);
		slice("s1", rows + 4);
		slice("s2", rows);
		bed_publish();
		snprintf(texts[4], sizeof texts[4], far, taken);
		slice("s1", (const char *[]){ texts[4], NULL });
		bed_publish();
		for (unsigned rotation = 0; rotation < 24; rotation++) {
			const char *text = order(rotation, true);

			assert_int_equal(strlen(text), strlen("1 2 3 4"));
			assert_int_equal(text[6] - '0', taken);
		}
	}
}

/* --- many changes, compared with a model --- */

enum { SLICES = 12, ENTRIES = 20, NODES = 6, ZONES = 3 };

static struct model_entry {
	bool there, ready;
	unsigned addr, node, zone, for_zone; /* for_zone is 0 if there is no hint */
} model[SLICES][ENTRIES];

static unsigned
pick(unsigned below)
{
	static uint64_t state = 7;

	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(state >> 33) % below;
}

static void
write_slice(unsigned s)
{
	char name[16], texts[ENTRIES][200];
	const char *rows[ENTRIES + 1] = { NULL };
	unsigned count = 0;

	snprintf(name, sizeof name, "s%02u", s);
	for (unsigned i = 0; i < ENTRIES; i++) {
		const struct model_entry *e = &model[s][i];
		char hints[80] = "";

		if (!e->there)
			continue;
		if (e->for_zone > 0)
			snprintf(hints, sizeof hints,
			    ", \"hints\": {\"forZones\": [{\"name\": \"z%u\"}]}", e->for_zone);
		snprintf(texts[count], sizeof texts[0],
		    "\"addresses\": [\"10.3.0.%u\"], \"nodeName\": \"n%u\", \"zone\": \"z%u\", "
		    "\"conditions\": "
		    "{\"ready\": %s}%s",
		    e->addr, e->node, e->zone, e->ready ? "true" : "false", hints);
		rows[count] = texts[count];
		count++;
	}
	slice(name, rows);
}

/* Returns the class of the entry for a client on node 1 in zone 1. */
static enum near
model_class(const struct model_entry *e)
{
	unsigned zone = e->for_zone > 0 ? e->for_zone : e->zone;

	return e->node == 1 ? NEAR_NODE : zone == 1 ? NEAR_ZONE : NEAR_FAR;
}

/* Returns the classes that an address may have. The lowest slice that publishes the address
 * decides. The classes are those of its entries with the address. */
static unsigned
model_classes(unsigned addr)
{
	unsigned classes = 0;

	for (unsigned s = 0; s < SLICES && classes == 0; s++)
		for (unsigned i = 0; i < ENTRIES; i++)
			if (model[s][i].there && model[s][i].ready && model[s][i].addr == addr)
				classes |= 1u << model_class(&model[s][i]);
	return classes;
}

static void
whatever_becomes_of_slices_the_order_is_that_of_the_model(void **state)
{
	(void)state;
	bed_service("db", SERVICE_HEADLESS, "", "pg/tcp/5432");
	be_at("n1", "z1");
	for (unsigned round = 0; round < 1500; round++) {
		unsigned s = pick(SLICES), present = 0, listed = 0, last = 0;

		for (unsigned i = 0; i < ENTRIES; i++)
			model[s][i] = (struct model_entry){ pick(3) > 0, pick(5) > 0, 1 + pick(120),
				1 + pick(NODES), 1 + pick(ZONES),
				pick(3) > 0 ? 0 : 1 + pick(ZONES) };
		write_slice(s);
		bed_publish();
		for (unsigned addr = 1; addr <= 120; addr++)
			present += model_classes(addr) != 0;
		if (present == 0)
			continue;
		char *text = strdup(order(pick(1000), true)), *rest = text, *word;
		bool seen[121] = { false };
		for (; (word = strsep(&rest, " ")) != NULL; listed++) {
			unsigned addr = (unsigned)atoi(word), classes = model_classes(addr);

			assert_false(seen[addr]);
			seen[addr] = true;
			while (last < NEAR_FAR && (classes & 1u << last) == 0)
				last++;
			if ((classes & 1u << last) == 0 && classes >> last == 0)
				fail_msg("round %u: %u of classes %x after class %u", round, addr,
				    classes, last);
		}
		assert_int_equal(listed, present);
		free(text);
	}
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, bed_begin, bed_end)
	const struct CMUnitTest tests[] = {
		TEST(an_endpoint_is_as_near_as_its_hints_say_or_without_any_as_it_is),
		TEST(those_for_a_node_and_for_a_zone_are_found_by_both),
		TEST(those_at_a_place_that_are_not_ready_are_found_at_once),
		TEST(the_nearest_come_first_and_each_class_begins_anywhere),
		TEST(every_endpoint_of_the_nearest_class_comes_first_equally_often),
		TEST(answers_are_counted_by_how_near_their_first_endpoint_is),
		TEST(nearest_only_leaves_the_rest_out_while_a_near_one_is_ready),
		TEST(one_that_is_published_though_not_ready_leaves_nothing_out),
		TEST(what_fits_into_a_reply_are_near_ones),
		TEST(srv_records_come_in_the_same_order_with_the_weight_of_the_set),
		TEST(names_of_zones),
		TEST(a_zone_in_a_name_is_where_endpoints_are_not_whom_they_are_for),
		TEST(an_address_that_a_lower_slice_takes_over_leaves_the_others_near),
		TEST(whatever_becomes_of_slices_the_order_is_that_of_the_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
