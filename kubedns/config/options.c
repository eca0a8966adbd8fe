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
	JOURNAL_LEAST = 64 * 1024,
	JOURNAL_MOST = 4 * 1024 * 1024,
	MEMORY_LEAST = 16 * 1024 * 1024,
};

#define AT(member) offsetof(struct options, member)

const struct flag kubedns_flags[] = {
	{ "Basics", .type = FLAG_GROUP },
	{ "domain", FLAG_STRING, AT(domain), "cluster.local.", "NAME",
	    .help = "the cluster's DNS zone" },
	{ "dns-bind-address", FLAG_STRING, AT(address), "0.0.0.0", "IP,...",
	    .help = "serve DNS on these addresses, at most 4; 0.0.0.0 and :: mean both families" },
	{ "dns-port", FLAG_PORT, AT(port), "53", "PORT",
	    .help = "serve DNS on this port, UDP and TCP" },
	{ "server-id", FLAG_STRING, AT(server_id), "", "TEXT",
	    .help = "what id.server, hostname.bind and NSID return; default: the host name" },
	{ "threads", FLAG_INT, AT(threads), "0", "N",
	    .help = "worker threads; 0: by CPUs and quota, at most 4", .min = 0, .max = 64 },
	{ "config-dir", FLAG_STRING, AT(config_dir), "", "DIR",
	    .help =
		"the ConfigMap as a directory: upstreamNameservers, federations, hosts, records, "
		"rewrites" },
	{ "config-map", FLAG_STRING, AT(config_map), "", "NAME",
	    .help = "watch this ConfigMap in place of --config-dir",
	    RULES(EXCLUDES("config-dir", "only one of them can be the configuration"),
		EXCLUDES("objects-dir",
		    "it has no API server to watch the ConfigMap at: use --config-dir")) },
	{ "config-map-namespace", FLAG_STRING, AT(config_map_namespace), "kube-system", "NAME",
	    .help = "the namespace of --config-map" },
	{ "config-period", FLAG_DURATION, AT(config_period_ms), "10s", "TIME",
	    .help = "look at --config-dir and --objects-dir at least this often" },
	{ "drain", FLAG_DURATION, AT(drain_ms), "8s", "TIME",
	    .help = "go on answering this long after SIGTERM" },
	{ "drain-quiet", FLAG_DURATION, AT(drain_quiet_ms), "0s", "TIME",
	    .help =
		"end before --drain is over when no question has come for so long; 0s: do not" },
	{ "Source of objects", .type = FLAG_GROUP },
	{ "kubecfg-file", FLAG_STRING, AT(kubecfg_file), "", "FILE",
	    .help = "find the API server by this kubeconfig" },
	{ "kube-master-url", FLAG_STRING, AT(master_url), "", "URL",
	    .help = "the API server; ${VARIABLES} are expanded" },
	{ "objects-dir", FLAG_STRING, AT(objects_dir), "", "DIR",
	    .help = "read Kubernetes manifests from DIR in place of the API",
	    RULES(EXCLUDES("kubecfg-file", "the directory takes the place of an API server"),
		EXCLUDES("kube-master-url", "the directory takes the place of an API server")) },
	{ "endpointslice-selector", FLAG_STRING, AT(endpointslice_selector), "", "SELECTOR",
	    .help = "watch only EndpointSlices with these labels" },
	{ "namespaces", FLAG_LIST, AT(namespaces), NULL, "NAME,...",
	    .help = "only these namespaces exist" },
	{ "namespace-labels", FLAG_STRING, AT(namespace_labels), "", "SELECTOR",
	    .help = "only namespaces with these labels exist, such as team=a,env in (prod,test)" },
	{ "node-role", FLAG_BOOL, AT(node_role), NULL, NULL,
	    .help = "one of many, a pod on every node: watch no endpoints of Services with a "
		    "cluster IP" },
	{ "node-name", FLAG_STRING, AT(node_name), "", "NAME",
	    .help = "the node of --client-pods=node, and of the clients of --node-role" },
	{ "zone", FLAG_STRING, AT(zone), "", "NAME",
	    .help = "that node's zone, its label topology.kubernetes.io/zone",
	    RULES(NEEDS("nearest|nearest-only|zonal", "answers do not depend on the zone yet"),
		NEEDS("node-role", "it is the zone of the node whose pods ask this kubedns")) },
	{ "initial-sync-timeout", FLAG_DURATION, AT(initial_sync_timeout_ms), "60s", "TIME",
	    .help = "say so in the log and a metric when the first sync takes longer" },
	{ "until-synced", FLAG_STRING, AT(until_synced_text), "", "IP[:PORT],...",
	    .help = "before the first sync ask these servers over TCP for the cluster's names" },
	{ "share-port", FLAG_BOOL, AT(share_port), NULL, NULL,
	    .help =
		"listen beside another kubedns, on addresses that may come later: for updates" },
	{ "Zone and answers", .type = FLAG_GROUP },
	{ "ttl", FLAG_INT, AT(ttl_s), "30", "SECONDS", .help = "TTL of records, 0 to 3600",
	    .min = 0, .max = 3600 },
	{ "negative-ttl", FLAG_INT, AT(negative_ttl_s), "5", "SECONDS",
	    .help = "TTL and minimum of the SOA in negative answers, 0 to 3600", .min = 0,
	    .max = 3600 },
	{ "hold-ms", FLAG_INT, AT(hold_ms), "0", "N",
	    .help =
		"milliseconds that a query for a name about to exist may wait for it, 0 to 2000",
	    .min = 0, .max = 2000 },
	{ "pods", FLAG_CHOICE, AT(pods), "insecure", "MODE",
	    .help = "pod names 1-2-3-4.NAMESPACE.pod: disabled, insecure or verified",
	    .words = "disabled|insecure|verified" },
	{ "endpoint-pod-names", FLAG_BOOL, AT(endpoint_pod_names), NULL, NULL,
	    .help = "name endpoints without a host name for their pod" },
	{ "ignore-empty-service", FLAG_BOOL, AT(ignore_empty_service), NULL, NULL,
	    .help = "a Service with a cluster IP and no ready endpoint does not exist" },
	{ "wildcards", FLAG_BOOL, AT(wildcards), NULL, NULL,
	    .help = "answer `*` as a label, as kube-dns did: any pod can then list the cluster" },
	{ "udp-subset", FLAG_BOOL, AT(udp_subset), NULL, NULL,
	    .help = "a headless Service that UDP does not hold: a random part of it, without TC" },
	{ "ns-addresses", FLAG_LIST, AT(ns_addresses), NULL, "IP,...",
	    .help = "addresses of ns.dns; default: this host's" },
	{ "reverse-cidrs", FLAG_LIST, AT(reverse_cidrs), NULL, "CIDR,...",
	    .help = "be the authority for these prefixes' reverse zones" },
	{ "ptr", FLAG_CHOICE, AT(ptr), "all", "all|cidrs",
	    .help = "addresses that have PTR records: all that Services and endpoints have, or "
		    "those in "
		    "--reverse-cidrs",
	    RULES(NEEDS("reverse-cidrs", "give the prefixes of Services and pods")) },
	{ "reverse-all-endpoints", FLAG_BOOL, AT(reverse_all_endpoints), NULL, NULL,
	    .help = "PTR records for the endpoints of every Service, not only headless ones" },
	{ "hosts-namespaces", FLAG_LIST, AT(hosts_namespaces), NULL, "NAME[:DOMAIN...],...",
	    .help = "names of ConfigMaps labelled kubedns/hosts=true in these namespaces, key "
		    "hosts; only "
		    "names in these domains",
	    RULES(EXCLUDES("objects-dir", "it has no API server to watch ConfigMaps at: use the "
					  "key hosts in --config-dir")) },
	{ "federations", FLAG_STRING, AT(federations_text), "", "NAME=DOMAIN,...",
	    .help = "federation names" },
	{ "nearest", FLAG_BOOL, AT(nearest), NULL, NULL,
	    .help =
		"headless Services: endpoints on the client's node first, then those of its zone" },
	{ "nearest-only", FLAG_BOOL, AT(nearest_only), NULL, NULL,
	    .help = "the same, without the others while one of these is ready" },
	{ "zonal", FLAG_BOOL, AT(zonal), NULL, NULL,
	    .help =
		"names [ZONE.]pin._zone.SERVICE.NAMESPACE.svc, or prefer: endpoints of one zone" },
	{ "Zones beside the cluster, zone transfer", .type = FLAG_GROUP },
	{ "external-zones", FLAG_LIST, AT(external_zones_text), NULL, "ZONE,...",
	    .help = "zones for the world outside: SERVICE.NAMESPACE.ZONE for load balancers' "
		    "addresses" },
	{ "external-refuse", FLAG_LIST, AT(external_refuse_text), NULL,
	    "wildcards|apex|external-ips,...",
	    .help = "host names with '*', the zones' own names, addresses of spec.externalIPs",
	    RULES(NEEDS("external-zones", "of which zones?")) },
	{ "external-ns", FLAG_LIST, AT(external_ns_text), NULL, "IP|NAME,...",
	    .help =
		"their name servers: addresses of ns.dns.ZONE, or names; default: --ns-addresses",
	    RULES(NEEDS("external-zones", "of which zones?")) },
	{ "external-headless", FLAG_BOOL, AT(external_headless), NULL, NULL,
	    .help = "headless Services have names in these zones too, with their pods' addresses",
	    RULES(NEEDS("external-zones", "of which zones?")) },
	{ "external-address", FLAG_STRING, AT(external_address_text), "", "IP[:PORT]",
	    .help = "answer these zones here, port 53 by default, and nothing else",
	    RULES(NEEDS("external-zones", "of which zones?"),
		EXCLUDES("share-port", "this address cannot be shared: leave out --share-port")) },
	{ "clusterset-domain", FLAG_STRING, AT(clusterset_text), "", "ZONE",
	    .help = "names of ServiceImports, by other clusters: such as clusterset.local" },
	{ "transfer-to", FLAG_LIST, AT(transfer_to), NULL, "CIDR,...",
	    .help =
		"give our zones, by AXFR and IXFR over TCP, to name servers at these addresses" },
	{ "transfer-key", FLAG_STRING, AT(transfer_key), "", "FILE",
	    .help =
		"only with a TSIG of one of the keys in this file: NAME ALGORITHM SECRET a line",
	    RULES(NEEDS("transfer-to", "nobody gets a zone")) },
	{ "transfer-notify", FLAG_LIST, AT(transfer_notify), NULL, "IP[:PORT],...",
	    .help = "tell these of them at once when a zone has changed, at most 16",
	    RULES(NEEDS("transfer-to", "nobody gets a zone")) },
	{ "transfer-journal", FLAG_SIZE, AT(transfer.journal_bytes), "1M", "SIZE|off",
	    .help = "memory for the last changes, which IXFR sends: 64k to 4M",
	    .min = JOURNAL_LEAST, .max = JOURNAL_MOST },
	{ "Upstream servers", .type = FLAG_GROUP },
	{ "nameservers", FLAG_STRING, AT(nameservers_text), "", "IP[:PORT],...",
	    .help = "upstream servers where the configuration names none; default: resolv.conf's" },
	{ "resolver", FLAG_SERVER, AT(resolver), "", "IP:PORT",
	    .help = "front topology: the dnsmasq that answers all other names" },
	{ "servfail-retry", FLAG_SWITCH, AT(servfail_retry), "on", "on|off",
	    .help = "front topology: ask the upstream servers for names that --resolver fails" },
	{ "fallthrough", FLAG_OPTIONAL, AT(fallthrough_text), "", "ZONE,...",
	    .help = "ask the upstream servers for names that the cluster zone and reverse zones, "
		    "or these, "
		    "lack" },
	{ "answer-cache", FLAG_SIZE, AT(answer_cache_bytes), "off", "SIZE|off",
	    .help = "memory for other servers' answers, kept 5 s at most",
	    .min = FORWARDED_CACHE_LEAST, .max = FLAGS_SIZE_MOST },
	{ "search-completion", FLAG_CHOICE, AT(search), "declared", "declared|inferred",
	    .help =
		"walk a pod's search list for it: below s.ZONE alone, or its first NXDOMAIN too" },
	{ "search-extra", FLAG_LIST, AT(search_extra), NULL, "DOMAIN,...",
	    .help = "search domains that follow the cluster's in such a walk, at most 8" },
	{ "search-resolver", FLAG_SERVER, AT(search_resolver), "", "IP:PORT",
	    .help = "classic topology: the dnsmasq that such a walk asks for outside names",
	    RULES(EXCLUDES("resolver",
		"the first is for the classic topology, the second for front: give one of them")) },
	{ "filter-aaaa", FLAG_CHOICE, AT(filter_aaaa), "off", "auto|on|off",
	    .help =
		"deny AAAA of outside names without asking; auto: while the cluster has no IPv6",
	    .words = "off|on|auto" },
	{ "filter-a", FLAG_CHOICE, AT(filter_a), "off", "auto|on|off",
	    .help = "the same for A, in a cluster without IPv4", .words = "off|on|auto" },
	{ "filter-except", FLAG_LIST, AT(filter_except), NULL, "ZONE,...",
	    .help = "outside zones whose names --filter-aaaa and --filter-a leave alone" },
	{ "Clients and policy", .type = FLAG_GROUP },
	{ "client-pods", FLAG_CHOICE, AT(client_pods), "off", "off|node|all",
	    .help = "watch this node's pods, or all, to show which pod a client is" },
	{ "visibility", FLAG_CHOICE, AT(visibility), "off", "off|labels|visible-to",
	    .help =
		"a pod sees its own namespace and those that annotations or labels of namespaces "
		"name; visible-to: those of the seen namespaces alone",
	    RULES(NEEDS("client-pods",
		      "a client's namespace is known from the pods: add it, as node or all"),
		EXCLUDES("search-resolver",
		    "it is the classic topology, where dnsmasq is the only client, and its cache "
		    "gives all pods what one may see: use the front topology"),
		EXCLUDES("fallthrough", "names that are hidden would be sent to other servers, "
					"which know no namespaces: leave it out"),
		EXCLUDES("external-zones",
		    "it gives everybody names of every namespace: let another kubedns answer them"),
		EXCLUDES("clusterset-domain", "it gives everybody the imports of every namespace: "
					      "let another kubedns answer them"),
		EXCLUDES("transfer-to", "it gives the names of every namespace to each client at "
					"these addresses: let another kubedns do it")) },
	{ "visibility-unknown", FLAG_CHOICE, AT(visibility_unknown), "none", "none|all",
	    .help = "what a client that is no known pod sees" },
	{ "fair-share", FLAG_SWITCH, AT(fair_share), "on", "on|off",
	    .help = "when a worker cannot keep up, hold back the clients that send most" },
	{ "Limits", .type = FLAG_GROUP },
	{ "memory", FLAG_SIZE, AT(memory_bytes), "", "SIZE",
	    .help = "one bound for recorder, TCP clients and queries in flight; see the manual for "
		    "parts",
	    .min = MEMORY_LEAST, .max = FLAGS_SIZE_MOST },
	{ "tcp-connections", FLAG_INT, AT(tcp_connections), "1000", "N",
	    .help = "TCP connections in total", .min = 1, .max = 1000000 },
	{ "Observability", .type = FLAG_GROUP },
	{ "healthz-port", FLAG_PORT, AT(healthz_port), "8081", "PORT",
	    .help = "HTTP: /healthz /readiness /metrics /cache /explain /queries /top /log-queries "
		    "/neighbours" },
	{ "healthz-bind-address", FLAG_STRING, AT(healthz_address), "0.0.0.0", "IP",
	    .help = "listen for HTTP on this address" },
	{ "recorder", FLAG_SIZE, AT(recorder_bytes), "2M", "SIZE|off",
	    .help = "memory for the last answers, which /queries and /top show",
	    .min = RECORDER_LEAST, .max = FLAGS_SIZE_MOST },
	{ "log-queries", FLAG_OPTIONAL, AT(log_queries), "", "FILTER",
	    .help = "write answers to the log: client=,name=,type=,rcode=,rate=1000; all without" },
	{ "dnstap", FLAG_STRING, AT(dnstap_text), "", "unix:PATH|tcp:IP:PORT",
	    .help = "send a copy of every DNS message to the collector that listens there" },
	{ "explain-by-dns", FLAG_SWITCH, AT(explain_by_dns), "on", "on|off",
	    .help = "answer TXT NAME._explain below the zone with why NAME is answered as it is" },
	{ "debug-remote", FLAG_BOOL, AT(debug_remote), NULL, NULL,
	    .help = "show /cache, /explain, /queries, /top and the reasons of /readiness to every "
		    "peer" },
	{ "coredns-metrics", FLAG_BOOL, AT(coredns_metrics), NULL, NULL,
	    .help = "also publish the metrics that CoreDNS dashboards read" },
	{ "Commands", .type = FLAG_GROUP },
	{ "explain", FLAG_STRING, AT(explain), "", "NAME",
	    .help = "ask the running kubedns why NAME is answered as it is, and exit" },
	{ "print-zone", FLAG_OPTIONAL, AT(print_zone), "", "ZONE",
	    .help = "print the zone, or this reverse zone, as a master file, and exit" },
	{ "ready", FLAG_BOOL, AT(ready), NULL, NULL,
	    .help = "ask the kubedns that runs in this pod whether it is ready: exit 0 or 1" },
	{ "Accepted for old command lines", .type = FLAG_GROUP },
	{ "migrate", FLAG_STRING, AT(migrate), "", "FILE",
	    .help = "moved to a program of its own: kubedns-migrate FILE" },
	{ "profiling", FLAG_IGNORED, 0, NULL, NULL, .help = "accepted, without effect" },
	{ .name = NULL },
};

