/*
 * The external stage answers names of --external-zones. These zones have records of names and wildcards, CNAMEs to host names of load
 * balancers, and the SOA and NS records of the zones. Its external_answer() answers names of the clusterset stage too.
 */
#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/stage.h"
#include "lib/own_frame.h"

static void
put_soa(struct lookup *l, struct zone zone, const struct tree *tree, uint32_t ttl_s)
{
	struct reply *reply = l->reply;
	const struct zone_trees trees = { reply->tree, tree };
	uint32_t serial = zone_serial(reply->config, zone, &trees);
	uint8_t rdata[SOA_RDATA_MAX];

	reply_record(reply, zone_in_message(reply, &l->name, l->owner, zone.name), TYPE_SOA, ttl_s,
	    rdata, zone_soa(reply->config, zone, serial, rdata));
}

/* Makes the negative answer for a name in the zone. */
static enum step
deny(struct lookup *l, struct zone zone, const struct tree *tree, enum existence existence)
{
	reply_denial(l->reply, existence);
	put_soa(l, zone, tree, l->reply->config->negative_ttl_s);
	return STEP_DONE;
}

static const struct node *
find_target(const struct reply *reply, const struct tree *tree, const struct name *target)
{
	const struct zone zone = external_zone_of(reply->config, target);

	return zone.kind == ZONE_NONE
		   ? NULL
		   : external_find_name(reply->config, reply->tree, tree, target, zone).node;
}

/* Registers the targets of the NS or SRV records from offset `begin` on, if they are in our zones. Their addresses are then added to
 * the reply. */
static void
add_glue(struct reply *reply, size_t begin, uint16_t type, const struct tree *tree)
{
	size_t fixed = 12 + (type == TYPE_SRV ? 6 : 0);
	struct name_buf buf;

	while (begin < reply->w.len) {
		const uint8_t *record = reply->w.buf + begin;
		size_t len = 12u + wire_get16(record + 10) - fixed;
		const struct name target = name_copy(&buf, record + fixed, len);
		const struct node *node = NULL;

		/* The cluster's zone may be inside an external zone. */
		if (name_below(&target, &reply->config->zone) < 0)
			node = find_target(reply, tree, &target);

		if (node != NULL)
			reply_target(reply, begin + fixed, len, node);
		begin += fixed + len;
	}
}

/* Writes the records of this type at a node. Returns false if it has none. */
static bool
put_node(struct lookup *l, struct zone zone, const struct node *node, const struct tree *tree)
{
	struct reply *reply = l->reply;
	uint16_t qtype = reply->query->qtype;
	const struct rrset *set;
	size_t begin = reply->w.len;

	if (qtype == TYPE_SOA && l->name.len == zone.name->len) {
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

/* Writes SRV records whose targets are names in the external zone. The name of the Service is the query's name without its first
 * `skip` labels. */
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

/* --external-headless: writes the records of a name of a headless Service. */
OWN_FRAME static bool
put_headless(struct lookup *l, const struct dname *zone, const struct tree *tree)
{
	struct reply *reply = l->reply;
	uint16_t qtype = reply->query->qtype;
	unsigned below = (unsigned)name_below(&l->name, zone);
	uint8_t family = qtype == TYPE_A ? AF_INET : AF_INET6;
	bool address = qtype == TYPE_A || qtype == TYPE_AAAA;
	struct name_buf buf;
	struct resolved resolved;

	(void)tree;
	if (!external_config(reply->config)->headless ||
	    !external_find_headless(reply->config, reply->tree, &l->name, 0, zone, &buf, &resolved))
		return false;
	if (resolved.kind != RESOLVED_EMPTY && qtype == TYPE_ANY)
		reply_hinfo(reply, l->owner);
	else if (resolved.kind != RESOLVED_EMPTY && qtype == TYPE_SRV)
		put_headless_srv(l, below - 2, &resolved);
	else if (resolved.kind == RESOLVED_HEADLESS && address)
		reply_endpoint_set(reply, l->owner, resolved.endpoints, family);
	else if (resolved.kind == RESOLVED_ENDPOINT && address)
		reply_endpoints(reply, l->owner, &resolved, family);
	return true;
}

/* Writes the CNAME of an alias. Clients outside the cluster do not see the cluster's names, so a target in the cluster's
 * zone is not looked up. */
static enum step
put_alias(struct lookup *l, const struct rrset *cname)
{
	struct reply *reply = l->reply;
	struct dname *target = &l->info->target;

	target->len = (uint8_t)wire_get16(cname->data + 10);
	memcpy(target->wire, cname->data + 12, target->len);
	reply_rrset(reply, l->owner, cname);
	reply_existence(reply, FOUND, 0);
	if (dname_in_zone(target->wire, reply->config->zone.wire) >= 0)
		return STEP_DONE;
	l->beside = true;
	return STEP_ALIAS;
}

enum step
external_answer(
    struct lookup *l, enum stage_id stage, struct zone zone, external_put *put_endpoints)
{
	struct reply *reply = l->reply;
	const struct tree *tree = tree_current(external_config(reply->config)->tree);
	unsigned before = reply->counts[SECTION_ANSWER];
	const struct rrset *cname;

	if (tree == NULL || !tree->synced) {
		lookup_reason(l, stage, REASON_NOT_SYNCED, zone.name);
		reply_existence(reply, NOT_READY, 0);
		return STEP_DONE;
	}
	struct external_name found =
	    external_find_name(reply->config, reply->tree, tree, &l->name, zone);
	bool has_records = found.node != NULL && !found.wildcard && found.node->records != NULL;
	if (!has_records && put_endpoints(l, zone.name, tree)) {
		lookup_reason(l, stage, EXTERNAL_ENDPOINTS, zone.name);
		if (reply->counts[SECTION_ANSWER] == before && !reply->truncated)
			return deny(l, zone, tree, NODATA);
	} else if (found.node == NULL) {
		lookup_reason(l, stage, REASON_MISSING, zone.name);
		return deny(l, zone, tree, NXDOMAIN);
	} else {
		lookup_reason(
		    l, stage, found.wildcard ? REASON_WILDCARD : REASON_EXISTS, zone.name);
		cname = node_rrset(found.node, TYPE_CNAME);
		if (cname != NULL && reply->query->qtype != TYPE_ANY)
			return put_alias(l, cname);
		if (!put_node(l, zone, found.node, tree))
			return deny(l, zone, tree, NODATA);
	}
	reply_existence(reply, FOUND, 0);
	return STEP_DONE;
}

static enum step
external_pass(struct lookup *l)
{
	const struct zone zone = external_zone_of(l->reply->config, &l->name);

	if (zone.kind != ZONE_EXTERNAL)
		return STEP_NEXT;
	return external_answer(l, STAGE_external, zone, put_headless);
}

const struct stage stage_external = {
	.id = STAGE_external, .order = ORDER_BESIDE, .answer = external_pass
};
