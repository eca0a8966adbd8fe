/*
 * CoreDNS's `forward`: upstream servers and stub domains, which are keys of the ConfigMap. A table
 * has the verdict on each option; an option that changes how names are resolved is reported even if
 * nothing has to be done about it.
 */
#include <stdlib.h>
#include <string.h>

#include "migrate/plugins.h"

static const struct plugin_option options[] = {
	{ "force_tcp", VERDICT_NONE, "dnsmasq asks by UDP, and by TCP where an answer is cut" },
	{ "prefer_udp", VERDICT_CARRIED, "dnsmasq asks by UDP first" },
	{ "expire", VERDICT_CARRIED, "dnsmasq keeps no connections to upstream servers" },
	{ "max_age", VERDICT_CARRIED, "dnsmasq keeps no connections to upstream servers" },
	{ "max_fails", VERDICT_CHANGES,
	    "dnsmasq prefers the server that answers, and asks all again when one is slow" },
	{ "max_connect_attempts", VERDICT_CHANGES, "--fast-dns-retry, which the nanny sets" },
	{ "health_check", VERDICT_CHANGES,
	    "dnsmasq learns from the answers themselves which server is well; the page shows it" },
	{ "policy", VERDICT_CHANGES,
	    "the server that answers fastest; --all-servers or --strict-order after dnsmasq's -- "
	    "ask all of them, or in order" },
	{ "tls", VERDICT_NONE,
	    "put a forwarder that speaks DNS over TLS on the node or in a pod, and name it here" },
	{ "tls_servername", VERDICT_NONE, "as tls" },
	{ "next", VERDICT_NONE, "an answer is an answer: no second try elsewhere by its rcode" },
	{ "failover", VERDICT_CHANGES,
	    "SERVFAIL and REFUSED make dnsmasq ask the other servers; other rcodes do not" },
	{ "failfast_all_unhealthy_upstreams", VERDICT_CHANGES,
	    "what no server answers is answered after dnsmasq's own time limit" },
};

/* `except NAME...`: those names are looked up nowhere. */
static void
read_except(struct scope *scope, const struct corefile_line *line)
{
	for (size_t i = 1; i < line->count; i++) {
		char *zone = plugins_zone(line->words[i]);
		if (zone != NULL && strcmp(zone, ".") != 0 &&
		    !plugins_in_cluster(scope->report, zone))
			report_flag(scope->report, PROGRAM_DNSMASQ, "--local=/%s/", zone);
		free(zone);
	}
	report_line(scope->report, line, VERDICT_CHANGES,
	    "dnsmasq's --local: such a name does not exist, where CoreDNS went on to the next "
	    "plugin");
}

static void
read_max_concurrent(struct scope *scope, const struct corefile_line *line)
{
	long n = line->count > 1 ? strtol(line->words[1], NULL, 10) : 0;
	if (n > 6000 && n <= 100000)
		report_flag(scope->report, PROGRAM_DNSMASQ, "--dns-forward-max=%ld", n);
	report_line(scope->report, line, VERDICT_CARRIED,
	    "dnsmasq's --dns-forward-max; the manifest has 6000, which stays where less was said");
}

static void
read_option(struct scope *scope, const struct corefile_line *line)
{
	if (strcmp(line->words[0], "except") == 0)
		read_except(scope, line);
	else if (strcmp(line->words[0], "max_concurrent") == 0)
		read_max_concurrent(scope, line);
	else if (!plugins_option(scope->report, line, options, sizeof options / sizeof *options))
		report_line(scope->report, line, VERDICT_NONE, "not known; see forward's manual");
}

enum target { TARGET_SERVER, TARGET_RESOLV_CONF, TARGET_FILE, TARGET_ENCRYPTED, TARGET_WRONG };

