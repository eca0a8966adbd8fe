/* CoreDNS's `rewrite`, as lines of the ConfigMap's key rewrites (lib/conf_rewrites.h). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/conf.h"
#include "lib/conf_rewrites.h"
#include "lib/xalloc.h"
#include "migrate/pattern.h"
#include "migrate/plugins.h"

/* A rewrite `name KIND FROM TO`. */
struct name_rewrite {
	const struct corefile_line *line;
	enum rewrite_kind kind;
	const char *from, *to;
	bool goes_on;  /* the rewrite has `continue`, so later rewrites apply too */
	size_t number; /* index of the directive in its block */
};

/* Returns the index of the word with the kind of the rule: after `rewrite`, `continue` and `stop`. */
static size_t
rule_at(const struct corefile_line *line)
{
	bool mode = line->count > 1 && (strcmp(line->words[1], "continue") == 0 ||
					   strcmp(line->words[1], "stop") == 0);

	return mode ? 2 : 1;
}

/* Parses `name [exact|suffix|regex] FROM TO [answer ...]`, which starts at word `at`. With more than two
 * words after `name`, the first of them is the kind. Returns false if the line is not such a rewrite. */
static bool
parse_line(const struct corefile_line *line, size_t at, struct name_rewrite *w)
{
	size_t count = line->count > at ? line->count - at - 1 : 0;
	const char *kind = count > 2 ? line->words[at + 1] : "exact";
	bool exact = strcasecmp(kind, "exact") == 0, suffix = strcasecmp(kind, "suffix") == 0,
	     pattern = strcasecmp(kind, "regex") == 0;
	size_t names = at + (count > 2 ? 2 : 1);

	if (count < 2 || strcmp(line->words[at], "name") != 0 || !(exact || suffix || pattern))
		return false;
	if (names + 2 < line->count && strcmp(line->words[names + 2], "answer") != 0)
		return false; /* such as `metadata` */
	*w = (struct name_rewrite){ .line = line,
		.kind = pattern  ? REWRITE_PATTERN
			: suffix ? REWRITE_SUFFIX
				 : REWRITE_EXACT,
		.from = line->words[names],
		.to = line->words[names + 1] };
	return true;
}

/* Parses the rewrite of names in a directive, which may be in its block. Returns false if there is none. */
static bool
parse_directive(const struct corefile_directive *d, struct name_rewrite *w)
{
	if (strcmp(d->head.words[0], "rewrite") != 0)
		return false;
	if (d->body_count == 0)
		return parse_line(&d->head, rule_at(&d->head), w);
	for (size_t i = 0; i < d->body_count; i++)
		if (parse_line(&d->body[i], 0, w))
			return true;
	return false;
}

/* Returns `name` as a pattern, with escaped dots. Caller frees. */
static char *
escaped(const char *name)
{
	char *text = xmalloc(2 * strlen(name) + 1), *out = text;

	for (; *name; name++) {
		if (*name == '.')
			*out++ = '\\';
		*out++ = *name;
	}
	*out = '\0';
	return text;
}

/* Writes the zones as alternatives of a pattern, up to the longest pattern. */
static void
write_zones(FILE *f, const char *begin, char *const *zones, size_t count)
{
	for (size_t i = 0; i < count && ftell(f) <= CONF_PATTERN_MAX; i++) {
		char *zone = escaped(zones[i]);

		fprintf(f, "%s%s", i ? "|" : begin, zone);
		free(zone);
	}
	if (count > 0)
		fputs(")$)", f);
}

/* Returns a prefix for a pattern. With this prefix, the pattern only matches names that CoreDNS passes to
 * this block: names in the block's zones, without those in longer zones of other blocks. If the pattern
 * only matches names in `domain`, only zones below or above the domain matter; it may be "". Caller
 * frees. */
