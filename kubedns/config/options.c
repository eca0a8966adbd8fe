#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kubedns/answer/stage.h"
#include "kubedns/config/client_options.h"
#include "kubedns/config/options.h"
#include "kubedns/config/server_options.h"
#include "kubedns/config/zone_options.h"
#include "kubedns/serve/upstream/forwarded_cache.h"
#include "lib/conf_keys.h"
#include "lib/version.h"
#include "lib/xalloc.h"

enum {
	DNS_PORT = 53,
	RECORDER_LEAST = 256 * 1024,
	MEMORY_LEAST = 16 * 1024 * 1024,
};

#define AT(member) offsetof(struct options, member)

static const struct flag core_flags[] = {
	{ "Basics", .type = FLAG_GROUP_FIRST },
	{ "domain", FLAG_STRING, AT(zone.domain), "cluster.local.", "NAME",
	    .help = "DNS zone of the cluster" },
	{ "dns-bind-address", FLAG_STRING, AT(listen.text), "0.0.0.0", "IP,...",
	    .help = "addresses to listen on, at most 4; 0.0.0.0 includes IPv6" },
	{ "dns-port", FLAG_PORT, AT(listen.port), "53", "PORT",
	    .help = "serve DNS on this port, UDP and TCP" },
	{ "kubecfg-file", FLAG_STRING, AT(source.kubecfg_file), "", "FILE",
	    .help = "kubeconfig for the API server; default: the pod's service account" },
	{ "objects-dir", FLAG_STRING, AT(source.objects_dir), "", "DIR",
	    .help = "read Kubernetes manifests from DIR instead of the API",
	    RULES(EXCLUDES("kubecfg-file", "the directory replaces the API server"),
		EXCLUDES("kube-master-url", "the directory replaces the API server")) },
	{ "config-map", FLAG_STRING, AT(configmap.name), "", "NAME",
	    .help = "watch this ConfigMap instead of reading --config-dir",
	    RULES(EXCLUDES("config-dir", "use only one of them"),
		EXCLUDES("objects-dir",
		    "without an API server, kubedns cannot watch a ConfigMap: use --config-dir")) },
	{ "config-dir", FLAG_STRING, AT(configmap.dir), "", "DIR",
	    .help = "directory with the keys of the ConfigMap (see --help=all)" },
	{ "ttl", FLAG_INT, AT(zone.ttl_s), "30", "SECONDS", .help = "TTL of answers, 0 to 3600",
	    .min = 0, .max = 3600 },
	{ "nameservers", FLAG_STRING, AT(upstream.nameservers_text), "", "IP[:PORT],...",
	    .help = "default upstream servers; default: resolv.conf" },
	{ "resolver", FLAG_SERVER, AT(upstream.resolver), "", "IP:PORT",
	    .help = "front topology: dnsmasq, which resolves external names" },
	{ "memory", FLAG_SIZE, AT(limits.memory_bytes), "", "SIZE",
	    .help = "limit for caches, TCP clients and queries in flight", .min = MEMORY_LEAST,
	    .max = FLAGS_SIZE_MOST },
	{ "healthz-port", FLAG_PORT, AT(observe.healthz_port), "8081", "PORT",
	    .help = "HTTP port for health, metrics and /explain" },
	{ "Source", .type = FLAG_GROUP },
	{ "kube-master-url", FLAG_STRING, AT(source.master_url), "", "URL",
	    .help = "URL of the API server; ${VARIABLES} are expanded" },
	{ "config-map-namespace", FLAG_STRING, AT(configmap.namespace), "kube-system", "NAME",
	    .help = "namespace of --config-map" },
	{ "config-period", FLAG_DURATION, AT(configmap.period_ms), "10s", "TIME",
	    .help = "read --config-dir and --objects-dir at least this often" },
	{ "endpointslice-selector", FLAG_STRING, AT(source.endpointslice_selector), "", "SELECTOR",
	    .help = "watch only EndpointSlices with these labels" },
	{ "namespaces", FLAG_LIST, AT(source.namespaces), NULL, "NAME,...",
	    .help = "serve only these namespaces" },
	{ "namespace-labels", FLAG_STRING, AT(source.namespace_labels), "", "SELECTOR",
	    .help = "serve only namespaces with these labels" },
	{ "hosts-namespaces", FLAG_LIST, AT(hosts.namespaces), NULL, "NAME[:DOMAIN...],...",
	    .help = "read ConfigMaps with names from these namespaces",
	    RULES(EXCLUDES("objects-dir", "without an API server, kubedns cannot watch ConfigMaps: "
					  "use the key hosts in --config-dir")) },
	{ "node-role", FLAG_BOOL, AT(source.node_role), NULL, NULL,
	    .help = "pod on every node: watch only endpoints of headless Services" },
	{ "node-name", FLAG_STRING, AT(source.node_name), "", "NAME",
	    .help = "name of this node, for --client-pods=node and --node-role" },
	{ "zone", FLAG_STRING, AT(place.zone), "", "NAME",
	    .help = "this node's zone (label topology.kubernetes.io/zone)",
	    RULES(NEEDS("nearest|nearest-only|zonal", "only these flags use the zone"),
		NEEDS("node-role", "the zone is the zone of this pod's node")) },
	{ "initial-sync-timeout", FLAG_DURATION, AT(source.initial_sync_timeout_ms), "60s", "TIME",
	    .help = "report a first sync that takes longer than this" },
	{ "audit", FLAG_SWITCH, AT(source.audit), "on", "on|off",
	    .help = "compare the data with the API, one namespace at a time" },
	{ "until-synced", FLAG_STRING, AT(upstream.until_synced_text), "", "IP[:PORT],...",
	    .help = "until the first sync, forward cluster names to these servers (TCP)" },
	{ "Zone and answers", .type = FLAG_GROUP },
	{ "negative-ttl", FLAG_INT, AT(zone.negative_ttl_s), "5", "SECONDS",
	    .help = "TTL of negative answers, 0 to 3600", .min = 0, .max = 3600 },
	{ "pods", FLAG_CHOICE, AT(zone.pods), "insecure", "MODE",
	    .help = "names 1-2-3-4.NS.pod: disabled, insecure or verified",
	    .words = "disabled|insecure|verified" },
	{ "endpoint-pod-names", FLAG_BOOL, AT(zone.endpoint_pod_names), NULL, NULL,
	    .help = "name an endpoint without a host name after its pod" },
	{ "ignore-empty-service", FLAG_BOOL, AT(zone.ignore_empty_service), NULL, NULL,
	    .help = "NXDOMAIN for a Service without ready endpoints" },
	{ "wildcards", FLAG_BOOL, AT(zone.wildcards), NULL, NULL,
	    .help = "answer `*` labels like kube-dns; lets any pod list names" },
	{ "ns-addresses", FLAG_LIST, AT(zone.ns_addresses), NULL, "IP,...",
	    .help = "addresses of ns.dns; default: those of this host" },
	{ "reverse-cidrs", FLAG_LIST, AT(reverse.cidrs), NULL, "CIDR,...",
	    .help = "be authoritative for the reverse zones of these prefixes" },
	{ "ptr", FLAG_CHOICE, AT(reverse.ptr), "all", "all|cidrs",
	    .help = "PTR records for all addresses, or only in --reverse-cidrs",
	    RULES(NEEDS("reverse-cidrs", "give the prefixes of Services and pods")) },
	{ "reverse-all-endpoints", FLAG_BOOL, AT(reverse.all_endpoints), NULL, NULL,
	    .help = "PTR records for endpoints of all Services" },
	{ "federations", FLAG_STRING, AT(zone.federations_text), "", "NAME=DOMAIN,...",
	    .help = "federations and their domains" },
	{ "nearest", FLAG_BOOL, AT(place.nearest), NULL, NULL,
	    .help = "headless Services: endpoints on the client's node or zone first" },
	{ "nearest-only", FLAG_BOOL, AT(place.nearest_only), NULL, NULL,
	    .help = "headless Services: only endpoints on the client's node or zone" },
	{ "zonal", FLAG_BOOL, AT(place.zonal), NULL, NULL,
	    .help = "add names that select the endpoints of one zone" },
	{ "external-zones", FLAG_LIST, AT(external.zones_text), NULL, "ZONE,...",
	    .help = "zones with the external addresses of Services",
	    RULES(HAS(SHOWS_EVERYTHING,
		"external zones show names of all namespaces to every client: "
		"run a separate kubedns for them")) },
	{ "external-refuse", FLAG_LIST, AT(external.refuse_text), NULL,
	    "wildcards|apex|external-ips,...", .help = "names that the external zones do not have",
	    RULES(NEEDS("external-zones", "give the zones")) },
	{ "external-ns", FLAG_LIST, AT(external.ns_text), NULL, "IP|NAME,...",
	    .help = "name servers of the external zones; default: --ns-addresses",
	    RULES(NEEDS("external-zones", "give the zones")) },
	{ "external-headless", FLAG_BOOL, AT(external.headless), NULL, NULL,
	    .help = "also serve headless Services in the external zones",
	    RULES(NEEDS("external-zones", "give the zones")) },
	{ "external-address", FLAG_STRING, AT(external.address_text), "", "IP[:PORT]",
	    .help = "at this address, answer only the external zones",
	    RULES(NEEDS("external-zones", "give the zones"),
		EXCLUDES("share-port", "this address cannot be shared: remove --share-port")) },
	{ "clusterset-domain", FLAG_STRING, AT(clusterset.text), "", "ZONE",
	    .help = "zone of multi-cluster Services, such as clusterset.local",
	    RULES(HAS(SHOWS_EVERYTHING,
		"this zone shows the imports of all namespaces to every client: "
		"run a separate kubedns for it")) },
	{ "Upstreams", .type = FLAG_GROUP },
	{ "servfail-retry", FLAG_SWITCH, AT(upstream.servfail_retry), "on", "on|off",
	    .help = "front topology: if --resolver fails, retry at the upstreams" },
	{ "fallthrough", FLAG_OPTIONAL, AT(upstream.fallthrough_text), "", "ZONE,...",
	    .help = "forward names that these zones do not have; default: all zones" },
	{ "answer-cache", FLAG_SIZE, AT(upstream.answer_cache_bytes), "off", "SIZE|off",
	    .help = "memory for forwarded answers, kept for at most 5 s",
	    .min = FORWARDED_CACHE_LEAST, .max = FLAGS_SIZE_MOST },
	{ "search-resolver", FLAG_SERVER, AT(upstream.search_resolver), "", "IP:PORT",
	    .help = "classic topology: dnsmasq, for targets of aliases",
	    RULES(EXCLUDES("resolver", "the first is for the classic topology, the second for "
				       "front: use only one of them")) },
	{ "filter-aaaa", FLAG_CHOICE, AT(upstream.filter_aaaa), "off", "auto|on|off",
	    .help = "no AAAA of external names; auto: if there is no IPv6",
	    .words = "off|on|auto" },
	{ "filter-a", FLAG_CHOICE, AT(upstream.filter_a), "off", "auto|on|off",
	    .help = "no A of external names; auto: if there is no IPv4", .words = "off|on|auto" },
	{ "filter-except", FLAG_LIST, AT(upstream.filter_except), NULL, "ZONE,...",
	    .help = "external domains that --filter-aaaa and --filter-a skip" },
	{ "Clients and policy", .type = FLAG_GROUP },
	{ "client-pods", FLAG_CHOICE, AT(clients.pods), "off", "off|node|all",
	    .help = "watch pods to know which pod a client is" },
	{ "visibility", FLAG_CHOICE, AT(clients.visibility), "off", "off|labels|visible-to",
	    .help = "which namespaces a pod can resolve",
	    RULES(NEEDS("client-pods", "kubedns knows a client's namespace only if it watches "
				       "pods: add it, as node or all"),
		EXCLUDES("search-resolver",
		    "it needs the classic topology, where dnsmasq is the only client and its cache "
		    "would show all pods the names that one pod may see: use the front topology"),
		EXCLUDES("fallthrough", "queries for hidden names would be sent to other servers, "
					"which do not check namespaces: remove it"),
		EXCLUDES_ALL(SHOWS_EVERYTHING)) },
	{ "visibility-unknown", FLAG_CHOICE, AT(clients.visibility_unknown), "none", "none|all",
	    .help = "namespaces that clients other than known pods can resolve" },
	{ "fair-share", FLAG_SWITCH, AT(clients.fair_share), "on", "on|off",
	    .help = "under overload, drop queries of the heaviest clients" },
	{ "Limits", .type = FLAG_GROUP },
	{ "threads", FLAG_INT, AT(limits.threads), "0", "N",
	    .help = "worker threads; 0: one for each CPU of the quota, at most 4", .min = 0,
	    .max = 64 },
	{ "tcp-connections", FLAG_INT, AT(limits.tcp_connections), "1000", "N",
	    .help = "TCP connections at the same time", .min = 1, .max = 1000000 },
	{ "drain", FLAG_DURATION, AT(limits.drain_ms), "8s", "TIME",
	    .help = "keep answering for this long after SIGTERM" },
	{ "drain-quiet", FLAG_DURATION, AT(limits.drain_quiet_ms), "0s", "TIME",
	    .help = "end --drain early after this long without a query; 0s: off" },
	{ "share-port", FLAG_BOOL, AT(listen.share_port), NULL, NULL,
	    .help = "listen beside another kubedns during an update" },
	{ "Observability", .type = FLAG_GROUP },
	{ "server-id", FLAG_STRING, AT(zone.server_id), "", "TEXT",
	    .help = "name of this server (id.server, hostname.bind, NSID)" },
	{ "healthz-bind-address", FLAG_STRING, AT(observe.healthz_address), "0.0.0.0", "IP",
	    .help = "listen for HTTP on this address" },
	{ "recorder", FLAG_SIZE, AT(observe.recorder_bytes), "2M", "SIZE|off",
	    .help = "memory for the recent answers that /queries and /top show",
	    .min = RECORDER_LEAST, .max = FLAGS_SIZE_MOST },
	{ "log-queries", FLAG_OPTIONAL, AT(observe.log_queries), "", "FILTER",
	    .help = "log answers; FILTER: client=,name=,type=,rcode=,rate=" },
	{ "explain-by-dns", FLAG_SWITCH, AT(observe.explain_by_dns), "on", "on|off",
	    .help = "answer TXT queries for NAME._explain" },
	{ "debug-remote", FLAG_BOOL, AT(observe.debug_remote), NULL, NULL,
	    .help = "show debug pages to all peers, not only to local ones" },
	{ "coredns-metrics", FLAG_BOOL, AT(observe.coredns_metrics), NULL, NULL,
	    .help = "also publish metrics under CoreDNS names" },
	{ "Commands", .type = FLAG_GROUP_FIRST },
	{ "explain", FLAG_STRING, AT(commands.explain), "", "NAME",
	    .help = "print how the running kubedns answers NAME, and exit" },
	{ "print-zone", FLAG_OPTIONAL, AT(commands.print_zone), "", "ZONE",
	    .help = "print this zone as a master file, and exit" },
	{ "ready", FLAG_BOOL, AT(commands.ready), NULL, NULL,
	    .help = "check whether the running kubedns is ready; exit 0 or 1" },
	{ "Accepted for old command lines", .type = FLAG_GROUP },
	{ "migrate", FLAG_STRING, AT(commands.migrate), "", "FILE",
	    .help = "moved to the program kubedns-migrate" },
	{ "profiling", FLAG_IGNORED, 0, NULL, NULL, .help = "accepted without effect" },
	{ "hold-ms", FLAG_IGNORED, 0, NULL, "N", .help = "removed, without effect" },
	{ "udp-subset", FLAG_IGNORED, 0, NULL, NULL, .help = "removed, without effect" },
	{ .name = NULL },
};

