#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "kubedns/answer/explanation_stage.h"
#include "kubedns/answer/upstream_stage.h"
#include "kubedns/answer/zones.h"
#include "kubedns/answer/reason.h"
#include "kubedns/show/explain_internal.h"
#include "lib/log.h"
#include "lib/percent.h"
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

/* --- names that exist --- */

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

/* Number of slices in a list. Each slice costs a lookup among all slices of the cluster, and nobody would read a longer list. */
enum { SLICES_SHOWN_MAX = 20 };

/* Prints a slice and counts it in `*shown`. Returns false if the limit is reached. Then no more slices should follow. */
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
	fprintf(e->out, ": %u of %u endpoints have records", slice->published, slice->count);
	if (slice->unique != slice->published)
		fprintf(e->out, ", %u of them also in another EndpointSlice",
		    slice->published - slice->unique);
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

/* Explains NODATA. The name is an empty non-terminal, or a name of --zonal without endpoints in its zone. */
static void
say_nodata(const struct explanation *e, const struct resolved *resolved)
{
	char text[REASON_TEXT_MAX];
	struct reason reason = { .kind = REASON_ONLY_BELOW };

	if (e->below > 0)
		reason_find(&reason, e->config->answers, e->config->tree, &e->name, e->below,
		    resolved, TYPE_A);
	if (reason.kind != REASON_ZONE && reason.kind != REASON_ZONE_UNKNOWN) {
		fprintf(e->out, "  no records of this name (NODATA), only of names below it\n");
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
		/* A CNAME answers every type, so one query is enough. */
		if (e->below > 0 && records > before && types[i] == TYPE_A &&
		    (resolved->kind == RESOLVED_CNAME ||
			(resolved->kind == RESOLVED_NODE &&
			    node_rrset(resolved->node, TYPE_CNAME) != NULL)))
			return;
	}
	if (records == 0)
		say_nodata(e, resolved);
}

static void
say_not_synced(const struct explanation *e)
{
	fprintf(e->out,
	    "%s: kubedns has not read the cluster yet; its page /readiness shows the reason.\n",
	    upstream_config(e->config->answers)->until_synced
		? "Sent to other servers (--until-synced)"
		: "SERVFAIL");
}

/* Called for a name that does not exist. If --fallthrough applies, prints that other servers are queried. */
static void
say_fallthrough(const struct explanation *e)
{
	if (answer_falls_through(e->config->answers, &e->name))
		fprintf(e->out,
		    "Because of --fallthrough, the query is sent to the upstream servers.\n");
}

static void explain_missing(const struct explanation *e, const struct resolved *resolved);

/* Explains the name with the first of these stages that matches it and has an explanation. */
static bool explain_by_stages(struct explanation *e, const struct stage *const *stages);

/* Explains e->name, which is in our zone. */
static void
explain_ours(struct explanation *e)
{
	struct resolved resolved = { .kind = RESOLVED_NODE };

	if (!e->config->synced) {
		say_not_synced(e);
		return;
	}
	if (e->below > 0)
		resolve(e->config->answers, e->config->tree, &e->name, e->below, NULL, &resolved);
	if (resolved.kind == RESOLVED_NOTHING &&
	    explain_by_stages(e, e->config->answers->stages.missing))
		return;
	if (resolved.kind == RESOLVED_NOTHING) {
		explain_missing(e, &resolved);
		say_fallthrough(e);
		return;
	}
	fprintf(e->out, "%s exists.\n", e->text);
	say_answers(e, &resolved);
	if (resolved.kind == RESOLVED_POD)
		fprintf(e->out, "  a pod's name, which contains its address (--pods)\n");
	else if (resolved.kind == RESOLVED_CNAME)
		fprintf(e->out, "  the name of a federation\n");
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

	if (rcode < 0 && reverse_config(e->config->answers)->cidrs_only) {
		fprintf(e->out,
		    "The address is not in --reverse-cidrs, and with --ptr=cidrs kubedns has no "
		    "names for other addresses: the query is sent to the upstream servers.\n");
		return;
	}
	if (rcode < 0)
		fprintf(e->out, "No Service or endpoint has this address, and it is not in "
				"--reverse-cidrs: the query is sent to the upstream servers.\n");
	else if (records == 0)
		fprintf(e->out, "NXDOMAIN: no Service or endpoint has this address, which is in "
				"--reverse-cidrs.\n");
	reverse_find(&walk, e->config->tree, addr);
	while (!explain_is_brief(e) && reverse_next(&walk, &ref))
		if (ref.slice != NULL && !say_slice(e, ref.slice, &shown))
			return;
}

