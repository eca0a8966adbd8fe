/*
 * CoreDNS's `forward`, and `proxy` before CoreDNS 1.5. The directive becomes upstream servers and
 * stub domains, which are keys of the ConfigMap. A table contains the verdict on each option. An
 * option that changes how names are resolved is reported even if it needs no action.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "migrate/plugins.h"

static const struct report_option options[] = {
	{ "force_tcp", VERDICT_NONE, "dnsmasq uses UDP, and TCP if an answer is truncated" },
	{ "prefer_udp", VERDICT_CARRIED, "dnsmasq tries UDP first" },
	{ "expire", VERDICT_CARRIED, "dnsmasq keeps no connections to upstream servers" },
	{ "max_age", VERDICT_CARRIED, "dnsmasq keeps no connections to upstream servers" },
	{ "max_fails", VERDICT_CHANGES,
	    "dnsmasq prefers the server that answers, and tries all again when it is slow" },
	{ "max_connect_attempts", VERDICT_CHANGES, "--fast-dns-retry, which the nanny sets" },
	{ "health_check", VERDICT_CHANGES,
	    "dnsmasq learns from the answers which server is healthy; the status page shows it" },
	{ "fail_timeout", VERDICT_CHANGES, "dnsmasq tries all servers again when one is slow" },
	{ "spray", VERDICT_CHANGES, "dnsmasq tries all servers when none answers" },
	{ "tls_servername", VERDICT_CHANGES, "of no use, because no server above has tls://" },
	{ "next", VERDICT_NONE,
	    "any answer is final: no retry on another server because of its rcode" },
	{ "failover", VERDICT_CHANGES,
	    "after SERVFAIL and REFUSED dnsmasq tries the other servers; not after other rcodes" },
	{ "failfast_all_unhealthy_upstreams", VERDICT_CHANGES,
	    "if no server answers, the client gets an answer after dnsmasq's own timeout" },
};

static const struct report_option unbound_options[] = {
	{ "force_tcp", VERDICT_NONE,
	    "unbound uses TLS for tls:// servers, else UDP, and TCP if an answer is truncated" },
	{ "prefer_udp", VERDICT_CARRIED, "unbound tries UDP first, except for tls:// servers" },
	{ "expire", VERDICT_CHANGES, "unbound keeps a TLS connection for 60 s without a query" },
	{ "max_age", VERDICT_CHANGES, "unbound keeps a TLS connection while it is used" },
	{ "max_fails", VERDICT_CHANGES,
	    "unbound learns from the answers which server is healthy, and prefers it" },
	{ "max_connect_attempts", VERDICT_CHANGES, "unbound tries each server several times" },
	{ "health_check", VERDICT_CHANGES,
	    "the sidecar queries each server every 5 s, and a failing server every second; the "
	    "status page and an alert say why it fails" },
	{ "fail_timeout", VERDICT_CHANGES,
	    "unbound waits longer for a server after each failure, and tries the others first" },
	{ "spray", VERDICT_CHANGES,
	    "if no server answers within 1.8 s, unbound sends an expired answer, if it has one" },
	{ "tls_servername", VERDICT_CARRIED,
	    "the name after '#' of each tls:// server; the certificate must have this name" },
	{ "next", VERDICT_NONE,
	    "any answer is final except SERVFAIL, after which unbound tries the other servers" },
	{ "failover", VERDICT_CHANGES,
	    "after SERVFAIL unbound tries the other servers; not after other rcodes" },
	{ "failfast_all_unhealthy_upstreams", VERDICT_CHANGES,
	    "if no server answers within 1.8 s, unbound sends an expired answer, if it has one" },
};

/* Reads `except NAME...`. CoreDNS does not forward these names. */
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
	    "%s's --local: these names get NXDOMAIN; CoreDNS used the next plugin",
	    flags_owner(scope->report));
}

/* unbound chooses at random among the servers that answer within 400 ms of the fastest. */
static void
read_unbound_policy(struct scope *scope, const struct corefile_line *line, const char *name)
{
	if (strcmp(name, "random") == 0)
		report_line(scope->report, line, VERDICT_CARRIED,
		    "unbound chooses at random among the servers that are not slow");
	else
		report_line(scope->report, line, VERDICT_CHANGES,
		    "unbound has no order: it chooses at random among the servers that are not "
		    "slow%s",
		    strcmp(name, "sequential") == 0
			? ". If one server must get all queries, name only that server"
			: "");
}

