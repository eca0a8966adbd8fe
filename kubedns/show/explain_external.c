/* Explains names of the zones for the world outside: who has them, and who claims them too. */
#include "kubedns/answer/external_zones.h"
#include "kubedns/cluster/external.h"
#include "kubedns/show/explain_internal.h"
#include "lib/wire.h"

static void
say_claim(const struct explanation *e, const struct external_source *source, const char *how)
{
	static const char *const kinds[OBJECT_KIND_COUNT] = { [OBJECT_SERVICE] = "Service",
		[OBJECT_INGRESS] = "Ingress",
		[OBJECT_GATEWAY] = "Gateway",
		[OBJECT_HTTPROUTE] = "HTTPRoute",
		[OBJECT_GRPCROUTE] = "GRPCRoute",
		[OBJECT_TLSROUTE] = "TLSRoute" };

	if (source->kind == OBJECT_KIND_COUNT) {
		fprintf(e->out, "  %s --external-ns: the zone's own name server\n", how);
		return;
	}
	fprintf(e->out, "  %s %s %s/%s", how, kinds[source->kind], source->namespace, source->name);
	if (source->resource_version != 0)
		fprintf(e->out, " (resourceVersion %llu)",
		    (unsigned long long)source->resource_version);
	fprintf(e->out, "\n");
}

/* The claims of this name, or of the wildcard that stands for it. */
static void
say_claims(const struct explanation *e, const uint8_t *wire)
{
	enum { SHOWN_MAX = 5 };
	const struct external *claims = e->config->external;
	struct external_source source;
	bool differs;

	for (size_t i = 0; i < SHOWN_MAX && external_find(claims, wire, i, &source, &differs); i++)
		say_claim(e, &source,
		    i == 0    ? "from"
		    : differs ? "claimed too, with other addresses, by"
			      : "and from");
}

static void
say_wildcard(const struct explanation *e, const struct dname *zone)
{
	char text[DNAME_TEXT_MAX];

	/* From the name's own parent up: the first wildcard that exists is the one. */
	for (unsigned i = 1; i < e->name.count; i++) {
		const uint8_t *parent = e->name.wire + e->name.offsets[i];
		struct dname wildcard = { .len = (uint8_t)dname_length(parent, DNAME_MAX) };
		struct external_source source;
		bool differs;
		memcpy(wildcard.wire, parent, wildcard.len);
		if (dname_in_zone(parent, zone->wire) < 0 || dname_prepend(&wildcard, "*", 1) < 0)
			return;
		if (!external_find(e->config->external, wildcard.wire, 0, &source, &differs))
			continue;
		fprintf(e->out, "  by the wildcard %s\n", dname_to_text(wildcard.wire, text));
		say_claims(e, wildcard.wire);
		return;
	}
}

/* A name that nobody claims, with records all the same: --external-headless. `exists`: in the tree of
 * what is claimed, as a claimed Service's ports are. */
static bool
say_headless(
    const struct explanation *e, const uint8_t *qname, const struct dname *zone, bool exists)
{
	static const uint16_t types[] = { TYPE_A, TYPE_AAAA, TYPE_SRV };
	unsigned below = (unsigned)name_below(&e->name, zone), records = 0;
	char namespace[DNAME_TEXT_MAX], service[DNAME_TEXT_MAX];
	struct external_source source;
	bool differs;

	if (below < 2 || below > (exists ? 3 : 4) || e->config->external == NULL ||
	    external_find(e->config->external, qname, 0, &source, &differs))
		return false;
	explain_label(e->name.wire + e->name.offsets[below - 1], namespace);
	explain_label(e->name.wire + e->name.offsets[below - 2], service);
	struct store_source from;
	if (!store_find_service(e->config->store, namespace, service, &from))
		return false;
	fprintf(e->out, "%s, as a headless Service has it (--external-headless):\n", e->text);
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		explain_query(e, qname, types[i], &records);
	fprintf(e->out,
	    records == 0 ? "  nothing: Service %s/%s is not headless, or has no such "
			   "ready endpoint\n"
			 : "  from Service %s/%s\n",
	    namespace, service);
	return true;
}

bool
explain_external(struct explanation *e, const uint8_t *qname)
{
	static const uint16_t types[] = { TYPE_A, TYPE_AAAA, TYPE_SRV, TYPE_NS };
	const struct external_zones *zones = e->config->answers->external;
	const struct dname *zone = zones == NULL ? NULL : external_zone_of(zones, &e->name);
	char text[DNAME_TEXT_MAX];
	unsigned records = 0;

	if (zone == NULL || name_below(&e->name, &e->config->answers->zone) >= 0)
		return false;
	dname_to_text(zone->wire, text);
	const struct tree *tree = tree_current(zones->tree);
	if (!tree->synced) {
		fprintf(e->out, "SERVFAIL: %s is %s, not synced yet.\n", text,
		    zone == zones->clusterset ? "--clusterset-domain" : "one of --external-zones");
		return true;
	}
	if (zone == zones->clusterset) {
		explain_clusterset(e, qname, zone);
		return true;
	}
	struct external_name found =
	    external_find_name(e->config->answers, e->config->tree, tree, &e->name, zone);
	if (zones->headless && say_headless(e, qname, zone, found.node != NULL && !found.wildcard))
		return true;
	if (found.node == NULL) {
		fprintf(e->out,
		    "NXDOMAIN: %s is in %s of --external-zones, and no Service, Ingress, Gateway "
		    "or route with an address claims it.\n",
		    e->text, text);
		return true;
	}
	fprintf(e->out, "%s exists, in %s of --external-zones.\n", e->text, text);
	bool alias = node_rrset(found.node, TYPE_CNAME) != NULL; /* the same for every type */
	for (size_t i = 0; i < (alias ? 1 : sizeof types / sizeof types[0]); i++)
		explain_query(e, qname, types[i], &records);
	struct external_source source;
	bool differs;
	if (records == 0)
		fprintf(e->out, "  no records of its own (NODATA): %s\n",
		    e->config->external != NULL && !found.wildcard &&
			    external_find(e->config->external, qname, 0, &source, &differs)
			? "it is kept for what has no address yet"
			: "only names below it");
	if (e->config->external != NULL && found.wildcard)
		say_wildcard(e, zone);
	else if (e->config->external != NULL)
		say_claims(e, qname);
	return true;
}
