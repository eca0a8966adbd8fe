/* The fields that DNS reads from a Kubernetes object. The tests also show what happens if a field
 * is missing, null or invalid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "kubedns/cluster/object.h"

#define META "\"metadata\":{\"name\":\"web\",\"namespace\":\"default\",\"resourceVersion\":\"7\"}"

/* The current object. It is freed before the next object, or at the end of the test. */
static struct json_object *tree;
static struct object object;
static const char *why;

static int
extract_as(const char *hint, const char *json)
{
	object_clear(&object);
	json_object_put(tree);
	tree = json_tokener_parse(json);
	assert_true(tree != NULL || strcmp(json, "null") == 0);
	return object_extract(tree, hint, &object, &why);
}

static int
extract(const char *json)
{
	return extract_as(NULL, json);
}

static int
teardown(void **state)
{
	(void)state;
	object_clear(&object);
	json_object_put(tree);
	tree = NULL;
	return 0;
}

/* Reads a Service whose spec has these members. There must be no complaint. */
static const struct object_service *
service(const char *spec)
{
	char json[2048];

	snprintf(json, sizeof json,
	    "{\"kind\":\"Service\",\"apiVersion\":\"v1\"," META ",\"spec\":{%s}}", spec);
	assert_int_equal(extract(json), 0);
	assert_int_equal(object.kind, OBJECT_SERVICE);
	return &object.service;
}

/* Reads an EndpointSlice object with these members, and returns its single slice. */
static const struct object_slice *
slice(const char *members)
{
	char json[2048];

	snprintf(json, sizeof json,
	    "{\"kind\":\"EndpointSlice\",\"metadata\":{\"name\":\"web-x7k2p\",\"namespace\":"
	    "\"default\",\"labels\":"
	    "{\"kubernetes.io/service-name\":\"web\"}},\"addressType\":\"IPv4\",%s}",
	    members);
	assert_int_equal(extract(json), 0);
	assert_int_equal(object.kind, OBJECT_SLICES);
	assert_int_equal(object.slice_count, 1);
	return &object.slices[0];
}

static const struct object_endpoint *
endpoint(const char *members)
{
	char json[1024];

	snprintf(json, sizeof json, "\"endpoints\":[{\"addresses\":[\"10.1.0.1\"],%s}]", members);
	const struct object_slice *s = slice(json);
	assert_int_equal(s->endpoint_count, 1);
	return &s->endpoints[0];
}

static void
assert_addr(const struct addr *addr, const char *expected)
{
	char text[ADDR_TEXT_MAX];

	assert_string_equal(addr_format(addr, text), expected);
}

static void
identity_is_kind_namespace_name_and_version(void **state)
{
	(void)state;
	service("");
	assert_string_equal(object.namespace, "default");
	assert_string_equal(object.name, "web");
	assert_string_equal(object.resource_version, "7");
	assert_null(why);
}

static void
a_list_item_without_kind_is_what_its_list_says(void **state)
{
	(void)state;
	assert_int_equal(extract_as("Service", "{" META ",\"spec\":{}}"), 0);
	assert_int_equal(object.kind, OBJECT_SERVICE);
	assert_int_equal(extract("{" META "}"), -EINVAL);
	assert_string_equal(why, "kind is missing");
}

static void
another_kind_than_the_list_says_is_refused(void **state)
{
	(void)state;
	assert_int_equal(extract_as("Service", "{\"kind\":\"Status\"," META "}"), -EINVAL);
	assert_non_null(why);
}

static void
kinds_that_dns_does_not_need_are_not_supported(void **state)
{
	(void)state;
	assert_int_equal(
	    extract("{\"kind\":\"Deployment\",\"apiVersion\":\"apps/v1\"," META "}"), -ENOTSUP);
	/* Knative has a kind Service too. */
	assert_int_equal(
	    extract("{\"kind\":\"Service\",\"apiVersion\":\"serving.knative.dev/v1\"," META "}"),
	    -ENOTSUP);
	assert_int_equal(
	    extract("{\"kind\":\"EndpointSlice\",\"apiVersion\":\"discovery.k8s.io/v1beta1\"," META
		    "}"),
	    0);
}

