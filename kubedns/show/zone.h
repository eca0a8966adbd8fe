/*
 * --print-zone: prints a zone as a master file (RFC 1035 section 5), for named-checkzone, nsd and
 * diff.
 *
 * zone_walk.h describes the zones, and says which names are missing in the output. The output is
 * sorted, so two zones can be compared.
 */
#ifndef KUBEDNS_SHOW_ZONE_H
#define KUBEDNS_SHOW_ZONE_H

#include <stdio.h>

#include "kubedns/answer/answer.h"
#include "treecache/treecache.h"

/* Finds the zone with the name `text` and sets `*zone` to its index (zone_walk.h). "" means our
 * own zone. If there is no such zone, logs the existing zones and returns -EINVAL. Otherwise
 * returns 0. */
int zone_find(const struct answer_config *config, const char *text, size_t *zone);

/* Prints the zone with this index. Call it in a read section of `tree`, or in the writer's thread.
 * Returns 0 or -EIO. */
int zone_print(FILE *out, const struct answer_config *config, const struct tree *tree, size_t zone);

#endif
