/*
 * Names of Services that other clusters export (--clusterset-domain). The tests follow the sections
 * of KEP-1645's DNS specification. They also send the queries of its conformance tests and check
 * the answers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/cluster/clusterset/clusterset.h"
#include "kubedns/cluster/store.h"
#include "kubedns/show/explain.h"
#include "tests/unit/clusterset_fixture.h"

/* --- the sections of the specification --- */

static void
zone_says_its_schema_version_and_who_serves_it(void **state) /* section 2.2 */
{
	(void)state;
	EXPECT({ "dns-version" ZONE, "TXT", "NOERROR TXT \"1.0.0\"" },
	    { "dns-version" ZONE, "A", NODATA },
	    { "clusterset.local.", "NS",
		"NOERROR NS ns.dns.clusterset.local. + ns.dns.clusterset.local.: A 10.96.0.10" },
	    { "ns.dns" ZONE, "A", "NOERROR A 10.96.0.10" }, { "clusterset.local.", "A", NODATA },
	    { "svc" ZONE, "A", GONE }, { "local.", "A", "FORWARD" },
	    { "myservice.test.svc.clusterset.example.", "A", "FORWARD" });
}

static void
clusterset_ip_has_addresses_ports_and_a_ptr(void **state) /* 2.3.1, 2.3.2, 2.3.3 */
{
	(void)state;
	add(IMPORT("myservice", "ClusterSetIP", "'10.42.42.42','2001:db8::1'",
	    HTTPS "," PORT("", "UDP", "53")));
	EXPECT({ "myservice" SVC, "A", "NOERROR A 10.42.42.42" },
	    { "MyService.TEST.svc.ClusterSet.local.", "A", "NOERROR A 10.42.42.42" },
	    { "myservice" SVC, "AAAA", "NOERROR AAAA 2001:db8::1" },
	    { "myservice" SVC, "TXT", NODATA },
	    { "_https._tcp.myservice" SVC, "SRV",
		"NOERROR SRV 0 100 443 myservice.test.svc.clusterset.local. "
		"+ myservice.test.svc.clusterset.local.: A 10.42.42.42, "
		"+ myservice.test.svc.clusterset.local.: AAAA 2001:db8::1" },
	    { "_https._udp.myservice" SVC, "SRV", GONE }, { "_tcp.myservice" SVC, "SRV", NODATA },
	    { "42.42.42.10.in-addr.arpa.", "PTR",
		"NOERROR PTR myservice.test.svc.clusterset.local." },
	    { "42.42.42.10.in-addr.arpa.", "A", "NOERROR SOA of 42.42.42.10.in-addr.arpa." },
	    { "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.", "PTR",
		"NOERROR PTR myservice.test.svc.clusterset.local." },
	    { "43.42.42.10.in-addr.arpa.", "PTR", "FORWARD" }, { "test.svc" ZONE, "A", NODATA },
	    { "svc" ZONE, "A", NODATA }, { "other" SVC, "A", GONE },
	    /* none of these names is in the cluster's own zone */
	    { "myservice.test.svc.cluster.local.", "A", "NXDOMAIN SOA of cluster.local." });
	tell(EVENT_DELETED, IMPORT("myservice", "ClusterSetIP", "", ""));
	EXPECT({ "myservice" SVC, "A", GONE }, { "_https._tcp.myservice" SVC, "SRV", GONE },
	    { "test.svc" ZONE, "A", GONE }, { "42.42.42.10.in-addr.arpa.", "PTR", "FORWARD" });
}

static void
address_of_this_cluster_keeps_its_own_ptr(void **state) /* 2.3.3, 2.4.3, Limitations */
{
	(void)state;
	bed_service("dummy", SERVICE_CLUSTERIP, "10.42.42.42", "");
	bed_publish();
	add(IMPORT("myservice", "ClusterSetIP", "'10.42.42.42'", HTTPS));
	EXPECT({ "42.42.42.10.in-addr.arpa.", "PTR", "NOERROR PTR dummy.default.svc" });
	bed_service_delete("dummy");
	bed_publish();
	EXPECT({ "42.42.42.10.in-addr.arpa.", "PTR",
	    "NOERROR PTR myservice.test.svc.clusterset.local." });
}

