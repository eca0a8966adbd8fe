#include "kubedns/config/external_setup.h"

#include <stdlib.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/stage.h"
#include "kubedns/cluster/clusterset/clusterset.h"
#include "kubedns/cluster/external/external.h"
#include "kubedns/config/options.h"
#include "lib/metrics.h"
#include "lib/xalloc.h"
#include "treecache/treecache.h"

struct external_names {
	struct external *claims;
	struct clusterset *clusterset; /* NULL without --clusterset-domain */
	struct external_zones zones;
	bool begun;
	/* The same zones without the zone of --clusterset-domain, for --external-address. */
	struct external_zones outside;
};

/* Adds the zone of --clusterset-domain after the zones of --external-zones, in the same tree. */
static void
add_clusterset(
    struct external_names *names, const struct options *o, const struct store *store, uint64_t seed)
{
	struct clusterset_config config = { .zone = o->external.zones[o->external.zone_count],
		.ttl_s = o->answers.ttl_s,
		.ns_addrs = o->zone.ns_addrs,
		.ns_addr_count = o->zone.ns_addr_count,
		.endpoint_pod_names = o->zone.endpoint_pod_names,
		.store = store };

	names->clusterset = clusterset_new(&config, external_tree(names->claims), seed);
	names->zones.clusterset = &o->external.zones[o->external.zone_count];
	names->zones.zone_count++;
}

struct external_names *
external_names_new(struct options *o, const struct store *store, uint64_t seed)
{
	bool default_ns = o->external.ns_count == 0 && o->external.ns_addr_count == 0;
	struct external_config config = { .zones = o->external.zones,
		.zone_count = o->external.zone_count,
		.ns = o->external.ns,
		.ns_count = o->external.ns_count,
		.ns_addrs = default_ns ? o->zone.ns_addrs : o->external.ns_addrs,
		.ns_addr_count = default_ns ? o->zone.ns_addr_count : o->external.ns_addr_count,
		.ttl_s = o->answers.ttl_s,
		.namespaces = o->source.wanted_namespaces,
		.namespace_labels = o->source.namespace_selector,
		.refuse_wildcards = o->external.refuse_wildcards,
		.refuse_apex = o->external.refuse_apex,
		.refuse_external_ips = o->external.refuse_external_ips };

	if (config.zone_count == 0 && !o->clusterset.wanted)
		return NULL;
	struct external_names *names = xcalloc(1, sizeof *names);
	names->claims = external_new(&config, seed);
	names->zones = (struct external_zones){ .tree = external_tree(names->claims),
		.zones = config.zones,
		.zone_count = config.zone_count,
		.headless = o->external.headless,
		.primary =
		    config.ns_addr_count == 0 && config.ns_count > 0 ? &config.ns[0] : NULL };
	names->outside = names->zones;
	names->outside.alone = true;
	if (o->clusterset.wanted)
		add_clusterset(names, o, store, seed);
	external_zones_set(&o->answers, &names->zones);
	o->external.answers = o->answers;
	external_zones_set(&o->external.answers, &names->outside);
	/* Queries to --external-address are never forwarded. */
	o->external.answers.stage_config[STAGE_upstream] = NULL;
	/* A client of --external-address is not a pod of this node. */
	o->external.answers.choice = NULL;
	stages_build(&o->answers);
	stages_build(&o->external.answers);
	return names;
}

void
external_names_event(struct external_names *names, enum object_kind kind, enum event_type type,
    const struct object *object)
{
	if (names == NULL)
		return;
	external_event(names->claims, kind, type, object);
	if (names->clusterset != NULL)
		clusterset_event(names->clusterset, kind, type, object);
}

bool
external_names_publish(struct external_names *names, uint32_t now_s, bool synced)
{
	if (names == NULL)
		return false;
	/* The changes are written even before the zones are synced. A tree that readers have not
	 * seen is changed in place. */
	if (names->clusterset != NULL)
		clusterset_settle(names->clusterset);
	if (synced && !names->begun)
		external_begin(names->claims);
	names->begun |= synced;
	return synced && treecache_publish(external_tree(names->claims), now_s, true);
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

const struct clusterset *
external_names_clusterset(const struct external_names *names)
{
	return names == NULL ? NULL : names->clusterset;
}

static void
clusterset_metrics(const struct clusterset *clusterset, struct metrics *m)
{
	struct clusterset_counts counts = clusterset_counts(clusterset);

	metrics_family(m, "kubedns_clusterset_imports", METRIC_GAUGE,
	    "ServiceImports, whose names are in --clusterset-domain, by type.");
	metrics_value(m, (double)counts.ip, "type", "clustersetip", NULL);
	metrics_value(m, (double)counts.headless, "type", "headless", NULL);
	metrics_family(m, "kubedns_clusterset_slices", METRIC_GAUGE,
	    "EndpointSlices that name a ServiceImport and its cluster.");
	metrics_value(m, (double)counts.slices, NULL);
	metrics_family(m, "kubedns_clusterset_endpoints", METRIC_GAUGE,
	    "Ready endpoints of headless ServiceImports that have names.");
	metrics_value(m, (double)counts.endpoints, NULL);
	metrics_family(m, "kubedns_clusterset_cut_imports", METRIC_GAUGE,
	    "Headless ServiceImports with endpoints whose names would be too long.");
	metrics_value(m, (double)counts.cut, NULL);
}

static void
claims_metrics(const struct external *claims, struct metrics *m)
{
	static const enum object_kind kinds[] = { OBJECT_SERVICE, OBJECT_INGRESS, OBJECT_GATEWAY,
		OBJECT_HTTPROUTE, OBJECT_GRPCROUTE, OBJECT_TLSROUTE };

	metrics_family(m, "kubedns_external_objects", METRIC_GAUGE,
	    "Objects that may have names in --external-zones, by resource.");
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		metrics_value(m, (double)external_count(claims, kinds[i]), "resource",
		    object_kind_resource(kinds[i]), NULL);
	metrics_family(m, "kubedns_external_names", METRIC_GAUGE, "Names in --external-zones.");
	metrics_value(m, (double)external_name_count(claims), NULL);
	metrics_family(m, "kubedns_external_conflicts", METRIC_GAUGE,
	    "Names in --external-zones that another object claims with other addresses.");
	metrics_value(m, (double)external_conflicts(claims), NULL);
	metrics_family(m, "kubedns_external_hosts_refused_total", METRIC_COUNTER,
	    "Host names for --external-zones that cannot be a name or that --external-refuse "
	    "refuses, "
	    "each time they were read.");
	metrics_value(m, (double)external_refused_total(claims), NULL);
}

void
external_names_metrics(const struct external_names *names, struct metrics *m)
{
	if (names != NULL && names->outside.zone_count > 0)
		claims_metrics(names->claims, m);
	if (names != NULL && names->clusterset != NULL)
		clusterset_metrics(names->clusterset, m);
}

void
external_names_free(struct external_names *names)
{
	if (names == NULL)
		return;
	clusterset_free(names->clusterset);
	external_free(names->claims);
	free(names);
}
