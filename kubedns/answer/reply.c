#include <errno.h>
#include <string.h>

#include "kubedns/answer/reply.h"

enum {
	OPT_FIXED = 11,
	OPTION_NSID = 3,
	OPTION_EDE = 15,
	POINTER_MAX = 0x3fff,
	SOA_REFRESH_S = 7200,
	SOA_RETRY_S = 1800,
	SOA_EXPIRE_S = 86400
};

static size_t
opt_len(const struct reply *reply)
{
	size_t len = reply->query->has_edns ? OPT_FIXED : 0;

	if (reply->query->wants_nsid)
		len += 4 + strlen(reply->config->hostname);
	return reply->query->has_edns ? len + 6 /* room for an EDE */ : 0;
}

void
reply_begin(struct reply *reply, const struct answer_request *request, const struct query *query,
    bool forwarding)
{
	size_t size = request->tcp                        ? DNS_TCP_MAX
		      : query->udp_size < DNS_UDP_PAYLOAD ? query->udp_size
							  : DNS_UDP_PAYLOAD;

	if (size > request->max)
		size = request->max;
	memset(reply, 0, sizeof *reply);
	reply->w.buf = request->out;
	reply->config = request->config;
	reply->tree = request->tree;
	reply->rotation = request->rotation;
	reply->query = query;
	reply->ede = -1;
	reply->size = size;
	reply->w.max = size - opt_len(reply);
	reply->w.len = DNS_HEADER;
	reply->flags = FLAG_QR | (query->flags & (0x7800 | FLAG_RD | FLAG_CD));
	if (forwarding)
		reply->flags |= FLAG_RA;
	if (query->has_question && DNS_HEADER + (size_t)query->question_len <= request->query_len)
		writer_put(&reply->w, request->query + DNS_HEADER, query->question_len);
}

static void
put_opt(struct reply *reply)
{
	const struct query *query = reply->query;
	struct writer *w = &reply->w;
	size_t nsid = query->wants_nsid ? strlen(reply->config->hostname) : 0;

	w->max = reply->size;
	writer_put8(w, 0);
	writer_put16(w, TYPE_OPT);
	writer_put16(w, DNS_UDP_PAYLOAD);
	writer_put8(w, reply->extended_rcode);
	writer_put8(w, 0);
	writer_put16(w, query->edns_do ? 0x8000 : 0);
	writer_put16(
	    w, (unsigned)((query->wants_nsid ? 4 + nsid : 0) + (reply->ede >= 0 ? 6u : 0u)));
	if (query->wants_nsid) {
		writer_put16(w, OPTION_NSID);
		writer_put16(w, (unsigned)nsid);
		writer_put(w, reply->config->hostname, nsid);
	}
	if (reply->ede >= 0) {
		writer_put16(w, OPTION_EDE);
		writer_put16(w, 2);
		writer_put16(w, (unsigned)reply->ede);
	}
	reply->counts[SECTION_ADDITIONAL]++;
}

size_t
reply_end(struct reply *reply)
{
	uint8_t *header = reply->w.buf;

	if (reply->query->has_edns)
		put_opt(reply);
	if (reply->truncated)
		reply->flags |= FLAG_TC;
	wire_put16(header, reply->query->id);
	wire_put16(header + 2, reply->flags);
	wire_put16(header + 4, reply->query->has_question);
	for (unsigned s = 0; s < SECTION_COUNT; s++)
		wire_put16(header + 6 + 2 * s, reply->counts[s]);
	return reply->w.len;
}

/* Room for `len` bytes of a whole record, or NULL: it does not fit. */
static uint8_t *
take(struct reply *reply, size_t len)
{
	struct writer *w = &reply->w;

	if (reply->truncated || len > w->max - w->len) {
		if (reply->section == SECTION_ANSWER)
			reply->truncated = true;
		return NULL;
	}
	w->len += len;
	reply->counts[reply->section]++;
	return w->buf + w->len - len;
}

