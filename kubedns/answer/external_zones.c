#include "kubedns/answer/external_zones.h"

const struct dname *
external_zone_of(const struct external_zones *zones, const struct name *name)
{
	const struct dname *best = NULL;

	for (size_t i = 0; i < zones->zone_count; i++) {
		const struct dname *zone = &zones->zones[i];
		if ((best == NULL || zone->len > best->len) && name_below(name, zone) >= 0)
			best = zone;
	}
	return best;
}

struct external_name
external_lookup(const struct tree *tree, const struct name *name, const struct dname *zone)
{
	static const uint8_t star[16] = "\1*"; /* tree_child() reads behind the label */
	const struct node *node = tree->root, *next;
	unsigned below = (unsigned)name_below(name, zone);

	for (unsigned i = name->count; i > 0; i--, node = next) {
		next = tree_child(tree, node, name->wire + name->offsets[i - 1]);
		if (next != NULL)
			continue;
		/* `node` is the closest encloser; above the zone there are no names of ours. */
		return (struct external_name){ i > below ? NULL : tree_child(tree, node, star),
			true, (uint8_t)i };
	}
	return (struct external_name){ node, false, 0 };
}

/* RFC 1982 */
static uint32_t
later(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0 ? a : b;
}

uint32_t
external_serial(
    const struct external_zones *zones, const struct tree *tree, const struct tree *external)
{
	return zones->headless ? later(tree->serial, external->serial) : external->serial;
}

uint32_t
reverse_serial(
    const struct external_zones *zones, const struct tree *tree, const struct tree *external)
{
	bool both = zones != NULL && zones->clusterset != NULL && external != NULL;

	return both && external->synced ? later(tree->serial, external->serial) : tree->serial;
}
