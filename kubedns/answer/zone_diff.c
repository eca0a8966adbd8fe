#include "kubedns/answer/zone_diff.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/local_names.h"
#include "kubedns/answer/zone_lookup.h"
#include "lib/xalloc.h"

/* A record as bytes: owner, type, TTL and RDATA. */
struct packed {
	uint32_t len; /* length of `bytes` */
	uint8_t owner_len;
	uint16_t type;
	uint32_t ttl_s;
	uint8_t bytes[]; /* the owner, then the RDATA */
};

struct records {
	struct packed **items;
	size_t count, capacity;
	size_t bytes; /* size of the items */
	size_t all;   /* total size for all names so far */
};

/* Limits for the records that are compared. The first limit is for one name in one snapshot. A headless Service has a record for each
 * pair of an endpoint and a port, and 0.5 MB of EndpointSlices can have 20 million pairs. The second limit is for all names in one
 * snapshot. Above it, sending the whole zone costs less than a comparison. */
enum { RECORDS_BYTES_MAX = 32 << 20, RECORDS_BYTES_ALL_MAX = 64 << 20 };

enum { BEFORE, AFTER };

struct differ {
	const struct answer_config *config;
	struct zone_walk walks[2];
	struct records records[2];
	bool (*take)(void *arg, size_t zone, bool added, const struct zone_record *record);
	void *arg;
	size_t zone;
	/* Addresses that were added or removed. Their PTR records may have changed. */
	struct addr *addrs;
	size_t addr_count, addr_capacity;
	/* Services that may have changed. Their names in external zones may have changed too. */
	struct dname *services;
	size_t service_count, service_capacity;
	bool stopped;
};

/* --- lists of records, and their differences --- */

static bool
collect(void *arg, const struct zone_record *record)
{
	struct records *records = arg;
	size_t size = sizeof(struct packed) + record->owner->len + record->len;

	if (size > RECORDS_BYTES_MAX - records->bytes ||
	    size > RECORDS_BYTES_ALL_MAX - records->all)
		return false;
	records->bytes += size;
	records->all += size;
	struct packed *packed = xmalloc(size);
	*packed = (struct packed){ .len = (uint32_t)record->owner->len + record->len,
		.owner_len = record->owner->len,
		.type = record->type,
		.ttl_s = record->ttl_s };
	memcpy(packed->bytes, record->owner->wire, record->owner->len);
	memcpy(packed->bytes + record->owner->len, record->rdata, record->len);
	if (records->count == records->capacity) {
		records->capacity = records->capacity == 0 ? 64 : records->capacity * 2;
		records->items =
		    xreallocarray(records->items, records->capacity, sizeof *records->items);
	}
	records->items[records->count++] = packed;
	return true;
}

static int
compare(const struct packed *a, const struct packed *b)
{
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	if (a->ttl_s != b->ttl_s)
		return a->ttl_s < b->ttl_s ? -1 : 1;
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return memcmp(a->bytes, b->bytes, a->len);
}

static int
by_content(const void *a, const void *b)
{
	struct packed *const *pa = a, *const *pb = b;

	return compare(*pa, *pb);
}

static void
note_addr(struct differ *d, uint16_t type, const uint8_t *rdata)
{
	struct addr addr = { .family = type == TYPE_A ? AF_INET : AF_INET6 };

	if (reverse_config(d->config)->zone_count == 0 || (type != TYPE_A && type != TYPE_AAAA))
		return;
	memcpy(addr.bytes, rdata, addr_len(&addr));
	if (d->addr_count == d->addr_capacity) {
		d->addr_capacity = d->addr_capacity == 0 ? 64 : d->addr_capacity * 2;
		d->addrs = xreallocarray(d->addrs, d->addr_capacity, sizeof *d->addrs);
	}
	d->addrs[d->addr_count++] = addr;
}

/* If a name of the key `hosts` replaces a Service's name, a change of the Service does not change the zone. The PTR record of its
 * address does change. `arg` is the struct differ. */
static void
note_replaced(void *arg, const struct zone_record *record)
{
	note_addr(arg, record->type, record->rdata);
}

/* Returns whether addresses in the zone may have PTR records. */
static bool
has_ptrs(const struct differ *d)
{
	enum zone_kind kind = zone_at(d->config, d->zone).kind;

	return kind == ZONE_CLUSTER || kind == ZONE_CLUSTERSET;
}

static void
tell(struct differ *d, int side, const struct packed *packed)
{
	struct dname owner = { .len = packed->owner_len };
	struct zone_record record = { &owner, packed->ttl_s, packed->type,
		(uint16_t)(packed->len - packed->owner_len), packed->bytes + packed->owner_len };

	memcpy(owner.wire, packed->bytes, packed->owner_len);
	if (has_ptrs(d))
		note_addr(d, record.type, record.rdata);
	d->stopped = d->stopped || !d->take(d->arg, d->zone, side == AFTER, &record);
}

