/*
 * The key rewrites of the ConfigMap: names in questions, and the names that are looked up instead.
 *
 *	exact  db.example          db.prod.svc.cluster.local
 *	suffix old.example         new.example
 *	regex  (.+)\.z1\.example  {1}.zone1.svc.cluster.local
 *
 * Pure; `text` is untrusted, as in lib/conf.h. Time and memory are linear in its length. Patterns
 * are not compiled here: rewrites_new() (kubedns/answer/rewrites.h) refuses what is no regular
 * expression.
 */
#ifndef LIB_CONF_REWRITES_H
#define LIB_CONF_REWRITES_H

#include <stddef.h>

#include "lib/dname.h"

enum {
	CONF_REWRITES_MAX = 1000, /* lines */
	CONF_PATTERNS_MAX = 32,   /* patterns among them: a name is matched against each */
	CONF_PATTERN_MAX = 256,   /* bytes of a pattern, and of its replacement */
};

enum rewrite_kind { REWRITE_EXACT, REWRITE_SUFFIX, REWRITE_PATTERN };

struct conf_rewrite {
	enum rewrite_kind kind;
	unsigned line;
	struct dname from, to;       /* lower case; EXACT and SUFFIX */
	char *pattern, *replacement; /* PATTERN, else NULL */
};

/* In the order of the lines. */
struct conf_rewrites {
	struct conf_rewrite *items;
	size_t count;
};

/* 0, or -EINVAL and in `*why` (caller frees) the line and what is wrong with it. Caller frees with
 * conf_rewrites_free. */
int conf_rewrites_parse(const char *text, size_t len, struct conf_rewrites *rewrites, char **why);

void conf_rewrites_free(struct conf_rewrites *rewrites);

#endif
