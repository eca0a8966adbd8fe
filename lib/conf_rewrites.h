/*
 * The key rewrites of the ConfigMap: names that are asked for, and what is looked up in their place.
 *
 *	exact  db.example          db.prod.svc.cluster.local
 *	suffix old.example         new.example
 *	regex  (.+)\.z1\.example  {1}.zone1.svc.cluster.local
 *
 * Pure; `text` is untrusted, as in lib/conf.h. Time and memory are linear in its length. Whether a
 * pattern is a regular expression is for who compiles it.
 */
#ifndef LIB_CONF_REWRITES_H
#define LIB_CONF_REWRITES_H

#include <stddef.h>

#include "lib/dname.h"

enum {
	CONF_REWRITES_MAX = 1000, /* lines */
	CONF_PATTERNS_MAX = 32,   /* of them patterns, which a name is tried with one by one */
	CONF_PATTERN_MAX = 256,   /* bytes of a pattern, and of what takes its place */
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
