/* Explains names that belong to a feature: local names, rewrites, external and clusterset zones,
 * stages of modules, views and places. */
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/nearest.h"
#include "kubedns/answer/local_names.h"
#include "kubedns/answer/rewrites.h"
#include "kubedns/answer/view.h"
#include "kubedns/cluster/clusterset/clusterset.h"
#include "kubedns/cluster/external/external.h"
#include "kubedns/cluster/store.h"
#include "kubedns/show/explain_internal.h"
#include "lib/rdata_text.h"
#include "lib/wire.h"
#include "treecache/treecache.h"

static void
say_sets(const struct explanation *e, const struct own_name *own)
{
	const struct rrset *set = NULL;
	unsigned shown = explain_shown_max(e), left = 0;
	char type[12];

	while ((set = own_name_rrset_next(own, set)) != NULL) {
		const uint8_t *record = set->data;

		for (unsigned i = 0; i < set->count; i++) {
			size_t len = wire_get16(record + 10);

			if (shown > 0) {
				fprintf(e->out, "  %s %u %s ", e->asked, wire_get32(record + 6),
				    type_name(set->type, type));
				rdata_print(e->out, set->type, record + 12, len);
				fprintf(e->out, "\n");
			}
			left += shown == 0;
			shown -= shown > 0;
			record += 12 + len;
		}
	}
	if (left > 0)
		fprintf(e->out, "  and %u more\n", left);
}

void
explain_local_names(const struct explanation *e)
{
	const struct own_name *own = e->reason->object; /* the name, its wildcard or its zone */
	const struct answer_context *context = e->config->tree->context;
	const char *source = local_names_source(context->names, own);
	char text[DNAME_TEXT_MAX];

	dname_to_text(own->wire, text);
	switch (e->reason->kind) {
	case REASON_MISSING:
		fprintf(e->out, "NXDOMAIN: %s does not exist in the zone %s of %s.\n", e->text,
		    text, source);
		return;
	case REASON_EMPTY:
		fprintf(e->out,
		    "%s has no records (NODATA) in the zone %s of %s: only names below it.\n",
		    e->text, text, source);
		return;
	case REASON_WILDCARD:
		fprintf(e->out, "%s matches %s, in %s.\n", e->text, text, source);
		break;
	default:
		fprintf(e->out, "%s is in %s.\n", e->text, source);
		break;
	}
	if (own_name_rrset(own, TYPE_CNAME) != NULL)
		explain_records(e, NULL);
	else
		say_sets(e, own);
}

/* --- the cluster set --- */

