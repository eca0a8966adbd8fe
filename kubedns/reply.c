#include <errno.h>
#include <string.h>

#include "kubedns/ports.h"
#include "kubedns/records.h"
#include "kubedns/reply.h"

enum {
	OPT_FIXED = 11,
	OPTION_NSID = 3,
	OPTION_EDE = 15,
	POINTER_MAX = 0x3fff,
	SOA_REFRESH_S = 7200,
	SOA_RETRY_S = 1800,
	SOA_EXPIRE_S = 86400
};

static bool
forwarding(const struct reply *reply)
{
	const struct answer_context *context = reply->tree == NULL ? NULL : reply->tree->context;

	return context != NULL && context->forwarding;
}

static size_t
opt_len(const struct reply *reply)
{
	size_t len = reply->query->has_edns ? OPT_FIXED : 0;

	if (reply->query->wants_nsid)
		len += 4 + strlen(reply->config->hostname);
	return reply->query->has_edns ? len + 6 /* room for an EDE */ : 0;
}

void
reply_begin(struct reply *reply, const struct answer_config *config, const struct tree *tree,
    const struct query *query, const uint8_t *wire, size_t wire_len, bool tcp, uint8_t *out,
    size_t max)
{
	size_t size = tcp                                 ? DNS_TCP_MAX
		      : query->udp_size < DNS_UDP_PAYLOAD ? query->udp_size
							  : DNS_UDP_PAYLOAD;

	if (size > max)
		size = max;
	*reply = (struct reply){ .w = { .buf = out },
		.config = config,
		.tree = tree,
		.query = query,
		.ede = -1,
		.size = size };
	reply->w.max = size - opt_len(reply);
	reply->w.len = DNS_HEADER;
	reply->flags = FLAG_QR | (query->flags & (0x7800 | FLAG_RD | FLAG_CD));
	if (forwarding(reply))
		reply->flags |= FLAG_RA;
	if (query->has_question && DNS_HEADER + (size_t)query->question_len <= wire_len)
		writer_put(&reply->w, wire + DNS_HEADER, query->question_len);
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

/* Addresses [from, to) of the pool's counted ones of this family. */
static void
put_pool(struct reply *reply, size_t owner, const struct pool *pool, uint8_t family, uint32_t from,
    uint32_t to)
{
	uint32_t at = 0;

	for (unsigned c = 0; c < pool->count && at < to && !reply->truncated; c++) {
		const struct pool_chunk *entry = &pool->chunks[c];
		if (entry->family != family)
			continue;
		uint32_t first = from > at ? from - at : 0;
		uint32_t last = to - at < entry->counted ? to - at : entry->counted;
		for (uint32_t i = first; i < last; i++)
			reply_addr(reply, owner, family, chunk_addr(entry->chunk, i));
		at += entry->counted;
	}
}

void
reply_pool(struct reply *reply, size_t owner, const struct pool *pool, uint8_t family)
{
	uint32_t total = family == AF_INET ? pool->total4 : pool->total6;

	if (total == 0)
		return;
	uint32_t start = reply->rotation % total;
	put_pool(reply, owner, pool, family, start, total);
	put_pool(reply, owner, pool, family, 0, start);
}

/* Whether `ref` is the first endpoint of the walk with its address: an address in two slices is one
 * record. */
static bool
first_with_addr(
    const struct reply *reply, const struct resolved *resolved, const struct endpoint_ref *ref)
{
	struct endpoint_walk walk;
	struct endpoint_ref other;
	size_t len = ref->chunk->family == AF_INET ? 4 : 16;

	resolved_endpoints(&walk, reply->tree, resolved);
	while (pool_next(&walk, &other)) {
		if (other.chunk == ref->chunk && other.i == ref->i)
			return true;
		if (other.chunk->family == ref->chunk->family &&
		    memcmp(chunk_addr(other.chunk, other.i), chunk_addr(ref->chunk, ref->i), len) ==
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
	resolved_endpoints(&walk, reply->tree, resolved);
	while (pool_next(&walk, &ref) && !reply->truncated)
		if (ref.chunk->family == family && first_with_addr(reply, resolved, &ref))
			reply_addr(reply, owner, family, chunk_addr(ref.chunk, ref.i));
}

int
endpoint_name(
    struct dname *name, const struct answer_config *config, const struct chunk *chunk, unsigned i)
{
	const uint8_t *label = chunk_name(chunk, i);
	uint8_t derived[1 + DNAME_LABEL_MAX + 8];
	struct addr addr = { .family = chunk->family };

	if (label == NULL) {
		memcpy(addr.bytes, chunk_addr(chunk, i), addr_len(&addr));
		label = records_addr_label(&addr, derived);
	}
	name->len = chunk->owner->len;
	memcpy(name->wire, chunk->owner->name, chunk->owner->len);
	int rc = dname_append(name, config->zone.wire);
	return rc < 0 ? rc : dname_prepend(name, label + 1, label[0]);
}

/* --- SRV of headless Services --- */

struct srv {
	const uint8_t *port, *proto;
	unsigned weight;
};

/*
 * Whether this endpoint speaks for its name at this port: of those that share the name and the
 * port, the first does.
 */
static bool
speaks_for_name(const struct reply *reply, const struct pool *pool, const struct chunk *chunk,
    unsigned i, const struct srv *srv)
{
	struct endpoint_walk walk;
	struct endpoint_ref ref;
	const uint8_t *name = chunk_name(chunk, i);
	struct addr addr = { .family = chunk->family };

	if (name == NULL && i < chunk->counted)
		return true;
	if (name != NULL) {
		uint8_t padded[1 + DNAME_LABEL_MAX + 8] = { 0 };
		memcpy(padded, name, 1u + *name);
		pool_find_name(&walk, reply->tree, pool, padded);
		walk.label = name;
	} else {
		memcpy(addr.bytes, chunk_addr(chunk, i), addr_len(&addr));
		pool_find_addr(&walk, reply->tree, pool, &addr);
	}
	while (pool_next(&walk, &ref)) {
		unsigned at = 0;
		if (ref.chunk == chunk && ref.i == i)
			return true;
		if ((name != NULL || chunk_name(ref.chunk, ref.i) == NULL) &&
		    chunk_port(ref.chunk, srv->port, srv->proto, &at))
			return false;
	}
	return true;
}

static void
put_srv(
    struct reply *reply, size_t owner, const struct chunk *chunk, unsigned i, const struct srv *srv)
{
	struct dname target;

	if (endpoint_name(&target, reply->config, chunk, i) < 0)
		return;
	for (unsigned at = 0; chunk_port(chunk, srv->port, srv->proto, &at); at++) {
		uint8_t *p = take(reply, 12 + 6 + (size_t)target.len);
		if (p == NULL)
			return;
		p = put_fixed(p, owner, TYPE_SRV, reply->config->ttl_s, 6 + (size_t)target.len);
		wire_put16(p, 0);
		wire_put16(p + 2, srv->weight);
		wire_put16(p + 4, chunk->ports->items[at].number);
		memcpy(p + 6, target.wire, target.len);
	}
}

/* Number of address-and-port pairs: what the weights of a set share. */
static uint32_t
count_pairs(const struct pool *pool, const uint8_t *port, const uint8_t *proto)
{
	uint32_t pairs = 0;

	for (unsigned c = 0; c < pool->count; c++) {
		const struct chunk *chunk = pool->chunks[c].chunk;
		for (unsigned at = 0; chunk_port(chunk, port, proto, &at); at++)
			pairs += chunk->counted;
	}
	return pairs;
}

unsigned
pool_srv_weight(const struct pool *pool, const uint8_t *port, const uint8_t *proto)
{
	uint32_t pairs = count_pairs(pool, port, proto);

	return pairs > 0 && pairs < 100 ? 100 / pairs : 1;
}

void
reply_pool_srv(struct reply *reply, size_t owner, const struct pool *pool, const uint8_t *port,
    const uint8_t *proto)
{
	struct srv srv = { port, proto, pool_srv_weight(pool, port, proto) };

	unsigned first = pool->count == 0 ? 0 : reply->rotation % pool->count;
	for (unsigned c = 0; c < pool->count && !reply->truncated; c++) {
		const struct chunk *chunk = pool->chunks[(first + c) % pool->count].chunk;
		unsigned at = 0;
		if (chunk->published == 0 || !chunk_port(chunk, port, proto, &at))
			continue;
		unsigned start = reply->rotation / pool->count % chunk->published;
		for (unsigned n = 0; n < chunk->published && !reply->truncated; n++) {
			unsigned i = (start + n) % chunk->published;
			if (speaks_for_name(reply, pool, chunk, i, &srv))
				put_srv(reply, owner, chunk, i, &srv);
		}
	}
}

/* --- SOA and glue --- */

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

static void
put_target_addrs(struct reply *reply, size_t target)
{
	struct dname name;
	struct name cut;
	uint8_t padded[DNAME_MAX + 8] = { 0 };
	struct resolved resolved;
	size_t at = target;

	if (wire_read_name(reply->w.buf, reply->w.len, &at, &name) < 0)
		return;
	dname_lower(name.wire, name.len);
	memcpy(padded, name.wire, name.len);
	name_cut(&cut, padded, name.len);
	int below = name_below(&cut, &reply->config->zone);
	if (below < 0)
		return;
	resolve(reply->config, reply->tree, &cut, (unsigned)below, &resolved);
	if (resolved.kind == RESOLVED_ENDPOINT) {
		reply_endpoints(reply, target, &resolved, AF_INET);
		reply_endpoints(reply, target, &resolved, AF_INET6);
	} else if (resolved.kind == RESOLVED_NODE) {
		const struct rrset *a = node_rrset(resolved.node, TYPE_A);
		const struct rrset *aaaa = node_rrset(resolved.node, TYPE_AAAA);
		if (a != NULL)
			reply_rrset(reply, target, a);
		if (aaaa != NULL)
			reply_rrset(reply, target, aaaa);
	}
}

void
reply_glue(struct reply *reply)
{
	size_t at = DNS_HEADER + (size_t)reply->query->question_len, previous = 0;
	unsigned answers = reply->counts[SECTION_ANSWER];
	const uint8_t *wire = reply->w.buf;

	reply->section = SECTION_ADDITIONAL;
	if (reply->truncated)
		return;
	for (unsigned i = 0; i < answers; i++) {
		size_t len = 12u + wire_get16(wire + at + 10); /* every owner is a pointer */
		uint16_t type = wire_get16(wire + at + 2);
		size_t target = at + 12 + (type == TYPE_SRV ? 6 : 0);
		bool again = previous != 0 && dname_equal(wire + previous, wire + target);
		if ((type == TYPE_SRV || type == TYPE_NS) && !again && target <= POINTER_MAX)
			put_target_addrs(reply, target);
		previous = type == TYPE_SRV || type == TYPE_NS ? target : 0;
		at += len;
	}
}
