/* Endpoint sets as records of a zone: addresses, endpoint names and SRV, each once. */
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/reply.h"
#include "kubedns/answer/zone_lookup.h"
#include "kubedns/answer/zone_walk_internal.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/hash.h"
#include "lib/xalloc.h"

enum {
	PORT_LISTS_MAX = 16,     /* of one endpoint name that are looked at for doubles */
	NUMBERS_BYTES = 1 << 13, /* a bit for each port number */
};

/* What is put of an endpoint set. */
struct put {
	struct zone_walk *walk;
	const struct endpoint_set *endpoints;
	const struct dname *parent; /* of its endpoints' names */
	bool names;                 /* the records at these */
	/* Or NULL: the name at which, and below which by ports, SRV records lead to the endpoints. */
	const struct dname *service;
	unsigned weight; /* of these records */
};

static void
put_addr(struct zone_walk *walk, const struct dname *owner, const struct endpoint_ref *ref)
{
	bool v4 = ref->slice->family == AF_INET;

	zone_walk_put(walk, owner, walk->config->ttl_s, v4 ? TYPE_A : TYPE_AAAA,
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
	zone_walk_put(walk, owner, walk->config->ttl_s, TYPE_SRV, rdata, 6u + target->len);
}

/* --- at the Service's own name, and at its ports' --- */

/* The ports of all endpoints of one name. */
struct port_lists {
	const struct ports *lists[PORT_LISTS_MAX];
	unsigned count;
};

/* Whether one of the lists before this one has the number under the label. */
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

/* The SRV records of these numbers of one label (0: all) that no list before has. */
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

/* The SRV records that the endpoints of one name add. */
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

/* --- the endpoints of one name --- */

/* An endpoint; of a list of them each has the same name. */
struct named {
	uint64_t hash; /* of the name */
	struct endpoint_ref ref;
	uint32_t place; /* in the set */
};

/* An endpoint name's SRV records: each distinct port number once, with the name itself as target. */
static void
put_own_srvs(
    const struct put *put, const struct named *same, size_t count, const struct dname *name)
{
	uint8_t *seen = memset(put->walk->room, 0, NUMBERS_BYTES); /* a bit for each number */
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

/* The records of a name and the SRV records that lead to it. `same`: its endpoints, by place; their order
 * is not kept. */
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

/* --- sets --- */

/* Whether another endpoint of the set may have the name of this one. */
static bool
may_share(const struct endpoint_set *endpoints, const struct slice_endpoints *slice, unsigned i)
{
	bool doubles = endpoints->published > endpoints->total4 + endpoints->total6;

	return endpoints->dashed > 0 ||
	       (slice_name(slice, i) != NULL ? !slice_names_unique(slice) : doubles);
}

static int
by_name(const void *a, const void *b)
{
	const struct named *na = a, *nb = b;

	if (na->hash != nb->hash)
		return na->hash < nb->hash ? -1 : 1;
	return (na->place > nb->place) - (na->place < nb->place);
}

/* Puts what `count` endpoints have, in the order of their names' hashes: two names in a cluster with
 * one hash of 64 bits are not expected. */
static void
put_shared(const struct put *put, struct named *all, size_t count)
{
	if (count > 1)
		qsort(all, count, sizeof *all, by_name);
	for (size_t i = 0, end; i < count && !put->walk->stopped; i = end) {
		for (end = i + 1; end < count && all[end].hash == all[i].hash;)
			end++;
		put_name(put, all + i, end - i);
	}
}

/* Names that several endpoints may have are put after the others, each once. To look for a name's other
 * endpoints at each of them would take the square of their number. */
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

/* The distinct addresses of a set. */
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

void
zone_walk_put_endpoints(
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

void
zone_walk_put_import(struct zone_walk *walk, const struct dname *name, const struct node *node)
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
