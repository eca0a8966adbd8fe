#include <stdio.h>
#include <string.h>

#include "kubedns/answer/nearest.h"
#include "kubedns/answer/view.h"
#include "kubedns/answer/zone_lookup.h"

static const uint8_t *
label_at(const struct name *name, unsigned i)
{
	return name->wire + name->offsets[i];
}

static bool
label_is(const uint8_t *label, const char *text)
{
	return label[0] == strlen(text) && memcmp(label + 1, text, label[0]) == 0;
}

static bool
same_label(const uint8_t *a, const uint8_t *b)
{
	return *a == *b && memcmp(a + 1, b + 1, *a) == 0;
}

/* Returns whether this label spells the address of an endpoint that has no host name. */
static bool
label_is_addr_of_some(const struct tree *tree, const struct endpoint_set *endpoints,
    const uint8_t *label, struct addr *addr)
{
	struct endpoint_walk walk;
	struct endpoint_ref ref;
	uint8_t canonical[1 + DNAME_LABEL_MAX + 8];

	if (tree_label_addr(label, addr) < 0 ||
	    !same_label(label, tree_addr_label(addr, canonical)))
		return false;
	endpoint_set_find_unnamed(&walk, tree, endpoints, addr);
	return endpoint_set_next(&walk, &ref);
}

bool
resolve_endpoint(const struct tree *tree, const struct endpoint_set *endpoints,
    const uint8_t *label, struct resolved *resolved)
{
	struct endpoint_walk walk;

	resolved->endpoints = endpoints;
	endpoint_set_find_name(&walk, tree, endpoints, label);
	resolved->label = endpoint_set_next(&walk, &resolved->first) ? label : NULL;
	if ((resolved->label == NULL || endpoints->dashed > 0) &&
	    label_is_addr_of_some(tree, endpoints, label, &resolved->addr))
		return true;
	resolved->addr.family = AF_UNSPEC;
	return resolved->label != NULL;
}

void
resolved_endpoints(
    struct resolved_walk *walk, const struct tree *tree, const struct resolved *resolved)
{
	walk->tree = tree;
	walk->resolved = resolved;
	walk->by_addr = resolved->label == NULL;
	if (walk->by_addr)
		endpoint_set_find_unnamed(&walk->walk, tree, resolved->endpoints, &resolved->addr);
	else
		endpoint_set_find_name(&walk->walk, tree, resolved->endpoints, resolved->label);
}

bool
resolved_next(struct resolved_walk *walk, struct endpoint_ref *ref)
{
	const struct resolved *resolved = walk->resolved;

	for (;;) {
		if (endpoint_set_next(&walk->walk, ref))
			return true;
		if (walk->by_addr || resolved->addr.family == AF_UNSPEC)
			return false;
		walk->by_addr = true;
		endpoint_set_find_unnamed(
		    &walk->walk, walk->tree, resolved->endpoints, &resolved->addr);
	}
}

void
resolved_skip_slice(struct resolved_walk *walk)
{
	walk->walk.slice = NULL;
}

/* Resolves a name of --zonal. Returns RESOLVED_NOTHING if it is not such a name. */
static enum resolved_kind
zonal(const struct answer_config *config, const struct tree *tree,
    const struct endpoint_set *endpoints, const struct name *name, unsigned left,
    struct resolved *resolved)
{
	return endpoint_choice_zonal(config) &&
		       nearest_resolve(config, tree, name, left, endpoints, resolved)
		   ? resolved->kind
		   : RESOLVED_NOTHING;
}

/* Resolves names below a Service that are not nodes of the tree. Such names are names of the Service's endpoints, and names of its ports
 * if it is headless. */
static enum resolved_kind
below_service(const struct answer_config *config, const struct tree *tree,
    const struct endpoint_set *endpoints, const struct name *name, unsigned left,
    struct resolved *resolved)
{
	const uint8_t *label = label_at(name, left - 1);

	if (label[1] != '_')
		return left == 1 && resolve_endpoint(tree, endpoints, label, resolved)
			   ? RESOLVED_ENDPOINT
			   : RESOLVED_NOTHING;
	if ((endpoints->flags & ENDPOINTS_APEX) == 0)
		return RESOLVED_NOTHING;
	if (left > 2)
		return zonal(config, tree, endpoints, name, left, resolved);
	/* A port without a name has no label of its own. The protocol's label stands for it. */
	const uint8_t *port = left == 1 ? (const uint8_t *)"" : label_at(name, 0);
	resolved->endpoints = endpoints;
	resolved->port_label = port_label(tree->seed, port, label);
	if (!endpoint_set_has_port(endpoints, resolved->port_label))
		return zonal(config, tree, endpoints, name, left, resolved);
	return left == 1 ? RESOLVED_EMPTY : RESOLVED_PORT;
}