/* --- functions that each read one value; they return -EINVAL after flags_refuse() --- */

static int
read_federations(struct options *o)
{
	char *why = NULL;

	if (*o->zone.federations_text == '\0')
		return 0;
	int rc = conf_federations_parse(
	    o->zone.federations_text, strlen(o->zone.federations_text), &o->zone.federations, &why);
	if (rc < 0)
		flags_refuse("federations", o->zone.federations_text, why);
	free(why);
	return rc;
}

static int
read_listen(struct options *o)
{
	static const struct addr any4 = { .family = AF_INET }, any6 = { .family = AF_INET6 };
	char *copy = xstrdup(o->listen.text), *rest = copy, *text;
	const char *why = NULL;

	while (why == NULL && (text = strsep(&rest, ",")) != NULL) {
		struct addr addr;

		if (addr_parse(text, &addr) < 0)
			why = "not an address";
		else if (o->listen.count == SOCKETS_MAX)
			why = "at most four addresses";
		else if (strchr(o->listen.text, ',') != NULL &&
			 (addr_equal(&addr, &any4) || addr_equal(&addr, &any6)))
			why = "0.0.0.0 and :: mean every address: give no other address";
		else
			o->listen.addrs[o->listen.count++] = addr;
	}
	if (why == NULL && o->listen.share_port && o->listen.port == 0)
		why = "--share-port needs a --dns-port";
	if (why != NULL)
		flags_refuse("dns-bind-address", o->listen.text, why);
	free(copy);
	return why == NULL ? 0 : -EINVAL;
}

