/*
 * The external stage: names of the zones for the world outside, their records, wildcards, aliases of load balancers' host
 * names, and the zones' own SOA and NS.
 */
#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/reply_internal.h"
#include "kubedns/answer/soa.h"
#include "kubedns/answer/stage.h"
#include "lib/own_frame.h"

static void
put_soa(struct lookup *l, const struct dname *zone, const struct tree *tree, uint32_t ttl_s)
{
	struct reply *reply = l->reply;
	const struct external_zones *zones = reply->config->external;
	const struct soa soa = { .zone = zone,
		.primary = external_primary(zones, zone),
		.serial = external_serial(zones, reply->tree, tree),
		.minimum_s = reply->config->negative_ttl_s };
	uint8_t rdata[SOA_RDATA_MAX];

	reply_record(reply, zone_in_message(reply, &l->name, l->owner, zone), TYPE_SOA, ttl_s,
	    rdata, soa_write(&soa, rdata));
}

enum step
external_deny(
    struct lookup *l, const struct dname *zone, const struct tree *tree, enum existence existence)
{
	struct reply *reply = l->reply;

	reply->flags |= FLAG_AA | (existence == NXDOMAIN ? RCODE_NXDOMAIN : 0u);
	reply->section = SECTION_AUTHORITY;
	put_soa(l, zone, tree, reply->config->negative_ttl_s);
	return STEP_DONE;
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
put_node(
    struct lookup *l, const struct dname *zone, const struct node *node, const struct tree *tree)
{
	struct reply *reply = l->reply;
	uint16_t qtype = reply->query->qtype;
	const struct rrset *set;
	size_t begin = reply->w.len;

	if (qtype == TYPE_SOA && l->name.len == zone->len) {
		put_soa(l, zone, tree, reply->config->ttl_s);
		return true;
	}
	if (qtype == TYPE_ANY && node->records != NULL) {
		reply_hinfo(reply, l->owner);
		return true;
	}
	if ((set = node_rrset(node, qtype)) == NULL)
		return false;
	reply_rrset(reply, l->owner, set);
	if (qtype == TYPE_NS || qtype == TYPE_SRV)
		add_glue(reply, begin, qtype, tree);
	return true;
}

/* SRV records whose targets are names of the zone too: those of the Service's endpoints below the
 * name at hand without its first `skip` labels. */
static void
put_headless_srv(struct lookup *l, unsigned skip, const struct resolved *resolved)
{
	struct reply *reply = l->reply;
	struct dname service;
	size_t begin = l->name.offsets[skip];

	service.len = (uint8_t)(l->name.len - begin);
	memcpy(service.wire, l->name.wire + begin, service.len);
	if (resolved->kind == RESOLVED_ENDPOINT)
		reply_endpoints_srv(reply, l->owner, resolved, &service);
	else
		reply_endpoint_set_srv(reply, l->owner, resolved->endpoints,
		    resolved->kind == RESOLVED_PORT ? resolved->port_label : 0, &service);
}

/* A name that has no records in the zone's tree, or a wildcard's; false: it is no headless
 * Service's. */
OWN_FRAME static bool
answer_headless(struct lookup *l, const struct dname *zone, const struct tree *tree)
{
	struct reply *reply = l->reply;
	uint16_t qtype = reply->query->qtype;
	unsigned before = reply->counts[SECTION_ANSWER];
	unsigned below = (unsigned)name_below(&l->name, zone);
	uint8_t family = qtype == TYPE_A ? AF_INET : AF_INET6;
	struct name_buf buf;
	struct resolved resolved;

	if (!external_find_headless(reply->config, reply->tree, &l->name, 0, zone, &buf, &resolved))
		return false;
	bool address = qtype == TYPE_A || qtype == TYPE_AAAA;
	if (resolved.kind != RESOLVED_EMPTY && qtype == TYPE_ANY)
		reply_hinfo(reply, l->owner);
	else if (resolved.kind != RESOLVED_EMPTY && qtype == TYPE_SRV)
		put_headless_srv(l, below - 2, &resolved);
	else if (resolved.kind == RESOLVED_HEADLESS && address)
		reply_endpoint_set(reply, l->owner, resolved.endpoints, family);
	else if (resolved.kind == RESOLVED_ENDPOINT && address)
		reply_endpoints(reply, l->owner, &resolved, family);
	if (reply->counts[SECTION_ANSWER] > before || reply->truncated)
		reply->flags |= FLAG_AA;
	else
		external_deny(l, zone, tree, NODATA);
	return true;
}

/* Puts the alias's CNAME. The cluster's own names are nobody's business outside. */
static enum step
put_alias(struct lookup *l, const struct rrset *cname)
{
	struct reply *reply = l->reply;
	struct dname *target = &l->info->target;

	target->len = (uint8_t)wire_get16(cname->data + 10);
	memcpy(target->wire, cname->data + 12, target->len);
	reply_rrset(reply, l->owner, cname);
	reply->flags |= FLAG_AA;
	if (dname_in_zone(target->wire, reply->config->zone.wire) >= 0)
		return STEP_DONE;
	l->beside = true;
	return STEP_ALIAS;
}

enum step
external_answer(struct lookup *l, const struct dname *zone, const struct tree *tree)
{
	struct reply *reply = l->reply;
	const struct external_zones *zones = reply->config->external;
	struct external_name found =
	    external_find_name(reply->config, reply->tree, tree, &l->name, zone);
	const struct rrset *cname;

	if (zones->headless && zone != zones->clusterset &&
	    (found.node == NULL || found.wildcard || found.node->records == NULL) &&
	    answer_headless(l, zone, tree))
		return STEP_DONE;
	if (found.node == NULL)
		return external_deny(l, zone, tree, NXDOMAIN);
	cname = node_rrset(found.node, TYPE_CNAME);
	if (cname != NULL && reply->query->qtype != TYPE_ANY)
		return put_alias(l, cname);
	if (!put_node(l, zone, found.node, tree))
		return external_deny(l, zone, tree, NODATA);
	reply->flags |= FLAG_AA;
	return STEP_DONE;
}

static bool
external_on(const struct answer_config *config)
{
	return config->external != NULL;
}

static bool
external_match(
    const struct answer_config *config, const struct tree *tree, const struct name *name, int below)
{
	const struct dname *zone = external_zone_of(config->external, name);

	(void)tree;
	return below < 0 && zone != NULL && zone != config->external->clusterset;
}

static enum step
external_pass(struct lookup *l)
{
	const struct external_zones *zones = l->reply->config->external;
	const struct dname *zone = external_zone_of(zones, &l->name);

	if (zone == NULL || zone == zones->clusterset)
		return STEP_NEXT;
	const struct tree *tree = tree_current(zones->tree);
	if (tree == NULL || !tree->synced) {
		reply_existence(l->reply, NOT_READY, 0);
		return STEP_DONE;
	}
	return external_answer(l, zone, tree);
}

const struct stage stage_external = { .id = STAGE_external,
	.turn = TURN_BESIDE,
	.on = external_on,
	.match = external_match,
	.answer = external_pass };
