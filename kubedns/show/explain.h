/*
 * Why a name is answered as it is, in words: which object at which resourceVersion gave
 * which record, or which label of the name does not exist and what is nearest to it.
 * For people, at night.
 */
#ifndef KUBEDNS_SHOW_EXPLAIN_H
#define KUBEDNS_SHOW_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "kubedns/cluster/store.h"

struct explain_config {
	const struct answer_config *answers;
	const struct tree *tree;
	const struct store *store;
	bool synced;
};

/* The explanation of `name` (text, final dot or not) as lines; length in `len`. Caller frees. */
char *explain_text(const struct explain_config *config, const char *name, size_t *len);

/*
 * --explain: asks the kubedns whose health port this is for the same words about `name` and prints
 * them. 0, or -errno after a line.
 */
int explain_ask(const char *name, const char *address, long port);

#endif