static void
clusterset_ip_names_no_cluster_and_no_endpoint(void **state) /* section 2.3.4 */
{
	(void)state;
	add(IMPORT("myservice", "ClusterSetIP", "'10.42.42.42'", HTTPS));
	add(SLICE("s", OF("myservice", "clusterA"), "IPv4", HOST("10.3.0.100", "my-host"), HTTPS));
	EXPECT({ "myservice" SVC, "A", "NOERROR A 10.42.42.42" },
	    { "clusterA.myservice" SVC, "A", GONE },
	    { "my-host.clusterA.myservice" SVC, "A", GONE },
	    { "100.0.3.10.in-addr.arpa.", "PTR", "FORWARD" });
}

/* A bug: only the digits at the beginning of a resourceVersion were compared, so this change was
 * ignored. */
static void
slice_with_another_version_that_begins_alike_is_another_slice(void **state)
{
	(void)state;
	add(HEADLESS);
	add(SLICE("a','resourceVersion':'12-a", OF("headless", "clusterA"), "IPv4",
	    PLAIN("10.3.0.1"), HTTPS));
	add(SLICE("a','resourceVersion':'12-b", OF("headless", "clusterA"), "IPv4",
	    PLAIN("10.3.0.2"), HTTPS));
	EXPECT({ "headless" SVC, "A", "NOERROR A 10.3.0.2" });
}

static void
versions_that_differ_have_different_numbers(void **state)
{
	static const char *const versions[] = { "12", "12-a", "12-b", "-12", "+12", " 12",
		"18446744073709551615", "18446744073709551616", "99999999999999999999" };

	(void)state;
	assert_int_equal(store_version(""), 0);
	assert_int_equal(store_version("12"), 12);
	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
		for (size_t k = 0; k < i; k++)
			assert_true(store_version(versions[i]) != store_version(versions[k]));
}

static void
headless_has_the_ready_endpoints_of_all_clusters(void **state) /* section 2.4.1 */
{
	(void)state;
	add(HEADLESS);
	EXPECT({ "headless" SVC, "A", GONE });
	add(SLICE("a", OF("headless", "clusterA"), "IPv4",
	    HOST("10.3.0.100", "my-hostname") "," UNREADY("10.3.0.101"), HTTPS));
	add(SLICE("b", OF("headless", "clusterB"), "IPv4",
	    HOST("10.10.10.10", "my-hostname") "," PLAIN("10.10.10.11"), HTTPS));
	add(SLICE(
	    "b6", OF("headless", "clusterB"), "IPv6", HOST("2001:db8::1", "my-hostname"), HTTPS));
	EXPECT({ "headless" SVC, "A", "NOERROR A 10.10.10.10, A 10.10.10.11, A 10.3.0.100" },
	    { "headless" SVC, "AAAA", "NOERROR AAAA 2001:db8::1" },
	    { "my-hostname.clusterA.headless" SVC, "A", "NOERROR A 10.3.0.100" },
	    { "My-Hostname.CLUSTERA.headless" SVC, "A", "NOERROR A 10.3.0.100" },
	    { "my-hostname.clusterA.headless" SVC, "AAAA", NODATA },
	    { "my-hostname.clusterB.headless" SVC, "AAAA", "NOERROR AAAA 2001:db8::1" },
	    { "10-10-10-11.clusterB.headless" SVC, "A", "NOERROR A 10.10.10.11" },
	    { "10-10-10-11.clusterA.headless" SVC, "A", GONE },
	    { "10-3-0-101.clusterA.headless" SVC, "A", GONE },
	    { "clusterA.headless" SVC, "A", NODATA }, { "clusterC.headless" SVC, "A", GONE },
	    { "my-hostname.headless" SVC, "A", GONE });
	tell(EVENT_MODIFIED,
	    SLICE("a", OF("headless", "clusterA"), "IPv4", UNREADY("10.3.0.100"), HTTPS));
	EXPECT({ "headless" SVC, "A", "NOERROR A 10.10.10.10, A 10.10.10.11" },
	    { "clusterA.headless" SVC, "A", GONE });
	tell(EVENT_DELETED, SLICE("b", "", "IPv4", "", ""));
	tell(EVENT_DELETED, SLICE("b6", "", "IPv6", "", ""));
	EXPECT({ "headless" SVC, "A", GONE }, { "test.svc" ZONE, "A", GONE });
}

