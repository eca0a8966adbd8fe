#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/upstream_stage.h"
#include "kubedns/answer/zones.h"
#include "kubedns/answer/reason.h"
#include "kubedns/show/explain_internal.h"
#include "lib/spelling.h"
#include "lib/xalloc.h"

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

static void
say_service(const struct explanation *e)
{
	struct store_source source;
	char namespace[DNAME_TEXT_MAX], service[DNAME_TEXT_MAX];

	if (e->below < 2 || explain_is_brief(e))
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

	if (explain_is_brief(e))
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
say_answers(const struct explanation *e, const struct resolved *resolved)
{
	static const uint16_t types[] = { TYPE_A, TYPE_AAAA, TYPE_SRV, TYPE_TXT, TYPE_NS,
		TYPE_PTR };
	unsigned records = 0;

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		unsigned before = records;

		explain_query(e, e->name.wire, types[i], &records);
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

static void explain_missing(const struct explanation *e, const struct resolved *resolved);

/* Explains by the first of these stages that has the name and something to say of it. */
static bool explain_by_stages(struct explanation *e, const struct stage *const *stages);

/* Explains a name of our zone, which is e->name. */
static void
explain_ours(struct explanation *e)
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
	    explain_by_stages(e, e->config->answers->stages.missing))
		return;
	if (resolved.kind == RESOLVED_NOTHING) {
		explain_missing(e, &resolved);
		if (answer_falls_through(e->config->answers, &e->name))
			fprintf(e->out, "So it is asked of the upstream servers "
					"(--fallthrough).\n");
		return;
	}
	fprintf(e->out, "%s exists.\n", e->text);
	say_answers(e, &resolved);
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
explain_address(struct explanation *e, const struct addr *addr)
{
	struct reverse_walk walk;
	struct reverse_ref ref;
	unsigned records = 0, shown = 0;
	int rcode = explain_query(e, e->name.wire, TYPE_PTR, &records);

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
	while (!explain_is_brief(e) && reverse_next(&walk, &ref))
		if (ref.slice != NULL && !say_slice(e, ref.slice, &shown))
			return;
}

static const uint8_t *
stub_domain(const struct explanation *e)
{
	return answer_stub_domain(e->config->tree->context, e->name.wire);
}

static void
explain_outside(const struct explanation *e)
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
	if (filter_holds(e->config->answers, context, TYPE_AAAA, e->name.wire))
		fprintf(e->out, "  but for AAAA: NODATA at once with EDE 17 (--filter-aaaa)\n");
	if (filter_holds(e->config->answers, context, TYPE_A, e->name.wire))
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

/* --- short names --- */

/* Short names: what a pod's search list makes of them. */

static bool
exists(const struct explanation *e)
{
	struct resolved resolved;

	if (e->below == 0)
		return false;
	resolve(e->config->answers, e->config->tree, &e->name, e->below, NULL, &resolved);
	return resolved.kind != RESOLVED_NOTHING;
}

static bool
namespace_exists(const struct explanation *e, const uint8_t *label)
{
	static const uint8_t svc[16] = "\3svc";
	const struct tree *tree = e->config->tree;
	const struct node *node = tree_child(tree, tree->root, svc);

	return node != NULL && tree_child(tree, node, label) != NULL;
}

/* Which suffix a name such as "web.prod" (0) or "web.prod.svc" (1) probably lacks; -1: none. */
static int
meant_suffix(const struct explanation *e)
{
	static const uint8_t svc[16] = "\3svc";
	const uint8_t *last = e->name.wire + e->name.offsets[e->name.count - 1];

	if (*last == *svc && memcmp(last, svc, 4) == 0)
		return 1;
	return namespace_exists(e, last) ? 0 : -1;
}

/* By DNS anybody may ask, and most of them may be of those that are not named. */
enum { OWNERS_LOOKED_AT_MAX = 1000 };

/* "web": every pod's resolver asks for it in the pod's own namespace. */
static void
explain_lone_label(const struct explanation *e)
{
	const struct answer_config *answers = e->config->answers;
	char label[DNAME_TEXT_MAX], zone[DNAME_TEXT_MAX], text[DNAME_TEXT_MAX];
	struct owner_walk walk;
	const struct owner *owner;
	unsigned count = 0, looked_at = 0;

	explain_label(e->name.wire, label);
	dname_to_text(answers->zone.wire, zone);
	fprintf(e->out,
	    "%s is a short name: a pod's resolver asks for %s.NAMESPACE.svc.%s, with the pod's own "
	    "namespace, then for %s.svc.%s, %s.%s and %s itself.\n",
	    label, label, zone, label, zone, label, zone, e->text);
	owners_find(&walk, e->config->tree, e->name.wire);
	while ((owner = owners_next(&walk)) != NULL && count <= REASON_OWNERS_MAX) {
		if (looked_at++ == OWNERS_LOOKED_AT_MAX) {
			fprintf(e->out, "  and perhaps in others: more than %u have one\n",
			    OWNERS_LOOKED_AT_MAX);
			return;
		}
		if (!reason_may_name(answers, e->config->tree, owner))
			continue;
		if (count++ == REASON_OWNERS_MAX)
			fprintf(e->out, "  and in others\n");
		else
			fprintf(e->out, "  Service %s is in namespace %s\n", label,
			    explain_label(owner->name + 1 + owner->name[0], text));
	}
	if (count == 0)
		fprintf(e->out, "  no namespace has a Service %s that answers\n", label);
}

static bool
explain_short(struct explanation *e, const struct dname *asked)
{
	enum { SUFFIXES = 2 };
	static const char *const suffixes[SUFFIXES] = { "svc.", "." };
	const struct dname *zone = &e->config->answers->zone;
	char text[DNAME_TEXT_MAX];
	struct dname suffix, name;

	if (!e->config->synced || e->name.count == 0)
		return false;
	if (e->name.count == 1) {
		explain_lone_label(e);
		return true;
	}
	int meant = meant_suffix(e);
	dname_to_text(asked->wire, text);
	for (int i = 0; i < SUFFIXES; i++) {
		name = *asked;
		dname_from_text(&suffix, suffixes[i]);
		if (dname_append(&name, suffix.wire) < 0 || dname_append(&name, zone->wire) < 0)
			continue;
		explain_set_name(e, &name);
		bool found = exists(e);
		if (!found && i != meant)
			continue;
		fprintf(
		    e->out, "%s is a short name: a pod's search list makes it %s\n", text, e->text);
		explain_ours(e);
		if (!found)
			fprintf(e->out, "A resolver then asks for %s itself.\n", text);
		return true;
	}
	explain_set_name(e, asked);
	return false;
}

/* --- names that do not exist --- */

/*
 * Explains names of our zone that do not exist: the sentence of the extended DNS error
 * (answer/reason.h), what to do, and the most similar name, if there is one.
 */

/* --- what to do --- */

static void
todo_pods(const struct explanation *e, const struct reason *reason)
{
	char namespace[DNAME_TEXT_MAX], service[DNAME_TEXT_MAX];

	explain_label(reason->namespace, namespace);
	explain_label(reason->service, service);
	if (reason->kind == REASON_NO_ENDPOINTS)
		fprintf(e->out,
		    "Does its selector match any pod, and do they run? kubectl -n %s describe "
		    "service %s\n",
		    namespace, service);
	else
		fprintf(e->out,
		    "Look at the pods' readiness probes: kubectl -n %s describe pod; "
		    "publishNotReadyAddresses names them before.\n",
		    namespace);
}

/* One line about what to do, or none where the sentence says it already. */
static void
say_todo(const struct explanation *e, const struct reason *reason)
{
	static const char *const todo[REASON_COUNT] = {
		[REASON_NAMESPACE] = ("kubectl get namespaces; is it left out by --namespaces or "
				      "--namespace-labels?"),
		[REASON_SERVICE_OTHER] = "From another namespace a Service is SERVICE.NAMESPACE.",
		[REASON_NAMESPACE_OTHER] = "From another namespace a Service is SERVICE.NAMESPACE.",
		[REASON_NO_ADDRESS] = "The API server has not given it a clusterIP.",
		[REASON_SEARCHED] =
		    ("The resolver goes on to its next search domain and to the name "
		     "itself: a final dot in the name saves the detour."),
		[REASON_SEARCHED_MAYBE] =
		    "If so, the resolver goes on: a final dot in the name saves the detour.",
		[REASON_PORT] =
		    "The ports of a Service have names; see kubectl get service -o yaml.",
		[REASON_PODS_OFF] = "kubedns answers them with --pods=insecure or --pods=verified.",
	};

	switch (reason->kind) {
	case REASON_NO_ENDPOINTS:
	case REASON_NONE_READY:
	case REASON_MEMBER_NOT_READY:
		todo_pods(e, reason);
		break;
	default:
		if (todo[reason->kind] != NULL)
			fprintf(e->out, "%s\n", todo[reason->kind]);
		break;
	}
}

/* --- the nearest name --- */

struct nearest {
	const struct explanation *e;
	const uint8_t *wanted;
	char best[DNAME_LABEL_MAX + 1];
	size_t best_distance;
	unsigned compared, looked_at; /* that are left */
	bool services;                /* the parent is a namespace */
};

/* Remembers a label that is nearer than the nearest so far; not if more than a third of its letters
 * differ. */
static void
consider(struct nearest *nearest, const uint8_t *label)
{
	size_t len = *nearest->wanted, most = len / 3;
	char text[DNAME_LABEL_MAX + 1];

	if (nearest->compared == 0 || *label + most < len || *label > len + most)
		return;
	nearest->compared--;
	memcpy(text, label + 1, *label);
	text[*label] = '\0';
	size_t d = spelling_distance((const char *)nearest->wanted + 1, len, text, *label);
	if (d <= most && (d < nearest->best_distance ||
			     (d == nearest->best_distance && strcmp(text, nearest->best) < 0))) {
		nearest->best_distance = d;
		strcpy(nearest->best, text);
	}
}

static bool
answers_ptrs(const struct nearest *nearest, const struct node *node)
{
	return nearest->services && (node->flags & (NODE_CLUSTERIP | NODE_HEADLESS)) != 0 &&
	       !service_without_ready_endpoints(nearest->e->config->answers, node);
}

static bool
consider_node(void *arg, const struct node *node)
{
	struct nearest *nearest = arg;

	if (nearest->looked_at == 0 || nearest->compared == 0)
		return false;
	nearest->looked_at--;
	if (nearest->e->config->store != NULL || answers_ptrs(nearest, node))
		consider(nearest, node->label);
	return true;
}

/* By DNS only those of headless Services, whose addresses' PTRs say them. */
static void
consider_endpoints(struct nearest *nearest, const struct node *parent)
{
	if (nearest->e->config->store == NULL && (parent->flags & NODE_HEADLESS) == 0)
		return;
	for (unsigned c = 0; parent->endpoints != NULL && c < parent->endpoints->count; c++) {
		const struct slice_endpoints *slice = parent->endpoints->slices[c].slice;

		if (nearest->looked_at == 0)
			return;
		nearest->looked_at--; /* for the slice itself, which may have none */
		for (unsigned i = 0; i < slice->published; i++) {
			const uint8_t *host = slice_name(slice, i);

			if (nearest->looked_at == 0 || nearest->compared == 0)
				return;
			nearest->looked_at--;
			if (host != NULL)
				consider(nearest, host);
		}
	}
}

static void
say_nearest(const struct explanation *e, const struct node *parent, const struct reason *reason)
{
	/* By DNS anybody may ask, and the worker's other clients wait meanwhile: a namespace may have
	 * 100,000 Services, and looking at each is a cache miss. */
	bool by_dns = e->config->store == NULL;
	struct nearest nearest = { .e = e,
		.wanted = reason->label != NULL ? reason->label
			  : reason->service != NULL && reason->kind != REASON_NAMESPACE
			      ? reason->service
			      : reason->namespace,
		.best_distance = DNAME_LABEL_MAX,
		.compared = by_dns ? 200 : 100000,
		.looked_at = by_dns ? 1000 : UINT_MAX,
		.services = reason->kind == REASON_SERVICE };

	tree_children_until(parent, consider_node, &nearest);
	consider_endpoints(&nearest, parent);
	if (nearest.best[0] != '\0')
		fprintf(e->out, "Nearest there: %s\n", nearest.best);
}

/* The last node on the way down to the name. */
static const struct node *
last_node(const struct explanation *e)
{
	const struct node *node = e->config->tree->root, *child;
	unsigned left = e->below;

	while (left > 0 && (child = tree_child(e->config->tree, node,
				e->name.wire + e->name.offsets[left - 1])) != NULL) {
		node = child;
		left--;
	}
	return node;
}

/* Says that a namespace exists, but --namespace-labels leaves it out. */
static void
say_left_out(const struct explanation *e)
{
	char namespace[DNAME_TEXT_MAX];

	if (e->config->store == NULL || e->below < 2)
		return;
	explain_label(e->name.wire + e->name.offsets[e->below - 2], namespace);
	if (store_leaves_namespace_out(e->config->store, namespace))
		fprintf(e->out,
		    "The namespace %s is in the cluster, but its labels are not those "
		    "of --namespace-labels.\n",
		    namespace);
}

static void
explain_missing(const struct explanation *e, const struct resolved *resolved)
{
	char text[REASON_TEXT_MAX];
	struct reason reason;

	reason_find(
	    &reason, e->config->answers, e->config->tree, &e->name, e->below, resolved, TYPE_A);
	reason_text(&reason, text);
	fprintf(e->out, "NXDOMAIN: %s does not exist.\nWhy: %s.\n", e->text, text);
	say_left_out(e);
	say_todo(e, &reason);
	switch (reason.kind) {
	case REASON_NAME:
	case REASON_NAMESPACE:
	case REASON_SERVICE:
	case REASON_MEMBER:
		say_nearest(e, last_node(e), &reason);
		break;
	default:
		break;
	}
}

/* --- the stages, in the order in which a query passes them (answer/stage.h) --- */

bool
explain_zone(struct explanation *e)
{
	explain_ours(e);
	say_shadow(e);
	return true;
}

bool
explain_reverse(struct explanation *e)
{
	struct addr addr;
	int bits = resolve_reverse_name(&e->name, &addr);

	if (bits != 32 && bits != 128)
		return false;
	explain_address(e, &addr);
	say_shadow(e);
	return true;
}

/* Here the name is explained that is asked about, not that there are explanations. */
bool
explain_explanation(struct explanation *e)
{
	(void)e;
	return false;
}

bool
explain_upstream(struct explanation *e)
{
	struct dname asked = { .len = e->name.len };

	memcpy(asked.wire, e->name.wire, asked.len);
	if (stub_domain(e) != NULL || !explain_short(e, &asked))
		explain_outside(e);
	return true;
}

static bool
explain_by_stages(struct explanation *e, const struct stage *const *stages)
{
	static bool (*const explain[STAGE_COUNT])(struct explanation * e) = {
#define STAGE_EXPLAIN(id, text) [STAGE_##id] = explain_##id,
		STAGES(STAGE_EXPLAIN)
#undef STAGE_EXPLAIN
	};
	const struct answer_config *answers = e->config->answers;

	for (; *stages != NULL; stages++) /* a rewrite changes the name */
		if ((*stages)->match(
			answers, e->config->tree, &e->name, name_below(&e->name, &answers->zone)) &&
		    explain[(*stages)->id](e))
			return true;
	return false;
}

static void
explain(struct explanation *e, const char *text)
{
	struct dname qname;

	if (*text == '\0' || dname_from_text(&qname, text) < 0) {
		fprintf(e->out, "That is not a DNS name: labels of 1 to 63 bytes, 255 in all.\n");
		return;
	}
	dname_lower(qname.wire, qname.len);
	explain_set_name(e, &qname);
	explain_by_stages(e, e->config->answers->stages.all);
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
