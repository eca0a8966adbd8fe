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
	{ "max_idle_conns", VERDICT_CARRIED, "dnsmasq keeps no connections to upstream servers" },
	{ "max_fails", VERDICT_CARRIED,
	    "dnsmasq prefers the server that answers, and tries all again when it is slow" },
	{ "max_connect_attempts", VERDICT_CARRIED, "--fast-dns-retry, which the nanny sets" },
	{ "health_check", VERDICT_CARRIED,
	    "dnsmasq learns from the answers which server is healthy; the status page shows it" },
	{ "fail_timeout", VERDICT_CARRIED, "dnsmasq tries all servers again when one is slow" },
	{ "spray", VERDICT_CHANGES, "dnsmasq tries all servers when none answers" },
	{ "tls_servername", VERDICT_CHANGES, "of no use, because no server above has tls://" },
	{ "next", VERDICT_NONE,
	    "any answer is final: no retry on another server because of its rcode" },
	{ "next_on_nodata", VERDICT_NONE,
	    "any answer is final: no retry on another server if it has no record" },
	{ "source_address", VERDICT_NONE, "queries always have the pod's own address" },
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
	{ "max_idle_conns", VERDICT_CARRIED, "unbound has a limit of its own" },
	{ "max_fails", VERDICT_CARRIED,
	    "unbound learns from the answers which server is healthy, and prefers it" },
	{ "max_connect_attempts", VERDICT_CARRIED, "unbound tries each server several times" },
	{ "health_check", VERDICT_CARRIED,
	    "the sidecar queries each server every 5 s, and a failing server every second; the "
	    "status page and an alert say why it fails" },
	{ "fail_timeout", VERDICT_CARRIED,
	    "unbound waits longer for a server after each failure, and tries the others first" },
	{ "spray", VERDICT_CHANGES,
	    "if no server answers within 1.8 s, unbound sends an expired answer, if it has one" },
	{ "tls_servername", VERDICT_CARRIED,
	    "the name after '#' of each tls:// server; the certificate must have this name" },
	{ "next", VERDICT_NONE,
	    "any answer is final except SERVFAIL, after which unbound tries the other servers" },
	{ "next_on_nodata", VERDICT_NONE,
	    "any answer is final: no retry on another server if it has no record" },
	{ "source_address", VERDICT_NONE, "queries always have the pod's own address" },
	{ "failover", VERDICT_CHANGES,
	    "after SERVFAIL unbound tries the other servers; not after other rcodes" },
	{ "failfast_all_unhealthy_upstreams", VERDICT_CHANGES,
	    "if no server answers within 1.8 s, unbound sends an expired answer, if it has one" },
};

/* --- which names a line gets: CoreDNS uses the first line of a block that forwards the name --- */

/* A line of the block, as the lines before it see it. */
struct forward_line {
	bool root; /* FROM is the root */
	struct zone_set *except;
	size_t next;  /* number of the next line with the same FROM, or 0 */
	char **given; /* names in `except` of an earlier line that go to this line */
	size_t given_count;
};

struct forwards {
	struct forward_line *lines; /* lines[0] is unused */
	size_t count;
	size_t number; /* number of the current line, from 1 on */
	struct zone_set
	    *upcoming; /* FROM -> number of the next line with this FROM, or 0. Has all FROMs */
	struct zone_set *decided; /* name -> number of the later line that forwards it, or 0 */
	/* FROM of the lines so far, without the root -> 1. Names in the `except` of such a line -> 0 */
	struct zone_set *taken;
	bool
	    all_cluster; /* kubernetes answers the block's names of the cluster, and passes none on */
	bool rooted;     /* a line so far forwards the root, except `rest` */
	struct zone_set *rest;
	char **rest_zones;
	size_t rest_count;
};

