/* The flags of clients: who a client is, what it sees, which namespaces may give names, where a client is. */
#include "kubedns/config/client_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/api/api_source.h"
#include "kubedns/config/hosts_maps.h"
#include "kubedns/config/options.h"
#include "kubedns/config/zone_options.h"
#include "lib/log.h"
#include "lib/xalloc.h"

_Static_assert((int)HOSTS_NAMESPACES_MAX == (int)API_HOSTS_MAX, "each namespace is watched");

/* As the API server demands of a node's name: an RFC 1123 subdomain. */
static bool
is_node_name(const char *name)
{
	return *name != '\0' && strlen(name) <= 253 &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.")] == '\0';
}

/* The node of the pods that are watched. */
static int
read_node(const struct options *o)
{
	if (*o->node_name != '\0' && !is_node_name(o->node_name))
		return flags_refuse("node-name", o->node_name,
		    "not the name of a node: small letters, digits, '-' and '.'");
	if (o->client_pods != CLIENT_PODS_NODE)
		return 0;
	if (*o->node_name == '\0')
		return flags_refuse("client-pods", "node",
		    "which node? give --node-name, in a pod --node-name=$(NODE_NAME) with the "
		    "variable from the field spec.nodeName");
	if (o->answers.pods == PODS_VERIFIED)
		return flags_refuse(
		    "client-pods", "node", "--pods=verified needs the pods of every node: use all");
	if (*o->objects_dir != '\0')
		return flags_refuse("client-pods", "node",
		    "the API server selects a node's pods, --objects-dir has none: use all");
	return 0;
}

static bool
behind_dnsmasq(const struct options *o)
{
	return o->has_search_resolver ||
	       (!o->has_resolver && *o->objects_dir == '\0' && o->port != 53);
}

static int
read_visibility(struct options *o)
{
	struct answer_config *a = &o->answers;

	a->visibility = o->visibility != VISIBILITY_OFF;
	a->unknown_sees_all = o->visibility_unknown == VISIBILITY_UNKNOWN_ALL;
	if (!a->visibility)
		return 0;
	/* These servers would take this kubedns for the client. */
	a->until_synced = false;
	o->until_synced.count = 0;
	if (!behind_dnsmasq(o) || o->has_search_resolver)
		return 0;
	return flags_refuse("visibility", NULL,
	    "pods have to ask kubedns itself. Behind dnsmasq, as in the classic topology, dnsmasq "
	    "is the only client, and its cache gives all pods what one may see: use the front "
	    "topology (--resolver), or --dns-port=53");
}

/* Why there can be no --hosts-namespaces; NULL: there can. */
static const char *
hosts_conflict(const struct options *o)
{
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
	if (!zone_options_is_namespace(namespace->name))
		return flags_refuse("hosts-namespaces", text,
		    "not the name of a namespace: small letters, digits and '-'");
	while ((domain = strsep(&rest, ":")) != NULL) {
		namespace->suffixes = xreallocarray(
		    namespace->suffixes, namespace->suffix_count + 1, sizeof *namespace->suffixes);
		struct dname *suffix = &namespace->suffixes[namespace->suffix_count];
		if (dname_from_text(suffix, domain) < 0 || suffix->len == 1)
			return flags_refuse("hosts-namespaces", text,
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
		return flags_refuse("hosts-namespaces", texts[0], conflict);
	if (count > HOSTS_NAMESPACES_MAX)
		return flags_refuse("hosts-namespaces", texts[HOSTS_NAMESPACES_MAX],
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
				return flags_refuse("hosts-namespaces", texts[i],
				    "this namespace stands there twice");
	}
	return 0;
}

void
client_options_free(struct options *o)
{
	for (size_t i = 0; o->hosts_scopes != NULL && o->hosts_scopes[i].name != NULL; i++) {
		free(o->hosts_scopes[i].name);
		free(o->hosts_scopes[i].suffixes);
	}
	free(o->hosts_scopes);
	free(o->hosts_namespaces_in_force);
}

/* --- answers by where the client is --- */

/* What --nearest cannot be together with; NULL: nothing. */
static const char *
nearest_conflict(const struct options *o)
{
	if (behind_dnsmasq(o))
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

static int
read_nearest(struct options *o)
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
	conflict = a->nearest ? nearest_conflict(o) : NULL;
	return conflict == NULL ? 0 : flags_refuse(flag, NULL, conflict);
}

int
client_options_read(struct options *o)
{
	/* All of them, so that one run shows all mistakes. */
	const int results[] = { read_node(o), read_visibility(o), read_hosts_namespaces(o),
		read_nearest(o) };
	int rc = 0;

	for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
		rc = results[i] < 0 ? results[i] : rc;
	return rc;
}