static int
read_bind_addresses(struct options *o)
{
	struct addr addr;

	if (addr_parse(o->observe.healthz_address, &addr) < 0)
		return flags_refuse(
		    "healthz-bind-address", o->observe.healthz_address, "not an address");
	if (read_listen(o) < 0)
		return -EINVAL;
	forwarding_loop_init(
	    &o->listen.loop, "kubedns", (uint16_t)o->listen.port, o->listen.addrs, o->listen.count);
	/* The Service's address leads to the program that listens on the DNS port. */
	if (o->listen.port == DNS_PORT)
		forwarding_loop_set_service(&o->listen.loop, getenv("KUBE_DNS_SERVICE_HOST"),
		    getenv("KUBE_DNS_SERVICE_PORT"));
	forwarding_loop_refresh(&o->listen.loop);
	return 0;
}

/* --- --ns-addresses --- */

static void
add_ns_addr(struct options *o, const struct addr *addr)
{
	o->zone.ns_addrs =
	    xreallocarray(o->zone.ns_addrs, o->zone.ns_addr_count + 1, sizeof *o->zone.ns_addrs);
	o->zone.ns_addrs[o->zone.ns_addr_count++] = *addr;
}

/* Adds the addresses of the interfaces that are up. Loopback addresses are added only if there are
 * no other addresses. Link-local addresses are never added. */