/* Reports the records that are in only one of the two lists, and empties both lists. */
static void
tell_difference(struct differ *d)
{
	struct records *b = &d->records[BEFORE], *a = &d->records[AFTER];
	bool whole = !d->walks[BEFORE].stopped && !d->walks[AFTER].stopped;

	d->stopped = d->stopped || !whole;
	for (int side = BEFORE; side <= AFTER; side++)
		if (whole && d->records[side].count > 1)
			qsort(d->records[side].items, d->records[side].count,
			    sizeof(struct packed *), by_content);
	for (size_t i = 0, j = 0; whole && (i < b->count || j < a->count);) {
		int order = i == b->count   ? 1
			    : j == a->count ? -1
					    : compare(b->items[i], a->items[j]);

		if (order < 0)
			tell(d, BEFORE, b->items[i]);
		else if (order > 0)
			tell(d, AFTER, a->items[j]);
		i += order <= 0;
		j += order >= 0;
	}
	for (int side = BEFORE; side <= AFTER; side++) {
		for (size_t i = 0; i < d->records[side].count; i++)
			free(d->records[side].items[i]);
		d->records[side].count = d->records[side].bytes = 0;
	}
}

/* Notes the Service to which a name belongs. The name is in the cluster's zone or in an external zone. */
static void
note_service(struct differ *d, const struct dname *name)
{
	unsigned below =
	    dname_labels(name->wire) - dname_labels(zone_name(d->config, d->zone)->wire);
	/* The name ends in SERVICE.NAMESPACE. In our zone, `svc` follows. */
	unsigned count = d->zone == 0 ? 3 : 2;
	const uint8_t *p = name->wire;
	struct dname service = { .len = 0 };

	if (external_config(d->config) == NULL || !external_config(d->config)->headless ||
	    below < count)
		return;
	for (; below > count; below--)
		p += 1 + *p;
	service.len = (uint8_t)(2u + p[0] + 1u + p[1 + p[0]]);
	memcpy(service.wire, p, service.len - 1u);
	if (d->service_count == d->service_capacity) {
		d->service_capacity = d->service_capacity == 0 ? 64 : d->service_capacity * 2;
		d->services = xreallocarray(d->services, d->service_capacity, sizeof *d->services);
	}
	d->services[d->service_count++] = service;
}

/* --- comparison of the trees --- */

struct below {
	struct differ *differ;
	const struct dname *parent;
};

static bool
is_hidden(const struct differ *d, const struct node *node)
{
	return node == NULL || (d->zone == 0 && service_without_ready_endpoints(d->config, node));
}

/* Notes the addresses of a name that does not exist. Such a name has no records, but its addresses may have PTR records. */
static void
note_hidden(struct differ *d, int side, const struct node *node, const struct dname *name)
{
	struct records *records = &d->records[side];

	if (node == NULL)
		return;
	zone_walk_node(&d->walks[side], node, name);
	for (size_t i = 0; i < records->count; i++) {
		const struct packed *packed = records->items[i];

		note_addr(d, packed->type, packed->bytes + packed->owner_len);
		free(records->items[i]);
	}
	records->count = records->bytes = 0;
	d->stopped = d->stopped || d->walks[side].stopped;
}

static void diff_children(struct differ *d, const struct node *before, const struct node *after,
    const struct dname *name);

static void
diff_nodes(
    struct differ *d, const struct node *before, const struct node *after, const struct dname *name)
{
	if (before->records != after->records || before->endpoints != after->endpoints) {
		zone_walk_node(&d->walks[BEFORE], before, name);
		zone_walk_node(&d->walks[AFTER], after, name);
		tell_difference(d);
		note_service(d, name);
	}
	diff_children(d, before, after, name);
}

static void
diff_child(void *arg, const struct node *before, const struct node *after)
{
	const struct below *below = arg;
	struct differ *d = below->differ;
	const struct node *either = before != NULL ? before : after;
	struct dname name = *below->parent;
	bool was = !is_hidden(d, before), is = !is_hidden(d, after);

	if (d->stopped || dname_prepend(&name, either->label + 1, either->label[0]) < 0)
		return;
	if (!was)
		note_hidden(d, BEFORE, before, &name);
	if (!is)
		note_hidden(d, AFTER, after, &name);
	if (!was && !is)
		return;
	if (d->zone > 0 && zone_index(d->config, name.wire) >= 0)
		return; /* a zone inside another zone is compared separately */
	if (was && is) {
		diff_nodes(d, before, after, &name);
	} else {
		static const struct node none;

		diff_nodes(d, was ? before : &none, is ? after : &none, &name);
	}
}

static void
diff_children(
    struct differ *d, const struct node *before, const struct node *after, const struct dname *name)
{
	struct below below = { d, name };

	tree_diff_children(before, after, diff_child, &below);
}

/* --- reverse zones --- */

static int
by_addr(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct addr));
}