static char *
zones_pattern(const struct scope *scope, const char *domain)
{
	char *text = NULL, *others = blocks_zones_inside(scope->blocks, scope->block);
	char **inside = NULL;
	size_t len = 0, count = 0;
	FILE *f = open_memstream(&text, &len);

	if (!zone_set_has(scope->set, ".") &&
	    !(*domain != '\0' && zone_set_covers(scope->set, domain)))
		write_zones(f, "(?=(?:.*\\.)?(?:", scope->zones, scope->count);
	for (char *save = NULL, *zone = strtok_r(others, ",", &save); zone != NULL;
	     zone = strtok_r(NULL, ",", &save)) {
		if (scope_serves(scope, zone) || !zone_set_covers(scope->set, zone) ||
		    (*domain != '\0' && !conf_name_under(zone, domain) &&
			!conf_name_under(domain, zone)))
			continue;
		inside = xreallocarray(inside, count + 1, sizeof *inside);
		inside[count++] = zone;
	}
	write_zones(f, "(?!(?:.*\\.)?(?:", inside, count);
	fclose(f);
	free(inside);
	free(others);
	return text;
}

/* Converts a pattern to a suffix rewrite if the pattern rewrites `(.*)\.NAME`, with optional
 * anchors, to `{1}.NAME`. Sets *any if NAME has a dot without a backslash, which matches any
 * character in CoreDNS. Returns false if it is another kind of pattern. */
static bool
as_suffix(const char *from, const char *to, char suffix[CONF_HOST_MAX], char other[CONF_HOST_MAX],
    bool *any)
{
	static const char *const heads[] = { "(.*)\\.", "(.+)\\.", "(.*)[.]", "(.+)[.]" };
	const char *why, *rest = NULL;
	char name[CONF_HOST_MAX];
	size_t len = 0;
	from += *from == '^';
	for (size_t i = 0; i < sizeof heads / sizeof *heads && rest == NULL; i++)
		if (strncmp(from, heads[i], strlen(heads[i])) == 0)
			rest = from + strlen(heads[i]);
	if (rest == NULL || strncmp(to, "{1}.", 4) != 0)
		return false;
	*any = false;
	for (; *rest != '\0' && *rest != '$' && len + 1 < sizeof name; rest++) {
		bool escaped = *rest == '\\';

		rest += escaped;
		if (escaped && *rest != '.')
			return false; /* a class, such as \d */
		*any |= !escaped && *rest == '.';
		name[len++] = *rest;
	}
	name[len] = '\0';
	return (*rest == '\0' || strcmp(rest, "$") == 0) &&
	       conf_name_parse(name, suffix, &why) == 0 &&
	       conf_name_parse(to + 4, other, &why) == 0;
}

/* Finds the domain of all names that a pattern matches: the text at its end, such as corp.example in
 * `^([a-z]+)-[0-9]+\.corp\.example\.$`. Returns false if the names have no common domain. */
static bool
pattern_domain(const char *pattern, char domain[CONF_HOST_MAX])
{
	char name[CONF_HOST_MAX];
	const char *why, *dot;
	size_t len = 0, end = strlen(pattern);
	int depth = 0;

	if (end == 0 || pattern[end - 1] != '$')
		return false; /* CoreDNS searches for the pattern anywhere in the name */
	end--;
	if (end > 0 && pattern[end - 1] == '?')
		end--;
	if (end > 2 && memcmp(pattern + end - 2, "\\.", 2) == 0)
		end -= 2;
	for (size_t i = 0; i < end; i++) {
		bool escaped = pattern[i] == '\\' && i + 1 < end;
		char c = pattern[escaped ? ++i : i];

		depth += !escaped && c == '(';
		depth -= !escaped && c == ')';
		if (!escaped && c == '|' && depth == 0)
			return false;
		if (escaped ? isalnum((unsigned char)c) : strchr("^$.*+?()[]{}|", c) != NULL)
			len = 0;
		else if (len + 1 < sizeof name)
			name[len++] = c;
		else
			return false;
	}
	name[len] = '\0';
	dot = strchr(name, '.');
	return depth == 0 && dot != NULL && conf_name_parse(dot + 1, domain, &why) == 0;
}

