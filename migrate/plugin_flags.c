/* Plugins that become a flag (log, dns64, dnstap, autopath), and federation, which becomes a key of the
 * ConfigMap. */
#include <stdlib.h>
#include <string.h>

#include "lib/addr.h"
#include "lib/dns64.h"
#include "migrate/plugins.h"

enum log_classes { LOG_ALL = 1, LOG_DENIAL = 2, LOG_ERROR = 4, LOG_SUCCESS = 8 };

/* Returns the classes in the directive's block, or all classes if the block has none. */
static unsigned
log_classes(const struct corefile_directive *d)
{
	static const struct {
		const char *name;
		unsigned bit;
	} names[] = { { "all", LOG_ALL }, { "denial", LOG_DENIAL }, { "error", LOG_ERROR },
		{ "success", LOG_SUCCESS } };
	unsigned classes = 0;

	for (size_t i = 0; i < d->body_count; i++)
		for (size_t k = 1; k < d->body[i].count; k++)
			for (size_t n = 0; n < sizeof names / sizeof *names; n++)
				if (strcmp(d->body[i].words[k], names[n].name) == 0)
					classes |= names[n].bit;
	return classes == 0 || (classes & LOG_SUCCESS) ? LOG_ALL : classes;
}

/*
 * Finds the zone if only queries for one zone are logged. The zone is on the line or, if the line
 * has no zone, it is the only key of the block. Sets `zone` to "" if queries for all zones are
 * logged.
 */
static void
log_zone(
    const struct corefile_block *block, const struct corefile_line *line, char zone[CONF_HOST_MAX])
{
	const char *why;
	bool said = line->count > 1 && strpbrk(line->words[1], "{ ") == NULL;
	const struct corefile_line *of = said ? line : &block->keys;
	size_t at = said ? 1 : 0, zones = of->count - at;
	char *named = zones == 1 || said ? zone_parse(of->words[at]) : NULL;

	if (named == NULL || conf_name_parse(named, zone, &why) < 0 ||
	    (said && line->count > 2 && strpbrk(line->words[2], "{ ") == NULL))
		*zone = '\0';
	free(named);
}

/* Whether the directive has an environment variable that is not set. Such a directive has no flag. */
static bool
log_has_unset(const struct corefile_directive *d)
{
	for (size_t i = 0; i <= d->body_count; i++) {
		const struct corefile_line *line = i > 0 ? &d->body[i - 1] : &d->head;

		for (size_t k = 1; k < line->count; k++) {
			char *name = corefile_unset(line->words[k]);
			bool unset = name != NULL;

			free(name);
			if (unset)
				return true;
		}
	}
	return false;
}

void
plugin_log_plan(
    struct log_wish *wish, const struct corefile_block *block, const struct corefile_directive *d)
{
	char zone[CONF_HOST_MAX];

	if (log_has_unset(d))
		return;
	log_zone(block, &d->head, zone);
	if (wish->any && strcmp(wish->zone, zone) != 0)
		*zone = '\0';
	strcpy(wish->zone, zone);
	wish->classes |= log_classes(d);
	wish->any = true;
}

/*
 * log [ZONE...] [FORMAT] { class CLASS... }. In the front topology, kubedns logs queries. The log
 * can be restricted to one rcode and one zone. In the classic topology, dnsmasq logs all queries or
 * none.
 */
