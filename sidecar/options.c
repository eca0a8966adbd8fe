#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/log.h"
#include "lib/xalloc.h"
#include "sidecar/options.h"

enum { POLL_MAX_MS = 86400000 };

#define AT(field) offsetof(struct sidecar_options, field)

static const struct flag flags[] = {
	{ "Basics", .type = FLAG_GROUP_FIRST },
	{ "probe", FLAG_REPEAT, AT(probes), NULL, "SPEC",
	    .help = "LABEL,SERVER[:PORT],NAME[,SECONDS[,TYPE]]; may be repeated" },
	{ "outside-name", FLAG_STRING, AT(outside_name), ".", "NAME",
	    .help = "external name to query at dnsmasq and upstreams; empty: none" },
	{ "dnsmasq-addr", FLAG_STRING, AT(dnsmasq_addr), "127.0.0.1", "IP",
	    .help = "address of dnsmasq" },
	{ "dnsmasq-port", FLAG_PORT, AT(dnsmasq_port), "53", "PORT", .help = "port of dnsmasq" },
	{ "kubedns-url", FLAG_STRING, AT(kubedns_url), "http://127.0.0.1:8081", "URL",
	    .help = "health port of kubedns; empty: none" },
	{ "nanny-url", FLAG_STRING, AT(nanny_url), "http://127.0.0.1:10056", "URL",
	    .help = "health port of the nanny; empty: none" },
	{ "prometheus-addr", FLAG_STRING, AT(prometheus_addr), "0.0.0.0", "IP",
	    .help = "address of metrics, health and page; 0.0.0.0: IPv6 too" },
	{ "prometheus-port", FLAG_PORT, AT(prometheus_port), "10054", "PORT",
	    .help = "port of metrics, health and the page" },
	{ "Probes", .type = FLAG_GROUP },
	{ "dnsmasq-poll-interval-ms", FLAG_INT, AT(poll_interval_ms), "5000", "MS",
	    .help = "how often to read dnsmasq's statistics", .min = 1, .max = POLL_MAX_MS },
	{ "upstream-ca", FLAG_STRING, AT(upstream_ca), "/etc/ssl/certs/ca-certificates.crt", "FILE",
	    .help = "CA certificates for tls://" },
	{ "upstream-port", FLAG_REPEAT, AT(upstream_ports_text), NULL, "PORT",
	    .help = "port of tls:// servers, besides 853; may be repeated" },
	{ "Limits", .type = FLAG_GROUP },
	{ "drain", FLAG_DURATION, AT(drain_ms), "9s", "DURATION",
	    .help = "keep running for this long after SIGTERM" },
	{ "Observability", .type = FLAG_GROUP },
	{ "prometheus-path", FLAG_STRING, AT(prometheus_path), "/metrics", "PATH",
	    .help = "path of the metrics" },
	{ "prometheus-namespace", FLAG_STRING, AT(prometheus_namespace), "kubedns", "NAME",
	    .help = "prefix of kube-dns's metric names" },
	{ "coredns-metrics", FLAG_BOOL, AT(coredns_metrics), NULL, NULL,
	    .help = "also publish cache metrics under CoreDNS names" },
	{ "journal", FLAG_STRING, AT(journal), NULL, "FILE",
	    .help = "file for the page's journal; without it, it is in memory only" },
	{ "debug-remote", FLAG_BOOL, AT(debug_remote), NULL, NULL,
	    .help = "let all peers use the question box, not only local ones" },
	{ "Commands", .type = FLAG_GROUP_FIRST },
	{ "once", FLAG_BOOL, AT(dedup), NULL, NULL,
	    .help = "run each probe once, print a table; exit 0 if all were answered" },
	{ .name = NULL },
};

/* Logs one mistake. The value is false, so that the caller can return it. */
#define WRONG(...) (log_errorx(__VA_ARGS__), false)

static bool
read_dnsmasq(struct sidecar_options *options)
{
	if (addr_parse(options->dnsmasq_addr, &options->dnsmasq.addr) < 0)
		return WRONG("--dnsmasq-addr \"%s\": not an address, such as 127.0.0.1",
		    options->dnsmasq_addr);
	if (options->dnsmasq_port == 0)
		return WRONG("--dnsmasq-port 0: a port is 1 to 65535");
	options->dnsmasq.port = (uint16_t)options->dnsmasq_port;
	return true;
}

/* Whether two labels would have the same metric name. Labels that differ only in '-' and '_' have
 * the same metric name. */
static bool
same_label(const char *a, const char *b)
{
	char x[SPEC_LABEL_MAX + 1], y[SPEC_LABEL_MAX + 1];

	return strcmp(spec_metric_name(a, x), spec_metric_name(b, y)) == 0;
}

