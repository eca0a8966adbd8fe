/* The reverse stage answers names below in-addr.arpa and ip6.arpa. It answers PTR queries for addresses in the cluster, and queries for
 * all names in our reverse zones. */
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/stage.h"
#include "kubedns/answer/view.h"
#include "kubedns/answer/zones.h"
#include "lib/own_frame.h"

enum {
	PTR_SORT_MAX = 128,
	/* With --visibility: the number of an address's entries that one query skips because its client may not see them. Anybody who
	 * writes EndpointSlices can give an address any number of entries. Without this limit, the time of a query would grow with that
	 * number, and would reveal how many hidden entries there are. */
	HIDDEN_MAX = 256,
};

/* 10/8, 172.16/12, 192.168/16 (RFC 1918) and fc00::/7 (RFC 4193). */
static bool
is_private(const struct addr *addr, unsigned bits)
{
	const uint8_t *b = addr->bytes;

	if (addr->family == AF_INET6)
		return bits >= 8 && (b[0] & 0xfe) == 0xfc;
	return (bits >= 8 && b[0] == 10) || (bits >= 16 && b[0] == 172 && (b[1] & 0xf0) == 16) ||
	       (bits >= 16 && b[0] == 192 && b[1] == 168);
}

/* A walk over the entries of an address that the client may see. */
struct seen_walk {
	struct reverse_walk all;
	const struct owner *owner; /* owner of the last entry */
	/* Whether the client may see that owner. The result is kept because a Service may have many slices. */
	bool sees;
	unsigned hidden; /* number of entries skipped */
};

static void
find_seen(struct seen_walk *walk, const struct tree *tree, const struct addr *addr)
{
	reverse_find(&walk->all, tree, addr);
	walk->owner = NULL;
	walk->hidden = 0;
}

/* Returns the next entry that the client may see. Returns false if there are no more entries, or if too many hidden entries come before
 * the next one. */
static bool
next_seen(struct seen_walk *walk, struct reverse_ref *ref)
{
	while (reverse_next(&walk->all, ref)) {
		if (ref->owner != walk->owner) {
			walk->owner = ref->owner;
			walk->sees = view_sees_owner(walk->all.tree, ref->owner);
		}
		if (walk->sees)
			return true;
		if (walk->hidden++ == HIDDEN_MAX)
			return false;
	}
	return false;
}

struct ptrs {
	struct reply *reply;
	size_t owner; /* offset of the address's name in the message */
	struct dname names[PTR_SORT_MAX];
	unsigned count;
};

static int
by_name(const void *a, const void *b)
{
	const struct dname *na = a, *nb = b;

	return dname_compare(na->wire, nb->wire);
}

static void
ptrs_flush(struct ptrs *ptrs)
{
	struct reply *reply = ptrs->reply;
	unsigned before = reply->counts[SECTION_ANSWER];

	qsort(ptrs->names, ptrs->count, sizeof *ptrs->names, by_name);
	for (unsigned i = 0; i < ptrs->count && !reply->full; i++)
		reply_record(reply, ptrs->owner, TYPE_PTR, reply->config->ttl_s,
		    ptrs->names[i].wire, ptrs->names[i].len);
	reply->work_left -= WORK_PTR * (int)(ptrs->count + before - reply->counts[SECTION_ANSWER]);
	ptrs->count = 0;
}

/* PTR records are sorted in batches. If an address has more owners than one batch holds, only the records of each batch are in order. */
static struct dname *
ptrs_next(struct ptrs *ptrs)
{
	if (ptrs->count == PTR_SORT_MAX)
		ptrs_flush(ptrs);
	return &ptrs->names[ptrs->count];
}

static void
ptr_owner(struct ptrs *ptrs, const struct owner *owner)
{
	struct dname *name = ptrs_next(ptrs);

	name->len = owner->len;
	memcpy(name->wire, owner->name, owner->len);
	ptrs->count += dname_append(name, ptrs->reply->config->zone.wire) == 0;
}

static void
ptr_endpoints(struct ptrs *ptrs, const struct slice_endpoints *slice, const struct addr *addr)
{
	for (unsigned i = 0; reply_goes_on(ptrs->reply) &&
			     (i = slice_next_ptr(slice, i, addr->bytes)) < slice->published;
	     i++) {
		struct dname *name = ptrs_next(ptrs);

		if (endpoint_name(name, ptrs->reply->config, slice, i) == 0)
			ptrs->count++;
		else
			ptrs->reply->work_left -= WORK_SLICE;
	}
}

/* Starts to write PTR records. Until ptrs_end(), records that the reply already has are left out. `ptrs` and `table` are too large to
 * be cleared for each query, so only the necessary parts are set. */
static void
ptrs_begin(struct ptrs *ptrs, struct record_table *table, struct reply *reply, size_t owner)
{
	ptrs->reply = reply;
	ptrs->owner = owner;
	ptrs->count = 0;
	table->mask = 0;
	reply->table = table;
	reply->dedup = true;
}

