/* A set of zones, asked whether one of them has a name: time is in the name's labels, not in the
 * number of zones. Names are lower case without final dot; "." is the root. */
#ifndef MIGRATE_ZONE_SET_H
#define MIGRATE_ZONE_SET_H

#include <stdbool.h>

struct zone_set;

struct zone_set *zone_set_new(void);
void zone_set_free(struct zone_set *set);
void zone_set_add(struct zone_set *set, const char *zone);

/* Whether `zone` itself is in the set. */
bool zone_set_has(const struct zone_set *set, const char *zone);

/* Whether `name` is one of the zones or below one. */
bool zone_set_covers(const struct zone_set *set, const char *name);

#endif
