#include "kubedns/answer/zone_walk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/local_names.h"
#include "kubedns/answer/reply.h"
#include "kubedns/answer/zone_lookup.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/hash.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

/* --- declarations for the sections below --- */

static void put_headless_record(struct zone_walk *walk, const struct zone_record *record);
static void put_endpoints(
    struct zone_walk *walk, const struct dname *service, const struct endpoint_set *endpoints);
static void put_import(struct zone_walk *walk, const struct dname *name, const struct node *node);

/* --- records --- */

static void
put_record(struct zone_walk *walk, const struct dname *owner, uint32_t ttl_s, uint16_t type,
    const void *rdata, size_t len)
{
	const struct zone_record record = { owner, ttl_s, type, (uint16_t)len, rdata };

	if (walk->stopped)
		return;
	if (walk->headless != NULL)
		put_headless_record(walk, &record);
	else if (walk->own == NULL || local_names_find(walk->own, owner->wire, owner->len) == NULL)
		walk->stopped = !walk->take(walk->arg, &record);
	else if (walk->hidden != NULL)
		walk->hidden(walk->hidden_arg, &record);
}

/* Reports a record that has the form of a record in a message. The owner in such a record is a pointer of two bytes. */
static void
put_wire(struct zone_walk *walk, const struct dname *owner, const uint8_t *record)
{
	put_record(walk, owner, wire_get32(record + 6), wire_get16(record + 2), record + 12,
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

/* --- our zone --- */

void
zone_walk_node(struct zone_walk *walk, const struct node *node, const struct dname *name)
{
	const struct rrset *set = NULL;

	while ((set = node_rrset_next(node, set)) != NULL)
		put_rrset(walk, name, set);
	if (node->flags & (NODE_IMPORT | NODE_IMPORT_CLUSTER))
		put_import(walk, name, node);
	else if (node->endpoints != NULL)
		put_endpoints(walk, name, node->endpoints);
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

/* --- reverse zones: the PTR records of each known address in the prefix --- */

static int
by_name(const void *a, const void *b)
{
	const struct dname *na = a, *nb = b;

	return dname_compare(na->wire, nb->wire);
}

/* The names of one address's PTRs. Names may be in the list more than once until ptr_list_sort(). */
struct ptr_list {
	struct dname *names;
	size_t count, capacity, bytes; /* `bytes` is the size of the records with these names */
};

/* The walk reports no more PTR records of an address than a TCP answer can hold, because an address may be in any number of slices. */
enum { PTR_BYTES_MAX = DNS_TCP_MAX, PTR_HEAD = 12 };

/* Sorts the names and removes duplicates. */
static void
ptr_list_sort(struct ptr_list *list)
{
	size_t kept = 0;

	if (list->count > 1)
		qsort(list->names, list->count, sizeof *list->names, by_name);
	list->bytes = 0;
	for (size_t i = 0; i < list->count; i++) {
		if (kept > 0 && by_name(&list->names[kept - 1], &list->names[i]) == 0)
			continue;
		list->bytes += PTR_HEAD + list->names[i].len;
		list->names[kept++] = list->names[i];
	}
	list->count = kept;
}

/* Adds a name. Returns false if the list already has more names than an answer can hold. The list is sorted each time it has grown by
 * the size of an answer. Many slices with the same name therefore cost little. */
static bool
add_ptr(struct ptr_list *list, const struct dname *name)
{
	if (list->bytes > 2 * PTR_BYTES_MAX) {
		ptr_list_sort(list);
		if (list->bytes > PTR_BYTES_MAX)
			return false;
	}
	list->bytes += PTR_HEAD + name->len;
	if (list->count == list->capacity) {
		list->capacity = list->capacity == 0 ? 4 : list->capacity * 2;
		list->names = xreallocarray(list->names, list->capacity, sizeof *list->names);
	}
	list->names[list->count++] = *name;
	return true;
}

/* Reports a PTR record for each name, as many as an answer can hold, and frees the list. */
static void
put_ptrs(struct zone_walk *walk, const struct dname *owner, struct ptr_list *list)
{
	const struct dname *names = list->names;
	size_t bytes = 0;

	ptr_list_sort(list);
	assert(list->count == 0 || names != NULL);
	for (size_t i = 0; i < list->count; i++) {
		bytes += PTR_HEAD + names[i].len;
		if (bytes > PTR_BYTES_MAX)
			break;
		put_record(walk, owner, walk->config->ttl_s, TYPE_PTR, names[i].wire, names[i].len);
	}
	free(list->names);
}

/* Reports the PTR records of an address that only a cluster set has. */
static void
put_imported_ptrs(struct zone_walk *walk, const struct dname *owner, const struct addr *addr)
{
	struct ptr_list list = { NULL, 0, 0, 0 };
	struct import_ptrs ptrs;
	struct dname name;

	import_ptrs_find(&ptrs, walk->trees.external, addr);
	while (import_ptrs_next(&ptrs, &name) && add_ptr(&list, &name))
		;
	put_ptrs(walk, owner, &list);
}

static bool
add_slice_ptrs(const struct zone_walk *walk, struct ptr_list *list,
    const struct slice_endpoints *slice, const struct addr *addr)
{
	struct dname name;

	for (unsigned i = 0; (i = slice_next_ptr(slice, i, addr->bytes)) < slice->published; i++)
		if (endpoint_name(&name, walk->config, slice, i) == 0 && !add_ptr(list, &name))
			return false;
	return true;
}

/* Reports the PTR records of an address that the cluster has. A ClusterIP has only PTR records of its Services, as in answers
 * (reverse_stage.c). */
static void
put_cluster_ptrs(struct zone_walk *walk, const struct dname *owner, const struct addr *addr)
{
	struct ptr_list list = { NULL, 0, 0, 0 };
	struct reverse_walk all;
	struct reverse_ref ref;
	bool more = true;

	reverse_find(&all, &walk->plain, addr);
	for (bool first = true, cluster_ip = false; more && reverse_next(&all, &ref);
	     first = false) {
		if (first)
			cluster_ip = ref.slice == NULL;
		else if (cluster_ip != (ref.slice == NULL))
			break;
		struct dname name = { .len = ref.owner->len };
		memcpy(name.wire, ref.owner->name, ref.owner->len);
		if (ref.slice != NULL)
			more = add_slice_ptrs(walk, &list, ref.slice, addr);
		else if (dname_append(&name, walk->config->zone.wire) == 0)
			more = add_ptr(&list, &name);
	}
	put_ptrs(walk, owner, &list);
}

/* Returns the tree with the addresses of the cluster set, or NULL. */
static const struct tree *
imports_of(const struct zone_walk *walk)
{
	bool known = clusterset_config(walk->config) != NULL && walk->trees.external != NULL;

	return known && walk->trees.external->synced ? walk->trees.external : NULL;
}

void
zone_walk_addr(struct zone_walk *walk, size_t index, const struct addr *addr)
{
	struct addr first = *addr;
	const struct reverse_zone *zone = &reverse_config(walk->config)->zones[index - 1];
	struct dname owner;

	if (zone_of_address(walk->config, addr, (unsigned)addr_len(addr) * 8) != zone)
		return;
	reverse_name(addr, &owner);
	if (reverse_seek(&walk->plain, &first) && addr_equal(&first, addr))
		put_cluster_ptrs(walk, &owner, addr);
	else if (imports_of(walk) != NULL)
		put_imported_ptrs(walk, &owner, addr);
}

/* Finds the lowest address with a PTR record, in both trees, that is not below `*addr`. Returns false if there is none. */
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
	const struct reverse_zone *zone = &reverse_config(walk->config)->zones[index - 1];
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

/* --- external zones: the records in their own tree --- */

static void
walk_external_child(void *arg, const struct node *node)
{
	const struct below *below = arg;
	struct dname name = *below->parent;
	struct below next = { below->walk, &name };

	/* If a zone is inside another zone, it has its own walk. */
	if (below->walk->stopped || dname_prepend(&name, node->label + 1, node->label[0]) < 0 ||
	    zone_index(below->walk->config, name.wire) >= 0)
		return;
	zone_walk_node(below->walk, node, &name);
	tree_children(node, walk_external_child, &next);
}

static void
walk_external(struct zone_walk *walk, const struct dname *zone)
{
	const struct node *node = tree_find(walk->trees.external, zone->wire);
	struct below below = { walk, zone };

	if (node == NULL)
		return;
	zone_walk_node(walk, node, zone);
	tree_children(node, walk_external_child, &below);
}

/* --- names of the key `hosts`, which replace the cluster's names --- */

static void
walk_own(struct zone_walk *walk, const struct dname *zone)
{
	const struct local_names *names = walk->own;
	const struct own_name *own;
	uint32_t place = 0;

	walk->own = NULL; /* local names replace other names, so no name is skipped here */
	while (names != NULL && !walk->stopped && (own = local_names_next(names, &place)) != NULL) {
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

/* --- records of endpoint sets: addresses, names of endpoints, and SRV --- */

enum {
	/* The number of port lists of one endpoint name that are searched for duplicates. */
	PORT_LISTS_MAX = 16,
	/* One bit for each port number. */
	NUMBERS_BYTES = 1 << 13,
};

/* The records to report for an endpoint set. */
struct put {
	struct zone_walk *walk;
	const struct endpoint_set *endpoints;
	const struct dname *parent; /* parent of the names of its endpoints */
	bool names;                 /* true if records are reported at the names of endpoints */
	/* The name of the Service, or NULL if there are no SRV records. The Service's name and the names of its ports have SRV records. */
	const struct dname *service;
	unsigned weight; /* weight of the SRV records */
};

static void
put_addr(struct zone_walk *walk, const struct dname *owner, const struct endpoint_ref *ref)
{
	bool v4 = ref->slice->family == AF_INET;

	put_record(walk, owner, walk->config->ttl_s, v4 ? TYPE_A : TYPE_AAAA,
	    slice_addr(ref->slice, ref->i), v4 ? 4 : 16);
}

static void
put_srv(struct zone_walk *walk, const struct dname *owner, unsigned weight, uint16_t number,
    const struct dname *target)
{
	uint8_t rdata[6 + DNAME_MAX];

	wire_put16(rdata, 0);
	wire_put16(rdata + 2, weight);
	wire_put16(rdata + 4, number);
	memcpy(rdata + 6, target->wire, target->len);
	put_record(walk, owner, walk->config->ttl_s, TYPE_SRV, rdata, 6u + target->len);
}

/* --- SRV records of the Service's name and its ports --- */

/* The port lists of all endpoints with one name. */
struct port_lists {
	const struct ports *lists[PORT_LISTS_MAX];
	unsigned count;
};

/* Returns whether an earlier list has this number for this label. */
static bool
is_in_others(const struct port_lists *ports, unsigned list, uint64_t label, uint16_t number)
{
	for (unsigned l = 0; l < list; l++) {
		unsigned low = 0, count, high;
		const uint16_t *numbers = ports_numbers(ports->lists[l], label, &count);

		for (high = count; low < high;) {
			unsigned middle = (low + high) / 2;

			if (numbers[middle] < number)
				low = middle + 1;
			else
				high = middle;
		}
		if (low < count && numbers[low] == number)
			return true;
	}
	return false;
}

/* Reports the SRV records for the port numbers of one label. 0 means all labels. Skips numbers that an earlier list has. */
static void
put_numbers(const struct put *put, const struct port_lists *ports, unsigned list, uint64_t label,
    const struct dname *owner, const struct dname *target)
{
	unsigned count;
	const uint16_t *numbers = ports_numbers(ports->lists[list], label, &count);

	for (unsigned i = 0; i < count && !put->walk->stopped; i++)
		if (!is_in_others(ports, list, label, numbers[i]))
			put_srv(put->walk, owner, put->weight, numbers[i], target);
}

/* Reports the SRV records for the endpoints of one name and one port list. */
static void
put_srvs(const struct put *put, const struct port_lists *lists, unsigned list,
    const struct dname *target)
{
	const struct ports *ports = lists->lists[list];

	put_numbers(put, lists, list, 0, put->service, target);
	for (uint32_t i = 0; i < ports->label_count && !put->walk->stopped; i++) {
		const struct port *port = &ports->items[ports->labels[i].item];
		struct dname owner = *put->service;

		if (ports->labels[i].unnamed ||
		    dname_prepend(&owner, port->proto + 1, port->proto[0]) < 0 ||
		    dname_prepend(&owner, port->name + 1, port->name[0]) < 0)
			continue;
		put_numbers(put, lists, list, ports->labels[i].label, &owner, target);
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

/* --- endpoints with the same name --- */

/* An endpoint in a list of endpoints. */
struct named {
	uint64_t hash; /* hash of the endpoint's name */
	struct endpoint_ref ref;
	uint32_t place; /* position of the endpoint in the set */
};

/* Reports the SRV records at an endpoint's name: one for each port number, with the name itself as the target. */
static void
put_own_srvs(
    const struct put *put, const struct named *same, size_t count, const struct dname *name)
{
	/* one bit for each port number */
	uint8_t *seen = memset(put->walk->capacity, 0, NUMBERS_BYTES);
	const struct ports *last = NULL;

	for (size_t n = 0; n < count && !put->walk->stopped; n++) {
		const struct ports *ports = same[n].ref.slice->ports;

		for (unsigned i = 0; ports != last && i < ports->number_count; i++) {
			uint16_t number = ports->numbers[i];
			uint8_t bit = (uint8_t)(1 << number % 8);

			if ((seen[number / 8] & bit) == 0)
				put_srv(put->walk, name, 100, number, name);
			seen[number / 8] |= bit;
		}
		last = ports;
	}
}

static int
by_addr(const void *a, const void *b)
{
	const struct endpoint_ref *ra = &((const struct named *)a)->ref,
				  *rb = &((const struct named *)b)->ref;
	int order =
	    (ra->slice->family > rb->slice->family) - (ra->slice->family < rb->slice->family);

	return order != 0 ? order
			  : memcmp(slice_addr(ra->slice, ra->i), slice_addr(rb->slice, rb->i),
				ra->slice->family == AF_INET ? 4 : 16);
}

/* Reports the records at a name, and the SRV records that point to it. `same` has the endpoints with this name, ordered by their
 * position in the set. put_name() changes that order. */
static void
put_name(const struct put *put, struct named *same, size_t count)
{
	uint8_t derived[LABEL_ROOM];
	const uint8_t *label = endpoint_label(same->ref.slice, same->ref.i, derived);
	struct port_lists ports = { .count = 0 };
	struct dname name = *put->parent;

	if (dname_prepend(&name, label + 1, *label) < 0)
		return;
	for (size_t i = 0; put->service != NULL && i < count; i++)
		add_list(&ports, same[i].ref.slice->ports);
	for (unsigned i = 0; i < ports.count; i++)
		put_srvs(put, &ports, i, &name);
	if (!put->names)
		return;
	put_own_srvs(put, same, count, &name);
	if (count > 1)
		qsort(same, count, sizeof *same, by_addr);
	for (size_t i = 0; i < count && !put->walk->stopped; i++)
		if (i == 0 || by_addr(&same[i - 1], &same[i]) != 0)
			put_addr(put->walk, &name, &same[i].ref);
}

/* --- endpoint sets --- */

/* Returns whether another endpoint of the set may have the same name. */
static bool
may_share(const struct endpoint_set *endpoints, const struct slice_endpoints *slice, unsigned i)
{
	bool doubles = endpoints->published > endpoints->total4 + endpoints->total6;

	return endpoints->dashed > 0 ||
	       (slice_name(slice, i) != NULL ? !slice_names_unique(slice) : doubles);
}

static int
by_hash(const void *a, const void *b)
{
	const struct named *na = a, *nb = b;

	if (na->hash != nb->hash)
		return na->hash < nb->hash ? -1 : 1;
	return (na->place > nb->place) - (na->place < nb->place);
}

/* Reports the records of `count` endpoints, grouped by the hash of their names. Two names of one cluster are not expected to have the
 * same 64-bit hash. */
static void
put_shared(const struct put *put, struct named *all, size_t count)
{
	if (count > 1)
		qsort(all, count, sizeof *all, by_hash);
	for (size_t i = 0, end; i < count && !put->walk->stopped; i = end) {
		for (end = i + 1; end < count && all[end].hash == all[i].hash;)
			end++;
		put_name(put, all + i, end - i);
	}
}

/* Reports the records of an endpoint set. Names that several endpoints may share come last, and each of them is reported once. A search
 * of all endpoints for each of these names would take quadratic time. */
static void
put_set(const struct put *put)
{
	const struct endpoint_set *endpoints = put->endpoints;
	struct named *shared = NULL;
	size_t count = 0;

	for (unsigned c = 0; c < endpoints->count && !put->walk->stopped; c++) {
		struct named one = { .ref.slice = endpoints->slices[c].slice };

		for (unsigned i = 0; i < one.ref.slice->published && !put->walk->stopped; i++) {
			one.ref.i = i;
			if (!may_share(endpoints, one.ref.slice, i)) {
				put_name(put, &one, 1);
				continue;
			}
			uint8_t derived[LABEL_ROOM];
			const uint8_t *label = endpoint_label(one.ref.slice, i, derived);
			if (shared == NULL)
				shared = xcalloc(endpoints->published, sizeof *shared);
			one.hash = hash64(put->walk->plain.seed, label, 1u + *label);
			one.place = (uint32_t)count;
			shared[count++] = one;
		}
	}
	put_shared(put, shared, count);
	free(shared);
}

/* Reports the distinct addresses of a set. */
static void
put_addrs(struct zone_walk *walk, const struct dname *owner, const struct endpoint_set *endpoints)
{
	for (unsigned c = 0; c < endpoints->count && !walk->stopped; c++) {
		struct endpoint_ref ref = { .slice = endpoints->slices[c].slice };

		for (unsigned i = 0; i < ref.slice->unique && !walk->stopped; i++) {
			ref.i = i;
			put_addr(walk, owner, &ref);
		}
	}
}

static void
put_endpoints(
    struct zone_walk *walk, const struct dname *service, const struct endpoint_set *endpoints)
{
	bool apex = (endpoints->flags & ENDPOINTS_APEX) != 0;
	const struct put put = { walk, endpoints, service, true, apex ? service : NULL,
		endpoint_set_weight(endpoints) };

	put_set(&put);
	if (apex)
		put_addrs(walk, service, endpoints);
}

/* --- headless imports --- */

static bool
put_cluster(void *arg, const struct node *node)
{
	struct put put = *(const struct put *)arg;
	struct dname cluster = *put.service;

	if ((node->flags & NODE_IMPORT_CLUSTER) == 0 ||
	    dname_prepend(&cluster, node->label + 1, node->label[0]) < 0)
		return true;
	put.endpoints = node->endpoints;
	put.parent = &cluster;
	put_set(&put);
	return !put.walk->stopped;
}

static void
put_import(struct zone_walk *walk, const struct dname *name, const struct node *node)
{
	bool cluster = node->flags & NODE_IMPORT_CLUSTER;
	struct put put = { walk, node->endpoints, name, cluster, cluster ? NULL : name,
		endpoint_set_weight(node->endpoints) };

	if (cluster) {
		put_set(&put);
		return;
	}
	put_addrs(walk, name, node->endpoints);
	tree_children_until(node, put_cluster, &put);
}

/* --- --external-headless --- */

/* --external-headless: `[HOST.|_PORT._PROTO.]SERVICE.NAMESPACE` of an external zone has the records of
 * `[HOST.|_PORT._PROTO.]SERVICE.NAMESPACE.svc` in our zone, unless the external zone has records at that name. This walk makes the
 * records of our zone, and put_headless_record() renames them. */
static const uint8_t svc[8 + 8] = "\3svc"; /* tree_child() reads up to 7 bytes after the label */

struct headless {
	struct dname from, to; /* the Service's name in our zone and in the external zone */
	const struct dname *zone;
};

/* Makes the name in the external zone for a name of the Service or below it. Returns false if it would be too long. */
static bool
rename(const struct headless *headless, const struct dname *name, struct dname *renamed)
{
	size_t own = (size_t)name->len - headless->from.len;

	if (own + headless->to.len > DNAME_MAX)
		return false;
	memcpy(renamed->wire, name->wire, own);
	memcpy(renamed->wire + own, headless->to.wire, headless->to.len);
	renamed->len = (uint8_t)(own + headless->to.len);
	return true;
}

/* Returns whether the name already has other records. Such a name is in the cluster's zone, is in a zone inside this zone, or has
 * records in the tree of external zones. The external stage uses the same order. */
static bool
is_taken(const struct zone_walk *walk, const struct dname *owner)
{
	struct name_buf buf;

	const struct name name = name_copy(&buf, owner->wire, owner->len);
	if (name_below(&name, &walk->config->zone) >= 0 ||
	    external_zone_of(walk->config, &name).name != walk->headless->zone)
		return true;
	struct external_name found =
	    external_lookup(walk->trees.external, &name, walk->headless->zone);
	return found.node != NULL && !found.wildcard && found.node->records != NULL;
}

static void
put_headless_record(struct zone_walk *walk, const struct zone_record *record)
{
	struct zone_record renamed = *record;
	struct dname owner, before, target;
	uint8_t srv[6 + DNAME_MAX];

	if (!rename(walk->headless, record->owner, &owner) || is_taken(walk, &owner))
		return;
	renamed.owner = &owner;
	if (record->type == TYPE_SRV) {
		before.len = (uint8_t)(record->len - 6);
		memcpy(before.wire, record->rdata + 6, before.len);
		if (!rename(walk->headless, &before, &target))
			return;
		memcpy(srv, record->rdata, 6);
		memcpy(srv + 6, target.wire, target.len);
		renamed.rdata = srv;
		renamed.len = (uint16_t)(6 + target.len);
	}
	walk->stopped = !walk->take(walk->arg, &renamed);
}

static void
put_service(
    struct zone_walk *walk, size_t index, const struct dname *service, const struct node *node)
{
	const struct dname *zone = zone_name(walk->config, index);
	struct headless headless = { .from = *service, .to = *service, .zone = zone };

	if (walk->stopped || node->endpoints == NULL ||
	    (node->endpoints->flags & ENDPOINTS_APEX) == 0 ||
	    dname_append(&headless.from, svc) < 0 ||
	    dname_append(&headless.from, walk->config->zone.wire) < 0 ||
	    dname_append(&headless.to, zone->wire) < 0)
		return;
	walk->headless = &headless;
	put_endpoints(walk, &headless.from, node->endpoints);
	walk->headless = NULL;
}

static bool
has_headless(const struct zone_walk *walk, size_t index)
{
	return zone_at(walk->config, index).kind == ZONE_EXTERNAL &&
	       external_config(walk->config)->headless && walk->trees.tree->synced &&
	       walk->trees.external != NULL;
}

void
zone_walk_headless(struct zone_walk *walk, size_t index, const struct dname *service)
{
	struct dname below = *service;

	if (!has_headless(walk, index) || dname_append(&below, svc) < 0)
		return;
	const struct node *node = tree_find(&walk->plain, below.wire);
	if (node != NULL)
		put_service(walk, index, service, node);
}

/* --- all headless Services --- */

struct place {
	struct zone_walk *walk;
	size_t index;
	struct dname name; /* name of the namespace, or of the root */
};

static void
walk_service(void *arg, const struct node *node)
{
	const struct place *place = arg;
	struct dname name = place->name;

	if (dname_prepend(&name, node->label + 1, node->label[0]) == 0)
		put_service(place->walk, place->index, &name, node);
}

static void
walk_namespace(void *arg, const struct node *node)
{
	const struct place *place = arg;
	struct place inside = *place;

	if (dname_prepend(&inside.name, node->label + 1, node->label[0]) == 0)
		tree_children(node, walk_service, &inside);
}

static void
put_all_headless(struct zone_walk *walk, size_t index)
{
	struct place place = { walk, index, { .len = 1 } };
	const struct node *node =
	    has_headless(walk, index) ? tree_child(&walk->plain, walk->plain.root, svc) : NULL;

	if (node != NULL)
		tree_children(node, walk_namespace, &place);
}

/* --- whole zones --- */

void
zone_walk_begin(struct zone_walk *walk)
{
	const struct answer_context *context = walk->trees.tree->context;

	walk->own = context == NULL ? NULL : context->names;
	walk->plain = *walk->trees.tree;
	walk->plain.context = NULL;
	walk->headless = NULL;
	walk->capacity = xmalloc(DNS_TCP_MAX);
	walk->stopped = false;
}

void
zone_walk_end(struct zone_walk *walk)
{
	free(walk->capacity);
	walk->capacity = NULL;
}

bool
zone_walk_zone(struct zone_walk *walk, size_t index)
{
	const struct zone zone = zone_at(walk->config, index);
	uint8_t soa[SOA_RDATA_MAX];
	uint32_t serial = zone_serial(walk->config, zone, &walk->trees);
	size_t len = zone_soa(walk->config, zone, serial, soa);
	const struct zone_record first = { zone.name, walk->config->ttl_s, TYPE_SOA, (uint16_t)len,
		soa };
	const struct local_names *own = walk->own;

	walk->stopped = !walk->take(walk->arg, &first);
	switch (zone.kind) {
	case ZONE_EXTERNAL:
	case ZONE_CLUSTERSET:
		walk->own = NULL; /* local names are not in these zones */
		walk_external(walk, zone.name);
		put_all_headless(walk, index);
		walk->own = own;
		break;
	case ZONE_REVERSE:
		walk_reverse(walk, index);
		walk_own(walk, zone.name);
		break;
	case ZONE_CLUSTER:
		zone_walk_node(walk, walk->plain.root, zone.name);
		zone_walk_below(walk, walk->plain.root, zone.name);
		walk_own(walk, zone.name);
		break;
	case ZONE_NONE:
		break;
	}
	return !walk->stopped;
}