static void
ptrs_end(struct ptrs *ptrs)
{
	ptrs_flush(ptrs);
	ptrs->reply->dedup = false;
	ptrs->reply->table = NULL;
}

/* Writes the PTR records of an address that is the ClusterIP of several Services or is in several slices. The buffers have 48 KB. */
OWN_FRAME static void
put_sorted_ptrs(struct reply *reply, size_t owner, const struct addr *addr, bool cluster_ip)
{
	struct ptrs ptrs;
	struct record_table table;
	struct seen_walk walk;
	struct reverse_ref ref;

	ptrs_begin(&ptrs, &table, reply, owner);
	find_seen(&walk, reply->tree, addr);
	while (
	    reply_goes_on(reply) && next_seen(&walk, &ref) && cluster_ip == (ref.slice == NULL)) {
		if (cluster_ip)
			ptr_owner(&ptrs, ref.owner);
		else
			ptr_endpoints(&ptrs, ref.slice, addr);
	}
	ptrs_end(&ptrs);
}

/* Writes the PTR records of an address that a cluster set has. */
OWN_FRAME static void
put_imported_ptrs(
    struct reply *reply, size_t owner, const struct tree *tree, const struct addr *addr)
{
	struct ptrs ptrs;
	struct record_table table;
	struct import_ptrs walk;

	ptrs_begin(&ptrs, &table, reply, owner);
	import_ptrs_find(&walk, tree, addr);
	while (reply_goes_on(reply) && import_ptrs_next(&walk, ptrs_next(&ptrs)))
		ptrs.count++;
	ptrs_end(&ptrs);
}

/* put_ptrs() for a client that may not see all entries of the address. */
OWN_FRAME static bool
put_seen_ptrs(struct reply *reply, size_t owner, const struct addr *addr, bool only_ask)
{
	struct seen_walk walk;
	struct reverse_ref first;

	find_seen(&walk, reply->tree, addr);
	if (!next_seen(&walk, &first))
		return false;
	if (!only_ask)
		put_sorted_ptrs(reply, owner, addr, first.slice == NULL);
	return true;
}

/* Writes the PTR records of an address. A ClusterIP has only PTR records of its Services. With `only_ask`, writes nothing. Returns false
 * if the address has no entries. */
static bool
put_ptrs(struct reply *reply, size_t owner, const struct addr *addr, bool only_ask)
{
	struct reverse_walk walk;
	struct reverse_ref first, next;

	if (__builtin_expect(view_limited(reply->tree), 0))
		return put_seen_ptrs(reply, owner, addr, only_ask);
	reverse_find(&walk, reply->tree, addr);
	if (!reverse_next(&walk, &first))
		return false;
	if (only_ask)
		return true;
	bool cluster_ip = first.slice == NULL;
	bool alone = !reverse_next(&walk, &next) || cluster_ip != (next.slice == NULL);
	if (!alone || (!cluster_ip && !first.slice->distinct)) {
		put_sorted_ptrs(reply, owner, addr, cluster_ip);
	} else if (cluster_ip) {
		reply_ptr(reply, owner, NULL, first.owner);
	} else { /* only one endpoint has the address */
		uint8_t derived[LABEL_ROOM];
		unsigned i = slice_find_addr(first.slice, 0, first.slice->published, addr->bytes);

		if (i < first.slice->published)
			reply_ptr(
			    reply, owner, endpoint_label(first.slice, i, derived), first.owner);
	}
	return true;
}

bool
reverse_has_below(const struct answer_config *answers, const struct tree *tree,
    const struct addr *prefix, unsigned bits)
{
	const struct reverse_config *config = reverse_config(answers);
	struct addr first = *prefix;

	/* Finding an address that this client may see could take a walk over all addresses. The answer "there is none" would sometimes
	 * be wrong. */
	if (view_limited(tree))
		return true;
	if (reverse_seek(tree, &first) && addr_in_prefix(&first, prefix, bits))
		return true;
	for (size_t i = 0; i < config->zone_count; i++)
		if (config->zones[i].bits > bits &&
		    addr_in_prefix(&config->zones[i].prefix, prefix, bits))
			return true;
	return false;
}

/* Writes the records of an address. Returns false if the address has no entries. */
static bool
put_address(struct reply *reply, size_t owner, const struct addr *addr)
{
	uint16_t qtype = reply->query->qtype;
	bool exists = put_ptrs(reply, owner, addr, qtype != TYPE_PTR);

	if (exists && qtype == TYPE_ANY)
		reply_hinfo(reply, owner);
	return exists;
}

/* Looks up, in the cluster set, an address or prefix that this cluster does not have. Sets `*exists`. Returns false if the cluster
 * set's data has not been read yet. */
