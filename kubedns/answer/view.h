/*
 * The view of a client. With --visibility, it contains what the pods of the client's namespace may
 * see of the cluster. With --nearest and --client-pods=all, it contains the client's place
 * (nearest.h).
 *
 * A view is a small copy of struct tree with `view` set. Code that finds a namespace, a Service or
 * the owner of an address in the view checks here whether the client may see it. Hidden names are
 * answered as if they did not exist: rcode, TTL, SOA and extended error are the same as for a
 * missing name. Without these flags, `view` is NULL. Then each of these lookups costs one test.
 *
 *	client's address --pods4, pods6--> number of its namespace --struct visibility--> names that it sees
 *	client's address --places4, places6--> number of its node --struct node_places--> place
 *
 * Every client is one of
 *	a pod		It sees its own namespace and the namespaces in the lists.
 *	127.0.0.1, ::1	A container of this pod: the nanny, or the sidecar's probes and queries. On
 *			the host's network, also any process of the node that uses this address.
 *			It sees everything.
 *	unknown		A client that is no pod, a pod on its host's network, or a pod whose
 *			namespace is unknown. --visibility-unknown decides what such a client
 *			sees. The nanny and the sidecar of node-local are unknown too. They send
 *			queries to 169.254.20.10, and therefore from that address, like any
 *			process of the node.
 *
 * The API determines which pod has an address. Until the API reports a new pod, that pod may be
 * mistaken for the previous pod with the same address.
 */
#ifndef KUBEDNS_ANSWER_VIEW_H
#define KUBEDNS_ANSWER_VIEW_H

#include "kubedns/answer/answer.h"
#include "kubedns/cluster/tree_content.h"
#include "treecache/treecache.h"

/* --visibility, and --nearest or --zonal with --client-pods=all. */
struct view_config {
	bool visibility;       /* clients see only what their namespace may see */
	bool unknown_sees_all; /* --visibility-unknown=all */
	bool pod_places;       /* a client's place is the place of its pod */
};

struct view {
	/* A copy of the tree, whose `view` points to this struct. */
	struct tree tree;
	/* True if the client sees only names that `visibility` allows. False if it sees all
	 * names. */
	bool limited;
	/* NULL if no table has been made yet. Then no name is visible. */
	const struct visibility *visibility;
	uint32_t client;           /* number of its namespace, or 0 if it is unknown */
	struct client_place place; /* with pod_places: the client's place */
};

/* Returns whether some names may be hidden from the client. */
static inline bool
view_limited(const struct tree *tree)
{
	const struct view *view = tree->view;

	return view != NULL && view->limited;
}

enum view_client { VIEW_POD, VIEW_LOCAL, VIEW_UNKNOWN };

/*
 * Returns the snapshot as the client with this address may see it. The result is `view->tree`, or
 * `tree` if no restrictions apply. With --visibility, sets `*client` to the kind of client. Without
 * --visibility, every client counts as local.
 */
const struct tree *view_of(struct view *view, const struct view_config *config,
    const struct tree *tree, const struct addr *addr, enum view_client *client);

/* Returns whether the client sees the whole namespace at this node. */
bool view_sees(const struct tree *tree, const struct node *namespace);

/* Returns whether the client sees this Service of the namespace. */
bool view_sees_service(
    const struct tree *tree, const struct node *namespace, const struct node *service);

/* Returns whether the client sees the Service of this owner. */
bool view_sees_owner(const struct tree *tree, const struct owner *owner);

/* `path` was looked up in the whole tree. Shortens it to the part that the client may see. */
void view_cut_path(const struct tree *tree, struct tree_path *path);

/* view_namespace() returns the namespace with this label, or NULL if the client sees no part of
 * it. view_service() returns the Service with this label, or NULL if the client does not see it. */
const struct node *view_namespace(const struct tree *tree, const uint8_t *label);
const struct node *view_service(
    const struct tree *tree, const struct node *namespace, const uint8_t *label);

#endif
