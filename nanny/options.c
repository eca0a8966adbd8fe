#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/log.h"
#include "lib/size.h"
#include "nanny/options.h"

enum { MEMORY_LEAST = 16 * 1024 * 1024 };

#define AT(field) offsetof(struct options, field)

static const struct flag flags[] = {
	{ "dnsmasqExec", FLAG_STRING, AT(dnsmasq_exec), "/usr/sbin/dnsmasq", "FILE",
	    "the dnsmasq to run" },
	{ "memory", FLAG_STRING, AT(memory_text), "", "SIZE",
	    "as kubedns's: a fourth of it bounds dnsmasq's cache, TCP and queries in flight" },
	{ "restartDnsmasq", FLAG_BOOL, AT(restart_dnsmasq), "false", NULL,
	    "apply changes of the ConfigMap made after the start (without a restart, whatever the "
	    "name says)" },
	{ "configDir", FLAG_STRING, AT(config_dir), "/etc/k8s/dns/dnsmasq-nanny", "DIR",
	    "the mounted ConfigMap" },
	{ "syncInterval", FLAG_DURATION, AT(sync_ms), "10s", "TIME",
	    "look at files this often even if inotify says nothing" },
	{ "kubednsServer", FLAG_STRING, AT(kubedns_text), "127.0.0.1:10053", "IP:PORT",
	    "who resolves stub servers whose names are under the cluster domain" },
	{ "logInterval", FLAG_DURATION, AT(log_interval_ms), "0", "TIME",
	    "have dnsmasq log its statistics this often; 0: never" },
	{ "domain", FLAG_STRING, AT(domain_text), "cluster.local.", "NAME",
	    "the cluster domain: never a stub domain" },
	{ "metricsAddr", FLAG_STRING, AT(metrics_text), "0.0.0.0:10056", "IP:PORT",
	    "where /metrics, /healthz, /readiness and /config are served; empty: nowhere" },
	{ "drain", FLAG_DURATION, AT(drain_ms), "5s", "TIME",
	    "go on answering this long after SIGTERM" },
	{ "resolvConf", FLAG_STRING, AT(resolv_conf), "/etc/resolv.conf", "FILE",
	    "upstream servers where the ConfigMap names none" },
	{ "runDir", FLAG_STRING, AT(run_dir), "", "DIR",
	    "where the servers file is written; default /run, else /tmp" },
	{ "silence", FLAG_DURATION, AT(silence_ms), "30s", "TIME",
	    "kill a dnsmasq that has answered nothing for this long" },
	{ "terminationLog", FLAG_STRING, AT(termination_log), "/dev/termination-log", "FILE",
	    "where the last words go if this file exists" },
	{ "debug-remote", FLAG_BOOL, AT(debug_remote), "false", NULL,
	    "serve /config to peers that are not loopback" },
	{ "ready", FLAG_BOOL, AT(ready), "false", NULL,
	    "ask the nanny that runs in this pod whether it is ready: exit 0 or 1" },
	{ "localip", FLAG_LIST, AT(local_ips), NULL, "IP,...",
	    "in the host's network: have these addresses on the node, and lead their port 53 to "
	    "kubedns while it answers" },
	{ "interfacename", FLAG_STRING, AT(node_interface), "nodelocaldns", "NAME",
	    "the interface that has the addresses of -localip" },
	/* node-cache's others. */
	{ "setupinterface", FLAG_IGNORED, 0, NULL, NULL, "accepted, without effect" },
	{ "setupiptables", FLAG_IGNORED, 0, NULL, NULL, "accepted, without effect" },
	{ "setupebtables", FLAG_IGNORED, 0, NULL, NULL, "accepted, without effect" },
	{ "skipteardown", FLAG_IGNORED, 0, NULL, NULL, "accepted, without effect" },
	{ "upstreamsvc", FLAG_IGNORED, 0, NULL, "NAME", "accepted, without effect" },
	{ "conf", FLAG_IGNORED, 0, NULL, "FILE", "accepted, without effect" },
	{ "basecorefile", FLAG_IGNORED, 0, NULL, "FILE", "accepted, without effect" },
	{ "health-port", FLAG_IGNORED, 0, NULL, "PORT", "accepted, without effect" },
	{ "metrics-listen-address", FLAG_IGNORED, 0, NULL, "IP:PORT", "accepted, without effect" },
	{ NULL, 0, 0, NULL, NULL, NULL },
};

