/* With --visibility: which namespaces' pods see a name that exists. */
#include "kubedns/cluster/store.h"
#include "kubedns/show/explain_internal.h"

enum { NAMED_MAX = 10 };

void
explain_visibility(const struct explanation *e)
{
	const struct answer_context *context = e->config->tree->context;
	const struct store *store = e->config->store;
	static const uint8_t svc[16] = "\3svc";
	unsigned others = 0;

	if (context == NULL || context->visibility == NULL || store == NULL || e->below < 2)
		return;
	const struct visibility *v = context->visibility;
	const struct node *node = tree_child(e->config->tree, e->config->tree->root, svc);
	const uint8_t *label = e->name.wire + e->name.offsets[e->below - 2];
	node = node == NULL ? NULL : tree_child(e->config->tree, node, label);
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