/* Explains a name in a reverse zone that is not the name of a whole address. The name may be the zone itself, the name of a prefix, or a
 * name that spells no address. */
static void
explain_prefix(const struct explanation *e, const struct dname *zone)
{
	unsigned records = 0;
	char text[DNAME_TEXT_MAX];

	dname_to_text(zone->wire, text);
	if (e->name.len == zone->len) {
		fprintf(e->out, "%s is a zone of --reverse-cidrs.\n", e->text);
		explain_query(e, e->name.wire, TYPE_NS, &records);
	} else if (explain_query(e, e->name.wire, TYPE_PTR, &records) == RCODE_NOERROR) {
		fprintf(e->out,
		    "%s exists, in the zone %s of --reverse-cidrs.\n  no records of this name "
		    "(NODATA), only of names below it\n",
		    e->text, text);
	} else {
		fprintf(e->out,
		    "NXDOMAIN: %s is in the zone %s of --reverse-cidrs, and no Service or endpoint "
		    "has an address in it.\n",
		    e->text, text);
		say_fallthrough(e);
	}
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

	fprintf(e->out, "%s is %s: ", e->text,
	    answer_stub_takes(e->config->answers, context, e->name.wire)
		? "in a stub domain, which comes before the zones of this server"
		: "not in a zone of this server");
	if (context != NULL && context->unread)
		fprintf(e->out,
		    "SERVFAIL, because kubedns has not read the ConfigMap of --config-map yet, "
		    "which "
		    "may ask for TLS. The page /readiness shows the state of the API server.\n");
	else if (answer_stub_closed(context, e->name.wire))
		fprintf(e->out,
		    "SERVFAIL, because all servers of the stub domain %s are refused (ConfigMap "
		    "key "
		    "stubDomains). The upstream servers do not get the query. The log has the "
		    "reason.\n",
		    dname_to_text(stub, text));
	else if (context != NULL && context->closed)
		fprintf(e->out,
		    "SERVFAIL, because ConfigMap key %s is refused and asks, or seems to ask, for "
		    "encryption. A query in plain text is not sent instead. The log has the "
		    "reason.\n",
		    "upstreamNameservers or stubDomains");
	else if (stub != NULL)
		fprintf(e->out,
		    "it is in the stub domain %s, so dnsmasq or unbound sends the query to that "
		    "domain's servers (ConfigMap key stubDomains), not to the upstream servers.\n",
		    dname_to_text(stub, text));
	else if (context != NULL && !context->forwarding)
		fprintf(e->out, "REFUSED, because there is no upstream server.\n");
	else
		fprintf(e->out, "the query is sent to the upstream servers.\n");
	if (context == NULL)
		return;
	if (filter_holds(e->config->answers, context, TYPE_AAAA, e->name.wire))
		fprintf(e->out, "  AAAA queries get NODATA with EDE 17 instead (--filter-aaaa)\n");
	if (filter_holds(e->config->answers, context, TYPE_A, e->name.wire))
		fprintf(e->out, "  A queries get NODATA with EDE 17 instead (--filter-a)\n");
}

/* Warns about a stub domain inside one of our zones. dnsmasq or unbound sends names of the stub domain to the stub servers, unless kubedns answers
 * first. */
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
		    "The stub domain %s (stubDomains) has no effect on this name: kubedns is in "
		    "front of dnsmasq or unbound and answers first.\n",
		    text);
	else
		fprintf(e->out,
		    "But clients do not get this answer: the name is in the stub domain %s "
		    "(stubDomains), so dnsmasq or unbound sends the query to that domain's "
		    "servers.\n",
		    text);
}

/* --- short names --- */

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

/* Returns which suffix a name probably lacks: 0 for a name such as "web.prod", 1 for "web.prod.svc", -1 for other names. */
static int
meant_suffix(const struct explanation *e)
{
	static const uint8_t svc[16] = "\3svc";
	const uint8_t *last = e->name.wire + e->name.offsets[e->name.count - 1];

	if (*last == *svc && memcmp(last, svc, 4) == 0)
		return 1;
	return namespace_exists(e, last) ? 0 : -1;
}

/* Number of Services that an explanation examines. Anybody may request explanations over DNS, and most Services may be in namespaces
 * that are not shown. */
enum { OWNERS_LOOKED_AT_MAX = 1000 };