/* --- one value each; -EINVAL after flags_refuse() --- */

static int
read_federations(struct options *o)
{
	char *why = NULL;

	if (*o->federations_text == '\0')
		return 0;
	int rc = conf_federations_parse(
	    o->federations_text, strlen(o->federations_text), &o->federations, &why);
	if (rc < 0)
		flags_refuse("federations", o->federations_text, why);
	free(why);
	return rc;
}

static int
read_listen(struct options *o)
{
	static const struct addr any4 = { .family = AF_INET }, any6 = { .family = AF_INET6 };
	char *copy = xstrdup(o->address), *rest = copy, *text;
	const char *why = NULL;

	while (why == NULL && (text = strsep(&rest, ",")) != NULL) {
		struct addr addr;

		if (addr_parse(text, &addr) < 0)
			why = "not an address";
		else if (o->listen_count == SOCKETS_MAX)
			why = "four addresses at most";
		else if (strchr(o->address, ',') != NULL &&
			 (addr_equal(&addr, &any4) || addr_equal(&addr, &any6)))
			why = "0.0.0.0 and :: are every address: they stand alone";
		else
			o->listen[o->listen_count++] = addr;
	}
	if (why == NULL && o->share_port && o->port == 0)
		why = "--share-port needs a --dns-port";
	if (why != NULL)
		flags_refuse("dns-bind-address", o->address, why);
	free(copy);
	return why == NULL ? 0 : -EINVAL;
}

