#include "kubedns/answer/zone_walk.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/own_names.h"
#include "kubedns/answer/reply.h"
#include "kubedns/answer/zone_lookup.h"
#include "lib/reply_walk.h"
#include "lib/xalloc.h"
#include "treecache/srv_weight.h"

enum {
	PORT_LISTS_MAX = 16, /* of one endpoint name that are looked at for doubles */
};

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

static void
put_name(struct writer *w, const char *first, const struct dname *rest)
{
	writer_put8(w, (unsigned)strlen(first));
	writer_put(w, first, strlen(first));
	writer_put(w, rest->wire, rest->len);
}

size_t
zone_soa(const struct answer_config *config, size_t index, uint32_t serial, uint8_t *rdata)
{
	struct writer w = { .buf = rdata, .max = SOA_RDATA_MAX };
	bool external = zone_is_external(config, index);
	const struct dname *zone = external ? zone_name(config, index) : &config->zone;
	struct dname dns = *zone;

	if (external && config->external->primary != NULL) {
		writer_put(&w, config->external->primary->wire, config->external->primary->len);
	} else {
		dname_prepend(&dns, "dns", 3); /* the options leave room */
		put_name(&w, "ns", &dns);
	}
	put_name(&w, "hostmaster", zone);
	writer_put32(&w, serial);
	writer_put32(&w, SOA_REFRESH_S);
	writer_put32(&w, SOA_RETRY_S);
	writer_put32(&w, SOA_EXPIRE_S);
	writer_put32(&w, config->negative_ttl_s);
	return w.len;
}

/* --- records --- */

static void
put(struct zone_walk *walk, const struct dname *owner, uint32_t ttl_s, uint16_t type,
    const void *rdata, size_t len)
{
	const struct zone_record record = { owner, ttl_s, type, (uint16_t)len, rdata };

	if (walk->stopped)
		return;
	if (walk->own == NULL || own_names_find(walk->own, owner->wire, owner->len) == NULL)
		walk->stopped = !walk->take(walk->arg, &record);
	else if (walk->hidden != NULL)
		walk->hidden(walk->hidden_arg, &record);
}

