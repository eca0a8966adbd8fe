#include "kubedns/serve/client_view.h"

#include "lib/xalloc.h"

const struct tree *
client_view_make(struct worker_context *context, const struct tree *tree,
    const struct sockaddr *client, enum view_client *who)
{
	struct server from;

	if (context->view == NULL)
		context->view = xcalloc(1, sizeof *context->view);
	server_from_sockaddr(client, &from); /* an unknown family is nobody's address */
	return view_of(context->view, context->answers, tree, &from.addr, who);
}
