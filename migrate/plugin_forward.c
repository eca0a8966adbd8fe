/*
 * CoreDNS's `forward`, and `proxy` before CoreDNS 1.5: upstream servers and stub domains, which are keys of the ConfigMap. A table
 * has the verdict on each option; an option that changes how names are resolved is reported even if
 * nothing has to be done about it.
 */
#include <stdlib.h>
#include <string.h>

#include "migrate/plugins.h"

static const struct report_option options[] = {
	{ "force_tcp", VERDICT_NONE, "dnsmasq asks by UDP, and by TCP where an answer is cut" },
	{ "prefer_udp", VERDICT_CARRIED, "dnsmasq asks by UDP first" },
	{ "expire", VERDICT_CARRIED, "dnsmasq keeps no connections to upstream servers" },
	{ "max_age", VERDICT_CARRIED, "dnsmasq keeps no connections to upstream servers" },
	{ "max_fails", VERDICT_CHANGES,
	    "dnsmasq prefers the server that answers, and asks all again when one is slow" },
	{ "max_connect_attempts", VERDICT_CHANGES, "--fast-dns-retry, which the nanny sets" },
	{ "health_check", VERDICT_CHANGES,
	    "dnsmasq learns from the answers themselves which server is well; the page shows it" },
	{ "fail_timeout", VERDICT_CHANGES, "dnsmasq asks all servers again when one is slow" },
	{ "spray", VERDICT_CHANGES, "dnsmasq asks all servers when none answers" },
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
		char *zone = zone_parse(line->words[i]);

		if (zone != NULL && strcmp(zone, ".") != 0 &&
		    !report_in_cluster(scope->report, zone))
			report_flag(scope->report, PROGRAM_DNSMASQ, "--local=/%s/", zone);
		free(zone);
	}
	report_line(scope->report, line, VERDICT_CHANGES,
	    "dnsmasq's --local: such a name does not exist, where CoreDNS went on to the next "
	    "plugin");
}

/* `policy NAME`: dnsmasq has one for all of its servers. */
static void
read_policy(struct scope *scope, const struct corefile_line *line)
{
	const char *name = line->count > 1 ? line->words[1] : "random";
	bool in_order = strcmp(name, "sequential") == 0 || strcmp(name, "first") == 0;

	if (in_order)
		report_flag(scope->report, PROGRAM_DNSMASQ, "--strict-order");
	bool front = report_topology(scope->report) == TOPOLOGY_FRONT;
	const char *sentence =
	    front ? "dnsmasq asks the server that answers fastest, and after 250 ms all"
		  : "dnsmasq asks all servers at once and takes the first answer (--all-servers, "
		    "which "
		    "the nanny adds)";
	if (in_order)
		sentence = front ? "dnsmasq's --strict-order, for all upstream servers and stub "
				   "domains; while "
				   "the first server is down each answer takes 0.3 s longer"
				 : "dnsmasq's --strict-order, for all upstream servers and stub "
				   "domains; while "
				   "the first server is down a client gets its answer at its own "
				   "retry, after "
				   "5 s as a rule";
	report_line(scope->report, line, VERDICT_CHANGES, "%s", sentence);
}

/* `protocol NAME` of proxy. */
static void
read_protocol(struct scope *scope, const struct corefile_line *line)
{
	const char *name = line->count > 1 ? line->words[1] : "";

	if (strcmp(name, "dns") == 0)
		report_line(scope->report, line, VERDICT_CARRIED, "the default");
	else
		report_line(scope->report, line, VERDICT_NONE,
		    "dnsmasq speaks plain DNS with these servers: put a forwarder that speaks "
		    "%.40s on "
		    "the node or in a pod, and name it as their server",
		    name);
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
	else if (strcmp(line->words[0], "policy") == 0)
		read_policy(scope, line);
	else if (strcmp(line->words[0], "protocol") == 0)
		read_protocol(scope, line);
	else if (!report_option(scope->report, line, options, sizeof options / sizeof *options))
		report_line(scope->report, line, VERDICT_NONE, "not known; see forward's manual");
}

enum target {
	TARGET_SERVER,
	TARGET_RESOLV_CONF,
	TARGET_FILE,
	TARGET_ENCRYPTED,
	TARGET_LOOPBACK, /* the pod itself */
	TARGET_WRONG,
	TARGET_COUNT
};

/* An address of the pod itself, or none that a server could have. */
static bool
is_own(const struct addr *addr)
{
	static const uint8_t six[16] = { [15] = 1 };
	const char *why;

	return conf_addr_useless(addr, &why) ||
	       (addr->family == AF_INET ? addr->bytes[0] == 127
					: memcmp(addr->bytes, six, 16) == 0);
}

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
	if (is_own(&server.addr))
		return TARGET_LOOPBACK;
	if (server.port == 53)
		addr_format(&server.addr, text);
	else
		server_format(&server, text);
	return TARGET_SERVER;
}

/* What a line's targets are. seen[t]: how many of them are of that kind; servers: those of TARGET_SERVER, as
 * the ConfigMap writes them, as many as a key takes. */