/* Whether kubernetes answers all names of this block before `forward`. */
static bool
is_all_cluster(const struct report *report, const struct corefile_block *block)
{
	const struct corefile_directive *d = corefile_find(block, "kubernetes");

	for (size_t i = 0; d != NULL && i < d->body_count; i++)
		if (strcmp(d->body[i].words[0], "fallthrough") == 0)
			for (size_t k = 0; k < d->body[i].count; k++) {
				char *zone = k > 0 ? zone_parse(d->body[i].words[k]) : NULL;
				bool falls = d->body[i].count == 1 ||
					     (zone != NULL && (strcmp(zone, ".") == 0 ||
								  report_in_cluster(report, zone)));

				free(zone);
				if (falls)
					return false;
			}
	return d != NULL;
}

bool
plugin_forward_covers(const struct forwards *f, const char *zone)
{
	return zone_set_covers(f->upcoming, zone);
}

/* Adds the names in the options `except` of the directive. */
static void
add_excepted(struct zone_set *set, const struct corefile_directive *d)
{
	for (size_t i = 0; i < d->body_count; i++)
		for (size_t k = 1;
		     strcmp(d->body[i].words[0], "except") == 0 && k < d->body[i].count; k++) {
			char *zone = zone_parse(d->body[i].words[k]);

			if (zone != NULL)
				zone_set_add(set, zone);
			free(zone);
		}
}

static bool
is_forward(const struct corefile_directive *d)
{
	return (strcmp(d->head.words[0], "forward") == 0 ||
		   strcmp(d->head.words[0], "proxy") == 0) &&
	       d->head.count >= 3;
}

struct forwards *
plugin_forward_plan(const struct report *report, const struct corefile_block *block)
{
	struct forwards *f = xcalloc(1, sizeof *f);

	f->all_cluster = is_all_cluster(report, block);
	f->upcoming = zone_set_new();
	f->decided = zone_set_new();
	f->taken = zone_set_new();
	f->rest = zone_set_new();
	for (size_t i = 0; i < block->count; i++)
		f->count += is_forward(&block->directives[i]);
	f->lines = xcalloc(f->count + 1, sizeof *f->lines);
	size_t number = f->count;
	for (size_t i = block->count; i-- > 0;) {
		const struct corefile_directive *d = &block->directives[i];

		if (!is_forward(d))
			continue;
		char *from = zone_parse(d->head.words[1]);
		f->lines[number].except = zone_set_new();
		add_excepted(f->lines[number].except, d);
		f->lines[number].root = from != NULL && strcmp(from, ".") == 0;
		if (from != NULL && zone_set_has(f->upcoming, from))
			zone_set_find(f->upcoming, from, &f->lines[number].next);
		if (from != NULL)
			zone_set_put(f->upcoming, from, number);
		number--;
		free(from);
	}
	return f;
}

static void
forget_rest(struct forwards *f)
{
	for (size_t i = 0; i < f->rest_count; i++)
		free(f->rest_zones[i]);
	free(f->rest_zones);
	zone_set_free(f->rest);
	f->rest = zone_set_new();
	f->rest_zones = NULL;
	f->rest_count = 0;
}

void
plugin_forward_plan_free(struct forwards *f)
{
	forget_rest(f);
	for (size_t i = 1; i <= f->count; i++) {
		for (size_t k = 0; k < f->lines[i].given_count; k++)
			free(f->lines[i].given[k]);
		free(f->lines[i].given);
		zone_set_free(f->lines[i].except);
	}
	free(f->lines);
	zone_set_free(f->rest);
	zone_set_free(f->upcoming);
	zone_set_free(f->decided);
	zone_set_free(f->taken);
	free(f);
}

/* Returns the number of the next line with this FROM that forwards the name, or 0. */
static size_t
next_line(const struct forwards *f, const char *from, const char *name)
{
	size_t number = 0;

	if (zone_set_has(f->upcoming, from))
		zone_set_find(f->upcoming, from, &number);
	while (number != 0 && zone_set_covers(f->lines[number].except, name))
		number = f->lines[number].next;
	return number;
}

