/* Short names: what a pod's search list makes of them. */
#include "kubedns/answer/reason.h"
#include "kubedns/show/explain_internal.h"

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

bool
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
		explain_ours(e, name.wire);
		if (!found)
			fprintf(e->out, "A resolver then asks for %s itself.\n", text);
		return true;
	}
	explain_set_name(e, asked);
	return false;
}
