/*
 * For explain.c: the steps of a search walk, in words.
 */
#ifndef KUBEDNS_SHOW_EXPLAIN_SEARCH_H
#define KUBEDNS_SHOW_EXPLAIN_SEARCH_H

#include <stdbool.h>
#include <stdio.h>

#include "kubedns/answer/resolve.h"

/*
 * What search completion makes of a name of our zone that the tree does not have, of `below` labels
 * before the zone; false: nothing was said, the name does not exist.
 */
bool explain_search(FILE *out, const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned below);

#endif
