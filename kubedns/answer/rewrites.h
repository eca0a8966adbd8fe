/*
 * This module rewrites the name of a query before the name is looked up (ConfigMap key `rewrites`,
 * lib/conf_rewrites.h). An exact name takes precedence over suffixes, and the longest suffix over
 * shorter ones. Patterns come last and are tried in order. A name is rewritten only once. The
 * result is not rewritten again.
 *
 * A pattern (PCRE2) must match the whole name, as text, in lower case and without its final dot.
 * The pattern is anchored, and its number of steps is limited. A pattern that needs more steps does
 * not match. Patterns are interpreted, not compiled to machine code. Therefore no memory is both
 * writable and executable.
 *
 * Compiled patterns contain pointers, so they are not part of the answer_context's block. Their
 * creator frees them when no reader can have a context that points to them.
 */
#ifndef KUBEDNS_ANSWER_REWRITES_H
#define KUBEDNS_ANSWER_REWRITES_H

#include <stddef.h>
#include <stdint.h>

#include "kubedns/answer/zone_lookup.h"

struct conf_rewrites;
struct rewrites;

enum {
	/* Steps of PCRE2's matcher for one pattern and one name. This number of steps takes less
	 * than 0.1 ms. */
	REWRITE_STEPS_MAX = 5000,
	REWRITE_HEAP_KIB = 64,
};

/* Returns 0 and sets `*rewrites`, which is NULL if there are no rewrites. The caller frees it
 * with rewrites_free(). If a pattern is not a regular expression, returns -EINVAL and sets
 * `*why` to that pattern. The caller frees it. */
int rewrites_new(
    const struct conf_rewrites *conf, uint64_t seed, struct rewrites **rewrites, char **why);

enum rewrite_outcome {
	REWRITE_NONE,
	REWRITE_DONE,  /* `to` is the new name */
	REWRITE_LIMIT, /* not rewritten, and a pattern reached its limit */
};

/* Rewrites `name` (lower case). Writes `to` only for REWRITE_DONE. Allocates memory only if there
 * are patterns. */
enum rewrite_outcome rewrites_apply(
    const struct rewrites *rewrites, const struct name *name, struct dname *to);

/* Does the same without patterns. Returns false if the name is not rewritten. */
bool rewrites_apply_names(
    const struct rewrites *rewrites, const struct name *name, struct dname *to);

/* Returns whether dnsmasq would send us this name, so that we rewrite it. dnsmasq sends us the
 * names of the keys `hosts` and `rewrites`, and of our zones. If a stub domain is a closer
 * match, dnsmasq sends the name to the servers of the stub domain. */
bool rewrites_come_back(const struct answer_context *context, const struct name *name);

/* Returns whether both objects were made from the same lines. */
bool rewrites_equal(const struct rewrites *a, const struct rewrites *b);

/* Returns the number of rewrites, or 0 for NULL. */
size_t rewrites_count(const struct rewrites *rewrites);

/* Inserts `old`, which may be NULL, at the head of the list `*retired`. rewrites_free() frees
 * the whole list. */
void rewrites_retire(struct rewrites **retired, struct rewrites *old);

void rewrites_free(struct rewrites *rewrites);

#endif
