/*
 * Explains names of our zone that do not exist: the sentence of the extended DNS error
 * (answer/reason.h), what to do, and the most similar name, if there is one.
 */
#include <limits.h>
#include <string.h>

#include "kubedns/answer/reason.h"
#include "kubedns/show/explain_internal.h"
#include "lib/spelling.h"

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

void
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