void
plugin_log(struct scope *scope, const struct corefile_directive *d)
{
	const struct log_wish *wish = &scope->files->log;
	unsigned classes = wish->classes;
	const char *zone = wish->zone, *rcode = classes & LOG_ALL      ? ""
						: classes & LOG_DENIAL ? "rcode=NXDOMAIN"
								       : "rcode=SERVFAIL";

	if (log_has_unset(d)) {
		report_line(scope->report, &d->head, VERDICT_NONE,
		    "left out: queries are not logged until each variable of log is set");
	} else if (report_topology(scope->report) == TOPOLOGY_FRONT) {
		report_flag(scope->report, PROGRAM_KUBEDNS, "--log-queries%s%s%s%s%s",
		    *rcode || *zone ? "=" : "", *zone ? "name=" : "", zone,
		    *rcode && *zone ? "," : "", rcode);
		report_line(scope->report, &d->head, VERDICT_CHANGES,
		    "kubedns's --log-queries, once for all blocks, in its own format%s; at most "
		    "1,000 lines per second unless rate= is set",
		    *rcode == '\0' ? ""
		    : (classes & LOG_DENIAL) && (classes & LOG_ERROR)
			? ", only for NXDOMAIN, because it accepts one rcode"
		    : classes & LOG_DENIAL ? ", only for NXDOMAIN; CoreDNS also logs NODATA"
					   : ", only for SERVFAIL; CoreDNS also logs other errors, "
					     "such as REFUSED");
	} else if (classes & LOG_ALL && *zone == '\0') {
		report_flag(scope->report, PROGRAM_DNSMASQ, "--log-queries");
		report_line(scope->report, &d->head, VERDICT_CHANGES,
		    "%s's --log-queries, in its own format", flags_owner(scope->report));
	} else {
		report_line(scope->report, &d->head, VERDICT_NONE,
		    "%s logs all queries or none, not by class or zone: use the front topology, "
		    "where kubedns's --log-queries can",
		    engine_name(scope->report));
	}
	for (size_t i = 0; i < d->body_count; i++)
		report_line(scope->report, &d->body[i], VERDICT_CHANGES, "part of log above");
}

/* loadbalance [round_robin | weighted FILE] { reload DURATION; prefer NETWORK... } */
void
plugin_loadbalance(struct scope *scope, const struct corefile_directive *d)
{
	bool weighted = d->head.count > 1 && strcmp(d->head.words[1], "round_robin") != 0;

	report_line(scope->report, &d->head, weighted ? VERDICT_NONE : VERDICT_CARRIED,
	    weighted ? "no weights: the order of addresses rotates between answers"
		     : "the order of addresses always rotates between answers");
	for (size_t i = 0; i < d->body_count; i++)
		if (strcmp(d->body[i].words[0], "reload") == 0)
			report_line(scope->report, &d->body[i],
			    weighted ? VERDICT_NONE : VERDICT_CARRIED, "part of loadbalance above");
		else
			report_line(scope->report, &d->body[i], VERDICT_NONE,
			    "addresses of no network come first: the order rotates between "
			    "answers");
}

/* local */
void
plugin_local(struct scope *scope, const struct corefile_directive *d)
{
	if (report_is_unbound(scope->report))
		report_line(scope->report, &d->head, VERDICT_NONE,
		    "unbound does not answer localhost itself: write `127.0.0.1 localhost` and "
		    "`::1 localhost` into the ConfigMap's key hosts. Until then queries for "
		    "localhost and localhost.DOMAIN go to the upstream servers; CoreDNS answered "
		    "both");
	else
		report_line(scope->report, &d->head, VERDICT_CHANGES,
		    "dnsmasq answers localhost itself, with a TTL of 0. It sends localhost.DOMAIN, "
		    "which a search "
		    "list can make of localhost, to the upstream servers; CoreDNS answered it too");
}

/* nsid [TEXT]. The default is the name of the pod in both programs. */
void
plugin_nsid(struct scope *scope, const struct corefile_directive *d)
{
	enum { SERVER_ID_MAX = 63 };
	const struct corefile_line *line = &d->head;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	for (size_t i = 1; i < line->count; i++)
		fprintf(f, "%s%s", i > 1 ? " " : "", line->words[i]);
	fclose(f);
	bool front = report_topology(scope->report) == TOPOLOGY_FRONT, set = line->count > 1;
	bool fits = front && set && len <= SERVER_ID_MAX && scope_serves_cluster(scope);

	if (fits)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--server-id=%s", text);
	if (!front)
		report_line(scope->report, line, VERDICT_CHANGES,
		    "answers have no option NSID: CoreDNS put the text of this line, or the pod's "
		    "name, into the answer to each client that asks for it (dig +nsid). dig ch "
		    "txt hostname.bind shows which pod answered");
	else if (fits)
		report_line(scope->report, line, VERDICT_CARRIED,
		    "kubedns's --server-id, which is also the text of hostname.bind");
	else if (set)
		report_line(scope->report, line, VERDICT_CHANGES,
		    "the text is the pod's name, or that of --server-id, for all names");
	else
		report_line(
		    scope->report, line, VERDICT_CARRIED, "always enabled, with the pod's name");
	free(text);
}

