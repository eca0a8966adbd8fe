#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/reply.h"
#include "kubedns/answer/wildcard.h"

enum { CNAME_STEPS_MAX = 8, PTR_SORT_MAX = 128 };

/* --- the last line of every answer:
 * existence becomes rcode, AA and SOA here and nowhere else --- */

enum existence { FOUND, NODATA, NXDOMAIN, NOT_READY };

static void
set_rcode_and_soa(struct reply *reply, enum existence existence, size_t soa_owner)
{
	if (existence == NOT_READY) {
		reply->flags |= RCODE_SERVFAIL;
		reply->ede = EDE_NOT_READY;
		return;
	}
	reply->flags |= FLAG_AA;
	if (existence == FOUND)
		return;
	if (existence == NXDOMAIN)
		reply->flags |= RCODE_NXDOMAIN;
	reply->section = SECTION_AUTHORITY;
	reply_soa(reply, soa_owner, reply->config->negative_ttl_s);
}

/* --- records by kind of name --- */

static uint8_t
family_of(uint16_t qtype)
{
	return qtype == TYPE_A ? AF_INET : qtype == TYPE_AAAA ? AF_INET6 : AF_UNSPEC;
}

static void
put_hinfo(struct reply *reply, size_t owner)
{
	static const uint8_t rdata[] =
	    "\7RFC8482"; /* CPU "RFC8482", OS "": the literal's NUL is its length */

	reply_record(reply, owner, TYPE_HINFO, reply->config->ttl_s, rdata, sizeof rdata);
}

/* Puts the records of this type at an existing name; false: it has none. */
static bool
put_resolved(struct reply *reply, size_t owner, const struct resolved *resolved, uint16_t qtype)
{
	unsigned before = reply->counts[SECTION_ANSWER];
	uint8_t family = family_of(qtype);
	const struct rrset *set;

	if (qtype == TYPE_ANY) { /* RFC 8482: the name exists, and that is all */
		put_hinfo(reply, owner);
		return true;
	}
	switch (resolved->kind) {
	case RESOLVED_NODE:
		if ((set = node_rrset(resolved->node, qtype)) == NULL)
			break;
		if (qtype == TYPE_SRV)
			reply_targets(reply, owner, set, resolved->service);
		else
			reply_rrset(reply, owner, set);
		break;
	case RESOLVED_HEADLESS:
		if (family != AF_UNSPEC)
			reply_endpoint_set(reply, owner, resolved->endpoints, family);
		else if (qtype == TYPE_SRV)
			reply_endpoint_set_srv(reply, owner, resolved->endpoints, NULL, NULL);
		break;
	case RESOLVED_PORT:
		if (qtype == TYPE_SRV)
			reply_endpoint_set_srv(
			    reply, owner, resolved->endpoints, resolved->port, resolved->proto);
		break;
	case RESOLVED_ENDPOINT:
		if (family != AF_UNSPEC)
			reply_endpoints(reply, owner, resolved, family);
		break;
	case RESOLVED_POD:
		if (family == resolved->addr.family)
			reply_addr(reply, owner, family, resolved->addr.bytes);
		break;
	case RESOLVED_NOTHING:
	case RESOLVED_EMPTY:
	case RESOLVED_CNAME:
		break;
	}
	return reply->counts[SECTION_ANSWER] > before || reply->truncated;
}

/* --- --wildcards --- */

struct wildcard {
	struct reply *reply;
	size_t first; /* where the answer section begins */
};

/* Takes back the last record if it stands in the section already:
 * two Services may have one address. */
static void
drop_double(struct wildcard *w, size_t at)
{
	struct reply *reply = w->reply;
	size_t len = reply->w.len - at;

	for (size_t i = w->first; i < at; i += 12u + wire_get16(reply->w.buf + i + 10))
		if (i + len <= at && memcmp(reply->w.buf + i, reply->w.buf + at, len) == 0) {
			reply_drop(reply, at);
			return;
		}
}

static bool
put_match(void *arg, const struct resolved *resolved)
{
	struct wildcard *w = arg;
	uint16_t qtype = w->reply->query->qtype;
	size_t at = w->reply->w.len;
	unsigned before = w->reply->counts[SECTION_ANSWER];

	if (qtype != TYPE_ANY)
		put_resolved(w->reply, DNS_HEADER, resolved, qtype);
	if (w->reply->counts[SECTION_ANSWER] == before + 1)
		drop_double(w, at);
	return !w->reply->truncated;
}

