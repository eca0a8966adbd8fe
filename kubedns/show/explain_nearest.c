/* With --nearest and --zonal: in which order a client gets the endpoints, and why. */
#include <string.h>

#include "kubedns/answer/nearest.h"
#include "kubedns/show/explain_internal.h"

enum { SHOWN_MAX = 20 };

static void
say_classes(const struct explanation *e, const struct endpoint_set *endpoints,
    const struct client_place *place)
{
	static const char *const where[NEAR_CLASSES] = { [NEAR_NODE] = "for the client's node",
		[NEAR_ZONE] = "for its zone",
		[NEAR_FAR] = "elsewhere" };
	unsigned shown = 0;

	for (unsigned c = 0; c < endpoints->count; c++) {
		const struct slice_endpoints *slice = endpoints->slices[c].slice;
		for (unsigned i = 0; i < slice->unique && shown < SHOWN_MAX; i++, shown++) {
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
	const struct answer_config *config = e->config->answers;
	struct client_place place = view_place(config, e->config->tree);
	struct nearest nearest = { .endpoints = endpoints, .node = place.node, .zone = place.zone };

	if (place.node == 0 && place.zone == 0) {
		fprintf(e->out,
		    "  a client that is no pod with a known node gets them in any order, others "
		    "the nearest first (--nearest): /explain?name=NAME&client=ADDRESS shows it\n");
		return;
	}
	if (endpoints->count > NEAREST_SLICES) {
		fprintf(e->out,
		    "  in any order: %u EndpointSlices are more than the %u that --nearest puts in "
		    "order\n",
		    endpoints->count, NEAREST_SLICES);
		return;
	}
	nearest_count(&nearest);
	fprintf(e->out,
	    "  nearest first (--nearest), for %s: %u for its node, %u for its zone%s, %u "
	    "elsewhere%s\n",
	    config->place != NULL ? "clients of this node" : "this client",
	    nearest.counts[NEAR_NODE], nearest.counts[NEAR_ZONE],
	    place.zone == 0 ? ", which is not known" : "", nearest.counts[NEAR_FAR],
	    config->nearest_only && nearest_is_ready(&nearest)
		? ", which are left out (--nearest-only)"
		: "");
	say_classes(e, endpoints, &place);
}

void
explain_nearest(const struct explanation *e, const struct resolved *resolved)
{
	bool headless = resolved->kind == RESOLVED_HEADLESS || resolved->kind == RESOLVED_PORT;

	if (resolved->kind == RESOLVED_ZONAL && resolved->zone != 0)
		fprintf(e->out, "  the endpoints in that zone alone (--zonal)\n");
	else if (resolved->kind == RESOLVED_ZONAL)
		fprintf(e->out, "  all endpoints of the Service, for %s (--zonal, prefer)\n",
		    nearest_spells_zone(&e->name, e->below - 3) ||
			    view_place(e->config->answers, e->config->tree).in_zone != 0
			? "none is in that zone"
			: "the zone of the client is not known");
	if (e->config->answers->nearest &&
	    (headless || (resolved->kind == RESOLVED_ZONAL && resolved->zone == 0)))
		say_order(e, resolved->endpoints);
}