static void
what_is_no_object_or_has_no_usable_name_is_invalid(void **state)
{
	static const char *const bad[] = { "null", "[]", "\"Service\"", "7",
		"{\"kind\":7," META "}", "{\"kind\":\"Service\"}",
		"{\"kind\":\"Service\",\"metadata\":null}",
		"{\"kind\":\"Service\",\"metadata\":[]}",
		"{\"kind\":\"Service\",\"metadata\":{\"namespace\":\"default\"}}",
		"{\"kind\":\"Service\",\"metadata\":{\"name\":7,\"namespace\":\"default\"}}",
		"{\"kind\":\"Service\",\"metadata\":{\"name\":\"a.b\",\"namespace\":\"default\"}}",
		("{\"kind\":\"Service\",\"metadata\":{\"name\":\"a\\u0000b\",\"namespace\":"
		 "\"default\"}}"),
		"{\"kind\":\"Service\",\"metadata\":{\"name\":\"web\"}}",
		"{\"kind\":\"Service\",\"metadata\":{\"name\":\"web\",\"namespace\":\"-x\"}}",
		"{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a b\",\"namespace\":\"default\"}}",
		"{\"kind\":\"Namespace\",\"metadata\":{\"name\":\"a.b\"}}" };

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(extract(bad[i]), -EINVAL);
		assert_non_null(why);
	}
}

static void
an_invalid_object_is_named_as_far_as_it_can_be(void **state)
{
	(void)state;
	assert_int_equal(
	    extract("{\"kind\":\"Service\",\"metadata\":{\"name\":\"web\",\"namespace\":\"-x\"}}"),
	    -EINVAL);
	assert_string_equal(object.name, "web");
	assert_int_equal(
	    extract("{\"kind\":\"Service\",\"metadata\":{\"namespace\":\"default\"}}"), -EINVAL);
	assert_null(object.name);
}

static void
a_cluster_ip_service_has_its_addresses(void **state)
{
	(void)state;
	const struct object_service *svc = service("\"clusterIP\":\"10.96.0.10\"");
	assert_int_equal(svc->type, SERVICE_CLUSTERIP);
	assert_int_equal(svc->addr_count, 1);
	assert_addr(&svc->addrs[0], "10.96.0.10");
	svc = service("\"type\":\"LoadBalancer\",\"clusterIP\":\"10.96.0.10\",\"clusterIPs\":["
		      "\"fd00::a\",\"10.96.0.10\"]");
	assert_int_equal(svc->type, SERVICE_CLUSTERIP);
	assert_int_equal(svc->addr_count, 2);
	assert_addr(&svc->addrs[0], "fd00::a");
	assert_addr(&svc->addrs[1], "10.96.0.10");
}

static void
none_makes_a_service_headless(void **state)
{
	(void)state;
	assert_int_equal(service("\"clusterIP\":\"None\"")->type, SERVICE_HEADLESS);
	assert_int_equal(service("\"clusterIPs\":[\"None\"]")->type, SERVICE_HEADLESS);
	assert_int_equal(service("\"clusterIPs\":[\"10.0.0.1\",\"None\"]")->addr_count, 0);
}

static void
a_service_without_an_address_yet_is_pending(void **state)
{
	(void)state;
	assert_int_equal(service("")->type, SERVICE_PENDING);
	assert_int_equal(service("\"clusterIP\":\"\"")->type, SERVICE_PENDING);
	assert_int_equal(service("\"clusterIP\":null,\"clusterIPs\":[]")->type, SERVICE_PENDING);
	assert_null(why);
}

static void
the_type_external_name_decides_before_addresses(void **state)
{
	(void)state;
	const struct object_service *svc =
	    service("\"type\":\"ExternalName\",\"externalName\":\"Db.Example.Com.\",\"clusterIP\":"
		    "\"10.96.0.1\",\"clusterIPs\":[\"None\"]");
	assert_int_equal(svc->type, SERVICE_EXTERNALNAME);
	assert_string_equal(svc->external_name, "Db.Example.Com.");
	assert_int_equal(svc->addr_count, 0);
	assert_string_equal(service("\"type\":\"ExternalName\"")->external_name, "");
}

