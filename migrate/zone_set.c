#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "migrate/zone_set.h"

/* json-c's objects are hash tables with a seed of their own. */
struct zone_set {
	struct json_object *zones;
};

struct zone_set *
zone_set_new(void)
{
	struct zone_set *set = xmalloc(sizeof *set);

	set->zones = json_object_new_object();
	return set;
}

void
zone_set_free(struct zone_set *set)
{
	if (set == NULL)
		return;
	json_object_put(set->zones);
	free(set);
}

void
zone_set_add(struct zone_set *set, const char *zone)
{
	json_object_object_add(set->zones, zone, NULL);
}

bool
zone_set_has(const struct zone_set *set, const char *zone)
{
	return json_object_object_get_ex(set->zones, zone, NULL);
}

bool
zone_set_covers(const struct zone_set *set, const char *name)
{
	if (zone_set_has(set, "."))
		return true;
	for (const char *rest = name; rest != NULL; rest = strchr(rest, '.')) {
		rest += *rest == '.';
		if (zone_set_has(set, rest))
			return true;
	}
	return false;
}
