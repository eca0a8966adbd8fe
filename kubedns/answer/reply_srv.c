/*
 * SRV records, and the addresses of the names they point to (glue).
 */
#include <string.h>

#include "kubedns/answer/reply_internal.h"

enum { POINTER_MAX = 0x3fff };

/* --- glue: the targets of SRV and NS records --- */

static void
glue_add(struct reply *reply, size_t target, const struct glue *glue)
{
	const struct glue *last =
	    reply->glue_count == 0 ? NULL : &reply->glue[reply->glue_count - 1];

	if (reply->glue == NULL || target > POINTER_MAX || reply->glue_count == GLUE_MAX)
		return;
	if (last != NULL && last->node == glue->node && last->slice == glue->slice &&
	    last->i == glue->i) /* another port of the same target */
		return;
	reply->glue[reply->glue_count] = *glue;
	reply->glue[reply->glue_count++].target = (uint16_t)target;
}

/* Whether the name at this offset is a target already. */
static bool
glue_known(const struct reply *reply, size_t target)
{
	for (unsigned i = 0; i < reply->glue_count; i++)
		if (dname_equal(reply->w.buf + reply->glue[i].target, reply->w.buf + target))
			return true;
	return false;
}

void
reply_targets(struct reply *reply, size_t owner, const struct rrset *set, const struct node *target)
{
	size_t at = reply->w.len + 12 + (set->type == TYPE_SRV ? 6 : 0);

	reply_rrset(reply, owner, set);
	if (target != NULL && at < reply->w.len)
		glue_add(reply, at, &(struct glue){ .node = target });
}

void
reply_drop(struct reply *reply, size_t at)
{
	reply->w.len = at;
	reply->counts[SECTION_ANSWER]--;
	while (reply->glue_count > 0 && reply->glue[reply->glue_count - 1].target >= at)
		reply->glue_count--;
}

static void
put_glue(struct reply *reply, const struct glue *glue)
{
	if (glue->node != NULL) {
		const struct rrset *set = NULL;
		while ((set = node_rrset_next(glue->node, set)) != NULL)
			if (set->type == TYPE_A || set->type == TYPE_AAAA)
				reply_rrset(reply, glue->target, set);
	} else if (glue->endpoints != NULL) {
		const struct resolved others = { .endpoints = glue->endpoints,
			.label = slice_name(glue->slice, glue->i) };
		reply_endpoints(reply, glue->target, &others, AF_INET);
		reply_endpoints(reply, glue->target, &others, AF_INET6);
	} else {
		reply_addr(
		    reply, glue->target, glue->slice->family, slice_addr(glue->slice, glue->i));
	}
}

void
reply_glue(struct reply *reply)
{
	if (reply->truncated)
		return;
	reply->section = SECTION_ADDITIONAL;
	for (unsigned i = 0; i < reply->glue_count; i++)
		put_glue(reply, &reply->glue[i]);
}

/* --- SRV of headless Services --- */

struct srv {
	const uint8_t *port, *proto;
	unsigned weight;
	unsigned first, count;   /* of the slice's ports, those that match */
	uint8_t tail[DNAME_MAX]; /* what all targets end in: the owner's name and the zone */
	size_t tail_len;
};

/* Like slice_port(), but at a Service's bare name each number once. */
static bool
srv_port(
    const struct slice_endpoints *slice, const uint8_t *port, const uint8_t *proto, unsigned *at)
{
	const struct port *items = slice->ports->items;

	for (; slice_port(slice, port, proto, at); (*at)++) {
		unsigned earlier = 0;
		while (items[earlier].number != items[*at].number)
			earlier++;
		if (port != NULL || earlier == *at)
			return true;
	}
	return false;
}

/* Whether a port of the slice would make a record with this number at the same name. */
static bool
has_port_number(const struct slice_endpoints *slice, const struct srv *srv, uint16_t number)
{
	for (unsigned at = 0; slice_port(slice, srv->port, srv->proto, &at); at++)
		if (srv->port != NULL || slice->ports->items[at].number == number)
			return true;
	return false;
}

/*
 * Whether this endpoint emits the SRV of its target and this port, which others may share: of those
 * with one host name the first does; of those with one address the one in the unique run, else the
 * first.
 */
