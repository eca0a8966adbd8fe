#include <assert.h>
#include <string.h>

#include "kubedns/answer/view.h"
#include "kubedns/answer/wildcard.h"
#include "lib/hash.h"

enum { NAMES_REMEMBERED = 256 };

struct match {
	const struct answer_config *config;
	const struct tree *tree;
	const struct name *pattern;
	unsigned below; /* number of labels of the pattern before the zone's name */
	bool (*visit)(void *arg, const struct resolved *resolved);
	void *arg;
	unsigned tried;
	bool any, stop;
};

/* One label of a name that may match the pattern. `node` is the node of the name from this label on. */
struct step {
	struct match *match;
	const struct step *above;
	const struct node *node; /* NULL if the name is not a node of the tree */
	unsigned left;           /* number of labels of the pattern that are not matched yet */
	const uint8_t *label;    /* the label of this step */
};

static bool
is_star(const uint8_t *label)
{
	return label[0] == 1 && label[1] == '*';
}

bool
wildcard_in(const struct name *name, unsigned below)
{
	for (unsigned i = 0; i < below; i++)
		if (is_star(name->wire + name->offsets[i]))
			return true;
	return false;
}

static void descend(const struct step *above);

/* Called when all labels are matched. Resolves the name like the name of any other query. */
static void
complete(const struct step *last)
{
	struct match *m = last->match;
	uint8_t wire[DNAME_MAX];
	struct name_buf buf;
	struct resolved resolved;
	size_t at = 0;

	for (const struct step *s = last; s->label != NULL; s = s->above) {
		if (at + 1u + *s->label + m->config->zone.len > DNAME_MAX)
			return;
		memcpy(wire + at, s->label, 1u + *s->label);
		at += 1u + *s->label;
	}
	memcpy(wire + at, m->config->zone.wire, m->config->zone.len);
	struct name name = name_copy(&buf, wire, at + m->config->zone.len);
	resolve(m->config, m->tree, &name, m->below, NULL, &resolved);
	if (resolved.kind == RESOLVED_NOTHING)
		return;
	m->any = true;
	m->stop = !m->visit(m->arg, &resolved);
}

/* Counts work that takes as long as trying `names` names. */
static void
spend(struct match *match, size_t names)
{
	match->tried += (unsigned)names;
	if (match->tried > WILDCARD_NAMES_MAX)
		match->stop = true;
}

static void
try_label(const struct step *above, const uint8_t *label, const struct node *node)
{
	struct step step = { above->match, above, node, above->left - 1, label };

	spend(above->match, 1);
	if (above->match->stop)
		return;
	if (step.left == 0)
		complete(&step);
	else
		descend(&step);
}

/* Returns whether this child of `svc` or of a namespace is hidden from the client. Hidden names must not count as names that were tried. */
static bool
is_hidden(const struct step *above, const struct node *child)
{
	const struct match *m = above->match;
	unsigned depth = m->below - above->left;
	const struct step *top = depth == 2 ? above->above : above;

	if (depth < 1 || depth > 2 || top->label == NULL || memcmp(top->label, "\3svc", 4) != 0)
		return false;
	return depth == 1 ? !view_sees(m->tree, child) && (child->flags & NODE_OPEN) == 0
			  : !view_sees_service(m->tree, above->node, child);
}

static bool
try_child(void *arg, const struct node *child)
{
	const struct step *above = arg;

	if (!view_limited(above->match->tree) || !is_hidden(above, child))
		try_label(above, child->label, child);
	return !above->match->stop;
}

/* Returns whether an earlier slice of the set has ports with this label. Each label is therefore tried once. Each slice that it examines
 * counts against WILDCARD_NAMES_MAX. */
static bool
label_seen(
    struct match *match, const struct endpoint_set *endpoints, unsigned until, uint64_t label)
{
	unsigned count;

	spend(match, until);
	for (unsigned c = 0; c < until && !match->stop; c++)
		if (ports_numbers(endpoints->slices[c].slice->ports, label, &count) != NULL)
			return true;
	return false;
}

/* Tries the labels below a headless Service that are not nodes of the tree. If `proto` is true, these are its protocols, otherwise its
 * ports of the protocol above. */