static int
read_bind_addresses(struct options *o)
{
	struct addr addr;

	if (addr_parse(o->healthz_address, &addr) < 0)
		return flags_refuse("healthz-bind-address", o->healthz_address, "not an address");
	if (read_listen(o) < 0)
		return -EINVAL;
	forwarding_loop_init(
	    &o->forwarding_loop, "kubedns", (uint16_t)o->port, o->listen, o->listen_count);
	/* The Service leads to the program that has the DNS port. */
	if (o->port == DNS_PORT)
		forwarding_loop_set_service(&o->forwarding_loop, getenv("KUBE_DNS_SERVICE_HOST"),
		    getenv("KUBE_DNS_SERVICE_PORT"));
	forwarding_loop_refresh(&o->forwarding_loop);
	return 0;
}

/* --- --ns-addresses --- */

static void
add_ns_addr(struct options *o, const struct addr *addr)
{
	o->ns_addrs = xreallocarray(o->ns_addrs, o->ns_addr_count + 1, sizeof *o->ns_addrs);
	o->ns_addrs[o->ns_addr_count++] = *addr;
}

/* Adds the addresses of the interfaces that are up: loopback ones only if there are no others,
 * link-local ones never. */
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

	for (size_t i = 0; i < o->ns_addresses.count; i++) {
		if (addr_parse(o->ns_addresses.items[i], &addr) < 0)
			return flags_refuse(
			    "ns-addresses", o->ns_addresses.items[i], "not an address");
		add_ns_addr(o, &addr);
	}
	if (o->ns_addr_count == 0)
		add_interfaces(o, false);
	if (o->ns_addr_count == 0)
		add_interfaces(o, true);
	return 0;
}

