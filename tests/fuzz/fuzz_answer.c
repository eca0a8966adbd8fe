/*
 * Queries to a cluster that has a few objects of each kind. For any query, the reply must be
 * readable to its end, and not longer than the client accepts. The answer section must contain no
 * duplicate records.
 *
 * input: fuzz_query.h
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/explanation_stage.h"
#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/local_names.h"
#include "kubedns/answer/zone_lookup.h"
#include "kubedns/answer/rewrites.h"
#include "tests/answer_parts.h"
#include "kubedns/cluster/clusterset/clusterset.h"
#include "kubedns/cluster/external/external.h"
#include "kubedns/cluster/external/object_external.h"
#include "kubedns/cluster/store.h"
#include "lib/conf_hosts.h"
#include "lib/conf_rewrites.h"
#include "lib/rcu.h"
#include "tests/fuzz/fuzz_query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	OPTION_TCP = 2,
	OPTION_WILDCARDS = 4,
	OPTION_VERIFIED = 16,
	OPTION_FILTER = 32,
	OPTION_OWN = 64,
	OPTION_MODULE = 128,
};

#ifndef MODULE_STAGES /* A target of a module includes this file, and defines its stages. */
#define MODULE_STAGES(option) ((void)(option), NULL)
enum { CANDIDATES = 0 /* number of candidates at other servers */ };
#endif

enum { SHARED = 3000, OWNERS = 300, PORTS = 60, COMPARED_MAX = 100 };

static struct treecache *cache;
/* a global variable, so that the leak checker finds the store */
static struct store *volatile store;
static struct answer_config config;
static struct answer_parts parts;
static struct reverse_zone zones[3];
static struct answer_context *context; /* the published context */
static struct dname except;
static struct local_names *volatile own_hosts;
static struct rewrites *rewrites;

static const char *const names[] = { "cluster.local.", "svc.cluster.local.",
	"default.svc.cluster.local.", "web.default.svc.cluster.local.",
	"_http._tcp.web.default.svc.cluster.local.", "many.default.svc.cluster.local.",
	"same.default.svc.cluster.local.", "_p0._tcp.same.default.svc.cluster.local.",
	"host.same.default.svc.cluster.local.", "10-7-0-1.same.default.svc.cluster.local.",
	"a.default.svc.cluster.local.", "self.default.svc.cluster.local.",
	"ptr.default.svc.cluster.local.", "out.default.svc.cluster.local.",
	"9.9.9.10.in-addr.arpa.", "1.0.96.10.in-addr.arpa.", "10.in-addr.arpa.",
	"default.pod.cluster.local.", "*.default.svc.cluster.local.", "*.svc.cluster.local.",
	"_p1._udp.*.default.svc.cluster.local.", "*.same.default.svc.cluster.local.",
	"ns.dns.cluster.local.", "s.fed.svc.cluster.local.", "example.com.", ".",
	"default.s.cluster.local.", "com.default.svc.cluster.local.",
	/* external names, and names in a clusterset */
	"out.example.", "web.default.out.example.", "same.default.out.example.",
	"host.same.default.out.example.", "_p0._tcp.same.default.out.example.",
	"deep.wild.out.example.", "alias.out.example.", "clusterset.local.",
	"ns.dns.clusterset.local.", "db.default.svc.clusterset.local.",
	"west.db.default.svc.clusterset.local.", "a.west.db.default.svc.clusterset.local.",
	"_p1._udp.db.default.svc.clusterset.local.", "ip.default.svc.clusterset.local.",
	"_p1._udp.ip.default.svc.clusterset.local.", "7.7.9.10.in-addr.arpa." };
enum { NAMES = sizeof names / sizeof names[0] };

static struct object
named(enum object_kind kind, const char *name)
{
	return (struct object){
		.kind = kind, .namespace = "default", .name = name, .resource_version = "1"
	};
}

static struct object_port ports[PORTS];

