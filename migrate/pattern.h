/*
 * Regular expressions of CoreDNS (Go's syntax), as patterns of the ConfigMap's key rewrites (PCRE2).
 *
 * CoreDNS searches for an expression anywhere in the name, which ends with a dot, and uses the leftmost
 * match. In kubedns, a pattern must match the whole name without the final dot:
 *
 *	(.+)\.old\.example		(.+)\.old\.example.*
 *	api\.(.+)\.old\.example\.	.*?api\.(.+)\.old\.example(?:\..*)?
 *	^api\.a\.example\.$|^b\.example	.*?(?:^api\.a\.example|^b\.example.*)
 *	(.+)\.old\.example$		no name matches
 */
#ifndef MIGRATE_PATTERN_H
#define MIGRATE_PATTERN_H

#include <stdbool.h>

enum pattern_outcome {
	PATTERN_SAME,    /* `*whole` matches the same names, with the same groups */
	PATTERN_NOTHING, /* no name matches */
	PATTERN_UNKNOWN, /* none of the above is certain */
};

/* Translates an expression whose match is replaced by `to`, with {N} for group N. Sets `*whole` for PATTERN_SAME, else NULL. Caller
 * frees it. Time is O(length). */
enum pattern_outcome pattern_translate(const char *expression, const char *to, char **whole);

#define MATCHES_NOTHING "left out: CoreDNS compares names with a final dot, so no name matches"

/* Returns whether the expression matches no name. */
bool pattern_matches_nothing(const char *expression);

#endif
