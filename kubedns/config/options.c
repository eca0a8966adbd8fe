#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kubedns/config/options_internal.h"
#include "lib/version.h"
#include "lib/xalloc.h"

enum { DNS_PORT = 53 };

#define AT(member) offsetof(struct options, member)

const struct flag kubedns_flags[] = {
	{ "Basics", .type = FLAG_GROUP },
	{ "domain", FLAG_STRING, AT(domain), "cluster.local.", "NAME", "the cluster's DNS zone" },
	{ "dns-bind-address", FLAG_STRING, AT(address), "0.0.0.0", "IP,...",
	    "serve DNS on these addresses, at most 4; 0.0.0.0 and :: mean both families" },
	{ "dns-port", FLAG_PORT, AT(port), "53", "PORT", "serve DNS on this port, UDP and TCP" },
	{ "threads", FLAG_INT, AT(threads), "0", "N",
	    "worker threads; 0: by CPUs and quota, at most 4" },
	{ "config-dir", FLAG_STRING, AT(config_dir), "", "DIR",
	    "the ConfigMap as a directory: upstreamNameservers, federations, hosts, records, "
	    "rewrites" },
	{ "config-map", FLAG_STRING, AT(config_map), "", "NAME",
	    "watch this ConfigMap in place of --config-dir" },
	{ "config-map-namespace", FLAG_STRING, AT(config_map_namespace), "kube-system", "NAME",
	    "the namespace of --config-map" },
	{ "config-period", FLAG_DURATION, AT(config_period_ms), "10s", "TIME",
	    "look at --config-dir and --objects-dir at least this often" },
	{ "drain", FLAG_DURATION, AT(drain_ms), "8s", "TIME",
	    "go on answering this long after SIGTERM" },
	{ "drain-quiet", FLAG_DURATION, AT(drain_quiet_ms), "0s", "TIME",
	    "end before --drain is over when no question has come for so long; 0s: do not" },
	{ "Source of objects", .type = FLAG_GROUP },
	{ "kubecfg-file", FLAG_STRING, AT(kubecfg_file), "", "FILE",
	    "find the API server by this kubeconfig" },
	{ "kube-master-url", FLAG_STRING, AT(master_url), "", "URL",
	    "the API server; ${VARIABLES} are expanded" },
	{ "objects-dir", FLAG_STRING, AT(objects_dir), "", "DIR",
	    "read Kubernetes manifests from DIR in place of the API" },
	{ "endpointslice-selector", FLAG_STRING, AT(endpointslice_selector), "", "SELECTOR",
	    "watch only EndpointSlices with these labels" },
	{ "namespaces", FLAG_LIST, AT(namespaces), NULL, "NAME,...",
	    "only these namespaces exist" },
	{ "namespace-labels", FLAG_STRING, AT(namespace_labels), "", "SELECTOR",
	    "only namespaces with these labels exist, such as team=a,env in (prod,test)" },
	{ "node-role", FLAG_BOOL, AT(node_role), NULL, NULL,
	    "one of many, a pod on every node: watch no endpoints of Services with a cluster IP" },
	{ "node-name", FLAG_STRING, AT(node_name), "", "NAME",
	    "the node of --client-pods=node, and of the clients of --node-role" },
	{ "zone", FLAG_STRING, AT(zone), "", "NAME",
	    "that node's zone, its label topology.kubernetes.io/zone" },
	{ "initial-sync-timeout", FLAG_DURATION, AT(initial_sync_timeout_ms), "60s", "TIME",
	    "say so in the log and a metric when the first sync takes longer" },
	{ "until-synced", FLAG_STRING, AT(until_synced_text), "", "IP[:PORT],...",
	    "before the first sync ask these servers over TCP for the cluster's names" },
	{ "share-port", FLAG_BOOL, AT(share_port), NULL, NULL,
	    "listen beside another kubedns, on addresses that may come later: for updates" },
	{ "Zone and answers", .type = FLAG_GROUP },
	{ "ttl", FLAG_INT, AT(ttl_s), "30", "SECONDS", "TTL of records, 0 to 3600" },
	{ "negative-ttl", FLAG_INT, AT(negative_ttl_s), "5", "SECONDS",
	    "TTL and minimum of the SOA in negative answers, 0 to 3600" },
	{ "hold-ms", FLAG_INT, AT(hold_ms), "0", "N",
	    "milliseconds that a query for a name about to exist may wait for it, 0 to 2000" },
	{ "pods", FLAG_STRING, AT(pods), "insecure", "MODE",
	    "pod names 1-2-3-4.NAMESPACE.pod: disabled, insecure or verified" },
	{ "endpoint-pod-names", FLAG_BOOL, AT(endpoint_pod_names), NULL, NULL,
	    "name endpoints without a host name for their pod" },
	{ "ignore-empty-service", FLAG_BOOL, AT(ignore_empty_service), NULL, NULL,
	    "a Service with a cluster IP and no ready endpoint does not exist" },
	{ "wildcards", FLAG_BOOL, AT(wildcards), NULL, NULL,
	    "answer `*` as a label, as kube-dns did: any pod can then list the cluster" },
	{ "udp-subset", FLAG_BOOL, AT(udp_subset), NULL, NULL,
	    "a headless Service that UDP does not hold: a random part of it, without TC" },
	{ "ns-addresses", FLAG_LIST, AT(ns_addresses), NULL, "IP,...",
	    "addresses of ns.dns; default: this host's" },
	{ "reverse-cidrs", FLAG_LIST, AT(reverse_cidrs), NULL, "CIDR,...",
	    "be the authority for these prefixes' reverse zones" },
	{ "ptr", FLAG_STRING, AT(ptr_text), "all", "all|cidrs",
	    "addresses that have PTR records: all that Services and endpoints have, or those in "
	    "--reverse-cidrs" },
	{ "reverse-all-endpoints", FLAG_BOOL, AT(reverse_all_endpoints), NULL, NULL,
	    "PTR records for the endpoints of every Service, not only headless ones" },
	{ "hosts-namespaces", FLAG_LIST, AT(hosts_namespaces), NULL, "NAME[:DOMAIN...],...",
	    "names of ConfigMaps labelled kubedns/hosts=true in these namespaces, key hosts; only "
	    "names in these domains" },
	{ "federations", FLAG_STRING, AT(federations_text), "", "NAME=DOMAIN,...",
	    "federation names" },
	{ "nearest", FLAG_BOOL, AT(nearest), NULL, NULL,
	    "headless Services: endpoints on the client's node first, then those of its zone" },
	{ "nearest-only", FLAG_BOOL, AT(nearest_only), NULL, NULL,
	    "the same, without the others while one of these is ready" },
	{ "zonal", FLAG_BOOL, AT(zonal), NULL, NULL,
	    "names [ZONE.]pin._zone.SERVICE.NAMESPACE.svc, or prefer: endpoints of one zone" },
	{ "Zones beside the cluster, zone transfer", .type = FLAG_GROUP },
	{ "external-zones", FLAG_LIST, AT(external_zones_text), NULL, "ZONE,...",
	    "zones for the world outside: SERVICE.NAMESPACE.ZONE for load balancers' addresses" },
	{ "external-refuse", FLAG_LIST, AT(external_refuse_text), NULL,
	    "wildcards|apex|external-ips,...",
	    "host names with '*', the zones' own names, addresses of spec.externalIPs" },
	{ "external-ns", FLAG_LIST, AT(external_ns_text), NULL, "IP|NAME,...",
	    "their name servers: addresses of ns.dns.ZONE, or names; default: --ns-addresses" },
	{ "external-headless", FLAG_BOOL, AT(external_headless), NULL, NULL,
	    "headless Services have names in these zones too, with their pods' addresses" },
	{ "external-address", FLAG_STRING, AT(external_address_text), "", "IP[:PORT]",
	    "answer these zones here, port 53 by default, and nothing else" },
	{ "clusterset-domain", FLAG_STRING, AT(clusterset_text), "", "ZONE",
	    "names of ServiceImports, by other clusters: such as clusterset.local" },
	{ "transfer-to", FLAG_LIST, AT(transfer_to), NULL, "CIDR,...",
	    "give our zones, by AXFR and IXFR over TCP, to name servers at these addresses" },
	{ "transfer-key", FLAG_STRING, AT(transfer_key), "", "FILE",
	    "only with a TSIG of one of the keys in this file: NAME ALGORITHM SECRET a line" },
	{ "transfer-notify", FLAG_LIST, AT(transfer_notify), NULL, "IP[:PORT],...",
	    "tell these of them at once when a zone has changed, at most 16" },
	{ "transfer-journal", FLAG_STRING, AT(transfer_journal_text), "1M", "SIZE|off",
	    "memory for the last changes, which IXFR sends: 64k to 4M" },
	{ "Upstream servers", .type = FLAG_GROUP },
	{ "nameservers", FLAG_STRING, AT(nameservers_text), "", "IP[:PORT],...",
	    "upstream servers where the configuration names none; default: resolv.conf's" },
	{ "resolver", FLAG_STRING, AT(resolver_text), "", "IP:PORT",
	    "front topology: the dnsmasq that answers all other names" },
	{ "servfail-retry", FLAG_STRING, AT(servfail_retry_text), "on", "on|off",
	    "front topology: ask the upstream servers for names that --resolver fails" },
	{ "fallthrough", FLAG_OPTIONAL, AT(fallthrough_text), "", "ZONE,...",
	    "ask the upstream servers for names that the cluster zone and reverse zones, or these, "
	    "lack" },
	{ "answer-cache", FLAG_STRING, AT(answer_cache_text), "off", "SIZE|off",
	    "memory for other servers' answers, kept 5 s at most" },
	{ "search-completion", FLAG_STRING, AT(search_text), "declared", "declared|inferred",
	    "walk a pod's search list for it: below s.ZONE alone, or its first NXDOMAIN too" },
	{ "search-extra", FLAG_LIST, AT(search_extra), NULL, "DOMAIN,...",
	    "search domains that follow the cluster's in such a walk, at most 8" },
	{ "search-resolver", FLAG_STRING, AT(search_resolver_text), "", "IP:PORT",
	    "classic topology: the dnsmasq that such a walk asks for outside names" },
	{ "filter-aaaa", FLAG_STRING, AT(filter_aaaa_text), "off", "auto|on|off",
	    "deny AAAA of outside names without asking; auto: while the cluster has no IPv6" },
	{ "filter-a", FLAG_STRING, AT(filter_a_text), "off", "auto|on|off",
	    "the same for A, in a cluster without IPv4" },
	{ "filter-except", FLAG_LIST, AT(filter_except), NULL, "ZONE,...",
	    "outside zones whose names --filter-aaaa and --filter-a leave alone" },
	{ "Clients and policy", .type = FLAG_GROUP },
	{ "client-pods", FLAG_STRING, AT(client_pods_text), "off", "off|node|all",
	    "watch this node's pods, or all, to show which pod a client is" },
	{ "visibility", FLAG_STRING, AT(visibility_text), "off", "off|labels|visible-to",
	    "a pod sees its own namespace and those that annotations or labels of namespaces "
	    "name; visible-to: those of the seen namespaces alone" },
	{ "visibility-unknown", FLAG_STRING, AT(visibility_unknown), "none", "none|all",
	    "what a client that is no known pod sees" },
	{ "fair-share", FLAG_STRING, AT(fair_share_text), "on", "on|off",
	    "when a worker cannot keep up, hold back the clients that send most" },
	{ "Limits", .type = FLAG_GROUP },
	{ "memory", FLAG_STRING, AT(memory_text), "", "SIZE",
	    "one bound for recorder, TCP clients and queries in flight; see the manual for parts" },
	{ "tcp-connections", FLAG_INT, AT(tcp_connections), "1000", "N",
	    "TCP connections in total" },
	{ "Observability", .type = FLAG_GROUP },
	{ "healthz-port", FLAG_PORT, AT(healthz_port), "8081", "PORT",
	    "HTTP: /healthz /readiness /metrics /cache /explain /queries /top /log-queries "
	    "/neighbours" },
	{ "healthz-bind-address", FLAG_STRING, AT(healthz_address), "0.0.0.0", "IP",
	    "listen for HTTP on this address" },
	{ "recorder", FLAG_STRING, AT(recorder_text), "2M", "SIZE|off",
	    "memory for the last answers, which /queries and /top show" },
	{ "log-queries", FLAG_OPTIONAL, AT(log_queries), "", "FILTER",
	    "write answers to the log: client=,name=,type=,rcode=,rate=1000; all without" },
	{ "dnstap", FLAG_STRING, AT(dnstap_text), "", "unix:PATH|tcp:IP:PORT",
	    "send a copy of every DNS message to the collector that listens there" },
	{ "explain-by-dns", FLAG_STRING, AT(explain_by_dns_text), "on", "on|off",
	    "answer TXT NAME._explain below the zone with why NAME is answered as it is" },
	{ "debug-remote", FLAG_BOOL, AT(debug_remote), NULL, NULL,
	    "show /cache, /explain, /queries, /top and the reasons of /readiness to every peer" },
	{ "coredns-metrics", FLAG_BOOL, AT(coredns_metrics), NULL, NULL,
	    "also publish the metrics that CoreDNS dashboards read" },
	{ "Commands", .type = FLAG_GROUP },
	{ "explain", FLAG_STRING, AT(explain), "", "NAME",
	    "ask the running kubedns why NAME is answered as it is, and exit" },
	{ "print-zone", FLAG_OPTIONAL, AT(print_zone), "", "ZONE",
	    "print the zone, or this reverse zone, as a master file, and exit" },
	{ "ready", FLAG_BOOL, AT(ready), NULL, NULL,
	    "ask the kubedns that runs in this pod whether it is ready: exit 0 or 1" },
	{ "Accepted for old command lines", .type = FLAG_GROUP },
	{ "migrate", FLAG_STRING, AT(migrate), "", "FILE",
	    "moved to a program of its own: kubedns-migrate FILE" },
	{ "profiling", FLAG_IGNORED, 0, NULL, NULL, "accepted, without effect" },
	{ .name = NULL },
};

