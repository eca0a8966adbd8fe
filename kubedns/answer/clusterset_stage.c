/*
 * The clusterset stage answers names of --clusterset-domain. Services with a ClusterSetIP have their records in the tree, as
 * external names do. Names of headless ServiceImports are computed from packed endpoints in that tree, which
 * cluster/clusterset/clusterset.c writes:
 *
 *	SERVICE.NAMESPACE.svc.ZONE            the endpoints of all clusters, for A and AAAA
 *	 '- CLUSTER                           the endpoints of one cluster, with their host names
 *
 * `HOST.CLUSTER.SERVICE.NAMESPACE.svc.ZONE` is therefore found like an endpoint of a headless Service. SERVICE has the SRV records of all
 * its CLUSTERs.
 */
#include "kubedns/answer/external_zones.h"
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
		put->reply->work_left -= WORK_SLICE;
	return reply_goes_on(put->reply);
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

/* Writes the records of a name of a headless ServiceImport, and the addresses of their targets, from the clusterset's
 * tree. */
static void
put_import(
    struct reply *reply, size_t owner, const struct tree *tree, const struct resolved *resolved)
{
	uint16_t qtype = reply->query->qtype;
	const struct tree *own = reply->tree;
	bool ordered = reply->ordered;
	bool address = qtype == TYPE_A || qtype == TYPE_AAAA;
	uint8_t family = qtype == TYPE_A ? AF_INET : AF_INET6;

	reply->tree = tree; /* `resolved` and the targets of SRV records belong to this tree */
	reply->ordered = false;
	if (qtype == TYPE_ANY)
		reply_hinfo(reply, owner);
	else if (qtype == TYPE_SRV)
		put_srv(reply, owner, resolved);
	else if (address && resolved->kind == RESOLVED_HEADLESS)
		reply_endpoint_set(reply, owner, resolved->endpoints, family);
	else if (address && resolved->kind == RESOLVED_ENDPOINT)
		reply_endpoints(reply, owner, resolved, family);
	if (reply->glue_count > 0)
		reply_glue(reply);
	reply->glue_count = 0;
	reply->tree = own;
	reply->ordered = ordered;
}

OWN_FRAME static bool
put_imported(struct lookup *l, const struct dname *zone, const struct tree *tree)
{
	struct resolved resolved;

	(void)zone;
	resolved.kind = import_resolve(tree, &l->name, &resolved);
	if (resolved.kind == RESOLVED_NODE || resolved.kind == RESOLVED_NOTHING)
		return false;
	if (resolved.kind != RESOLVED_EMPTY)
		put_import(l->reply, l->owner, tree, &resolved);
	return true;
}

static enum step
clusterset_answer(struct lookup *l)
{
	const struct zone zone = external_zone_of(l->reply->config, &l->name);

	if (zone.kind != ZONE_CLUSTERSET)
		return STEP_NEXT;
	return external_answer(l, STAGE_clusterset, zone, put_imported);
}

const struct stage stage_clusterset = {
	.id = STAGE_clusterset, .order = ORDER_BESIDE, .answer = clusterset_answer
};
