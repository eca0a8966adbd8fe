/*
 * For explain.c: the steps of a search walk, in words.
 */
#ifndef KUBEDNS_SHOW_EXPLAIN_SEARCH_H
#define KUBEDNS_SHOW_EXPLAIN_SEARCH_H

#include <stdbool.h>
#include <stdio.h>

#include "kubedns/answer/zone_lookup.h"

/*
 * Explains what search completion does for a name that the tree does not have, with `below` labels
 * before our zone; false: nothing was printed, the name does not exist.
 */
bool explain_search(FILE *out, const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned below);

#endif
