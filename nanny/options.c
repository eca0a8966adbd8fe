#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/log.h"
#include "lib/conf_keys.h"
#include "nanny/options.h"

enum { MEMORY_LEAST = 16 * 1024 * 1024 };

#define AT(field) offsetof(struct options, field)

static const struct flag flags[] = {
	{ "Basics", .type = FLAG_GROUP_FIRST },
	{ "configDir", FLAG_STRING, AT(config_dir), "/etc/k8s/dns/dnsmasq-nanny", "DIR",
	    .help = "directory of the mounted ConfigMap" },
	{ "restartDnsmasq", FLAG_BOOL, AT(restart_dnsmasq), NULL, NULL,
	    .help = "apply changes of the ConfigMap after startup; restarts nothing" },
	{ "domain", FLAG_STRING, AT(domain_text), "cluster.local.", "NAME",
	    .help = "cluster domain, which cannot be a stub domain" },
	{ "resolvConf", FLAG_STRING, AT(resolv_conf), "/etc/resolv.conf", "FILE",
	    .help = "file with the default upstream servers" },
	{ "engine", FLAG_CHOICE, AT(engine), "dnsmasq", "dnsmasq|unbound",
	    .help = "DNS server that caches and forwards" },
	{ "memory", FLAG_SIZE, AT(memory), "", "SIZE",
	    .help = "memory limit of the pod's DNS; the DNS server gets a quarter",
	    .min = MEMORY_LEAST, .max = FLAGS_SIZE_MOST },
	{ "localip", FLAG_LIST, AT(local_ips), NULL, "IP,...",
	    .help = "per-node DNS: addresses that the nanny adds to the node" },
	{ "metricsAddr", FLAG_STRING, AT(metrics_text), "0.0.0.0:10056", "IP:PORT",
	    .help = "address for metrics and health; empty: none" },
	{ "Source", .type = FLAG_GROUP },
	{ "syncInterval", FLAG_DURATION, AT(sync_ms), "10s", "TIME",
	    .help = "read files at least this often" },
	{ "runDir", FLAG_STRING, AT(run_dir), "", "DIR",
	    .help = "directory of the servers file; default: /run, or else /tmp" },
	{ "Upstreams", .type = FLAG_GROUP },
	{ "kubednsServer", FLAG_SERVER, AT(kubedns), "127.0.0.1:10053", "IP:PORT",
	    .help = "server that resolves the names of stub servers" },
	{ "dnsmasqExec", FLAG_STRING, AT(dnsmasq_exec), "/usr/sbin/dnsmasq", "FILE",
	    .help = "dnsmasq program" },
	{ "unboundExec", FLAG_STRING, AT(unbound_exec), "/usr/sbin/unbound", "FILE",
	    .help = "unbound program, for --engine=unbound" },
	{ "upstream-ca", FLAG_STRING, AT(upstream_ca), "", "FILE",
	    .help = "CA certificates for tls:// servers; default: the system's",
	    RULES(NEEDS("engine", "only --engine=unbound encrypts queries")) },
	{ "dnssec", FLAG_CHOICE, AT(dnssec), "off", "off|validate",
	    .help = "check the signatures of external names",
	    RULES(NEEDS("engine", "only --engine=unbound checks signatures")) },
	{ "dns64", FLAG_STRING, AT(dns64_text), "off", "off|on|PREFIX",
	    .help = "give external names without IPv6 addresses AAAA records for a NAT64 gateway",
	    RULES(NEEDS("engine", "only --engine=unbound makes AAAA records")) },
	{ "silence", FLAG_DURATION, AT(silence_ms), "30s", "TIME",
	    .help = "kill dnsmasq after this long without an answer", .min = 1000 },
	{ "Limits", .type = FLAG_GROUP },
	{ "drain", FLAG_DURATION, AT(drain_ms), "5s", "TIME",
	    .help = "keep answering for this long after SIGTERM" },
	{ "Per-node DNS", .type = FLAG_GROUP },
	{ "interfacename", FLAG_STRING, AT(node_interface), "nodelocaldns", "NAME",
	    .help = "interface for the addresses of --localip" },
	{ "Observability", .type = FLAG_GROUP },
	{ "logInterval", FLAG_DURATION, AT(log_interval_ms), "0", "TIME",
	    .help = "how often dnsmasq logs its statistics; 0: never" },
	{ "terminationLog", FLAG_STRING, AT(termination_log), "/dev/termination-log", "FILE",
	    .help = "file that gets the last error, if it exists" },
	{ "debug-remote", FLAG_BOOL, AT(debug_remote), NULL, NULL,
	    .help = "serve /config to all peers, not only to local ones" },
	{ "Commands", .type = FLAG_GROUP_FIRST },
	{ "ready", FLAG_BOOL, AT(ready), NULL, NULL,
	    .help = "check whether the running nanny is ready; exit 0 or 1" },
	{ "Accepted for old command lines (node-local-dns)", .type = FLAG_GROUP },
	{ "setupinterface", FLAG_IGNORED, 0, NULL, NULL, .help = "accepted without effect" },
	{ "setupiptables", FLAG_IGNORED, 0, NULL, NULL, .help = "accepted without effect" },
	{ "setupebtables", FLAG_IGNORED, 0, NULL, NULL, .help = "accepted without effect" },
	{ "skipteardown", FLAG_IGNORED, 0, NULL, NULL, .help = "accepted without effect" },
	{ "upstreamsvc", FLAG_IGNORED, 0, NULL, "NAME", .help = "accepted without effect" },
	{ "conf", FLAG_IGNORED, 0, NULL, "FILE", .help = "accepted without effect" },
	{ "basecorefile", FLAG_IGNORED, 0, NULL, "FILE", .help = "accepted without effect" },
	{ "health-port", FLAG_IGNORED, 0, NULL, "PORT", .help = "accepted without effect" },
	{ "metrics-listen-address", FLAG_IGNORED, 0, NULL, "IP:PORT",
	    .help = "accepted without effect" },
	{ .name = NULL },
};