static void
try_endpoint_set(const struct step *above, const struct endpoint_set *endpoints, bool proto)
{
	for (unsigned c = 0; c < endpoints->count && !above->match->stop; c++) {
		const struct ports *ports = endpoints->slices[c].slice->ports;

		if (c > 0 && ports == endpoints->slices[c - 1].slice->ports)
			continue; /* nearly all slices of a Service have the same ports */
		spend(above->match, ports->label_count / 16);
		for (size_t l = 0; l < ports->label_count && !above->match->stop; l++) {
			const struct port_label *of = &ports->labels[l];
			const struct port *port = &ports->items[of->item];
			bool wanted =
			    of->unnamed == proto &&
			    (proto || memcmp(port->proto, above->label, 1u + *port->proto) == 0);

			if (wanted && !label_seen(above->match, endpoints, c, of->label))
				try_label(above, proto ? port->proto : port->name, NULL);
		}
	}
}

/* If several endpoints share a name, the first one finds all of them, so trying each would take quadratic time. A table has hashes of
 * the last names that were tried. Newer names overwrite older ones, so a name may be tried again. A second try costs time and adds no
 * record. */
static bool
name_tried(uint64_t tried[NAMES_REMEMBERED], uint64_t seed, const uint8_t *label)
{
	uint64_t hash = hash64(seed, label, 1u + *label), *place = &tried[hash % NAMES_REMEMBERED];
	bool known = *place == hash;

	*place = hash;
	return known;
}

static void
try_endpoints(const struct step *above, const struct endpoint_set *endpoints)
{
	uint64_t tried[NAMES_REMEMBERED] = { 0 };
	unsigned known = 0;

	for (unsigned c = 0; c < endpoints->count && !above->match->stop; c++) {
		const struct slice_endpoints *slice = endpoints->slices[c].slice;

		for (unsigned i = 0; i < slice->unique && !above->match->stop; i++) {
			uint8_t derived[1 + DNAME_LABEL_MAX + 8];
			struct addr addr = { .family = slice->family };
			const uint8_t *label = slice_name(slice, i);

			memcpy(addr.bytes, slice_addr(slice, i), addr_len(&addr));
			if (label == NULL)
				label = tree_addr_label(&addr, derived);
			if (!name_tried(tried, above->match->tree->seed, label))
				try_label(above, label, NULL);
			else if (++known % 16 == 0)
				spend(above->match, 1);
		}
	}
}

static const struct endpoint_set *
endpoint_set_above(const struct step *step)
{
	while (step->node == NULL) {
		step = step->above;
		assert(step != NULL); /* the first step of the walk is at a node */
	}
	return step->node->endpoints;
}

/* Continues with the next label of the pattern. If the label is `*`, continues with every child. */
static void
descend(const struct step *above)
{
	const struct match *m = above->match;
	uint8_t label[1 + DNAME_LABEL_MAX + 8] = { 0 };
	const uint8_t *wanted = m->pattern->wire + m->pattern->offsets[above->left - 1];
	const struct endpoint_set *endpoints = endpoint_set_above(above);
	const struct node *child = NULL;
	/* a copy, because the argument of tree_children_until() is not const */
	struct step here = *above;

	if (!is_star(wanted)) {
		memcpy(label, wanted, 1u + *wanted);
		if (above->node != NULL)
			child = tree_child(m->tree, above->node, label);
		/* A search below a hidden name would find nothing, and the time of that search would reveal the name. */
		if (child != NULL && view_limited(m->tree) && is_hidden(above, child))
			child = NULL;
		try_label(above, label, child);
		return;
	}
	if (above->node != NULL)
		tree_children_until(above->node, try_child, &here);
	if (endpoints == NULL)
		return;
	if (above->left == 1 && above->node != NULL)
		try_endpoints(above, endpoints);
	if (endpoints->flags & ENDPOINTS_APEX)
		try_endpoint_set(above, endpoints, above->node != NULL);
}

bool
wildcard_each(const struct answer_config *config, const struct tree *tree, const struct name *name,
    unsigned below, bool (*visit)(void *arg, const struct resolved *resolved), void *arg)
{
	struct match match = { config, tree, name, below, visit, arg, 0, false, false };
	struct step root = { &match, NULL, tree->root, below, NULL };

	descend(&root);
	return match.any;
}
