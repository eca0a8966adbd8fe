/* Explains names of the zone of a cluster set: which ServiceImport they are of, and what it lacks. */
#include "kubedns/answer/external_zones.h"
#include "kubedns/cluster/clusterset.h"
#include "kubedns/show/explain_internal.h"
#include "lib/wire.h"

/* The ServiceImport, or that there is none. */
static void
say_import(const struct explanation *e, const char *namespace, const char *name)
{
	struct import_source source;
	size_t slices;

	if (!clusterset_find(e->config->clusterset, namespace, name, &source, &slices)) {
		fprintf(e->out, "  there is no ServiceImport %s/%s", namespace, name);
		if (slices > 0)
			fprintf(e->out, ", though %zu EndpointSlices name it", slices);
		fprintf(e->out, "\n");
		return;
	}
	fprintf(e->out, "  from %s ServiceImport %s/%s",
	    source.headless ? "headless" : "ClusterSetIP", namespace, name);
	if (source.resource_version != 0)
		fprintf(
		    e->out, " (resourceVersion %llu)", (unsigned long long)source.resource_version);
	fprintf(e->out, "\n");
	if (!source.shown)
		fprintf(e->out,
		    "  which has no names: --namespaces or --namespace-labels leaves %s out\n",
		    namespace);
	else if (source.headless)
		fprintf(e->out,
		    "  and %zu ready endpoints of %zu EndpointSlices in %zu clusters%s\n",
		    source.endpoints, source.slices, source.clusters,
		    source.cut ? ", not all of which have names: see "
				 "kubedns_clusterset_cut_imports"
			       : "");
}

void
explain_clusterset(struct explanation *e, const uint8_t *qname, const struct dname *zone)
{
	static const uint16_t types[] = { TYPE_A, TYPE_AAAA, TYPE_SRV, TYPE_NS, TYPE_TXT };
	const struct external_zones *zones = e->config->answers->external;
	const struct tree *tree = tree_current(zones->tree);
	struct resolved resolved;
	unsigned below = (unsigned)name_below(&e->name, zone), records = 0;
	char namespace[DNAME_TEXT_MAX], service[DNAME_TEXT_MAX];

	enum resolved_kind kind = import_resolve(tree, &e->name, &resolved);
	if (kind == RESOLVED_NOTHING) {
		fprintf(e->out,
		    "NXDOMAIN: %s is in --clusterset-domain, and no ServiceImport has it.\n",
		    e->text);
	} else {
		fprintf(e->out, "%s exists, in --clusterset-domain.\n", e->text);
		for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
			explain_query(e, qname, types[i], &records);
		if (records == 0)
			fprintf(e->out, "  no records of its own (NODATA)\n");
	}
	if (below < 3 || e->config->clusterset == NULL)
		return;
	/* SERVICE.NAMESPACE.svc */
	explain_label(e->name.wire + e->name.offsets[below - 2], namespace);
	explain_label(e->name.wire + e->name.offsets[below - 3], service);
	say_import(e, namespace, service);
}
