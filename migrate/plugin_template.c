/*
 * CoreDNS's `template`. Constant answers become lines of the ConfigMap key records. Denials become
 * a flag of dnsmasq. A template applies to zones, or to the names of a simple pattern:
 *
 *	^(.*\.)?apps\.example\.com\.$	apps.example.com and all below it
 *	.*\.apps\.example\.com		all below it
 *	^db\.example\.com\.$		the name alone
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf_records.h"
#include "lib/xalloc.h"
#include "migrate/pattern.h"
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
	if (pattern_matches_nothing(match))
		return false;
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

/* Whether the template has more records than one answer. */
static bool
has_more(const struct corefile_directive *d)
{
	size_t answers = 0;
	bool others = false;

	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *line = &d->body[i];

		answers += strcmp(line->words[0], "answer") == 0 ? line->count - 1 : 0;
		others = others || strcmp(line->words[0], "authority") == 0 ||
			 strcmp(line->words[0], "additional") == 0;
	}
	return answers > 1 || (answers == 1 && others);
}

static size_t
count_patterns(const struct corefile_directive *d)
{
	size_t count = 0;

	for (size_t i = 0; i < d->body_count; i++)
		count += strcmp(d->body[i].words[0], "match") == 0 ? d->body[i].count - 1 : 0;
	return count;
}

/* Whether the template has patterns, and none of them matches a name. */
static bool
never_matches(const struct corefile_directive *d)
{
	bool never = count_patterns(d) > 0;

	for (size_t i = 0; i < d->body_count && never; i++)
		for (size_t k = 1; k < d->body[i].count && never; k++)
			never = strcmp(d->body[i].words[0], "match") != 0 ||
				pattern_matches_nothing(d->body[i].words[k]);
	return never;
}

/* Whether the template has an option of unknown meaning, such as `expr`, which is a condition. */
static bool
has_unknown(const struct corefile_directive *d)
{
	static const char *const known[] = { "match", "answer", "additional", "authority", "rcode",
		"ederror", "fallthrough", "upstream" };
	bool all = true;

	for (size_t i = 0; i < d->body_count && all; i++) {
		bool found = false;

		for (size_t k = 0; k < sizeof known / sizeof *known && !found; k++)
			found = strcmp(d->body[i].words[0], known[k]) == 0;
		all = found;
	}
	return !all;
}

/* Whether the template has no pattern, or one that matches all names. */
static bool
matches_everything(const struct corefile_directive *d)
{
	const char *match = body_value(d, "match");

	return match == NULL || strcmp(match, ".*") == 0 || strcmp(match, ".") == 0;
}

static const char *
query_type(const struct corefile_directive *d)
{
	return d->head.count > 2 ? d->head.words[2] : "";
}

static bool
is_for_any_type(const struct corefile_directive *d)
{
	return strcasecmp(query_type(d), "ANY") == 0;
}

