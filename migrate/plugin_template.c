/*
 * CoreDNS's `template`. Constant answers become lines of the ConfigMap key records. Denials become
 * a flag of dnsmasq. A template applies to zones, or to the names of a simple pattern:
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

/* The number of the block's zones that are compared with each zone of a template. */
enum { ZONES_MAX = 100 };

struct names {
	char name[CONF_HOST_MAX];
	bool itself, below;
};

/* Skips one of `prefixes` at `*text`. Returns its index, or -1. */
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

/* Reads a pattern that is a name with an optional prefix. The prefix matches names below the name.
 * Returns false if it is another kind of pattern. */
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

/*
 * Returns the words after the name in `answer "{{ .Name }} 60 IN A 192.0.2.1"`, such as `60 A
 * 192.0.2.1`. Returns NULL if there is no answer, or if the answer depends on the query. Caller
 * frees.
 */
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

/* The template that is being read. */
struct templ {
	struct scope *scope;
	const struct corefile_directive *d;
	struct zone_set *zones;
	const char *match;
	char *answer; /* the constant answer, or NULL */
	const char *problem;
	bool shared;     /* another server block has a zone below one of the names */
	bool stub;       /* one of the names is a stub domain, whose servers dnsmasq queries */
	bool pierced;    /* kubedns gets queries for names below one of the names */
	char *uncovered; /* see scope_uncovered() */
};

bool
plugin_has_names_in(const struct corefile_block *block, const char *domain)
{
	char name[CONF_HOST_MAX];
	const char *why;
	unsigned left = 1000;

	for (size_t i = 0; i < block->count; i++) {
		const struct corefile_directive *d = &block->directives[i];

		if (strcmp(d->head.words[0], "hosts") != 0 &&
		    strcmp(d->head.words[0], "rewrite") != 0)
			continue;
		for (size_t k = 0; k <= d->body_count; k++) {
			const struct corefile_line *line = k > 0 ? &d->body[k - 1] : &d->head;

			for (size_t n = 1; n < line->count; n++)
				if (left-- == 0 ||
				    (conf_name_parse(line->words[n], name, &why) == 0 &&
					conf_name_under(name, domain)))
					return true;
		}
	}
	return false;
}

/* Adds a record. If the ConfigMap key records does not accept the record, sets `problem` and
 * returns false. */
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
		t->problem = "the key records does not accept this answer";
	}
	free(why);
	free(line);
	return good;
}

/* Returns the flag after the nanny's `--` that denies a domain. With unbound, the nanny ignores --address. */
static const char *
denial_flag(const struct scope *scope)
{
	return report_is_unbound(scope->report) ? "local" : "address";
}

static bool
give_names(struct templ *t, const struct names *names)
{
	t->shared |=
	    names->below && blocks_has_below(t->scope->blocks, t->scope->block, names->name);
	if (t->answer == NULL) {
		t->pierced |= report_topology(t->scope->report) == TOPOLOGY_CLASSIC &&
			      plugin_has_names_in(t->scope->block, names->name);
		report_flag(t->scope->report, PROGRAM_DNSMASQ, "--%s=/%s%s/", denial_flag(t->scope),
		    names->itself ? "" : "*.", names->name);
		return true;
	}
	t->stub |= report_topology(t->scope->report) == TOPOLOGY_CLASSIC && names->itself &&
		   plugin_forward_makes_stub(t->scope, names->name);
	if (t->uncovered == NULL || *t->uncovered == '\0') {
		free(t->uncovered);
		t->uncovered = scope_uncovered(t->scope, names->name, !names->below);
	}
	return (!names->itself || give(t, "", names->name)) &&
	       (!names->below || give(t, "*.", names->name));
}

/* Adds the names of the pattern if the template's zones and the block contain these names. */
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

/* Adds whole zones: the template's zones or, if the template has none, the block's zones. */
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

/* Returns the word after `name` in a line of the directive's block, or NULL. */
static const char *
body_value(const struct corefile_directive *d, const char *name)
{
	for (size_t i = 0; i < d->body_count; i++)
		if (strcmp(d->body[i].words[0], name) == 0 && d->body[i].count > 1)
			return d->body[i].words[1];
	return NULL;
}

static bool
has_option(const struct corefile_directive *d, const char *name)
{
	for (size_t i = 0; i < d->body_count; i++)
		if (strcmp(d->body[i].words[0], name) == 0)
			return true;
	return false;
}

