/* The flags for who a client is. */
#include <errno.h>
#include <string.h>

#include "kubedns/options_internal.h"

/* As the API server demands of a node's name: an RFC 1123 subdomain. */
static bool
is_node_name(const char *name)
{
	return *name != '\0' && strlen(name) <= 253 &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.")] == '\0';
}

static int
read_client_pods(struct options *o)
{
	static const char *const modes[] = {
		[CLIENT_PODS_OFF] = "off", [CLIENT_PODS_NODE] = "node", [CLIENT_PODS_ALL] = "all"
	};

	for (unsigned i = 0; i < sizeof modes / sizeof modes[0]; i++)
		if (strcmp(o->client_pods_text, modes[i]) == 0) {
			o->client_pods = (enum client_pods_mode)i;
			return 0;
		}
	return options_refuse("client-pods", o->client_pods_text, "must be off, node or all");
}

int
options_read_clients(struct options *o)
{
	if (read_client_pods(o) < 0)
		return -EINVAL;
	if (*o->node_name != '\0' && !is_node_name(o->node_name))
		return options_refuse("node-name", o->node_name,
		    "not the name of a node: small letters, digits, '-' and '.'");
	if (o->client_pods != CLIENT_PODS_NODE)
		return 0;
	if (*o->node_name == '\0')
		return options_refuse("client-pods", "node",
		    "which node? give --node-name, in a pod --node-name=$(NODE_NAME) with the "
		    "variable from the field spec.nodeName");
	if (o->answers.pods == PODS_VERIFIED)
		return options_refuse(
		    "client-pods", "node", "--pods=verified needs the pods of every node: use all");
	if (*o->objects_dir != '\0')
		return options_refuse("client-pods", "node",
		    "the API server selects a node's pods, --objects-dir has none: use all");
	return 0;
}