static void
headless_srv_records_lead_to_endpoints_by_cluster(void **state) /* section 2.4.2 */
{
	(void)state;
	add(HEADLESS);
	add(SLICE("a", OF("headless", "clusterA"), "IPv4",
	    HOST("10.1.0.1", "my-pet-1") "," HOST("10.1.0.2", "my-pet-2"), HTTPS));
	add(SLICE("b", OF("headless", "clusterB"), "IPv4", HOST("10.2.0.1", "my-pet-1"),
	    HTTPS "," PORT("", "TCP", "80")));
	EXPECT({ "_https._tcp.headless" SVC, "SRV",
		   "NOERROR SRV 0 33 443 my-pet-1.clustera.headless.test.svc.clusterset.local., "
		   "SRV 0 33 443 my-pet-1.clusterb.headless.test.svc.clusterset.local., "
		   "SRV 0 33 443 my-pet-2.clustera.headless.test.svc.clusterset.local. "
		   "+ my-pet-1.clustera.headless.test.svc.clusterset.local.: A 10.1.0.1, "
		   "+ my-pet-1.clusterb.headless.test.svc.clusterset.local.: A 10.2.0.1, "
		   "+ my-pet-2.clustera.headless.test.svc.clusterset.local.: A 10.1.0.2" },
	    { "my-pet-1.clusterb.headless" SVC, "SRV",
		"NOERROR SRV 0 100 443 my-pet-1.clusterb.headless.test.svc.clusterset.local., "
		"SRV 0 100 80 my-pet-1.clusterb.headless.test.svc.clusterset.local. "
		"+ my-pet-1.clusterb.headless.test.svc.clusterset.local.: A 10.2.0.1" },
	    { "_https._udp.headless" SVC, "SRV", GONE }, { "_tcp.headless" SVC, "SRV", NODATA });
}

static void
headless_ptrs_lead_to_endpoints_by_cluster(void **state) /* section 2.4.3 */
{
	(void)state;
	add(HEADLESS);
	add(SLICE("a", OF("headless", "clusterA"), "IPv4", HOST("10.3.0.100", "my-pet"), HTTPS));
	add(SLICE("b6", OF("headless", "clusterA"), "IPv6", HOST("2001:db8::1", "my-pet"), HTTPS));
	EXPECT({ "100.0.3.10.in-addr.arpa.", "PTR",
		   "NOERROR PTR my-pet.clustera.headless.test.svc.clusterset.local." },
	    { "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.", "PTR",
		"NOERROR PTR my-pet.clustera.headless.test.svc.clusterset.local." });
	bed_reverse_zone("10.3.0.0/16");
	EXPECT({ "100.0.3.10.in-addr.arpa.", "PTR",
		   "NOERROR PTR my-pet.clustera.headless.test.svc.clusterset.local." },
	    { "0.3.10.in-addr.arpa.", "A", "NOERROR SOA of 3.10.in-addr.arpa." },
	    { "1.3.10.in-addr.arpa.", "A", "NXDOMAIN SOA of 3.10.in-addr.arpa." },
	    { "101.0.3.10.in-addr.arpa.", "PTR", "NXDOMAIN SOA of 3.10.in-addr.arpa." });
	tell(EVENT_DELETED, SLICE("a", "", "IPv4", "", ""));
	EXPECT({ "100.0.3.10.in-addr.arpa.", "PTR", "NXDOMAIN SOA of 3.10.in-addr.arpa." });
}

