#include "kubedns/answer/external_zones.h"

#include <string.h>

#include "kubedns/answer/reply.h"

struct external_name
external_lookup(const struct tree *tree, const struct name *name, const struct dname *zone)
{
	/* tree_child() reads up to 7 bytes after the label */
	static const uint8_t star[16] = "\1*";
	const struct node *node = tree->root, *next;
	unsigned below = (unsigned)name_below(name, zone);

	for (unsigned i = name->count; i > 0; i--, node = next) {
		next = tree_child(tree, node, name->wire + name->offsets[i - 1]);
		if (next != NULL)
			continue;
		/* `node` is the closest encloser. If `node` is above the zone, no wildcard applies. */
		return (struct external_name){ i > below ? NULL : tree_child(tree, node, star),
			true, (uint8_t)i };
	}
	return (struct external_name){ node, false, 0 };
}

bool
external_find_headless(const struct answer_config *config, const struct tree *tree,
    const struct name *asked, unsigned skip, const struct dname *zone, struct name_buf *buf,
    struct resolved *resolved)
{
	static const uint8_t svc[] = "\3svc";
	unsigned below = (unsigned)name_below(asked, zone) - skip;
	const struct dname *own = &config->zone;
	size_t begin = asked->offsets[skip], len = (size_t)asked->len - zone->len - begin,
	       size = len + sizeof svc - 1 + own->len;

	if (below < 1 || below > 4 || size > DNAME_MAX || !tree->synced)
		return false;
	memcpy(buf->wire, asked->wire + begin, len);
	memcpy(buf->wire + len, svc, sizeof svc - 1);
	memcpy(buf->wire + len + sizeof svc - 1, own->wire, own->len);
	const struct name name = name_in_buf(buf, size);
	resolved->endpoints = NULL;
	resolve(config, tree, &name, below + 1, NULL, resolved);
	switch (resolved->kind) {
	case RESOLVED_EMPTY: /* `NAMESPACE`, or `_PROTO` of a Service */
		return below == 1 ? (resolved->node->flags & NODE_HAS_HEADLESS) != 0
				  : below == 3 && resolved->endpoints != NULL;
	case RESOLVED_HEADLESS:
		return below == 2;
	case RESOLVED_ENDPOINT:
		return below == 3 && resolved->endpoints->flags & ENDPOINTS_APEX;
	case RESOLVED_PORT:
		return true;
	default:
		return false;
	}
}

/* A wildcard does not match names below a headless Service or below its namespace. For such names, the closest encloser is that
 * Service or namespace (RFC 4592 section 3.3.1). */
struct external_name
external_find_name(const struct answer_config *config, const struct tree *tree,
    const struct tree *external, const struct name *name, struct zone zone)
{
	struct external_name found = external_lookup(external, name, zone.name);
	struct name_buf buf;
	struct resolved resolved;

	if (found.node == NULL || !found.wildcard || !external_config(config)->headless ||
	    zone.kind != ZONE_EXTERNAL)
		return found;
	unsigned below = (unsigned)name_below(name, zone.name);
	for (unsigned skip = below > 4 ? below - 4 : 1; skip < found.missing; skip++)
		if (external_find_headless(config, tree, name, skip, zone.name, &buf, &resolved))
			return (struct external_name){ .node = NULL };
	return found;
}

/* --- names of a cluster set --- */

struct dname
import_owner_name(const struct owner *owner)
{
	struct dname name = { .len = owner->len };

	memcpy(name.wire, owner->name, owner->len);
	return name;
}

/* Resolves a name that has `left` more labels than the name of the node. The node has no child for the next label. */
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
	/* A port without a name has the name `_PROTO`, and an empty port label. */
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

			*name = import_owner_name(slice->owner);
			/* clusterset.c has checked that the label fits */
			dname_prepend(name, label + 1, *label);
			return true;
		}
		if (!reverse_next(&walk->all, &ref))
			return false;
		walk->slice = ref.slice;
		walk->i = 0;
		if (ref.slice == NULL) {
			*name = import_owner_name(ref.owner);
			return true;
		}
	}
}
