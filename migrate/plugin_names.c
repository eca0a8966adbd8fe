/* Plugins that have names of their own: hosts, template. */
#include <stdlib.h>
#include <string.h>

#include "migrate/plugins.h"
#include "lib/conf.h"
#include "lib/xalloc.h"

static const struct plugin_option hosts_options[] = {
	{ "ttl", VERDICT_CHANGES, "kubedns's --ttl is for these names too" },
	{ "no_reverse", VERDICT_CHANGES, "the reverse names are answered too" },
	{ "reload", VERDICT_CARRIED, "a change of the ConfigMap is followed at once" },
	{ "fallthrough", VERDICT_CARRIED, "names that are not here are looked up as all others" },
};

/* `ADDRESS NAME...`, a line of a hosts file. */
static void
read_host(struct scope *scope, const struct corefile_line *line)
{
	char *names = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&names, &len);
	bool wrong = line->count < 2;
	for (size_t i = 1; i < line->count; i++) {
		char name[CONF_HOST_MAX];
		const char *why;
		if (conf_name_parse(line->words[i], name, &why) < 0)
			wrong = true;
		else
			fprintf(f, " %s", name);
	}
	fclose(f);
	if (wrong) {
		report_line(scope->report, line, VERDICT_NONE, "an address and names are wanted");
	} else {
		report_text(scope->report, TEXT_HOSTS, "%s%s", line->words[0], names);
		report_line(
		    scope->report, line, VERDICT_CARRIED, "a line of the ConfigMap's key hosts");
	}
	free(names);
}

/* hosts [FILE [ZONE...]] { ... } */
void
plugin_hosts(struct scope *scope, const struct corefile_directive *d)
{
	bool falls = false;
	for (size_t i = 0; i < d->body_count; i++)
		falls = falls || strcmp(d->body[i].words[0], "fallthrough") == 0;
	if (d->head.count > 1 && strchr(d->head.words[1], '/'))
		report_line(scope->report, &d->head, VERDICT_CHANGES,
		    "put the file's lines into the ConfigMap's key hosts%s",
		    falls ? ""
			  : "; a name that is not there is looked up as all others, where CoreDNS "
			    "said NXDOMAIN");
	else
		report_line(scope->report, &d->head, falls ? VERDICT_CARRIED : VERDICT_CHANGES,
		    "the ConfigMap's key hosts%s",
		    falls ? ""
			  : "; a name that is not there is looked up as all others, where CoreDNS "
			    "said NXDOMAIN");
	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *line = &d->body[i];
		struct addr addr;
		if (addr_parse(line->words[0], &addr) == 0)
			read_host(scope, line);
		else if (!plugins_option(scope->report, line, hosts_options,
			     sizeof hosts_options / sizeof *hosts_options))
			report_line(scope->report, line, VERDICT_NONE,
			    "neither an address and names nor an option of hosts");
	}
}

/* The word after `name` in the directive's block, or NULL. */
static const char *
body_value(const struct corefile_directive *d, const char *name)
{
	for (size_t i = 0; i < d->body_count; i++)
		if (strcmp(d->body[i].words[0], name) == 0 && d->body[i].count > 1)
			return d->body[i].words[1];
	return NULL;
}

/* Copies the address of `answer "{{ .Name }} 60 IN A 192.0.2.1"` to `text`; false if there is none
 * or it depends on the question. */
static bool
constant_address(const char *answer, char text[ADDR_TEXT_MAX])
{
	struct addr addr;
	const char *last = answer ? strrchr(answer, ' ') : NULL;
	if (last == NULL || strstr(last, "{{") || addr_parse(last + 1, &addr) < 0)
		return false;
	addr_format(&addr, text);
	return true;
}

static void
template_body(struct scope *scope, const struct corefile_directive *d, enum verdict verdict)
{
	for (size_t i = 0; i < d->body_count; i++)
		report_line(scope->report, &d->body[i], verdict, "part of the template above");
}

/* One address for a zone and all names below it (NULL: they do not exist). */
static void
give_all(struct scope *scope, const char *name, const char *address)
{
	char *zone = plugins_zone(name);
	if (address == NULL) {
		report_flag(scope->report, PROGRAM_DNSMASQ, "--address=/%s/", zone);
	} else {
		const char *type = strchr(address, ':') ? "AAAA" : "A";
		report_text(scope->report, TEXT_RECORDS, "%s %s %s", zone, type, address);
		report_text(scope->report, TEXT_RECORDS, "*.%s %s %s", zone, type, address);
	}
	free(zone);
}

/* template CLASS TYPE [ZONE...] { ... } */
void
plugin_template(struct scope *scope, const struct corefile_directive *d)
{
	const struct corefile_line *line = &d->head;
	const char *type = line->count > 2 ? line->words[2] : "";
	const char *rcode = body_value(d, "rcode"), *match = body_value(d, "match");
	const char *answer = body_value(d, "answer");
	size_t zones = line->count > 3 ? line->count - 3 : scope->count;
	char **names = line->count > 3 ? line->words + 3 : scope->zones;
	char address[ADDR_TEXT_MAX];
	bool any = strcasecmp(type, "ANY") == 0, everything = true, below = true;
	for (size_t i = 0; i < zones; i++) {
		char *zone = plugins_zone(names[i]);
		everything = everything && zone && strcmp(zone, ".") == 0;
		below = below && zone && strcmp(zone, ".") != 0 &&
			!plugins_in_cluster(scope->report, zone);
		free(zone);
	}
	everything = everything && (match == NULL || strcmp(match, ".*") == 0);
	bool constant = constant_address(answer, address);
	bool denies = answer == NULL && rcode && strcasecmp(rcode, "NXDOMAIN") == 0 && any;
	enum verdict verdict = VERDICT_CHANGES;
	if (answer == NULL && strcasecmp(type, "AAAA") == 0 && everything) {
		report_flag(scope->report, PROGRAM_DNSMASQ, "--filter-AAAA");
		report_line(scope->report, line, verdict,
		    "dnsmasq's --filter-AAAA: NOERROR without an address for every name outside; "
		    "the "
		    "cluster's Services have AAAA only where they have an IPv6 address");
	} else if (match == NULL && below && zones > 0 && (denies || constant)) {
		for (size_t i = 0; i < zones; i++)
			give_all(scope, names[i], denies ? NULL : address);
		report_line(scope->report, line, verdict, "%s",
		    denies
			? "dnsmasq's --address=/ZONE/: no such name, for the zone and all below it"
			: "the ConfigMap's key records, for the zone and all names below it");
	} else {
		verdict = VERDICT_NONE;
		report_line(scope->report, line, verdict,
		    "answers that depend on the question: " PLUGIN_KEEP_COREDNS);
	}
	template_body(scope, d, verdict);
}