static enum resolved_kind
pod_name(const struct answer_config *config, const struct tree *tree, const struct name *name,
    unsigned below, struct resolved *resolved)
{
	if (below == 1)
		return RESOLVED_EMPTY; /* the name is `pod.ZONE` */
	if (zone_config(config)->pods == PODS_DISABLED || below > 3)
		return RESOLVED_NOTHING;
	const struct node *node = view_namespace(tree, label_at(name, below - 2));
	if (node == NULL || !view_sees(tree, node))
		return RESOLVED_NOTHING;
	if (below == 2)
		return RESOLVED_EMPTY;
	if (node->number == 0 || tree_label_addr(label_at(name, 0), &resolved->addr) < 0)
		return RESOLVED_NOTHING;
	if (zone_config(config)->pods == PODS_VERIFIED &&
	    !pods_run(tree, &resolved->addr, node->number))
		return RESOLVED_NOTHING;
	return RESOLVED_POD;
}

bool
service_without_ready_endpoints(const struct answer_config *config, const struct node *node)
{
	const struct endpoint_set *endpoints = node->endpoints;

	if (endpoints == NULL || endpoints->published > 0)
		return false;
	return node->flags & NODE_HEADLESS ||
	       (zone_config(config)->ignore_empty_service && node->flags & NODE_CLUSTERIP);
}

static const struct federation *
find_federation(const struct tree *tree, const uint8_t *label)
{
	const struct answer_context *context = tree->context;

	for (size_t i = 0; context != NULL && i < context->federation_count; i++)
		if (same_label(context->federations[i].label, label))
			return &context->federations[i];
	return NULL;
}

static int
prepend_text(struct dname *name, const char *label)
{
	return *label == '\0' ? 0 : dname_prepend(name, label, strlen(label));
}

/* Resolves `SERVICE.NAMESPACE.FEDERATION.svc` to a CNAME. The CNAME's target is the local Service if the local Service has endpoints.
 * Otherwise the target is the federation's name of the Service in this zone and region. */
static enum resolved_kind
federated(const struct answer_config *config, const struct tree *tree, const struct name *name,
    unsigned below, struct resolved *resolved)
{
	const struct federation *federation;
	const struct answer_context *context = tree->context;

	if (below < 2 || below > 4 || !label_is(label_at(name, below - 1), "svc") ||
	    (federation = find_federation(tree, label_at(name, below - 2))) == NULL)
		return RESOLVED_NOTHING;
	if (below < 4)
		return RESOLVED_EMPTY;

	const uint8_t *service = label_at(name, 0), *namespace = label_at(name, 1);
	const struct node *node = view_namespace(tree, namespace);
	node = node == NULL ? NULL : view_service(tree, node, service);
	bool local = node != NULL && node->endpoints != NULL && node->endpoints->published > 0;
	struct dname *to = &resolved->cname;
	*to = local ? config->zone : federation->domain;
	if ((!local &&
		(prepend_text(to, context->region) < 0 || prepend_text(to, context->zone) < 0)) ||
	    dname_prepend(to, "svc", 3) < 0 ||
	    (!local && dname_prepend(to, federation->label + 1, federation->label[0]) < 0) ||
	    dname_prepend(to, namespace + 1, namespace[0]) < 0 ||
	    dname_prepend(to, service + 1, service[0]) < 0)
		return RESOLVED_NOTHING;
	return RESOLVED_CNAME;
}

static enum resolved_kind
walk_tree(const struct answer_config *config, const struct tree *tree, const struct name *name,
    unsigned below, const struct tree_path *path, struct resolved *resolved)
{
	const struct node *node = tree->root;

	for (unsigned left = below; left > 0; left--) {
		unsigned depth = below - left;
		const struct node *child = depth < path->count ? path->nodes[depth] : NULL;

		if (child == NULL)
			return node->endpoints != NULL ? below_service(config, tree,
							     node->endpoints, name, left, resolved)
						       : RESOLVED_NOTHING;
		node = child;
		resolved->node = node;
		if (depth == 2) /* <service>.<namespace>.svc */
			resolved->service = node;
		if (service_without_ready_endpoints(config, node))
			return RESOLVED_NOTHING;
	}
	if (node->endpoints != NULL && node->endpoints->flags & ENDPOINTS_APEX) {
		resolved->endpoints = node->endpoints;
		return RESOLVED_HEADLESS;
	}
	return node->records != NULL ? RESOLVED_NODE : RESOLVED_EMPTY;
}

void
resolve(const struct answer_config *config, const struct tree *tree, const struct name *name,
    unsigned below, const struct tree_path *path, struct resolved *resolved)
{
	struct tree_path own = { .wire = name->wire, .offsets = name->offsets, .labels = below };

	if (path == NULL) {
		tree_find_paths(tree, &own, 1);
		path = &own;
	}
	if (__builtin_expect(view_limited(tree), 0)) {
		own = *path;
		view_cut_path(tree, &own);
		path = &own;
	}
	resolved->node = tree->root;
	resolved->service = NULL;
	resolved->kind = below > 0 && label_is(label_at(name, below - 1), "pod")
			     ? pod_name(config, tree, name, below, resolved)
			     : walk_tree(config, tree, name, below, path, resolved);
	if (resolved->kind == RESOLVED_NOTHING)
		resolved->kind = federated(config, tree, name, below, resolved);
}