static uint8_t *
put_fixed(uint8_t *p, size_t owner, uint16_t type, uint32_t ttl_s, size_t rdata_len)
{
	wire_put16(p, 0xc000 | (unsigned)owner);
	wire_put16(p + 2, type);
	wire_put16(p + 4, CLASS_IN);
	wire_put32(p + 6, ttl_s);
	wire_put16(p + 10, (unsigned)rdata_len);
	return p + 12;
}

void
reply_record(
    struct reply *reply, size_t owner, uint16_t type, uint32_t ttl_s, const void *rdata, size_t len)
{
	uint8_t *p = take(reply, 12 + len);

	if (p != NULL)
		memcpy(put_fixed(p, owner, type, ttl_s, len), rdata, len);
}

/* Copies records [from, to) of a set, its owner put right. */
static void
put_records(struct reply *reply, size_t owner, const struct rrset *set, unsigned from, unsigned to)
{
	const uint8_t *record = set->data;

	for (unsigned i = 0; i < to; i++) {
		size_t len = 12u + wire_get16(record + 10);
		uint8_t *p = i < from ? NULL : take(reply, len);
		if (p != NULL) {
			memcpy(p, record, len);
			wire_put16(p, 0xc000 | (unsigned)owner);
		}
		record += len;
	}
}

void
reply_rrset(struct reply *reply, size_t owner, const struct rrset *set)
{
	unsigned start = set->count == 1 ? 0 : reply->rotation % set->count;

	put_records(reply, owner, set, start, set->count);
	put_records(reply, owner, set, 0, start);
}

void
reply_addr(struct reply *reply, size_t owner, uint8_t family, const uint8_t *bytes)
{
	size_t len = family == AF_INET ? 4 : 16;

	reply_record(
	    reply, owner, family == AF_INET ? TYPE_A : TYPE_AAAA, reply->config->ttl_s, bytes, len);
}

/* Addresses [from, to) of the endpoint set's unique ones of this family. */
static void
put_endpoint_set(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    uint8_t family, uint32_t from, uint32_t to)
{
	uint32_t at = 0;

	for (unsigned c = 0; c < endpoints->count && at < to && !reply->truncated; c++) {
		const struct endpoint_set_slice *entry = &endpoints->slices[c];
		if (entry->family != family)
			continue;
		uint32_t first = from > at ? from - at : 0;
		uint32_t last = to - at < entry->unique ? to - at : entry->unique;
		for (uint32_t i = first; i < last; i++)
			reply_addr(reply, owner, family, slice_addr(entry->slice, i));
		at += entry->unique;
	}
}

void
reply_endpoint_set(
    struct reply *reply, size_t owner, const struct endpoint_set *endpoints, uint8_t family)
{
	uint32_t total = family == AF_INET ? endpoints->total4 : endpoints->total6;

	if (total == 0)
		return;
	uint32_t start = reply->rotation % total;
	put_endpoint_set(reply, owner, endpoints, family, start, total);
	put_endpoint_set(reply, owner, endpoints, family, 0, start);
}

/* Whether `ref` is the first endpoint of the walk with its address:
 * an address in two slices is one record. */
static bool
first_with_addr(
    const struct reply *reply, const struct resolved *resolved, const struct endpoint_ref *ref)
{
	struct endpoint_walk walk;
	struct endpoint_ref other;
	size_t len = ref->slice->family == AF_INET ? 4 : 16;

	resolved_endpoints(&walk, reply->tree, resolved);
	while (endpoint_set_next(&walk, &other)) {
		if (other.slice == ref->slice && other.i == ref->i)
			return true;
		if (other.slice->family == ref->slice->family &&
		    memcmp(slice_addr(other.slice, other.i), slice_addr(ref->slice, ref->i), len) ==
			0)
			return false;
	}
	return true;
}

