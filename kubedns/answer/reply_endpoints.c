/* Writes records of endpoints: addresses, SRV and PTR records, and the additional section. */
#include <errno.h>
#include <string.h>

#include "kubedns/answer/nearest.h"
#include "kubedns/answer/record.h"
#include "lib/own_frame.h"

/* --- names below the zone --- */

/* Returns the length of the name that has `label`, `owner` and the zone, in this order. `label` may be NULL. Returns 0 if the name is
 * too long. */
static size_t
zone_name_size(const struct answer_config *config, const uint8_t *label, const struct owner *owner)
{
	size_t len = (label == NULL ? 0 : 1u + *label) + owner->len - 1u + config->zone.len;

	return len <= DNAME_MAX ? len : 0;
}

/* Writes the name whose length zone_name_size() returns. */
static void
zone_name_put(
    uint8_t *p, const struct answer_config *config, const uint8_t *label, const struct owner *owner)
{
	if (label != NULL) {
		memcpy(p, label, 1u + *label);
		p += 1u + *label;
	}
	memcpy(p, owner->name, owner->len - 1u);
	memcpy(p + owner->len - 1, config->zone.wire, config->zone.len);
}

/* --- endpoints near the client --- */

static void
count_one(uint64_t *counter)
{
	__atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

static void
count_answer(const struct reply *reply, enum near first)
{
	if (reply->thread != NULL && reply->thread->nearest != NULL)
		count_one(&reply->thread->nearest[first]);
}

/* For --nearest: counts the endpoints in each class of nearness. In `*nearest`, `family`, `doubles`, `by_port` and `port_label` must be
 * set. Returns the number of classes that the answer has, beginning with NEAR_NODE. Returns 0 if the client's place is unknown or the
 * flag is not set. The set is then answered as without the flag. Counts the answer in the metrics. */
static unsigned
nearest_classes(
    const struct reply *reply, const struct endpoint_set *endpoints, struct nearest *nearest)
{
	const struct endpoint_choice *choice = reply->config->choice;
	struct client_place place;

	if (choice == NULL || !choice->nearest)
		return 0;
	place = nearest_place(choice, reply->tree);
	nearest->endpoints = endpoints;
	nearest->node = place.node;
	nearest->zone = place.zone;
	if ((place.node == 0 && place.zone == 0) || endpoints->count > NEAREST_SLICES) {
		count_answer(reply, NEAR_UNKNOWN);
		return 0;
	}
	nearest_count(nearest);
	count_answer(reply, nearest->counts[NEAR_NODE] > 0   ? NEAR_NODE
			    : nearest->counts[NEAR_ZONE] > 0 ? NEAR_ZONE
							     : NEAR_FAR);
	return choice->nearest_only && nearest_is_ready(nearest) ? NEAR_FAR : NEAR_CLASSES;
}

struct put {
	struct reply *reply;
	size_t owner;
};

static bool
put_addr(void *arg, const struct slice_endpoints *slice, unsigned i)
{
	const struct put *put = arg;

	record_addr(put->reply, put->owner, slice->family, slice_addr(slice, i));
	return !put->reply->full;
}

/* Writes the addresses of an endpoint set, nearest first. Returns false if the client's place is unknown. */
static bool
put_nearest(struct reply *reply, size_t owner, const struct endpoint_set *endpoints, uint8_t family)
{
	struct nearest nearest = { .family = family };
	struct put put = { reply, owner };
	unsigned classes = nearest_classes(reply, endpoints, &nearest);

	for (unsigned k = NEAR_NODE; k < classes && !reply->full; k++)
		nearest_each(&nearest, k, reply->rotation, put_addr, &put);
	return classes > 0;
}

/* --- addresses --- */

/* Writes the unique addresses [from, to) of this family. Always inlined, because both calls are in the most common answer and a
 * function call would be slower. */
static inline __attribute__((always_inline)) void
put_endpoint_set(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    uint8_t family, uint32_t from, uint32_t to)
{
	uint32_t at = 0;

	for (unsigned c = 0; c < endpoints->count && at < to && !reply->full; c++) {
		const struct endpoint_set_slice *entry = &endpoints->slices[c];

		if (entry->family != family)
			continue;
		uint32_t first = from > at ? from - at : 0;
		uint32_t last = to - at < entry->unique ? to - at : entry->unique;
		for (uint32_t i = first; i < last && !reply->full; i++)
			record_addr(reply, owner, family, slice_addr(entry->slice, i));
		at += entry->unique;
	}
}

/* Writes the addresses with --nearest. */
OWN_FRAME static void
put_ordered(struct reply *reply, size_t owner, const struct endpoint_set *endpoints, uint8_t family,
    uint32_t total)
{
	uint32_t start = reply->rotation % total;

	if (!put_nearest(reply, owner, endpoints, family)) {
		put_endpoint_set(reply, owner, endpoints, family, start, total);
		put_endpoint_set(reply, owner, endpoints, family, 0, start);
	}
}

void
reply_endpoint_set(
    struct reply *reply, size_t owner, const struct endpoint_set *endpoints, uint8_t family)
{
	uint32_t total = family == AF_INET ? endpoints->total4 : endpoints->total6;

	if (total == 0)
		return;
	if (__builtin_expect(reply->ordered, 0)) {
		put_ordered(reply, owner, endpoints, family, total);
		return;
	}
	uint32_t start = reply->rotation % total;
	put_endpoint_set(reply, owner, endpoints, family, start, total);
	put_endpoint_set(reply, owner, endpoints, family, 0, start);
}

/* Writes the distinct addresses of a name that several endpoints have. */
OWN_FRAME static void
put_shared_endpoints(
    struct reply *reply, size_t owner, const struct resolved *resolved, uint8_t family)
{
	struct record_table table, *outer = reply->table;
	bool dedup = reply->dedup;
	const struct slice_endpoints *last = NULL;
	struct resolved_walk walk;
	struct endpoint_ref ref;

	if (outer == NULL) {
		table.mask = 0;
		reply->table = &table;
	}
	reply->dedup = true;
	resolved_endpoints(&walk, reply->tree, resolved);
	while (reply_goes_on(reply) && resolved_next(&walk, &ref)) {
		size_t before = reply->w.len;

		if (ref.slice->family == family)
			record_addr(reply, owner, family, slice_addr(ref.slice, ref.i));
		else
			resolved_skip_slice(&walk);
		if (reply->w.len == before)
			reply->work_left -= ref.slice == last ? 1 : WORK_SLICE;
		last = ref.slice;
	}
	reply->dedup = dedup;
	reply->table = outer;
}

void
reply_endpoints(struct reply *reply, size_t owner, const struct resolved *resolved, uint8_t family)
{
	const struct endpoint_ref *first = &resolved->first;

	if (resolved->label == NULL) { /* the name is an address with dashes */
		if (resolved->addr.family == family)
			record_addr(reply, owner, family, resolved->addr.bytes);
	} else if (slice_names_unique(first->slice) && resolved->addr.family == AF_UNSPEC) {
		if (first->slice->family == family)
			record_addr(reply, owner, family, slice_addr(first->slice, first->i));
	} else {
		put_shared_endpoints(reply, owner, resolved, family);
	}
}

const uint8_t *
endpoint_label(const struct slice_endpoints *slice, unsigned i, uint8_t derived[LABEL_ROOM])
{
	const uint8_t *label = slice_name(slice, i);
	struct addr addr = { .family = slice->family };

	if (label != NULL)
		return label;
	memcpy(addr.bytes, slice_addr(slice, i), addr_len(&addr));
	return tree_addr_label(&addr, derived);
}

int
endpoint_name(struct dname *name, const struct answer_config *config,
    const struct slice_endpoints *slice, unsigned i)
{
	uint8_t derived[LABEL_ROOM];
	const uint8_t *label = endpoint_label(slice, i, derived);
	size_t len = zone_name_size(config, label, slice->owner);

	if (len == 0)
		return -ENAMETOOLONG;
	zone_name_put(name->wire, config, label, slice->owner);
	name->len = (uint8_t)len;
	return 0;
}

void
reply_ptr(struct reply *reply, size_t at, const uint8_t *label, const struct owner *owner)
{
	size_t len = zone_name_size(reply->config, label, owner);
	uint8_t *p = len == 0 ? NULL : record_reserve(reply, 12 + len);

	if (p != NULL)
		zone_name_put(record_head(p, at, TYPE_PTR, reply->config->ttl_s, len),
		    reply->config, label, owner);
}

/* --- SRV records and glue --- */

/* This section writes SRV records of the endpoints of headless Services, and the addresses of targets (glue). The SRV records of a
 * Service with a ClusterIP are made when the Service changes (cluster/service_records.c). */

enum { POINTER_MAX = 0x3fff };

/* --- glue: the targets of SRV and NS records --- */

/* Registers the target at offset `target` with a name of `len` bytes. `shared` is true if other records may have the same target. */
static inline void
glue_add(struct reply *reply, size_t target, size_t len, bool shared, const struct glue *glue)
{
	if (reply->glue == NULL || target > POINTER_MAX || reply->glue_count == GLUE_MAX ||
	    (shared && !record_name_is_new(reply, target, len)))
		return;
	struct glue *last = &reply->glue[reply->glue_count++];
	*last = *glue;
	last->target = (uint16_t)target;
}

void
reply_targets(struct reply *reply, size_t owner, const struct rrset *set, const struct node *target)
{
	size_t fixed = 12 + (set->type == TYPE_SRV ? 6 : 0), at = reply->w.len + fixed;
	size_t len = 12u + wire_get16(set->data + 10) - fixed;

	reply_rrset(reply, owner, set);
	if (target != NULL && at < reply->w.len)
		glue_add(reply, at, len, reply->dedup, &(struct glue){ .node = target });
}

void
reply_target(struct reply *reply, size_t at, size_t len, const struct node *node)
{
	glue_add(reply, at, len, true, &(struct glue){ .node = node });
}

static void
put_glue(struct reply *reply, const struct glue *glue)
{
	uint8_t derived[LABEL_ROOM];
	struct resolved others;

	if (glue->node != NULL) {
		const struct rrset *set = NULL;

		while ((set = node_rrset_next(glue->node, set)) != NULL)
			if (set->type == TYPE_A || set->type == TYPE_AAAA)
				reply_rrset(reply, glue->target, set);
	} else if (glue->endpoints == NULL) {
		record_addr(
		    reply, glue->target, glue->slice->family, slice_addr(glue->slice, glue->i));
	} else if (resolve_endpoint(reply->tree, glue->endpoints,
		       endpoint_label(glue->slice, glue->i, derived), &others)) {
		reply_endpoints(reply, glue->target, &others, AF_INET);
		reply_endpoints(reply, glue->target, &others, AF_INET6);
	}
}

void
reply_glue(struct reply *reply)
{
	if (reply->truncated)
		return;
	reply->section = SECTION_ADDITIONAL;
	reply->work_left = WORK_MAX;
	for (unsigned i = 0; i < reply->glue_count && reply_goes_on(reply); i++)
		put_glue(reply, &reply->glue[i]);
}

/* --- SRV of headless Services --- */

struct srv {
	unsigned weight;
	const uint16_t *numbers; /* port numbers of the current slice */
	unsigned count;
	uint8_t tail[DNAME_MAX]; /* the end of all targets: the name of the owner and the zone */
	size_t tail_len;
};

/* Writes one record, with priority 0 and an uncompressed target (RFC 2782). srv->tail follows the first label of the target. */
static inline size_t
write_srv(uint8_t *p, const struct reply *reply, size_t owner, const struct srv *srv,
    uint16_t number, const uint8_t *label)
{
	size_t label_len = 1u + *label, len = 6 + label_len + srv->tail_len;
	uint8_t *rdata = record_head(p, owner, TYPE_SRV, reply->config->ttl_s, len);

	wire_put16(rdata, 0);
	wire_put16(rdata + 2, srv->weight);
	wire_put16(rdata + 4, number);
	memcpy(rdata + 6, label, label_len);
	memcpy(rdata + 6 + label_len, srv->tail, srv->tail_len);
	return 12 + len;
}

/* Writes the records of one endpoint, one for each port. Endpoints of the set with the same name have the same records. These records
 * are written for the first of these endpoints. */
static void
put_srv(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    const struct slice_endpoints *slice, unsigned i, const struct srv *srv)
{
	uint8_t derived[LABEL_ROOM], record[12 + 6 + DNAME_MAX];
	const uint8_t *name = slice_name(slice, i),
		      *label = name != NULL ? name : endpoint_label(slice, i, derived);
	bool doubles = endpoints->published > endpoints->total4 + endpoints->total6;
	bool shared = reply->dedup || endpoints->dashed > 0 ||
		      (name != NULL ? !slice_names_unique(slice) : doubles);
	bool target_known = false;
	size_t len = 1u + *label + srv->tail_len;
	/* Other endpoints may have the same host name. A name made from an address has only that address. */
	bool others = shared && (name != NULL || endpoints->dashed > 0);
	const struct glue glue = {
		.slice = slice, .i = (uint16_t)i, .endpoints = others ? endpoints : NULL
	};

	if (len > DNAME_MAX) {
		reply->work_left--;
		return;
	}
	size_t begin = reply->w.len;
	for (unsigned n = 0; n < srv->count && !reply->full; n++) {
		size_t before = reply->w.len;
		uint8_t *p = shared ? record : record_reserve(reply, 12 + 6 + len);

		if (p != NULL)
			write_srv(p, reply, owner, srv, srv->numbers[n], label);
		if (shared)
			record_dedup(reply, record, 12 + 6 + len);
		if (reply->w.len > before && !target_known) {
			glue_add(reply, reply->w.len - len, len, shared, &glue);
			target_known = true;
		}
	}
	if (shared && reply->w.len == begin)
		reply->work_left -= WORK_RECORD * (1 + (int)srv->count);
}

/* Sets the end of all targets of the set. Returns false if that end is too long for a name. */
static bool
srv_tail(struct srv *srv, const struct reply *reply, const struct endpoint_set *endpoints,
    const struct dname *service)
{
	if (service != NULL) {
		srv->tail_len = service->len;
		memcpy(srv->tail, service->wire, service->len);
		return true;
	}
	srv->tail_len = zone_name_size(reply->config, NULL, endpoints->owner);
	if (srv->tail_len == 0)
		return false;
	zone_name_put(srv->tail, reply->config, NULL, endpoints->owner);
	return true;
}

/* --- SRV records of near endpoints (nearest.h) --- */

struct near_srv {
	struct reply *reply;
	size_t owner;
	const struct nearest *nearest;
	struct srv srv;
	const struct slice_endpoints *slice; /* the slice whose ports `srv` has */
};

static bool
put_near_srv(void *arg, const struct slice_endpoints *slice, unsigned i)
{
	struct near_srv *put = arg;

	if (put->slice != slice)
		put->srv.numbers =
		    ports_numbers(slice->ports, put->nearest->port_label, &put->srv.count);
	put->slice = slice;
	put_srv(put->reply, put->owner, put->nearest->endpoints, slice, i, &put->srv);
	return reply_goes_on(put->reply);
}

/* Writes the SRV records of the classes [from, to). `nearest` must have been counted with `doubles`. `service` is as for
 * reply_endpoint_set_srv(). */
OWN_FRAME static void
put_nearest_srv(struct reply *reply, size_t owner, const struct nearest *nearest, unsigned from,
    unsigned to, const struct dname *service)
{
	struct near_srv put = { .reply = reply, .owner = owner, .nearest = nearest };

	put.srv.weight = endpoint_set_weight(nearest->endpoints);
	if (!srv_tail(&put.srv, reply, nearest->endpoints, service))
		return;
	for (unsigned k = from; k < to && reply_goes_on(reply); k++)
		nearest_each(nearest, k, reply->rotation, put_near_srv, &put);
}

/* Always inlined, because the most common answer would be slower with a function call. */
static inline __attribute__((always_inline)) void
put_set_srv(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    uint64_t port_label, const struct dname *service, struct srv *srv)
{
	if (!srv_tail(srv, reply, endpoints, service))
		return;
	unsigned first = endpoints->count == 0 ? 0 : reply->rotation % endpoints->count;
	for (unsigned c = 0; c < endpoints->count && !reply->full; c++) {
		const struct slice_endpoints *slice =
		    endpoints->slices[(first + c) % endpoints->count].slice;

		srv->numbers = ports_numbers(slice->ports, port_label, &srv->count);
		if (slice->published == 0 || srv->count == 0) {
			if (--reply->work_left <= 0)
				return;
			continue;
		}
		unsigned start = reply->rotation / endpoints->count % slice->published;
		unsigned last = slice->published;
		bool shared = !slice_names_unique(slice);
		for (unsigned n = 0; n < slice->published && !reply->full; n++) {
			unsigned i =
			    start + n < slice->published ? start + n : start + n - slice->published;

			if (reply->work_left <= 0)
				return;
			if (shared && last < slice->published && slice_same_name(slice, last, i)) {
				/* the reply already has this target with these ports */
				reply->work_left--;
				continue;
			}
			last = i;
			put_srv(reply, owner, endpoints, slice, i, srv);
		}
	}
}

void
reply_endpoint_set_srv(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    uint64_t port_label, const struct dname *service)
{
	struct srv srv;

	if (__builtin_expect(reply->ordered, 0)) {
		struct nearest nearest = {
			.doubles = true, .by_port = true, .port_label = port_label
		};
		unsigned classes = nearest_classes(reply, endpoints, &nearest);

		if (classes > 0) {
			put_nearest_srv(reply, owner, &nearest, NEAR_NODE, classes, service);
			return;
		}
	}
	srv.weight = endpoint_set_weight(endpoints);
	put_set_srv(reply, owner, endpoints, port_label, service, &srv);
}

void
reply_weighted_srv(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    uint64_t port_label, const struct dname *service, unsigned weight)
{
	struct srv srv;

	srv.weight = weight;
	put_set_srv(reply, owner, endpoints, port_label, service, &srv);
}

void
reply_endpoints_srv(
    struct reply *reply, size_t owner, const struct resolved *resolved, const struct dname *service)
{
	struct srv srv = { .weight = 100 }; /* the weight of one endpoint */
	size_t begin = reply->w.len, len = 0;
	unsigned before = reply->counts[SECTION_ANSWER];
	struct glue glue = { .endpoints = resolved->endpoints };
	uint8_t record[12 + 6 + DNAME_MAX], derived[LABEL_ROOM];
	const struct slice_endpoints *last = NULL;
	struct resolved_walk walk;
	struct endpoint_ref ref;

	if (!srv_tail(&srv, reply, resolved->endpoints, service))
		return;
	resolved_endpoints(&walk, reply->tree, resolved);
	while (reply_goes_on(reply) && resolved_next(&walk, &ref)) {
		size_t had = reply->w.len;

		if (last != NULL && ref.slice->ports == last->ports) {
			reply->work_left -= WORK_SLICE;
			continue;
		}
		last = glue.slice = ref.slice;
		glue.i = (uint16_t)ref.i;
		const uint8_t *label = endpoint_label(ref.slice, ref.i, derived);
		const struct ports *ports = ref.slice->ports;
		for (unsigned n = 0; n < ports->number_count && !reply->full; n++) {
			len = write_srv(record, reply, owner, &srv, ports->numbers[n], label);
			/* A query with wildcards may reach the name more than once. */
			if (reply->counts[SECTION_ANSWER] == before &&
			    record_known(reply, record + 18, len - 18))
				return;
			record_dedup(reply, record, len);
		}
		if (reply->w.len == had)
			reply->work_left -= WORK_SLICE + WORK_RECORD * (int)ports->number_count;
	}
	if (reply->counts[SECTION_ANSWER] == before)
		return;
	glue_add(reply, begin + 18, len - 18, true, &glue);
}

/* --- names of --zonal --- */

void
reply_zonal(struct reply *reply, size_t owner, const struct resolved *resolved, uint16_t qtype)
{
	struct nearest in = { .endpoints = resolved->endpoints,
		.zone = resolved->zone,
		.family = qtype == TYPE_A      ? AF_INET
			  : qtype == TYPE_AAAA ? AF_INET6
					       : AF_UNSPEC,
		.doubles = qtype == TYPE_SRV,
		.by_port = qtype == TYPE_SRV };
	struct put put = { reply, owner };

	if (qtype != TYPE_SRV && in.family == AF_UNSPEC)
		return;
	if (reply->thread != NULL && reply->thread->zonal != NULL)
		count_one(&reply->thread->zonal[in.zone == 0]);
	if (in.zone == 0) { /* "prefer", and no endpoint is in the zone */
		if (qtype == TYPE_SRV)
			reply_endpoint_set_srv(reply, owner, in.endpoints, 0, NULL);
		else
			reply_endpoint_set(reply, owner, in.endpoints, in.family);
		return;
	}
	nearest_count(&in);
	if (qtype == TYPE_SRV) {
		put_nearest_srv(reply, owner, &in, NEAR_ZONE, NEAR_FAR, NULL);
		return;
	}
	nearest_each(&in, NEAR_ZONE, reply->rotation, put_addr, &put);
}

bool
reply_apex(struct reply *reply, uint16_t qtype, size_t owner)
{
	static const uint8_t ns_name[] = "\2ns\3dns"; /* all NS records have this target */
	const struct rrset *ns = node_rrset(reply->tree->root, TYPE_NS);

	if (qtype == TYPE_SOA)
		reply_soa(reply, owner, reply->config->ttl_s, reply->config->negative_ttl_s);
	else if (qtype == TYPE_NS && ns != NULL)
		reply_targets(reply, owner, ns, tree_find(reply->tree, ns_name));
	else if (qtype == TYPE_ANY)
		reply_hinfo(reply, owner);
	else
		return false;
	return true;
}