/* Returns the number of the first later line of the block that forwards the name, or 0. */
static size_t
later_forwards(struct forwards *f, const char *name)
{
	size_t first = 0;

	/* Without the earlier result, a name that all lines except would cost O(lines) for each line. */
	if (zone_set_has(f->decided, name) && zone_set_find(f->decided, name, &first) &&
	    (first == 0 || first > f->number))
		return first;
	first = next_line(f, ".", name);
	for (const char *rest = name; rest != NULL && *rest != '\0'; rest = strchr(rest, '.')) {
		rest += *rest == '.';
		size_t number = next_line(f, rest, name);
		if (number != 0 && (first == 0 || number < first))
			first = number;
	}
	zone_set_put(f->decided, name, first);
	return first;
}

/* Whether an earlier line forwards the name, other than a line for the root. */
static bool
is_taken(const struct forwards *f, const char *name)
{
	size_t value = 0;

	return zone_set_find(f->taken, name, &value) && value == 1;
}

/* Gives the names that the line excepts to the later lines that forward them. */
static void
give_excepted(struct forwards *f, const struct corefile_directive *d, const char *from)
{
	for (size_t i = 0; i < d->body_count; i++)
		for (size_t k = 1;
		     strcmp(d->body[i].words[0], "except") == 0 && k < d->body[i].count; k++) {
			char *zone = zone_parse(d->body[i].words[k]);
			size_t number;

			if (zone == NULL || zone_set_has(f->taken, zone) || is_taken(f, zone) ||
			    !conf_name_under(zone, from) ||
			    (f->rooted && !zone_set_covers(f->rest, zone))) {
				free(zone);
				continue;
			}
			zone_set_put(f->taken, zone, 0);
			if ((number = later_forwards(f, zone)) == 0) {
				free(zone);
				continue;
			}
			struct forward_line *line = &f->lines[number];
			if ((line->given_count & (line->given_count - 1)) == 0)
				line->given = xreallocarray(line->given,
				    line->given_count ? 2 * line->given_count : 1,
				    sizeof *line->given);
			line->given[line->given_count++] = zone;
		}
}

/* Notes which names the line takes from the lines after it. */
static void
take_names(struct forwards *f, const struct corefile_directive *d, const char *from)
{
	if (from == NULL)
		return;
	const struct forward_line *line = &f->lines[f->number];
	bool root = line->root;
	bool takes = !root && !is_taken(f, from) && !zone_set_covers(line->except, from);
	if (!root)
		give_excepted(f, d, from);
	for (size_t i = 0; i < line->given_count; i++)
		zone_set_put(f->taken, line->given[i], 1);
	if (takes)
		zone_set_put(f->taken, from, 1);
	if (!root)
		return;
	struct zone_set *before = f->rooted ? f->rest : NULL;
	char **zones = NULL;
	size_t count = 0;
	struct zone_set *rest = zone_set_new();
	for (size_t i = 0; i < d->body_count; i++)
		for (size_t k = 1;
		     strcmp(d->body[i].words[0], "except") == 0 && k < d->body[i].count; k++) {
			char *zone = zone_parse(d->body[i].words[k]);

			if (zone == NULL || zone_set_has(rest, zone) ||
			    (before != NULL && !zone_set_covers(before, zone))) {
				free(zone);
				continue;
			}
			if ((count & (count - 1)) == 0)
				zones = xreallocarray(zones, count ? 2 * count : 1, sizeof *zones);
			zone_set_add(rest, zone);
			zones[count++] = zone;
		}
	forget_rest(f);
	zone_set_free(f->rest);
	f->rest = rest;
	f->rest_zones = zones;
	f->rest_count = count;
	f->rooted = true;
}

/* Reads `except NAME...`. CoreDNS does not forward these names. */
static void
read_except(
    struct scope *scope, const struct corefile_directive *d, const struct corefile_line *line)
{
	struct report *r = scope->report;
	char *from = zone_parse(d->head.words[1]);
	bool root = from != NULL && strcmp(from, ".") == 0;
	bool later = false, denied = false, lost = false, pierced = false;