static void
add_service(const char *name, enum service_type type, const char *address, unsigned port_count)
{
	struct object o = named(OBJECT_SERVICE, name);

	o.service = (struct object_service){ .type = type,
		.external_name = type == SERVICE_EXTERNALNAME ? address : "",
		.ports = ports,
		.port_count = port_count,
		.addr_count = type == SERVICE_CLUSTERIP };
	if (type == SERVICE_CLUSTERIP && addr_parse(address, &o.service.addrs[0]) < 0)
		abort();
	store_event(store, OBJECT_SERVICE, EVENT_ADDED, &o);
}

static void
add_slice(const char *service, unsigned number, unsigned first_port, unsigned port_count,
    struct object_endpoint *endpoints, unsigned count)
{
	char name[64];
	struct object_slice slice = { .name = name,
		.service = service,
		.family = AF_INET,
		.ports = ports + first_port,
		.port_count = port_count,
		.endpoints = endpoints,
		.endpoint_count = count };
	struct object o = named(OBJECT_SLICES, name);

	snprintf(name, sizeof name, "%s-%u", service, number);
	o.slices = &slice;
	o.slice_count = 1;
	store_event(store, OBJECT_SLICES, EVENT_ADDED, &o);
}

/* Adds overlapping slices. Some of their endpoints share a host name, some have an address with
 * dashes as name, and some have no name. */
static void
add_shared(void)
{
	static struct object_endpoint endpoints[SHARED / 10];

	enum { EACH = SHARED / 10 };

	add_service("same", SERVICE_HEADLESS, NULL, 0);
	for (unsigned s = 0; s < 10; s++) {
		for (unsigned i = 0; i < EACH; i++) {
			unsigned n = s * (EACH - 10) + i;

			endpoints[i] = (struct object_endpoint){
				.addr = { AF_INET,
				    { 10, 7, (uint8_t)(n / 250), (uint8_t)(n % 250) } },
				.ready = n % 11 != 0,
				.hostname = n % 7 == 0   ? "10-7-0-1"
					    : n % 3 != 0 ? "host"
							 : NULL,
			};
		}
		add_slice("same", s, s % 3, 3, endpoints, EACH);
	}
}

static void
add_owners(void)
{
	struct object_endpoint endpoint = { .ready = true };
	char name[32];

	if (addr_parse("10.9.9.9", &endpoint.addr) < 0)
		abort();
	for (unsigned i = 0; i < OWNERS; i++) {
		snprintf(name, sizeof name, "owner-%u", i);
		add_service(name, SERVICE_HEADLESS, NULL, 0);
		add_slice(name, 0, 0, 1, &endpoint, 1);
	}
}

static struct dname outside[2];
static struct external_zones outside_zones = {
	.zones = outside, .zone_count = 2, .clusterset = &outside[1], .headless = true
};
static struct external *volatile external;
static struct clusterset *volatile clusterset;

/* Adds an object with an address. The object claims these names. */
static void
claim(const char *name, const char *target, const char *const *hosts, size_t count)
{
	struct object_text texts[4];
	struct addr addr = { AF_INET, { 192, 0, 2, 1 } };
	struct object_external from = { .addrs = &addr,
		.addr_count = target == NULL,
		.target = target,
		.target_count = target != NULL,
		.hosts = texts,
		.host_count = count };
	struct object o = named(OBJECT_INGRESS, name);

	for (size_t i = 0; i < count; i++)
		texts[i] = (struct object_text){ hosts[i], strlen(hosts[i]) };
	o.external = &from;
	external_event(external, OBJECT_INGRESS, EVENT_ADDED, &o);
}

