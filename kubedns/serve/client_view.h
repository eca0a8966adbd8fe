/*
 * The snapshot of the cluster as a client may see it (answer/view.h). Where clients are not told apart it
 * is the snapshot itself, and the client's address is not looked at.
 */
#ifndef KUBEDNS_SERVE_CLIENT_VIEW_H
#define KUBEDNS_SERVE_CLIENT_VIEW_H

#include <sys/socket.h>

#include "kubedns/answer/view.h"
#include "kubedns/serve/worker_context.h"
#include "lib/xalloc.h"

static inline const struct tree *
client_view_make(struct worker_context *context, const struct tree *tree,
    const struct sockaddr *client, enum view_client *who)
{
	struct server from;

	if (context->view == NULL)
		context->view = xcalloc(1, sizeof *context->view);
	server_from_sockaddr(client, &from); /* an unknown family is nobody's address */
	return view_of(context->view, context->answers, tree, &from.addr, who);
}

/* Of a query that has just been read: counts it, if nobody knows who asks. Good until the worker's next
 * call, inside of the same read section. */
static inline const struct tree *
client_view(struct worker_context *context, const struct tree *tree, const struct sockaddr *client)
{
	enum view_client who;

	if (__builtin_expect(!context->answers->views, 1))
		return tree;
	tree = client_view_make(context, tree, client, &who);
	stats_add(&context->stats->clients_unknown, who == VIEW_UNKNOWN);
	return tree;
}

/* The same of a query that is answered later: one that waited, or that another server has replied to. */
static inline const struct tree *
client_view_again(
    struct worker_context *context, const struct tree *tree, const struct sockaddr *client)
{
	enum view_client who;

	if (__builtin_expect(!context->answers->views, 1))
		return tree;
	return client_view_make(context, tree, client, &who);
}

#endif
