/*
 * Names of the zones for the world outside and of a cluster set: their records, wildcards, aliases of
 * load balancers' host names, and the zones' own SOA and NS.
 */
#include <string.h>

#include "kubedns/answer/answer_internal.h"
#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/reply_internal.h"
#include "kubedns/answer/soa.h"

enum { CNAME_STEPS_MAX = 8 };

/* Where the answer is: a name, its zone, and the offset of its owner in the message. */
struct at {
	struct name name;
	const struct dname *zone;
	size_t owner;
	struct name_buf buf;            /* of a CNAME's target */
	size_t owners[CNAME_STEPS_MAX]; /* of the aliases that led here */
	unsigned owner_count;
};

static void
put_soa(struct reply *reply, const struct at *at, const struct tree *tree, uint32_t ttl_s)
{
	const struct external_zones *zones = reply->config->external;
	const struct soa soa = { .zone = at->zone,
		.primary = external_primary(zones, at->zone),
		.serial = external_serial(zones, reply->tree, tree),
		.minimum_s = reply->config->negative_ttl_s };
	uint8_t rdata[SOA_RDATA_MAX];

	reply_record(reply, zone_in_message(reply, &at->name, at->owner, at->zone), TYPE_SOA, ttl_s,
	    rdata, soa_write(&soa, rdata));
}

static void
set_denial(
    struct reply *reply, const struct at *at, const struct tree *tree, enum existence existence)
{
	reply->flags |= FLAG_AA | (existence == NXDOMAIN ? RCODE_NXDOMAIN : 0u);
	reply->section = SECTION_AUTHORITY;
	put_soa(reply, at, tree, reply->config->negative_ttl_s);
}

/* The addresses, in our zones, of what the NS or SRV records from offset `begin` on point to. */
static void
add_glue(struct reply *reply, size_t begin, uint16_t type, const struct tree *tree)
{
	size_t fixed = 12 + (type == TYPE_SRV ? 6 : 0);
	struct name_buf buf;

	while (begin < reply->w.len) {
		const uint8_t *record = reply->w.buf + begin;
		size_t len = 12u + wire_get16(record + 10) - fixed;
		const struct name target = name_copy(&buf, record + fixed, len);
		const struct dname *zone =
		    name_below(&target, &reply->config->zone) >= 0
			? NULL /* the cluster's, whoever claims it for the outside */
			: external_zone_of(reply->config->external, &target);
		const struct node *node =
		    zone == NULL
			? NULL
			: external_find_name(reply->config, reply->tree, tree, &target, zone).node;
		if (node != NULL)
			reply_target(reply, begin + fixed, len, node);
		begin += fixed + len;
	}
}

/* The records of this type at a node; false: it has none. */
static bool
put_node(struct reply *reply, const struct at *at, const struct node *node, const struct tree *tree)
{
	uint16_t qtype = reply->query->qtype;
	const struct rrset *set;
	size_t begin = reply->w.len;

	if (qtype == TYPE_SOA && at->name.len == at->zone->len) {
		put_soa(reply, at, tree, reply->config->ttl_s);
		return true;
	}
	if (qtype == TYPE_ANY && node->records != NULL) {
		put_hinfo(reply, at->owner);
		return true;
	}
	if ((set = node_rrset(node, qtype)) == NULL)
		return false;
	reply_rrset(reply, at->owner, set);
	if (qtype == TYPE_NS || qtype == TYPE_SRV)
		add_glue(reply, begin, qtype, tree);
	return true;
}

/* Whether the target owns one of the CNAMEs that led to it. */
static bool
is_loop(const struct reply *reply, const struct at *at, const struct dname *target)
{
	for (unsigned i = 0; i < at->owner_count; i++)
		if (dname_equal(reply->w.buf + at->owners[i], target->wire))
			return true;
	return false;
}