static void
addresses_that_are_none_are_left_out_with_a_complaint(void **state)
{
	(void)state;
	assert_int_equal(service("\"clusterIP\":\"10.0.0.300\"")->type, SERVICE_PENDING);
	assert_string_equal(why, "clusterIP \"10.0.0.300\" is not an address");
	assert_int_equal(service("\"clusterIP\":\"010.0.0.1\"")->addr_count, 0);
	assert_non_null(why);
	assert_int_equal(service("\"clusterIPs\":[\"10.0.0.1\",\"10.0.0.2\"]")->addr_count, 1);
	assert_string_equal(why, "clusterIPs has two addresses of one family");
	assert_int_equal(service("\"clusterIPs\":[7,null,\"10.0.0.1\"]")->addr_count, 1);
	assert_int_equal(
	    service("\"clusterIPs\":\"10.0.0.1\",\"clusterIP\":\"10.0.0.2\"")->addr_count, 1);
	assert_string_equal(why, "clusterIPs is not a list");
}

static void
a_spec_that_is_missing_is_a_pending_service_with_a_complaint(void **state)
{
	(void)state;
	assert_int_equal(extract("{\"kind\":\"Service\"," META "}"), 0);
	assert_int_equal(object.service.type, SERVICE_PENDING);
	assert_non_null(why);
}

static void
ports_have_name_protocol_and_number(void **state)
{
	(void)state;
	const struct object_service *svc =
	    service("\"ports\":[{\"name\":\"http\",\"protocol\":\"TCP\",\"port\":80},{\"port\":53,"
		    "\"protocol\":\"UDP\"},{\"name\":null},"
		    "{\"name\":\"x\",\"protocol\":\"SCTP\",\"port\":65535}]");
	assert_int_equal(svc->port_count, 4);
	assert_string_equal(svc->ports[0].name, "http");
	assert_string_equal(svc->ports[0].protocol, "tcp");
	assert_int_equal(svc->ports[0].port, 80);
	assert_string_equal(svc->ports[1].name, "");
	assert_string_equal(svc->ports[1].protocol, "udp");
	/* If a field is missing or null, the name is "", the protocol is TCP, and the port has no
	 * SRV record. */
	assert_string_equal(svc->ports[2].name, "");
	assert_string_equal(svc->ports[2].protocol, "tcp");
	assert_int_equal(svc->ports[2].port, 0);
	assert_string_equal(svc->ports[3].protocol, "sctp");
	assert_null(why);
}

static void
an_unknown_protocol_is_a_label_in_lower_case_or_no_port(void **state)
{
	(void)state;
	const struct object_service *svc = service(
	    "\"ports\":[{\"protocol\":\"QUIC\",\"port\":1},{\"protocol\":\"a.b\",\"port\":2},"
	    "{\"protocol\":\"\",\"port\":3},{\"protocol\":\"TCP\",\"port\":4}]");
	assert_int_equal(svc->port_count, 2);
	assert_string_equal(svc->ports[0].protocol, "quic");
	assert_int_equal(svc->ports[1].port, 4);
	assert_non_null(why);
}

static void
a_port_label_leaves_room_for_its_underscore(void **state)
{
	char json[256], name[64];

	(void)state;
	memset(name, 'a', 63);
	name[63] = '\0';
	snprintf(json, sizeof json, "\"ports\":[{\"name\":\"%s\",\"port\":1}]", name);
	assert_string_equal(service(json)->ports[0].name, "");
	assert_non_null(why);
	name[62] = '\0';
	snprintf(json, sizeof json, "\"ports\":[{\"name\":\"%s\",\"port\":1}]", name);
	assert_string_equal(service(json)->ports[0].name, name);
	assert_null(why);
}

static void
port_numbers_outside_of_1_to_65535_are_none(void **state)
{
	static const char *const bad[] = { "0", "65536", "-1", "\"80\"", "80.5",
		"99999999999999999999", "[]" };
	char json[128];

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		snprintf(json, sizeof json, "\"ports\":[{\"name\":\"x\",\"port\":%s}]", bad[i]);
		const struct object_service *svc = service(json);
		assert_int_equal(svc->port_count, 1);
		assert_int_equal(svc->ports[0].port, 0);
		assert_non_null(why);
	}
	assert_int_equal(service("\"ports\":[7,null,{\"port\":1}]")->port_count, 1);
}