static void
answer_wildcard(struct reply *reply, const struct name *name, unsigned below, size_t apex)
{
	struct wildcard w = { reply, reply->w.len };
	bool any = wildcard_each(reply->config, reply->tree, name, below, put_match, &w);

	if (any && reply->query->qtype == TYPE_ANY)
		put_hinfo(reply, DNS_HEADER);
	set_rcode_and_soa(reply,
	    !any                                                    ? NXDOMAIN
	    : reply->counts[SECTION_ANSWER] > 0 || reply->truncated ? FOUND
								    : NODATA,
	    apex);
}

/* The target of the CNAME at this name, written as a record; false if it has none. */
static bool
put_cname(struct reply *reply, size_t owner, const struct resolved *resolved, struct dname *target)
{
	const struct rrset *set;

	if (resolved->kind == RESOLVED_CNAME) {
		*target = resolved->cname;
		reply_record(
		    reply, owner, TYPE_CNAME, reply->config->ttl_s, target->wire, target->len);
		return true;
	}
	if (resolved->kind != RESOLVED_NODE ||
	    (set = node_rrset(resolved->node, TYPE_CNAME)) == NULL)
		return false;
	target->len = (uint8_t)wire_get16(set->data + 10);
	memcpy(target->wire, set->data + 12, target->len);
	reply_rrset(reply, owner, set);
	return true;
}

static bool
zone_apex(struct reply *reply, uint16_t qtype, size_t owner)
{
	static const uint8_t ns_name[] = "\2ns\3dns"; /* the set's one name */
	const struct rrset *ns = node_rrset(reply->tree->root, TYPE_NS);

	if (qtype == TYPE_SOA)
		reply_soa(reply, owner, reply->config->ttl_s);
	else if (qtype == TYPE_NS && ns != NULL)
		reply_targets(reply, owner, ns, tree_find(reply->tree, ns_name));
	else if (qtype == TYPE_ANY)
		put_hinfo(reply, owner);
	else
		return false;
	return true;
}

/* A name below our zone, and the CNAMEs that it leads through. */
static enum answer_outcome
answer_zone(struct reply *reply, const struct name *qname, unsigned below,
    const struct tree_path *path, struct dname *chase)
{
	const struct answer_config *config = reply->config;
	uint16_t qtype = reply->query->qtype;
	size_t owner = DNS_HEADER,
	       apex = DNS_HEADER + (size_t)reply->query->qname_len - config->zone.len;
	struct resolved resolved;
	struct name name = *qname;
	uint8_t padded[DNAME_MAX + 8], offsets[DNAME_LABELS_MAX];

	if (config->wildcards && wildcard_in(qname, below)) {
		answer_wildcard(reply, qname, below, apex);
		return ANSWER_REPLY;
	}
	for (unsigned step = 0;; step++) {
		if (below == 0) {
			set_rcode_and_soa(
			    reply, zone_apex(reply, qtype, owner) ? FOUND : NODATA, apex);
			return ANSWER_REPLY;
		}
		resolve(config, reply->tree, &name, below, step == 0 ? path : NULL, &resolved);
		if (!put_cname(reply, owner, &resolved, chase))
			break;
		/* RFC 1034 3.6.2: a CNAME answers every type;
		 * only addresses are worth following. */
		if (family_of(qtype) == AF_UNSPEC || reply->truncated ||
		    step + 1 == CNAME_STEPS_MAX) {
			set_rcode_and_soa(reply, FOUND, apex);
			return ANSWER_REPLY;
		}
		owner = reply->w.len - chase->len;
		memcpy(padded, chase->wire, chase->len);
		memset(padded + chase->len, 0, 8);
		name = name_cut(padded, chase->len, offsets);
		int in_zone = name_below(&name, &config->zone);
		if (in_zone < 0) {
			set_rcode_and_soa(reply, FOUND, apex);
			return ANSWER_CHASE;
		}
		below = (unsigned)in_zone;
	}
	if (resolved.kind == RESOLVED_NOTHING)
		set_rcode_and_soa(reply, NXDOMAIN, apex);
	else
		set_rcode_and_soa(
		    reply, put_resolved(reply, owner, &resolved, qtype) ? FOUND : NODATA, apex);
	return ANSWER_REPLY;
}

