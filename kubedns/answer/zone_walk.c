#include "kubedns/answer/zone_walk_internal.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/own_names.h"
#include "kubedns/answer/reply.h"
#include "kubedns/answer/soa.h"
#include "kubedns/answer/zone_lookup.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/reply_walk.h"
#include "lib/xalloc.h"

/* --- the zones --- */

size_t
zone_count(const struct answer_config *config)
{
	size_t external = config->external == NULL ? 0 : config->external->zone_count;

	return 1 + config->reverse_zone_count + external;
}

bool
zone_is_external(const struct answer_config *config, size_t index)
{
	return index > config->reverse_zone_count;
}

const struct dname *
zone_name(const struct answer_config *config, size_t index)
{
	if (zone_is_external(config, index))
		return &config->external->zones[index - 1 - config->reverse_zone_count];
	return index == 0 ? &config->zone : &config->reverse_zones[index - 1].name;
}

int
zone_index(const struct answer_config *config, const uint8_t *name)
{
	for (size_t i = 0; i < zone_count(config); i++)
		if (dname_equal(name, zone_name(config, i)->wire))
			return (int)i;
	return -1;
}

uint32_t
zone_serial(const struct answer_config *config, size_t index, const struct tree *tree,
    const struct tree *external)
{
	return zone_is_external(config, index) ? external_serial(config->external, tree, external)
	       : index > 0                     ? reverse_serial(config->external, tree, external)
					       : tree->serial;
}

bool
zone_is_synced(const struct answer_config *config, size_t index, const struct tree *tree,
    const struct tree *external)
{
	bool imports = config->external != NULL && config->external->clusterset != NULL;

	return (zone_is_external(config, index) || tree->synced) &&
	       (index == 0 || (!zone_is_external(config, index) && !imports) ||
		   (external != NULL && external->synced));
}

size_t
zone_soa(const struct answer_config *config, size_t index, uint32_t serial, uint8_t *rdata)
{
	bool external = zone_is_external(config, index);
	const struct dname *zone = external ? zone_name(config, index) : &config->zone;
	const struct soa soa = { .zone = zone,
		.primary = external ? external_primary(config->external, zone) : NULL,
		.serial = serial,
		.minimum_s = config->negative_ttl_s };

	return soa_write(&soa, rdata);
}

/* --- records --- */

void
zone_walk_put(struct zone_walk *walk, const struct dname *owner, uint32_t ttl_s, uint16_t type,
    const void *rdata, size_t len)
{
	const struct zone_record record = { owner, ttl_s, type, (uint16_t)len, rdata };

	if (walk->stopped)
		return;
	if (walk->headless != NULL)
		zone_walk_put_headless(walk, &record);
	else if (walk->own == NULL || own_names_find(walk->own, owner->wire, owner->len) == NULL)
		walk->stopped = !walk->take(walk->arg, &record);
	else if (walk->hidden != NULL)
		walk->hidden(walk->hidden_arg, &record);
}

/* A record as in a message: its owner is a pointer of two bytes. */
static void
put_wire(struct zone_walk *walk, const struct dname *owner, const uint8_t *record)
{
	zone_walk_put(walk, owner, wire_get32(record + 6), wire_get16(record + 2), record + 12,
	    wire_get16(record + 10));
}

static void
put_rrset(struct zone_walk *walk, const struct dname *owner, const struct rrset *set)
{
	const uint8_t *record = set->data;

	for (unsigned i = 0; i < set->count; i++) {
		put_wire(walk, owner, record);
		record += 12 + wire_get16(record + 10);
	}
}

void
zone_walk_put_answers(struct zone_walk *walk, const struct dname *owner, uint16_t type)
{
	uint8_t query[512];
	struct answer_info info;
	struct reply_walk reply;
	size_t len = query_write(query, sizeof query, 1, owner->wire, type, CLASS_IN, 0);
	const struct answer_request request = { .config = &walk->alone,
		.tree = &walk->plain,
		.query = query,
		.query_len = len,
		.out = walk->room,
		.max = DNS_TCP_MAX,
		.tcp = true };

	if (walk->stopped)
		return;
	answer(&request, &info);
	if (!reply_walk_begin(&reply, walk->room, info.len))
		return;
	while (reply.left[WALK_ANSWER] > 0 && reply_walk_next(&reply) > 0)
		put_wire(walk, owner, walk->room + reply.record.offset);
}