/* --- one value each; -EINVAL after options_refuse() --- */

static int
read_ttl(const char *flag, long value, uint32_t *ttl_s)
{
	char text[32];

	*ttl_s = (uint32_t)value;
	if (value >= 0 && value <= 3600)
		return 0;
	snprintf(text, sizeof text, "%ld", value);
	return options_refuse(flag, text, "a number of seconds from 0 to 3600 is needed");
}

static int
read_hold(struct options *o)
{
	char text[32];

	o->answers.hold_ms = (uint32_t)o->hold_ms;
	if (o->hold_ms >= 0 && o->hold_ms <= 2000)
		return 0;
	snprintf(text, sizeof text, "%ld", o->hold_ms);
	return options_refuse("hold-ms", text, "a number of milliseconds from 0 to 2000 is needed");
}

static int
read_pods(struct options *o)
{
	static const char *const modes[] = { [PODS_DISABLED] = "disabled",
		[PODS_INSECURE] = "insecure",
		[PODS_VERIFIED] = "verified" };

	for (unsigned i = 0; i < sizeof modes / sizeof modes[0]; i++)
		if (strcmp(o->pods, modes[i]) == 0) {
			o->answers.pods = (enum pods_mode)i;
			return 0;
		}
	return options_refuse("pods", o->pods, "must be disabled, insecure or verified");
}