/* Prints the ServiceImport, or prints that there is none. */
static void
say_import(const struct explanation *e, const char *namespace, const char *name)
{
	struct import_source source;
	size_t slices;

	if (!clusterset_find(e->config->clusterset, namespace, name, &source, &slices)) {
		fprintf(e->out, "  no ServiceImport %s/%s exists", namespace, name);
		if (slices > 0)
			fprintf(e->out, ", but %zu EndpointSlices refer to it", slices);
		fprintf(e->out, "\n");
		return;
	}
	fprintf(e->out, "  from %s ServiceImport %s/%s",
	    source.headless ? "headless" : "ClusterSetIP", namespace, name);
	explain_version(e, source.resource_version);
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
explain_clusterset(const struct explanation *e)
{
	const struct name *name = &e->reason->name;
	const struct dname *zone = e->reason->object;
	unsigned below = (unsigned)name_below(name, zone);
	char namespace[DNAME_TEXT_MAX], service[DNAME_TEXT_MAX], text[DNAME_TEXT_MAX];

	switch (e->reason->kind) {
	case REASON_NOT_SYNCED:
		fprintf(e->out, "SERVFAIL: %s is --clusterset-domain, not synced yet.\n",
		    dname_to_text(zone->wire, text));
		return;
	case REASON_MISSING:
		fprintf(e->out,
		    "%s: %s is in --clusterset-domain, and no ServiceImport has this name.\n",
		    explain_missing_rcode(e), e->text);
		explain_fallthrough(e);
		break;
	default:
		fprintf(e->out, "%s exists, in --clusterset-domain.\n", e->text);
		explain_records(e, "");
		break;
	}
	if (below < 3 || e->config->clusterset == NULL)
		return;
	/* SERVICE.NAMESPACE.svc */
	explain_label(name->wire + name->offsets[below - 2], namespace);
	explain_label(name->wire + name->offsets[below - 3], service);
	say_import(e, namespace, service);
}

/* --- external zones --- */

static void
say_claim(const struct explanation *e, const struct external_source *source, const char *how)
{
	static const char *const kinds[OBJECT_KIND_COUNT] = { [OBJECT_SERVICE] = "Service",
		[OBJECT_INGRESS] = "Ingress",
		[OBJECT_GATEWAY] = "Gateway",
		[OBJECT_LISTENERSET] = "ListenerSet",
		[OBJECT_HTTPROUTE] = "HTTPRoute",
		[OBJECT_GRPCROUTE] = "GRPCRoute",
		[OBJECT_TLSROUTE] = "TLSRoute" };

	if (source->kind == OBJECT_KIND_COUNT) {
		fprintf(e->out, "  %s --external-ns: the zone's own name server\n", how);
		return;
	}
	fprintf(e->out, "  %s %s %s/%s", how, kinds[source->kind], source->namespace, source->name);
	explain_version(e, source->resource_version);
	fprintf(e->out, "\n");
}

/* Prints the claims of this name, or of the wildcard that matches it. */
static void
say_claims(const struct explanation *e, const uint8_t *wire)
{
	enum { CLAIMS_SHOWN_MAX = 5 };
	const struct external *claims = e->config->external;
	struct external_source source;
	bool differs;

	for (size_t i = 0;
	     i < CLAIMS_SHOWN_MAX && external_find(claims, wire, i, &source, &differs); i++)
		say_claim(e, &source,
		    i == 0    ? "from"
		    : differs ? "also claimed, with other addresses, by"
			      : "and from");
}

/* Prints the wildcard that matches this name. */
static void
say_wildcard(const struct explanation *e, const struct dname *zone)
{
	const struct name *name = &e->reason->name;
	const struct tree *tree = tree_current(external_config(e->config->answers)->tree);
	struct external_name found = external_lookup(tree, name, zone);
	struct dname wildcard;
	char text[DNAME_TEXT_MAX];

	if (!found.wildcard || found.node == NULL) /* a change was published after the answer */
		return;
	const uint8_t *parent = name->wire + name->offsets[found.missing];
	wildcard.len = (uint8_t)dname_length(parent, DNAME_MAX);
	memcpy(wildcard.wire, parent, wildcard.len);
	if (dname_prepend(&wildcard, "*", 1) < 0)
		return;
	fprintf(e->out, "  by the wildcard %s\n", dname_to_text(wildcard.wire, text));
	say_claims(e, wildcard.wire);
}

/* Prints the Service to which a name of --external-headless belongs. */
static void
say_headless(const struct explanation *e, const struct dname *zone)
{
	const struct name *name = &e->reason->name;
	unsigned below = (unsigned)name_below(name, zone);
	char namespace[DNAME_TEXT_MAX], service[DNAME_TEXT_MAX];

	if (below < 2 || e->config->external == NULL)
		return;
	explain_label(name->wire + name->offsets[below - 1], namespace);
	explain_label(name->wire + name->offsets[below - 2], service);
	fprintf(e->out, "  from Service %s/%s\n", namespace, service);
}

void
explain_external(const struct explanation *e)
{
	const struct dname *zone = e->reason->object;
	const uint8_t *wire = e->reason->name.wire;
	struct external_source source;
	char text[DNAME_TEXT_MAX];
	bool differs;

	dname_to_text(zone->wire, text);
	switch (e->reason->kind) {
	case REASON_NOT_SYNCED:
		fprintf(e->out, "SERVFAIL: %s is one of --external-zones, not synced yet.\n", text);
		break;
	case REASON_MISSING:
		fprintf(e->out,
		    "NXDOMAIN: %s is in %s of --external-zones, and no Service, Ingress, Gateway, "
		    "ListenerSet or route with an address has this name.\n",
		    e->text, text);
		break;
	case EXTERNAL_ENDPOINTS:
		fprintf(e->out, "%s exists in %s, from a headless Service (--external-headless).\n",
		    e->text, text);
		explain_records(e, "only names below it have records");
		say_headless(e, zone);
		break;
	default:
		fprintf(e->out, "%s exists, in %s of --external-zones.\n", e->text, text);
		explain_records(
		    e, e->config->external != NULL && e->reason->kind == REASON_EXISTS &&
			       external_find(e->config->external, wire, 0, &source, &differs)
			   ? "an object that has no address yet claims the name"
			   : "only names below it have records");
		if (e->config->external != NULL && e->reason->kind == REASON_WILDCARD)
			say_wildcard(e, zone);
		else if (e->config->external != NULL)
			say_claims(e, wire);
		break;
	}
}

/* --- stages of modules --- */

/* Writes the answer if no candidate exists. */
static void
write_denial(char *out, size_t max, const struct explained *answer, bool waits)
{
	unsigned rcode = answer->info.rcode;
	char text[REASON_TEXT_MAX], name[12];

	reason_text(&answer->reason.denial, text);
	snprintf(out, max, "%s%s%s%s", waits ? "If none exists: " : "",
	    rcode == RCODE_NOERROR ? "NODATA" : rcode_name(rcode, name), *text == '\0' ? "" : ": ",
	    text);
}

/* Prints what follows from the candidates for A and AAAA, which differ if one of them is filtered. */
static void
say_completed(const struct explanation *e)
{
	static const uint16_t types[] = { TYPE_A, TYPE_AAAA };
	char texts[2][REASON_TEXT_MAX + 40] = { "", "" };
	bool found = false;

	for (size_t i = 0; i < 2; i++) {
		struct explained *answer = explain_query(e->config, e->qname->wire, types[i]);
		bool waits = explain_waits(answer);

		if (waits)
			explain_query_denied(e, answer);
		if (waits || (answer->outcome == ANSWER_REPLY && wire_get16(answer->wire + 6) == 0))
			write_denial(texts[i], sizeof texts[i], answer, waits);
		else
			found = true;
		free(answer);
	}
	bool same = strcmp(texts[0], texts[1]) == 0;
	for (size_t i = 0; i < (same ? 1 : 2); i++)
		if (texts[i][0] != '\0')
			fprintf(e->out, "%s%s.\n", same ? "" : i == 0 ? "A: " : "AAAA: ", texts[i]);
	if (found)
		explain_records(e, NULL);
}

static void
explain_with(const struct stage *stage, const struct explanation *e)
{
	const struct stage_explanation what = { .config = e->config->answers,
		.tree = e->config->tree,
		.info = &e->answer->info,
		.reason = e->reason };

	stage->explain(stage, e->out, &what);
}

void
explain_unclaimed(const struct explanation *e)
{
	const struct stage *stage = e->answer->info.claim.owner;

	if (stage != NULL)
		explain_with(stage, e);
}

void
explain_module(const struct explanation *e)
{
	const struct stage *stage = e->reason->object;

	if (stage->explain == NULL) {
		fprintf(e->out, "%s\n", stage->sentence);
		explain_records(e, "");
		return;
	}
	explain_with(stage, e);
	if (e->answer->info.claim.owner == stage)
		say_completed(e);
}

/* --- --visibility --- */

enum { NAMED_MAX = 10 };

void
explain_visibility(const struct explanation *e)
{
	const struct answer_context *context = e->config->tree->context;
	const struct store *store = e->config->store;
	unsigned others = 0;

	if (context == NULL || context->visibility == NULL || explain_is_brief(e) || e->below < 2)
		return;
	const struct visibility *v = context->visibility;
	const struct name *asked = &e->reason->name;
	const struct node *node =
	    view_namespace(e->config->tree, asked->wire + asked->offsets[e->below - 2]);
	if (node == NULL || node->number == 0 || node->number > v->count)
		return;
	if (visibility_bit(v->open, node->number)) {
		fprintf(e->out, "  seen by every client (--visibility)\n");
		return;
	}
	fprintf(e->out, "  seen by pods of %s", store_namespace_name(store, node->number));
	for (uint32_t n = 1; n <= v->count; n++) {
		const char *name = store_namespace_name(store, n);

		if (name == NULL || n == node->number || !visibility_sees(v, n, node->number))
			continue;
		if (others++ < NAMED_MAX)
			fprintf(e->out, ", %s", name);
	}
	if (others > NAMED_MAX)
		fprintf(e->out, " and %u other namespaces", others - NAMED_MAX);
	fprintf(e->out, " (--visibility)\n");
}

/* --- --nearest and --zonal --- */

static void
say_classes(const struct explanation *e, const struct endpoint_set *endpoints,
    const struct client_place *place)
{
	static const char *const where[NEAR_CLASSES] = { [NEAR_NODE] = "for the client's node",
		[NEAR_ZONE] = "for its zone",
		[NEAR_FAR] = "elsewhere" };
	unsigned shown = 0, max = explain_shown_max(e);

	for (unsigned c = 0; c < endpoints->count; c++) {
		const struct slice_endpoints *slice = endpoints->slices[c].slice;

		for (unsigned i = 0; i < slice->unique && shown < max; i++, shown++) {
			struct addr addr = { .family = slice->family };
			char text[ADDR_TEXT_MAX];

			memcpy(addr.bytes, slice_addr(slice, i), addr_len(&addr));
			fprintf(e->out, "    %s %s\n", addr_format(&addr, text),
			    where[nearest_class(place, slice, i)]);
		}
	}
	if (endpoints->total4 + endpoints->total6 > shown)
		fprintf(e->out, "    and %u more\n", endpoints->total4 + endpoints->total6 - shown);
}

static void
say_order(const struct explanation *e, const struct endpoint_set *endpoints)
{
	const struct endpoint_choice *choice = e->config->answers->choice;
	struct client_place place = nearest_place(choice, e->config->tree);
	struct nearest nearest = { .endpoints = endpoints, .node = place.node, .zone = place.zone };

	if (place.node == 0 && place.zone == 0) {
		fprintf(e->out,
		    "  nearest first for pods on a known node, in any order for other clients "
		    "(--nearest): /explain?name=NAME&client=ADDRESS shows the order\n");
		return;
	}
	if (endpoints->count > NEAREST_SLICES) {
		fprintf(e->out,
		    "  in any order: there are %u EndpointSlices, and --nearest orders at most "
		    "%u\n",
		    endpoints->count, NEAREST_SLICES);
		return;
	}
	nearest_count(&nearest);
	fprintf(e->out,
	    "  nearest first (--nearest), for %s: %u for its node, %u for its zone%s, %u "
	    "elsewhere%s\n",
	    choice->place != NULL ? "clients of this node" : "this client",
	    nearest.counts[NEAR_NODE], nearest.counts[NEAR_ZONE],
	    place.zone == 0 ? ", which is not known" : "", nearest.counts[NEAR_FAR],
	    choice->nearest_only && nearest_is_ready(&nearest)
		? ", which are left out (--nearest-only)"
		: "");
	say_classes(e, endpoints, &place);
}

void
explain_nearest(const struct explanation *e, const struct resolved *resolved)
{
	bool headless = resolved->kind == RESOLVED_HEADLESS || resolved->kind == RESOLVED_PORT;

	if (resolved->kind == RESOLVED_ZONAL && resolved->zone != 0)
		fprintf(e->out, "  only the endpoints in that zone (--zonal)\n");
	else if (resolved->kind == RESOLVED_ZONAL)
		fprintf(e->out, "  all endpoints of the Service, for %s (--zonal, prefer)\n",
		    nearest_knows_zone(
			e->config->answers->choice, e->config->tree, &e->reason->name, e->below - 3)
			? "none is in that zone"
			: "the zone of the client is not known");
	const struct endpoint_choice *choice = e->config->answers->choice;

	if (choice != NULL && choice->nearest &&
	    (headless || (resolved->kind == RESOLVED_ZONAL && resolved->zone == 0)))
		say_order(e, resolved->endpoints);
}
