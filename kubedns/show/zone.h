/*
 * --print-zone: a zone as a master file (RFC 1035 section 5), for named-checkzone, nsd and diff.
 *
 * The zone is one of zone_walk.h, which says what is missing. Sorted, so that two can be compared.
 */
#ifndef KUBEDNS_SHOW_ZONE_H
#define KUBEDNS_SHOW_ZONE_H

#include <stdio.h>

#include "kubedns/answer/answer.h"
#include "treecache/treecache.h"

/* Finds the zone that `text` names ("": ours), and puts its index (zone_walk.h) into `zone`. 0, or
 * -EINVAL after the zones that there are were logged. */
int zone_find(const struct answer_config *config, const char *text, size_t *zone);

/* Prints a zone of zone_find(), in a read section of `tree` or by its writer. 0, or -EIO. */
int zone_print(FILE *out, const struct answer_config *config, const struct tree *tree, size_t zone);

#endif