/* --- reverse names --- */

static const struct reverse_zone *
find_reverse_zone(const struct answer_config *config, const struct addr *addr, unsigned bits)
{
	for (size_t i = 0; i < config->reverse_zone_count; i++)
		if (bits >= config->reverse_zones[i].bits &&
		    addr_in_prefix(
			addr, &config->reverse_zones[i].prefix, config->reverse_zones[i].bits))
			return &config->reverse_zones[i];
	return NULL;
}

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

struct ptrs {
	struct reply *reply;
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
	qsort(ptrs->names, ptrs->count, sizeof *ptrs->names, by_name);
	for (unsigned i = 0; i < ptrs->count; i++)
		if (i == 0 || !dname_equal(ptrs->names[i].wire, ptrs->names[i - 1].wire))
			reply_record(ptrs->reply, DNS_HEADER, TYPE_PTR, ptrs->reply->config->ttl_s,
			    ptrs->names[i].wire, ptrs->names[i].len);
	ptrs->count = 0;
}

/* Sorted by name while there is room to sort:
 * an address with more owners keeps the order of the index. */
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
	for (unsigned i = 0; i < slice->published; i++)
		if (memcmp(slice_addr(slice, i), addr->bytes, addr_len(addr)) == 0) {
			struct dname *name = ptrs_next(ptrs);
			ptrs->count += endpoint_name(name, ptrs->reply->config, slice, i) == 0;
		}
}

/* The PTRs of an address that is the ClusterIP of several Services, or is in several slices. Not
 * inlined: its stack is not every question's. */
static __attribute__((noinline)) void
put_sorted_ptrs(struct reply *reply, const struct addr *addr, bool cluster_ip)
{
	struct ptrs ptrs; /* 32 KB: not to be cleared for each question */
	struct reverse_walk walk;
	struct reverse_ref ref;

	ptrs.reply = reply;
	ptrs.count = 0;
	reverse_find(&walk, reply->tree, addr);
	while (reverse_next(&walk, &ref)) {
		if (cluster_ip && ref.slice == NULL)
			ptr_owner(&ptrs, ref.owner);
		else if (!cluster_ip)
			ptr_endpoints(&ptrs, ref.slice, addr);
	}
	ptrs_flush(&ptrs);
}

/* The PTRs of an address; an address that is a ClusterIP answers as that alone.
 * False: nobody has it. */
static bool
put_ptrs(struct reply *reply, const struct addr *addr, bool only_ask)
{
	struct reverse_walk walk;
	struct reverse_ref ref, first;
	unsigned found = 0;
	bool cluster_ip = false;

	reverse_find(&walk, reply->tree, addr);
	for (; reverse_next(&walk, &ref); found++) {
		if (only_ask)
			return true;
		if (found == 0)
			first = ref;
		cluster_ip |= ref.slice == NULL;
	}
	if (found != 1 || (!cluster_ip && !first.slice->distinct)) {
		put_sorted_ptrs(reply, addr, cluster_ip);
	} else if (cluster_ip) {
		reply_ptr(reply, NULL, first.owner);
	} else { /* one endpoint of one slice */
		uint8_t derived[LABEL_ROOM];
		unsigned i = slice_find_addr(first.slice, 0, first.slice->published, addr->bytes);
		if (i < first.slice->published)
			reply_ptr(reply, endpoint_label(first.slice, i, derived), first.owner);
	}
	return found > 0;
}

static bool
anything_below(const struct tree *tree, const struct addr *prefix, unsigned bits)
{
	struct addr first = *prefix;

	return reverse_seek(tree, &first) && addr_in_prefix(&first, prefix, bits);
}

/* Apex of a reverse zone of ours: SOA, NS. */
static bool
reverse_apex(struct reply *reply, const struct reverse_zone *zone, unsigned bits, uint16_t qtype)
{
	return bits == zone->bits && zone_apex(reply, qtype, DNS_HEADER);
}