static void
not_ready_addresses_are_published_by_field_or_old_annotation(void **state)
{
	(void)state;
	assert_false(service("")->publish_not_ready);
	assert_true(service("\"publishNotReadyAddresses\":true")->publish_not_ready);
	assert_false(service("\"publishNotReadyAddresses\":\"true\"")->publish_not_ready);
	assert_non_null(why);
	assert_int_equal(extract("{\"kind\":\"Service\",\"metadata\":{\"name\":\"web\","
				 "\"namespace\":\"default\",\"annotations\":"
				 "{\"service.alpha.kubernetes.io/"
				 "tolerate-unready-endpoints\":\"true\"}},\"spec\":{}}"),
	    0);
	assert_true(object.service.publish_not_ready);
}

static void
a_slice_belongs_to_the_service_of_its_label(void **state)
{
	(void)state;
	const struct object_slice *s = slice("\"ports\":null,\"endpoints\":null");
	assert_string_equal(s->name, "web-x7k2p");
	assert_int_equal(s->index, 0);
	assert_string_equal(s->service, "web");
	assert_int_equal(s->family, AF_INET);
	assert_int_equal(s->port_count, 0);
	assert_int_equal(s->endpoint_count, 0);
	assert_null(why);
	assert_int_equal(
	    extract("{\"kind\":\"EndpointSlice\"," META ",\"addressType\":\"IPv6\"}"), 0);
	assert_null(object.slices[0].service);
	assert_int_equal(object.slices[0].family, AF_INET6);
}

static void
fqdn_slices_mean_nothing_to_dns(void **state)
{
	(void)state;
	assert_int_equal(
	    extract("{\"kind\":\"EndpointSlice\"," META
		    ",\"addressType\":\"FQDN\",\"endpoints\":[{\"addresses\":[\"a.b\"]}]}"),
	    0);
	assert_int_equal(object.slice_count, 0);
	assert_null(why);
	assert_int_equal(extract("{\"kind\":\"EndpointSlice\"," META "}"), 0);
	assert_int_equal(object.slice_count, 0);
	assert_non_null(why);
}

static void
an_endpoint_is_ready_unless_it_says_otherwise(void **state)
{
	(void)state;
	assert_true(endpoint("\"conditions\":{\"ready\":true}")->ready);
	assert_false(endpoint("\"conditions\":{\"ready\":false,\"serving\":true}")->ready);
	assert_true(endpoint("\"conditions\":{\"ready\":null}")->ready);
	assert_true(endpoint("\"conditions\":{}")->ready);
	assert_true(endpoint("\"conditions\":null")->ready);
	assert_true(endpoint("\"nodeName\":\"n\"")->ready);
}

static void
of_several_addresses_of_an_endpoint_the_first_counts(void **state)
{
	(void)state;
	const struct object_slice *s =
	    slice("\"endpoints\":[{\"addresses\":[\"10.1.0.1\",\"10.1.0.2\"]},{\"addresses\":[]},"
		  "{\"addresses\":null},{},null,{\"addresses\":[\"fd00::1\"]},{\"addresses\":[\"10."
		  "1.0.3\"]}]");
	assert_int_equal(s->endpoint_count, 2);
	assert_addr(&s->endpoints[0].addr, "10.1.0.1");
	assert_addr(&s->endpoints[1].addr, "10.1.0.3");
	assert_string_equal(
	    why, "an endpoint's address \"fd00::1\" is not of the slice's addressType");
}

static void
an_endpoint_is_named_for_its_hostname_and_pod_if_they_are_labels(void **state)
{
	(void)state;
	const struct object_endpoint *ep =
	    endpoint("\"hostname\":\"db-0\",\"targetRef\":{\"kind\":\"Pod\",\"name\":\"db-0\"}");
	assert_string_equal(ep->hostname, "db-0");
	assert_string_equal(ep->pod, "db-0");
	assert_null(endpoint("\"hostname\":\"\"")->hostname);
	assert_null(why);
	assert_null(endpoint("\"hostname\":\"a.b\"")->hostname);
	assert_non_null(why);
	assert_null(endpoint("\"targetRef\":{\"kind\":\"Pod\",\"name\":\"old.pod\"}")->pod);
	assert_null(why); /* the name of a pod may contain dots */
	assert_null(endpoint("\"targetRef\":{\"kind\":\"Node\",\"name\":\"n1\"}")->pod);
	assert_null(endpoint("\"targetRef\":null")->pod);
}