/* --- our zone --- */

void
zone_walk_node(struct zone_walk *walk, const struct node *node, const struct dname *name)
{
	const struct rrset *set = NULL;

	while ((set = node_rrset_next(node, set)) != NULL)
		put_rrset(walk, name, set);
	if (node->flags & (NODE_IMPORT | NODE_IMPORT_CLUSTER))
		zone_walk_put_import(walk, name, node);
	else if (node->endpoints != NULL)
		zone_walk_put_endpoints(walk, name, node->endpoints);
}

struct below {
	struct zone_walk *walk;
	const struct dname *parent;
};

static void
walk_child(void *arg, const struct node *node)
{
	const struct below *below = arg;
	struct dname name = *below->parent;

	if (below->walk->stopped || service_without_ready_endpoints(below->walk->config, node) ||
	    dname_prepend(&name, node->label + 1, node->label[0]) < 0)
		return;
	zone_walk_node(below->walk, node, &name);
	zone_walk_below(below->walk, node, &name);
}

void
zone_walk_below(struct zone_walk *walk, const struct node *node, const struct dname *name)
{
	struct below below = { walk, name };

	tree_children(node, walk_child, &below);
}

/* --- reverse zones: the PTRs of each known address in the prefix --- */

static int
by_name(const void *a, const void *b)
{
	const struct dname *na = a, *nb = b;

	return dname_compare(na->wire, nb->wire);
}

/* The PTRs of an address that only a cluster set has. */
static void
put_imported_ptrs(struct zone_walk *walk, const struct dname *owner, const struct addr *addr)
{
	struct dname *names = NULL, name;
	size_t count = 0, room = 0;
	struct import_ptrs ptrs;

	import_ptrs_find(&ptrs, walk->external, addr);
	while (import_ptrs_next(&ptrs, &name)) {
		if (count == room) {
			room = room == 0 ? 4 : room * 2;
			names = xreallocarray(names, room, sizeof *names);
		}
		names[count++] = name;
	}
	if (count > 1)
		qsort(names, count, sizeof *names, by_name);
	for (size_t i = 0; i < count; i++)
		if (i == 0 || by_name(&names[i - 1], &names[i]) != 0)
			zone_walk_put(walk, owner, walk->config->ttl_s, TYPE_PTR, names[i].wire,
			    names[i].len);
	free(names);
}

/* The tree of the cluster set's addresses, or NULL. */
static const struct tree *
imports_of(const struct zone_walk *walk)
{
	const struct external_zones *zones = walk->config->external;
	bool known = zones != NULL && zones->clusterset != NULL && walk->external != NULL;

	return known && walk->external->synced ? walk->external : NULL;
}

void
zone_walk_addr(struct zone_walk *walk, size_t index, const struct addr *addr)
{
	struct addr first = *addr;
	const struct reverse_zone *zone = &walk->config->reverse_zones[index - 1];
	struct dname owner;

	if (answer_reverse_zone(walk->config, addr, (unsigned)addr_len(addr) * 8) != zone)
		return;
	reverse_name(addr, &owner);
	if (reverse_seek(&walk->plain, &first) && addr_equal(&first, addr))
		zone_walk_put_answers(walk, &owner, TYPE_PTR);
	else if (imports_of(walk) != NULL)
		put_imported_ptrs(walk, &owner, addr);
}

/* The lowest address not below `*addr` that has a PTR, of both trees; false if there is none. */
static bool
next_addr(const struct zone_walk *walk, struct addr *addr)
{
	const struct tree *imports = imports_of(walk);
	struct addr imported = *addr;
	bool found = reverse_seek(&walk->plain, addr);

	if (imports == NULL || !reverse_seek(imports, &imported))
		return found;
	if (!found || memcmp(imported.bytes, addr->bytes, addr_len(addr)) < 0)
		*addr = imported;
	return true;
}