static bool
is_denial(const struct corefile_directive *d)
{
	const char *rcode = body_value(d, "rcode");

	return body_value(d, "answer") == NULL && rcode != NULL && !has_unknown(d) &&
	       strcasecmp(rcode, "NXDOMAIN") == 0;
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

/* Copies the type in the words of constant_answer(): the first word that is neither a TTL nor a class. */
static void
record_type(const char *answer, char type[16])
{
	size_t len;

	for (*type = '\0'; *answer != '\0'; answer += len + strspn(answer + len, " \t")) {
		len = strcspn(answer, " \t");
		if (isdigit((unsigned char)*answer) ||
		    (len == 2 && strncasecmp(answer, "IN", 2) == 0))
			continue;
		snprintf(type, 16, "%.*s", (int)(len < 15 ? len : 15), answer);
		return;
	}
}

static bool
is_alias(const char *answer)
{
	char type[16];

	record_type(answer, type);
	return strcasecmp(type, "CNAME") == 0;
}

/* The TTL of an answer without one in CoreDNS, in seconds. */
#define COREDNS_ANSWER_TTL "3600"

/* Returns the constant answer of a template that can become a record, with its TTL first, or NULL. Caller frees. */
static char *
answer_of(const struct corefile_directive *d)
{
	char *answer =
	    has_more(d) || has_unknown(d) ? NULL : constant_answer(body_value(d, "answer"));
	char type[16];

	if (answer == NULL)
		return NULL;
	record_type(answer, type);
	if (!is_for_any_type(d) && strcasecmp(type, query_type(d)) != 0 && !is_alias(answer)) {
		free(answer);
		return NULL;
	}
	const char *in = strncasecmp(answer, "IN ", 3) == 0 ? answer + 3 : answer;
	if (isdigit((unsigned char)*answer))
		return answer;
	char *whole =
	    isdigit((unsigned char)*in) ? xstrdup(in) : xasprintf(COREDNS_ANSWER_TTL " %s", answer);
	free(answer);
	return whole;
}

/* Finds the names of the template: the name in its pattern, or its zone number `i`. Returns false if there is none. */
static bool
find_names(
    const struct scope *scope, const struct corefile_directive *d, size_t i, struct names *names)
{
	const struct corefile_line *line = &d->head;
	size_t at = line->count > 3 ? i + 3 : i,
	       count = line->count > 3 ? line->count : scope->count;

	if (!matches_everything(d))
		return i == 0 && count_patterns(d) == 1 &&
		       read_match(body_value(d, "match"), names);
	*names = (struct names){ .itself = true, .below = true };
	if (at >= count)
		return false;
	char *zone = zone_parse(line->count > 3 ? line->words[at] : scope->zones[at]);
	snprintf(names->name, sizeof names->name, "%s", zone != NULL ? zone : "");
	free(zone);
	return true;
}

/* Whether `a` has all names of `b`. */
static bool
contains(const struct names *a, const struct names *b)
{
	if (strcmp(a->name, b->name) == 0)
		return (a->itself || !b->itself) && (a->below || !b->below);
	return a->below && *a->name != '\0' && conf_name_under(b->name, a->name);
}

/* The template that is being read. */
struct templ {
	struct scope *scope;
	const struct corefile_directive *d;
	struct zone_set *zones;
	const char *match;
	char *answer; /* the constant answer, or NULL */
	const char *problem;
	bool shared;  /* another server block has a zone below one of the names */
	bool stub;    /* one of the names is a stub domain, whose servers dnsmasq queries */
	bool pierced; /* kubedns gets queries for names below one of the names */
	char forwarded[CONF_HOST_MAX]; /* a name that has a `forward` of its own, or "" */
	char *uncovered;               /* see scope_uncovered() */
};

/* Whether the directive is a template for one name in the domain, without the names below it. */
static bool
is_one_name_in(const struct corefile_directive *d, const char *domain)
{
	struct names names;

	return strcmp(d->head.words[0], "template") == 0 && !matches_everything(d) &&
	       count_patterns(d) == 1 && read_match(body_value(d, "match"), &names) &&
	       !names.below && conf_name_under(names.name, domain);
}

bool
plugin_has_names_in(const struct corefile_block *block, const char *domain)
{
	char name[CONF_HOST_MAX];
	const char *why;
	unsigned left = 1000;

	for (size_t i = 0; i < block->count; i++) {
		const struct corefile_directive *d = &block->directives[i];

		if (left-- == 0 || is_one_name_in(d, domain))
			return true;
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
	if (names->below && *t->forwarded == '\0')
		plugin_forward_has_below(t->scope->block, names->name, t->forwarded);
	if (t->uncovered == NULL || *t->uncovered == '\0') {
		free(t->uncovered);
		t->uncovered = scope_uncovered(t->scope, names->name,
		    !names->below    ? NAMES_ITSELF
		    : !names->itself ? NAMES_BELOW
				     : NAMES_ALL);
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

	if (count_patterns(t->d) > 1) {
		t->problem = "it has several patterns";
		return false;
	}
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

/* Whether CoreDNS passes no query for names in the zone to this block. */
static bool
is_elsewhere(const struct scope *scope, const char *zone)
{
	bool elsewhere =
	    strcmp(zone, ".") != 0 && scope->count <= ZONES_MAX && !scope_serves(scope, zone);

	for (size_t k = 0; elsewhere && k < scope->count; k++)
		elsewhere = !conf_name_under(scope->zones[k], zone);
	return elsewhere;
}

/* Adds whole zones: the template's zones or, if the template has none, the block's zones. */
static bool
give_zones(struct templ *t)
{
	const struct scope *scope = t->scope;
	struct names names, checked;
	bool all = true, some = false;
	const char *why;

	for (size_t i = 0; all && find_names(scope, t->d, i, &names); i++)
		all = *names.name != '\0' && strcmp(names.name, ".") != 0 &&
		      !report_in_cluster(scope->report, names.name) &&
		      (is_elsewhere(scope, names.name) ||
			  scope_name(scope, t->zones, names.name, checked.name, &why));
	for (size_t i = 0; all && find_names(scope, t->d, i, &names); i++) {
		if (is_elsewhere(scope, names.name))
			continue;
		all = give_names(t, &names);
		some = true;
	}
	return all && some;
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
	if (has_unknown(t->d))
		return "it has an option that kubedns does not have";
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

/* Returns the end of a sentence if names beside those of the pattern get no answer in CoreDNS. */
static const char *
others_fail(const struct templ *t)
{
	return matches_everything(t->d) || plugin_falls_through(t->scope, t->d, 3)
		   ? ""
		   : "; CoreDNS returns SERVFAIL for names that do not match, because the template "
		     "has no fallthrough. Here they are looked up like any other name";
}

/* The number of names that are compared with those of other templates. */
enum { COMPARED_MAX = 100000 };

/*
 * Finds a template of the block for which `test` is true, with names of both templates. Looks only at templates before this one if
 * `before` is set. Returns its line, or 0.
 */
static unsigned
find_template(const struct templ *t, bool before,
    bool (*test)(const struct templ *t, const struct names *own,
	const struct corefile_directive *other, const struct names *names))
{
	const struct corefile_block *block = t->scope->block;
	unsigned left = COMPARED_MAX;

	for (size_t n = 0; n < block->count && n < NEIGHBOURS_MAX; n++) {
		const struct corefile_directive *other = &block->directives[n];
		struct names own, names;

		if (other == t->d && before)
			break;
		if (other == t->d || strcmp(other->head.words[0], "template") != 0)
			continue;
		for (size_t i = 0; find_names(t->scope, t->d, i, &own); i++)
			for (size_t k = 0; find_names(t->scope, other, k, &names); k++) {
				if (left-- == 0)
					return 0;
				if (test(t, &own, other, &names))
					return other->head.line;
			}
	}
	return 0;
}

/* Whether CoreDNS uses an earlier template for some names for which kubedns uses this one, or the other way round. */
static bool
takes_precedence(const struct templ *t, const struct names *own,
    const struct corefile_directive *other, const struct names *names)
{
	char *answer = answer_of(other);
	bool records = answer != NULL, denial = is_denial(other) && is_for_any_type(other);

	free(answer);
	if (!is_for_any_type(t->d) && !is_for_any_type(other) &&
	    strcasecmp(query_type(t->d), query_type(other)) != 0)
		return false;
	return (contains(names, own) && (records || (denial && t->answer != NULL))) ||
	       (contains(own, names) && denial && t->answer != NULL);
}

/* Returns the end of a sentence if another template has names of this one. Caller frees. */
static char *
precedence_text(const struct templ *t)
{
	unsigned line = find_template(t, true, takes_precedence);

	return line == 0 ? xstrdup("")
			 : xasprintf("; the template in line %u has some of these names too: "
				     "CoreDNS uses the first template for the type of the query, "
				     "kubedns the longest name, and a record before NXDOMAIN",
			       line);
}

/* Whether the other template makes records of another type for all these names. */
static bool
makes_records(const struct templ *t, const struct names *own,
    const struct corefile_directive *other, const struct names *names)
{
	char *answer = answer_of(other);
	bool records = answer != NULL && !is_alias(answer) && !is_for_any_type(other) &&
		       strcasecmp(query_type(t->d), query_type(other)) != 0;

	free(answer);
	return records && contains(names, own);
}

#define NO_OTHERS "These names then have no records of other types; CoreDNS "

/* Returns what queries of other types get. */
static const char *
other_types(const struct templ *t)
{
	bool any = is_for_any_type(t->d);

	if (is_alias(t->answer) && any)
		return "For types other than A and AAAA, kubedns also looks up the target of the "
		       "alias";
	if (is_alias(t->answer))
		return "These names are then aliases for all types; CoreDNS looked other types up";
	return any ? NO_OTHERS "returned this record for all types" : NO_OTHERS "looked them up";
}

/* Reports a template whose records are in the key records. */
static void
report_records(const struct templ *t, const struct corefile_line *line)
{
	long ttl = strtol(t->answer, NULL, 10), cached = plugin_cache_ttl(t->scope->block, ttl);
	char *names = names_text(t),
	     *limited = cached != ttl ? xasprintf("; CoreDNS's cache %s the TTL to %ld s",
					    cached < ttl ? "limits" : "raises", cached)
				      : xstrdup("");
	char *forwarded = *t->forwarded != '\0'
			      ? xasprintf("; names in \"%.80s\" go to the servers of another "
					  "forward, to which CoreDNS sends only other types",
				    t->forwarded)
			      : xstrdup("");
	char *precedence = precedence_text(t);

	report_line(t->scope->report, line, VERDICT_CHANGES,
	    "the ConfigMap's key records, for %s. %s%s%s%s%s%s%s%s%s", names, other_types(t),
	    t->shared ? ". The records also answer names in zones of other server blocks" : "",
	    t->stub ? ". In the classic topology, the servers of the stub domain answer the zone's "
		      "own name"
		    : "",
	    t->uncovered != NULL ? t->uncovered : "", forwarded, precedence, goes_on(t->match),
	    limited, others_fail(t));
	free(precedence);
	free(forwarded);
	free(names);
	free(limited);
}

/* Reports a template that denies its names. */
static enum verdict
report_denial(const struct templ *t, const struct corefile_line *line)
{
	const struct scope *scope = t->scope;
	bool sections = has_option(t->d, "authority") || has_option(t->d, "additional");
	char *precedence = precedence_text(t);

	enum verdict verdict = matches_everything(t->d) && !t->pierced &&
				       !has_option(t->d, "fallthrough") && !sections &&
				       *precedence == '\0'
				   ? VERDICT_CARRIED
				   : VERDICT_CHANGES;
	report_line(scope->report, line, verdict,
	    "%s's --%s=/ZONE/: NXDOMAIN for the zone and all names below it%s%s%s%s%s",
	    flags_owner(scope->report), denial_flag(scope),
	    t->pierced ? ", but not for names below those of hosts, rewrite and template: "
			 "kubedns forwards them"
		       : "",
	    sections ? "; the answer has no record in other sections, so clients may ask again at "
		       "once"
		     : "",
	    precedence, goes_on(t->match), others_fail(t));
	free(precedence);
	return verdict;
}

/* Whether the pattern matches only names that CoreDNS never passes to this block, so the template passes on all queries. */
static bool
matches_elsewhere(const struct templ *t)
{
	struct names names;

	if (matches_everything(t->d) || count_patterns(t->d) != 1 || *goes_on(t->match) != '\0' ||
	    !read_match(t->match, &names) || !is_elsewhere(t->scope, names.name) ||
	    !plugin_falls_through(t->scope, t->d, 3))
		return false;
	struct zone_set *set = zone_set_new();
	zone_set_add(set, names.name);
	bool leads = plugin_rewrite_leads_to(t->scope->block, set);
	zone_set_free(set);
	return !leads;
}

/* Whether CoreDNS passes no query for the template's names to this block, and no rewrite of the block makes such names. */
static bool
is_outside(const struct templ *t)
{
	const struct corefile_line *line = &t->d->head;
	const struct scope *scope = t->scope;
	bool outside = line->count > 3;

	if (scope->block->count > NEIGHBOURS_MAX)
		return false;
	for (size_t i = 3; i < line->count && outside; i++) {
		char *zone = zone_parse(line->words[i]);

		outside = zone != NULL && is_elsewhere(scope, zone);
		free(zone);
	}
	return (outside && !plugin_rewrite_leads_to(scope->block, t->zones)) ||
	       matches_elsewhere(t);
}

/* Whether the template returns only a code for one type, and kubedns returns NOERROR without records because of another
 * template's record. */
static unsigned
finds_records(const struct templ *t)
{
	const char *rcode = body_value(t->d, "rcode");
	bool empty = body_value(t->d, "answer") == NULL && !has_unknown(t->d) &&
		     !is_for_any_type(t->d) &&
		     (rcode == NULL || strcasecmp(rcode, "NOERROR") == 0 || is_denial(t->d));
	struct names names;

	/* With several zones, each may have another template. */
	return empty && !find_names(t->scope, t->d, 1, &names)
		   ? find_template(t, false, makes_records)
		   : 0;
}

static enum verdict
translate(struct templ *t)
{
	struct scope *scope = t->scope;
	const struct corefile_line *line = &t->d->head;
	const char *type = query_type(t->d);
	bool everything = matches_everything(t->d), denies = is_denial(t->d);
	bool any = is_for_any_type(t->d);
	unsigned records;

	if (is_outside(t)) {
		report_line(scope->report, line, VERDICT_CARRIED,
		    "left out: CoreDNS passes no query for these names to this server block");
		return VERDICT_CARRIED;
	}
	if (never_matches(t->d)) {
		const char *others = others_fail(t);
		enum verdict verdict = *others != '\0' ? VERDICT_CHANGES : VERDICT_CARRIED;

		report_line(scope->report, line, verdict, MATCHES_NOTHING "%s", others);
		return verdict;
	}
	if (body_value(t->d, "answer") == NULL && strcasecmp(type, "AAAA") == 0 && everything &&
	    !has_unknown(t->d) && zone_set_has(t->zones, ".") && zone_set_has(scope->set, ".")) {
		return filter_aaaa(scope, line);
	}
	if ((t->answer != NULL || (denies && any)) &&
	    (everything ? give_zones(t) : give_matched(t))) {
		if (denies)
			return report_denial(t, line);
		report_records(t, line);
		return VERDICT_CHANGES;
	}
	if ((records = finds_records(t)) != 0) {
		const char *others = others_fail(t);

		enum verdict verdict =
		    denies || *others != '\0' ? VERDICT_CHANGES : VERDICT_CARRIED;
		report_line(scope->report, line, verdict,
		    "NOERROR without records%s, because of the record of the template in line %u%s",
		    denies ? ", not NXDOMAIN" : "", records, others);
		return verdict;
	}
	enum verdict verdict = denies && t->match != NULL ? VERDICT_CHANGES : VERDICT_NONE;
	char *names = names_text(t);
	report_line(scope->report, line, verdict,
	    "not translated: %s. These names are looked up like any other name; CoreDNS answered "
	    "%s queries for %s%s%s",
	    problem_text(t, denies), any || *type == '\0' ? "all" : type, names, others_fail(t),
	    verdict != VERDICT_NONE ? ""
	    : everything && zone_set_has(t->zones, ".")
		? ". To keep the answers, keep CoreDNS: a stub domain cannot be for all names"
		: ". To keep the answers, " KEEP_COREDNS);
	free(names);
	return verdict;
}

/* Notes that the template answers the name. */
static void
plan_name(struct scope *scope, const struct corefile_directive *d, const char *name)
{
	zone_set_put(scope->templates, name, d->head.line);
	for (const char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot + 1, '.'))
		zone_set_put(scope->above_templates, dot + 1, d->head.line);
}

void
plugin_template_plan(struct scope *scope, const struct corefile_directive *d)
{
	struct names names;

	if (body_value(d, "answer") == NULL && body_value(d, "rcode") == NULL)
		return;
	plugin_template_plan_denied(scope->denied, scope->blocks, scope->block, d);
	/* A template for all names is about a type, such as AAAA. */
	for (size_t i = 0; find_names(scope, d, i, &names); i++)
		if (*names.name != '\0' && strcmp(names.name, ".") != 0)
			plan_name(scope, d, names.name);
}

/* Adds the names below which the template answers all names. */
static void
plan_below(struct zone_set *set, const struct blocks *blocks, const struct corefile_block *block,
    const struct corefile_directive *d, bool itself)
{
	struct names names;

	if (matches_everything(d))
		scope_plan_zones(set, blocks, block, &d->head, 3);
	else if (count_patterns(d) == 1 && read_match(body_value(d, "match"), &names) &&
		 names.below && (names.itself || !itself) &&
		 blocks_of_name(blocks, names.name) == block)
		zone_set_put(set, names.name, d->head.line);
}

void
plugin_template_plan_wildcards(struct zone_set *set, const struct blocks *blocks,
    const struct corefile_block *block, const struct corefile_directive *d)
{
	char *answer = answer_of(d);

	if (answer != NULL)
		plan_below(set, blocks, block, d, false);
	free(answer);
}

void
plugin_template_plan_denied(struct zone_set *set, const struct blocks *blocks,
    const struct corefile_block *block, const struct corefile_directive *d)
{
	if (is_denial(d) && is_for_any_type(d))
		plan_below(set, blocks, block, d, true);
}

/* template CLASS TYPE [ZONE...] { ... } */
void
plugin_template(struct scope *scope, const struct corefile_directive *d)
{
	struct templ t = { .scope = scope,
		.d = d,
		.zones = scope_zones(scope, &d->head, 3),
		.match = body_value(d, "match"),
		.answer = answer_of(d) };
	enum verdict verdict = translate(&t);

	for (size_t i = 0; i < d->body_count; i++)
		report_line(scope->report, &d->body[i], verdict, "part of the template above");
	zone_set_free(t.zones);
	free(t.answer);
	free(t.uncovered);
}