/* One of the words after the zone; `text` gets a server as the ConfigMap writes it. */
static enum target
read_target(const char *word, char text[SERVER_TEXT_MAX])
{
	struct server server;
	if (strncmp(word, "dns://", 6) == 0)
		word += 6;
	if (strstr(word, "://") != NULL)
		return TARGET_ENCRYPTED;
	if (*word == '/')
		return strcmp(word, "/etc/resolv.conf") == 0 ? TARGET_RESOLV_CONF : TARGET_FILE;
	if (server_parse(word, 53, &server, NULL) < 0)
		return TARGET_WRONG;
	if (server.port == 53)
		addr_format(&server.addr, text);
	else
		server_format(&server, text);
	return TARGET_SERVER;
}

struct outcome {
	unsigned servers, resolv_conf, file, encrypted, wrong;
};

static void
read_targets(
    struct scope *scope, const struct corefile_line *line, const char *zone, struct outcome *o)
{
	for (size_t i = 2; i < line->count; i++) {
		char text[SERVER_TEXT_MAX];
		switch (read_target(line->words[i], text)) {
		case TARGET_SERVER:
			o->servers++;
			report_server(scope->report, strcmp(zone, ".") == 0 ? NULL : zone, text);
			break;
		case TARGET_RESOLV_CONF:
			o->resolv_conf++;
			break;
		case TARGET_FILE:
			o->file++;
			break;
		case TARGET_ENCRYPTED:
			o->encrypted++;
			break;
		case TARGET_WRONG:
			o->wrong++;
			break;
		}
	}
}

static void
conclude(struct scope *scope, const struct corefile_line *line, bool root, const struct outcome *o)
{
	if (o->encrypted > 0)
		report_line(scope->report, line, VERDICT_NONE,
		    "no DNS over TLS or HTTPS: put a forwarder that speaks it on the node or in a "
		    "pod, and name its address as %s",
		    root ? "upstreamNameservers" : "the stub domain's server");
	else if (o->wrong > 0)
		report_line(scope->report, line, VERDICT_NONE,
		    "a server that is not an address: say its address, or for a stub domain its "
		    "host name");
	else if (o->file > 0)
		report_line(scope->report, line, VERDICT_CHANGES,
		    "mount the file into the container dnsmasq and give the nanny "
		    "-resolvConf=FILE");
	else if (o->resolv_conf > 0 && o->servers > 0)
		report_line(scope->report, line, VERDICT_CHANGES,
		    "upstreamNameservers: its servers only, not resolv.conf's too");
	else if (o->resolv_conf > 0)
		report_line(scope->report, line, VERDICT_CARRIED, "%s",
		    root ? "the default: the node's resolv.conf"
			 : "the default: names of this zone go where all others go");
	else
		report_line(scope->report, line, VERDICT_CARRIED, "the ConfigMap's %s",
		    root ? "upstreamNameservers" : "stubDomains");
}

/* forward FROM TO... { ... } */
void
plugin_forward(struct scope *scope, const struct corefile_directive *d)
{
	const struct corefile_line *line = &d->head;
	if (line->count < 3) {
		report_line(scope->report, line, VERDICT_NONE, "not complete: forward FROM TO...");
		return;
	}
	struct outcome o = { 0 };
	char *from = plugins_zone(line->words[1]);
	bool of_block = from != NULL && strcmp(from, ".") == 0, root = false, cluster = false;
	for (size_t i = 0; i < (of_block ? scope->count : 1); i++) {
		const char *zone = of_block ? scope->zones[i] : from;
		if (zone == NULL || plugins_in_cluster(scope->report, zone)) {
			cluster = true;
			continue;
		}
		root = root || strcmp(zone, ".") == 0;
		read_targets(scope, line, zone, &o);
	}
	if (cluster)
		report_line(scope->report, line, VERDICT_NONE,
		    "the cluster's own domain is never forwarded: kubedns answers for it");
	else
		conclude(scope, line, root, &o);
	free(from);
	for (size_t i = 0; i < d->body_count; i++)
		read_option(scope, &d->body[i]);
}