static void
diff_reverse(struct differ *d)
{
	const struct answer_config *config = d->config;

	if (d->addr_count > 1)
		qsort(d->addrs, d->addr_count, sizeof *d->addrs, by_addr);
	for (size_t i = 0; i < d->addr_count && !d->stopped; i++) {
		const struct addr *addr = &d->addrs[i];
		const struct reverse_zone *zone =
		    zone_of_address(config, addr, (unsigned)addr_len(addr) * 8);

		if (zone == NULL || (i > 0 && addr_equal(addr, addr - 1)))
			continue;
		d->zone = 1 + (size_t)(zone - reverse_config(config)->zones);
		for (int side = BEFORE; side <= AFTER; side++)
			zone_walk_addr(&d->walks[side], d->zone, addr);
		tell_difference(d);
	}
}

/* --- data that any name may depend on --- */

static const struct local_names *
local_names(const struct tree *tree)
{
	const struct answer_context *context = tree->context;

	return context == NULL ? NULL : context->names;
}

static bool
same_local_names(const struct local_names *a, const struct local_names *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return a->size == b->size && memcmp(a, b, a->size) == 0;
}

static bool
same_ns(const struct tree *before, const struct tree *after)
{
	const struct rrset *a = node_rrset(before->root, TYPE_NS),
			   *b = node_rrset(after->root, TYPE_NS);

	if (a == NULL || b == NULL)
		return a == b;
	return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* --- headless Services in external zones --- */

static int
by_name(const void *a, const void *b)
{
	const struct dname *na = a, *nb = b;

	return dname_compare(na->wire, nb->wire);
}

static void
diff_headless(struct differ *d)
{
	if (d->service_count > 1)
		qsort(d->services, d->service_count, sizeof *d->services, by_name);
	for (size_t i = 0; i < d->service_count; i++)
		for (d->zone = 0; d->zone < zone_count(d->config) && !d->stopped; d->zone++) {
			if (zone_at(d->config, d->zone).kind != ZONE_EXTERNAL ||
			    (i > 0 && by_name(&d->services[i], &d->services[i - 1]) == 0))
				continue;
			for (int side = BEFORE; side <= AFTER; side++)
				zone_walk_headless(&d->walks[side], d->zone, &d->services[i]);
			tell_difference(d);
		}
}

/* --- comparison of all zones --- */

static void
diff_external(struct differ *d, const struct zone_snapshots *snapshots)
{
	const struct local_names *own[2] = { d->walks[BEFORE].own, d->walks[AFTER].own };
	static const struct node none;

	/* External zones have no local names, as in zone_walk_zone(). */
	d->walks[BEFORE].own = d->walks[AFTER].own = NULL;
	for (size_t zone = 0; zone < zone_count(d->config); zone++) {
		const struct zone at = zone_at(d->config, zone);
		const struct dname *name = at.name;

		if (at.kind != ZONE_EXTERNAL && at.kind != ZONE_CLUSTERSET)
			continue;
		const struct node *before = tree_find(snapshots->before.external, name->wire),
				  *after = tree_find(snapshots->after.external, name->wire);
		d->zone = zone;
		diff_nodes(d, before == NULL ? &none : before, after == NULL ? &none : after, name);
	}
	diff_headless(d);
	d->walks[BEFORE].own = own[BEFORE];
	d->walks[AFTER].own = own[AFTER];
}

/* Returns whether all sources of external zones have been read in both snapshots, or in none. */
static bool
same_external_sync(const struct tree *before, const struct tree *after)
{
	return before == NULL || before->synced == after->synced;
}

bool
zone_diff(const struct answer_config *config, const struct zone_snapshots *snapshots,
    bool (*take)(void *arg, size_t zone, bool added, const struct zone_record *record), void *arg)
{
	struct differ d = { .config = config, .take = take, .arg = arg };

	const struct tree *before = snapshots->before.tree, *after = snapshots->after.tree;

	if (!before->synced || !same_local_names(local_names(before), local_names(after)) ||
	    !same_ns(before, after) ||
	    !same_external_sync(snapshots->before.external, snapshots->after.external))
		return false;
	for (int side = BEFORE; side <= AFTER; side++) {
		d.walks[side] = (struct zone_walk){ .config = config,
			.trees = side == BEFORE ? snapshots->before : snapshots->after,
			.take = collect,
			.arg = &d.records[side],
			.hidden = note_replaced,
			.hidden_arg = &d };
		zone_walk_begin(&d.walks[side]);
	}
	diff_nodes(&d, before->root, after->root, &config->zone);
	if (snapshots->before.external != NULL)
		diff_external(&d, snapshots);
	diff_reverse(&d);
	for (int side = BEFORE; side <= AFTER; side++) {
		zone_walk_end(&d.walks[side]);
		free(d.records[side].items);
	}
	free(d.addrs);
	free(d.services);
	return !d.stopped;
}
