/* The flags for answers by where the client is. */
#include <errno.h>

#include "kubedns/options_internal.h"

/* What --nearest cannot be together with; NULL: nothing. */
static const char *
nearest_conflict(const struct options *o)
{
	if (options_behind_dnsmasq(o))
		return "behind dnsmasq, as in the classic topology, dnsmasq is the only client, "
		       "and its "
		       "cache gives all pods what is near one: use the front topology "
		       "(--resolver), or "
		       "--dns-port=53";
	if (o->node_role && *o->node_name == '\0' && *o->zone == '\0')
		return "which node is it? give --node-name, in a pod --node-name=$(NODE_NAME) with "
		       "the "
		       "variable from the field spec.nodeName, and --zone";
	if (!o->node_role && o->client_pods != CLIENT_PODS_ALL)
		return "where a client is, is known from the pods: add --client-pods=all; or for a "
		       "pod "
		       "on every node --node-role";
	return NULL;
}

int
options_read_nearest(struct options *o)
{
	struct answer_config *a = &o->answers;
	const char *flag = o->nearest_only ? "nearest-only" : "nearest", *conflict;

	a->nearest_only = o->nearest_only;
	a->nearest = o->nearest || o->nearest_only;
	a->zonal = o->zonal;
	a->pod_places =
	    (a->nearest || a->zonal) && !o->node_role && o->client_pods == CLIENT_PODS_ALL;
	a->views = a->visibility || a->pod_places;
	if (o->node_role && (a->nearest || a->zonal)) {
		o->place = client_place_of(o->node_name, o->zone);
		a->place = &o->place;
	}
	if (!a->nearest && !a->zonal && *o->zone != '\0')
		return options_refuse("zone", o->zone,
		    "answers do not depend on it yet: add --nearest, --nearest-only or --zonal, or "
		    "leave it out");
	if (!o->node_role && *o->zone != '\0')
		return options_refuse("zone", o->zone,
		    "is the zone of the node whose pods ask this kubedns: it needs --node-role");
	conflict = a->nearest ? nearest_conflict(o) : NULL;
	return conflict == NULL ? 0 : options_refuse(flag, NULL, conflict);
}