/* Reads `policy NAME`. dnsmasq has one policy for all its servers. */
static void
read_policy(struct scope *scope, const struct corefile_line *line)
{
	const char *name = line->count > 1 ? line->words[1] : "random";

	if (report_is_unbound(scope->report)) {
		read_unbound_policy(scope, line, name);
		return;
	}
	bool in_order = strcmp(name, "sequential") == 0 || strcmp(name, "first") == 0;

	if (in_order)
		report_flag(scope->report, PROGRAM_DNSMASQ, "--strict-order");
	bool front = report_topology(scope->report) == TOPOLOGY_FRONT;
	const char *sentence =
	    front ? "dnsmasq queries the fastest server, and after 250 ms all of them"
		  : "dnsmasq queries all servers at once and uses the first answer (--all-servers, "
		    "which the nanny adds)";
	if (in_order)
		sentence =
		    front ? "dnsmasq's --strict-order, for all upstream servers and stub domains; "
			    "while the first server is down, each answer takes 0.3 s longer"
			  : "dnsmasq's --strict-order, for all upstream servers and stub domains; "
			    "while the first server is down, clients get answers only when they "
			    "retry, usually after 5 s";
	report_line(scope->report, line, VERDICT_CHANGES, "%s", sentence);
}

/* Reads the option `protocol NAME` of the plugin proxy. */
static void
read_protocol(struct scope *scope, const struct corefile_line *line)
{
	const char *name = line->count > 1 ? line->words[1] : "";

	if (strcmp(name, "dns") == 0)
		report_line(scope->report, line, VERDICT_CARRIED, "the default");
	else
		report_line(scope->report, line, VERDICT_NONE,
		    "neither dnsmasq nor unbound uses %.40s: run a forwarder for it on the node or "
		    "in "
		    "a pod, and use its address instead",
		    name);
}

static void
read_max_concurrent(struct scope *scope, const struct corefile_line *line)
{
	long n = line->count > 1 ? strtol(line->words[1], NULL, 10) : 0;

	if (n > 6000 && n <= 100000)
		report_flag(scope->report, PROGRAM_DNSMASQ, "--dns-forward-max=%ld", n);
	report_line(scope->report, line, VERDICT_CARRIED,
	    "%s's --dns-forward-max; the manifest's 6000 stays unless this is more",
	    flags_owner(scope->report));
}

/* Reads `tls`, `tls CA`, `tls CERT KEY` or `tls CERT KEY CA`. */
static void
read_tls(struct scope *scope, const struct corefile_line *line)
{
	struct report *r = scope->report;

	if (line->count > 2)
		report_line(r, line, VERDICT_NONE,
		    "no client certificates: the server must accept clients without one. For a "
		    "private CA, see docs/upstreams.md#a-private-ca");
	else if (line->count == 2)
		report_line(r, line, VERDICT_CHANGES,
		    "mount this CA file and name it: docs/upstreams.md#a-private-ca");
	else
		report_line(r, line, VERDICT_CARRIED, "certificates are verified with public CAs");
}

static void
read_option(struct scope *scope, const struct corefile_line *line)
{
	bool unbound = report_is_unbound(scope->report);

	if (strcmp(line->words[0], "tls") == 0)
		read_tls(scope, line);
	else if (strcmp(line->words[0], "except") == 0)
		read_except(scope, line);
	else if (strcmp(line->words[0], "max_concurrent") == 0)
		read_max_concurrent(scope, line);
	else if (strcmp(line->words[0], "policy") == 0)
		read_policy(scope, line);
	else if (strcmp(line->words[0], "protocol") == 0)
		read_protocol(scope, line);
	else if (!report_option(scope->report, line, unbound ? unbound_options : options,
		     unbound ? sizeof unbound_options / sizeof *unbound_options
			     : sizeof options / sizeof *options))
		report_line(
		    scope->report, line, VERDICT_NONE, "unknown option; see forward's manual");
}

enum target {
	TARGET_SERVER,
	TARGET_RESOLV_CONF,
	TARGET_FILE,
	TARGET_TLS,
	TARGET_UNNAMED, /* TLS without a server name */
	TARGET_ENCRYPTED,
	TARGET_LOOPBACK, /* the pod itself */
	TARGET_WRONG,
	TARGET_COUNT
};

