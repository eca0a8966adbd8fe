/*
 * CoreDNS's `template`: constant answers as lines of the ConfigMap's key records, denials as a flag of
 * dnsmasq. The names that it holds for are zones, or what a simple pattern says:
 *
 *	^(.*\.)?apps\.example\.com\.$	apps.example.com and all below it
 *	.*\.apps\.example\.com		all below it
 *	^db\.example\.com\.$		the name alone
 */
#include <stdlib.h>
#include <string.h>

#include "lib/conf_records.h"
#include "lib/xalloc.h"
#include "migrate/plugins.h"

struct names {
	char name[CONF_HOST_MAX];
	bool itself, below;
};

/* Skips one of `prefixes` at `*text`; its place in the list, or -1. */
static int
skip(const char **text, const char *const *prefixes)
{
	for (int i = 0; prefixes[i] != NULL; i++)
		if (strncmp(*text, prefixes[i], strlen(prefixes[i])) == 0) {
			*text += strlen(prefixes[i]);
			return i;
		}
	return -1;
}

/* Reads a pattern that is a name with a prefix for what is below it; false: another one. */
static bool
read_match(const char *match, struct names *names)
{
	static const char *const wholes[] = { "(^|[.])", "(^|\\.)", "(.*\\.)?", "(.*[.])?",
		"(?:.*\\.)?", NULL };
	static const char *const below[] = { ".*\\.", "(.*)\\.", ".+\\.", "(.+)\\.", ".*[.]",
		"(.*)[.]", "(.+)[.]", "(.*\\.)", "(?:.*\\.)", NULL };
	static const char *const dots[] = { "\\.", "[.]", NULL };
	bool anchored = *match == '^';
	size_t len = 0;
	match += anchored;
	*names = (struct names){ .itself = true };
	if (skip(&match, wholes) >= 0)
		names->below = true;
	else if (skip(&match, below) >= 0)
		*names = (struct names){ .below = true };
	else if (!anchored)
		return false;
	while (*match != '\0' && len + 2 < sizeof names->name) {
		if (skip(&match, dots) >= 0) {
			if (*match == '?' || *match == '$' || *match == '\0') {
				match += *match == '?';
				break;
			}
			names->name[len++] = '.';
		} else if (strchr("$.*+?()[]{}|\\^", *match) == NULL) {
			names->name[len++] = *match++;
		} else {
			break;
		}
	}
	return len > 0 && (*match == '\0' || strcmp(match, "$") == 0);
}

/* The words of `answer "{{ .Name }} 60 IN A 192.0.2.1"` behind the name, if nothing in them depends on the
 * query: `60 A 192.0.2.1`. Caller frees; NULL: there is no such answer. */
static char *
constant_answer(const char *answer)
{
	const char *rest = answer != NULL ? strstr(answer, "}}") : NULL;

	if (rest == NULL || answer[strspn(answer, " ")] != '{')
		return NULL;
	rest += 2;
	rest += strspn(rest, ".");
	if (strstr(rest, "{{") != NULL || strpbrk(rest, "\n\r") != NULL)
		return NULL;
	rest += strspn(rest, " \t");
	return xstrdup(rest);
}

/* One template, while it is read. */
struct templ {
	struct scope *scope;
	const struct corefile_directive *d;
	struct zone_set *zones;
	const char *match;
	char *answer; /* constant, or NULL */
	const char *problem;
};

/* Adds a record; false, with `problem`, if the key records does not take it. */
static bool
give(struct templ *t, const char *prefix, const char *name)
{
	struct conf_records records;
	struct report *r = t->scope->report;
	char *why = NULL, *line = xasprintf("%s%s. %s", prefix, name, t->answer);
	bool good =
	    report_text_count(r, TEXT_RECORDS) < CONF_RECORDS_MAX &&
	    conf_records_parse(line, strlen(line), report_known_domain(r), &records, &why) == 0;

	if (good) {
		conf_records_free(&records);
		report_text(r, TEXT_RECORDS, "%s", line);
	} else {
		t->problem = "the key records does not take this answer";
	}
	free(why);
	free(line);
	return good;
}

static bool
give_names(struct templ *t, const struct names *names)
{
	if (t->answer == NULL) {
		report_flag(t->scope->report, PROGRAM_DNSMASQ, "--address=/%s%s/",
		    names->itself ? "" : "*.", names->name);
		return true;
	}
	return (!names->itself || give(t, "", names->name)) &&
	       (!names->below || give(t, "*.", names->name));
}

