/*
 * --wildcards: `*` as a label in a query matches every label, as in kube-dns. Disabled by default,
 * because it lets any pod list the cluster, and because the cost of a query grows with the number
 * of matches.
 */
#ifndef KUBEDNS_ANSWER_WILDCARD_H
#define KUBEDNS_ANSWER_WILDCARD_H

#include "kubedns/answer/zone_lookup.h"

enum { WILDCARD_NAMES_MAX = 10000 /* names tried for one query */ };

/* Returns whether one of the first `below` labels is `*`. */
bool wildcard_in(const struct name *name, unsigned below);

/*
 * Calls `visit` for every existing name that the first `below` labels match, until it returns false
 * or WILDCARD_NAMES_MAX names have been tried. Returns true if any name matched.
 */
bool wildcard_each(const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned below,
    bool (*visit)(void *arg, const struct resolved *resolved), void *arg);

#endif
