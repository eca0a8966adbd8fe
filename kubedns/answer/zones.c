#include "kubedns/answer/zones.h"

#include "kubedns/answer/external_zones.h"
#include "treecache/treecache.h"

size_t
zone_count(const struct answer_config *config)
{
	size_t external = config->external == NULL ? 0 : config->external->zone_count;

	return 1 + config->reverse_zone_count + external;
}

bool
zone_is_external(const struct answer_config *config, size_t index)
{
	return index > config->reverse_zone_count;
}

const struct dname *
zone_name(const struct answer_config *config, size_t index)
{
	if (zone_is_external(config, index))
		return &config->external->zones[index - 1 - config->reverse_zone_count];
	return index == 0 ? &config->zone : &config->reverse_zones[index - 1].name;
}

int
zone_index(const struct answer_config *config, const uint8_t *name)
{
	for (size_t i = 0; i < zone_count(config); i++)
		if (dname_equal(name, zone_name(config, i)->wire))
			return (int)i;
	return -1;
}

uint32_t
zone_serial(const struct answer_config *config, size_t index, const struct tree *tree,
    const struct tree *external)
{
	return zone_is_external(config, index) ? external_serial(config->external, tree, external)
	       : index > 0                     ? reverse_serial(config->external, tree, external)
					       : tree->serial;
}

bool
zone_is_synced(const struct answer_config *config, size_t index, const struct tree *tree,
    const struct tree *external)
{
	bool imports = config->external != NULL && config->external->clusterset != NULL;

	return (zone_is_external(config, index) || tree->synced) &&
	       (index == 0 || (!zone_is_external(config, index) && !imports) ||
		   (external != NULL && external->synced));
}

size_t
zone_soa(const struct answer_config *config, size_t index, uint32_t serial, uint8_t *rdata)
{
	bool external = zone_is_external(config, index);
	const struct dname *zone = external ? zone_name(config, index) : &config->zone;
	const struct soa soa = { .zone = zone,
		.primary = external ? external_primary(config->external, zone) : NULL,
		.serial = serial,
		.minimum_s = config->negative_ttl_s };

	return soa_write(&soa, rdata);
}

const struct reverse_zone *
zone_of_address(const struct answer_config *config, const struct addr *addr, unsigned bits)
{
	const struct reverse_zone *closest = NULL;

	for (size_t i = 0; i < config->reverse_zone_count; i++) {
		const struct reverse_zone *zone = &config->reverse_zones[i];

		if (bits >= zone->bits && (closest == NULL || zone->bits > closest->bits) &&
		    addr_in_prefix(addr, &zone->prefix, zone->bits))
			closest = zone;
	}
	return closest;
}

bool
answer_falls_through(const struct answer_config *config, const struct name *name)
{
	bool listed = false;

	for (size_t i = 0; i < config->fallthrough_count && !listed; i++)
		listed = name_below(name, &config->fallthrough[i]) >= 0;
	if (!listed || config->external == NULL || name_below(name, &config->zone) >= 0)
		return listed;
	const struct dname *zone = external_zone_of(config->external, name);
	return zone == NULL || zone == config->external->clusterset;
}
