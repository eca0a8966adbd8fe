/*
 * Rewrites the name of a question before it is looked up (ConfigMap key rewrites,
 * lib/conf_rewrites.h). An exact name comes before the longest suffix, and both before the
 * patterns, which are tried in their order. A name is rewritten once: the result is not rewritten
 * again.
 *
 * A pattern (PCRE2) has to match the whole name, as text, in lower case and without its final dot.
 * It is anchored and its steps are bounded: one that would need more does not match. It is
 * interpreted, not compiled to machine code, so that no memory is both writable and executable.
 *
 * Compiled patterns hold pointers, so they are not part of the answer_context's block: whoever made
 * them frees them, once no reader can have a context that points here.
 */
#ifndef KUBEDNS_ANSWER_REWRITES_H
#define KUBEDNS_ANSWER_REWRITES_H

#include <stddef.h>
#include <stdint.h>

#include "kubedns/answer/zone_lookup.h"

struct conf_rewrites;
struct rewrites;

enum {
	REWRITE_STEPS_MAX =
	    5000, /* of PCRE2's matcher, for one pattern and one name: below 0.1 ms */
	REWRITE_HEAP_KIB = 64,
};

/* 0 and `*rewrites` (NULL if there are none; caller frees with rewrites_free), or -EINVAL and in
 * `*why` (caller frees) which pattern is not a regular expression. */
int rewrites_new(
    const struct conf_rewrites *conf, uint64_t seed, struct rewrites **rewrites, char **why);

enum rewrite_outcome {
	REWRITE_NONE,
	REWRITE_DONE,  /* `to` is the other name */
	REWRITE_LIMIT, /* none, and a pattern ended at its bound */
};

/* What is looked up in place of `name` (lower case); `to` is written only where there is something.
 * Allocates only where there are patterns. */
enum rewrite_outcome rewrites_apply(
    const struct rewrites *rewrites, const struct name *name, struct dname *to);

/* The same without the patterns; false: none. */
bool rewrites_apply_names(
    const struct rewrites *rewrites, const struct name *name, struct dname *to);

/* Whether dnsmasq, which sends the names of hosts, of rewrites and of our zones here, would send us this
 * name too, so that it is rewritten. A stub domain is closer: then its servers are asked. */
bool rewrites_come_back(const struct answer_context *context, const struct name *name);

/* Whether both were made of the same lines. */
bool rewrites_equal(const struct rewrites *a, const struct rewrites *b);

/* How many rewrites there are; NULL: 0. */
size_t rewrites_count(const struct rewrites *rewrites);

/* Puts `old` (or NULL) before the list `*retired`, which rewrites_free frees whole. */
void rewrites_retire(struct rewrites **retired, struct rewrites *old);

void rewrites_free(struct rewrites *rewrites);

#endif