static void
add_interfaces(struct options *o, bool loopback)
{
	struct ifaddrs *all, *i;
	struct server server;

	if (getifaddrs(&all) < 0)
		return;
	for (i = all; i != NULL; i = i->ifa_next) {
		if (i->ifa_addr == NULL || (i->ifa_flags & IFF_UP) == 0 ||
		    !!(i->ifa_flags & IFF_LOOPBACK) != loopback ||
		    server_from_sockaddr(i->ifa_addr, &server) < 0)
			continue;
		if (server.addr.family == AF_INET6 && server.addr.bytes[0] == 0xfe &&
		    (server.addr.bytes[1] & 0xc0) == 0x80)
			continue;
		add_ns_addr(o, &server.addr);
	}
	freeifaddrs(all);
}

static int
read_ns_addresses(struct options *o)
{
	struct addr addr;

	for (size_t i = 0; i < o->zone.ns_addresses.count; i++) {
		if (addr_parse(o->zone.ns_addresses.items[i], &addr) < 0)
			return flags_refuse(
			    "ns-addresses", o->zone.ns_addresses.items[i], "not an address");
		add_ns_addr(o, &addr);
	}
	if (o->zone.ns_addr_count == 0)
		add_interfaces(o, false);
	if (o->zone.ns_addr_count == 0)
		add_interfaces(o, true);
	return 0;
}

