#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/filter.h"
#include "kubedns/answer/reason.h"
#include "kubedns/show/explain_internal.h"
#include "kubedns/show/explain_search.h"
#include "lib/xalloc.h"

const char *
explain_label(const uint8_t *label, char text[DNAME_TEXT_MAX])
{
	uint8_t wire[1 + DNAME_LABEL_MAX + 1] = { 0 };

	memcpy(wire, label, 1u + *label);
	dname_to_text(wire, text);
	text[strlen(text) - 1] = '\0'; /* the root's dot */
	return text;
}

static void
say_source(const struct explanation *e, const struct store_source *source)
{
	static const char *const kinds[OBJECT_KIND_COUNT] = { [OBJECT_SERVICE] = "Service",
		[OBJECT_SLICES] = "EndpointSlice",
		[OBJECT_NAMESPACE] = "Namespace" };

	fprintf(e->out, "%s %s%s%s", source->from_endpoints ? "Endpoints" : kinds[source->kind],
	    source->namespace, *source->namespace == '\0' ? "" : "/", source->name);
	if (source->resource_version != 0)
		fprintf(e->out, " (resourceVersion %llu)",
		    (unsigned long long)source->resource_version);
}

/* --- what exists --- */

/* Briefly: the objects are not named. */
static bool
is_brief(const struct explanation *e)
{
	return e->config->store == NULL;
}

static void
say_service(const struct explanation *e)
{
	struct store_source source;
	char namespace[DNAME_TEXT_MAX], service[DNAME_TEXT_MAX];

	if (e->below < 2 || is_brief(e))
		return;
	explain_label(e->name.wire + e->name.offsets[e->below - 2], namespace);
	if (store_find_namespace(e->config->store, namespace, &source)) {
		fprintf(e->out, "  from ");
		say_source(e, &source);
		fprintf(e->out, "\n");
	}
	if (e->below < 3)
		return;
	explain_label(e->name.wire + e->name.offsets[e->below - 3], service);
	if (store_find_service(e->config->store, namespace, service, &source)) {
		fprintf(e->out, "  from ");
		say_source(e, &source);
		fprintf(e->out, "\n");
	}
}

/* Of very many each is looked for in the whole cluster's, and nobody reads on. */
enum { SLICES_SHOWN_MAX = 20 };

/* Counts it in `*shown`; false: this was one too many, and none should follow. */
static bool
say_slice(const struct explanation *e, const struct slice_endpoints *slice, unsigned *shown)
{
	struct store_source source;

	if ((*shown)++ == SLICES_SHOWN_MAX) {
		fprintf(e->out, "  and from more EndpointSlices\n");
		return false;
	}
	fprintf(e->out, "  from ");
	if (store_find_slice(e->config->store, slice->slot, &source))
		say_source(e, &source);
	fprintf(e->out, ": %u published of %u endpoints", slice->published, slice->count);
	if (slice->unique != slice->published)
		fprintf(e->out, ", %u of them counted elsewhere", slice->published - slice->unique);
	fprintf(e->out, "\n");
	return true;
}

static void
say_slices(const struct explanation *e, const struct resolved *resolved)
{
	struct resolved_walk walk;
	struct endpoint_ref ref;
	unsigned shown = 0;

	if (is_brief(e))
		return;
	if (resolved->kind == RESOLVED_HEADLESS || resolved->kind == RESOLVED_PORT ||
	    resolved->kind == RESOLVED_ZONAL) {
		for (unsigned c = 0; c < resolved->endpoints->count; c++)
			if (!say_slice(e, resolved->endpoints->slices[c].slice, &shown))
				return;
	} else if (resolved->kind == RESOLVED_ENDPOINT) {
		resolved_endpoints(&walk, e->config->tree, resolved);
		while (resolved_next(&walk, &ref) && say_slice(e, ref.slice, &shown))
			;
	}
}

/* --- the records, as a client would get them --- */

static void
say_record(
    const struct explanation *e, const uint8_t *wire, size_t len, const struct record *record)
{
	char type[12], name[DNAME_TEXT_MAX], owner[DNAME_TEXT_MAX];
	struct addr addr = { .family = record->type == TYPE_A ? AF_INET : AF_INET6 };
	struct dname target;
	size_t at = (size_t)(record->rdata - wire) + (record->type == TYPE_SRV ? 6 : 0);

	fprintf(e->out, "  %s %u %s ", dname_to_text(record->owner.wire, owner), record->ttl_s,
	    type_name(record->type, type));
	if (record->type == TYPE_A || record->type == TYPE_AAAA) {
		memcpy(addr.bytes, record->rdata, record->rdata_len);
		fprintf(e->out, "%s\n", addr_format(&addr, name));
	} else if (record->type == TYPE_TXT) {
		fprintf(e->out, "\"%.*s\"\n", record->rdata[0], (const char *)record->rdata + 1);
	} else if (wire_read_name(wire, len, &at, &target) == 0) {
		if (record->type == TYPE_SRV)
			fprintf(e->out, "%u %u %u ", wire_get16(record->rdata),
			    wire_get16(record->rdata + 2), wire_get16(record->rdata + 4));
		fprintf(e->out, "%s\n", dname_to_text(target.wire, name));
	}
}