static void
walk_reverse(struct zone_walk *walk, size_t index)
{
	const struct reverse_zone *zone = &walk->config->reverse_zones[index - 1];
	struct addr addr = zone->prefix;
	const struct rrset *ns = node_rrset(walk->plain.root, TYPE_NS);

	if (ns != NULL)
		put_rrset(walk, &zone->name, ns);
	while (!walk->stopped && next_addr(walk, &addr) &&
	       addr_in_prefix(&addr, &zone->prefix, zone->bits)) {
		zone_walk_addr(walk, index, &addr);
		if (!addr_increment(&addr))
			return;
	}
}

/* --- zones for the world outside: the records of their own tree --- */

static void
walk_external_child(void *arg, const struct node *node)
{
	const struct below *below = arg;
	struct dname name = *below->parent;
	struct below next = { below->walk, &name };

	/* A zone inside this one is a zone of its own. */
	if (below->walk->stopped || dname_prepend(&name, node->label + 1, node->label[0]) < 0 ||
	    zone_index(below->walk->config, name.wire) >= 0)
		return;
	zone_walk_node(below->walk, node, &name);
	tree_children(node, walk_external_child, &next);
}

static void
walk_external(struct zone_walk *walk, const struct dname *zone)
{
	const struct node *node = tree_find(walk->external, zone->wire);
	struct below below = { walk, zone };

	if (node == NULL)
		return;
	zone_walk_node(walk, node, zone);
	tree_children(node, walk_external_child, &below);
}

/* --- names of the key hosts, in place of the cluster's of the same name --- */

static void
walk_own(struct zone_walk *walk, const struct dname *zone)
{
	const struct own_names *names = walk->own;
	const struct own_name *own;
	uint32_t place = 0;

	walk->own = NULL; /* these are put whatever their names */
	while (names != NULL && !walk->stopped && (own = own_names_next(names, &place)) != NULL) {
		const struct rrset *set = NULL;
		struct dname owner = { .len = own->len };
		memcpy(owner.wire, own->wire, own->len);
		if (dname_in_zone(owner.wire, zone->wire) < 0)
			continue;
		while ((set = own_name_rrset_next(own, set)) != NULL)
			put_rrset(walk, &owner, set);
	}
	walk->own = names;
}

/* --- the whole --- */

void
zone_walk_begin(struct zone_walk *walk)
{
	const struct answer_context *context = walk->tree->context;

	walk->own = context == NULL ? NULL : context->names;
	walk->plain = *walk->tree;
	walk->plain.context = NULL;
	walk->headless = NULL;
	walk->alone = *walk->config;
	walk->alone.external = NULL;
	walk->room = xmalloc(DNS_TCP_MAX);
	walk->stopped = false;
}

void
zone_walk_end(struct zone_walk *walk)
{
	free(walk->room);
	walk->room = NULL;
}

bool
zone_walk_zone(struct zone_walk *walk, size_t index)
{
	const struct dname *zone = zone_name(walk->config, index);
	uint8_t soa[SOA_RDATA_MAX];
	bool external = zone_is_external(walk->config, index);
	uint32_t serial = zone_serial(walk->config, index, walk->tree, walk->external);
	size_t len = zone_soa(walk->config, index, serial, soa);
	const struct zone_record first = { zone, walk->config->ttl_s, TYPE_SOA, (uint16_t)len,
		soa };
	const struct own_names *own = walk->own;

	if (external)
		walk->own = NULL;
	walk->stopped = !walk->take(walk->arg, &first);
	if (external) {
		walk_external(walk, zone);
		zone_walk_all_headless(walk, index);
	} else if (index > 0) {
		walk_reverse(walk, index);
	} else {
		zone_walk_node(walk, walk->plain.root, zone);
		zone_walk_below(walk, walk->plain.root, zone);
	}
	walk_own(walk, zone);
	walk->own = own;
	return !walk->stopped;
}