/* Whether the template has more than one answer record, or records in other sections. */
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

/* Handles a template that returns no AAAA records for any name. */
static enum verdict
filter_aaaa(struct scope *scope, const struct corefile_line *line)
{
	bool front = report_topology(scope->report) == TOPOLOGY_FRONT;

	if (!front && report_is_unbound(scope->report)) {
		report_line(scope->report, line, VERDICT_NONE,
		    "no filter in the classic topology with unbound: use the front topology, where "
		    "kubedns's --filter-aaaa=on does it");
		return VERDICT_NONE;
	}
	char *others = blocks_zones_inside(scope->blocks, scope->block);
	if (!front && *others != '\0') {
		report_line(scope->report, line, VERDICT_NONE,
		    "left out: it is not for the zones of the other server blocks, and dnsmasq's "
		    "--filter-AAAA is for all names. In the front topology, kubedns's "
		    "--filter-aaaa=on with --filter-except does it");
		free(others);
		return VERDICT_NONE;
	}
	if (front)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--filter-aaaa=on");
	else
		report_flag(scope->report, PROGRAM_DNSMASQ, "--filter-AAAA");
	if (*others != '\0')
		report_flag(scope->report, PROGRAM_KUBEDNS, "--filter-except=%s", others);
	report_line(scope->report, line, VERDICT_CHANGES,
	    "%s: NODATA for every external name%s; Services have AAAA records only if they have an "
	    "IPv6 address",
	    front ? "kubedns's --filter-aaaa=on" : "dnsmasq's --filter-AAAA",
	    *others != '\0' ? ", but names in zones of other server blocks (--filter-except)" : "");
	free(others);
	return VERDICT_CHANGES;
}

/* Returns the template's names as a part of a sentence. Caller frees. */
static char *
names_text(const struct templ *t)
{
	const struct corefile_line *line = &t->d->head;
	size_t count = line->count > 3 ? line->count - 3 : t->scope->count, len = 0;
	char **zones = line->count > 3 ? line->words + 3 : t->scope->zones;
	char *text = NULL;
	FILE *f = open_memstream(&text, &len);

	fputs(zone_set_has(t->zones, ".") ? "all names" : "names in ", f);
	for (size_t i = 0; i < count && !zone_set_has(t->zones, "."); i++) {
		fprintf(f, "%s%.80s", i > 0 ? ", " : "", zones[i]);
		if (ftell(f) > 200 && i + 1 < count) {
			fputs(", ...", f);
			break;
		}
	}
	if (zone_set_has(t->zones, ".") && !zone_set_has(t->scope->set, "."))
		fputs(" in this server block", f);
	if (t->match != NULL)
		fprintf(f, " that match %.120s", t->match);
	fclose(f);
	return text;
}

/* Returns why the template is not translated. */
static const char *
problem_text(const struct templ *t, bool denies)
{
	if (t->problem != NULL)
		return t->problem;
	if (denies && t->match != NULL)
		return "kubedns has no negative answers by pattern";
	if (has_more(t->d))
		return "it has more than one record";
	if (body_value(t->d, "answer") == NULL)
		return "it has no record, and kubedns cannot return only a code for one type";
	return "the answer depends on the query, or the pattern is not a name";
}

/* Returns the end of a sentence if the pattern also matches names that have more labels after its end. */
static const char *
goes_on(const char *match)
{
	size_t len = match != NULL ? strlen(match) : 0;
	bool open =
	    len > 0 && strcmp(match, ".*") != 0 && strcmp(match, ".") != 0 && match[len - 1] != '$';

	return open ? "; CoreDNS also answered names that go on after the end of the pattern" : "";
}

/* Reports a template whose records are in the key records. */
static void
report_records(const struct templ *t, const struct corefile_line *line)
{
	long limit = plugin_cache_limit(t->scope->block),
	     ttl = t->answer != NULL ? strtol(t->answer, NULL, 10) : 0;
	char *names = names_text(t), *limited = limit < ttl ? xasprintf("; CoreDNS's cache limits "
									"the TTL to %ld s",
								  limit)
							    : xstrdup("");

	report_line(t->scope->report, line, VERDICT_CHANGES,
	    "the ConfigMap's key records, for %s. These names then have no records of other types; "
	    "CoreDNS looked them up%s%s%s%s%s",
	    names,
	    t->shared ? ". The records also answer names in zones of other server blocks" : "",
	    t->stub ? ". In the classic topology, the servers of the stub domain answer the zone's "
		      "own name"
		    : "",
	    t->uncovered != NULL ? t->uncovered : "", goes_on(t->match), limited);
	free(names);
	free(limited);
}

