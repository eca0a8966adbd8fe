#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "kubedns/answer/explanation_stage.h"
#include "kubedns/answer/upstream_stage.h"
#include "kubedns/answer/view.h"
#include "kubedns/answer/zones.h"
#include "kubedns/show/explain_internal.h"
#include "lib/log.h"
#include "lib/percent.h"
#include "lib/spelling.h"
#include "lib/xalloc.h"

static const uint8_t *
label_at(const struct explanation *e, unsigned i)
{
	return e->reason->name.wire + e->reason->name.offsets[i];
}

static void
say_source(const struct explanation *e, const struct store_source *source)
{
	static const char *const kinds[OBJECT_KIND_COUNT] = { [OBJECT_SERVICE] = "Service",
		[OBJECT_SLICES] = "EndpointSlice",
		[OBJECT_NAMESPACE] = "Namespace" };

	fprintf(e->out, "%s %s%s%s", source->from_endpoints ? "Endpoints" : kinds[source->kind],
	    source->namespace, *source->namespace == '\0' ? "" : "/", source->name);
	explain_version(e, source->resource_version);
}

/* --- names that exist --- */

static void
say_service(const struct explanation *e)
{
	struct store_source source;
	char namespace[DNAME_TEXT_MAX], service[DNAME_TEXT_MAX];

	if (e->below < 2 || explain_is_brief(e))
		return;
	explain_label(label_at(e, e->below - 2), namespace);
	if (store_find_namespace(e->config->store, namespace, &source)) {
		fprintf(e->out, "  from ");
		say_source(e, &source);
		fprintf(e->out, "\n");
	}
	if (e->below < 3)
		return;
	explain_label(label_at(e, e->below - 3), service);
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

static void
explain_not_synced(const struct explanation *e)
{
	char text[REASON_TEXT_MAX];

	reason_text(&e->reason->denial, text);
	if (e->answer->info.until_synced)
		fprintf(e->out, "Sent to other servers (--until-synced): %s.\n", text);
	else
		fprintf(e->out, "SERVFAIL: %s.\n", text);
	fprintf(e->out, "The page /readiness of kubedns shows the reason.\n");
}

static void
explain_existing(const struct explanation *e)
{
	const struct resolved *resolved = e->reason->object;

	fprintf(e->out, "%s exists.\n", e->text);
	explain_records(e, "");
	if (resolved == NULL) /* the zone itself */
		return;
	if (resolved->kind == RESOLVED_POD)
		fprintf(e->out, "  a pod's name, which contains its address (--pods)\n");
	else if (resolved->kind == RESOLVED_CNAME)
		fprintf(e->out, "  the name of a federation\n");
	else
		say_service(e);
	say_slices(e, resolved);
	explain_nearest(e, resolved);
	explain_visibility(e);
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
	if (!explain_is_brief(nearest->e) || answers_ptrs(nearest, node))
		consider(nearest, node->label);
	return true;
}

/* Considers host names of endpoints. Over DNS, considers only host names of headless Services, because PTR records reveal these names
 * anyway. */
static void
consider_endpoints(struct nearest *nearest, const struct node *parent)
{
	if (explain_is_brief(nearest->e) && (parent->flags & NODE_HEADLESS) == 0)
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
	bool by_dns = explain_is_brief(e);
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

/* Prints that a namespace exists but --namespace-labels does not select it. */
static void
say_left_out(const struct explanation *e)
{
	char namespace[DNAME_TEXT_MAX];

	if (explain_is_brief(e) || e->below < 2)
		return;
	explain_label(label_at(e, e->below - 2), namespace);
	if (store_leaves_namespace_out(e->config->store, namespace))
		fprintf(e->out,
		    "The namespace %s is in the cluster, but its labels are not those "
		    "of --namespace-labels.\n",
		    namespace);
}

/* Returns whether --fallthrough applies to the missing name, but kubedns must not send it to other servers. Then the reason is that of
 * the SERVFAIL. */
static bool
must_not_leave(const struct explanation *e)
{
	return e->answer->outcome == ANSWER_REPLY && e->answer->info.rcode == RCODE_SERVFAIL;
}

const char *
explain_missing_rcode(const struct explanation *e)
{
	return must_not_leave(e) ? "SERVFAIL" : "NXDOMAIN";
}

void
explain_fallthrough(const struct explanation *e)
{
	char text[REASON_TEXT_MAX];

	reason_text(&e->reason->denial, text);
	if (must_not_leave(e))
		fprintf(e->out, "--fallthrough sends such names to other servers, but %s.\n", text);
	if (!e->answer->info.fell_through)
		return;
	fprintf(e->out, "Because of --fallthrough, ");
	explain_sent(e, e->reason->name.wire, e->answer->info.direct);
	explain_filtered(e);
}

/* Returns the deepest existing node on the path to the name. */
static const struct node *
last_node(const struct explanation *e)
{
	const struct resolved *resolved = e->reason->object;

	return e->reason->stage != STAGE_zone || resolved == NULL ? e->config->tree->root
								  : resolved->node;
}

static void
explain_missing(const struct explanation *e)
{
	const struct reason *reason = &e->reason->denial;
	char text[REASON_TEXT_MAX];

	reason_text(reason, text);
	explain_unclaimed(e);
	fprintf(e->out, "%s: %s does not exist.\n", explain_missing_rcode(e), e->text);
	if (reason->kind == REASON_NONE || must_not_leave(e))
		return;
	fprintf(e->out, "Why: %s.\n", text);
	say_left_out(e);
	say_todo(e, reason);
	switch (reason->kind) {
	case REASON_NAME:
	case REASON_NAMESPACE:
	case REASON_SERVICE:
	case REASON_MEMBER:
		say_nearest(e, last_node(e), reason);
		break;
	default:
		break;
	}
}

/* --- the answers of each stage --- */

/* Warns about a stub domain that contains our name. dnsmasq or unbound sends names of the stub domain to the stub servers, unless kubedns
 * answers first. */
static void
say_shadow(const struct explanation *e)
{
	const struct answer_context *context = e->config->tree->context;
	char text[DNAME_TEXT_MAX];

	if (e->stub == NULL || e->answer->outcome == ANSWER_FORWARD || e->answer->info.fell_through)
		return;
	dname_to_text(e->stub, text);
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

static void
explain_zone(const struct explanation *e)
{
	switch (e->reason->kind) {
	case REASON_NOT_SYNCED:
		explain_not_synced(e);
		break;
	case REASON_EXISTS:
		explain_existing(e);
		break;
	case REASON_WILDCARD:
		fprintf(e->out, "%s has the records of all names that match it (--wildcards).\n",
		    e->text);
		explain_records(e, "");
		break;
	default:
		explain_missing(e);
		explain_fallthrough(e);
		break;
	}
	say_shadow(e);
}

static void
say_slices_of_address(const struct explanation *e, const struct addr *addr)
{
	struct reverse_walk walk;
	struct reverse_ref ref;
	unsigned shown = 0;

	reverse_find(&walk, e->config->tree, addr);
	while (!explain_is_brief(e) && reverse_next(&walk, &ref))
		if (ref.slice != NULL && !say_slice(e, ref.slice, &shown))
			return;
}

/* Explains a name in a reverse zone, or of an address that the cluster has. */
static void
explain_reverse(const struct explanation *e)
{
	const struct name *name = &e->reason->name;
	const struct dname *zone = e->reason->object;
	struct addr addr;
	int bits = resolve_reverse_name(name, &addr);
	bool whole = bits == 32 || bits == 128;
	char text[DNAME_TEXT_MAX] = "";

	if (zone != NULL)
		dname_to_text(zone->wire, text);
	if (e->reason->kind == REASON_NOT_SYNCED) {
		explain_not_synced(e);
	} else if (e->reason->kind == REASON_MISSING) {
		fprintf(e->out, "%s: ", explain_missing_rcode(e));
		if (whole)
			fprintf(e->out, "no Service or endpoint has this address, which is in "
					"--reverse-cidrs.\n");
		else
			fprintf(e->out,
			    "%s is in the zone %s of --reverse-cidrs, and no Service or endpoint "
			    "has an address in it.\n",
			    e->text, text);
		explain_fallthrough(e);
	} else if (whole) {
		fprintf(e->out, "%s is the name of an address in the cluster.\n", e->text);
		explain_records(e, "");
		say_slices_of_address(e, &addr);
	} else if (zone != NULL) { /* outside of such a zone only whole addresses have names */
		if (name->len == zone->len)
			fprintf(e->out, "%s is a zone of --reverse-cidrs.\n", e->text);
		else
			fprintf(e->out, "%s exists, in the zone %s of --reverse-cidrs.\n", e->text,
			    text);
		explain_records(e, "only names below it have records");
	}
	say_shadow(e);
}

/* Prints why kubedns has no records of this name, as the start of a sentence. */
static void
say_outside(const struct explanation *e)
{
	struct addr addr;
	int bits = resolve_reverse_name(&e->reason->name, &addr);

	if (e->reason->stage == STAGE_stub_domains)
		fprintf(e->out,
		    "%s is in a stub domain, which comes before the zones of this server: ",
		    e->text);
	else if (bits != 32 && bits != 128)
		fprintf(e->out, "%s is not in a zone of this server: ", e->text);
	else if (reverse_config(e->config->answers)->cidrs_only)
		fprintf(e->out, "The address is not in --reverse-cidrs, and with --ptr=cidrs "
				"kubedns has no names for other addresses: ");
	else
		fprintf(e->out, "No Service or endpoint has this address, and it is not in "
				"--reverse-cidrs: ");
}

static void
explain_outside(const struct explanation *e)
{
	const struct answer_context *context = e->config->tree->context;
	const struct reason *reason = &e->reason->denial;
	const uint8_t *name = e->reason->name.wire;
	char text[REASON_TEXT_MAX], rcode[12];

	say_outside(e);
	if (reason->kind == REASON_NONE || reason->kind == REASON_FILTERED) {
		explain_sent(e, name, e->answer->info.direct);
	} else {
		reason_text(reason, text);
		fprintf(e->out, "%s: %s.\n", rcode_name(e->answer->info.rcode, rcode), text);
		say_shadow(e);
	}
	explain_filtered(e);
	if (context != NULL && context->closed && !context->unread)
		fprintf(e->out,
		    "ConfigMap key %s is refused and asks, or seems to ask, for encryption. A "
		    "query in plain text is not sent instead. The log has the reason.\n",
		    "upstreamNameservers or stubDomains");
	else if (e->config->stubs_refused && e->stub == NULL)
		fprintf(e->out, "ConfigMap key stubDomains is refused, so a new stub domain in it "
				"is not in force. The log has the reason.\n");
}

/* --- short names --- */

/* Returns which suffix a name probably lacks: 0 for a name such as "web.prod", 1 for "web.prod.svc", -1 for other names. */
static int
meant_suffix(const struct explanation *e)
{
	static const uint8_t svc[16] = "\3svc";
	const uint8_t *last = label_at(e, e->reason->name.count - 1);

	if (*last == *svc && memcmp(last, svc, 4) == 0)
		return 1;
	return view_namespace(e->config->tree, last) != NULL ? 0 : -1;
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

	explain_label(e->reason->name.wire, label);
	dname_to_text(answers->zone.wire, zone);
	fprintf(e->out,
	    "%s is a short name: a pod's resolver queries %s.NAMESPACE.svc.%s, with the pod's own "
	    "namespace, then %s.svc.%s, %s.%s and %s itself.\n",
	    label, label, zone, label, zone, label, zone, e->text);
	owners_find(&walk, e->config->tree, e->reason->name.wire);
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

/* Returns the answer to A. If that is only filtered, returns the answer to AAAA or TXT, which shows which servers get the other queries. */
static struct explained *
first_answer(const struct explain_config *config, const struct dname *qname)
{
	static const uint16_t types[] = { TYPE_A, TYPE_AAAA, TYPE_TXT };
	struct explained *answer = NULL;

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		free(answer);
		answer = explain_query(config, qname->wire, types[i]);
		if (answer->reason.denial.kind != REASON_FILTERED ||
		    answer->info.claim.stage != NULL)
			break;
	}
	return answer;
}

static void explain_name(FILE *out, const struct explain_config *config, const struct dname *qname);

/* Makes the name that a pod's search list makes of a short name. Returns false if it is too long. */
static bool
complete(const struct explanation *e, const char *suffix_text, struct dname *name)
{
	struct dname suffix;

	*name = *e->qname;
	dname_from_text(&suffix, suffix_text);
	return dname_append(name, suffix.wire) == 0 &&
	       dname_append(name, e->config->answers->zone.wire) == 0;
}

/* Returns false if the name is no short name of the cluster. */
static bool
explain_short(const struct explanation *e)
{
	static const char *const suffixes[] = { "svc.", "." };
	int meant = meant_suffix(e);
	char text[DNAME_TEXT_MAX];
	struct dname name;

	for (int i = 0; i < 2; i++) {
		if (!complete(e, suffixes[i], &name))
			continue;
		struct explained *answer = explain_query(e->config, name.wire, TYPE_A);
		bool found = explain_exists(answer);

		free(answer);
		if (!found && i != meant)
			continue;
		fprintf(e->out, "%s is a short name: a pod's search list completes it to %s\n",
		    e->asked, dname_to_text(name.wire, text));
		explain_name(e->out, e->config, &name);
		if (!found)
			fprintf(e->out, "The resolver then queries %s itself.\n", e->asked);
		return true;
	}
	return false;
}

/* Explains that an external name of two labels is no short name of a Service: the cluster does not have its namespace. */
static void
say_no_namespace(const struct explanation *e)
{
	char text[REASON_TEXT_MAX];
	struct dname name;

	if (e->reason->name.count != 2 || !complete(e, "svc.", &name))
		return;
	struct explained *answer = first_answer(e->config, &name);
	struct explanation full = *e;
	struct reason reason = answer->reason.denial;
	if (reason.namespace == NULL) { /* a local name, or the name of a module */
		free(answer);
		return;
	}
	full.answer = answer;
	full.reason = &answer->reason;
	/* Without the guess that a search list completed the name. Here that is certain. */
	if (reason.kind != REASON_NAMESPACE_OTHER)
		reason.kind = REASON_NAMESPACE;
	reason_text(&reason, text);
	fprintf(e->out, "If it is meant as SERVICE.NAMESPACE: %s.\n", text);
	if (reason.kind == REASON_NAMESPACE)
		say_nearest(&full, last_node(&full), &reason);
	free(answer);
}

static void
explain_upstream(const struct explanation *e)
{
	bool may_be_short = e->reason->name.count > 0 && e->config->tree->synced && e->stub == NULL;

	if (may_be_short && e->reason->name.count == 1) {
		explain_lone_label(e);
	} else if (!may_be_short || !explain_short(e)) {
		explain_outside(e);
		if (may_be_short)
			say_no_namespace(e);
	}
}

static void
explain_name(FILE *out, const struct explain_config *config, const struct dname *qname)
{
	static void (*const explain[])(const struct explanation *e) = {
		[STAGE_local_names] = explain_local_names,
		[STAGE_stub_domains] = explain_outside,
		[STAGE_zone] = explain_zone,
		[STAGE_reverse] = explain_reverse,
		[STAGE_external] = explain_external,
		[STAGE_clusterset] = explain_clusterset,
		[STAGE_upstream] = explain_upstream,
		[STAGE_MODULE] = explain_module,
	};
	struct explained *answer = first_answer(config, qname);
	struct explanation e = { .out = out,
		.config = config,
		.qname = qname,
		.answer = answer,
		.reason = &answer->reason };
	e.below = e.reason->below < 0 ? 0 : (unsigned)e.reason->below;
	e.stub = answer_stub_domain(config->tree->context, e.reason->name.wire);
	dname_to_text(qname->wire, e.asked);
	dname_to_text(e.reason->name.wire, e.text);
	if (answer->info.rewritten)
		fprintf(out, "%s is looked up as %s (ConfigMap key rewrites).\n", e.asked, e.text);
	explain[e.reason->stage](&e);
	free(answer);
}

char *
explain_text(const struct explain_config *config, const char *name, size_t *len)
{
	char *text = NULL;
	struct dname qname;
	FILE *out = open_memstream(&text, len);

	if (out == NULL)
		abort(); /* fails only if memory runs out */
	if (*name == '\0' || dname_from_text(&qname, name) < 0) {
		fprintf(out, "Not a DNS name: a label has 1 to 63 bytes, a name 255 at most.\n");
	} else {
		dname_lower(qname.wire, qname.len);
		explain_name(out, config, &qname);
	}
	fclose(out);
	return text;
}

/* Explains without a store, for NAME._explain. Any thread may call it within a read section. */
static char *
explain_brief(
    const struct answer_config *answers, const struct tree *tree, const char *name, size_t *len)
{
	const struct explain_config config = { .answers = answers, .tree = tree };

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