bool
plugin_rewrite_has_room(struct scope *scope, const struct corefile_line *line, bool pattern)
{
	size_t *patterns = &scope->files->patterns;

	if (report_text_count(scope->report, TEXT_REWRITES) < CONF_REWRITES_MAX &&
	    (!pattern || *patterns < CONF_PATTERNS_MAX)) {
		*patterns += pattern;
		return true;
	}
	report_line(scope->report, line, VERDICT_NONE,
	    "left out: the key rewrites accepts %d lines, including %d patterns", CONF_REWRITES_MAX,
	    CONF_PATTERNS_MAX);
	return false;
}

/* Returns the names in a rewrite's target: the target without the parts of a pattern and the final dot, or "." if
 * nothing is left. Caller frees. */
static char *
target_of(const struct name_rewrite *w)
{
	const char *to = w->to + strspn(w->to, "{}0123456789.");
	size_t len = strlen(to);

	len -= len > 0 && to[len - 1] == '.';
	return len > 0 ? xstrndup(to, len) : xstrdup(".");
}

/* The names that a rewrite applies to, or more names. */
struct span {
	char name[CONF_HOST_MAX]; /* "" if the names are not known */
	bool below;               /* the names that end with `name`, else only `name` itself */
};

static struct span
span_of(const struct name_rewrite *w)
{
	struct span span = { .below = w->kind != REWRITE_EXACT };
	const char *why;
	bool known =
	    w->kind == REWRITE_PATTERN
		? pattern_domain(w->from, span.name)
		: conf_name_parse(w->from + (span.below && *w->from == '.'), span.name, &why) == 0;

	if (!known)
		*span.name = '\0';
	return span;
}

