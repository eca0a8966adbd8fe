/*
 * The snapshot of the cluster as a client may see it (answer/view.h). Without --visibility it is the
 * snapshot itself, and the client's address is not looked at.
 */
#ifndef KUBEDNS_SERVE_CLIENT_VIEW_H
#define KUBEDNS_SERVE_CLIENT_VIEW_H

#include <sys/socket.h>

#include "kubedns/serve/worker_context.h"

/* Good until the worker's next call, inside of the same read section. */
const struct tree *client_view_make(
    struct worker_context *context, const struct tree *tree, const struct sockaddr *client);

static inline const struct tree *
client_view(struct worker_context *context, const struct tree *tree, const struct sockaddr *client)
{
	if (__builtin_expect(!context->answers->visibility, 1))
		return tree;
	return client_view_make(context, tree, client);
}

#endif