/* A record as in a message: its owner is a pointer of two bytes. */
static void
put_wire(struct zone_walk *walk, const struct dname *owner, const uint8_t *record)
{
	put(walk, owner, wire_get32(record + 6), wire_get16(record + 2), record + 12,
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

static void
put_addr(struct zone_walk *walk, const struct dname *owner, const struct endpoint_ref *ref)
{
	bool v4 = ref->slice->family == AF_INET;

	put(walk, owner, walk->config->ttl_s, v4 ? TYPE_A : TYPE_AAAA,
	    slice_addr(ref->slice, ref->i), v4 ? 4 : 16);
}

/* The records of this type at `owner`, as a client would get them. */
static void
put_answers(struct zone_walk *walk, const struct dname *owner, uint16_t type)
{
	uint8_t query[512];
	struct answer_info info;
	struct reply_walk reply;
	size_t len = query_write(query, sizeof query, 1, owner->wire, type, CLASS_IN, 0);
	const struct answer_request request = { .config = walk->config,
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

/* --- endpoint sets --- */

static void
put_srv(struct zone_walk *walk, const struct dname *owner, uint64_t pairs, uint16_t number,
    const struct dname *target)
{
	uint8_t rdata[6 + DNAME_MAX];

	wire_put16(rdata, 0);
	wire_put16(rdata + 2, srv_weight(pairs));
	wire_put16(rdata + 4, number);
	memcpy(rdata + 6, target->wire, target->len);
	put(walk, owner, walk->config->ttl_s, TYPE_SRV, rdata, 6u + target->len);
}

/* The ports of all endpoints of one name. */
struct port_lists {
	const struct ports *lists[PORT_LISTS_MAX];
	unsigned count;
};

/* Whether port `at` of list `list` is the first with its number, and label if that matters. */
static bool
port_is_first(const struct port_lists *ports, unsigned list, unsigned at, bool of_label)
{
	const struct port *port = &ports->lists[list]->items[at];

	for (unsigned l = 0; l <= list; l++)
		for (unsigned i = 0; i < (l < list ? ports->lists[l]->count : at); i++) {
			const struct port *other = &ports->lists[l]->items[i];
			if (other->number == port->number &&
			    (!of_label ||
				(memcmp(other->name, port->name, 1u + port->name[0]) == 0 &&
				    memcmp(other->proto, port->proto, 1u + port->proto[0]) == 0)))
				return false;
		}
	return true;
}

/* The SRV records that the endpoints of one name add: at the Service's own name, and at its ports'
 * names. */
static void
put_srvs(struct zone_walk *walk, const struct dname *service, const struct endpoint_set *endpoints,
    const struct port_lists *ports, unsigned list, const struct dname *endpoint)
{
	for (unsigned at = 0; at < ports->lists[list]->count; at++) {
		const struct port *port = &ports->lists[list]->items[at];
		struct dname owner = *service;
		if (port->number == 0)
			continue;
		if (port_is_first(ports, list, at, false))
			put_srv(
			    walk, &owner, endpoint_set_pairs(endpoints, 0), port->number, endpoint);
		if (port->name[0] == 0 || !port_is_first(ports, list, at, true) ||
		    dname_prepend(&owner, port->proto + 1, port->proto[0]) < 0 ||
		    dname_prepend(&owner, port->name + 1, port->name[0]) < 0)
			continue;
		put_srv(walk, &owner,
		    endpoint_set_pairs(
			endpoints, port_label(walk->plain.seed, port->name, port->proto)),
		    port->number, endpoint);
	}
}

static void
add_list(struct port_lists *lists, const struct ports *ports)
{
	for (unsigned i = 0; i < lists->count; i++)
		if (lists->lists[i] == ports)
			return;
	if (lists->count < PORT_LISTS_MAX)
		lists->lists[lists->count++] = ports;
}

static bool
same_addr(const struct endpoint_ref *a, const struct endpoint_ref *b)
{
	return a->slice->family == b->slice->family &&
	       memcmp(slice_addr(a->slice, a->i), slice_addr(b->slice, b->i),
		   a->slice->family == AF_INET ? 4 : 16) == 0;
}

/* An endpoint, which may share its name with others, or be in two slices: each record is put for the
 * first that has it. */
static void
put_endpoint(struct zone_walk *walk, const struct dname *service,
    const struct endpoint_set *endpoints, const struct endpoint_ref *self)
{
	uint8_t derived[LABEL_ROOM] = { 0 };
	struct resolved resolved = { .kind = RESOLVED_ENDPOINT };
	struct resolved_walk same;
	struct endpoint_ref ref;
	struct port_lists ports = { .count = 0 };
	bool first_of_name = false, first_of_addr = false, any = false;
	struct dname name;

	if (endpoint_name(&name, walk->config, self->slice, self->i) < 0)
		return;
	/* A slice's label need not be padded as those of a query are. */
	memcpy(derived, name.wire, 1u + name.wire[0]);
	if (!resolve_endpoint(&walk->plain, endpoints, derived, &resolved))
		return;
	resolved_endpoints(&same, &walk->plain, &resolved);
	while (resolved_next(&same, &ref)) {
		bool is_self = ref.slice == self->slice && ref.i == self->i;
		if (!any)
			first_of_name = is_self;
		any = true;
		if (first_of_name) {
			add_list(&ports, ref.slice->ports);
			first_of_addr = true;
		} else if (same_addr(&ref, self)) {
			first_of_addr = is_self;
			break;
		}
	}
	if (first_of_addr)
		put_addr(walk, &name, self);
	if (first_of_name)
		put_answers(walk, &name, TYPE_SRV);
	for (unsigned i = 0; (endpoints->flags & ENDPOINTS_APEX) != 0 && i < ports.count; i++)
		put_srvs(walk, service, endpoints, &ports, i, &name);
}

static void
put_endpoint_set(
    struct zone_walk *walk, const struct dname *service, const struct endpoint_set *endpoints)
{
	for (unsigned c = 0; c < endpoints->count && !walk->stopped; c++) {
		struct endpoint_ref ref = { .slice = endpoints->slices[c].slice };
		for (unsigned i = 0; i < ref.slice->published && !walk->stopped; i++) {
			ref.i = i;
			put_endpoint(walk, service, endpoints, &ref);
			if ((endpoints->flags & ENDPOINTS_APEX) != 0 && i < ref.slice->unique)
				put_addr(walk, service, &ref);
		}
	}
}

/* --- our zone --- */

void
zone_walk_node(struct zone_walk *walk, const struct node *node, const struct dname *name)
{
	const struct rrset *set = NULL;

	while ((set = node_rrset_next(node, set)) != NULL)
		put_rrset(walk, name, set);
	if (node->endpoints != NULL)
		put_endpoint_set(walk, name, node->endpoints);
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

void
zone_walk_addr(struct zone_walk *walk, size_t index, const struct addr *addr)
{
	const struct reverse_zone *zone = &walk->config->reverse_zones[index - 1];
	struct dname owner;

	if (answer_reverse_zone(walk->config, addr, (unsigned)addr_len(addr) * 8) != zone)
		return;
	reverse_name(addr, &owner);
	put_answers(walk, &owner, TYPE_PTR);
}

static void
walk_reverse(struct zone_walk *walk, size_t index)
{
	const struct reverse_zone *zone = &walk->config->reverse_zones[index - 1];
	struct addr addr = zone->prefix;
	const struct rrset *ns = node_rrset(walk->plain.root, TYPE_NS);

	if (ns != NULL)
		put_rrset(walk, &zone->name, ns);
	while (!walk->stopped && reverse_seek(&walk->plain, &addr) &&
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

	walk->own = context == NULL ? NULL : context->hosts;
	walk->plain = *walk->tree;
	walk->plain.context = NULL;
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
	uint32_t serial = external ? walk->external->serial : walk->tree->serial;
	size_t len = zone_soa(walk->config, index, serial, soa);
	const struct zone_record first = { zone, walk->config->ttl_s, TYPE_SOA, (uint16_t)len,
		soa };
	const struct own_names *own = walk->own;

	if (external)
		walk->own = NULL;
	walk->stopped = !walk->take(walk->arg, &first);
	if (external) {
		walk_external(walk, zone);
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
