/* The flags for who a client is, and which namespaces may give names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/api/api_source.h"
#include "kubedns/hosts_maps.h"
#include "kubedns/options_internal.h"
#include "lib/xalloc.h"

_Static_assert((int)HOSTS_NAMESPACES_MAX == (int)API_HOSTS_MAX, "each namespace is watched");

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

/* The node of the pods that are watched. */
static int
read_node(const struct options *o)
{
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

bool
options_behind_dnsmasq(const struct options *o)
{
	return o->has_search_resolver ||
	       (!o->has_resolver && *o->objects_dir == '\0' && o->port != 53);
}

/* What --visibility cannot be together with; NULL: nothing. */
static const char *
visibility_conflict(const struct options *o)
{
	if (o->client_pods == CLIENT_PODS_OFF)
		return "a client's namespace is known from the pods: add --client-pods=node or all";
	if (o->has_search_resolver)
		return "--search-resolver is the classic topology, where dnsmasq is the only "
		       "client, and its cache gives all pods what one may see: use the front "
		       "topology";
	if (options_behind_dnsmasq(o))
		return "pods have to ask kubedns itself. Behind dnsmasq, as in the classic "
		       "topology, "
		       "dnsmasq is the only client, and its cache gives all pods what one may see: "
		       "use the front topology (--resolver), or --dns-port=53";
	if (o->answers.fallthrough_count > 0)
		return "with --fallthrough, names that are hidden would be asked of other servers, "
		       "which know no namespaces: leave it out";
	if (o->external_zones_text.count > 0)
		return "--external-zones gives everybody names of every namespace: let another "
		       "kubedns answer them";
	if (*o->clusterset_text != '\0')
		return "--clusterset-domain gives everybody the imports of every namespace: let "
		       "another kubedns answer them";
	if (o->transfer_to.count > 0)
		return "--transfer-to gives the names of every namespace to whoever asks from "
		       "these "
		       "addresses: let another kubedns do it";
	return NULL;
}

static int
read_visibility(struct options *o)
{
	struct answer_config *a = &o->answers;

	a->visibility = strcmp(o->visibility_text, "labels") == 0 ||
			strcmp(o->visibility_text, "visible-to") == 0;
	a->unknown_sees_all = strcmp(o->visibility_unknown, "all") == 0;
	if (!a->unknown_sees_all && strcmp(o->visibility_unknown, "none") != 0)
		return options_refuse(
		    "visibility-unknown", o->visibility_unknown, "must be none or all");
	if (!a->visibility)
		return strcmp(o->visibility_text, "off") == 0
			   ? 0
			   : options_refuse("visibility", o->visibility_text,
				 "must be off, labels or visible-to");
	const char *conflict = visibility_conflict(o);
	/* These servers would take this kubedns for the client. */
	a->until_synced = false;
	o->until_synced.count = 0;
	return conflict == NULL ? 0 : options_refuse("visibility", o->visibility_text, conflict);
}

/* Why there can be no --hosts-namespaces; NULL: there can. */
static const char *
hosts_conflict(const struct options *o)
{
	if (*o->objects_dir != '\0')
		return "--objects-dir has no API server to watch them at: use the key hosts in "
		       "--config-dir";
	if (!o->has_resolver && o->port != 53)
		return "clients have to ask kubedns itself. In the classic topology dnsmasq, which "
		       "does not know these names, asks other servers for them: use the front "
		       "topology (--resolver), or --dns-port=53";
	return NULL;
}

/* Reads `NAME:DOMAIN:DOMAIN`, which is cut into its parts. */
static int
read_hosts_namespace(const char *text, struct hosts_namespace *namespace)
{
	char *rest, *domain;

	namespace->name = xstrdup(text);
	rest = strchr(namespace->name, ':');
	if (rest != NULL)
		*rest++ = '\0';
	if (!options_is_namespace(namespace->name))
		return options_refuse("hosts-namespaces", text,
		    "not the name of a namespace: small letters, digits and '-'");
	while ((domain = strsep(&rest, ":")) != NULL) {
		namespace->suffixes = xreallocarray(
		    namespace->suffixes, namespace->suffix_count + 1, sizeof *namespace->suffixes);
		struct dname *suffix = &namespace->suffixes[namespace->suffix_count];
		if (dname_from_text(suffix, domain) < 0 || suffix->len == 1)
			return options_refuse("hosts-namespaces", text,
			    "behind ':' comes a domain that its names are in, such as "
			    "team-a:office.example");
		dname_lower(suffix->wire, suffix->len);
		namespace->suffix_count++;
	}
	return 0;
}

static int
read_hosts_namespaces(struct options *o)
{
	size_t count = o->hosts_namespaces.count;
	char **texts = o->hosts_namespaces.items;

	if (count == 0)
		return 0;
	const char *conflict = hosts_conflict(o);
	if (conflict != NULL)
		return options_refuse("hosts-namespaces", texts[0], conflict);
	if (count > HOSTS_NAMESPACES_MAX)
		return options_refuse("hosts-namespaces", texts[HOSTS_NAMESPACES_MAX],
		    "more than 8 namespaces; each is watched by itself");
	o->hosts_namespaces_in_force = xcalloc(count + 1, sizeof(char *));
	o->hosts_scopes = xcalloc(count + 1, sizeof *o->hosts_scopes);
	for (size_t i = 0; i < count; i++) {
		int rc = read_hosts_namespace(texts[i], &o->hosts_scopes[i]);
		if (rc < 0)
			return rc;
		o->hosts_namespaces_in_force[i] = o->hosts_scopes[i].name;
		for (size_t k = 0; k < i; k++)
			if (strcmp(o->hosts_scopes[k].name, o->hosts_scopes[i].name) == 0)
				return options_refuse("hosts-namespaces", texts[i],
				    "this namespace stands there twice");
	}
	return 0;
}

void
options_free_hosts(struct options *o)
{
	for (size_t i = 0; o->hosts_scopes != NULL && o->hosts_scopes[i].name != NULL; i++) {
		free(o->hosts_scopes[i].name);
		free(o->hosts_scopes[i].suffixes);
	}
	free(o->hosts_scopes);
	free(o->hosts_namespaces_in_force);
}

int
options_read_clients(struct options *o)
{
	/* All of them, so that one run shows all mistakes. */
	const int results[] = { read_client_pods(o), read_node(o), read_visibility(o),
		read_hosts_namespaces(o) };
	int rc = 0;

	for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
		rc = results[i] < 0 ? results[i] : rc;
	return rc;
}