/* Puts the alias's CNAME and goes on to its target; false: it ends there. */
static bool
step(struct reply *reply, struct at *at, const struct rrset *cname, struct dname *target)
{
	const uint8_t *rdata = cname->data + 12;
	uint16_t qtype = reply->query->qtype;

	target->len = (uint8_t)wire_get16(cname->data + 10);
	memcpy(target->wire, rdata, target->len);
	reply_rrset(reply, at->owner, cname);
	if (!alias_is_followed(qtype) || reply->truncated)
		return false;
	at->owners[at->owner_count++] = at->owner;
	if (at->owner_count == CNAME_STEPS_MAX || is_loop(reply, at, target))
		return false;
	at->name = name_copy(&at->buf, target->wire, target->len);
	at->owner = reply->w.len - target->len;
	/* The cluster's own names are no names of a zone around --domain. */
	at->zone = name_below(&at->name, &reply->config->zone) >= 0
		       ? NULL
		       : external_zone_of(reply->config->external, &at->name);
	return true;
}

/*
 * --external-headless: the name without its first `skip` labels, `[HOST.|_PORT._PROTO.]SERVICE.NAMESPACE`
 * in the zone, is looked up as the cluster's `[HOST.|_PORT._PROTO.]SERVICE.NAMESPACE.svc`, into `buf`,
 * to which `resolved` may point. Headless Services only. A namespace exists if one in it does (RFC 8020).
 */
static bool
find_headless(const struct answer_config *config, const struct tree *tree, const struct name *asked,
    unsigned skip, const struct dname *zone, struct name_buf *buf, struct resolved *resolved)
{
	static const uint8_t svc[] = "\3svc";
	unsigned below = (unsigned)name_below(asked, zone) - skip;
	const struct dname *own = &config->zone;
	size_t begin = asked->offsets[skip], len = (size_t)asked->len - zone->len - begin,
	       size = len + sizeof svc - 1 + own->len;
	struct dname inside;

	if (below < 1 || below > 4 || size > DNAME_MAX || !tree->synced)
		return false;
	memcpy(inside.wire, asked->wire + begin, len);
	memcpy(inside.wire + len, svc, sizeof svc - 1);
	memcpy(inside.wire + len + sizeof svc - 1, own->wire, own->len);
	const struct name name = name_copy(buf, inside.wire, size);
	resolved->endpoints = NULL;
	resolve(config, tree, &name, below + 1, NULL, resolved);
	switch (resolved->kind) {
	case RESOLVED_EMPTY: /* the namespace, or `_PROTO` */
		return below == 1 ? (resolved->node->flags & NODE_HAS_HEADLESS) != 0
				  : below == 3 && resolved->endpoints != NULL;
	case RESOLVED_HEADLESS:
		return below == 2;
	case RESOLVED_ENDPOINT:
		return below == 3 && resolved->endpoints->flags & ENDPOINTS_APEX;
	case RESOLVED_PORT:
		return true;
	default:
		return false;
	}
}

/* A wildcard stands for no name below a headless Service's, or below its namespace: the closest encloser
 * is there (RFC 4592 section 3.3.1). */
struct external_name
external_find_name(const struct answer_config *config, const struct tree *tree,
    const struct tree *external, const struct name *name, const struct dname *zone)
{
	struct external_name found = external_lookup(external, name, zone);
	struct name_buf buf;
	struct resolved resolved;

	if (found.node == NULL || !found.wildcard || !config->external->headless ||
	    zone == config->external->clusterset)
		return found;
	unsigned below = (unsigned)name_below(name, zone);
	for (unsigned skip = below > 4 ? below - 4 : 1; skip < found.missing; skip++)
		if (find_headless(config, tree, name, skip, zone, &buf, &resolved))
			return (struct external_name){ .node = NULL };
	return found;
}

/* SRV records whose targets are names of the zone too: those of the Service's endpoints below the
 * name at hand without its first `skip` labels. */
static void
put_headless_srv(
    struct reply *reply, const struct at *at, unsigned skip, const struct resolved *resolved)
{
	struct dname service;
	size_t begin = at->name.offsets[skip];

	service.len = (uint8_t)(at->name.len - begin);
	memcpy(service.wire, at->name.wire + begin, service.len);
	if (resolved->kind == RESOLVED_ENDPOINT)
		reply_endpoints_srv(reply, at->owner, resolved, &service);
	else
		reply_endpoint_set_srv(reply, at->owner, resolved->endpoints,
		    resolved->kind == RESOLVED_PORT ? resolved->port_label : 0, &service);
}

/* A name that has no records in the zone's tree, or a wildcard's; false: it is no headless
 * Service's. Not inlined: other queries need not touch its stack. */