/* Explains a single label such as "web". A pod's resolver looks it up in the pod's own namespace. */
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
	    "%s is a short name: a pod's resolver queries %s.NAMESPACE.svc.%s, with the pod's own "
	    "namespace, then %s.svc.%s, %s.%s and %s itself.\n",
	    label, label, zone, label, zone, label, zone, e->text);
	owners_find(&walk, e->config->tree, e->name.wire);
	while ((owner = owners_next(&walk)) != NULL && count <= REASON_OWNERS_MAX) {
		if (looked_at++ == OWNERS_LOOKED_AT_MAX) {
			fprintf(e->out,
			    "  more than %u namespaces have a Service %s: the others were not "
			    "examined\n",
			    OWNERS_LOOKED_AT_MAX, label);
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
		fprintf(e->out, "  no namespace has a Service %s with records\n", label);
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
		fprintf(e->out, "%s is a short name: a pod's search list completes it to %s\n",
		    text, e->text);
		explain_ours(e);
		if (!found)
			fprintf(e->out, "The resolver then queries %s itself.\n", text);
		return true;
	}
	explain_set_name(e, asked);
	return false;
}

/* --- names that do not exist --- */

/*
 * Explains names of our zone that do not exist. The explanation has the sentence of the extended DNS error (answer/reason.h), advice, and
 * the most similar existing name, if there is one.
 */

/* --- advice --- */

static void
todo_pods(const struct explanation *e, const struct reason *reason)
{
	char namespace[DNAME_TEXT_MAX], service[DNAME_TEXT_MAX];

	explain_label(reason->namespace, namespace);
	explain_label(reason->service, service);
	if (reason->kind == REASON_NO_ENDPOINTS)
		fprintf(e->out,
		    "Does the selector of the Service match any pod, and do these pods run? "
		    "kubectl -n %s describe service %s\n",
		    namespace, service);
	else
		fprintf(e->out,
		    "Check the pods' readiness probes: kubectl -n %s describe pod. With "
		    "publishNotReadyAddresses, pods have names before they are ready.\n",
		    namespace);
}

