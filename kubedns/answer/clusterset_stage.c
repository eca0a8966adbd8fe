/*
 * The clusterset stage: names of --clusterset-domain. Those of headless ServiceImports are made here: their endpoints are in the tree of the zones for outside, packed (by
 * cluster/clusterset.c):
 *
 *	SERVICE.NAMESPACE.svc.ZONE            the endpoints of all clusters: A, AAAA, how many SRV records
 *	 '- CLUSTER                           those of one cluster, with their host names
 *
 * so `HOST.CLUSTER.SERVICE...` is found as an endpoint of a headless Service is, and the SRV records at and
 * below SERVICE are those of each CLUSTER.
 */
#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/reply_internal.h"
#include "kubedns/answer/stage.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/own_frame.h"

struct put {
	struct reply *reply;
	size_t owner;
	uint64_t port_label;
	unsigned weight;
};

static bool
put_cluster_srv(void *arg, const struct node *node)
{
	const struct put *put = arg;
	size_t had = put->reply->w.len;

	if (node->flags & NODE_IMPORT_CLUSTER) {
		const struct dname cluster = import_owner_name(node->endpoints->owner);

		reply_weighted_srv(put->reply, put->owner, node->endpoints, put->port_label,
		    &cluster, put->weight);
	}
	if (put->reply->w.len == had)
		put->reply->passed += PASSED_SLICE;
	return !put->reply->full && put->reply->passed < PASSED_MAX;
}

static void
put_srv(struct reply *reply, size_t owner, const struct resolved *resolved)
{
	if (resolved->kind == RESOLVED_ENDPOINT) {
		const struct dname cluster = import_owner_name(resolved->endpoints->owner);

		reply_endpoints_srv(reply, owner, resolved, &cluster);
		return;
	}
	struct put put = { reply, owner, resolved->port_label,
		endpoint_set_weight(resolved->endpoints) };
	tree_children_until(resolved->node, put_cluster_srv, &put);
}

/* The records of the question's type at a name of a headless import, and their targets' addresses, from this tree. */
static void
reply_import(
    struct reply *reply, size_t owner, const struct tree *tree, const struct resolved *resolved)
{
	uint16_t qtype = reply->query->qtype;
	const struct tree *own = reply->tree;
	bool ordered = reply->ordered;

	if (resolved->kind == RESOLVED_EMPTY)
		return;
	reply->tree = tree; /* to which `resolved` and the targets of SRV records belong */
	reply->ordered = false;
	if (qtype == TYPE_ANY)
		reply_hinfo(reply, owner);
	else if (qtype == TYPE_SRV)
		put_srv(reply, owner, resolved);
	else if (qtype != TYPE_A && qtype != TYPE_AAAA)
		;
	else if (resolved->kind == RESOLVED_HEADLESS)
		reply_endpoint_set(
		    reply, owner, resolved->endpoints, qtype == TYPE_A ? AF_INET : AF_INET6);
	else if (resolved->kind == RESOLVED_ENDPOINT)
		reply_endpoints(reply, owner, resolved, qtype == TYPE_A ? AF_INET : AF_INET6);
	if (reply->glue_count > 0)
		reply_glue(reply);
	reply->glue_count = 0;
	reply->tree = own;
	reply->ordered = ordered;
}

static bool
clusterset_on(const struct answer_config *config)
{
	return config->external != NULL && config->external->clusterset != NULL;
}

static bool
clusterset_match(
    const struct answer_config *config, const struct tree *tree, const struct name *name, int below)
{
	(void)tree;
	return below < 0 &&
	       external_zone_of(config->external, name) == config->external->clusterset;
}

OWN_FRAME static enum step
clusterset_answer(struct lookup *l)
{
	struct reply *reply = l->reply;
	const struct external_zones *zones = reply->config->external;
	unsigned before = reply->counts[SECTION_ANSWER];
	struct resolved resolved;

	if (external_zone_of(zones, &l->name) != zones->clusterset)
		return STEP_NEXT;
	const struct tree *tree = tree_current(zones->tree);
	if (tree == NULL || !tree->synced) {
		reply_existence(reply, NOT_READY, 0);
		return STEP_DONE;
	}
	resolved.kind = import_resolve(tree, &l->name, &resolved);
	if (resolved.kind == RESOLVED_NODE)
		return external_answer(l, zones->clusterset, tree);
	if (resolved.kind != RESOLVED_NOTHING)
		reply_import(reply, l->owner, tree, &resolved);
	if (reply->counts[SECTION_ANSWER] == before && !reply->truncated)
		return external_deny(l, zones->clusterset, tree,
		    resolved.kind == RESOLVED_NOTHING ? NXDOMAIN : NODATA);
	reply->flags |= FLAG_AA;
	return STEP_DONE;
}

const struct stage stage_clusterset = { .id = STAGE_clusterset,
	.turn = TURN_BESIDE,
	.on = clusterset_on,
	.match = clusterset_match,
	.answer = clusterset_answer };
