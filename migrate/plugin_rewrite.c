/* CoreDNS's `rewrite`, as lines of the ConfigMap's key rewrites (lib/conf_rewrites.h). */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/conf.h"
#include "lib/xalloc.h"
#include "migrate/plugins.h"

/* A rewrite `name KIND FROM TO`. */
struct name_rewrite {
	const struct corefile_line *line;
	enum rewrite_kind kind;
	const char *from, *to;
	bool goes_on; /* the rewrite has `continue`, so later rewrites apply too */
};

/* Converts a pattern. CoreDNS searches for the pattern anywhere in the name, which ends with a dot.
 * In kubedns, a pattern must match the whole name without the final dot. Caller frees. */
static char *
whole_pattern(const char *pattern)
{
	size_t len = strlen(pattern);
	bool anchored = *pattern == '^',
	     begins = strncmp(pattern, ".*", 2) == 0 || strncmp(pattern, "(.*)", 4) == 0;
	bool ended = len > 0 && pattern[len - 1] == '$';
	bool open = (len >= 2 && strcmp(pattern + len - 2, ".*") == 0) ||
		    (len >= 4 && strcmp(pattern + len - 4, "(.*)") == 0);

	if (anchored) {
		pattern++;
		len--;
	}
	if (ended && --len >= 2 && strncmp(pattern + len - 2, "\\.", 2) == 0)
		len -= 2;
	return xasprintf("%s%.*s%s", anchored || begins ? "" : ".*", (int)len, pattern,
	    ended || open ? "" : ".*");
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

/* Returns a prefix for a pattern. With this prefix, the pattern only matches names in the block's
 * zones. Caller frees. */
static char *
zones_pattern(const struct scope *scope)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (!zone_set_has(scope->set, ".")) {
		for (size_t i = 0; i < scope->count && ftell(f) <= CONF_PATTERN_MAX; i++) {
			char *zone = escaped(scope->zones[i]);

			fprintf(f, "%s%s", i ? "|" : "(?=(?:.*\\.)?(?:", zone);
			free(zone);
		}
		fputs(")$)", f);
	}
	fclose(f);
	return text;
}

/* Converts a pattern to a suffix rewrite if the pattern rewrites `(.*)\.NAME`, with optional
 * anchors, to `{1}.NAME`. Returns false if it is another kind of pattern. */
static bool
as_suffix(const char *from, const char *to, char suffix[CONF_HOST_MAX], char other[CONF_HOST_MAX])
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
	for (; *rest != '\0' && *rest != '$' && len + 1 < sizeof name; rest++)
		if (*rest != '\\')
			name[len++] = *rest;
	name[len] = '\0';
	return (*rest == '\0' || strcmp(rest, "$") == 0) &&
	       conf_name_parse(name, suffix, &why) == 0 &&
	       conf_name_parse(to + 4, other, &why) == 0;
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

/* Returns how the rewrite differs in this block, as the end of a sentence. */
static const char *
difference(struct scope *scope, const struct name_rewrite *w)
{
	bool before = w->kind < scope->rewrites;
	bool own = corefile_find(scope->block, "kubernetes") != NULL;
	const char *to = w->to + strspn(w->to, "{}0123456789.");
	size_t len = strlen(to);
	char *target = xstrndup(to, len > 0 && to[len - 1] == '.' ? len - 1 : len);
	bool cluster = report_in_cluster(scope->report, target);

	free(target);
	if (w->kind > scope->rewrites)
		scope->rewrites = w->kind;
	if (w->goes_on)
		return "; the new name is not rewritten again";
	if (cluster && !own)
		return "; kubedns answers the new name itself; CoreDNS sends it to this block's "
		       "servers";
	if (!zone_set_has(scope->set, "."))
		return "; the new name is looked up like any other name, not only on this block's "
		       "servers";
	return before ? "; it takes precedence over rewrites of another kind above it" : "";
}

/* Whether the line asks for answers with the original names, as kubedns's always have. */
static bool
restores_names(const struct corefile_line *line)
{
	for (size_t i = 0; i + 1 < line->count; i++)
		if (strcmp(line->words[i], "answer") == 0 &&
		    (strcmp(line->words[i + 1], "auto") == 0 ||
			strcmp(line->words[i + 1], "name") == 0))
			return true;
	return false;
}