void
reply_endpoints(struct reply *reply, size_t owner, const struct resolved *resolved, uint8_t family)
{
	struct endpoint_walk walk;
	struct endpoint_ref ref;

	if (resolved->label == NULL) { /* the name is the address */
		if (resolved->addr.family == family)
			reply_addr(reply, owner, family, resolved->addr.bytes);
		return;
	}
	ref = resolved->first;
	if (ref.slice != NULL && slice_names_unique(ref.slice)) {
		if (ref.slice->family == family)
			reply_addr(reply, owner, family, slice_addr(ref.slice, ref.i));
		return;
	}
	resolved_endpoints(&walk, reply->tree, resolved);
	while (endpoint_set_next(&walk, &ref) && !reply->truncated)
		if (ref.slice->family == family && first_with_addr(reply, resolved, &ref))
			reply_addr(reply, owner, family, slice_addr(ref.slice, ref.i));
}

/* Bytes of the name `label` (NULL: none) below `owner` and the zone;
 * 0: longer than names may be. */
static size_t
name_size(const struct answer_config *config, const uint8_t *label, const struct owner *owner)
{
	size_t len = (label == NULL ? 0 : 1u + *label) + owner->len - 1u + config->zone.len;

	return len <= DNAME_MAX ? len : 0;
}

/* Writes that name; returns what follows. */
static void
put_name(
    uint8_t *p, const struct answer_config *config, const uint8_t *label, const struct owner *owner)
{
	if (label != NULL) {
		memcpy(p, label, 1u + *label);
		p += 1u + *label;
	}
	memcpy(p, owner->name, owner->len - 1u);
	memcpy(p + owner->len - 1, config->zone.wire, config->zone.len);
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
	size_t len = name_size(config, label, slice->owner);

	if (len == 0)
		return -ENAMETOOLONG;
	put_name(name->wire, config, label, slice->owner);
	name->len = (uint8_t)len;
	return 0;
}

void
reply_ptr(struct reply *reply, const uint8_t *label, const struct owner *owner)
{
	size_t len = name_size(reply->config, label, owner);
	uint8_t *p = len == 0 ? NULL : take(reply, 12 + len);

	if (p != NULL)
		put_name(put_fixed(p, DNS_HEADER, TYPE_PTR, reply->config->ttl_s, len),
		    reply->config, label, owner);
}

/* --- where the addresses of an SRV's or NS's target are, known when its name is written --- */

static void
glue_add(struct reply *reply, size_t target, const struct glue *glue)
{
	const struct glue *last =
	    reply->glue_count == 0 ? NULL : &reply->glue[reply->glue_count - 1];

	if (reply->glue == NULL || target > POINTER_MAX || reply->glue_count == GLUE_MAX)
		return;
	if (last != NULL && last->node == glue->node && last->slice == glue->slice &&
	    last->i == glue->i) /* another port of the same */
		return;
	reply->glue[reply->glue_count] = *glue;
	reply->glue[reply->glue_count++].target = (uint16_t)target;
}

/* Whether the addresses of the name at this offset are on their way already. */
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
	for (; slice_port(slice, port, proto, at); (*at)++)
		if (port != NULL || port_number_is_first(slice->ports->items, *at))
			return true;
	return false;
}

/* Whether the slice's endpoints would bring a record with the same name and port number. */
static bool
brings_too(const struct slice_endpoints *slice, const struct srv *srv, uint16_t number)
{
	for (unsigned at = 0; slice_port(slice, srv->port, srv->proto, &at); at++)
		if (srv->port != NULL || slice->ports->items[at].number == number)
			return true;
	return false;
}

/*
 * Whether this endpoint speaks for its name at this port: of those that share a host name and the
 * port, the first does; of those that share an address, the one that counts it, else the first.
 */
