/*
 * Who a client is. With --visibility: what the pods of its namespace may see of the cluster; with --nearest
 * and --client-pods=all: where it is (nearest.h).
 *
 * A view is a reader's own copy of struct tree, a few words, with `view` set. Code that looks up a
 * namespace, a Service or the owner of an address in it asks here whether this reader may see it. What
 * is hidden is answered as if it did not exist: rcode, TTL, SOA and extended error are those of a name
 * that nobody has. Without either flag `view` is NULL, which costs a test at each of these places.
 *
 *	client's address --pods4, pods6--> number of its namespace --struct visibility--> what it sees
 *	client's address --places4, places6--> number of its node --struct node_places--> where it is
 *
 * Every client is one of
 *	a pod		it sees its namespace and those that the lists name
 *	127.0.0.1, ::1	a container of this pod: the nanny, the sidecar's probes and questions. On the host's network
 *			also any process of the node that asks from there. It sees everything
 *	unknown		no pod, one on its host's network, or of a namespace that cannot be told:
 *			--visibility-unknown says. So are nanny and sidecar of node-local, who ask at
 *			169.254.20.10 and thus from it, as any process of the node does
 *
 * The address is a pod's as the API told last: until it tells of a new pod, that may be taken for the one
 * that had the address before.
 */
#ifndef KUBEDNS_ANSWER_VIEW_H
#define KUBEDNS_ANSWER_VIEW_H

#include "kubedns/answer/answer.h"
#include "kubedns/cluster/tree_content.h"
#include "treecache/treecache.h"

struct view {
	struct tree tree;                    /* a copy, whose `view` this is */
	bool limited;                        /* it sees what `visibility` says, else all */
	const struct visibility *visibility; /* NULL: none is made yet; nothing is seen */
	uint32_t client;                     /* its namespace's number; 0: unknown */
	struct client_place place;           /* with pod_places: where it is */
};

/* Whether the reader may not see all. */
static inline bool
view_limited(const struct tree *tree)
{
	const struct view *view = tree->view;

	return view != NULL && view->limited;
}

/* Where the reader is; its members are 0 if that is not known. */
static inline struct client_place
view_place(const struct answer_config *config, const struct tree *tree)
{
	const struct view *view = tree->view;

	return config->place != NULL ? *config->place
	       : view != NULL        ? view->place
				     : (struct client_place){ 0 };
}

enum view_client { VIEW_POD, VIEW_LOCAL, VIEW_UNKNOWN };

/*
 * The snapshot as the client with this address may see it: `view->tree`, or `tree` if it is nobody in
 * particular. Into `*client` who it is, for --visibility; without it every client is as good as local.
 */
const struct tree *view_of(struct view *view, const struct answer_config *config,
    const struct tree *tree, const struct addr *addr, enum view_client *client);

/* Whether the reader sees all of the namespace at this node. */
bool view_sees(const struct tree *tree, const struct node *namespace);

/* Whether it sees this Service of the namespace. */
bool view_sees_service(
    const struct tree *tree, const struct node *namespace, const struct node *service);

/* Whether it sees the Service that this owner is. */
bool view_sees_owner(const struct tree *tree, const struct owner *owner);

/* Of a path below the zone that was looked up in the whole tree: cuts off what the reader does not
 * see. */
void view_cut_path(const struct tree *tree, struct tree_path *path);

/* The namespace with this label, NULL if the reader sees nothing of it; the Service with this label. */
const struct node *view_namespace(const struct tree *tree, const uint8_t *label);
const struct node *view_service(
    const struct tree *tree, const struct node *namespace, const uint8_t *label);

#endif