/* Parses the listening address: `IP:PORT`, `:PORT` or `[V6]:PORT`. An empty text means no address. */
static int
parse_listen(struct options *o)
{
	const char *text = o->metrics_text, *colon = strrchr(text, ':');

	if (*text == '\0')
		return 0;
	char *end;
	unsigned long port = colon != NULL ? strtoul(colon + 1, &end, 10) : 0;
	size_t len = colon != NULL ? (size_t)(colon - text) : 0;
	if (colon == NULL || colon[1] < '0' || colon[1] > '9' || *end || port > 65535 ||
	    len >= sizeof o->metrics_host)
		return flags_refuse("metricsAddr", text, "must be IP:PORT");
	o->metrics_port = (uint16_t)port;
	memcpy(o->metrics_host, text, len);
	if (len == 0)
		strcpy(o->metrics_host, "0.0.0.0");
	return 0;
}

static int
check_node(struct options *o)
{
	if (strlen(o->node_interface) == 0 || strlen(o->node_interface) >= IFNAMSIZ ||
	    strpbrk(o->node_interface, "/ :\t\n") != NULL)
		return flags_refuse(
		    "interfacename", o->node_interface, "not the name of an interface");
	for (size_t i = 0; i < o->local_ips.count; i++) {
		const char *text = o->local_ips.items[i];
		struct addr *addr = &o->node_addresses[i];

		if (i == NODE_ADDRESSES_MAX)
			return flags_refuse("localip", text, "at most 4 addresses");
		if (addr_parse(text, addr) < 0)
			return flags_refuse(
			    "localip", text, "not an address, such as 169.254.20.10");
		for (size_t k = 0; k < i; k++)
			if (addr_equal(addr, &o->node_addresses[k]))
				return flags_refuse("localip", text, "given twice");
		o->node_address_count = i + 1;
	}
	return 0;
}

static int
parse_dns64(struct options *o)
{
	const char *text = o->dns64_text, *why;

	if (strcmp(text, "off") == 0)
		return 0;
	if (strcmp(text, "on") == 0)
		text = DNS64_WELL_KNOWN;
	return dns64_parse(text, o->dns64, &why) < 0 ? flags_refuse("dns64", text, why) : 0;
}

static int
check(struct options *o)
{
	const char *why;

	if (o->kubedns.addr.family == 0)
		return flags_refuse(
		    "kubednsServer", "", "an address is missing, such as 127.0.0.1:10053");
	if (conf_name_parse(o->domain_text, o->domain, &why) < 0)
		return flags_refuse("domain", o->domain_text, why);
	int rc = check_node(o);
	if (rc == 0)
		rc = parse_dns64(o);
	return rc < 0 ? rc : parse_listen(o);
}

int
options_parse(struct options *options, struct flags_common *common, int argc, char **argv)
{
	const char *keys[CONF_KEY_HELP_MAX];

	*options = (struct options){ 0 };
	*common = (struct flags_common){ .program = "nanny",
		.unknown_hint =
		    "dnsmasq's own flags stand after \"--\", as in: nanny -domain=cluster.local "
		    "-- --cache-size=1000",
		.summary = "starts dnsmasq and reconfigures it while it answers; arguments after "
			   "-- are dnsmasq's" };
	conf_key_help(CONF_NANNY, keys);
	common->keys = keys; /* --help prints them, from flags_parse() */
	int rc = flags_parse(flags, options, common, argc, argv);
	common->keys = NULL;
	if (rc < 0)
		return rc;
	if (common->rest < argc && !common->rest_after_dashes) {
		log_errorx("\"%s\": unexpected argument: dnsmasq's arguments come after --",
		    argv[common->rest]);
		rc = -EINVAL;
	}
	options->dnsmasq_args = argv + common->rest;
	options->dnsmasq_arg_count = (size_t)(argc - common->rest);
	int checked = flags_check(flags, options, common);
	if (rc == 0)
		rc = checked < 0 ? checked : check(options);
	if (rc < 0)
		flags_say_usage(common);
	return rc;
}

void
options_free(struct options *options, struct flags_common *common)
{
	flags_free(flags, options, common);
}