/* A name of the reverse trees; ANSWER_FORWARD: not ours to answer. */
static enum answer_outcome
answer_reverse(struct reply *reply, const struct addr *addr, unsigned bits)
{
	const struct reverse_zone *zone = find_reverse_zone(reply->config, addr, bits);
	uint16_t qtype = reply->query->qtype;
	bool whole = bits == (addr->family == AF_INET ? 32 : 128);

	if (!reply->tree->synced) {
		if (zone == NULL && !is_private(addr, bits))
			return ANSWER_FORWARD;
		set_rcode_and_soa(reply, NOT_READY, 0);
		return ANSWER_REPLY;
	}
	bool exists = whole ? put_ptrs(reply, addr, qtype != TYPE_PTR)
			    : zone != NULL && anything_below(reply->tree, addr, bits);
	if (zone == NULL && !exists)
		return ANSWER_FORWARD;
	if (exists && qtype == TYPE_ANY)
		put_hinfo(reply, DNS_HEADER);
	/* Outside of zones of ours there is no apex to name: the SOA is the name's own. */
	size_t soa = zone == NULL ? DNS_HEADER
				  : DNS_HEADER + (size_t)reply->query->qname_len - zone->name.len;
	if (reply->counts[SECTION_ANSWER] > 0 || reply->truncated ||
	    (zone != NULL && reverse_apex(reply, zone, bits, qtype)))
		set_rcode_and_soa(reply, FOUND, soa);
	else
		set_rcode_and_soa(
		    reply, exists || (zone != NULL && bits == zone->bits) ? NODATA : NXDOMAIN, soa);
	return ANSWER_REPLY;
}

/* A name that spells no address: in a reverse zone of ours it does not exist. */
static enum answer_outcome
answer_odd_reverse(struct reply *reply, const struct name *name)
{
	const struct answer_config *config = reply->config;

	for (size_t i = 0; i < config->reverse_zone_count; i++) {
		const struct dname *zone = &config->reverse_zones[i].name;
		if (name_below(name, zone) < 0)
			continue;
		set_rcode_and_soa(reply, reply->tree->synced ? NXDOMAIN : NOT_READY,
		    DNS_HEADER + (size_t)name->len - zone->len);
		return ANSWER_REPLY;
	}
	return ANSWER_FORWARD;
}

/* --- CHAOS --- */

static void
answer_chaos(struct reply *reply)
{
	static const struct {
		const char *name; /* wire */
		size_t offset;    /* of the text in struct answer_config */
	} names[] = { { "\7version\4bind", offsetof(struct answer_config, version) },
		{ "\7version\6server", offsetof(struct answer_config, version) },
		{ "\10hostname\4bind", offsetof(struct answer_config, hostname) },
		{ "\2id\6server", offsetof(struct answer_config, hostname) } };
	const struct query *query = reply->query;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		const char *text = (const char *)reply->config + names[i].offset;
		uint8_t rdata[256] = { (uint8_t)strlen(text) };
		if (strlen(names[i].name) + 1 != query->qname_len ||
		    memcmp(names[i].name, query->qname, query->qname_len) != 0)
			continue;
		if (query->qtype != TYPE_TXT && query->qtype != TYPE_ANY)
			break;
		memcpy(rdata + 1, text, rdata[0]);
		size_t at = reply->w.len;
		reply_record(reply, DNS_HEADER, TYPE_TXT, 0, rdata, 1u + rdata[0]);
		wire_put16(reply->w.buf + at + 4, CLASS_CH);
		reply->flags |= FLAG_AA;
		return;
	}
	reply->flags |= RCODE_REFUSED;
}

/* --- the way of a query --- */

/* What needs no look at the name: an rcode, or RCODE_NOERROR to go on. */
static unsigned
refusal(const struct query *query, enum query_result read)
{
	if (read == QUERY_FORMERR)
		return RCODE_FORMERR;
	if (query->opcode != 0)
		return RCODE_NOTIMP;
	if (query->edns_version > 0)
		return RCODE_BADVERS;
	if ((query->qclass != CLASS_IN && query->qclass != CLASS_CH) || query->qtype == TYPE_AXFR ||
	    query->qtype == TYPE_IXFR)
		return RCODE_REFUSED;
	return RCODE_NOERROR;
}

static enum answer_outcome
answer_question(struct reply *reply, const struct tree_path *path, struct answer_info *info)
{
	const struct query *query = reply->query;
	struct name name = { query->qname, query->labels, query->qname_len, query->label_count };
	struct addr addr;
	int bits;

	if (info->below >= 0) {
		if (reply->tree->synced)
			return answer_zone(
			    reply, &name, (unsigned)info->below, path, &info->target);
		set_rcode_and_soa(reply, NOT_READY, 0);
		return ANSWER_REPLY;
	}
	if ((bits = resolve_reverse_name(&name, &addr)) >= 0) {
		info->system = SYSTEM_REVERSE;
		return answer_reverse(reply, &addr, (unsigned)bits);
	}
	return answer_odd_reverse(reply, &name);
}