	for (size_t i = 1; i < line->count; i++) {
		char *zone = zone_parse(line->words[i]);

		size_t number = 0;
		bool below = !root && from != NULL && zone != NULL && conf_name_under(zone, from);

		/* An earlier line for the root forwards all names but those of its own `except`. */
		bool taken =
		    zone != NULL &&
		    (is_taken(scope->forwards, zone) ||
			(scope->forwards->rooted && !zone_set_covers(scope->forwards->rest, zone)));

		if ((!root && !below) || taken) {
			; /* this line does not forward the name */
		} else if (zone != NULL && (number = later_forwards(scope->forwards, zone)) != 0) {
			/* Without this, the stub domain of this line takes the name. */
			bool external = !root && scope_serves_root(scope) &&
					scope->forwards->lines[number].root;

			later = true;
			if (external && !report_is_unbound(r) &&
			    !zone_set_covers(scope->denied, zone))
				report_flag(r, PROGRAM_DNSMASQ, "--server=/%s/#", zone);
			lost = lost || (external && report_is_unbound(r));
		} else if (zone != NULL && strcmp(zone, ".") != 0 &&
			   !report_in_cluster(scope->report, zone) && scope_serves(scope, zone)) {
			report_flag(scope->report, PROGRAM_DNSMASQ, "--local=/%s/", zone);
			denied = true;
			pierced = pierced || (report_topology(r) == TOPOLOGY_CLASSIC &&
						 plugin_has_names_in(scope->block, zone));
		}
		free(zone);
	}
	free(from);
	if (lost)
		report_line(r, line, VERDICT_NONE,
		    "unbound sends these names to the servers of this line: write a stub domain "
		    "for "
		    "each of them");
	else if (denied)
		report_line(scope->report, line, VERDICT_CHANGES,
		    "%s's --local: these names get NXDOMAIN%s%s%s; CoreDNS used the next plugin",
		    flags_owner(scope->report),
		    report_topology(r) == TOPOLOGY_CLASSIC && !report_is_unbound(r)
			? ", or NOERROR without records while dnsmasq caches an ExternalName "
			  "Service with this target"
			: "",
		    pierced ? ", but not names below those of hosts, rewrite and template, "
			      "which kubedns forwards"
			    : "",
		    later ? ", but those of the next forward of this block" : "");
	else
		report_line(scope->report, line, VERDICT_CARRIED, "%s",
		    later ? "these names go to the servers of the next forward of this block"
			  : "nothing to set: this line forwards none of these names");
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
read_policy(
    struct scope *scope, const struct corefile_directive *d, const struct corefile_line *line)
{
	const char *name = line->count > 1 ? line->words[1] : "random";

	if (d->head.count == 3 && *d->head.words[2] != '/') {
		report_line(scope->report, line, VERDICT_CARRIED,
		    "nothing to set: this line has one server");
		return;
	}
	if (report_is_unbound(scope->report)) {
		read_unbound_policy(scope, line, name);
		return;
	}
	bool in_order = strcmp(name, "sequential") == 0 || strcmp(name, "first") == 0;

	if (in_order && !scope_serves_root(scope)) {
		report_line(scope->report, line, VERDICT_NONE,
		    "left out: it is only for the servers of this server block. dnsmasq's "
		    "--strict-order applies to all servers");
		return;
	}
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
			    "retry, usually after 5 s. If all servers of a name, kubedns included, "
			    "return SERVFAIL or REFUSED, clients get no reply";
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

	if (n > 6000 && n <= 100000 && scope_serves_root(scope))
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
read_option(
    struct scope *scope, const struct corefile_directive *d, const struct corefile_line *line)
{
	bool unbound = report_is_unbound(scope->report);