/* Reads `{"a":[ITEM,ITEM,...]}` with `count` items, as an EndpointSlice or an Endpoints object. */
static int
extract_many(const char *head, const char *item, size_t count, const char *tail)
{
	char *json;
	size_t len;
	FILE *out = open_memstream(&json, &len);

	assert_non_null(out);
	fputs(head, out);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s%s", i > 0 ? "," : "", item);
	fputs(tail, out);
	fclose(out);
	int err = extract_as(NULL, json);
	free(json);
	return err;
}

static void
more_than_the_bounds_allow_is_left_out_and_said(void **state)
{
	(void)state;
	static const char slice[] =
	    "{\"kind\":\"EndpointSlice\"," META ",\"addressType\":\"IPv4\",";
	static const char endpoint[] = "{\"addresses\":[\"10.1.0.1\"]}";

	for (size_t more = 0; more < 2; more++) {
		char head[512];

		snprintf(head, sizeof head, "%s\"ports\":[", slice);
		assert_int_equal(
		    extract_many(head, "{\"port\":1}", OBJECT_PORTS_MAX + more, "]}"), 0);
		assert_int_equal(object.slices[0].port_count, OBJECT_PORTS_MAX);
		assert_int_equal(object.cut, more);
		assert_int_equal(why != NULL, more);
		snprintf(head, sizeof head, "%s\"endpoints\":[", slice);
		assert_int_equal(
		    extract_many(head, endpoint, OBJECT_ENDPOINTS_MAX + more, "]}"), 0);
		assert_int_equal(object.slices[0].endpoint_count, OBJECT_ENDPOINTS_MAX);
		assert_int_equal(object.cut, more);
		assert_int_equal(extract_many("{\"kind\":\"Endpoints\"," META ",\"subsets\":[",
				     "{\"addresses\":[{\"ip\":\"10.1.0.1\"}]}",
				     OBJECT_SLICES_MAX / 2 + more, "]}"),
		    0);
		assert_int_equal(object.slice_count, OBJECT_SLICES_MAX / 2);
		assert_int_equal(object.cut, more);
	}
}

static int64_t
trigger(const char *stamp)
{
	char json[512];

	snprintf(json, sizeof json,
	    "{\"kind\":\"EndpointSlice\",\"metadata\":{\"name\":\"x\",\"namespace\":\"d\","
	    "\"annotations\":"
	    "{\"endpoints.kubernetes.io/"
	    "last-change-trigger-time\":\"%s\"}},\"addressType\":\"IPv4\"}",
	    stamp);
	assert_int_equal(extract(json), 0);
	return object.trigger_time_ns;
}

static void
trigger_times_are_rfc3339(void **state)
{
	static const char *const bad[] = { "", "2026", "2026-11-02", "2026-11-02T09:14:05",
		"2026-11-02 09:14:05Z", "2026-11-02T09:14:05Zx", "x026-11-02T09:14:05Z",
		"2026-11-02T09:14:05+1:00", "0001-01-01T00:00:00Z" };

	(void)state;
	assert_int_equal(trigger("1970-01-01T00:00:01Z"), 1000000000);
	assert_int_equal(trigger("2026-11-02T09:14:05Z"), 1793610845000000000);
	assert_int_equal(trigger("2026-11-02T09:14:05.25Z"), 1793610845250000000);
	assert_int_equal(trigger("2026-11-02T09:14:05.123456789Z"), 1793610845123456789);
	assert_int_equal(trigger("2026-11-02T10:44:05+01:30"), 1793610845000000000);
	assert_int_equal(trigger("2026-11-02T07:44:05-01:30"), 1793610845000000000);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_int_equal(trigger(bad[i]), 0);
}