static void
add_import(const char *name, enum service_type type)
{
	struct object o = named(OBJECT_IMPORT, name);

	o.service = (struct object_service){ .type = type,
		.external_name = "",
		.addrs = { { AF_INET, { 10, 9, 7, 7 } } },
		.addr_count = type == SERVICE_CLUSTERIP,
		.ports = ports,
		.port_count = type == SERVICE_CLUSTERIP ? PORTS : 0 };
	clusterset_event(clusterset, OBJECT_IMPORT, EVENT_ADDED, &o);
}

static void
add_import_slice(const char *import, const char *cluster)
{
	struct object_endpoint endpoints[] = {
		{ .addr = { AF_INET, { 10, 9, 7, 7 } }, .ready = true, .hostname = "a" },
		{ .addr = { AF_INET, { 10, 9, 7, 8 } }, .ready = true, .hostname = "a" },
		{ .addr = { AF_INET, { 10, 9, 7, 8 } }, .ready = true },
	};
	struct object_slice slice = { .name = cluster,
		.family = AF_INET,
		.ports = ports,
		.port_count = 3,
		.endpoints = endpoints,
		.endpoint_count = 3 };
	struct object o = named(OBJECT_SLICES, cluster);

	o.slices = &slice;
	o.slice_count = 1;
	o.import.name = import;
	o.import.cluster = cluster;
	clusterset_event(clusterset, OBJECT_SLICES, EVENT_ADDED, &o);
}

/* Adds an external zone with the cluster's headless Services, and the zone of a clusterset. */
static void
add_outside(void)
{
	static const char *const hosts[] = { "web.default.out.example", "*.wild.out.example",
		"host.same.default.out.example" };
	static const char *const alias[] = { "alias.out.example" };
	struct clusterset_config set_config = { .ttl_s = 30 };

	if (dname_from_text(&outside[0], "out.example.") != 0 ||
	    dname_from_text(&outside[1], "clusterset.local.") != 0)
		abort();
	struct external_config external_config = { .zones = outside, .zone_count = 1, .ttl_s = 30 };
	external = external_new(&external_config, 7);
	external_begin(external);
	outside_zones.tree = external_tree(external);
	claim("names", NULL, hosts, 3);
	claim("balanced", "www.example.net", alias, 1);
	set_config.zone = outside[1];
	clusterset = clusterset_new(&set_config, external_tree(external), 7);
	add_import("db", SERVICE_HEADLESS);
	add_import("ip", SERVICE_CLUSTERIP);
	add_import_slice("db", "west");
	add_import_slice("db", "east");
	clusterset_settle(clusterset);
	treecache_publish(external_tree(external), 1, true);
	external_zones_set(&config, &outside_zones);
	answer_parts_use(&config, &parts);
}

static void
add_zone(struct reverse_zone *zone, const char *address, unsigned bits)
{
	if (addr_parse(address, &zone->prefix) < 0)
		abort();
	zone->bits = bits;
	reverse_name_prefix(&zone->prefix, bits, &zone->name);
}

/* Adds local names, and rewrites of each kind: into the zone, into a reverse zone, and out of these
 * zones. */
static void
add_own(void)
{
	static const char
	    host_lines[] = "10.9.9.9 host.own.example web.default.svc.cluster.local",
	    rewrite_lines[] =
		"suffix example.com default.svc.cluster.local\n"
		"exact  ns.dns.cluster.local 9.9.9.10.in-addr.arpa\n"
		"exact  s.fed.svc.cluster.local www.example.net\n"
		"regex  (.*)\\.pod\\.cluster\\.local {1}.svc.cluster.local\n"
		"regex  (.*).(.*).(.*)\\.arpa {3}{2}.{1}.same.default.svc.cluster.local\n";
	struct conf_hosts hosts;
	struct conf_rewrites lines;
	char *why;

	if (conf_hosts_parse(host_lines, sizeof host_lines - 1, &hosts, &why) < 0 ||
	    conf_rewrites_parse(rewrite_lines, sizeof rewrite_lines - 1, &lines, &why) < 0 ||
	    rewrites_new(&lines, 3, &rewrites, &why) < 0)
		abort();
	context->names = own_hosts = local_names_of_hosts(&hosts, true, 30, 3);
	context->rewrites = rewrites;
	conf_hosts_free(&hosts);
	conf_rewrites_free(&lines);
}