	if (strcmp(line->words[0], "tls") == 0)
		read_tls(scope, line);
	else if (strcmp(line->words[0], "except") == 0)
		read_except(scope, d, line);
	else if (strcmp(line->words[0], "max_concurrent") == 0)
		read_max_concurrent(scope, line);
	else if (strcmp(line->words[0], "policy") == 0)
		read_policy(scope, d, line);
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

struct zone_set *
plugin_forward_root_others(const struct corefile_block *root)
{
	struct zone_set *set = zone_set_new();

	for (size_t i = 0; root != NULL && i < root->count; i++) {
		const struct corefile_directive *d = &root->directives[i];
		char *from = is_forward(d) ? zone_parse(d->head.words[1]) : NULL;

		if (from != NULL && strcmp(from, ".") != 0)
			zone_set_add(set, from);
		else if (from != NULL)
			add_excepted(set, d);
		free(from);
	}
	return set;
}

/* Copies the first name at words [from, to) that is below `name`, and counts the words down. Returns false if there is none. */
static bool
find_below(const struct corefile_line *line, size_t from, size_t to, const char *name,
    char below[CONF_HOST_MAX], size_t *left)
{
	bool found = false;

	for (size_t i = from; i < to && !found && *left > 0; i++, --*left) {
		char *zone = zone_parse(line->words[i]);

		found = zone != NULL && strcmp(zone, name) != 0 && conf_name_under(zone, name) &&
			strlen(zone) < CONF_HOST_MAX;
		if (found)
			strcpy(below, zone);
		free(zone);
	}
	return found;
}

bool
plugin_forward_has_below(
    const struct corefile_block *block, const char *name, char below[CONF_HOST_MAX])
{
	size_t left = NEIGHBOURS_MAX;

	for (size_t i = 0; i < block->count && i < NEIGHBOURS_MAX; i++) {
		const struct corefile_directive *d = &block->directives[i];

		if (!is_forward(d))
			continue;
		if (find_below(&d->head, 1, 2, name, below, &left))
			return true;
		char *from = zone_parse(d->head.words[1]);
		bool covers =
		    from != NULL && (strcmp(from, ".") == 0 || conf_name_under(name, from));
		free(from);
		for (size_t k = 0; covers && k < d->body_count; k++)
			if (strcmp(d->body[k].words[0], "except") == 0 &&
			    find_below(&d->body[k], 1, d->body[k].count, name, below, &left))
				return true;
		if (covers) /* the lines after it forward no other name below `name` */
			return false;
	}
	return false;
}

bool
plugin_forward_is_plain(const struct corefile_block *block)
{
	for (size_t i = 0; i < block->count; i++) {
		const struct corefile_directive *d = &block->directives[i];

		if (is_forward(d) && strcmp(d->head.words[1], ".") == 0)
			return d->head.count == 3 &&
			       strcmp(d->head.words[2], "/etc/resolv.conf") == 0;
	}
	return false;
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

/* Whether the first `forward` of the block for the zone has servers of its own. Copies its FROM to `from`. */
static bool
first_has_servers(const struct corefile_block *block, const char *zone, char from[CONF_HOST_MAX])
{
	for (size_t i = 0; i < block->count; i++) {
		const struct corefile_directive *d = &block->directives[i];
		char text[CONF_SERVER_TEXT_MAX];

		if (!is_forward(d))
			continue;
		char *name = zone_parse(d->head.words[1]);
		bool whole = name != NULL && strlen(name) < CONF_HOST_MAX &&
			     (strcmp(name, ".") == 0 || conf_name_under(zone, name));

		if (whole)
			strcpy(from, name);
		free(name);
		if (whole) { /* CoreDNS uses the first such line */
			enum target target = read_target(d->head.words[2], server_name(d), text);
			return target == TARGET_SERVER || target == TARGET_TLS;
		}
	}
	return false;
}

bool
plugin_forward_has_servers(const struct corefile_block *block, const char *zone)
{
	char from[CONF_HOST_MAX];

	return first_has_servers(block, zone, from);
}

bool
plugin_forward_makes_stub(const struct scope *scope, const char *zone)
{
	char from[CONF_HOST_MAX];

	return first_has_servers(scope->block, zone, from) &&
	       (strcmp(from, zone) == 0 || zone_set_has(scope->set, zone));
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

/* Reports the lines that need an action of the reader. Returns false if this line needs none. */
static bool
conclude_missing(
    struct scope *scope, const struct corefile_line *line, bool root, const struct outcome *o)
{
	struct report *r = scope->report;
	const char *key = root ? "upstreamNameservers" : "stubDomains";
	const char *until = o->count > 0 ? "to the other servers of this line"
			    : root       ? "unencrypted, to the servers of the node's resolv.conf"
					 : "unencrypted, to the servers of all other names";

	if (o->seen[TARGET_UNNAMED] > 0)
		report_line(r, line, VERDICT_NONE,
		    "DNS over TLS needs the name in the server's certificate: add tls_servername "
		    "here, or write tls://ADDRESS#SERVER-NAME into %s. Until then these queries "
		    "go %s",
		    key, until);
	else if (o->seen[TARGET_ENCRYPTED] > 0)
		report_line(r, line, VERDICT_NONE,
		    "no DNS over HTTPS, QUIC or gRPC: run a forwarder for it on the node or in a "
		    "pod, and put its address into %s. Until then these queries go %s",
		    key, until);
	else if (o->seen[TARGET_LOOPBACK] > 0)
		report_line(r, line, VERDICT_NONE,
		    "a loopback or unspecified address is this pod itself: put an address that "
		    "pods can reach into %s. Until then these queries go %s",
		    key, until);
	else if (o->seen[TARGET_WRONG] > 0)
		report_line(r, line, VERDICT_NONE,
		    "not an address: put the server's address, or for a stub domain its host name, "
		    "into %s. Until then these queries go %s",
		    key,
		    later_forwards(scope->forwards, line->words[1]) != 0
			? "to those of the next line"
			: until);
	else if (o->seen[TARGET_FILE] > 0)
		report_line(r, line, VERDICT_NONE,
		    "mount the file into the container dnsmasq and set the nanny's "
		    "-resolvConf=FILE. Until then these queries go %s",
		    until);
	else
		return false;
	return true;
}

static void
conclude(struct scope *scope, const struct corefile_line *line, bool root, const struct outcome *o)
{
	struct report *r = scope->report;
	const char *key = root ? "upstreamNameservers" : "stubDomains";

	if (conclude_missing(scope, line, root, o))
		return;
	if (o->seen[TARGET_TLS] > 0 &&
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
	else if (o->seen[TARGET_RESOLV_CONF] > 0 && o->seen[TARGET_SERVER] > 0)
		report_line(r, line, VERDICT_CHANGES,
		    "upstreamNameservers: only these servers, not resolv.conf's as well");
	else if (o->seen[TARGET_RESOLV_CONF] > 0)
		report_line(r, line,
		    root || scope->files->root_is_plain ? VERDICT_CARRIED : VERDICT_CHANGES, "%s",
		    root ? "the default: the node's resolv.conf"
		    : scope->files->root_is_plain
			? "the default: names of this zone go to the servers of all other names"
			: "left out: names of this zone go to the servers of all other names, not "
			  "to those of the node's resolv.conf");
	else if (o->seen[TARGET_TLS] > 0)
		report_line(r, line, VERDICT_CHANGES,
		    "the ConfigMap's %s with tls://; the engine unbound, because dnsmasq cannot "
		    "encrypt queries: docs/upstreams.md%s",
		    key,
		    root && report_topology(r) == TOPOLOGY_CLASSIC
			? ". In the classic topology, reverse names that the cluster does not have "
			  "and names below those of hosts and records get SERVFAIL, because "
			  "kubedns does not query tls:// servers: use the front topology"
			: "");
	else
		report_line(r, line, VERDICT_CARRIED, "the ConfigMap's %s", key);
}

/* The kinds of zones that a forward has. */
struct zones_seen {
	bool root, cluster, any;
	bool lost; /* unbound uses a stub domain or an `except` above a zone for its names */
	bool
	    pierced; /* kubedns sends some names of a zone to the servers of a stub domain above it */
	bool itself; /* because of `except`, the line forwards only the name FROM itself */
	char *wrong; /* the first zone that cannot be a stub domain's name */
};

/* Whether the zone is the cluster's domain, or `svc` or `pod` in it. */
static bool
is_cluster_own(const struct report *report, const char *zone)
{
	const char *domain = report_known_domain(report);

	return strcmp(zone, domain) == 0 ||
	       ((strncmp(zone, "svc.", 4) == 0 || strncmp(zone, "pod.", 4) == 0) &&
		   strcmp(zone + 4, domain) == 0);
}

/* Whether the plugin `file` answers all names of the zone before `forward`. */
static bool
is_all_file(struct scope *scope, const char *zone)
{
	bool found = false;

	for (size_t i = 0; i < scope->block->count && !found; i++) {
		const struct corefile_directive *d = &scope->block->directives[i];

		if (strcmp(d->head.words[0], "file") != 0 || d->head.count < 2)
			continue;
		struct zone_set *zones = scope_zones(scope, &d->head, 2);
		found = zone_set_covers(zones, zone);
		zone_set_free(zones);
		for (size_t k = 0; k < d->body_count; k++)
			found &= strcmp(d->body[k].words[0], "fallthrough") != 0;
		found = found && plugin_files_have(scope->files, &d->head, d->head.words[1]);
	}
	return found;
}

bool
plugin_forward_is_unused(struct scope *scope)
{
	bool unused = scope->count > 0;

	for (size_t i = 0; i < scope->count && unused; i++)
		unused = is_all_file(scope, scope->zones[i]);
	return unused;
}

/* Whether the names above the zone have other servers than the external names. */
static bool
is_in_stub_domain(const struct scope *scope, const char *zone)
{
	const char *dot = strchr(zone, '.');

	return dot != NULL &&
	       blocks_of_name(scope->blocks, dot + 1) != blocks_of_name(scope->blocks, ".");
}

/* Whether the root's block does not send the names above the zone to the external servers, because of `except`, of a forward
 * for another zone, or of a template that denies them. */
static bool
is_in_others(const struct scope *scope, const char *zone)
{
	const char *dot = strchr(zone, '.');

	return dot != NULL && zone_set_covers(scope->files->root_others, dot + 1);
}

static void
read_zone(struct scope *scope, const char *zone, struct zones_seen *seen, struct outcome *o)
{
	char name[CONF_HOST_MAX];
	const char *why;
	bool root = strcmp(zone, ".") == 0;

	if (!root && (zone_set_covers(scope->denied, zone) || is_all_file(scope, zone)))
		return;

	if (!root && is_cluster_own(scope->report, zone)) {
		seen->cluster = true;
		return;
	}
	if (!root && conf_name_parse(zone, name, &why) < 0) {
		if (seen->wrong == NULL)
			seen->wrong = xstrdup(zone);
		return;
	}
	seen->any = true;
	seen->root |= root;
	if (!root && o->seen[TARGET_RESOLV_CONF] > 0 && o->count == 0 &&
	    (is_in_stub_domain(scope, zone) || is_in_others(scope, zone))) {
		seen->lost |= report_is_unbound(scope->report);
		seen->pierced |= report_topology(scope->report) == TOPOLOGY_CLASSIC &&
				 is_in_stub_domain(scope, zone) &&
				 plugin_has_names_in(scope->block, zone);
		if (!report_is_unbound(scope->report))
			report_flag(scope->report, PROGRAM_DNSMASQ, "--server=/%s/#", zone);
	}
	for (size_t i = 0; i < o->count; i++)
		if (!report_server(scope->report, root ? NULL : zone, o->servers[i]))
			o->left_out = true;
}

/* Reads the names that earlier lines except and that this line forwards. */
static void
read_given(struct scope *scope, const char *from, struct zones_seen *seen, struct outcome *o)
{
	const struct forward_line *line = &scope->forwards->lines[scope->forwards->number];

	/* read_except() has sent these names to the servers of the external names. */
	if (line->root && scope_serves_root(scope))
		return;
	for (size_t i = 0; i < line->given_count; i++)
		if (strcmp(line->given[i], from) != 0 && scope_serves(scope, line->given[i]))
			read_zone(scope, line->given[i], seen, o);
}

/* Reads the zones that the line forwards: the names below FROM in the block's zones that no earlier
 * line of the block forwards. */
static void
read_zones(struct scope *scope, const char *from, struct zones_seen *seen, struct outcome *o)
{
	const struct forwards *f = scope->forwards;
	const struct zone_set *except = f->lines[f->number].except;
	bool all = strcmp(from, ".") == 0, whole = !all && scope_serves(scope, from);
	char **zones = f->rooted ? f->rest_zones : scope->zones;
	size_t count = f->rooted ? f->rest_count : scope->count;

	if (!all && is_taken(f, from))
		; /* an earlier line forwards these names */
	else if (!all && zone_set_covers(except, from))
		seen->itself = scope_serves(scope, from);
	else if (whole && (!f->rooted || zone_set_covers(f->rest, from)))
		read_zone(scope, from, seen, o);
	else
		for (size_t i = 0; i < count; i++)
			if ((all || conf_name_under(zones[i], from)) &&
			    scope_serves(scope, zones[i]) && !is_taken(f, zones[i]) &&
			    !zone_set_covers(except, zones[i]))
				read_zone(scope, zones[i], seen, o);
	read_given(scope, from, seen, o);
}

static void
report_zones(struct scope *scope, const struct corefile_line *line, const struct zones_seen *seen,
    const struct outcome *o)
{
	if (seen->wrong != NULL)
		report_line(scope->report, line, VERDICT_NONE,
		    "%s\"%.80s\" cannot be a stub domain's name. Until then its names go to the "
		    "servers of all other names",
		    seen->any ? "the ConfigMap's stubDomains, without one zone: " : "left out: ",
		    seen->wrong);
	else if (seen->cluster && !scope->forwards->all_cluster)
		report_line(scope->report, line, VERDICT_NONE,
		    "the cluster's own domain is never forwarded: kubedns answers for it");
	else if (seen->lost)
		report_line(scope->report, line, VERDICT_NONE,
		    "unbound does not send these names to the servers of all other names, because "
		    "of a stub domain, an except or a template above them: write a stub domain "
		    "for them");
	else if (seen->pierced)
		report_line(scope->report, line, VERDICT_CHANGES,
		    "names of this zone go to the servers of all other names, but names below "
		    "those of hosts, rewrite and template go to the servers of the stub domain "
		    "above it");
	else if (seen->any)
		conclude(scope, line, seen->root, o);
	else if (seen->itself)
		report_line(scope->report, line, VERDICT_CHANGES,
		    "left out: because of except, CoreDNS forwards only %.80s itself to these "
		    "servers",
		    line->words[1]);
	else if (seen->cluster)
		report_line(scope->report, line, VERDICT_CARRIED,
		    "nothing to set: kubernetes answers all names of this block");
	else
		report_line(scope->report, line, VERDICT_CARRIED,
		    "left out: CoreDNS never uses it, because this server block has no names below "
		    "it, or an earlier line of the block forwards them, or file or template "
		    "answers them");
}

/* forward FROM TO... { ... }. proxy has the same form. */
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
	scope->forwards->number++;
	if (from != NULL)
		zone_set_put(scope->forwards->upcoming, from,
		    scope->forwards->lines[scope->forwards->number].next);
	read_targets(d, &o);
	if (from == NULL)
		seen.wrong = xstrdup(line->words[1]);
	else
		read_zones(scope, from, &seen, &o);
	report_zones(scope, line, &seen, &o);
	bool used = seen.any || seen.cluster || seen.lost || seen.wrong != NULL;
	for (size_t i = 0; i < d->body_count; i++)
		if (used)
			read_option(scope, d, &d->body[i]);
		else
			report_line(scope->report, &d->body[i], VERDICT_CARRIED,
			    "left out: CoreDNS never uses this %s", line->words[0]);
	/* With a word that is no server, CoreDNS does not start. */
	if (o.seen[TARGET_WRONG] == 0)
		take_names(scope->forwards, d, from);
	free(seen.wrong);
	free(from);
}