/*
 * A question whose answer names hosts, and their addresses. Not inlined: its stack is not every
 * question's.
 */
static __attribute__((noinline)) enum answer_outcome
answer_with_glue(struct reply *reply, const struct tree_path *path, struct answer_info *info)
{
	struct glue glue[GLUE_MAX]; /* 16 KB: of these only what is unique is read */

	reply->glue = glue;
	enum answer_outcome outcome = answer_question(reply, path, info);
	reply_glue(reply);
	reply->glue = NULL;
	return outcome;
}

static enum answer_outcome
finish(struct reply *reply, struct answer_info *info, enum answer_outcome outcome)
{
	info->len = reply_end(reply);
	info->rcode = (uint8_t)((reply->flags & 15) | reply->extended_rcode << 4);
	info->truncated = reply->truncated;
	return outcome;
}

void
answer_read(const struct answer_config *config, const uint8_t *query, size_t query_len,
    struct answer_info *info, struct tree_path *path)
{
	const struct query *q = &info->query;

	info->read = query_read(&info->query, query, query_len);
	path->labels = 0;
	if (info->read == QUERY_IGNORE)
		return;
	info->refused = (uint8_t)refusal(q, info->read);
	if (info->refused != RCODE_NOERROR || q->qclass == CLASS_CH)
		return;
	struct name name = { q->qname, q->labels, q->qname_len, q->label_count };
	info->below = name_below(&name, &config->zone);
	if (info->below > 0) {
		path->wire = q->qname;
		path->offsets = q->labels;
		path->labels = (unsigned)info->below;
	}
}

enum answer_outcome
answer_found(
    const struct answer_request *request, const struct tree_path *path, struct answer_info *info)
{
	const struct answer_context *context = request->tree->context;
	bool forwarding = context != NULL && context->forwarding;
	struct reply reply;

	info->system = SYSTEM_AUTH;
	info->len = 0;
	if (info->read == QUERY_IGNORE)
		return ANSWER_DROP;
	reply_begin(&reply, request, &info->query, forwarding);
	if (info->refused != RCODE_NOERROR) {
		reply.flags |= info->refused & 15u;
		reply.extended_rcode = info->refused >> 4;
		return finish(&reply, info, ANSWER_REPLY);
	}
	if (info->query.qclass == CLASS_CH) {
		answer_chaos(&reply);
		return finish(&reply, info, ANSWER_REPLY);
	}
	bool names_hosts = info->query.qtype == TYPE_SRV || info->query.qtype == TYPE_NS;
	enum answer_outcome outcome = names_hosts ? answer_with_glue(&reply, path, info)
						  : answer_question(&reply, path, info);
	if (outcome == ANSWER_FORWARD)
		info->system = SYSTEM_RECURSIVE;
	bool may_forward = forwarding && info->query.flags & FLAG_RD;
	if (outcome == ANSWER_FORWARD && may_forward)
		return outcome;
	if (outcome == ANSWER_FORWARD)
		reply.flags |= RCODE_REFUSED;
	/* Without a forwarder the CNAME alone is all there is to say. */
	return finish(
	    &reply, info, outcome == ANSWER_CHASE && may_forward ? ANSWER_CHASE : ANSWER_REPLY);
}

enum answer_outcome
answer(const struct answer_request *request, struct answer_info *info)
{
	struct tree_path path;

	answer_read(request->config, request->query, request->query_len, info, &path);
	tree_find_paths(request->tree, &path, 1);
	return answer_found(request, &path, info);
}

size_t
answer_rcode(const struct query *query, const uint8_t *wire, size_t wire_len, unsigned rcode,
    uint8_t *out, size_t max)
{
	static const struct answer_config none;
	const struct answer_request request = {
		.config = &none, .query = wire, .query_len = wire_len, .out = out, .max = max
	};
	struct query plain = *query;
	struct reply reply;

	plain.wants_nsid = false;
	reply_begin(&reply, &request, &plain, true); /* only names for the forwarder come here */
	reply.flags |= rcode & 15;
	reply.extended_rcode = rcode >> 4;
	return reply_end(&reply);
}
