/*
 * The answers to a pod of one namespace (--visibility, --nearest, --zonal) in two clusters. The
 * first cluster has a second namespace, and a Service in a third namespace. Both are hidden from
 * the pod. The second cluster does not have these objects. For any query, the bytes of both answers
 * must be identical.
 *
 * input: fuzz_query.h
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "kubedns/answer/answer.h"
#include "kubedns/answer/view.h"
#include "kubedns/answer/zone_lookup.h"
#include "tests/answer_parts.h"
#include "kubedns/cluster/store.h"
#include "lib/rcu.h"
#include "tests/fuzz/fuzz_query.h"
#include "tests/quoted_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	OPTION_TCP = 2,
	OPTION_WILDCARDS = 4,
	OPTION_POD_NAMES = 16,
	OPTION_FILTER = 32,
	OPTION_MODULE = 128,
};

#ifndef MODULE_STAGES /* A target of a module includes this file, and defines its stages. */
#define MODULE_STAGES(option) ((void)(option), NULL)
#endif

/* --- the clusters --- */

struct world {
	struct treecache *cache;
	struct store *volatile store; /* reachable for the leak checker */
	struct answer_context *context;
	struct visibility *volatile visibility;
	struct node_places *volatile places;
};

static struct world whole, without;
static struct answer_config config;
static struct answer_parts parts;
static struct reverse_zone zones[2];

/* The client is 10.0.0.1, a pod of the namespace `mine`. Objects that start with a blank are hidden
 * from this client. */
static const char *const objects[] = {
	"{'kind': 'Namespace', 'metadata': {'name': 'mine'}}",
	"{'kind': 'Namespace', 'metadata': {'name': 'open', 'annotations': {'kubedns/visible-to': "
	"'*'}}}",
	"{'kind': 'Namespace', 'metadata': {'name': 'default'}}",
	"{'kind': 'Service', 'metadata': {'name': 'kubernetes', 'namespace': 'default'}, "
	"'spec': {'clusterIP': '10.96.0.9', 'ports': [{'name': 'https', 'port': 443}]}}",
	" {'kind': 'Service', 'metadata': {'name': 'web', 'namespace': 'default'}, "
	"'spec': {'clusterIP': '10.96.0.10', 'ports': [{'name': 'http', 'port': 80}]}}",
	" {'kind': 'Namespace', 'metadata': {'name': 'theirs'}}",
	"{'kind': 'Node', 'metadata': {'name': 'n1', 'labels': {'topology.kubernetes.io/zone': "
	"'z1'}}}",
	"{'kind': 'Pod', 'metadata': {'name': 'client', 'namespace': 'mine'}, "
	"'spec': {'nodeName': 'n1'}, "
	"'status': {'phase': 'Running', 'podIP': '10.0.0.1', 'podIPs': [{'ip': '10.0.0.1'}]}}",
	" {'kind': 'Pod', 'metadata': {'name': 'secret', 'namespace': 'theirs'}, "
	"'spec': {'nodeName': 'n2'}, "
	"'status': {'phase': 'Running', 'podIP': '10.0.0.2', 'podIPs': [{'ip': '10.0.0.2'}]}}",
	"{'kind': 'Service', 'metadata': {'name': 'web', 'namespace': 'mine'}, 'spec': "
	"{'clusterIP': '10.96.0.1', "
	"'ports': [{'name': 'http', 'port': 80}]}}",
	"{'kind': 'Service', 'metadata': {'name': 'set', 'namespace': 'mine'}, 'spec': "
	"{'clusterIP': 'None'}}",
	"{'kind': 'Service', 'metadata': {'name': 'out', 'namespace': 'mine'}, 'spec': {'type': "
	"'ExternalName', "
	"'externalName': 'web.theirs.svc.cluster.local'}}",
	"{'kind': 'EndpointSlice', 'metadata': {'name': 'set-1', 'namespace': 'mine', "
	"'labels': {'kubernetes.io/service-name': 'set'}}, 'addressType': 'IPv4', 'ports': "
	"[{'name': 'http', 'port': 80}], "
	"'endpoints': [{'addresses': ['10.0.0.1'], 'hostname': 'a', 'nodeName': 'n1', 'zone': "
	"'z1'}, {'addresses': ['10.0.0.3'], 'zone': 'z2', 'hints': {'forZones': [{'name': "
	"'z1'}]}}]}",
	"{'kind': 'Service', 'metadata': {'name': 'shared', 'namespace': 'open'}, 'spec': "
	"{'clusterIP': '10.96.0.2', "
	"'ports': [{'name': 'http', 'port': 80}]}}",
	" {'kind': 'Service', 'metadata': {'name': 'web', 'namespace': 'theirs'}, 'spec': "
	"{'clusterIP': '10.96.0.3', "
	"'ports': [{'name': 'http', 'port': 80}, {'name': 'dns', 'protocol': 'UDP', 'port': 53}]}}",
	" {'kind': 'Service', 'metadata': {'name': 'com', 'namespace': 'theirs'}, 'spec': "
	"{'clusterIP': '10.96.0.4'}}",
	" {'kind': 'Service', 'metadata': {'name': 'set', 'namespace': 'theirs'}, 'spec': "
	"{'clusterIP': 'None'}}",
	" {'kind': 'Service', 'metadata': {'name': 'soon', 'namespace': 'theirs'}, 'spec': "
	"{'clusterIP': 'None'}}",
	" {'kind': 'Service', 'metadata': {'name': 'out', 'namespace': 'theirs'}, 'spec': {'type': "
	"'ExternalName', "
	"'externalName': 'www.example.com'}}",
	" {'kind': 'EndpointSlice', 'metadata': {'name': 'set-2', 'namespace': 'theirs', "
	"'labels': {'kubernetes.io/service-name': 'set'}}, 'addressType': 'IPv4', 'ports': "
	"[{'name': 'http', 'port': 80}], "
	"'endpoints': [{'addresses': ['10.0.0.2'], 'hostname': 'b', 'nodeName': 'n2', 'zone': "
	"'z1'}, {'addresses': ['10.0.0.3'], 'hostname': 'c', 'zone': 'z3', 'hints': {'forNodes': "
	"[{'name': 'n1'}]}}]}",
	" {'kind': 'EndpointSlice', 'metadata': {'name': 'soon-1', 'namespace': 'theirs', "
	"'labels': {'kubernetes.io/service-name': 'soon'}}, 'addressType': 'IPv4', 'ports': [], "
	"'endpoints': [{'addresses': ['10.0.0.4'], 'hostname': 'd', 'conditions': {'ready': "
	"false}}]}",
};