/* --- the queries of the conformance tests --- */

static void
conformance_of_a_clusterset_ip(void **state)
{
	(void)state;
	/* Two ports have the same number, one TCP and one UDP. There is one record at the name of
	 * the Service. */
	add(IMPORT("hello", "ClusterSetIP", "'10.42.0.7'",
	    PORT("tcp", "TCP", "42") "," PORT("udp", "UDP", "42")));
	EXPECT({ "hello" SVC, "A", "NOERROR A 10.42.0.7" },
	    { "hello" SVC, "SRV",
		"NOERROR SRV 0 100 42 hello.test.svc.clusterset.local. "
		"+ hello.test.svc.clusterset.local.: A 10.42.0.7" });
	/* A Service of this cluster may have the same name. It is another Service. */
	bed_namespace("test");
	bed_service("hello", SERVICE_CLUSTERIP, "10.96.3.3", "tcp/tcp/42");
	bed_publish();
	EXPECT({ "hello.test.svc.cluster.local.", "A", "NOERROR A 10.96.3.3" },
	    { "hello" SVC, "A", "NOERROR A 10.42.0.7" });
	tell(EVENT_DELETED, IMPORT("hello", "ClusterSetIP", "", ""));
	EXPECT({ "hello" SVC, "A", GONE },
	    { "hello.test.svc.cluster.local.", "A", "NOERROR A 10.96.3.3" });
}

static void
conformance_of_a_headless_one(void **state)
{
	(void)state;
	add(IMPORT("hello", "Headless", "", PORT("tcp", "TCP", "42") "," PORT("udp", "UDP", "42")));
	add(SLICE("x", OF("hello", "c1"), "IPv4", PLAIN("10.1.0.1") "," PLAIN("10.1.0.2"),
	    PORT("tcp", "TCP", "42") "," PORT("udp", "UDP", "42")));
	/* There is one SRV record for each endpoint at the name of the Service. */
	EXPECT({ "hello" SVC, "A", "NOERROR A 10.1.0.1, A 10.1.0.2" },
	    { "hello" SVC, "SRV",
		"NOERROR SRV 0 50 42 10-1-0-1.c1.hello.test.svc.clusterset.local., "
		"SRV 0 50 42 10-1-0-2.c1.hello.test.svc.clusterset.local. "
		"+ 10-1-0-1.c1.hello.test.svc.clusterset.local.: A 10.1.0.1, "
		"+ 10-1-0-2.c1.hello.test.svc.clusterset.local.: A 10.1.0.2" });
	/* The pods of a StatefulSet have names made of their host name and cluster. */
	tell(EVENT_MODIFIED,
	    SLICE("x", OF("hello", "c1"), "IPv4",
		HOST("10.1.0.1", "set-0") "," HOST("10.1.0.2", "set-1"), PORT("tcp", "TCP", "42")));
	EXPECT({ "set-0.c1.hello" SVC, "A", "NOERROR A 10.1.0.1" },
	    { "set-1.c1.hello" SVC, "A", "NOERROR A 10.1.0.2" },
	    { "10-1-0-1.c1.hello" SVC, "A", GONE });
}

/* --- other cases --- */

static void
without_an_address_yet_the_name_is_there(void **state)
{
	(void)state;
	add(IMPORT("soon", "ClusterSetIP", "", HTTPS));
	EXPECT({ "soon" SVC, "A", NODATA }, { "_https._tcp.soon" SVC, "SRV", GONE });
	tell(EVENT_MODIFIED, IMPORT("soon", "ClusterSetIP", "'10.42.0.1'", HTTPS));
	EXPECT({ "soon" SVC, "A", "NOERROR A 10.42.0.1" });
	tell(EVENT_MODIFIED, IMPORT("soon", "Headless", "", HTTPS));
	EXPECT({ "soon" SVC, "A", GONE }, { "1.0.42.10.in-addr.arpa.", "PTR", "FORWARD" });
}

