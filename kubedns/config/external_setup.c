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

struct external_setup {
	struct external *claims;
	struct clusterset *clusterset; /* NULL without --clusterset-domain */
	struct external_zones zones;
	bool begun;
	/* The same zones without the zone of --clusterset-domain, for --external-address. */
	struct external_zones second;
};

/* Adds the zone of --clusterset-domain after the zones of --external-zones, in the same tree. */
static void
add_clusterset(
    struct external_setup *setup, const struct options *o, const struct store *store, uint64_t seed)
{
	struct clusterset_config config = { .zone = o->external.zones[o->external.zone_count],
		.ttl_s = o->answers.ttl_s,
		.ns_addrs = o->zone.ns_addrs,
		.ns_addr_count = o->zone.ns_addr_count,
		.endpoint_pod_names = o->zone.endpoint_pod_names,
		.store = store };

	setup->clusterset = clusterset_new(&config, external_tree(setup->claims), seed);
	setup->zones.clusterset = &o->external.zones[o->external.zone_count];
	setup->zones.zone_count++;
}

struct external_setup *
external_setup_new(struct options *o, const struct store *store, uint64_t seed)
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
	struct external_setup *setup = xcalloc(1, sizeof *setup);
	setup->claims = external_new(&config, seed);
	setup->zones = (struct external_zones){ .tree = external_tree(setup->claims),
		.zones = config.zones,
		.zone_count = config.zone_count,
		.headless = o->external.headless,
		.primary =
		    config.ns_addr_count == 0 && config.ns_count > 0 ? &config.ns[0] : NULL };
	setup->second = setup->zones;
	setup->second.alone = true;
	if (o->clusterset.wanted)
		add_clusterset(setup, o, store, seed);
	external_zones_set(&o->answers, &setup->zones);
	o->external.answers = o->answers;
	external_zones_set(&o->external.answers, &setup->second);
	/* Queries to --external-address are never forwarded. */
	o->external.answers.stage_config[STAGE_upstream] = NULL;
	/* A client of --external-address is not a pod of this node. */
	o->external.answers.choice = NULL;
	stages_build(&o->answers);
	stages_build(&o->external.answers);
	return setup;
}

void
external_setup_event(struct external_setup *setup, enum object_kind kind, enum event_type type,
    const struct object *object)
{
	if (setup == NULL)
		return;
	external_event(setup->claims, kind, type, object);
	if (setup->clusterset != NULL)
		clusterset_event(setup->clusterset, kind, type, object);
}

bool
external_setup_publish(struct external_setup *setup, uint32_t now_s, bool synced)
{
	if (setup == NULL)
		return false;
	/* The changes are written even before the zones are synced. A tree that readers have not
	 * seen is changed in place. */
	if (setup->clusterset != NULL)
		clusterset_settle(setup->clusterset);
	if (synced && !setup->begun)
		external_begin(setup->claims);
	setup->begun |= synced;
	return synced && treecache_publish(external_tree(setup->claims), now_s, true);
}

size_t
external_setup_garbage(const struct external_setup *setup)
{
	return setup == NULL ? 0 : treecache_garbage(external_tree(setup->claims));
}

void
external_setup_reclaim(struct external_setup *setup)
{
	if (setup != NULL)
		treecache_reclaim(external_tree(setup->claims));
}

const struct external *
external_setup_claims(const struct external_setup *setup)
{
	return setup == NULL ? NULL : setup->claims;
}

const struct clusterset *
external_setup_clusterset(const struct external_setup *setup)
{
	return setup == NULL ? NULL : setup->clusterset;
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
		OBJECT_LISTENERSET, OBJECT_HTTPROUTE, OBJECT_GRPCROUTE, OBJECT_TLSROUTE };

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
external_setup_metrics(const struct external_setup *setup, struct metrics *m)
{
	if (setup != NULL && setup->second.zone_count > 0)
		claims_metrics(setup->claims, m);
	if (setup != NULL && setup->clusterset != NULL)
		clusterset_metrics(setup->clusterset, m);
}

void
external_setup_free(struct external_setup *setup)
{
	if (setup == NULL)
		return;
	clusterset_free(setup->clusterset);
	external_free(setup->claims);
	free(setup);
}
