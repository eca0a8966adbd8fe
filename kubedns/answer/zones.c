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

bool
zone_is_external(const struct answer_config *config, size_t index)
{
	return index > reverse_config(config)->zone_count;
}

const struct dname *
zone_name(const struct answer_config *config, size_t index)
{
	const struct reverse_config *reverse = reverse_config(config);

	if (zone_is_external(config, index))
		return &external_config(config)->zones[index - 1 - reverse->zone_count];
	return index == 0 ? &config->zone : &reverse->zones[index - 1].name;
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

uint32_t
zone_serial(const struct answer_config *config, size_t index, const struct zone_trees *trees)
{
	const struct external_zones *zones = external_config(config);

	return zone_is_external(config, index)
		   ? external_serial(zones, trees->tree, trees->external)
	       : index > 0 ? reverse_serial(zones, trees->tree, trees->external)
			   : trees->tree->serial;
}

bool
zone_is_synced(const struct answer_config *config, size_t index, const struct zone_trees *trees)
{
	const struct tree *external = trees->external;
	bool imports = clusterset_config(config) != NULL;

	return (zone_is_external(config, index) || trees->tree->synced) &&
	       (index == 0 || (!zone_is_external(config, index) && !imports) ||
		   (external != NULL && external->synced));
}

bool
zone_is_answered(const struct answer_config *config, size_t index)
{
	return !config->stages.beside_only || zone_is_external(config, index);
}

size_t
zone_soa(const struct answer_config *config, size_t index, uint32_t serial, uint8_t *rdata)
{
	bool external = zone_is_external(config, index);
	const struct dname *zone = external ? zone_name(config, index) : &config->zone;
	const struct soa soa = { .zone = zone,
		.primary = external ? external_primary(external_config(config), zone) : NULL,
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
	const struct external_zones *external = external_config(config);
	bool listed = false;

	for (size_t i = 0; i < upstream->fallthrough_count && !listed; i++)
		listed = name_below(name, &upstream->fallthrough[i]) >= 0;
	if (!listed || external == NULL || name_below(name, &config->zone) >= 0)
		return listed;
	const struct dname *zone = external_zone_of(external, name);
	return zone == NULL || zone == external->clusterset;
}