static void
address_in_two_slices_is_one_record_and_two_ptrs(void **state)
{
	(void)state;
	add(HEADLESS);
	add(SLICE("a", OF("headless", "c1"), "IPv4", HOST("10.1.0.1", "a"), HTTPS));
	add(SLICE("b", OF("headless", "c1"), "IPv4", HOST("10.1.0.1", "a"), PORT("x", "TCP", "1")));
	add(SLICE("c", OF("headless", "c2"), "IPv4", HOST("10.1.0.1", "a"), HTTPS));
	EXPECT({ "headless" SVC, "A", "NOERROR A 10.1.0.1" },
	    { "a.c1.headless" SVC, "A", "NOERROR A 10.1.0.1" },
	    { "a.c1.headless" SVC, "SRV",
		"NOERROR SRV 0 100 1 a.c1.headless.test.svc.clusterset.local., "
		"SRV 0 100 443 a.c1.headless.test.svc.clusterset.local. "
		"+ a.c1.headless.test.svc.clusterset.local.: A 10.1.0.1" },
	    { "1.0.1.10.in-addr.arpa.", "PTR",
		"NOERROR PTR a.c1.headless.test.svc.clusterset.local., "
		"PTR a.c2.headless.test.svc.clusterset.local." });
}

static void
slice_that_moves_takes_its_endpoints_along(void **state)
{
	(void)state;
	add(HEADLESS);
	add(IMPORT("other", "Headless", "", HTTPS));
	add(SLICE("s", OF("headless", "c1"), "IPv4", HOST("10.1.0.1", "a"), HTTPS));
	tell(
	    EVENT_MODIFIED, SLICE("s", OF("headless", "c2"), "IPv4", HOST("10.1.0.1", "a"), HTTPS));
	EXPECT(
	    { "a.c1.headless" SVC, "A", GONE }, { "a.c2.headless" SVC, "A", "NOERROR A 10.1.0.1" });
	tell(EVENT_MODIFIED, SLICE("s", OF("other", "c2"), "IPv4", HOST("10.1.0.1", "a"), HTTPS));
	EXPECT({ "headless" SVC, "A", GONE }, { "a.c2.other" SVC, "A", "NOERROR A 10.1.0.1" });
	/* If the slice lacks one or both of its labels, it belongs to no import. */
	tell(EVENT_MODIFIED, SLICE("s", "'multicluster.kubernetes.io/service-name':'other'", "IPv4",
				 HOST("10.1.0.1", "a"), HTTPS));
	EXPECT({ "other" SVC, "A", GONE });
	assert_int_equal(clusterset_counts(set).slices, 0);
}

static void
slice_of_this_cluster_is_of_no_import(void **state)
{
	(void)state;
	add(HEADLESS);
	add(SLICE(
	    "s", "'kubernetes.io/service-name':'headless'", "IPv4", PLAIN("10.1.0.1"), HTTPS));
	EXPECT({ "headless" SVC, "A", GONE });
}

static void
listing_that_lacks_objects_takes_them_away(void **state)
{
	(void)state;
	add(HEADLESS);
	add(IMPORT("ip", "ClusterSetIP", "'10.42.0.1'", HTTPS));
	add(SLICE("a", OF("headless", "c1"), "IPv4", HOST("10.1.0.1", "a"), HTTPS));
	add(SLICE("b", OF("headless", "c1"), "IPv4", HOST("10.1.0.2", "b"), HTTPS));
	clusterset_event(set, OBJECT_SLICES, EVENT_LISTING, NULL);
	add(SLICE("a", OF("headless", "c1"), "IPv4", HOST("10.1.0.1", "a"), HTTPS));
	clusterset_event(set, OBJECT_SLICES, EVENT_SYNCED, NULL);
	settle();
	EXPECT({ "headless" SVC, "A", "NOERROR A 10.1.0.1" });
	clusterset_event(set, OBJECT_IMPORT, EVENT_LISTING, NULL);
	add(IMPORT("ip", "ClusterSetIP", "'10.42.0.1'", HTTPS));
	clusterset_event(set, OBJECT_IMPORT, EVENT_SYNCED, NULL);
	settle();
	EXPECT({ "headless" SVC, "A", GONE }, { "ip" SVC, "A", "NOERROR A 10.42.0.1" });
	add(HEADLESS); /* kubedns has kept the slice of this import */
	EXPECT({ "headless" SVC, "A", "NOERROR A 10.1.0.1" });
}