/* Reports why a pattern cannot be carried over. */
static void
read_pattern(struct scope *scope, const struct name_rewrite *w)
{
	char suffix[CONF_HOST_MAX], other[CONF_HOST_MAX];

	if (report_topology(scope->report) == TOPOLOGY_CLASSIC) {
		bool fits = as_suffix(w->from, w->to, suffix, other) && scope_serves(scope, suffix);

		if (fits && plugin_rewrite_has_room(scope, w->line, false)) {
			report_text(scope->report, TEXT_REWRITES, "suffix %s %s", suffix, other);
			report_line(scope->report, w->line, VERDICT_CHANGES,
			    "the ConfigMap's key rewrites, as a suffix: it also applies to %s "
			    "itself%s",
			    suffix, difference(scope, w));
		} else if (!fits) {
			report_line(scope->report, w->line, VERDICT_NONE,
			    "no patterns in the classic topology, where dnsmasq or unbound gets "
			    "external "
			    "names first: use the front topology");
		}
		return;
	}
	char *whole = whole_pattern(w->from), *zones = zones_pattern(scope),
	     *pattern = xasprintf("%s%s", zones, whole), *to = xstrdup(w->to);
	size_t len = strlen(to);
	bool fits = strlen(pattern) <= CONF_PATTERN_MAX && len <= CONF_PATTERN_MAX &&
		    strpbrk(pattern, " \t\n") == NULL && strpbrk(to, " \t\n") == NULL;
	if (len > 1 && to[len - 1] == '.')
		to[len - 1] = '\0';
	if (!fits) {
		report_line(scope->report, w->line, VERDICT_NONE,
		    "the pattern or the name is too long or contains blanks: " KEEP_COREDNS);
	} else if (plugin_rewrite_has_room(scope, w->line, true)) {
		const char *differs = difference(scope, w);
		bool same = *differs == '\0' && restores_names(w->line);

		report_text(scope->report, TEXT_REWRITES, "regex %s %s", pattern, to);
		report_line(scope->report, w->line, same ? VERDICT_CARRIED : VERDICT_CHANGES,
		    "the ConfigMap's key rewrites%s%s",
		    same ? "" : ": the answer has the name of the query, not the new name",
		    differs);
	}
	free(whole);
	free(zones);
	free(pattern);
	free(to);
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
		report_line(scope->report, w->line, suffix ? VERDICT_NONE : VERDICT_CARRIED,
		    suffix ? "left out: a suffix above this server block's zones would apply to "
			     "names of other blocks: write suffixes below the block's zones"
			   : "left out: the name is not below this server block's zones, so "
			     "CoreDNS does not rewrite it");
		return true;
	}
	if (!plugin_rewrite_has_room(scope, w->line, false))
		return true;
	const char *differs = difference(scope, w);
	bool same = *differs == '\0' && !suffix;
	report_text(
	    scope->report, TEXT_REWRITES, "%s %s %s", suffix ? "suffix" : "exact", from, to);
	report_line(scope->report, w->line, same ? VERDICT_CARRIED : VERDICT_CHANGES,
	    "the ConfigMap's key rewrites%s%s",
	    !suffix  ? ""
	    : dotted ? "; the suffix itself is rewritten too; CoreDNS does not rewrite it"
		     : "; in kubedns a suffix begins at a label",
	    differs);
	return true;
}

/* Whether the line rewrites the names in records, with `answer value`. */
static bool
rewrites_values(const struct corefile_line *line)
{
	for (size_t i = 0; i + 1 < line->count; i++)
		if (strcmp(line->words[i], "answer") == 0 &&
		    strcmp(line->words[i + 1], "value") == 0)
			return true;
	return false;
}

#define NO_VALUES                                                                                  \
	"the targets of CNAME, SRV, MX and NS records are not rewritten: clients get the targets " \
	"of the rewritten name, and must be able to resolve them. If they cannot, " KEEP_COREDNS

/* Reads `name [exact|suffix|regex] FROM TO [answer ...]`, which starts at word `at`. With more than two
 * words after `name`, the first of them is the kind. Returns false if the line is not such a
 * rewrite. */
static bool
read_rewrite(struct scope *scope, const struct corefile_line *line, size_t at, bool goes_on)
{
	size_t count = line->count > at ? line->count - at - 1 : 0;
	const char *kind = count > 2 ? line->words[at + 1] : "exact";
	bool exact = strcasecmp(kind, "exact") == 0, suffix = strcasecmp(kind, "suffix") == 0,
	     pattern = strcasecmp(kind, "regex") == 0;
	size_t names = at + (count > 2 ? 2 : 1);

	if (count < 2 || strcmp(line->words[at], "name") != 0 || !(exact || suffix || pattern))
		return false;
	struct name_rewrite w = { .line = line,
		.kind = pattern  ? REWRITE_PATTERN
			: suffix ? REWRITE_SUFFIX
				 : REWRITE_EXACT,
		.from = line->words[names],
		.to = line->words[names + 1],
		.goes_on = goes_on };
	if (pattern)
		read_pattern(scope, &w);
	else if (!read_plain(scope, &w))
		return false;
	if (rewrites_values(line))
		report_line(scope->report, line, VERDICT_NONE, NO_VALUES);
	return true;
}

/* Reads a block with one rewrite and rules for its answers. */
static void
read_block(struct scope *scope, const struct corefile_directive *d, bool goes_on)
{
	report_line(scope->report, &d->head, VERDICT_CARRIED, "the rewrite below");
	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *line = &d->body[i];

		if (rewrites_values(line))
			report_line(scope->report, line, VERDICT_NONE, NO_VALUES);
		else if (strcmp(line->words[0], "answer") == 0)
			report_line(scope->report, line, VERDICT_CARRIED,
			    "answers always have the original names");
		else if (!read_rewrite(scope, line, 0, goes_on))
			report_line(scope->report, line, VERDICT_NONE,
			    "no rewrites of this kind: " KEEP_COREDNS);
	}
}

/* rewrite [continue|stop] ... */
void
plugin_rewrite(struct scope *scope, const struct corefile_directive *d)
{
	const struct corefile_line *line = &d->head;
	bool goes_on = line->count > 1 && strcmp(line->words[1], "continue") == 0;
	bool stops = line->count > 1 && strcmp(line->words[1], "stop") == 0;
	size_t at = goes_on || stops ? 2 : 1;
	const char *what = at < line->count ? line->words[at] : "";

	if (d->body_count > 0)
		read_block(scope, d, goes_on);
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
	else if (!read_rewrite(scope, line, at, goes_on))
		report_line(
		    scope->report, line, VERDICT_NONE, "no rewrites of this kind: " KEEP_COREDNS);
}