static void
endpoints_become_a_slice_a_subset_and_family(void **state)
{
	(void)state;
	assert_int_equal(extract("{\"kind\":\"Endpoints\",\"apiVersion\":\"v1\"," META
				 ",\"subsets\":[{\"addresses\":["
				 "{\"ip\":\"10.1.0.1\",\"hostname\":\"a\",\"targetRef\":{\"kind\":"
				 "\"Pod\",\"name\":\"p\"}},"
				 "{\"ip\":\"fd00::1\"}],\"notReadyAddresses\":[{\"ip\":\"10.1.0."
				 "2\"}],\"ports\":[{\"name\":\"http\","
				 "\"port\":80,\"protocol\":\"TCP\"}]},{\"addresses\":[{\"ip\":\"10."
				 "1.0.3\"},{\"ip\":\"x\"},null]}]}"),
	    0);
	assert_int_equal(object.kind, OBJECT_SLICES);
	assert_int_equal(object.slice_count, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(object.slices[i].index, i);
		assert_string_equal(object.slices[i].service, "web");
	}
	const struct object_slice *v4 = &object.slices[0], *v6 = &object.slices[1];
	assert_int_equal(v4->endpoint_count, 2);
	assert_true(v4->endpoints[0].ready);
	assert_string_equal(v4->endpoints[0].hostname, "a");
	assert_string_equal(v4->endpoints[0].pod, "p");
	assert_false(v4->endpoints[1].ready);
	assert_int_equal(v6->family, AF_INET6);
	assert_int_equal(v6->endpoint_count, 1);
	assert_string_equal(v6->ports[0].name, "http");
	assert_int_equal(object.slices[2].port_count, 0);
	assert_string_equal(why, "an endpoint's ip \"x\" is not an address");
}

static void
endpoints_without_subsets_are_no_slices(void **state)
{
	(void)state;
	assert_int_equal(extract("{\"kind\":\"Endpoints\"," META "}"), 0);
	assert_int_equal(object.slice_count, 0);
	assert_int_equal(
	    extract("{\"kind\":\"Endpoints\"," META ",\"subsets\":[{\"addresses\":[]},null,{}]}"),
	    0);
	assert_int_equal(object.slice_count, 0);
}

static void
a_namespace_has_no_namespace(void **state)
{
	(void)state;
	assert_int_equal(
	    extract(
		"{\"kind\":\"Namespace\",\"metadata\":{\"name\":\"team-a\",\"namespace\":\"x\"}}"),
	    0);
	assert_int_equal(object.kind, OBJECT_NAMESPACE);
	assert_string_equal(object.name, "team-a");
	assert_string_equal(object.namespace, "");
}

static void
a_pod_has_its_addresses_and_whether_it_runs(void **state)
{
	(void)state;
	assert_int_equal(extract("{\"kind\":\"Pod\"," META
				 ",\"status\":{\"phase\":\"Running\",\"podIP\":\"10.1.0.1\","
				 "\"podIPs\":[{\"ip\":\"10.1.0.1\"},{\"ip\":\"fd00::1\"}]}}"),
	    0);
	assert_true(object.pod.running);
	assert_int_equal(object.pod.addr_count, 2);
	assert_int_equal(extract("{\"kind\":\"Pod\"," META
				 ",\"status\":{\"phase\":\"Pending\",\"podIP\":\"10.1.0.1\"}}"),
	    0);
	assert_false(object.pod.running);
	assert_int_equal(object.pod.addr_count, 1);
	assert_int_equal(extract("{\"kind\":\"Pod\"," META "}"), 0);
	assert_int_equal(object.pod.addr_count, 0);
}

static void
a_pod_has_no_more_addresses_than_can_be_looked_at_one_by_one(void **state)
{
	char text[16384] = "{\"kind\":\"Pod\"," META ",\"status\":{\"podIPs\":[{\"ip\":\"fd00::\"}";

	(void)state;
	for (int i = 1; i <= POD_ADDRS_MAX; i++)
		sprintf(text + strlen(text), ",{\"ip\":\"fd00::%x\"}", i);
	assert_int_equal(extract(strcat(text, "]}}")), 0);
	assert_int_equal(object.pod.addr_count, POD_ADDRS_MAX);
	assert_int_equal(object.pod.addrs[POD_ADDRS_MAX - 1].bytes[15], POD_ADDRS_MAX - 1);
}

static void
a_pod_being_deleted_does_not_run(void **state)
{
	(void)state;
	assert_int_equal(extract("{\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"namespace\":"
				 "\"d\",\"deletionTimestamp\":"
				 "\"2026-11-02T09:14:05Z\"},\"status\":{\"phase\":\"Running\"}}"),
	    0);
	assert_false(object.pod.running);
}