static int
read_switch(const char *flag, const char *text, bool *on)
{
	*on = strcmp(text, "on") == 0;
	if (!*on && strcmp(text, "off") != 0)
		return options_refuse(flag, text, "must be on or off");
	return 0;
}

/* Comma-separated servers, as the flag has them; the same rules as the ConfigMap's. */
static int
read_nameservers(struct options *o)
{
	char *text = xstrdup(o->nameservers_text), *rest = text, *item;
	const char *why = "at most 15 servers";
	struct conf_upstreams *to = &o->nameservers;
	int rc = 0;

	while (rc == 0 && (item = strsep(&rest, ",")) != NULL) {
		if (*item == '\0' && rest == NULL)
			break;
		if (to->count == CONF_UPSTREAMS_MAX ||
		    server_parse(item, 53, &to->servers[to->count], &why) < 0 ||
		    conf_addr_useless(&to->servers[to->count].addr, &why))
			rc = options_refuse("nameservers", item, why);
		else
			to->count++;
	}
	free(text);
	return rc;
}

static int
read_federations(struct options *o)
{
	char *why = NULL;

	if (*o->federations_text == '\0')
		return 0;
	int rc = conf_federations_parse(
	    o->federations_text, strlen(o->federations_text), &o->federations, &why);
	if (rc < 0)
		options_refuse("federations", o->federations_text, why);
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
		options_refuse("dns-bind-address", o->address, why);
	free(copy);
	return why == NULL ? 0 : -EINVAL;
}