struct outcome {
	unsigned seen[TARGET_COUNT];
	char servers[CONF_STUB_SERVERS_MAX][SERVER_TEXT_MAX];
	size_t count;
	bool left_out;
};

static void
read_targets(const struct corefile_line *line, struct outcome *o)
{
	for (size_t i = 2; i < line->count; i++) {
		char text[SERVER_TEXT_MAX];
		enum target target = read_target(line->words[i], text);

		o->seen[target]++;
		if (target != TARGET_SERVER)
			continue;
		if (o->count < CONF_STUB_SERVERS_MAX)
			strcpy(o->servers[o->count++], text);
		else
			o->left_out = true;
	}
}

static void
conclude(struct scope *scope, const struct corefile_line *line, bool root, const struct outcome *o)
{
	struct report *r = scope->report;
	const char *key = root ? "upstreamNameservers" : "stubDomains";

	if (o->seen[TARGET_ENCRYPTED] > 0)
		report_line(r, line, VERDICT_NONE,
		    "no DNS over TLS or HTTPS: put a forwarder that speaks it on the node or in a "
		    "pod, and name its address in %s. Until then these names go, unencrypted, %s",
		    key, root ? "to the servers of the node's resolv.conf" : "where all others go");
	else if (o->seen[TARGET_LOOPBACK] > 0)
		report_line(r, line, VERDICT_NONE,
		    "a loopback or unspecified address is this pod itself: name the server by an "
		    "address that pods reach, in %s",
		    key);
	else if (o->seen[TARGET_WRONG] > 0)
		report_line(r, line, VERDICT_NONE,
		    "a server that is not an address: say its address, or for a stub domain its "
		    "host name, in %s",
		    key);
	else if (o->left_out)
		report_line(r, line, VERDICT_CHANGES,
		    "the ConfigMap's %s, which takes %d servers: those after them are left out",
		    key, root ? CONF_UPSTREAMS_MAX : CONF_STUB_SERVERS_MAX);
	else if (o->seen[TARGET_FILE] > 0)
		report_line(r, line, VERDICT_CHANGES,
		    "mount the file into the container dnsmasq and give the nanny "
		    "-resolvConf=FILE");
	else if (o->seen[TARGET_RESOLV_CONF] > 0 && o->seen[TARGET_SERVER] > 0)
		report_line(r, line, VERDICT_CHANGES,
		    "upstreamNameservers: its servers only, not resolv.conf's too");
	else if (o->seen[TARGET_RESOLV_CONF] > 0)
		report_line(r, line, VERDICT_CARRIED, "%s",
		    root ? "the default: the node's resolv.conf"
			 : "the default: names of this zone go where all others go");
	else
		report_line(r, line, VERDICT_CARRIED, "the ConfigMap's %s", key);
}

/* What a forward's zones are. */
struct zones_seen {
	bool root, cluster, wrong, any;
};

static void
read_zone(struct scope *scope, const char *zone, struct zones_seen *seen, struct outcome *o)
{
	char name[CONF_HOST_MAX];
	const char *why;
	bool root = strcmp(zone, ".") == 0;

	if (!root && report_in_cluster(scope->report, zone)) {
		seen->cluster = true;
		return;
	}
	if (!root && conf_name_parse(zone, name, &why) < 0) {
		seen->wrong = true;
		return;
	}
	seen->any = true;
	seen->root |= root;
	for (size_t i = 0; i < o->count; i++)
		if (!report_server(scope->report, root ? NULL : zone, o->servers[i]))
			o->left_out = true;
}

/* forward FROM TO... { ... }; proxy has the same form. It holds for names below FROM in the zones of its
 * block. */
void
plugin_forward(struct scope *scope, const struct corefile_directive *d)
{
	const struct corefile_line *line = &d->head;

	if (line->count < 3) {
		report_line(scope->report, line, VERDICT_NONE, "not complete: %s FROM TO...",
		    line->words[0]);
		return;
	}
	struct outcome o = { 0 };
	struct zones_seen seen = { 0 };
	char *from = zone_parse(line->words[1]);
	read_targets(line, &o);
	struct zone_set *below = zone_set_new();
	if (from == NULL)
		seen.wrong = true;
	else if (strcmp(from, ".") != 0 && zone_set_covers(scope->set, from))
		read_zone(scope, from, &seen, &o);
	else
		zone_set_add(below, from);
	for (size_t i = 0; i < scope->count; i++)
		if (zone_set_covers(below, scope->zones[i]))
			read_zone(scope, scope->zones[i], &seen, &o);
	zone_set_free(below);
	if (seen.wrong)
		report_line(scope->report, line, VERDICT_NONE,
		    "a zone that is no name of a stub domain: left out");
	else if (seen.cluster)
		report_line(scope->report, line, VERDICT_NONE,
		    "the cluster's own domain is never forwarded: kubedns answers for it");
	else if (!seen.any)
		report_line(scope->report, line, VERDICT_CHANGES,
		    "left out: no name of this server block is below it, so that CoreDNS never "
		    "asks");
	else
		conclude(scope, line, seen.root, &o);
	free(from);
	for (size_t i = 0; i < d->body_count; i++)
		read_option(scope, &d->body[i]);
}