static void
make_world(void)
{
	static char port_names[PORTS][8];

	context = calloc(1, sizeof *context + sizeof context->federations[0]);
	struct object o = named(OBJECT_NAMESPACE, "default");

	rcu_join();
	if (context == NULL || dname_from_text(&config.zone, "cluster.local.") != 0)
		abort();
	if (dname_from_text(&except, "com.") != 0)
		abort();
	parts.upstream.filter_except = &except;
	parts.upstream.filter_except_count = 1;
	config.ttl_s = 30;
	config.negative_ttl_s = 5;
	strcpy(config.hostname, "pod-1");
	parts.reverse.zones = zones;
	parts.reverse.zone_count = 3;
	add_zone(&zones[0], "10.0.0.0", 8);
	add_zone(&zones[1], "10.96.0.0", 16);
	add_zone(&zones[2], "fd00::", 8);
	for (unsigned i = 0; i < PORTS; i++) {
		snprintf(port_names[i], sizeof port_names[i], "p%u", i % 40);
		ports[i] = (struct object_port){ port_names[i], i % 2 ? "udp" : "tcp",
			(uint16_t)(80 + i / 2) };
	}
	cache = treecache_new(0x9e3779b97f4a7c15);
	struct store_config store_config = { .records = { .zone = config.zone, .ttl_s = 30 } };
	store = store_new(cache, &store_config);
	o.namespace = "";
	store_event(store, OBJECT_NAMESPACE, EVENT_ADDED, &o);
	add_service("web", SERVICE_CLUSTERIP, "10.96.0.1", 1);
	add_service("many", SERVICE_CLUSTERIP, "10.96.0.2", PORTS);
	add_service("a", SERVICE_EXTERNALNAME, "b.default.svc.cluster.local", 0);
	add_service("b", SERVICE_EXTERNALNAME, "a.default.svc.cluster.local", 0);
	add_service("self", SERVICE_EXTERNALNAME, "self.default.svc.cluster.local", 0);
	add_service("ptr", SERVICE_EXTERNALNAME, "9.9.9.10.in-addr.arpa", 0);
	add_service("out", SERVICE_EXTERNALNAME, "www.example.net", 0);
	add_shared();
	add_owners();
	add_own();
	add_outside();
	context->forwarding = true;
	context->federation_count = 1;
	memcpy(context->federations[0].label, "\3fed", 4);
	if (dname_from_text(&context->federations[0].domain, "fed.example.") != 0)
		abort();
	treecache_context(cache, context);
	treecache_publish(cache, 1, true);
}

/* Checks that every record is readable, that no bytes follow the last record, and that the first
 * records of the answer section have no duplicates. */
static void
judge(const uint8_t *wire, size_t len)
{
	static struct record seen[COMPARED_MAX];
	struct record record;
	unsigned answers = wire_get16(wire + 6), kept = 0;
	unsigned records = answers + wire_get16(wire + 8) + wire_get16(wire + 10);
	size_t at = DNS_HEADER;

	if (wire_get16(wire + 4) == 1) {
		struct dname name;

		if (wire_read_name(wire, len, &at, &name) != 0 || len - at < 4)
			abort();
		at += 4;
	}
	for (unsigned i = 0; i < records; i++) {
		if (wire_read_record(wire, len, &at, &record) != 0)
			abort();
		if (i >= answers || kept == COMPARED_MAX)
			continue;
		for (unsigned j = 0; j < kept; j++)
			if (seen[j].type == record.type && seen[j].rdata_len == record.rdata_len &&
			    memcmp(seen[j].rdata, record.rdata, record.rdata_len) == 0 &&
			    dname_equal(seen[j].owner.wire, record.owner.wire))
				abort();
		seen[kept++] = record;
	}
	if (at != len)
		abort();
}