/* The names of the pattern, where the template's zones and the block have them. */
static bool
give_matched(struct templ *t)
{
	struct names names, checked;
	const char *why;

	if (!read_match(t->match, &names))
		return false;
	if (!scope_name(t->scope, t->zones, names.name, checked.name, &why) ||
	    report_in_cluster(t->scope->report, checked.name)) {
		t->problem = "the pattern's names are not below the template's zones";
		return false;
	}
	memcpy(names.name, checked.name, sizeof names.name);
	return (t->answer != NULL || (names.itself && names.below)) && give_names(t, &names);
}

/* Whole zones: of the template, else of the block. */
static bool
give_zones(struct templ *t)
{
	const struct corefile_line *line = &t->d->head;
	size_t count = line->count > 3 ? line->count - 3 : t->scope->count;
	char **words = line->count > 3 ? line->words + 3 : t->scope->zones;
	bool all = count > 0;

	for (size_t i = 0; i < count && all; i++) {
		struct names names = { .itself = true, .below = true };
		char *zone = zone_parse(words[i]);
		const char *why;

		all = zone != NULL && strcmp(zone, ".") != 0 &&
		      !report_in_cluster(t->scope->report, zone) &&
		      scope_name(t->scope, t->zones, zone, names.name, &why) &&
		      give_names(t, &names);
		free(zone);
	}
	return all;
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

/* Whether the template has an answer besides its first: more than one record, or other sections. */
static bool
has_more(const struct corefile_directive *d)
{
	unsigned answers = 0;

	for (size_t i = 0; i < d->body_count; i++) {
		const char *option = d->body[i].words[0];

		answers += strcmp(option, "answer") == 0;
		if (strcmp(option, "authority") == 0 || strcmp(option, "additional") == 0)
			return true;
	}
	return answers > 1;
}

/* AAAA of every name, without an answer. */
static void
filter_aaaa(struct scope *scope, const struct corefile_line *line)
{
	bool front = report_topology(scope->report) == TOPOLOGY_FRONT;

	if (front)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--filter-aaaa=on");
	else
		report_flag(scope->report, PROGRAM_DNSMASQ, "--filter-AAAA");
	report_line(scope->report, line, VERDICT_CHANGES,
	    "%s: NOERROR without an address for every name outside; the cluster's Services have "
	    "AAAA "
	    "only where they have an IPv6 address",
	    front ? "kubedns's --filter-aaaa=on" : "dnsmasq's --filter-AAAA");
}

static enum verdict
translate(struct templ *t)
{
	struct scope *scope = t->scope;
	const struct corefile_line *line = &t->d->head;
	const char *type = line->count > 2 ? line->words[2] : "";
	const char *rcode = body_value(t->d, "rcode"), *answer = body_value(t->d, "answer");
	bool everything =
	    t->match == NULL || strcmp(t->match, ".*") == 0 || strcmp(t->match, ".") == 0;
	bool denies = answer == NULL && rcode != NULL && strcasecmp(rcode, "NXDOMAIN") == 0;
	bool any = strcasecmp(type, "ANY") == 0;

	if (answer == NULL && strcasecmp(type, "AAAA") == 0 && everything &&
	    zone_set_has(t->zones, ".") && zone_set_has(scope->set, ".")) {
		filter_aaaa(scope, line);
		return VERDICT_CHANGES;
	}
	if (!has_more(t->d) && (t->answer != NULL || (denies && any)) &&
	    (everything ? give_zones(t) : give_matched(t))) {
		report_line(scope->report, line, VERDICT_CHANGES, "%s",
		    denies
			? "dnsmasq's --address=/ZONE/: no such name, for the zone and all below it"
			: "the ConfigMap's key records, for the names of the template, which have "
			  "no other records then");
		return VERDICT_CHANGES;
	}
	if (denies && t->match != NULL) {
		report_line(scope->report, line, VERDICT_CHANGES,
		    "left out: no denials by pattern. Such a name is looked up as all others are, "
		    "and "
		    "does not exist if its servers say so");
		return VERDICT_CHANGES;
	}
	report_line(scope->report, line, VERDICT_NONE, "%s: " KEEP_COREDNS,
	    t->problem != NULL ? t->problem : "answers that depend on the query");
	return VERDICT_NONE;
}

/* template CLASS TYPE [ZONE...] { ... } */
void
plugin_template(struct scope *scope, const struct corefile_directive *d)
{
	struct templ t = { .scope = scope,
		.d = d,
		.zones = scope_zones(scope, &d->head, 3),
		.match = body_value(d, "match"),
		.answer = constant_answer(body_value(d, "answer")) };
	enum verdict verdict = translate(&t);

	for (size_t i = 0; i < d->body_count; i++)
		report_line(scope->report, &d->body[i], verdict, "part of the template above");
	zone_set_free(t.zones);
	free(t.answer);
}