/* --- the environment, and the rest --- */

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

	o->metrics_path = env_or("PROMETHEUS_PATH", "/metrics");
	o->metrics_namespace = env_or("PROMETHEUS_NAMESPACE", "skydns");
	o->metrics_subsystem = env_or("PROMETHEUS_SUBSYSTEM", "skydns");
	if (port == NULL || *port == '\0')
		return 0;
	unsigned long number = strtoul(port, &end, 10);
	if (*end != '\0' || *port < '0' || *port > '9' || number == 0 || number > UINT16_MAX) {
		log_errorx("PROMETHEUS_PORT: \"%s\": a port from 1 to 65535 is needed", port);
		return -EINVAL;
	}
	if (o->metrics_path[0] != '/') {
		log_errorx("PROMETHEUS_PATH: \"%s\": must begin with /", o->metrics_path);
		return -EINVAL;
	}
	o->metrics_port = (uint16_t)number;
	return 0;
}

/* --- --log-queries and --dnstap --- */

static int
read_query_log(struct options *o)
{
	char *part = NULL;
	const char *why;

	if (query_log_wish_parse(&o->query_log, o->log_queries, &part, &why) < 0) {
		log_errorx("--log-queries: \"%s\": %s is needed", part, why);
		free(part);
		return -EINVAL;
	}
	if (o->recorder_bytes > 0)
		return 0;
	log_errorx("--log-queries writes what the recorder has: leave out --recorder=off");
	return -EINVAL;
}

