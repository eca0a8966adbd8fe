/*
 * The tree as a master file (RFC 1035 section 5), for named-checkzone, nsd, diff and eyes.
 *
 * One zone: ours, or one of the reverse zones of --reverse-cidrs. Sorted, so that two can be
 * compared. What a static zone cannot hold is not in it: pod names, ANY, names without records
 * (empty namespaces), rotation, and addresses behind external CNAMEs.
 */
#ifndef KUBEDNS_SHOW_ZONE_H
#define KUBEDNS_SHOW_ZONE_H

#include <stdio.h>

#include "kubedns/answer/answer.h"
#include "treecache/treecache.h"

/* Finds the zone that `text` names ("" : ours); its name into `zone`. 0, or -EINVAL after a line
 * that lists the zones. */
int zone_find(const struct answer_config *config, const char *text, struct dname *zone);

/* Prints a zone of zone_find. Inside a read section, or by the writer. 0, or -EIO. */
int zone_print(FILE *out, const struct answer_config *config, const struct tree *tree,
    const struct dname *zone);

#endif
