#include "lib/conf_rewrites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf_text.h"
#include "lib/xalloc.h"

struct rewrites_reader {
	struct conf_rewrites *rewrites;
	unsigned line, patterns;
	char **why;
};

static int
refuse_word(struct rewrites_reader *r, const char *word, const char *reason)
{
	return conf_refuse_word(r->why, r->line, word, reason);
}

static int
read_name(struct rewrites_reader *r, const char *word, struct dname *to)
{
	char name[CONF_HOST_MAX];
	const char *reason;

	if (conf_name_parse(word, name, &reason) < 0)
		return refuse_word(r, word, reason);
	return dname_from_text(to, name) < 0 ? refuse_word(r, word, "not a domain name") : 0;
}

static int
read_pattern(
    struct rewrites_reader *r, struct conf_rewrite *rewrite, const char *from, const char *to)
{
	if (++r->patterns > CONF_PATTERNS_MAX)
		return refuse_word(r, from, "more than 32 patterns");
	if (strlen(from) > CONF_PATTERN_MAX)
		return refuse_word(r, from, "a pattern longer than 256 bytes");
	if (strlen(to) > CONF_PATTERN_MAX)
		return refuse_word(r, to, "longer than 256 bytes");
	rewrite->pattern = xstrdup(from);
	rewrite->replacement = xstrdup(to);
	return 0;
}

static int
read_rule(struct rewrites_reader *r, const char *kind, const char *from, const char *to)
{
	struct conf_rewrites *all = r->rewrites;

	if (all->count == CONF_REWRITES_MAX)
		return refuse_word(r, from, "more than 1000 rewrites");
	if ((all->count & (all->count - 1)) == 0)
		all->items = xreallocarray(
		    all->items, all->count == 0 ? 1 : all->count * 2, sizeof *all->items);
	struct conf_rewrite *rewrite = &all->items[all->count++];
	*rewrite = (struct conf_rewrite){ .line = r->line };
	if (strcmp(kind, "regex") == 0) {
		rewrite->kind = REWRITE_PATTERN;
		return read_pattern(r, rewrite, from, to);
	}
	rewrite->kind = strcmp(kind, "suffix") == 0 ? REWRITE_SUFFIX : REWRITE_EXACT;
	int rc = read_name(r, from, &rewrite->from);
	return rc < 0 ? rc : read_name(r, to, &rewrite->to);
}

static bool
is_kind(const char *word)
{
	return strcmp(word, "exact") == 0 || strcmp(word, "suffix") == 0 ||
	       strcmp(word, "regex") == 0;
}

/* Comments have lines of their own, because a pattern may contain '#'. */
static int
read_line(void *arg, unsigned number, char *line)
{
	struct rewrites_reader *r = arg;
	static const char blanks[] = " \t\r";
	char *rest = NULL, *kind = strtok_r(line, blanks, &rest);

	r->line = number;
	if (kind == NULL || *kind == '#')
		return 0;
	if (!is_kind(kind))
		return refuse_word(r, kind, "not exact, suffix or regex");
	char *from = strtok_r(NULL, blanks, &rest), *to = strtok_r(NULL, blanks, &rest);
	if (to == NULL)
		return refuse_word(
		    r, kind, "must be followed by the queried name and the name that replaces it");
	char *more = strtok_r(NULL, blanks, &rest);
	return more != NULL ? refuse_word(r, more, "is one word too many")
			    : read_rule(r, kind, from, to);
}

static int
by_name(const void *a, const void *b)
{
	const struct conf_rewrite *x = *(const struct conf_rewrite *const *)a,
				  *y = *(const struct conf_rewrite *const *)b;

	return x->kind != y->kind ? (int)x->kind - (int)y->kind
				  : dname_compare(x->from.wire, y->from.wire);
}

/* Refuses a name that has two rewrites. */
static int
check_doubles(const struct conf_rewrites *rewrites, char **why)
{
	const struct conf_rewrite **places = xcalloc(rewrites->count + 1, sizeof *places);
	char text[DNAME_TEXT_MAX];
	size_t count = 0;
	int rc = 0;

	for (size_t i = 0; i < rewrites->count; i++)
		if (rewrites->items[i].kind != REWRITE_PATTERN)
			places[count++] = &rewrites->items[i];
	if (count > 1)
		qsort(places, count, sizeof *places, by_name);
	for (size_t i = 1; i < count && rc == 0; i++)
		if (by_name(&places[i - 1], &places[i]) == 0)
			rc = conf_refuse(
			    why, dname_to_text(places[i]->from.wire, text), "", "has two rewrites");
	free(places);
	return rc;
}

int
conf_rewrites_parse(const char *text, size_t len, struct conf_rewrites *rewrites, char **why)
{
	struct rewrites_reader r = { .rewrites = rewrites, .why = why };

	*rewrites = (struct conf_rewrites){ 0 };
	int rc = conf_lines(text, len, read_line, &r, why);
	if (rc == 0)
		rc = check_doubles(rewrites, why);
	if (rc < 0)
		conf_rewrites_free(rewrites);
	return rc;
}

void
conf_rewrites_free(struct conf_rewrites *rewrites)
{
	for (size_t i = 0; i < rewrites->count; i++) {
		free(rewrites->items[i].pattern);
		free(rewrites->items[i].replacement);
	}
	free(rewrites->items);
	*rewrites = (struct conf_rewrites){ 0 };
}