static __attribute__((noinline)) bool
answer_headless(struct reply *reply, const struct at *at, const struct tree *tree)
{
	uint16_t qtype = reply->query->qtype;
	unsigned before = reply->counts[SECTION_ANSWER];
	unsigned below = (unsigned)name_below(&at->name, at->zone);
	uint8_t family = qtype == TYPE_A ? AF_INET : AF_INET6;
	struct name_buf buf;
	struct resolved resolved;

	if (!find_headless(reply->config, reply->tree, &at->name, 0, at->zone, &buf, &resolved))
		return false;
	bool address = qtype == TYPE_A || qtype == TYPE_AAAA;
	if (resolved.kind != RESOLVED_EMPTY && qtype == TYPE_ANY)
		put_hinfo(reply, at->owner);
	else if (resolved.kind != RESOLVED_EMPTY && qtype == TYPE_SRV)
		put_headless_srv(reply, at, below - 2, &resolved);
	else if (resolved.kind == RESOLVED_HEADLESS && address)
		reply_endpoint_set(reply, at->owner, resolved.endpoints, family);
	else if (resolved.kind == RESOLVED_ENDPOINT && address)
		reply_endpoints(reply, at->owner, &resolved, family);
	if (reply->counts[SECTION_ANSWER] > before || reply->truncated)
		reply->flags |= FLAG_AA;
	else
		set_denial(reply, at, tree, NODATA);
	return true;
}

/* A name of the cluster set's zone; false: its records are at a node of the tree. */
static __attribute__((noinline)) bool
answer_import(struct reply *reply, const struct at *at, const struct tree *tree)
{
	unsigned before = reply->counts[SECTION_ANSWER];
	struct resolved resolved;

	resolved.kind = import_resolve(tree, &at->name, &resolved);
	if (resolved.kind == RESOLVED_NODE)
		return false;
	if (resolved.kind != RESOLVED_NOTHING)
		reply_import(reply, at->owner, tree, &resolved);
	if (reply->counts[SECTION_ANSWER] > before || reply->truncated)
		reply->flags |= FLAG_AA;
	else
		set_denial(reply, at, tree, resolved.kind == RESOLVED_NOTHING ? NXDOMAIN : NODATA);
	return true;
}

/* Not inlined: other queries need not touch its stack. */
__attribute__((noinline)) enum answer_outcome
answer_external(struct reply *reply, const struct name *name, size_t owner, struct dname *chase)
{
	const struct external_zones *zones = reply->config->external;
	struct at at = { .name = *name, .zone = external_zone_of(zones, name), .owner = owner };
	const struct rrset *cname;

	if (at.zone == NULL)
		return ANSWER_FORWARD;
	const struct tree *tree = tree_current(zones->tree);
	if (tree == NULL || !tree->synced) {
		set_rcode_and_soa(reply, NOT_READY, 0);
		return ANSWER_REPLY;
	}
	for (;;) {
		if (at.zone == zones->clusterset && answer_import(reply, &at, tree))
			return ANSWER_REPLY;
		struct external_name found =
		    external_find_name(reply->config, reply->tree, tree, &at.name, at.zone);
		if (zones->headless && at.zone != zones->clusterset &&
		    (found.node == NULL || found.wildcard || found.node->records == NULL) &&
		    answer_headless(reply, &at, tree))
			return ANSWER_REPLY;
		if (found.node == NULL) {
			set_denial(reply, &at, tree, NXDOMAIN);
			return ANSWER_REPLY;
		}
		cname = node_rrset(found.node, TYPE_CNAME);
		if (cname == NULL || reply->query->qtype == TYPE_ANY) {
			if (put_node(reply, &at, found.node, tree))
				break;
			set_denial(reply, &at, tree, NODATA);
			return ANSWER_REPLY;
		}
		if (!step(reply, &at, cname, chase))
			break;
		if (at.zone != NULL)
			continue;
		reply->flags |= FLAG_AA;
		/* The cluster's own names are nobody's business outside. */
		return name_below(&at.name, &reply->config->zone) >= 0 ? ANSWER_REPLY
								       : ANSWER_CHASE;
	}
	reply->flags |= FLAG_AA;
	return ANSWER_REPLY;
}
