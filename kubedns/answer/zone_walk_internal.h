/* What the files of zone_walk.h share: zone_walk.c (zones), zone_walk_endpoints.c (endpoint sets)
 * and zone_walk_headless.c (--external-headless). */
#ifndef KUBEDNS_ANSWER_ZONE_WALK_INTERNAL_H
#define KUBEDNS_ANSWER_ZONE_WALK_INTERNAL_H

#include "kubedns/answer/zone_walk.h"

/* A record, unless the walk has been ended or a name of one's own takes its place. */
void zone_walk_put(struct zone_walk *walk, const struct dname *owner, uint32_t ttl_s, uint16_t type,
    const void *rdata, size_t len);

/* The records of this type at `owner`, as a client would get them. */
void zone_walk_put_answers(struct zone_walk *walk, const struct dname *owner, uint16_t type);

/* The endpoint set of a Service of this name, in the walk's tree. */
void zone_walk_put_endpoints(
    struct zone_walk *walk, const struct dname *service, const struct endpoint_set *endpoints);

/* What a node of the walk's external tree has that is a headless import's, or one of its clusters': at
 * the import's also the SRV records below it. */
void zone_walk_put_import(
    struct zone_walk *walk, const struct dname *name, const struct node *node);

/* A record of the Service of walk->headless, under its name there, if nothing else has the name. */
void zone_walk_put_headless(struct zone_walk *walk, const struct zone_record *record);

/* All headless Services, as zone_walk_headless() has each. */
void zone_walk_all_headless(struct zone_walk *walk, size_t index);

#endif