/* Returns the prefix of a `dns64` directive. The last prefix counts. */
static const char *
dns64_prefix(const struct corefile_directive *d)
{
	const char *prefix = d->head.count > 1 ? d->head.words[1] : DNS64_WELL_KNOWN;

	for (size_t i = 0; i < d->body_count; i++)
		if (strcmp(d->body[i].words[0], "prefix") == 0 && d->body[i].count > 1)
			prefix = d->body[i].words[1];
	return prefix;
}

bool
plugin_dns64_is_possible(const struct corefile_directive *d)
{
	char text[DNS64_TEXT_MAX];
	const char *why;

	return dns64_parse(dns64_prefix(d), text, &why) == 0;
}

/* Returns the zones of the block as a part of a sentence. Caller frees. */
static char *
block_zones(const struct scope *scope)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (zone_set_has(scope->set, "."))
		fputs("all names", f);
	else
		fputs("names in ", f);
	for (size_t i = 0; i < scope->count && !zone_set_has(scope->set, "."); i++) {
		fprintf(f, "%s%s", i > 0 ? ", " : "", scope->zones[i]);
		if (ftell(f) > 200 && i + 1 < scope->count) {
			fputs(", ...", f);
			break;
		}
	}
	fclose(f);
	return text;
}

/* dns64 [PREFIX] { prefix PREFIX; translate_all; allow_ipv4 } */
void
plugin_dns64(struct scope *scope, const struct corefile_directive *d)
{
	static const struct report_option options[] = {
		{ "prefix", VERDICT_CARRIED, "part of dns64 above" },
		{ "allow_ipv4", VERDICT_CARRIED, "always so" },
		{ "translate_all", VERDICT_NONE,
		    "names that have IPv6 addresses keep them: " KEEP_COREDNS },
	};
	bool classic = report_topology(scope->report) == TOPOLOGY_CLASSIC;
	char text[DNS64_TEXT_MAX];
	const char *why;

	if (classic || !scope_serves_root(scope)) {
		char *zones = block_zones(scope);

		report_line(scope->report, &d->head, VERDICT_NONE,
		    "CoreDNS made AAAA records from A records for %s. Here clients over IPv6 only "
		    "cannot reach IPv4 servers in these zones: %s",
		    zones,
		    classic
			? "in the classic topology, kubedns-migrate translates no dns64. Use "
			  "the front topology"
			: "--dns64 is for all external names, not for some zones. " KEEP_COREDNS);
		free(zones);
		for (size_t i = 0; i < d->body_count; i++)
			report_line(
			    scope->report, &d->body[i], VERDICT_NONE, "part of dns64 above");
		return;
	}
	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *line = &d->body[i];

		if (!report_option(scope->report, line, options, sizeof options / sizeof *options))
			report_unknown(
			    scope->report, line, "not an option of dns64: " KEEP_COREDNS);
	}
	if (dns64_parse(dns64_prefix(d), text, &why) < 0) {
		report_line(scope->report, &d->head, VERDICT_NONE,
		    "unbound makes no AAAA records with this prefix: %s", why);
		return;
	}
	report_flag(scope->report, PROGRAM_NANNY, "--dns64=%s", text);
	report_line(scope->report, &d->head, VERDICT_CHANGES,
	    "the nanny's --dns64=%s, with unbound: AAAA records from A records for all external "
	    "names and stub domains, also those of other server blocks, and for clients over IPv4 "
	    "too. Names that kubedns itself answers (the cluster's, hosts, records) have AAAA "
	    "records only if they have an IPv6 address; CoreDNS made them for these names too",
	    text);
}

