/*
 * The explanation stage answers NAME._explain in our zone with a TXT record. The record explains how NAME is answered. The text comes from
 * kubedns/show/explain.h.
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
};

/* A thread makes at most EXPLANATIONS explanations in EXPLANATIONS_MS. One client gets at most half of those that other clients did not
 * get, or one. The thread refuses further requests. (EXPLANATIONS is in answer.h.) */
enum { EXPLANATIONS_MS = 200 };

#endif
