#include "kubedns/answer/view.h"

#include <string.h>

static const uint8_t svc[16] = "\3svc";

/* --- who the client is --- */

static bool
is_local(const struct addr *addr)
{
	static const uint8_t v4[4] = { 127, 0, 0, 1 }, v6[16] = { [15] = 1 };

	return addr->family == AF_INET ? memcmp(addr->bytes, v4, sizeof v4) == 0
				       : memcmp(addr->bytes, v6, sizeof v6) == 0;
}

/* Returns the place of the pod with this address. */
static struct client_place
place_of(const struct view_config *config, const struct tree *tree, const struct addr *addr)
{
	const struct answer_context *context = tree->context;
	uint32_t node = config->pod_places ? pods_place(tree, addr) : 0;

	if (node == 0 || context == NULL || context->places == NULL ||
	    node >= context->places->count)
		return (struct client_place){ 0 };
	return context->places->items[node];
}

const struct tree *
view_of(struct view *view, const struct view_config *config, const struct tree *tree,
    const struct addr *addr, enum view_client *client)
{
	const struct answer_context *context = tree->context;
	uint32_t number = config->visibility ? pods_namespace(tree, addr) : 0;

	*client = number != 0                             ? VIEW_POD
		  : !config->visibility || is_local(addr) ? VIEW_LOCAL
							  : VIEW_UNKNOWN;
	view->limited =
	    *client == VIEW_POD || (*client == VIEW_UNKNOWN && !config->unknown_sees_all);
	view->place = place_of(config, tree, addr);
	if (!view->limited && view->place.node == 0)
		return tree;
	view->tree = *tree;
	view->tree.view = view;
	if (!view->limited)
		return &view->tree;
	view->visibility = context == NULL ? NULL : context->visibility;
	view->client = number;
	/* The serial of the whole tree changes with the Services of all namespaces, which would reveal these changes. */
	view->tree.serial = view->visibility == NULL ? 0 : view->visibility->serial;
	return &view->tree;
}

/* --- what the client sees --- */

bool
view_sees(const struct tree *tree, const struct node *namespace)
{
	const struct view *view = tree->view;

	return view == NULL || !view->limited ||
	       (view->visibility != NULL &&
		   visibility_sees(view->visibility, view->client, namespace->number));
}

bool
view_sees_service(const struct tree *tree, const struct node *namespace, const struct node *service)
{
	return view_sees(tree, namespace) || service->flags & NODE_OPEN;
}

/* Returns whether the whole namespace is hidden, including its Services. */
static bool
hides(const struct tree *tree, const struct node *namespace)
{
	return !view_sees(tree, namespace) && (namespace->flags & NODE_OPEN) == 0;
}

bool
view_sees_owner(const struct tree *tree, const struct owner *owner)
{
	uint8_t label[1 + DNAME_LABEL_MAX + 8] = { 0 };
	const uint8_t *namespace = owner->name + 1 + owner->name[0];

	if (!view_limited(tree))
		return true;
	memcpy(label, namespace, 1u + *namespace);
	const struct node *node = view_namespace(tree, label);
	if (node == NULL)
		return false;
	memcpy(label, owner->name, 1u + *owner->name);
	memset(label + 1 + *label, 0, 8);
	return view_sees(tree, node) || view_service(tree, node, label) != NULL;
}

void
view_cut_path(const struct tree *tree, struct tree_path *path)
{
	enum { NAMESPACE = 1, SERVICE };

	if (path->count <= NAMESPACE || memcmp(path->nodes[0]->label, svc, 4) != 0)
		return;
	if (hides(tree, path->nodes[NAMESPACE]))
		path->count = NAMESPACE;
	else if (path->count > SERVICE &&
		 !view_sees_service(tree, path->nodes[NAMESPACE], path->nodes[SERVICE]))
		path->count = SERVICE;
}

const struct node *
view_namespace(const struct tree *tree, const uint8_t *label)
{
	const struct node *node = tree_child(tree, tree->root, svc);

	node = node == NULL ? NULL : tree_child(tree, node, label);
	return node == NULL || (view_limited(tree) && hides(tree, node)) ? NULL : node;
}

const struct node *
view_service(const struct tree *tree, const struct node *namespace, const uint8_t *label)
{
	const struct node *node = tree_child(tree, namespace, label);

	return node == NULL || view_sees_service(tree, namespace, node) ? node : NULL;
}
