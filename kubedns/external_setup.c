#include "kubedns/external_setup.h"

#include <stdlib.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/cluster/external.h"
#include "kubedns/options.h"
#include "lib/metrics.h"
#include "lib/xalloc.h"
#include "treecache/treecache.h"

struct external_names {
	struct external *claims;
	struct external_zones zones;
};

struct external_names *
external_names_new(struct options *o, uint64_t seed)
{
	bool default_ns = o->external_ns_count == 0 && o->external_ns_addr_count == 0;
	struct external_config config = { .zones = o->external_zones,
		.zone_count = o->external_zone_count,
		.ns = o->external_ns,
		.ns_count = o->external_ns_count,
		.ns_addrs = default_ns ? o->ns_addrs : o->external_ns_addrs,
		.ns_addr_count = default_ns ? o->ns_addr_count : o->external_ns_addr_count,
		.ttl_s = o->answers.ttl_s,
		.namespaces = o->wanted_namespaces,
		.namespace_labels = o->namespace_selector };

	if (config.zone_count == 0)
		return NULL;
	struct external_names *names = xcalloc(1, sizeof *names);
	names->claims = external_new(&config, seed);
	names->zones = (struct external_zones){ .tree = external_tree(names->claims),
		.zones = config.zones,
		.zone_count = config.zone_count,
		.headless = o->external_headless,
		.primary =
		    config.ns_addr_count == 0 && config.ns_count > 0 ? &config.ns[0] : NULL };
	o->answers.external = &names->zones;
	o->external_answers = o->answers;
	o->external_answers.external_only = true;
	/* No recursion there, and no search list. */
	o->external_answers.search_resolver = false;
	return names;
}

void
external_names_event(struct external_names *names, enum object_kind kind, enum event_type type,
    const struct object *object)
{
	if (names != NULL)
		external_event(names->claims, kind, type, object);
}

struct treecache *
external_names_tree(const struct external_names *names)
{
	return names == NULL ? NULL : external_tree(names->claims);
}

bool
external_names_publish(struct external_names *names, uint32_t now_s, bool synced)
{
	return names != NULL && synced &&
	       treecache_publish(external_tree(names->claims), now_s, true);
}

size_t
external_names_garbage(const struct external_names *names)
{
	return names == NULL ? 0 : treecache_garbage(external_tree(names->claims));
}

void
external_names_reclaim(struct external_names *names)
{
	if (names != NULL)
		treecache_reclaim(external_tree(names->claims));
}

const struct external *
external_names_claims(const struct external_names *names)
{
	return names == NULL ? NULL : names->claims;
}

void
external_names_metrics(const struct external_names *names, struct metrics *m)
{
	static const enum object_kind kinds[] = { OBJECT_SERVICE, OBJECT_INGRESS, OBJECT_GATEWAY,
		OBJECT_HTTPROUTE, OBJECT_GRPCROUTE, OBJECT_TLSROUTE };

	if (names == NULL)
		return;
	metrics_family(m, "kubedns_external_objects", METRIC_GAUGE,
	    "Objects that may have names in --external-zones, by resource.");
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		metrics_value(m, (double)external_count(names->claims, kinds[i]), "resource",
		    object_kind_resource(kinds[i]), NULL);
	metrics_family(m, "kubedns_external_names", METRIC_GAUGE, "Names in --external-zones.");
	metrics_value(m, (double)external_name_count(names->claims), NULL);
	metrics_family(m, "kubedns_external_conflicts", METRIC_GAUGE,
	    "Names in --external-zones that another object claims with other addresses.");
	metrics_value(m, (double)external_conflicts(names->claims), NULL);
	metrics_family(m, "kubedns_external_hosts_refused_total", METRIC_COUNTER,
	    "Host names for --external-zones that cannot be a name, each time they were read.");
	metrics_value(m, (double)external_refused_total(names->claims), NULL);
}

void
external_names_free(struct external_names *names)
{
	if (names != NULL)
		external_free(names->claims);
	free(names);
}