static const char *const names[] = { "cluster.local.", "svc.cluster.local.",
	"mine.svc.cluster.local.", "theirs.svc.cluster.local.", "open.svc.cluster.local.",
	"web.theirs.svc.cluster.local.", "set.theirs.svc.cluster.local.",
	"soon.theirs.svc.cluster.local.", "out.theirs.svc.cluster.local.",
	"out.mine.svc.cluster.local.", "_http._tcp.web.theirs.svc.cluster.local.",
	"b.set.theirs.svc.cluster.local.", "d.soon.theirs.svc.cluster.local.",
	"web.theirs.mine.svc.cluster.local.", "com.theirs.svc.cluster.local.",
	"theirs.pod.cluster.local.", "10-0-0-2.theirs.pod.cluster.local.",
	"theirs.s.cluster.local.", "web.theirs.mine.s.cluster.local.", "mine.s.cluster.local.",
	"*.svc.cluster.local.", "web.*.svc.cluster.local.", "2.0.0.10.in-addr.arpa.",
	"3.0.0.10.in-addr.arpa.", "3.0.96.10.in-addr.arpa.", "10.in-addr.arpa.",
	"_explain.cluster.local.", "web.theirs._explain.cluster.local.", "example.com.", ".",
	"web.default.svc.cluster.local.", "kubernetes.default.svc.cluster.local.",
	"10.0.96.10.in-addr.arpa.", "9.0.96.10.in-addr.arpa.",
	"_zone.set.theirs.svc.cluster.local.", "pin._zone.set.theirs.svc.cluster.local.",
	"z1.pin._zone.set.theirs.svc.cluster.local.", "prefer._zone.set.theirs.svc.cluster.local.",
	"z3._zone.set.theirs.svc.cluster.local.", "_zone.soon.theirs.svc.cluster.local.",
	"_zone.set.mine.svc.cluster.local.", "pin._zone.*.theirs.svc.cluster.local.",
	"set.mine.svc.cluster.local.", "_zone.set.theirs._explain.cluster.local." };
enum { NAMES = sizeof names / sizeof names[0] };