static bool
speaks_for_name(const struct reply *reply, const struct endpoint_set *endpoints,
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
		if (brings_too(ref.slice, srv, number))
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

/* The records of one endpoint: those for which it speaks. */
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
		if (!alone && !speaks_for_name(reply, endpoints, slice, i, srv, number))
			continue;
		uint8_t *p = take(reply, 12 + 6 + len);
		if (p == NULL)
			return;
		p = put_fixed(p, owner, TYPE_SRV, reply->config->ttl_s, 6 + len);
		wire_put16(p, 0);
		wire_put16(p + 2, srv->weight);
		wire_put16(p + 4, number);
		memcpy(p + 6, label, label_len);
		memcpy(p + 6 + label_len, srv->tail, srv->tail_len);
		if ((alone && !doubles) || !glue_known(reply, reply->w.len - len))
			glue_add(reply, reply->w.len - len, &glue);
	}
}

/* Number of address-and-port pairs: what the weights of a set share. */
static uint32_t
count_pairs(const struct endpoint_set *endpoints, const uint8_t *port, const uint8_t *proto)
{
	uint32_t pairs = 0;

	for (unsigned c = 0; c < endpoints->count; c++) {
		const struct slice_endpoints *slice = endpoints->slices[c].slice;
		for (unsigned at = 0; srv_port(slice, port, proto, &at); at++)
			pairs += slice->unique;
	}
	return pairs;
}

unsigned
endpoint_set_srv_weight(
    const struct endpoint_set *endpoints, const uint8_t *port, const uint8_t *proto)
{
	uint32_t pairs = count_pairs(endpoints, port, proto);

	return pairs > 0 && pairs < 100 ? 100 / pairs : 1;
}

void
reply_endpoint_set_srv(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    const uint8_t *port, const uint8_t *proto)
{
	struct srv srv;

	srv.port = port;
	srv.proto = proto;
	srv.weight = endpoint_set_srv_weight(endpoints, port, proto);
	srv.tail_len = name_size(reply->config, NULL, endpoints->owner);
	if (srv.tail_len == 0)
		return;
	put_name(srv.tail, reply->config, NULL, endpoints->owner);
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

/* --- SOA --- */

/* Offset of `zone` in the question, which ends in it, or 0. */
static size_t
zone_offset(const struct reply *reply, const struct dname *zone)
{
	const struct query *query = reply->query;

	if (query->qname_len < zone->len ||
	    memcmp(query->qname + query->qname_len - zone->len, zone->wire, zone->len) != 0)
		return 0;
	return DNS_HEADER + (size_t)query->qname_len - zone->len;
}

/* `head` and then the zone, by a pointer if the question holds it; returns what follows. */
static uint8_t *
put_below_zone(uint8_t *p, const void *head, size_t len, const struct dname *zone, size_t offset)
{
	memcpy(p, head, len);
	p += len;
	if (offset != 0) {
		wire_put16(p, 0xc000 | (unsigned)offset);
		return p + 2;
	}
	memcpy(p, zone->wire, zone->len);
	return p + zone->len;
}

void
reply_soa(struct reply *reply, size_t owner, uint32_t ttl_s)
{
	static const char mname[] = "\2ns\3dns", rname[] = "\12hostmaster";
	const struct answer_config *config = reply->config;
	size_t zone = zone_offset(reply, &config->zone);
	uint8_t rdata[2 * (DNAME_MAX + 12) + 20], *p = rdata;

	/* MNAME and RNAME may be compressed (RFC 1035). Every NXDOMAIN comes this way. */
	p = put_below_zone(p, mname, sizeof mname - 1, &config->zone, zone);
	p = put_below_zone(p, rname, sizeof rname - 1, &config->zone, zone);
	wire_put32(p, reply->tree->serial);
	wire_put32(p + 4, SOA_REFRESH_S);
	wire_put32(p + 8, SOA_RETRY_S);
	wire_put32(p + 12, SOA_EXPIRE_S);
	wire_put32(p + 16, config->negative_ttl_s);
	reply_record(reply, owner, TYPE_SOA, ttl_s, rdata, (size_t)(p + 20 - rdata));
}
