/*
 * Names of headless ServiceImports. Their endpoints are in the tree of the zones for outside, packed (by
 * cluster/clusterset.c):
 *
 *	SERVICE.NAMESPACE.svc.ZONE            the endpoints of all clusters: A, AAAA, how many SRV records
 *	 '- CLUSTER                           those of one cluster, with their host names
 *
 * so `HOST.CLUSTER.SERVICE...` is found as an endpoint of a headless Service is, and the SRV records at and
 * below SERVICE are those of each CLUSTER.
 */
#include <string.h>

#include "kubedns/answer/answer_internal.h"
#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/reply_internal.h"
#include "kubedns/cluster/tree_content.h"

/* A name with `left` labels more than the node, of which it has no child. */
static enum resolved_kind
below_import(const struct tree *tree, const struct node *node, const struct name *name,
    unsigned left, struct resolved *resolved)
{
	const uint8_t *label = name->wire + name->offsets[left - 1];

	if (node->flags & NODE_IMPORT_CLUSTER)
		return left == 1 && resolve_endpoint(tree, node->endpoints, label, resolved)
			   ? RESOLVED_ENDPOINT
			   : RESOLVED_NOTHING;
	if ((node->flags & NODE_IMPORT) == 0 || label[1] != '_' || left > 2)
		return RESOLVED_NOTHING;
	/* A protocol's own label is that of a port without a name. */
	const uint8_t *port = left == 1 ? (const uint8_t *)"" : name->wire + name->offsets[0];
	resolved->endpoints = node->endpoints;
	resolved->port_label = port_label(tree->seed, port, label);
	if (!endpoint_set_has_port(node->endpoints, resolved->port_label))
		return RESOLVED_NOTHING;
	return left == 1 ? RESOLVED_EMPTY : RESOLVED_PORT;
}

enum resolved_kind
import_resolve(const struct tree *tree, const struct name *name, struct resolved *resolved)
{
	const struct node *node = tree->root, *next;

	for (unsigned i = name->count; i > 0; i--, node = next) {
		next = tree_child(tree, node, name->wire + name->offsets[i - 1]);
		resolved->node = node;
		if (next == NULL)
			return below_import(tree, node, name, i, resolved);
	}
	resolved->node = node;
	if (node->flags & NODE_IMPORT_CLUSTER)
		return RESOLVED_EMPTY;
	if ((node->flags & NODE_IMPORT) == 0)
		return RESOLVED_NODE;
	resolved->endpoints = node->endpoints;
	resolved->port_label = 0;
	return RESOLVED_HEADLESS;
}

/* --- answers --- */

static struct dname
owner_name(const struct owner *owner)
{
	struct dname name = { .len = owner->len };

	memcpy(name.wire, owner->name, owner->len);
	return name;
}

struct put {
	struct reply *reply;
	size_t owner;
	uint64_t port_label;
	unsigned weight;
};

static bool
put_cluster_srv(void *arg, const struct node *node)
{
	const struct put *put = arg;
	size_t had = put->reply->w.len;

	if (node->flags & NODE_IMPORT_CLUSTER) {
		const struct dname cluster = owner_name(node->endpoints->owner);
		reply_weighted_srv(put->reply, put->owner, node->endpoints, put->port_label,
		    &cluster, put->weight);
	}
	if (put->reply->w.len == had)
		put->reply->passed += PASSED_SLICE;
	return !put->reply->full && put->reply->passed < PASSED_MAX;
}

static void
put_srv(struct reply *reply, size_t owner, const struct resolved *resolved)
{
	if (resolved->kind == RESOLVED_ENDPOINT) {
		const struct dname cluster = owner_name(resolved->endpoints->owner);
		reply_endpoints_srv(reply, owner, resolved, &cluster);
		return;
	}
	struct put put = { reply, owner, resolved->port_label,
		endpoint_set_weight(resolved->endpoints) };
	tree_children_until(resolved->node, put_cluster_srv, &put);
}

void
reply_import(
    struct reply *reply, size_t owner, const struct tree *tree, const struct resolved *resolved)
{
	uint16_t qtype = reply->query->qtype;
	const struct tree *own = reply->tree;
	bool ordered = reply->ordered;

	if (resolved->kind == RESOLVED_EMPTY)
		return;
	reply->tree = tree; /* to which `resolved` and the targets of SRV records belong */
	reply->ordered = false;
	if (qtype == TYPE_ANY)
		put_hinfo(reply, owner);
	else if (qtype == TYPE_SRV)
		put_srv(reply, owner, resolved);
	else if (qtype != TYPE_A && qtype != TYPE_AAAA)
		;
	else if (resolved->kind == RESOLVED_HEADLESS)
		reply_endpoint_set(
		    reply, owner, resolved->endpoints, qtype == TYPE_A ? AF_INET : AF_INET6);
	else if (resolved->kind == RESOLVED_ENDPOINT)
		reply_endpoints(reply, owner, resolved, qtype == TYPE_A ? AF_INET : AF_INET6);
	if (reply->glue_count > 0)
		reply_glue(reply);
	reply->glue_count = 0;
	reply->tree = own;
	reply->ordered = ordered;
}

/* --- PTRs --- */

void
import_ptrs_find(struct import_ptrs *walk, const struct tree *tree, const struct addr *addr)
{
	reverse_find(&walk->all, tree, addr);
	walk->slice = NULL;
	walk->i = 0;
}

bool
import_ptrs_next(struct import_ptrs *walk, struct dname *name)
{
	uint8_t derived[LABEL_ROOM];
	struct reverse_ref ref;

	for (;;) {
		const struct slice_endpoints *slice = walk->slice;
		if (slice != NULL)
			walk->i = slice_next_ptr(slice, walk->i, walk->all.addr.bytes);
		if (slice != NULL && walk->i < slice->published) {
			const uint8_t *label = endpoint_label(slice, walk->i++, derived);
			*name = owner_name(slice->owner);
			dname_prepend(name, label + 1, *label); /* clusterset.c: it fits */
			return true;
		}
		if (!reverse_next(&walk->all, &ref))
			return false;
		walk->slice = ref.slice;
		walk->i = 0;
		if (ref.slice == NULL) {
			*name = owner_name(ref.owner);
			return true;
		}
	}
}