int
explain_query(const struct explanation *e, const uint8_t *qname, uint16_t type, unsigned *records)
{
	enum { SHOWN_MAX = 20, SHOWN_BRIEFLY = 4, BRIEF_MAX = 4096 };
	size_t max = is_brief(e) ? BRIEF_MAX : DNS_TCP_MAX;
	unsigned shown = is_brief(e) ? SHOWN_BRIEFLY : SHOWN_MAX;
	uint8_t query[512], *out = xmalloc(max);
	struct answer_info *info = xmalloc(sizeof *info);
	struct record record;
	size_t len = query_write(query, sizeof query, 1, qname, type, CLASS_IN, 0), at = len;
	const struct answer_request request = { .config = e->config->answers,
		.tree = e->config->tree,
		.query = query,
		.query_len = len,
		.out = out,
		.max = max,
		.tcp = true };
	enum answer_outcome outcome = answer(&request, info);
	int rcode = outcome == ANSWER_FORWARD ? -1 : info->rcode;
	unsigned count = outcome == ANSWER_FORWARD ? 0 : wire_get16(out + 6);

	for (unsigned i = 0; i < count && wire_read_record(out, info->len, &at, &record) == 0;
	     i++) {
		if (i < shown)
			say_record(e, out, info->len, &record);
		++*records;
	}
	if (count > shown)
		fprintf(e->out, "  and %u more%s\n", count - shown,
		    info->truncated ? ", or many more" : "");
	if (outcome == ANSWER_CHASE)
		fprintf(e->out, "  the rest of the chain is asked of the upstream servers\n");
	free(info);
	free(out);
	return rcode;
}

/* An empty non-terminal, or a name of --zonal in whose zone nothing is. */
static void
say_nodata(const struct explanation *e, const struct resolved *resolved)
{
	char text[REASON_TEXT_MAX];
	struct reason reason = { .kind = REASON_ONLY_BELOW };

	if (e->below > 0)
		reason_find(&reason, e->config->answers, e->config->tree, &e->name, e->below,
		    resolved, TYPE_A);
	if (reason.kind != REASON_ZONE && reason.kind != REASON_ZONE_UNKNOWN) {
		fprintf(e->out, "  no records of its own (NODATA): only names below it\n");
		return;
	}
	reason_text(&reason, text);
	fprintf(e->out, "  no records (NODATA): %s (--zonal)\n", text);
}

static void
say_answers(const struct explanation *e, const uint8_t *qname, const struct resolved *resolved)
{
	static const uint16_t types[] = { TYPE_A, TYPE_AAAA, TYPE_SRV, TYPE_TXT, TYPE_NS,
		TYPE_PTR };
	unsigned records = 0;

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		unsigned before = records;
		explain_query(e, qname, types[i], &records);
		/* A CNAME answers every type; once is enough. */
		if (e->below > 0 && records > before && types[i] == TYPE_A &&
		    (resolved->kind == RESOLVED_CNAME ||
			(resolved->kind == RESOLVED_NODE &&
			    node_rrset(resolved->node, TYPE_CNAME) != NULL)))
			return;
	}
	if (records == 0)
		say_nodata(e, resolved);
}

void
explain_ours(struct explanation *e, const uint8_t *qname)
{
	struct resolved resolved = { .kind = RESOLVED_NODE };

	if (!e->config->synced) {
		fprintf(e->out, "%s: not synced yet; /readiness of kubedns says what is missing.\n",
		    e->config->answers->until_synced ? "Asked of others (--until-synced)"
						     : "SERVFAIL");
		return;
	}
	if (e->below > 0)
		resolve(e->config->answers, e->config->tree, &e->name, e->below, NULL, &resolved);
	if (resolved.kind == RESOLVED_NOTHING &&
	    explain_search(e->out, e->config->answers, e->config->tree, &e->name, e->below))
		return;
	if (resolved.kind == RESOLVED_NOTHING) {
		explain_missing(e, &resolved);
		if (answer_falls_through(e->config->answers, &e->name))
			fprintf(e->out, "So it is asked of the upstream servers "
					"(--fallthrough).\n");
		return;
	}
	fprintf(e->out, "%s exists.\n", e->text);
	say_answers(e, qname, &resolved);
	if (resolved.kind == RESOLVED_POD)
		fprintf(e->out, "  the name spells its address (--pods)\n");
	else if (resolved.kind == RESOLVED_CNAME)
		fprintf(e->out, "  a federation's name\n");
	else
		say_service(e);
	say_slices(e, &resolved);
	explain_nearest(e, &resolved);
	explain_visibility(e);
}