/* Whether `name` ends with `end`, in CoreDNS's way: not only at a label. */
static bool
ends_with(const char *name, const char *end)
{
	size_t len = strlen(name), end_len = strlen(end);

	return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

/* Whether some name can be in both spans. */
static bool
overlap(const struct span *a, const struct span *b)
{
	if (*a->name == '\0' || *b->name == '\0')
		return true;
	return strcmp(a->name, b->name) == 0 || (a->below && ends_with(b->name, a->name)) ||
	       (b->below && ends_with(a->name, b->name));
}

/* A block with more directives than this gets the cautious verdict on the order of its rewrites. */
enum { ORDER_MAX = 3000 };

/* Whether CoreDNS uses an earlier rewrite of the block for some names for which kubedns uses this one.
 * kubedns tries an exact name first, then the longest suffix, then the patterns in their order. */
static bool
overtakes(const struct scope *scope, const struct name_rewrite *w)
{
	struct span own = span_of(w);

	for (size_t i = 0; i < w->number; i++) {
		struct name_rewrite e;

		if (!parse_directive(&scope->block->directives[i], &e) || e.kind < w->kind)
			continue;
		struct span span = span_of(&e);
		bool first = e.kind > w->kind ||
			     (w->kind == REWRITE_SUFFIX && strlen(own.name) > strlen(span.name));
		if (i >= ORDER_MAX || (first && overlap(&own, &span)))
			return true;
	}
	return false;
}

/* Whether a later rewrite of the block may apply to the new name. */
static bool
is_rewritten_again(const struct scope *scope, const struct name_rewrite *w, const char *target)
{
	struct span new = { .below = w->kind != REWRITE_EXACT };
	const char *why;

	if (conf_name_parse(target, new.name, &why) < 0)
		*new.name = '\0';
	for (size_t i = w->number + 1; i < scope->block->count; i++) {
		struct name_rewrite e;

		if (!parse_directive(&scope->block->directives[i], &e))
			continue;
		struct span span = span_of(&e);
		if (i - w->number > ORDER_MAX || overlap(&new, &span))
			return true;
	}
	return false;
}

/* Returns how the rewrite differs in this block, as the end of a sentence. `from` is the name or the
 * suffix to which the rewrite applies, or NULL. */
static const char *
difference(struct scope *scope, const struct name_rewrite *w, const char *from)
{
	bool own = corefile_find(scope->block, "kubernetes") != NULL;
	char *target = target_of(w);
	const char *said = "";

	if (w->goes_on && is_rewritten_again(scope, w, target))
		said = "; the new name is not rewritten again";
	else if (report_in_cluster(scope->report, target))
		said = own ? ""
			   : "; kubedns answers the new name itself; CoreDNS sends it to this "
			     "block's servers";
	else if (w->kind == REWRITE_EXACT ? !scope_serves(scope, target)
					  : !scope_serves_all(scope, target))
		said = "; the new name is looked up like any other name, not only on this block's "
		       "servers";
	if (*said == '\0' && overtakes(scope, w))
		said = "; it takes precedence over rewrites above it";
	if (*said == '\0' && w->kind == REWRITE_SUFFIX && !scope_serves_all(scope, from))
		said = "; it also applies to names in the zones of other server blocks";
	free(target);
	return said;
}

/* Whether the line contains `answer KIND`. */
static bool
has_answer(const struct corefile_line *line, const char *kind)
{
	for (size_t i = 0; i + 1 < line->count; i++)
		if (strcmp(line->words[i], "answer") == 0 && strcmp(line->words[i + 1], kind) == 0)
			return true;
	return false;
}

/* Whether the rewrite has a rule `answer KIND`, which may be on another line of its block. */
static bool
rule_has_answer(const struct scope *scope, const struct name_rewrite *w, const char *kind)
{
	const struct corefile_directive *d = &scope->block->directives[w->number];
	bool found = has_answer(w->line, kind);

	for (size_t i = 0; i < d->body_count && !found; i++)
		found = has_answer(&d->body[i], kind);
	return found;
}

/* Whether the rewrite asks for answers with the original names, as kubedns's always have. */
static bool
restores_names(const struct scope *scope, const struct name_rewrite *w)
{
	return rule_has_answer(scope, w, "auto") || rule_has_answer(scope, w, "name");
}

/* Returns the end of a sentence if CoreDNS also restores the names in records. For a suffix, these are all names with the
 * new suffix, else only the new name itself, which a Service's SRV records have as target. */
static const char *
values_difference(const struct scope *scope, const struct name_rewrite *w)
{
	bool restores = w->kind == REWRITE_EXACT || rule_has_answer(scope, w, "auto");
	char *target = target_of(w);
	bool differs =
	    restores && (w->kind == REWRITE_SUFFIX || report_in_cluster(scope->report, target));

	free(target);
	return differs
		   ? "; targets in SRV and other records keep the new name; CoreDNS changes them "
		     "back to the old name"
		   : "";
}

/* Whether one of the block's zones is below `name`. */
static bool
is_above(const struct scope *scope, const char *name)
{
	for (size_t i = 0; i < scope->count; i++)
		if (conf_name_under(scope->zones[i], name))
			return true;
	return false;
}

/* Adds `KIND FROM TO` to the key rewrites. kubedns refuses the whole key if it has two rewrites of one
 * name or suffix. So reports a second one, and returns false. */
static bool
add_rewrite(struct scope *scope, const struct name_rewrite *w, const char *kind, const char *from,
    const char *to)
{
	char *start = xasprintf("%s %s ", kind, from);
	bool second = report_text_begins(scope->report, TEXT_REWRITES, start);

	if (!second)
		report_text(scope->report, TEXT_REWRITES, "%s%s", start, to);
	else if (w->kind == REWRITE_EXACT)
		report_line(scope->report, w->line, VERDICT_CARRIED,
		    "left out: an earlier rewrite has this name");
	else
		report_line(scope->report, w->line, VERDICT_CHANGES,
		    "left out: an earlier rewrite has this suffix, and kubedns has one rewrite for "
		    "each suffix");
	free(start);
	return !second;
}

/* Adds a pattern to the key rewrites. `domain` is as in zones_pattern(). */
static void
give_pattern(
    struct scope *scope, const struct name_rewrite *w, const char *whole, const char *domain)
{
	char *zones = zones_pattern(scope, domain), *pattern = xasprintf("%s%s", zones, whole),
	     *to = xstrdup(w->to);
	size_t len = strlen(to);
	bool fits = strlen(pattern) <= CONF_PATTERN_MAX && len <= CONF_PATTERN_MAX &&
		    strpbrk(pattern, " \t\n") == NULL && strpbrk(to, " \t\n") == NULL;
	if (len > 1 && to[len - 1] == '.')
		to[len - 1] = '\0';
	if (!fits) {
		report_line(scope->report, w->line, VERDICT_NONE,
		    "the pattern or the name is too long or contains blanks: " KEEP_COREDNS);
	} else if (plugin_rewrite_has_room(scope, w->line, true)) {
		const char *differs = difference(scope, w, NULL),
			   *values = values_difference(scope, w);
		bool restores = restores_names(scope, w);
		bool same = *differs == '\0' && *values == '\0' && restores;

		report_text(scope->report, TEXT_REWRITES, "regex %s %s", pattern, to);
		report_line(scope->report, w->line, same ? VERDICT_CARRIED : VERDICT_CHANGES,
		    "the ConfigMap's key rewrites%s%s%s",
		    restores ? "" : ": the answer has the name of the query, not the new name",
		    values, differs);
	}
	free(zones);
	free(pattern);
	free(to);
}

/* Reads a rewrite with a pattern. */
static void
read_pattern(struct scope *scope, const struct name_rewrite *w)
{
	char domain[CONF_HOST_MAX], suffix[CONF_HOST_MAX], other[CONF_HOST_MAX];
	bool known = pattern_domain(w->from, domain);

	if (pattern_matches_nothing(w->from)) {
		report_line(scope->report, w->line, VERDICT_CARRIED, MATCHES_NOTHING);
		return;
	}
	if (known && !scope_serves(scope, domain) && !is_above(scope, domain)) {
		report_line(scope->report, w->line, VERDICT_CARRIED,
		    "left out: no name of this server block matches, so CoreDNS does not rewrite "
		    "it");
		return;
	}
	if (report_topology(scope->report) == TOPOLOGY_CLASSIC) {
		bool any = false;
		bool fits =
		    as_suffix(w->from, w->to, suffix, other, &any) && scope_serves(scope, suffix);

		if (fits && plugin_rewrite_has_room(scope, w->line, false) &&
		    add_rewrite(scope, w, "suffix", suffix, other)) {
			report_line(scope->report, w->line, VERDICT_CHANGES,
			    "the ConfigMap's key rewrites, as a suffix: it also applies to %s "
			    "itself%s%s%s%s%s",
			    suffix,
			    any ? "; a dot without a backslash matched any character in CoreDNS"
				: "",
			    restores_names(scope, w) ? ""
						     : "; the answer has the name of the query, "
						       "not the new name",
			    w->from[strlen(w->from) - 1] == '$'
				? ""
				: "; CoreDNS also rewrote names that go on after the end of the "
				  "pattern",
			    values_difference(scope, w), difference(scope, w, suffix));
		} else if (!fits) {
			report_line(scope->report, w->line, VERDICT_NONE,
			    "no patterns in the classic topology, where dnsmasq or unbound gets "
			    "external "
			    "names first: use the front topology");
		}
		return;
	}
	char *whole;
	if (pattern_translate(w->from, w->to, &whole) == PATTERN_SAME)
		give_pattern(scope, w, whole, known ? domain : "");
	else
		report_line(scope->report, w->line, VERDICT_NONE,
		    "no rewrites of this kind: kubedns compares the pattern with the whole name, "
		    "without its final dot, so it would not match as in CoreDNS: " KEEP_COREDNS);
	free(whole);
}

/* Returns the end of a sentence if dnsmasq sends names below the rewritten name, which a template answers in CoreDNS, to the
 * servers of the stub domain. Caller frees. */
static char *
stub_below(const struct scope *scope, const char *name)
{
	const char *zone = zone_set_closest(scope->files->wildcards, name);
	size_t line;

	if (report_topology(scope->report) == TOPOLOGY_CLASSIC &&
	    !report_is_unbound(scope->report) && zone != NULL && scope_serves(scope, zone) &&
	    zone_set_find(scope->files->wildcards, zone, &line) &&
	    plugin_forward_has_servers(scope->block, name))
		return xasprintf(
		    "; names below \"%.80s\" go to the servers of the stub domain; CoreDNS "
		    "answers them with the template in line %zu",
		    name, line);
	return xstrdup("");
}

/* Reads an exact or suffix rewrite. Returns false if the key rewrites cannot contain the names. */
static bool
read_plain(struct scope *scope, const struct name_rewrite *w)
{
	char from[CONF_HOST_MAX], to[CONF_HOST_MAX];
	const char *why;
	bool suffix = w->kind == REWRITE_SUFFIX,
	     dotted = suffix && *w->from == '.' && *w->to == '.';

	if (conf_name_parse(w->from + dotted, from, &why) < 0 ||
	    conf_name_parse(w->to + dotted, to, &why) < 0)
		return false;
	if (!scope_serves(scope, from)) {
		bool above = suffix && !zone_set_covers(scope->set, from) && is_above(scope, from);

		report_line(scope->report, w->line, above ? VERDICT_NONE : VERDICT_CARRIED,
		    above    ? "left out: a suffix above this server block's zones would apply to "
			       "names of other blocks: write suffixes below the block's zones"
		    : suffix ? "left out: no name of this server block has the suffix, so CoreDNS "
			       "does not rewrite it"
			     : "left out: the name is not below this server block's zones, so "
			       "CoreDNS does not rewrite it");
		return true;
	}
	if (!plugin_rewrite_has_room(scope, w->line, false) ||
	    !add_rewrite(scope, w, suffix ? "suffix" : "exact", from, to))
		return true;
	const char *differs = difference(scope, w, from), *values = values_difference(scope, w);
	char *below = suffix ? xstrdup("") : stub_below(scope, from);
	bool same = *differs == '\0' && *values == '\0' && !suffix && *below == '\0';
	report_line(scope->report, w->line, same ? VERDICT_CARRIED : VERDICT_CHANGES,
	    "the ConfigMap's key rewrites%s%s%s%s%s",
	    suffix && !restores_names(scope, w)
		? ": the answer has the name of the query, not the new name"
		: "",
	    !suffix  ? ""
	    : dotted ? "; the suffix itself is rewritten too; CoreDNS does not rewrite it"
		     : "; in kubedns a suffix begins at a label",
	    values, differs, below);
	free(below);
	return true;
}

#define NO_VALUES                                                                                  \
	"the targets of CNAME, SRV, MX and NS records are not rewritten: clients get the targets " \
	"of the rewritten name, and must be able to resolve them. If they cannot, " KEEP_COREDNS

/* Translates a rewrite of names. Returns false if `line` is another kind of rewrite. */
static bool
read_rewrite(struct scope *scope, const struct corefile_directive *d,
    const struct corefile_line *line, size_t at)
{
	struct name_rewrite w;

	if (!parse_line(line, at, &w))
		return false;
	w.goes_on = d->head.count > 1 && strcmp(d->head.words[1], "continue") == 0;
	w.number = (size_t)(d - scope->block->directives);
	if (w.kind == REWRITE_PATTERN)
		read_pattern(scope, &w);
	else if (!read_plain(scope, &w))
		return false;
	if (has_answer(line, "value"))
		report_line(scope->report, line, VERDICT_NONE, NO_VALUES);
	return true;
}

/* Reads a block with one rewrite and rules for its answers. */
static void
read_block(struct scope *scope, const struct corefile_directive *d)
{
	report_line(scope->report, &d->head, VERDICT_CARRIED, "the rewrite below");
	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *line = &d->body[i];

		if (has_answer(line, "value"))
			report_line(scope->report, line, VERDICT_NONE, NO_VALUES);
		else if (strcmp(line->words[0], "answer") == 0)
			report_line(scope->report, line, VERDICT_CARRIED,
			    "answers always have the original names");
		else if (!read_rewrite(scope, d, line, 0))
			report_line(scope->report, line, VERDICT_NONE,
			    "no rewrites of this kind: " KEEP_COREDNS);
	}
}

