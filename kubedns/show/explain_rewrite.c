/* Explains names that are rewritten. */
#include <string.h>

#include "kubedns/answer/rewrites.h"
#include "kubedns/show/explain_internal.h"

void
explain_rewrite(const struct explanation *e, struct dname *name)
{
	const struct answer_context *context = e->config->tree->context;
	uint8_t padded[DNAME_MAX + 8] = { 0 }, offsets[DNAME_LABELS_MAX];
	char text[DNAME_TEXT_MAX], other[DNAME_TEXT_MAX];
	struct dname to;

	memcpy(padded, name->wire, name->len);
	struct name cut = name_cut(padded, name->len, offsets);
	if (context == NULL || context->rewrites == NULL ||
	    rewrites_apply(context->rewrites, &cut, &to) != REWRITE_DONE)
		return;
	fprintf(e->out, "%s is looked up as %s (ConfigMap key rewrites).\n",
	    dname_to_text(name->wire, text), dname_to_text(to.wire, other));
	*name = to;
}