OWN_FRAME static bool
find_imported(struct reply *reply, size_t owner, const struct addr *addr, unsigned bits, bool whole,
    bool *exists)
{
	const struct tree *tree = tree_current(clusterset_config(reply->config)->tree);
	uint16_t qtype = reply->query->qtype;
	struct addr first = *addr;

	if (!tree->synced)
		return false;
	*exists = reverse_seek(tree, &first) && addr_in_prefix(&first, addr, bits);
	if (*exists && whole && qtype == TYPE_PTR)
		put_imported_ptrs(reply, owner, tree, addr);
	else if (*exists && whole && qtype == TYPE_ANY)
		reply_hinfo(reply, owner);
	return true;
}

/* Returns the reply's tree with the serial of the reverse zones, for their SOA. With a cluster set, it returns a copy in `*snapshot`. */
static const struct tree *
tree_of_soa(const struct reply *reply, struct tree *snapshot)
{
	if (clusterset_config(reply->config) == NULL)
		return reply->tree;
	const struct zone_trees trees = zone_trees_now(reply->config, reply->tree);
	const struct zone any = { ZONE_REVERSE, NULL };
	*snapshot = *reply->tree;
	snapshot->serial = zone_serial(reply->config, any, &trees);
	return snapshot;
}

/* Finishes an answer without PTR records. Adds the records of a zone's apex, or the SOA for a negative answer. */
static void
finish_reverse(struct reply *reply, enum existence existence, size_t soa, bool apex, size_t owner)
{
	const struct tree *own = reply->tree;
	struct tree snapshot;

	reply->tree = tree_of_soa(reply, &snapshot);
	if (apex && reply_apex(reply, reply->query->qtype, owner))
		existence = FOUND;
	reply_existence(reply, existence, soa);
	reply->tree = own;
}

/* Answers the name of the first `bits` bits of an address. */
static enum step
answer_address(struct lookup *l, const struct addr *addr, unsigned bits)
{
	struct reply *reply = l->reply;
	const struct reverse_zone *zone = zone_of_address(reply->config, addr, bits);
	unsigned before = reply->counts[SECTION_ANSWER];
	bool whole = bits == (addr->family == AF_INET ? 32 : 128);
	bool apex = zone != NULL && bits == zone->bits;

	if (zone == NULL && reverse_config(reply->config)->cidrs_only)
		return STEP_NEXT;
	if (!reply->tree->synced) {
		if (zone == NULL && !is_private(addr, bits))
			return STEP_NEXT;
		lookup_reason(l, STAGE_reverse, REASON_NOT_SYNCED, NULL);
		reply_existence(reply, NOT_READY, 0);
		return STEP_DONE;
	}
	bool exists = whole ? put_address(reply, l->owner, addr)
			    : apex || (zone != NULL && reverse_has_below(
							   reply->config, reply->tree, addr, bits));
	if (!exists && clusterset_config(reply->config) != NULL && (whole || zone != NULL) &&
	    !find_imported(reply, l->owner, addr, bits, whole, &exists) && zone != NULL) {
		lookup_reason(l, STAGE_reverse, REASON_NOT_SYNCED, NULL);
		reply_existence(reply, NOT_READY, 0);
		return STEP_DONE;
	}
	if (zone == NULL && !exists)
		return STEP_NEXT;
	lookup_reason(l, STAGE_reverse, exists ? REASON_EXISTS : REASON_MISSING,
	    zone == NULL ? NULL : &zone->name);
	/* Outside our zones the apex is unknown, so the SOA's owner is the name itself. */
	size_t soa =
	    zone == NULL ? l->owner : zone_in_message(reply, &l->name, l->owner, &zone->name);
	bool found = reply->counts[SECTION_ANSWER] > before || reply->truncated;
	if (found)
		reply_existence(reply, FOUND, soa);
	else
		finish_reverse(reply, exists ? NODATA : NXDOMAIN, soa, apex, l->owner);
	return STEP_DONE;
}

static enum step
reverse_answer(struct lookup *l)
{
	struct reply *reply = l->reply;
	struct addr addr;
	int bits = resolve_reverse_name(&l->name, &addr);

	if (bits >= 0) {
		if (l->asked)
			l->info->system = SYSTEM_REVERSE;
		return answer_address(l, &addr, (unsigned)bits);
	}
	const struct dname *zone = reverse_zone_of_name(reply->config, &l->name);
	if (zone == NULL)
		return STEP_NEXT;
	lookup_reason(
	    l, STAGE_reverse, reply->tree->synced ? REASON_MISSING : REASON_NOT_SYNCED, zone);
	finish_reverse(reply, reply->tree->synced ? NXDOMAIN : NOT_READY,
	    zone_in_message(reply, &l->name, l->owner, zone), false, l->owner);
	return STEP_DONE;
}

static const struct reverse_config standard;

const struct stage stage_reverse = {
	.id = STAGE_reverse, .order = ORDER_OUTSIDE, .standard = &standard, .answer = reverse_answer
};