/* Returns the explanation for NAME._explain. The explanation is the name itself, with one label per
 * line. */
static char *
explain(const struct answer_config *unused, const struct tree *tree, const char *name, size_t *len)
{
	char *text = strdup(name);

	(void)unused, (void)tree;
	for (char *dot = text; dot != NULL && (dot = strchr(dot, '.')) != NULL;)
		*dot = '\n';
	*len = text == NULL ? 0 : strlen(text);
	return text;
}

static const struct explanation_config explanation = { .explain = explain };
static int64_t now_ns = 1;
static uint64_t explained[2], counters[32];
static struct answer_thread thread = { .now_ns = &now_ns,
	.explained = &explained[0],
	.explain_refused = &explained[1],
	.modules = counters };

/*
 * Continues with the candidates of a module, with replies of other servers. For each name, a bit
 * of the input's last byte selects a negative answer or an address. The loop ends after as many
 * steps as there are candidates.
 */
static void
walk(const struct answer_request *request, struct answer_info *info, uint8_t denials)
{
	static uint8_t message[DNS_UDP_QUERY_MAX];

	for (unsigned steps = 0;; steps++) {
		size_t len = query_write(
		    message, sizeof message, 1, info->target.wire, info->query.qtype, CLASS_IN, 0);
		const struct upstream_reply said = { message, len, NULL };
		bool denied = denials >> steps % 8 & 1;

		message[2] |= 0x80;
		message[3] = denied ? RCODE_NXDOMAIN : RCODE_NOERROR;
		if (steps > CANDIDATES)
			abort();
		bool candidate = info->claim.candidate;
		if (answer_chases_on(request, &said, info)) {
			if (!candidate || !denied)
				abort();
			continue;
		}
		size_t written = answer_chased(request, &said, info);
		if (written != info->len || written > request->max)
			abort();
		judge(request->out, written);
		return;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t out[DNS_TCP_MAX], query[DNS_TCP_MAX];
	struct answer_info info;

	if (cache == NULL)
		make_world();
	if (size < 1)
		return 0;
	bool tcp = data[0] & OPTION_TCP;
	parts.zone.wildcards = data[0] & OPTION_WILDCARDS;
	parts.zone.pods = data[0] & OPTION_VERIFIED ? PODS_VERIFIED : PODS_INSECURE;
	config.module_stages = MODULE_STAGES(data[0] & OPTION_MODULE);
	config.stage_config[STAGE_explanation] = &explanation;
	stages_build(&config);
	context->filter_aaaa = data[0] & OPTION_FILTER;
	context->filter_a = data[0] & OPTION_FILTER;
	context->stale_since_ns = data[0] & OPTION_FILTER ? 1 : 0;
	context->own = data[0] & OPTION_OWN;
	size_t len = fuzz_query(data + 1, size - 1, data[0], names, NAMES, query, sizeof query);
	struct answer_request request = { .config = &config,
		.query = query,
		.query_len = len,
		.out = out,
		.max = tcp ? DNS_TCP_MAX : DNS_UDP_PAYLOAD,
		.tcp = tcp,
		.thread = &thread,
		.rotation = data[0] * 257u + (uint32_t)size };

	now_ns += 1000000000;
	rcu_enter();
	request.tree = tree_current(cache);
	enum answer_outcome outcome = answer(&request, &info);
	if (outcome == ANSWER_CHASE)
		walk(&request, &info, data[size - 1]);
	rcu_leave();
	if (outcome == ANSWER_REPLY) {
		if (info.filtered && (!(data[0] & OPTION_FILTER) || info.rcode != RCODE_NOERROR))
			abort();
		if (info.len > request.max || (!tcp && info.len > info.query.udp_size))
			abort();
		judge(out, info.len);
	}
	return 0;
}