/* --- the environment, and other values --- */

static const char *
env_or(const char *name, const char *deflt)
{
	const char *value = getenv(name);

	return value != NULL && *value != '\0' ? value : deflt;
}

static int
read_environment(struct options *o)
{
	const char *port = getenv("PROMETHEUS_PORT");
	char *end;

	o->observe.metrics_path = env_or("PROMETHEUS_PATH", "/metrics");
	o->observe.metrics_namespace = env_or("PROMETHEUS_NAMESPACE", "skydns");
	o->observe.metrics_subsystem = env_or("PROMETHEUS_SUBSYSTEM", "skydns");
	if (port == NULL || *port == '\0')
		return 0;
	unsigned long number = strtoul(port, &end, 10);
	if (*end != '\0' || *port < '0' || *port > '9' || number == 0 || number > UINT16_MAX) {
		log_errorx("PROMETHEUS_PORT: \"%s\": must be a port from 1 to 65535", port);
		return -EINVAL;
	}
	if (o->observe.metrics_path[0] != '/') {
		log_errorx("PROMETHEUS_PATH: \"%s\": must begin with /", o->observe.metrics_path);
		return -EINVAL;
	}
	o->observe.metrics_port = (uint16_t)number;
	return 0;
}

/* --- --log-queries --- */