static void
make_world(struct world *world, bool everything)
{
	struct store_config store_config = {
		.records = { .zone = config.zone, .ttl_s = 30 },
		.visibility = true,
		.client_pods = true,
		.nearest = true,
		.zonal = true,
		.pod_places = true,
		.reverse_all_endpoints = true,
	};

	world->cache = treecache_new(0x9e3779b97f4a7c15);
	world->store = store_new(world->cache, &store_config);
	for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
		bool hidden = *objects[i] == ' ';
		struct object object;
		const char *why;

		if (hidden && !everything)
			continue;
		struct json_object *json = quoted_json(objects[i] + hidden);
		if (json == NULL || object_extract(json, NULL, &object, &why) != 0 || why != NULL)
			abort();
		store_event(world->store, object.kind, EVENT_ADDED, &object);
		object_clear(&object);
		json_object_put(json);
	}
	world->context = calloc(1, sizeof *world->context);
	world->visibility = store_visibility(world->store);
	world->places = store_node_places(world->store);
	if (world->context == NULL || world->visibility == NULL || world->places == NULL)
		abort();
	world->visibility->serial = 7; /* time in seconds at which a store was created */
	world->context->forwarding = true;
	world->context->visibility = world->visibility;
	world->context->places = world->places;
	treecache_context(world->cache, world->context);
	treecache_publish(world->cache, everything ? 9 : 8, true);
}

static void
add_zone(struct reverse_zone *zone, const char *address, unsigned bits)
{
	if (addr_parse(address, &zone->prefix) < 0)
		abort();
	zone->bits = bits;
	reverse_name_prefix(&zone->prefix, bits, &zone->name);
}

static void
make_worlds(void)
{
	rcu_join();
	if (dname_from_text(&config.zone, "cluster.local.") != 0)
		abort();
	config.ttl_s = 30;
	config.negative_ttl_s = 5;
	parts.view.visibility = parts.view.pod_places = true;
	strcpy(config.hostname, "pod-1");
	parts.reverse.zones = zones;
	parts.reverse.zone_count = 2;
	answer_parts_use(&config, &parts);
	add_zone(&zones[0], "10.0.0.0", 8);
	add_zone(&zones[1], "10.96.0.0", 16);
	make_world(&whole, true);
	make_world(&without, false);
}

/* --- queries --- */

static int64_t now_ns = 1;
static uint64_t explained[2], counters[32];
static struct answer_thread thread = { .now_ns = &now_ns,
	.explained = &explained[0],
	.explain_refused = &explained[1],
	.modules = counters };

/* Writes the answer to the pod and returns its length. */
static size_t
asked(const struct world *world, struct answer_request request, uint8_t *out,
    enum answer_outcome *outcome, struct answer_info *info)
{
	struct addr client = { .family = AF_INET, .bytes = { 10, 0, 0, 1 } };
	enum view_client who;
	struct view view;

	memset(info, 0, sizeof *info);
	rcu_enter();
	request.out = out;
	request.tree = view_of(&view, config.view, tree_current(world->cache), &client, &who);
	if (who != VIEW_POD)
		abort();
	*outcome = answer(&request, info);
	rcu_leave();
	return *outcome == ANSWER_REPLY ? info->len : 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t out[2][DNS_TCP_MAX], query[DNS_TCP_MAX];
	enum answer_outcome outcome[2];
	struct answer_info info[2];
	size_t len[2];

	if (whole.cache == NULL)
		make_worlds();
	if (size < 1)
		return 0;
	parts.zone.wildcards = data[0] & OPTION_WILDCARDS;
	parts.zone.pods = data[0] & OPTION_POD_NAMES ? PODS_VERIFIED : PODS_DISABLED;
	config.module_stages = MODULE_STAGES(data[0] & OPTION_MODULE);
	stages_build(&config);
	parts.choice.zonal = data[0] & OPTION_POD_NAMES;
	parts.choice.nearest = data[0] & OPTION_FILTER;
	parts.choice.nearest_only = parts.choice.nearest && parts.choice.zonal;
	whole.context->filter_aaaa = without.context->filter_aaaa = data[0] & OPTION_FILTER;
	bool tcp = data[0] & OPTION_TCP;
	struct answer_request request = { .config = &config,
		.query = query,
		.query_len =
		    fuzz_query(data + 1, size - 1, data[0], names, NAMES, query, sizeof query),
		.max = tcp ? DNS_TCP_MAX : DNS_UDP_PAYLOAD,
		.tcp = tcp,
		.thread = &thread };

	now_ns += 1000000000;
	len[0] = asked(&whole, request, out[0], &outcome[0], &info[0]);
	len[1] = asked(&without, request, out[1], &outcome[1], &info[1]);
	if (outcome[0] != outcome[1] || len[0] != len[1] || memcmp(out[0], out[1], len[0]) != 0)
		abort();
	if (outcome[0] == ANSWER_CHASE && (!dname_equal(info[0].target.wire, info[1].target.wire) ||
					      info[0].claim.candidate != info[1].claim.candidate))
		abort();
	return 0;
}
