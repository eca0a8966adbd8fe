/* rewrite, as lines of the ConfigMap's key rewrites (lib/conf_rewrites.h). */
#include <stdlib.h>
#include <string.h>

#include "migrate/plugins.h"
#include "lib/conf.h"
#include "lib/conf_rewrites.h"
#include "lib/xalloc.h"

/* `name` as the key has it; NULL: no name that could be in it. */
static const char *
key_name(const char *word, char name[CONF_HOST_MAX])
{
	const char *why;

	return conf_name_parse(word, name, &why) < 0 ? NULL : name;
}

/* Converts a pattern: CoreDNS searches for it anywhere in the name with its final dot, ours has to
 * match the whole name without the dot. Caller frees. */
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

static bool
read_pattern(
    struct scope *scope, const struct corefile_line *line, const char *from, const char *to)
{
	char *pattern = whole_pattern(from), *other = xstrdup(to);
	size_t len = strlen(other);
	bool fits = strlen(pattern) <= CONF_PATTERN_MAX && len <= CONF_PATTERN_MAX &&
		    strpbrk(pattern, " \t") == NULL && strpbrk(other, " \t") == NULL;

	if (len > 1 && other[len - 1] == '.')
		other[len - 1] = '\0';
	if (fits) {
		report_text(scope->report, TEXT_REWRITES, "regex %s %s", pattern, other);
		report_line(scope->report, line, VERDICT_CHANGES,
		    "the ConfigMap's key rewrites: the pattern has to match the whole name, "
		    "without its final dot; in the classic topology it holds for names that "
		    "kubedns is asked for, the cluster's and those below a suffix of rewrites");
	}
	free(pattern);
	free(other);
	return fits;
}

/* name [exact|suffix|regex] FROM TO, the words from `at` on; false: not such a rewrite. */
static bool
read_rewrite(struct scope *scope, const struct corefile_line *line, size_t at, bool goes_on)
{
	char from[CONF_HOST_MAX], to[CONF_HOST_MAX];
	const char *kind = at + 1 < line->count ? line->words[at + 1] : "";
	bool exact = strcmp(kind, "exact") == 0, suffix = strcmp(kind, "suffix") == 0,
	     pattern = strcmp(kind, "regex") == 0;
	size_t names = at + (exact || suffix || pattern ? 2 : 1);

	if (at >= line->count || strcmp(line->words[at], "name") != 0 || names + 2 > line->count)
		return false;
	const char *asked = line->words[names], *other = line->words[names + 1];
	if (pattern)
		return read_pattern(scope, line, asked, other);
	bool dotted = suffix && *asked == '.' && *other == '.';
	if (key_name(asked + dotted, from) == NULL || key_name(other + dotted, to) == NULL)
		return false;
	report_text(
	    scope->report, TEXT_REWRITES, "%s %s %s", suffix ? "suffix" : "exact", from, to);
	bool same = !goes_on && (!suffix || dotted);
	report_line(scope->report, line, same ? VERDICT_CARRIED : VERDICT_CHANGES,
	    "the ConfigMap's key rewrites%s%s",
	    suffix && !dotted ? "; a suffix begins at a label here" : "",
	    goes_on ? "; what a name is rewritten to is not rewritten again" : "");
	return true;
}

/* A block: one rewrite, and what happens to its answers. */
static void
read_block(struct scope *scope, const struct corefile_directive *d, bool goes_on)
{
	report_line(scope->report, &d->head, VERDICT_CARRIED, "the rewrite below");
	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *line = &d->body[i];
		if (strcmp(line->words[0], "answer") == 0)
			report_line(scope->report, line, VERDICT_CARRIED,
			    "the answers' names are put back without being told");
		else if (!read_rewrite(scope, line, 0, goes_on))
			report_line(scope->report, line, VERDICT_NONE,
			    "no rewriting of this kind: " PLUGIN_KEEP_COREDNS);
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
		    "kubedns's --ttl for the cluster's names, dnsmasq's --min-cache-ttl and "
		    "--max-cache-ttl for all others; not by name");
	else if (!read_rewrite(scope, line, at, goes_on))
		report_line(scope->report, line, VERDICT_NONE,
		    "no rewriting of this kind: " PLUGIN_KEEP_COREDNS);
}