static bool
emits_target(const struct reply *reply, const struct endpoint_set *endpoints,
    const struct slice_endpoints *slice, unsigned i, const struct srv *srv, uint16_t number)
{
	bool passed = false;
	struct endpoint_walk walk;
	struct endpoint_ref ref;
	const uint8_t *name = slice_name(slice, i);
	struct addr addr = { .family = slice->family };

	if (name != NULL) {
		endpoint_set_find_name(&walk, reply->tree, endpoints, name);
	} else {
		memcpy(addr.bytes, slice_addr(slice, i), addr_len(&addr));
		endpoint_set_find_addr(&walk, reply->tree, endpoints, &addr);
	}
	while (endpoint_set_next(&walk, &ref)) {
		if (ref.slice == slice && ref.i == i) {
			if (name != NULL)
				return true;
			passed = true;
			continue;
		}
		if (name == NULL && (slice_name(ref.slice, ref.i) != NULL ||
					(passed && ref.i >= ref.slice->unique)))
			continue;
		if (has_port_number(ref.slice, srv, number))
			return false;
	}
	return true;
}

static void
srv_ports(struct srv *srv, const struct slice_endpoints *slice)
{
	srv->count = 0;
	for (unsigned at = 0; srv_port(slice, srv->port, srv->proto, &at); at++)
		if (srv->count++ == 0)
			srv->first = at;
}

/* The records of one endpoint: those that it emits. */
static void
put_srv(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    const struct slice_endpoints *slice, unsigned i, const struct srv *srv)
{
	uint8_t derived[LABEL_ROOM];
	const uint8_t *name = slice_name(slice, i),
		      *label = name != NULL ? name : endpoint_label(slice, i, derived);
	bool alone = name != NULL ? slice_names_unique(slice) : i < slice->unique;
	bool doubles = endpoints->published > endpoints->total4 + endpoints->total6;
	size_t label_len = 1u + *label, len = label_len + srv->tail_len;
	struct glue glue = { .slice = slice,
		.i = (uint16_t)i,
		.endpoints = name != NULL && !alone ? endpoints : NULL };

	if (len > DNAME_MAX)
		return;
	for (unsigned at = srv->first, n = 0; n < srv->count; at++, n++) {
		if (n > 0 && !srv_port(slice, srv->port, srv->proto, &at))
			return;
		uint16_t number = slice->ports->items[at].number;
		if (!alone && !emits_target(reply, endpoints, slice, i, srv, number))
			continue;
		uint8_t *p = record_room(reply, 12 + 6 + len);
		if (p == NULL)
			return;
		p = record_head(p, owner, TYPE_SRV, reply->config->ttl_s, 6 + len);
		wire_put16(p, 0);
		wire_put16(p + 2, srv->weight);
		wire_put16(p + 4, number);
		memcpy(p + 6, label, label_len);
		memcpy(p + 6 + label_len, srv->tail, srv->tail_len);
		if ((alone && !doubles) || !glue_known(reply, reply->w.len - len))
			glue_add(reply, reply->w.len - len, &glue);
	}
}

unsigned
endpoint_set_srv_weight(const struct tree *tree, const struct endpoint_set *endpoints,
    const uint8_t *port, const uint8_t *proto)
{
	return srv_weight(
	    endpoint_set_pairs(endpoints, port == NULL ? 0 : port_label(tree->seed, port, proto)));
}

void
reply_endpoint_set_srv(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    const uint8_t *port, const uint8_t *proto)
{
	struct srv srv;

	srv.port = port;
	srv.proto = proto;
	srv.weight = endpoint_set_srv_weight(reply->tree, endpoints, port, proto);
	srv.tail_len = zone_name_size(reply->config, NULL, endpoints->owner);
	if (srv.tail_len == 0)
		return;
	zone_name_put(srv.tail, reply->config, NULL, endpoints->owner);
	unsigned first = endpoints->count == 0 ? 0 : reply->rotation % endpoints->count;
	for (unsigned c = 0; c < endpoints->count && !reply->truncated; c++) {
		const struct slice_endpoints *slice =
		    endpoints->slices[(first + c) % endpoints->count].slice;
		srv_ports(&srv, slice);
		if (slice->published == 0 || srv.count == 0)
			continue;
		unsigned start = reply->rotation / endpoints->count % slice->published;
		for (unsigned n = 0; n < slice->published && !reply->truncated; n++) {
			unsigned i =
			    start + n < slice->published ? start + n : start + n - slice->published;
			put_srv(reply, owner, endpoints, slice, i, &srv);
		}
	}
}