static int
read_bind_addresses(struct options *o)
{
	struct addr addr;

	if (addr_parse(o->healthz_address, &addr) < 0)
		return options_refuse("healthz-bind-address", o->healthz_address, "not an address");
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
			return options_refuse(
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

static int
check_together(const struct options *o)
{
	if (*o->config_dir != '\0' && *o->config_map != '\0') {
		log_errorx("--config-dir=%s and --config-map=%s: only one of them can be the "
			   "configuration",
		    o->config_dir, o->config_map);
		return -EINVAL;
	}
	if (*o->objects_dir != '\0' && (*o->kubecfg_file != '\0' || *o->master_url != '\0')) {
		log_errorx("--objects-dir=%s takes the place of an API server: leave out %s",
		    o->objects_dir,
		    *o->master_url != '\0' ? "--kube-master-url" : "--kubecfg-file");
		return -EINVAL;
	}
	if (*o->objects_dir != '\0' && *o->config_map != '\0') {
		log_errorx("--config-map=%s needs an API server, --objects-dir=%s has none: use "
			   "--config-dir",
		    o->config_map, o->objects_dir);
		return -EINVAL;
	}
	if (o->threads < 0 || o->threads > 64) {
		log_errorx("--threads: \"%ld\": 0 to 64 are possible", o->threads);
		return -EINVAL;
	}
	if (o->tcp_connections < 1 || o->tcp_connections > 1000000) {
		log_errorx(
		    "--tcp-connections: \"%ld\": 1 to 1000000 are possible", o->tcp_connections);
		return -EINVAL;
	}
	return 0;
}

static void
fill_answers(struct options *o)
{
	struct answer_config *a = &o->answers;

	a->ignore_empty_service = o->ignore_empty_service;
	a->wildcards = o->wildcards;
	a->udp_subset = o->udp_subset;
	snprintf(a->version, sizeof a->version, "kubedns-%s", suite_version);
	if (gethostname(a->hostname, sizeof a->hostname - 1) < 0)
		strcpy(a->hostname, "localhost");
}

int
kubedns_options_read(struct options *o, struct flags_common *common, int argc, char **argv)
{
	int rc = flags_parse(kubedns_flags, o, common, argc, argv);

	if (rc < 0)
		return rc;
	if (common->rest < argc) {
		log_errorx("\"%s\": kubedns takes flags only", argv[common->rest]);
		flags_say_usage(common);
		return -EINVAL;
	}
	fill_answers(o);
	o->wants_zone = flags_given(common, "print-zone");
	if (flags_given(common, "explain") && *o->explain == '\0')
		rc = options_refuse("explain", "", "which name? such as web.default");
	/* All of them, so that one run shows all mistakes. */
	const int results[] = { options_read_zones(o, common),
		read_ttl("ttl", o->ttl_s, &o->answers.ttl_s),
		read_ttl("negative-ttl", o->negative_ttl_s, &o->answers.negative_ttl_s),
		read_hold(o), read_pods(o), read_nameservers(o), read_bind_addresses(o),
		options_read_resolver(o), options_read_search(o), options_read_until_synced(o),
		read_federations(o), read_ns_addresses(o), read_environment(o),
		read_switch("fair-share", o->fair_share_text, &o->fair_share),
		read_switch("servfail-retry", o->servfail_retry_text, &o->servfail_retry),
		read_switch("explain-by-dns", o->explain_by_dns_text, &o->explain_by_dns),
		options_read_filter(o), options_read_transfer(o), options_read_sizes(o, common),
		options_read_log(o, common), options_read_clients(o), options_read_nearest(o),
		options_read_external(o), check_together(o) };
	for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
		rc = results[i] < 0 ? results[i] : rc;
	if (rc < 0)
		flags_say_usage(common);
	return rc;
}

void
kubedns_options_free(struct options *o, struct flags_common *common)
{
	free(o->ns_addrs);
	free(o->wanted_namespaces);
	options_free_hosts(o);
	free(o->external_ns);
	free(o->external_ns_addrs);
	free(o->answers.reverse_zones);
	free(o->answers.fallthrough);
	free(o->answers.filter_except);
	label_selector_free(o->namespace_selector);
	free(o->answers.search_extra);
	flags_free(kubedns_flags, o, common);
}