/* Whether CoreDNS passes no query for names in the template's zones to this block, and no rewrite of the block makes
 * such names. */
static bool
is_outside(const struct templ *t)
{
	const struct corefile_line *line = &t->d->head;
	const struct scope *scope = t->scope;
	bool outside =
	    line->count > 3 && scope->count <= ZONES_MAX && scope->block->count <= NEIGHBOURS_MAX;

	for (size_t i = 3; i < line->count && outside; i++) {
		char *zone = zone_parse(line->words[i]);

		outside = zone != NULL && !scope_serves(scope, zone);
		for (size_t k = 0; outside && k < scope->count; k++)
			outside = strcmp(zone, ".") != 0 && !conf_name_under(scope->zones[k], zone);
		free(zone);
	}
	return outside && !plugin_rewrite_leads_to(scope->block, t->zones);
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

	if (is_outside(t)) {
		report_line(scope->report, line, VERDICT_CARRIED,
		    "left out: CoreDNS passes no query for these names to this server block");
		return VERDICT_CARRIED;
	}
	if (answer == NULL && strcasecmp(type, "AAAA") == 0 && everything &&
	    zone_set_has(t->zones, ".") && zone_set_has(scope->set, ".")) {
		return filter_aaaa(scope, line);
	}
	if (!has_more(t->d) && (t->answer != NULL || (denies && any)) &&
	    (everything ? give_zones(t) : give_matched(t))) {
		enum verdict denied = everything && !t->pierced && !has_option(t->d, "fallthrough")
					  ? VERDICT_CARRIED
					  : VERDICT_CHANGES;

		if (denies)
			report_line(scope->report, line, denied,
			    "%s's --%s=/ZONE/: NXDOMAIN for the zone and all names below it%s%s",
			    flags_owner(scope->report), denial_flag(scope),
			    t->pierced ? ", but not for names below those of hosts and rewrite: "
					 "kubedns forwards them"
				       : "",
			    goes_on(t->match));
		else
			report_records(t, line);
		return denies ? denied : VERDICT_CHANGES;
	}
	enum verdict verdict = denies && t->match != NULL ? VERDICT_CHANGES : VERDICT_NONE;
	char *names = names_text(t);
	report_line(scope->report, line, verdict,
	    "not translated: %s. These names are looked up like any other name; CoreDNS answered "
	    "%s queries for %s%s",
	    problem_text(t, denies), any || *type == '\0' ? "all" : type, names,
	    verdict == VERDICT_NONE ? ". To keep the answers, " KEEP_COREDNS : "");
	free(names);
	return verdict;
}

/* Notes that the template answers the name and, if `wildcard` is set, that the key records has a wildcard below it. */
static void
plan_name(struct scope *scope, const struct corefile_directive *d, const char *name, bool wildcard)
{
	if (wildcard && scope_serves(scope, name))
		zone_set_put(scope->wildcards, name, d->head.line);
	zone_set_put(scope->templates, name, d->head.line);
	for (const char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot + 1, '.'))
		zone_set_put(scope->above_templates, dot + 1, d->head.line);
}

void
plugin_template_plan(struct scope *scope, const struct corefile_directive *d)
{
	const char *match = body_value(d, "match");
	struct names names;

	if (body_value(d, "answer") == NULL && body_value(d, "rcode") == NULL)
		return;
	char *answer = constant_answer(body_value(d, "answer"));
	bool records = answer != NULL && !has_more(d);
	free(answer);
	if (match != NULL && strcmp(match, ".*") != 0 && strcmp(match, ".") != 0) {
		if (read_match(match, &names))
			plan_name(scope, d, names.name, names.below && records);
		return;
	}
	for (size_t i = 0; d->head.count <= 3 && i < scope->count; i++)
		if (strcmp(scope->zones[i], ".") != 0)
			plan_name(scope, d, scope->zones[i], records);
	for (size_t i = 3; i < d->head.count; i++) {
		char *zone = zone_parse(d->head.words[i]);

		/* A template for all names is about a type, such as AAAA. */
		if (zone != NULL && strcmp(zone, ".") != 0)
			plan_name(scope, d, zone, records);
		free(zone);
	}
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
	free(t.uncovered);
}
