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
	{ "Basics", .type = FLAG_GROUP },
	{ "configDir", FLAG_STRING, AT(config_dir), "/etc/k8s/dns/dnsmasq-nanny", "DIR",
	    .help = "the mounted ConfigMap" },
	{ "restartDnsmasq", FLAG_BOOL, AT(restart_dnsmasq), "false", NULL,
	    .help = "apply changes of the ConfigMap made after the start (without a restart, "
		    "whatever the "
		    "name says)" },
	{ "domain", FLAG_STRING, AT(domain_text), "cluster.local.", "NAME",
	    .help = "the cluster domain: never a stub domain" },
	{ "resolvConf", FLAG_STRING, AT(resolv_conf), "/etc/resolv.conf", "FILE",
	    .help = "upstream servers where the ConfigMap names none" },
	{ "kubednsServer", FLAG_SERVER, AT(kubedns), "127.0.0.1:10053", "IP:PORT",
	    .help = "who resolves stub servers whose names are under the cluster domain" },
	{ "syncInterval", FLAG_DURATION, AT(sync_ms), "10s", "TIME",
	    .help = "look at files this often even if inotify says nothing" },
	{ "drain", FLAG_DURATION, AT(drain_ms), "5s", "TIME",
	    .help = "go on answering this long after SIGTERM" },
	{ "dnsmasq", .type = FLAG_GROUP },
	{ "dnsmasqExec", FLAG_STRING, AT(dnsmasq_exec), "/usr/sbin/dnsmasq", "FILE",
	    .help = "the dnsmasq to run" },
	{ "runDir", FLAG_STRING, AT(run_dir), "", "DIR",
	    .help = "where the servers file is written; default /run, else /tmp" },
	{ "memory", FLAG_SIZE, AT(memory), "", "SIZE",
	    .help =
		"as kubedns's: a fourth of it bounds dnsmasq's cache, TCP and queries in flight",
	    .min = MEMORY_LEAST, .max = FLAGS_SIZE_MOST },
	{ "silence", FLAG_DURATION, AT(silence_ms), "30s", "TIME",
	    .help = "kill a dnsmasq that has answered nothing for this long", .min = 1000 },
	{ "The node role", .type = FLAG_GROUP },
	{ "localip", FLAG_LIST, AT(local_ips), NULL, "IP,...",
	    .help = "in the host's network: have these addresses on the node, and lead their port "
		    "53 to "
		    "kubedns while it answers" },
	{ "interfacename", FLAG_STRING, AT(node_interface), "nodelocaldns", "NAME",
	    .help = "the interface that has the addresses of -localip" },
	{ "Observability", .type = FLAG_GROUP },
	{ "metricsAddr", FLAG_STRING, AT(metrics_text), "0.0.0.0:10056", "IP:PORT",
	    .help = "where /metrics, /healthz, /readiness and /config are served; empty: nowhere" },
	{ "logInterval", FLAG_DURATION, AT(log_interval_ms), "0", "TIME",
	    .help = "have dnsmasq log its statistics this often; 0: never" },
	{ "terminationLog", FLAG_STRING, AT(termination_log), "/dev/termination-log", "FILE",
	    .help = "where the last words go if this file exists" },
	{ "debug-remote", FLAG_BOOL, AT(debug_remote), "false", NULL,
	    .help = "serve /config to peers that are not loopback" },
	{ "Commands", .type = FLAG_GROUP },
	{ "ready", FLAG_BOOL, AT(ready), "false", NULL,
	    .help = "ask the nanny that runs in this pod whether it is ready: exit 0 or 1" },
	{ "Accepted for the command lines of node-local-dns", .type = FLAG_GROUP },
	{ "setupinterface", FLAG_IGNORED, 0, NULL, NULL, .help = "accepted, without effect" },
	{ "setupiptables", FLAG_IGNORED, 0, NULL, NULL, .help = "accepted, without effect" },
	{ "setupebtables", FLAG_IGNORED, 0, NULL, NULL, .help = "accepted, without effect" },
	{ "skipteardown", FLAG_IGNORED, 0, NULL, NULL, .help = "accepted, without effect" },
	{ "upstreamsvc", FLAG_IGNORED, 0, NULL, "NAME", .help = "accepted, without effect" },
	{ "conf", FLAG_IGNORED, 0, NULL, "FILE", .help = "accepted, without effect" },
	{ "basecorefile", FLAG_IGNORED, 0, NULL, "FILE", .help = "accepted, without effect" },
	{ "health-port", FLAG_IGNORED, 0, NULL, "PORT", .help = "accepted, without effect" },
	{ "metrics-listen-address", FLAG_IGNORED, 0, NULL, "IP:PORT",
	    .help = "accepted, without effect" },
	{ .name = NULL },
};

/* `IP:PORT`, `:PORT`, `[V6]:PORT`; an empty text is no address. */
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
			return flags_refuse("localip", text, "4 addresses at most");
		if (addr_parse(text, addr) < 0)
			return flags_refuse(
			    "localip", text, "not an address, such as 169.254.20.10");
		for (size_t k = 0; k < i; k++)
			if (addr_equal(addr, &o->node_addresses[k]))
				return flags_refuse("localip", text, "named twice");
		o->node_address_count = i + 1;
	}
	return 0;
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
	common->keys = keys; /* for --help, in flags_parse() */
	int rc = flags_parse(flags, options, common, argc, argv);
	common->keys = NULL;
	if (rc < 0)
		return rc;
	if (common->rest < argc && !common->rest_after_dashes) {
		log_errorx(
		    "\"%s\": unexpected argument; dnsmasq's come after --", argv[common->rest]);
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