static void
explain_reverse(struct explanation *e, const uint8_t *qname, const struct addr *addr)
{
	struct reverse_walk walk;
	struct reverse_ref ref;
	unsigned records = 0, shown = 0;
	int rcode = explain_query(e, qname, TYPE_PTR, &records);

	if (rcode < 0 && e->config->answers->ptr_in_cidrs) {
		fprintf(e->out,
		    "Its zone is not in --reverse-cidrs, and with --ptr=cidrs no other address "
		    "has a name here: it is asked of the upstream servers.\n");
		return;
	}
	if (rcode < 0)
		fprintf(e->out,
		    "Nothing here has this address, and its zone is not in --reverse-cidrs: "
		    "it is asked of the upstream servers.\n");
	else if (records == 0)
		fprintf(e->out,
		    "Nothing here has this address, in a zone of --reverse-cidrs: NXDOMAIN.\n");
	reverse_find(&walk, e->config->tree, addr);
	while (!is_brief(e) && reverse_next(&walk, &ref))
		if (ref.slice != NULL && !say_slice(e, ref.slice, &shown))
			return;
}

static const uint8_t *
stub_domain(const struct explanation *e)
{
	return answer_stub_domain(e->config->tree->context, e->name.wire);
}

static void
explain_outside(const struct explanation *e, const struct dname *qname)
{
	const struct answer_context *context = e->config->tree->context;
	const uint8_t *stub = stub_domain(e);
	char text[DNAME_TEXT_MAX];

	fprintf(e->out, "%s is outside of the zones of this server: ", e->text);
	if (stub != NULL)
		fprintf(e->out,
		    "it is in the stub domain %s, so dnsmasq asks that domain's servers "
		    "(ConfigMap key stubDomains), not the upstream servers.\n",
		    dname_to_text(stub, text));
	else if (context != NULL && !context->forwarding)
		fprintf(e->out, "REFUSED, for there is no upstream server.\n");
	else
		fprintf(e->out, "it is asked of the upstream servers.\n");
	if (context == NULL)
		return;
	if (filter_holds(e->config->answers, context, TYPE_AAAA, qname->wire))
		fprintf(e->out, "  but for AAAA: NODATA at once with EDE 17 (--filter-aaaa)\n");
	if (filter_holds(e->config->answers, context, TYPE_A, qname->wire))
		fprintf(e->out, "  but for A: NODATA at once with EDE 17 (--filter-a)\n");
}

/* Warns of a stub domain inside one of our zones: dnsmasq sends its names to the stub servers,
 * unless kubedns answers first. */
static void
say_shadow(const struct explanation *e)
{
	const struct answer_context *context = e->config->tree->context;
	const uint8_t *stub = stub_domain(e);
	char text[DNAME_TEXT_MAX];

	if (stub == NULL)
		return;
	dname_to_text(stub, text);
	if (context->front)
		fprintf(e->out,
		    "The stub domain %s (stubDomains) has no effect on it: kubedns stands before "
		    "dnsmasq and answers first.\n",
		    text);
	else
		fprintf(e->out,
		    "But the stub domain %s (stubDomains) is in the way: dnsmasq asks its servers, "
		    "and clients do not get what kubedns says here.\n",
		    text);
}

/* Sets the name that is explained. */
void
explain_set_name(struct explanation *e, const struct dname *name)
{
	memset(e->padded, 0, sizeof e->padded);
	memcpy(e->padded, name->wire, name->len);
	dname_to_text(name->wire, e->text);
	e->name = name_cut(e->padded, name->len, e->offsets);
	int below = name_below(&e->name, &e->config->answers->zone);
	e->below = below < 0 ? 0 : (unsigned)below;
}

static void
explain(struct explanation *e, const char *text)
{
	struct dname qname;
	struct addr addr;

	if (*text == '\0' || dname_from_text(&qname, text) < 0) {
		fprintf(e->out, "That is not a DNS name: labels of 1 to 63 bytes, 255 in all.\n");
		return;
	}
	dname_lower(qname.wire, qname.len);
	explain_rewrite(e, &qname);
	explain_set_name(e, &qname);
	int bits = resolve_reverse_name(&e->name, &addr);
	if (explain_own(e) || explain_external(e, qname.wire))
		return;
	if (name_below(&e->name, &e->config->answers->zone) >= 0) {
		explain_ours(e, qname.wire);
		say_shadow(e);
	} else if (bits == 32 || bits == 128) {
		explain_reverse(e, qname.wire, &addr);
		say_shadow(e);
	} else if (stub_domain(e) != NULL || !explain_short(e, &qname)) {
		explain_outside(e, &qname);
	}
}

char *
explain_text(const struct explain_config *config, const char *name, size_t *len)
{
	char *text = NULL;
	struct explanation e = { .out = open_memstream(&text, len), .config = config };

	if (e.out == NULL)
		abort(); /* only for want of memory */
	explain(&e, name);
	fclose(e.out);
	return text;
}

char *
explain_brief(
    const struct answer_config *answers, const struct tree *tree, const char *name, size_t *len)
{
	const struct explain_config config = {
		.answers = answers, .tree = tree, .synced = tree->synced
	};

	return explain_text(&config, name, len);
}