/* Whether `addr` is an address of the pod itself, or an address that no server can have. */
static bool
is_own(const struct addr *addr)
{
	static const uint8_t six[16] = { [15] = 1 };
	const char *why;

	return conf_addr_useless(addr, &why) ||
	       (addr->family == AF_INET ? addr->bytes[0] == 127
					: memcmp(addr->bytes, six, 16) == 0);
}

/*
 * Splits ADDRESS[%NAME][:PORT] or [ADDRESS[%NAME]][:PORT]: writes the address and the port to `plain`.
 * Returns the name (caller frees), or NULL if there is none.
 */
static char *
split_name(const char *word, char plain[SERVER_TEXT_MAX])
{
	const char *percent = strrchr(word, '%');
	size_t len = percent != NULL ? strcspn(percent + 1, "]:") : 0;

	snprintf(plain, SERVER_TEXT_MAX, "%.*s%s",
	    percent != NULL ? (int)(percent - word) : (int)strlen(word), word,
	    percent != NULL ? percent + 1 + len : "");
	return percent != NULL ? xstrndup(percent + 1, len) : NULL;
}

/* Reads the part after tls://. `name` is the name of the servers that have none themselves, or NULL. */
static enum target
read_tls_target(const char *word, const char *name, char text[CONF_SERVER_TEXT_MAX])
{
	struct server address;
	struct conf_server server;
	char plain[SERVER_TEXT_MAX];
	const char *why;
	enum target target = TARGET_TLS;

	if (strlen(word) >= CONF_SERVER_TEXT_MAX)
		return TARGET_WRONG;
	char *own = split_name(word, plain);
	if (server_parse(plain, 853, &address, NULL) < 0) {
		target = TARGET_WRONG;
	} else if (is_own(&address.addr)) {
		target = TARGET_LOOPBACK;
	} else {
		char *whole = xasprintf("tls://%s#%s", server_format(&address, plain),
		    own != NULL    ? own
		    : name != NULL ? name
				   : "");

		if (conf_server_parse(whole, &server, &why) < 0)
			target = TARGET_UNNAMED;
		else
			conf_server_format(&server, text);
		free(whole);
	}
	free(own);
	return target;
}

/* Reads one of the words after the zone. If the word is a server, writes it to `text` in the
 * ConfigMap's syntax. */