static int
read_dnstap(struct options *o)
{
	const char *why;

	return dnstap_target_parse(o->dnstap_text, &o->dnstap, &why) == 0
		   ? 0
		   : flags_refuse("dnstap", o->dnstap_text, why);
}

static int
read_log(struct options *o, const struct flags_common *common)
{
	if (flags_given(common, "dnstap") && read_dnstap(o) < 0)
		return -EINVAL;
	o->wants_query_log = flags_given(common, "log-queries");
	return o->wants_query_log ? read_query_log(o) : 0;
}

/* --- --memory --- */

enum {
	/* Parts of --memory; the rest is the cluster's, and the program itself. */
	RECORDER_PART = 16,
	TCP_PART = 8,
	/*
	 * A query has its message, its client, its deadline and its attempts. With dnsmasq behind,
	 * no more than that takes: a fortieth of the same --memory at 1 KB each (nanny.8).
	 */
	IN_FLIGHT_PART = 24,
	IN_FLIGHT_BYTES = 2048,
};

/* The parts of --memory, none more than what it would be without. */
static void
divide_memory(struct options *o, const struct flags_common *common)
{
	size_t memory = o->memory_bytes;

	if (memory == 0)
		return;
	size_t recorder = memory / RECORDER_PART;
	if (!flags_given(common, "recorder") && recorder < o->recorder_bytes)
		o->recorder_bytes = recorder;
	o->tcp_bytes = memory / TCP_PART;
	o->in_flight = (unsigned)(memory / IN_FLIGHT_PART / IN_FLIGHT_BYTES);
	log_info("--memory=%zuk: recorder %zu kB, answer cache %zu kB, TCP %zu kB, %u queries in "
		 "flight; the rest is the cluster's",
	    memory / 1024, o->recorder_bytes / 1024, o->answer_cache_bytes / 1024,
	    o->tcp_bytes / 1024, o->in_flight);
}