/* Prints one line of advice, unless the sentence above already contains it. */
static void
say_todo(const struct explanation *e, const struct reason *reason)
{
	static const char *const todo[REASON_COUNT] = {
		[REASON_NAMESPACE] = ("Does kubectl get namespaces show it? If so, --namespaces or "
				      "--namespace-labels leaves it out."),
		[REASON_SERVICE_OTHER] = "From other namespaces, use the name SERVICE.NAMESPACE.",
		[REASON_NAMESPACE_OTHER] = "From other namespaces, use the name SERVICE.NAMESPACE.",
		[REASON_NO_ADDRESS] = "The API server has not given the Service a clusterIP.",
		[REASON_SEARCHED] =
		    ("The resolver then tries its next search domain, and at last the name itself. "
		     "A final dot in the name avoids these queries."),
		[REASON_SEARCHED_MAYBE] = ("If so, the resolver tries the next name. A final dot "
					   "in the name avoids these "
					   "queries."),
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

/* --- the most similar name --- */

struct nearest {
	const struct explanation *e;
	const uint8_t *wanted;
	char best[DNAME_LABEL_MAX + 1];
	size_t best_distance;
	/* remaining limits for comparisons and for endpoints to look at */
	unsigned compared, looked_at;
	bool services; /* the parent is a namespace */
};

/* Stores a label if it is more similar than the best label so far. Ignores a label if more than a third of its letters differ. */
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

/* Considers host names of endpoints. Over DNS, considers only host names of headless Services, because PTR records reveal these names
 * anyway. */
static void
consider_endpoints(struct nearest *nearest, const struct node *parent)
{
	if (nearest->e->config->store == NULL && (parent->flags & NODE_HEADLESS) == 0)
		return;
	for (unsigned c = 0; parent->endpoints != NULL && c < parent->endpoints->count; c++) {
		const struct slice_endpoints *slice = parent->endpoints->slices[c].slice;

		if (nearest->looked_at == 0)
			return;
		nearest->looked_at--; /* counts the slice itself, which may be empty */
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
	/* Anybody may request this over DNS, and the worker's other clients must wait. A namespace may have 100,000 Services, and a look
	 * at each Service is a cache miss. */
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

/* Returns the deepest existing node on the path to the name. */
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

/* Prints that a namespace exists but --namespace-labels does not select it. */
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

/* --- the stages, in the order in which a query passes them (answer/stages.h) --- */

bool
explain_zone(struct explanation *e)
{
	explain_ours(e);
	say_shadow(e);
	return true;
}

bool
explain_stub_domains(struct explanation *e)
{
	explain_outside(e);
	return true;
}

bool
explain_reverse(struct explanation *e)
{
	const struct dname *zone = reverse_zone_of_name(e->config->answers, &e->name);
	struct addr addr;
	int bits = resolve_reverse_name(&e->name, &addr);
	bool whole = bits == 32 || bits == 128;

	if (zone == NULL && !whole)
		return false;
	if (zone != NULL && !e->config->synced)
		say_not_synced(e);
	else if (whole)
		explain_address(e, &addr);
	else
		explain_prefix(e, zone);
	say_shadow(e);
	return true;
}

/* Prints nothing. `_explain` was removed from the name, and the other stages explain the remaining name. */
bool
explain_explanation(struct explanation *e)
{
	(void)e;
	return false;
}

/* Explains that an external name of two labels is no short name of a Service: the cluster does not have its namespace. */
static void
say_no_namespace(const struct explanation *e, const struct dname *asked)
{
	struct explanation full = { .out = e->out, .config = e->config };
	struct resolved resolved = { .kind = RESOLVED_NOTHING };
	struct dname svc, name = *asked;
	char text[REASON_TEXT_MAX];
	struct reason reason;

	dname_from_text(&svc, "svc.");
	if (!e->config->synced || e->name.count != 2 || dname_append(&name, svc.wire) < 0 ||
	    dname_append(&name, e->config->answers->zone.wire) < 0)
		return;
	explain_set_name(&full, &name);
	reason_find(&reason, e->config->answers, e->config->tree, &full.name, full.below, &resolved,
	    TYPE_A);
	/* Without the guess that a search list completed the name. Here that is certain. */
	if (reason.kind != REASON_NAMESPACE_OTHER)
		reason.kind = REASON_NAMESPACE;
	reason_text(&reason, text);
	fprintf(e->out, "If it is meant as SERVICE.NAMESPACE: %s.\n", text);
	if (reason.kind == REASON_NAMESPACE)
		say_nearest(&full, last_node(&full), &reason);
}

bool
explain_upstream(struct explanation *e)
{
	struct dname asked = { .len = e->name.len };

	memcpy(asked.wire, e->name.wire, asked.len);
	if (stub_domain(e) != NULL) {
		explain_outside(e);
	} else if (!explain_short(e, &asked)) {
		explain_outside(e);
		say_no_namespace(e, &asked);
	}
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

	for (; *stages != NULL; stages++) { /* a rewrite may change the name */
		if (!(*stages)->match(
			answers, e->config->tree, &e->name, name_below(&e->name, &answers->zone)))
			continue;
		if ((*stages)->sentence != NULL)
			return fprintf(e->out, "%s\n", (*stages)->sentence) > 0;
		if (explain[(*stages)->id](e))
			return true;
	}
	return false;
}

static void
explain(struct explanation *e, const char *text)
{
	struct dname qname;

	if (*text == '\0' || dname_from_text(&qname, text) < 0) {
		fprintf(e->out, "Not a DNS name: a label has 1 to 63 bytes, a name 255 at most.\n");
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
		abort(); /* fails only if memory runs out */
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

void
explain_by_dns(struct answer_config *answers)
{
	static const struct explanation_config config = { .explain = explain_brief };

	answers->stage_config[STAGE_explanation] = &config;
	stages_build(answers);
}

/* --- --explain: sends the request to the running kubedns, whose main thread knows the objects
 * --- */

int
explain_ask(const char *name, const char *address, long port)
{
	CURL *curl = curl_easy_init();
	bool any = strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0;
	long status = 0;

	if (curl == NULL)
		return -ENOMEM;
	char *escaped = percent_encode(name);
	char *url =
	    xasprintf("http://%s:%ld/explain?name=%s", any ? "127.0.0.1" : address, port, escaped);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 5000L);
	CURLcode code = curl_easy_perform(curl); /* prints to stdout */
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	if (code != CURLE_OK)
		log_errorx("--explain: %s: %s; is kubedns running, with --healthz-port=%ld?", url,
		    curl_easy_strerror(code), port);
	else if (status != 200)
		log_errorx("--explain: %s answered %ld", url, status);
	free(url);
	free(escaped);
	curl_easy_cleanup(curl);
	return code == CURLE_OK && status == 200 ? 0 : -EIO;
}