static enum target
read_target(const char *word, const char *name, char text[CONF_SERVER_TEXT_MAX])
{
	struct server server;

	if (strncmp(word, "tls://", 6) == 0)
		return read_tls_target(word + 6, name, text);

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

/* The targets of a line. seen[t] counts the targets of each kind. `servers` contains the targets of
 * the kinds TARGET_SERVER and TARGET_TLS in the ConfigMap's syntax, up to the maximum of a key. If
 * there are both kinds, it contains only those of TARGET_TLS. */
struct outcome {
	unsigned seen[TARGET_COUNT];
	char servers[CONF_STUB_SERVERS_MAX][CONF_SERVER_TEXT_MAX];
	size_t count;
	bool left_out;
};

static const char *
server_name(const struct corefile_directive *d)
{
	for (size_t i = 0; i < d->body_count; i++)
		if (strcmp(d->body[i].words[0], "tls_servername") == 0 && d->body[i].count > 1)
			return d->body[i].words[1];
	return NULL;
}

bool
plugin_forward_uses_tls(const struct corefile_directive *d)
{
	char text[CONF_SERVER_TEXT_MAX];

	for (size_t i = 2; i < d->head.count; i++)
		if (read_target(d->head.words[i], server_name(d), text) == TARGET_TLS)
			return true;
	return false;
}

static void
read_targets(const struct corefile_directive *d, struct outcome *o)
{
	const struct corefile_line *line = &d->head;
	enum target wanted = plugin_forward_uses_tls(d) ? TARGET_TLS : TARGET_SERVER;

	for (size_t i = 2; i < line->count; i++) {
		char text[CONF_SERVER_TEXT_MAX];
		enum target target = read_target(line->words[i], server_name(d), text);

		o->seen[target]++;
		if (target != wanted)
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

	if (o->seen[TARGET_UNNAMED] > 0)
		report_line(r, line, VERDICT_NONE,
		    "DNS over TLS needs the name in the server's certificate: add tls_servername "
		    "here, or write tls://ADDRESS#SERVER-NAME into %s%s",
		    key,
		    o->seen[TARGET_TLS] > 0 ? ""
		    : root ? ". Until then these queries go, unencrypted, to the servers of the "
			     "node's resolv.conf"
			   : ". Until then these queries go to the servers of all other names");
	else if (o->seen[TARGET_ENCRYPTED] > 0)
		report_line(r, line, VERDICT_NONE,
		    "no DNS over HTTPS, QUIC or gRPC: run a forwarder for it on the node or in a "
		    "pod, and "
		    "put its address into %s. Until then these queries go, unencrypted, %s",
		    key,
		    root ? "to the servers of the node's resolv.conf"
			 : "to the servers of all other names");
	else if (o->seen[TARGET_LOOPBACK] > 0)
		report_line(r, line, VERDICT_NONE,
		    "a loopback or unspecified address is this pod itself: put an address that "
		    "pods can reach into %s",
		    key);
	else if (o->seen[TARGET_WRONG] > 0)
		report_line(r, line, VERDICT_NONE,
		    "not an address: put the server's address, or for a stub domain its host name, "
		    "into %s",
		    key);
	else if (o->seen[TARGET_TLS] > 0 &&
		 o->seen[TARGET_SERVER] + o->seen[TARGET_RESOLV_CONF] + o->seen[TARGET_FILE] > 0)
		report_line(r, line, VERDICT_CHANGES,
		    "the ConfigMap's %s, only with the tls:// servers: a list that also has plain "
		    "servers would send queries unencrypted when a server fails",
		    key);
	else if (o->left_out)
		report_line(r, line, VERDICT_CHANGES,
		    "the ConfigMap's %s, which accepts %d servers of one kind (tls:// or plain): "
		    "further ones are left out",
		    key, root ? CONF_UPSTREAMS_MAX : CONF_STUB_SERVERS_MAX);
	else if (o->seen[TARGET_FILE] > 0)
		report_line(r, line, VERDICT_CHANGES,
		    "mount the file into the container dnsmasq and set the nanny's "
		    "-resolvConf=FILE");
	else if (o->seen[TARGET_RESOLV_CONF] > 0 && o->seen[TARGET_SERVER] > 0)
		report_line(r, line, VERDICT_CHANGES,
		    "upstreamNameservers: only these servers, not resolv.conf's as well");
	else if (o->seen[TARGET_RESOLV_CONF] > 0)
		report_line(r, line, VERDICT_CARRIED, "%s",
		    root ? "the default: the node's resolv.conf"
			 : "the default: names of this zone go to the servers of all other names");
	else if (o->seen[TARGET_TLS] > 0)
		report_line(r, line, VERDICT_CHANGES,
		    "the ConfigMap's %s with tls://; the engine unbound, because dnsmasq cannot "
		    "encrypt queries: docs/upstreams.md",
		    key);
	else
		report_line(r, line, VERDICT_CARRIED, "the ConfigMap's %s", key);
}

/* The kinds of zones that a forward has. */
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

/* forward FROM TO... { ... }. proxy has the same form. The directive applies to names below FROM in
 * the block's zones. */
void
plugin_forward(struct scope *scope, const struct corefile_directive *d)
{
	const struct corefile_line *line = &d->head;

	if (line->count < 3) {
		report_line(
		    scope->report, line, VERDICT_NONE, "incomplete: %s FROM TO...", line->words[0]);
		return;
	}
	struct outcome o = { 0 };
	struct zones_seen seen = { 0 };
	char *from = zone_parse(line->words[1]);
	read_targets(d, &o);
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
		    "left out: the zone cannot be a stub domain's name");
	else if (seen.cluster)
		report_line(scope->report, line, VERDICT_NONE,
		    "the cluster's own domain is never forwarded: kubedns answers for it");
	else if (!seen.any)
		report_line(scope->report, line, VERDICT_CHANGES,
		    "left out: this server block has no names below it, so CoreDNS never uses it");
	else
		conclude(scope, line, seen.root, &o);
	free(from);
	for (size_t i = 0; i < d->body_count; i++)
		read_option(scope, &d->body[i]);
}
