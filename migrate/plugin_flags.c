/* Plugins that are a flag here: log, dnstap, autopath; and federation, a key of the ConfigMap. */
#include <stdlib.h>
#include <string.h>

#include "lib/addr.h"
#include "migrate/plugins.h"

enum log_classes { LOG_ALL = 1, LOG_DENIAL = 2, LOG_ERROR = 4, LOG_SUCCESS = 8 };

/* The classes that the block names; all of them if none. */
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

/* The one zone that the queries are of, "" for all: of the line's, else of the block's. */
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

void
plugin_log_plan(
    struct log_wish *wish, const struct corefile_block *block, const struct corefile_directive *d)
{
	char zone[CONF_HOST_MAX];

	log_zone(block, &d->head, zone);
	if (wish->any && strcmp(wish->zone, zone) != 0)
		*zone = '\0';
	strcpy(wish->zone, zone);
	wish->classes |= log_classes(d);
	wish->any = true;
}

/* log [ZONE...] [FORMAT] { class CLASS... }: where kubedns is in front it logs, by one rcode and one zone
 * at most; in the classic topology dnsmasq does, every query or none. */
void
plugin_log(struct scope *scope, const struct corefile_directive *d)
{
	const struct log_wish *wish = &scope->files->log;
	unsigned classes = wish->classes;
	const char *zone = wish->zone, *rcode = classes & LOG_ALL      ? ""
						: classes & LOG_DENIAL ? "rcode=NXDOMAIN"
								       : "rcode=SERVFAIL";

	if (report_topology(scope->report) == TOPOLOGY_FRONT) {
		report_flag(scope->report, PROGRAM_KUBEDNS, "--log-queries%s%s%s%s%s",
		    *rcode || *zone ? "=" : "", *zone ? "name=" : "", zone,
		    *rcode && *zone ? "," : "", rcode);
		report_line(scope->report, &d->head, VERDICT_CHANGES,
		    "kubedns's --log-queries, once for all blocks and in a form of its own%s; at "
		    "most "
		    "1,000 lines a second without rate=",
		    *rcode == '\0' ? ""
		    : (classes & LOG_DENIAL) && (classes & LOG_ERROR)
			? ", of NXDOMAIN alone, since it takes one rcode"
			: ", of one rcode");
	} else if (classes & LOG_ALL && *zone == '\0') {
		report_flag(scope->report, PROGRAM_DNSMASQ, "--log-queries");
		report_line(scope->report, &d->head, VERDICT_CHANGES,
		    "dnsmasq's --log-queries, in a form of its own");
	} else {
		report_line(scope->report, &d->head, VERDICT_NONE,
		    "dnsmasq logs every query or none, not by class or zone: take the front "
		    "topology, whose --log-queries does");
	}
	for (size_t i = 0; i < d->body_count; i++)
		report_line(scope->report, &d->body[i], VERDICT_CHANGES, "part of log above");
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
		    "--dnstap=unix:/PATH or tcp:IP:PORT of kubedns: it takes no host name and no "
		    "TLS");
		return;
	}
	report_line(scope->report, &d->head, VERDICT_CHANGES,
	    "kubedns's --dnstap, with whole messages%s%s",
	    tcp ? "" : "; mount the socket's directory into the container kubedns",
	    report_topology(scope->report) == TOPOLOGY_CLASSIC
		? "; in the classic topology its only client is dnsmasq"
		: "");
	for (size_t i = 0; i < d->body_count; i++)
		report_line(scope->report, &d->body[i], VERDICT_CHANGES,
		    "not an option of --dnstap: the identity is the pod's name");
}

/* autopath [ZONE...] RESOLV-CONF */
void
plugin_autopath(struct scope *scope, const struct corefile_directive *d)
{
	report_flag(scope->report, PROGRAM_KUBEDNS, "--search-completion=inferred");
	report_line(scope->report, &d->head, VERDICT_CHANGES,
	    "kubedns's --search-completion=inferred: the same at the first query, for the "
	    "namespace "
	    "that its name says, without a watch of pods");
	for (size_t i = 0; i < d->body_count; i++)
		report_line(
		    scope->report, &d->body[i], VERDICT_NONE, "not known; see autopath's manual");
}

/* federation [ZONE...] { NAME DOMAIN } */
void
plugin_federation(struct scope *scope, const struct corefile_directive *d)
{
	report_line(scope->report, &d->head, VERDICT_CARRIED, "the ConfigMap's key federations");
	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *line = &d->body[i];
		char domain[CONF_HOST_MAX];
		const char *why = "a name and a domain are wanted";

		if (strcmp(line->words[0], "upstream") == 0) {
			report_line(scope->report, line, VERDICT_CARRIED,
			    "targets are looked up as every other name");
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
