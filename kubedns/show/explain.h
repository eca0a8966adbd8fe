/*
 * Why a name is answered as it is, in words for an operator: which object at which resourceVersion
 * each record comes from, or which label of the name does not exist and what is nearest to it.
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
 * --explain: asks the kubedns that serves its health port there for the explanation of `name` and
 * prints it. 0, or -errno after an error was logged.
 */
int explain_ask(const char *name, const char *address, long port);

#endif