static int
read_query_log(struct options *o)
{
	char *part = NULL;
	const char *why;

	if (query_log_wish_parse(&o->observe.query_log, o->observe.log_queries, &part, &why) < 0) {
		log_errorx("--log-queries: \"%s\": %s is needed", part, why);
		free(part);
		return -EINVAL;
	}
	if (o->observe.recorder_bytes > 0)
		return 0;
	log_errorx("--log-queries needs the recorder: remove --recorder=off");
	return -EINVAL;
}

static int
read_log(struct options *o, const struct flags_common *common)
{
	o->observe.wants_query_log = flags_given(common, "log-queries");
	return o->observe.wants_query_log ? read_query_log(o) : 0;
}

/* Every pod on a node would list the whole cluster, so the audit belongs to the central pods. */
static int
read_audit(struct options *o, const struct flags_common *common)
{
	if (!o->source.node_role || !o->source.audit)
		return 0;
	o->source.audit = false;
	return flags_given(common, "audit")
		   ? flags_refuse("audit", "on",
			 "cannot be used with --node-role: the central pods "
			 "compare their data with the API")
		   : 0;
}

/* --- --memory --- */

enum {
	/* Parts of --memory. The remainder is for the cluster's data and the program itself. */
	RECORDER_PART = 16,
	TCP_PART = 8,
	/*
	 * A query in flight needs memory for its message, client, deadline and attempts. If kubedns
	 * forwards to dnsmasq, a larger part would not help. dnsmasq accepts about as many queries:
	 * a fortieth of the same --memory at 1 KB each (nanny.8).
	 */
	IN_FLIGHT_PART = 24,
	IN_FLIGHT_BYTES = 2048,
};