static bool
read_probes(struct sidecar_options *options)
{
	char why[SPEC_WHY_MAX];
	bool ok = true;

	if (options->probes.count > PROBES_MAX)
		return WRONG("--probe: given %zu times: at most %d are possible",
		    options->probes.count, PROBES_MAX);
	options->specs = xcalloc(options->probes.count, sizeof *options->specs);
	for (size_t i = 0; i < options->probes.count; i++) {
		struct probe_spec *spec = &options->specs[options->spec_count];

		if (spec_parse(spec, options->probes.items[i], why) < 0) {
			ok = WRONG("--probe \"%s\": %s", options->probes.items[i], why);
			continue;
		}
		for (size_t j = 0; j < options->spec_count; j++)
			if (same_label(options->specs[j].label, spec->label))
				ok = WRONG("--probe \"%s\": the label is taken by probe %s",
				    options->probes.items[i], options->specs[j].label);
		options->spec_count++;
	}
	return ok;
}

static bool
read_prometheus(const struct sidecar_options *options)
{
	const char *path = options->prometheus_path, *name = options->prometheus_namespace;

	if (path[0] != '/' || strlen(path) > 128 || strpbrk(path, "?#%") != NULL)
		return WRONG(
		    "--prometheus-path \"%s\": a path begins with '/' and has no '?', '#' or '%%'",
		    path);
	if (name[0] == '\0' || strlen(name) > 64 || isdigit((unsigned char)name[0]))
		return WRONG(
		    "--prometheus-namespace \"%s\": a name of 1 to 64 letters, digits and '_'",
		    name);
	for (; *name != '\0'; name++)
		if (!isalnum((unsigned char)*name) && *name != '_')
			return WRONG("--prometheus-namespace \"%s\": letters, digits and '_' only",
			    options->prometheus_namespace);
	return true;
}

static bool
read_url(const char *flag, const char *text, struct url *url, bool *has)
{
	const char *why;

	*has = text[0] != '\0';
	if (*has && url_parse(url, text, &why) < 0)
		return WRONG("--%s \"%s\": %s", flag, text, why);
	return true;
}

static bool
read_journal(const struct sidecar_options *options)
{
	const char *path = options->journal;

	if (path[0] != '\0' && (path[0] != '/' || path[strlen(path) - 1] == '/'))
		return WRONG("--journal \"%s\": a file's name that begins with '/'", path);
	return true;
}

static bool
read_upstream_ports(struct sidecar_options *options)
{
	const struct flag_list *list = &options->upstream_ports_text;

	if (list->count > UPSTREAM_PORTS_MAX)
		return WRONG("--upstream-port: given %zu times: at most %d are possible",
		    list->count, UPSTREAM_PORTS_MAX);
	for (size_t i = 0; i < list->count; i++) {
		char *end;
		unsigned long port = strtoul(list->items[i], &end, 10);

		if (!isdigit((unsigned char)list->items[i][0]) || *end != '\0' || port == 0 ||
		    port > UINT16_MAX)
			return WRONG(
			    "--upstream-port \"%s\": a port is 1 to 65535", list->items[i]);
		options->upstream_ports[i] = (uint16_t)port;
	}
	return true;
}

static bool
read_outside(struct sidecar_options *options)
{
	options->has_outside = options->outside_name[0] != '\0';
	if (options->has_outside && dname_from_text(&options->outside, options->outside_name) < 0)
		return WRONG("--outside-name \"%s\": not a DNS name", options->outside_name);
	return true;
}

int
sidecar_options_read(struct sidecar_options *options, int argc, char **argv)
{
	*options = (struct sidecar_options){
		.common = { .program = "sidecar",
		    .summary = "probes, health, metrics and the status page of cluster DNS" }
	};
	if (flags_parse(flags, options, &options->common, argc, argv) < 0)
		return -EINVAL;
	bool ok = flags_check(flags, options, &options->common) == 0;
	ok &= read_dnsmasq(options);
	ok &= read_probes(options);
	ok &= read_prometheus(options);
	ok &=
	    read_url("kubedns-url", options->kubedns_url, &options->kubedns, &options->has_kubedns);
	ok &= read_outside(options);
	ok &= read_journal(options);
	ok &= read_upstream_ports(options);
	ok &= read_url("nanny-url", options->nanny_url, &options->nanny, &options->has_nanny);
	if (options->common.rest < argc)
		ok = WRONG("\"%s\": unexpected argument: the sidecar takes flags only",
		    argv[options->common.rest]);
	if (!ok)
		flags_say_usage(&options->common);
	return ok ? 0 : -EINVAL;
}

void
sidecar_options_free(struct sidecar_options *options)
{
	free(options->specs);
	flags_free(flags, options, &options->common);
}
