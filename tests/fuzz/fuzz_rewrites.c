/*
 * The ConfigMap key rewrites. The parser must return rules or a reason. For all accepted patterns,
 * the rewritten name must be valid, and no lookup may exceed its limit.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/rewrites.h"
#include "lib/conf_rewrites.h"
#include "lib/xalloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Applies the rules to this name. Returns the outcome, and sets `to` to the new name. */
static enum rewrite_outcome
apply(const struct rewrites *rewrites, const char *text, struct dname *to)
{
	struct name_buf buf;
	struct dname asked;

	if (dname_from_text(&asked, text) < 0)
		abort();
	struct name name = name_copy(&buf, asked.wire, asked.len);
	enum rewrite_outcome outcome = rewrites_apply(rewrites, &name, to);
	if (outcome == REWRITE_DONE && dname_length(to->wire, DNAME_MAX) != to->len)
		abort();
	return outcome;
}

/* Makes the same rules, but with each pattern in a group. kubedns then cannot find out the literal
 * end of the pattern. */
static struct rewrites *
in_groups(struct conf_rewrites *conf)
{
	struct rewrites *grouped;
	char *why = NULL;

	for (size_t i = 0; i < conf->count; i++)
		if (conf->items[i].kind == REWRITE_PATTERN) {
			char *bare = conf->items[i].pattern;

			conf->items[i].pattern = xasprintf("(?:%s)", bare);
			free(bare);
		}
	if (rewrites_new(conf, 7, &grouped, &why) < 0)
		free(why);
	return grouped;
}

/* Checks that both versions rewrite a name to the same name. There is one exception: kubedns may
 * skip a pattern in one version, and a skipped pattern cannot reach a limit. */
static void
compare(const struct rewrites *rewrites, const struct rewrites *grouped, const char *text)
{
	struct dname by_ends, by_all;
	enum rewrite_outcome ends = apply(rewrites, text, &by_ends);

	if (grouped == NULL)
		return;
	enum rewrite_outcome all = apply(grouped, text, &by_all);
	if (all == REWRITE_LIMIT || ends == REWRITE_LIMIT)
		return;
	if (ends != all || (ends == REWRITE_DONE && !dname_equal(by_ends.wire, by_all.wire)))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_rewrites conf;
	struct rewrites *rewrites;
	char *why;

	if (conf_rewrites_parse((const char *)data, size, &conf, &why) < 0) {
		if (why == NULL || conf.count > 0 || strlen(why) > 500)
			abort();
		free(why);
		return 0;
	}
	for (size_t i = 0; i < conf.count;
	     /* Shorten long patterns, because this target does not fuzz the compiler of PCRE2,
	      * which has its own fuzz targets. */
	     i++)
		if (conf.items[i].kind == REWRITE_PATTERN && strlen(conf.items[i].pattern) > 40)
			conf.items[i].pattern[40] = '\0';
	why = NULL;
	if (rewrites_new(&conf, 7, &rewrites, &why) < 0) {
		if (why == NULL || rewrites != NULL)
			abort();
		free(why);
	} else if (rewrites != NULL) {
		struct rewrites *grouped = in_groups(&conf);

		compare(rewrites, grouped, "a.example.");
		compare(rewrites, grouped, "x.y.old.example.");
		compare(rewrites, grouped,
		    "\\046\\000.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."
		    "example.");
		rewrites_free(grouped);
	}
	rewrites_free(rewrites);
	conf_rewrites_free(&conf);
	return 0;
}
