#include "kubedns/answer/zones.h"

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/upstream_stage.h"
#include "treecache/treecache.h"

size_t
zone_count(const struct answer_config *config)
{
	const struct external_zones *external = external_config(config);

	return 1 + reverse_config(config)->zone_count +
	       (external == NULL ? 0 : external->zone_count);
}

static struct zone
external_zone(const struct external_zones *zones, size_t i)
{
	const struct dname *name = &zones->zones[i];

	return (struct zone){ name == zones->clusterset ? ZONE_CLUSTERSET : ZONE_EXTERNAL, name };
}

struct zone
zone_at(const struct answer_config *config, size_t index)
{
	const struct reverse_config *reverse = reverse_config(config);

	if (index == 0)
		return (struct zone){ ZONE_CLUSTER, &config->zone };
	if (index <= reverse->zone_count)
		return (struct zone){ ZONE_REVERSE, &reverse->zones[index - 1].name };
	return external_zone(external_config(config), index - 1 - reverse->zone_count);
}

struct zone
external_zone_of(const struct answer_config *config, const struct name *name)
{
	const struct external_zones *zones = external_config(config);
	struct zone best = { ZONE_NONE, NULL };

	for (size_t i = 0; zones != NULL && i < zones->zone_count; i++) {
		const struct dname *zone = &zones->zones[i];

		if ((best.name == NULL || zone->len > best.name->len) &&
		    name_below(name, zone) >= 0)
			best = external_zone(zones, i);
	}
	return best;
}

int
zone_index(const struct answer_config *config, const uint8_t *name)
{
	for (size_t i = 0; i < zone_count(config); i++)
		if (dname_equal(name, zone_name(config, i)->wire))
			return (int)i;
	return -1;
}

struct zone_trees
zone_trees_now(const struct answer_config *config, const struct tree *tree)
{
	const struct external_zones *zones = external_config(config);

	return (struct zone_trees){ tree, zones == NULL ? NULL : tree_current(zones->tree) };
}

struct zone_hold
zones_hold(const struct answer_config *config, struct treecache *cache)
{
	const struct external_zones *zones = external_config(config);

	return (struct zone_hold){ treecache_hold(cache),
		zones == NULL ? NULL : treecache_hold(zones->tree) };
}

struct zone_trees
zone_hold_trees(const struct zone_hold *hold)
{
	return (struct zone_trees){ tree_held(hold->tree),
		hold->external == NULL ? NULL : tree_held(hold->external) };
}

struct zone_hold
zone_hold_share(const struct zone_hold *hold)
{
	return (struct zone_hold){ tree_hold_share(hold->tree),
		hold->external == NULL ? NULL : tree_hold_share(hold->external) };
}

void
zone_hold_drop(const struct zone_hold *hold)
{
	tree_hold_drop(hold->tree);
	tree_hold_drop(hold->external);
}

size_t
zones_held_bytes(const struct answer_config *config, const struct treecache *cache)
{
	const struct external_zones *zones = external_config(config);

	return treecache_held(cache) + (zones == NULL ? 0 : treecache_held(zones->tree));
}

static bool
is_in_own_tree(const struct answer_config *config, enum zone_kind kind)
{
	return kind == ZONE_CLUSTER || kind == ZONE_REVERSE ||
	       (kind == ZONE_EXTERNAL && external_config(config)->headless);
}

static bool
is_in_external_tree(const struct answer_config *config, enum zone_kind kind)
{
	return kind == ZONE_EXTERNAL || kind == ZONE_CLUSTERSET ||
	       (kind == ZONE_REVERSE && clusterset_config(config) != NULL);
}

uint32_t
zone_serial(const struct answer_config *config, struct zone zone, const struct zone_trees *trees)
{
	const struct tree *tree = trees->tree, *external = trees->external;

	if (!is_in_own_tree(config, zone.kind))
		return external->serial;
	/* the later of two serials (RFC 1982) */
	return is_in_external_tree(config, zone.kind) && external != NULL && external->synced &&
		       (int32_t)(external->serial - tree->serial) > 0
		   ? external->serial
		   : tree->serial;
}

bool
zone_is_synced(const struct answer_config *config, struct zone zone, const struct zone_trees *trees)
{
	return (!is_in_own_tree(config, zone.kind) || trees->tree->synced) &&
	       (!is_in_external_tree(config, zone.kind) ||
		   (trees->external != NULL && trees->external->synced));
}

bool
zone_is_answered(const struct answer_config *config, struct zone zone)
{
	return !config->stages.beside_only || zone.kind == ZONE_EXTERNAL;
}

size_t
zone_soa(const struct answer_config *config, struct zone zone, uint32_t serial, uint8_t *rdata)
{
	bool own = zone.kind == ZONE_CLUSTER || zone.kind == ZONE_REVERSE;
	const struct soa soa = { .zone = own ? &config->zone : zone.name,
		.primary = zone.kind == ZONE_EXTERNAL ? external_config(config)->primary : NULL,
		.serial = serial,
		.minimum_s = config->negative_ttl_s };

	return soa_write(&soa, rdata);
}

const struct reverse_zone *
zone_of_address(const struct answer_config *config, const struct addr *addr, unsigned bits)
{
	const struct reverse_config *reverse = reverse_config(config);
	const struct reverse_zone *closest = NULL;

	for (size_t i = 0; i < reverse->zone_count; i++) {
		const struct reverse_zone *zone = &reverse->zones[i];

		if (bits >= zone->bits && (closest == NULL || zone->bits > closest->bits) &&
		    addr_in_prefix(addr, &zone->prefix, zone->bits))
			closest = zone;
	}
	return closest;
}

const struct dname *
reverse_zone_of_name(const struct answer_config *config, const struct name *name)
{
	const struct reverse_config *reverse = reverse_config(config);
	const struct dname *closest = NULL;

	for (size_t i = 0; i < reverse->zone_count; i++) {
		const struct dname *zone = &reverse->zones[i].name;

		if (name_below(name, zone) >= 0 && (closest == NULL || zone->len > closest->len))
			closest = zone;
	}
	return closest;
}

bool
answer_falls_through(const struct answer_config *config, const struct name *name)
{
	const struct upstream_config *upstream = upstream_config(config);
	bool listed = false;

	for (size_t i = 0; i < upstream->fallthrough_count && !listed; i++)
		listed = name_below(name, &upstream->fallthrough[i]) >= 0;
	if (!listed || name_below(name, &config->zone) >= 0)
		return listed;
	return external_zone_of(config, name).kind != ZONE_EXTERNAL;
}
