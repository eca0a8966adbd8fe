/*
 * The snapshot of the cluster as a client may see it (answer/view.h). If all clients see the same,
 * the view is the snapshot itself, and the client's address is not used.
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
	/* With an unknown family, the address matches no client. */
	server_from_sockaddr(client, &from);
	return view_of(context->view, context->answers->view, tree, &from.addr, who);
}

/* Returns the view for a query that has just been read. Counts the query if its client is
 * unknown. The view is valid until the worker's next call, within the same read section. */
static inline const struct tree *
client_view(struct worker_context *context, const struct tree *tree, const struct sockaddr *client)
{
	enum view_client who;

	if (__builtin_expect(context->answers->view == NULL, 1))
		return tree;
	tree = client_view_make(context, tree, client, &who);
	stats_add(&context->stats->clients_unknown, who == VIEW_UNKNOWN);
	return tree;
}

/* Returns the view for a query that is answered later, because it waited or another server has
 * replied to it. */
static inline const struct tree *
client_view_again(
    struct worker_context *context, const struct tree *tree, const struct sockaddr *client)
{
	enum view_client who;

	if (__builtin_expect(context->answers->view == NULL, 1))
		return tree;
	return client_view_make(context, tree, client, &who);
}

#endif