/* Parses a label that is a decimal octet without leading zeros. Returns -1 if the label is not such a number. */
static int
octet(const uint8_t *label)
{
	unsigned len = label[0], value = label[1] - (unsigned)'0', digit;

	if (len == 0 || len > 3 || value > 9)
		return -1;
	if (len == 1)
		return (int)value;
	digit = label[2] - (unsigned)'0';
	if (value == 0 || digit > 9)
		return -1;
	value = value * 10 + digit;
	if (len == 2)
		return (int)value;
	digit = label[3] - (unsigned)'0';
	value = value * 10 + digit;
	return digit <= 9 && value <= 255 ? (int)value : -1;
}

/* Parses a label that is a lower-case hexadecimal digit. Returns -1 if the label is not such a digit. */
static int
nibble(const uint8_t *label)
{
	int c = label[1];

	if (label[0] != 1)
		return -1;
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns the number of labels of `name` before `suffix`, or -1 if the name does not end in `suffix`. The suffix consists of two labels
 * and is `len` bytes long. */
static int
labels_before(const struct name *name, const uint8_t *suffix, size_t len)
{
	if (name->count < 2 || name->len < len ||
	    name->wire + name->len - len != label_at(name, name->count - 2u) ||
	    !name_same_bytes(name->wire + name->len - len, suffix, len))
		return -1;
	return name->count - 2;
}

int
resolve_reverse_name(const struct name *name, struct addr *addr)
{
	static const uint8_t in_addr[] = "\7in-addr\4arpa", ip6[] = "\3ip6\4arpa";
	int labels = labels_before(name, in_addr, sizeof in_addr);
	bool v4 = labels >= 0;

	if (!v4)
		labels = labels_before(name, ip6, sizeof ip6);
	if (labels < 0 || labels > (v4 ? 4 : 32))
		return -1;
	memset(addr, 0, sizeof *addr);
	addr->family = v4 ? AF_INET : AF_INET6;
	/* Each family has its own loop, because this loop is the most expensive step of a PTR query. Most PTR queries are for IPv4. */
	for (int i = 0; v4 && i < labels; i++) {
		int value = octet(label_at(name, (unsigned)(labels - 1 - i)));

		if (value < 0)
			return -1;
		addr->bytes[i] = (uint8_t)value;
	}
	for (int i = 0; !v4 && i < labels; i++) {
		int value = nibble(label_at(name, (unsigned)(labels - 1 - i)));

		if (value < 0)
			return -1;
		addr->bytes[i / 2] |= (uint8_t)(i % 2 == 0 ? value << 4 : value);
	}
	return labels * (v4 ? 8 : 4);
}

void
reverse_name_prefix(const struct addr *addr, unsigned bits, struct dname *name)
{
	bool v4 = addr->family == AF_INET;
	unsigned width = v4 ? 8 : 4;
	char label[4];

	dname_from_text(name, v4 ? "in-addr.arpa." : "ip6.arpa.");
	for (unsigned bit = 0; bit < bits; bit += width) {
		unsigned byte = addr->bytes[bit / 8];
		int len =
		    v4 ? snprintf(label, sizeof label, "%u", byte)
		       : snprintf(label, sizeof label, "%x", bit % 8 == 0 ? byte >> 4 : byte & 15);

		dname_prepend(name, label, (size_t)len);
	}
}

void
reverse_name(const struct addr *addr, struct dname *name)
{
	reverse_name_prefix(addr, (unsigned)addr_len(addr) * 8, name);
}

/* --- negative TTLs --- */

enum {
	SERVICE_LABELS = 3, /* <service>.<namespace>.svc */
	ENDPOINT_LABELS =
	    4, /* one label more, for an endpoint, a protocol, or a federation's Service */
	PORT_LABELS = 5, /* _http._tcp.<service>.<namespace>.svc */
	SLICES_MAX = 64,
	POD_LABELS = 3, /* <address>.<namespace>.pod */
};

/* Returns the kind of negative answer for a name below `svc`. */
static enum denial
below_svc(const struct answer_config *config, const struct name *name, unsigned below,
    const struct resolved *resolved)
{
	const uint8_t *first = name->wire + name->offsets[0];
	const struct node *service = resolved->service;

	if (below > PORT_LABELS)
		return DENIAL_NEVER;
	if (below == PORT_LABELS && (first[1] != '_' || name->wire[name->offsets[1] + 1] != '_'))
		return DENIAL_NEVER;
	if (service != NULL &&
	    (service->flags & NODE_HEADLESS || service_without_ready_endpoints(config, service)))
		return DENIAL_SOON;
	return DENIAL_USUAL;
}

enum denial
denial_of(const struct answer_config *config, const struct tree *tree, const struct name *name,
    unsigned below, const struct resolved *resolved)
{
	const uint8_t *top = name->wire + name->offsets[below - 1];

	/* `top` is the label directly before the zone's name: svc, pod, dns or dns-version. */
	if (memcmp(top, "\3svc", 4) == 0)
		return below_svc(config, name, below, resolved);
	if (memcmp(top, "\3pod", 4) == 0)
		return below > POD_LABELS ? DENIAL_NEVER : DENIAL_USUAL;
	return resolved->node == tree->root ? DENIAL_UNLIKELY : DENIAL_NEVER;
}