static int
mistake(const char *flag, const char *value, const char *why)
{
	log_errorx("-%s=%s: %s", flag, value, why);
	return -EINVAL;
}

/* `IP:PORT`, `:PORT`, `[V6]:PORT`; an empty text is no address. */
static int
parse_listen(struct options *o)
{
	const char *text = o->metrics_text, *colon = strrchr(text, ':');
	if (*text == '\0')
		return 0;
	char *end;
	unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
	size_t len = colon ? (size_t)(colon - text) : 0;
	if (colon == NULL || colon[1] < '0' || colon[1] > '9' || *end || port > 65535 ||
	    len >= sizeof o->metrics_host)
		return mistake("metricsAddr", text, "must be IP:PORT");
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
	    strpbrk(o->node_interface, "/ :\t\n"))
		return mistake("interfacename", o->node_interface, "not the name of an interface");
	for (size_t i = 0; i < o->local_ips.count; i++) {
		const char *text = o->local_ips.items[i];
		struct addr *addr = &o->node_addresses[i];
		if (i == NODE_ADDRESSES_MAX)
			return mistake("localip", text, "4 addresses at most");
		if (addr_parse(text, addr) < 0)
			return mistake("localip", text, "not an address, such as 169.254.20.10");
		for (size_t k = 0; k < i; k++)
			if (addr_equal(addr, &o->node_addresses[k]))
				return mistake("localip", text, "named twice");
		o->node_address_count = i + 1;
	}
	return 0;
}

static int
check(struct options *o)
{
	const char *why;
	char text[32];
	if (server_parse(o->kubedns_text, 53, &o->kubedns, &why) < 0)
		return mistake("kubednsServer", o->kubedns_text, why);
	if (conf_name_parse(o->domain_text, o->domain, &why) < 0)
		return mistake("domain", o->domain_text, why);
	snprintf(text, sizeof text, "%lldms", (long long)o->silence_ms);
	if (o->silence_ms < 1000)
		return mistake("silence", text, "must be at least 1s");
	if (*o->memory_text != '\0' && (size_parse(o->memory_text, &o->memory) < 0 ||
					   o->memory < MEMORY_LEAST || o->memory > SIZE_MOST))
		return mistake(
		    "memory", o->memory_text, "must be a size from 16M to 1G, such as 32Mi");
	int rc = check_node(o);
	return rc < 0 ? rc : parse_listen(o);
}

int
options_parse(struct options *options, struct flags_common *common, int argc, char **argv)
{
	*options = (struct options){ 0 };
	*common = (struct flags_common){ .program = "nanny",
		.unknown_hint =
		    "dnsmasq's own flags stand after \"--\", as in: nanny -domain=cluster.local "
		    "-- --cache-size=1000",
		.summary = "starts dnsmasq and reconfigures it while it answers; arguments after "
			   "-- are dnsmasq's" };
	int rc = flags_parse(flags, options, common, argc, argv);
	if (rc < 0)
		return rc;
	if (common->rest < argc && !common->rest_after_dashes)
		rc = mistake(
		    "-", argv[common->rest], "unexpected argument; dnsmasq's come after --");
	options->dnsmasq_args = argv + common->rest;
	options->dnsmasq_arg_count = (size_t)(argc - common->rest);
	if (rc == 0)
		rc = check(options);
	if (rc < 0)
		flags_say_usage(common);
	return rc;
}

void
options_free(struct options *options, struct flags_common *common)
{
	flags_free(flags, options, common);
}
