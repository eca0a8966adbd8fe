/*
 * The explanation stage answers NAME._explain in our zone with a TXT record. The record explains how NAME is answered. The text comes from
 * kubedns/show/explain.h. The stage also answers _digest in our zone, with the digest of our records (kubedns/pages/digest_page.h).
 */
#ifndef KUBEDNS_ANSWER_EXPLANATION_STAGE_H
#define KUBEDNS_ANSWER_EXPLANATION_STAGE_H

#include <stddef.h>

#include "kubedns/answer/stages.h"

struct tree;

/* The stage's configuration. With --explain-by-dns=off, the stage has no configuration. */
struct explanation_config {
	/* Returns the explanation of `name` (text) as lines of text, and sets `*len` to its length. The caller frees it. The stage calls
	 * this function in a read section of the tree. */
	char *(*explain)(const struct answer_config *config, const struct tree *tree,
	    const char *name, size_t *len);
	/* Does the same for the digest. Returns NULL if the digest is just changing. `digest` itself is NULL if there is no digest. */
	char *(*digest)(const void *arg, size_t *len);
	const void *digest_arg;
};

/* A thread makes at most EXPLANATIONS explanations and digests in EXPLANATIONS_MS. The thread refuses further requests. */
enum { EXPLANATIONS = 4, EXPLANATIONS_MS = 200 };

#endif