/* Sets the parts of --memory. No part is larger than its default without that flag. */
static void
divide_memory(struct options *o, const struct flags_common *common)
{
	size_t memory = o->limits.memory_bytes;

	if (memory == 0)
		return;
	size_t recorder = memory / RECORDER_PART;
	if (!flags_given(common, "recorder") && recorder < o->observe.recorder_bytes)
		o->observe.recorder_bytes = recorder;
	o->limits.tcp_bytes = memory / TCP_PART;
	o->limits.in_flight = (unsigned)(memory / IN_FLIGHT_PART / IN_FLIGHT_BYTES);
	log_info("--memory=%zuk: recorder %zu kB, answer cache %zu kB, TCP %zu kB, %u queries in "
		 "flight; the rest is for the cluster's data",
	    memory / 1024, o->observe.recorder_bytes / 1024, o->upstream.answer_cache_bytes / 1024,
	    o->limits.tcp_bytes / 1024, o->limits.in_flight);
}

static void
fill_answers(struct options *o)
{
	struct answer_config *a = &o->answers;

	o->zone.stage = (struct zone_config){ .pods = o->zone.pods,
		.ignore_empty_service = o->zone.ignore_empty_service,
		.wildcards = o->zone.wildcards };
	o->reverse.stage.cidrs_only = o->reverse.ptr == PTR_CIDRS;
	a->stage_config[STAGE_zone] = &o->zone.stage;
	a->stage_config[STAGE_reverse] = &o->reverse.stage;
	a->stage_config[STAGE_upstream] = &o->upstream.stage;
	a->ttl_s = (uint32_t)o->zone.ttl_s;
	a->negative_ttl_s = (uint32_t)o->zone.negative_ttl_s;
	snprintf(a->version, sizeof a->version, "kubedns-%s", suite_version);
	if (*o->zone.server_id != '\0')
		snprintf(a->hostname, sizeof a->hostname, "%s", o->zone.server_id);
	else if (gethostname(a->hostname, sizeof a->hostname - 1) < 0)
		strcpy(a->hostname, "localhost");
}

int
kubedns_options_read(struct options *o, struct flags_common *common, int argc, char **argv)
{
	const char *keys[CONF_KEY_HELP_MAX];

	conf_key_help(CONF_KUBEDNS, keys);
	common->keys = keys; /* flags_parse() needs the keys for --help */
	modules_init(&o->modules, core_flags);
	common->built_in = o->modules.names;
	int rc = flags_parse(o->modules.flags, o, common, argc, argv);

	common->keys = NULL;
	if (rc < 0)
		return rc;
	if (common->rest < argc) {
		log_errorx("\"%s\": kubedns takes flags only", argv[common->rest]);
		flags_say_usage(common);
		return -EINVAL;
	}
	o->commands.wants_zone = flags_given(common, "print-zone");
	if (flags_given(common, "explain") && *o->commands.explain == '\0')
		rc = flags_refuse("explain", "", "a name is missing, such as web.default");
	/* Calls all functions, so that one run reports all mistakes. */
	const int checked = flags_check(o->modules.flags, o, common);
	if (strlen(o->zone.server_id) >= sizeof o->answers.hostname)
		rc = flags_refuse("server-id", o->zone.server_id, "too long: at most 63 bytes");
	fill_answers(o);
	divide_memory(o, common);
	const struct module_given given = { .flags = common, .zone = &o->answers.zone };
	const int results[] = { checked, read_bind_addresses(o), zone_options_read(o, common),
		server_options_read(o), client_options_read(o), read_federations(o),
		read_ns_addresses(o), read_environment(o), read_log(o, common),
		read_audit(o, common), modules_check(&o->modules, &given) };
	for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
		rc = results[i] < 0 ? results[i] : rc;
	modules_add_answers(&o->modules, &o->answers);
	/* external_setup_new() adds the external and clusterset zones later. */
	stages_build(&o->answers);
	if (rc < 0)
		flags_say_usage(common);
	return rc;
}

void
kubedns_options_free(struct options *o, struct flags_common *common)
{
	free(o->zone.ns_addrs);
	zone_options_free(o);
	client_options_free(o);
	free(o->upstream.stage.filter_except);
	flags_free(o->modules.flags, o, common);
	modules_free(&o->modules);
}
