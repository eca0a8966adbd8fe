/*
 * The ConfigMap key `rewrites`: names in queries, and the names that are looked up instead.
 *
 *	exact  db.example          db.prod.svc.cluster.local
 *	suffix old.example         new.example
 *	regex  (.+)\.z1\.example  {1}.zone1.svc.cluster.local
 *
 * The parser is pure. `text` is untrusted, as in lib/conf.h. Time and memory are O(length). The
 * parser does not compile patterns. rewrites_new() (kubedns/answer/rewrites.h) refuses invalid
 * regular expressions.
 */
#ifndef LIB_CONF_REWRITES_H
#define LIB_CONF_REWRITES_H

#include <stddef.h>

#include "lib/dname.h"

enum {
	CONF_REWRITES_MAX = 1000, /* lines */
	CONF_PATTERNS_MAX = 32,   /* lines with a pattern; each query tries all patterns */
	CONF_PATTERN_MAX = 256,   /* bytes of a pattern, and of its replacement */
};

enum rewrite_kind { REWRITE_EXACT, REWRITE_SUFFIX, REWRITE_PATTERN };

struct conf_rewrite {
	enum rewrite_kind kind;
	unsigned line;
	struct dname from, to;       /* lower case; for EXACT and SUFFIX */
	char *pattern, *replacement; /* for PATTERN, else NULL */
};

/* In the order of the lines. */
struct conf_rewrites {
	struct conf_rewrite *items;
	size_t count;
};

/* Returns 0, or -EINVAL. On failure, `*why` tells the line number and what is wrong in that line
 * (caller frees). Caller frees `rewrites` with conf_rewrites_free. */
int conf_rewrites_parse(const char *text, size_t len, struct conf_rewrites *rewrites, char **why);

void conf_rewrites_free(struct conf_rewrites *rewrites);

#endif