static void
a_node_has_zone_and_region_of_new_or_old_labels(void **state)
{
	(void)state;
	assert_int_equal(
	    extract("{\"kind\":\"Node\",\"metadata\":{\"name\":\"n1.example\",\"labels\":{"
		    "\"topology.kubernetes.io/zone\":\"a\","
		    "\"failure-domain.beta.kubernetes.io/"
		    "zone\":\"b\",\"failure-domain.beta.kubernetes.io/region\":\"r\"}}}"),
	    0);
	assert_string_equal(object.node.zone, "a");
	assert_string_equal(object.node.region, "r");
	assert_int_equal(extract("{\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\"}}"), 0);
	assert_string_equal(object.node.zone, "");
}

static void
a_config_map_has_its_strings(void **state)
{
	(void)state;
	assert_int_equal(extract("{\"kind\":\"ConfigMap\"," META
				 ",\"data\":{\"stubDomains\":\"{}\",\"n\":7,\"e\":\"a\\u0000b\"}}"),
	    0);
	assert_int_equal(object.data_count, 2);
	assert_string_equal(object.data[0].key, "stubDomains");
	assert_string_equal(object.data[0].value, "{}");
	assert_int_equal(object.data[1].len, 3);
	assert_string_equal(why, "a value of data is not a string");
	assert_int_equal(extract("{\"kind\":\"ConfigMap\"," META "}"), 0);
	assert_int_equal(object.data_count, 0);
}

static void
kinds_have_the_names_of_their_resources(void **state)
{
	(void)state;
	assert_string_equal(object_kind_resource(OBJECT_SERVICE), "services");
	assert_string_equal(object_kind_resource(OBJECT_SLICES), "endpointslices");
	assert_string_equal(object_kind_resource(OBJECT_CONFIGMAP), "configmaps");
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_teardown(f, teardown)
	const struct CMUnitTest tests[] = {
		TEST(identity_is_kind_namespace_name_and_version),
		TEST(a_list_item_without_kind_is_what_its_list_says),
		TEST(another_kind_than_the_list_says_is_refused),
		TEST(kinds_that_dns_does_not_need_are_not_supported),
		TEST(what_is_no_object_or_has_no_usable_name_is_invalid),
		TEST(an_invalid_object_is_named_as_far_as_it_can_be),
		TEST(a_cluster_ip_service_has_its_addresses),
		TEST(none_makes_a_service_headless),
		TEST(a_service_without_an_address_yet_is_pending),
		TEST(the_type_external_name_decides_before_addresses),
		TEST(addresses_that_are_none_are_left_out_with_a_complaint),
		TEST(a_spec_that_is_missing_is_a_pending_service_with_a_complaint),
		TEST(ports_have_name_protocol_and_number),
		TEST(an_unknown_protocol_is_a_label_in_lower_case_or_no_port),
		TEST(a_port_label_leaves_room_for_its_underscore),
		TEST(port_numbers_outside_of_1_to_65535_are_none),
		TEST(not_ready_addresses_are_published_by_field_or_old_annotation),
		TEST(a_slice_belongs_to_the_service_of_its_label),
		TEST(fqdn_slices_mean_nothing_to_dns),
		TEST(an_endpoint_is_ready_unless_it_says_otherwise),
		TEST(of_several_addresses_of_an_endpoint_the_first_counts),
		TEST(an_endpoint_is_named_for_its_hostname_and_pod_if_they_are_labels),
		TEST(more_than_the_bounds_allow_is_left_out_and_said),
		TEST(trigger_times_are_rfc3339),
		TEST(endpoints_become_a_slice_a_subset_and_family),
		TEST(endpoints_without_subsets_are_no_slices),
		TEST(a_namespace_has_no_namespace),
		TEST(a_pod_has_its_addresses_and_whether_it_runs),
		TEST(a_pod_has_no_more_addresses_than_can_be_looked_at_one_by_one),
		TEST(a_pod_being_deleted_does_not_run),
		TEST(a_node_has_zone_and_region_of_new_or_old_labels),
		TEST(a_config_map_has_its_strings),
		TEST(kinds_have_the_names_of_their_resources),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
