/*
 * The key rewrites: rules or a reason. Whatever patterns are accepted, a name that is looked up comes
 * out as a name, and none takes longer than its bound.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/rewrites.h"
#include "lib/conf_rewrites.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
apply(const struct rewrites *rewrites, const char *text)
{
	uint8_t padded[DNAME_MAX + 8] = { 0 }, offsets[DNAME_LABELS_MAX];
	struct dname asked, to;

	if (dname_from_text(&asked, text) < 0)
		abort();
	memcpy(padded, asked.wire, asked.len);
	struct name name = name_cut(padded, asked.len, offsets);
	if (rewrites_apply(rewrites, &name, &to) == REWRITE_DONE &&
	    dname_length(to.wire, DNAME_MAX) != to.len)
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
	     i++) /* compiling is not what is fuzzed: PCRE2 has its own */
		if (conf.items[i].kind == REWRITE_PATTERN && strlen(conf.items[i].pattern) > 40)
			conf.items[i].pattern[40] = '\0';
	why = NULL;
	if (rewrites_new(&conf, 7, &rewrites, &why) < 0) {
		if (why == NULL || rewrites != NULL)
			abort();
		free(why);
	} else if (rewrites != NULL) {
		apply(rewrites, "a.example.");
		apply(rewrites, "x.y.old.example.");
		apply(rewrites,
		    "\\046\\000.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."
		    "example.");
	}
	rewrites_free(rewrites);
	conf_rewrites_free(&conf);
	return 0;
}