static void
fill_answers(struct options *o)
{
	struct answer_config *a = &o->answers;

	a->ignore_empty_service = o->ignore_empty_service;
	a->wildcards = o->wildcards;
	a->udp_subset = o->udp_subset;
	a->ttl_s = (uint32_t)o->ttl_s;
	a->negative_ttl_s = (uint32_t)o->negative_ttl_s;
	a->hold_ms = (uint32_t)o->hold_ms;
	a->pods = o->pods;
	a->search_inferred = o->search == SEARCH_COMPLETION_INFERRED;
	a->ptr_in_cidrs = o->ptr == PTR_CIDRS;
	snprintf(a->version, sizeof a->version, "kubedns-%s", suite_version);
	if (*o->server_id != '\0')
		snprintf(a->hostname, sizeof a->hostname, "%s", o->server_id);
	else if (gethostname(a->hostname, sizeof a->hostname - 1) < 0)
		strcpy(a->hostname, "localhost");
}

int
kubedns_options_read(struct options *o, struct flags_common *common, int argc, char **argv)
{
	const char *keys[CONF_KEY_HELP_MAX];

	conf_key_help(CONF_KUBEDNS, keys);
	common->keys = keys; /* for --help, in flags_parse() */
	int rc = flags_parse(kubedns_flags, o, common, argc, argv);

	common->keys = NULL;
	if (rc < 0)
		return rc;
	if (common->rest < argc) {
		log_errorx("\"%s\": kubedns takes flags only", argv[common->rest]);
		flags_say_usage(common);
		return -EINVAL;
	}
	o->wants_zone = flags_given(common, "print-zone");
	if (flags_given(common, "explain") && *o->explain == '\0')
		rc = flags_refuse("explain", "", "which name? such as web.default");
	/* All of them, so that one run shows all mistakes. */
	const int checked = flags_check(kubedns_flags, o, common);
	if (strlen(o->server_id) >= sizeof o->answers.hostname)
		rc = flags_refuse("server-id", o->server_id, "too long: 63 bytes at most");
	fill_answers(o);
	divide_memory(o, common);
	const int results[] = { checked, read_bind_addresses(o), zone_options_read(o, common),
		server_options_read(o), client_options_read(o), read_federations(o),
		read_ns_addresses(o), read_environment(o), read_log(o, common) };
	for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
		rc = results[i] < 0 ? results[i] : rc;
	stages_build(&o->answers); /* external_names_new() adds the zones beside the cluster's */
	if (rc < 0)
		flags_say_usage(common);
	return rc;
}

void
kubedns_options_free(struct options *o, struct flags_common *common)
{
	free(o->ns_addrs);
	zone_options_free(o);
	client_options_free(o);
	free(o->answers.filter_except);
	free(o->answers.search_extra);
	flags_free(kubedns_flags, o, common);
}