/* dnstap SOCKET [full] */
void
plugin_dnstap(struct scope *scope, const struct corefile_directive *d)
{
	const char *word = d->head.count > 1 ? d->head.words[1] : "", *why;
	struct server server;
	char text[SERVER_TEXT_MAX];
	bool tcp = strncmp(word, "tcp://", 6) == 0;
	const char *path = strncmp(word, "unix://", 7) == 0 ? word + 7 : word;

	if (tcp && server_parse(word + 6, 6000, &server, &why) == 0)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--dnstap=tcp:%s",
		    server_format(&server, text));
	else if (!tcp && *path == '/' && strstr(path, "://") == NULL)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--dnstap=unix:%s", path);
	else {
		report_line(scope->report, &d->head, VERDICT_NONE,
		    "kubedns's --dnstap=unix:/PATH or tcp:IP:PORT, without host names and TLS");
		return;
	}
	report_line(scope->report, &d->head, VERDICT_CHANGES,
	    "kubedns's --dnstap, with whole messages%s%s",
	    tcp ? "" : "; mount the socket's directory into the container kubedns",
	    report_topology(scope->report) == TOPOLOGY_CLASSIC
		? "; in the classic topology its only client is dnsmasq or unbound"
		: "");
	for (size_t i = 0; i < d->body_count; i++)
		report_line(scope->report, &d->body[i], VERDICT_CHANGES,
		    "--dnstap has no such option: the identity is the pod's name");
}

/* Whether the block's kubernetes has `pods verified`. The last line counts. */
static bool
verifies_pods(const struct corefile_block *block)
{
	const struct corefile_directive *d = corefile_find(block, "kubernetes");
	bool verified = false;

	for (size_t i = 0; d != NULL && i < d->body_count; i++)
		if (d->body[i].count > 1 && strcmp(d->body[i].words[0], "pods") == 0)
			verified = strcmp(d->body[i].words[1], "verified") == 0;
	return verified;
}

/* autopath [ZONE...] RESOLV-CONF */
void
plugin_autopath(struct scope *scope, const struct corefile_directive *d)
{
	bool by_pod = strcmp(d->head.words[d->head.count - 1], "@kubernetes") == 0;

	if (by_pod && !verifies_pods(scope->block)) {
		report_line(scope->report, &d->head, VERDICT_CARRIED,
		    "left out: CoreDNS completes no names, because kubernetes does not have pods "
		    "verified");
	} else {
		report_flag(scope->report, PROGRAM_KUBEDNS, "--search-completion=inferred");
		report_line(scope->report, &d->head, VERDICT_CHANGES,
		    "kubedns's --search-completion=inferred: the answer to the first query of a "
		    "search list, NAME.NAMESPACE.svc.%s, has the records of the first name in the "
		    "list that exists. So clients send one query for a name instead of four. This "
		    "is only for types A and AAAA, and for names with a dot: other queries walk "
		    "the list again; CoreDNS completed them too. kubedns takes the namespace from "
		    "the query's name; CoreDNS %s",
		    report_known_domain(scope->report),
		    by_pod ? "found it by the client's address, for which it watched all pods. "
			     "--pods=verified keeps such a watch, for the names of pods only"
			   : "took the list from a file");
	}
	for (size_t i = 0; i < d->body_count; i++)
		report_line(scope->report, &d->body[i], VERDICT_NONE,
		    "unknown option; see autopath's manual");
}

/* federation [ZONE...] { NAME DOMAIN } */
void
plugin_federation(struct scope *scope, const struct corefile_directive *d)
{
	report_line(scope->report, &d->head, VERDICT_CARRIED, "the ConfigMap's key federations");
	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *line = &d->body[i];
		char domain[CONF_HOST_MAX];
		const char *why = "needs a name and a domain";

		if (strcmp(line->words[0], "upstream") == 0) {
			report_line(scope->report, line, VERDICT_CARRIED,
			    "targets are looked up like any other name");
			continue;
		}
		struct conf_federations checked = { 0 };
		char *text = NULL, *wrong = NULL;
		size_t len = 0;
		FILE *f = open_memstream(&text, &len);
		if (line->count == 2 && conf_name_parse(line->words[1], domain, &why) == 0)
			fprintf(f, "%s=%s", line->words[0], domain);
		fclose(f);
		bool good = len > 0 && conf_federations_parse(text, len, &checked, &wrong) == 0;
		if (good) {
			report_text(scope->report, TEXT_FEDERATIONS, "%s,", text);
			report_line(scope->report, line, VERDICT_CARRIED,
			    "the ConfigMap's key federations");
		} else {
			report_line(scope->report, line, VERDICT_NONE, "left out: %s",
			    wrong != NULL ? wrong : why);
		}
		free(wrong);
		free(text);
	}
}