bool
plugin_rewrite_leads_to(const struct corefile_block *block, const struct zone_set *zones)
{
	bool leads = false;

	for (size_t i = 0; i < block->count && !leads; i++) {
		const struct corefile_directive *d = &block->directives[i];
		size_t at = rule_at(&d->head);
		struct name_rewrite w;

		if (parse_directive(d, &w)) {
			char *target = target_of(&w);

			leads = strcmp(target, ".") == 0 || zone_set_covers(zones, target);
			free(target);
		} else if (strcmp(d->head.words[0], "rewrite") == 0) {
			/* The other kinds of rewrites of names, such as prefix. */
			leads = d->body_count > 0 ||
				(at < d->head.count && strcmp(d->head.words[at], "name") == 0);
		}
	}
	return leads;
}

/* Whether CoreDNS passes no query for the name at word `at`, which `exact` may precede, to this block, and no rewrite of the
 * block makes this name. */
static bool
never_sees(const struct scope *scope, const struct corefile_line *line, size_t at)
{
	bool exact = at < line->count && strcmp(line->words[at], "exact") == 0;
	char *name = NULL;

	if (at + exact + 2 == line->count && scope->block->count <= NEIGHBOURS_MAX)
		name = zone_parse(line->words[at + exact]);
	bool never = name != NULL && !scope_serves(scope, name);
	if (never) {
		struct zone_set *set = zone_set_new();

		zone_set_add(set, name);
		never = !plugin_rewrite_leads_to(scope->block, set);
		zone_set_free(set);
	}
	free(name);
	return never;
}