static void
unchanged_object_changes_nothing_that_readers_see(void **state)
{
	(void)state;
	add(HEADLESS);
	add(SLICE("a", OF("headless", "c1"), "IPv4", HOST("10.1.0.1", "a"), HTTPS));
	queue(
	    EVENT_MODIFIED, SLICE("a", OF("headless", "c1"), "IPv4", HOST("10.1.0.1", "a"), HTTPS));
	queue(EVENT_MODIFIED, HEADLESS);
	clusterset_settle(set);
	assert_false(treecache_publish(cache, 2, true));
}

static void
pods_name_is_an_endpoints_if_it_is_asked_for(void **state)
{
	static const char slice[] = SLICE("a", OF("headless", "c1"), "IPv4",
	    "{'addresses':['10.1.0.1'],'targetRef':{'kind':'Pod','name':'web-7'}}", HTTPS);
	struct clusterset_config with = config();

	(void)state;
	add(HEADLESS);
	add(slice);
	EXPECT({ "10-1-0-1.c1.headless" SVC, "A", "NOERROR A 10.1.0.1" });
	with.endpoint_pod_names = true;
	begin_with(&with);
	add(HEADLESS);
	add(slice);
	EXPECT({ "web-7.c1.headless" SVC, "A", "NOERROR A 10.1.0.1" },
	    { "10-1-0-1.c1.headless" SVC, "A", GONE });
}

/* Other servers get the queries for names that are missing here. */
static void
explanation_of_a_missing_name_that_falls_through_says_so(void **state)
{
	const struct explain_config explaining = {
		.answers = &bed.config, .tree = tree_current(bed.cache), .store = bed.store
	};
	size_t len;

	(void)state;
	bed.parts.upstream.fallthrough = &zone;
	bed.parts.upstream.fallthrough_count = 1;
	EXPECT({ "none" SVC, "A", "FORWARD" });
	char *text = explain_text(&explaining, "none" SVC, &len);
	assert_non_null(strstr(text, "Because of --fallthrough, the query is sent to"));
	free(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { ROW(zone_says_its_schema_version_and_who_serves_it),
		ROW(explanation_of_a_missing_name_that_falls_through_says_so),
		ROW(clusterset_ip_has_addresses_ports_and_a_ptr),
		ROW(address_of_this_cluster_keeps_its_own_ptr),
		ROW(clusterset_ip_names_no_cluster_and_no_endpoint),
		ROW(slice_with_another_version_that_begins_alike_is_another_slice),
		ROW(versions_that_differ_have_different_numbers),
		ROW(headless_has_the_ready_endpoints_of_all_clusters),
		ROW(headless_srv_records_lead_to_endpoints_by_cluster),
		ROW(headless_ptrs_lead_to_endpoints_by_cluster),
		ROW(conformance_of_a_clusterset_ip), ROW(conformance_of_a_headless_one),
		ROW(without_an_address_yet_the_name_is_there),
		ROW(address_in_two_slices_is_one_record_and_two_ptrs),
		ROW(slice_that_moves_takes_its_endpoints_along),
		ROW(slice_of_this_cluster_is_of_no_import),
		ROW(listing_that_lacks_objects_takes_them_away),
		ROW(unchanged_object_changes_nothing_that_readers_see),
		ROW(pods_name_is_an_endpoints_if_it_is_asked_for) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