/* rewrite [continue|stop] ... */
void
plugin_rewrite(struct scope *scope, const struct corefile_directive *d)
{
	const struct corefile_line *line = &d->head;
	size_t at = rule_at(line);
	const char *what = at < line->count ? line->words[at] : "";

	if (d->body_count > 0)
		read_block(scope, d);
	else if (strcmp(what, "ttl") == 0 && never_sees(scope, line, at + 1))
		report_line(scope->report, line, VERDICT_CARRIED,
		    "left out: CoreDNS passes no query for this name to this server block");
	else if (strcmp(what, "ttl") == 0)
		report_line(scope->report, line, VERDICT_CHANGES,
		    "kubedns's --ttl for cluster names, %s's --min-cache-ttl and --max-cache-ttl "
		    "for "
		    "all others; not per name",
		    flags_owner(scope->report));
	else if (strcmp(what, "type") == 0 && line->count > at + 1 &&
		 strcasecmp(line->words[at + 1], "AAAA") == 0)
		report_line(scope->report, line, VERDICT_NONE,
		    "no rewrites of types. If IPv4-only clients were the reason, add kubedns's "
		    "--filter-aaaa=on (front topology): AAAA queries for external names then get "
		    "NODATA");
	else if (!read_rewrite(scope, d, line, at))
		report_line(
		    scope->report, line, VERDICT_NONE, "no rewrites of this kind: " KEEP_COREDNS);
}
