/* The flags about clients: how clients are identified, what they see, which namespaces may define
 * names, and where a client is. */
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

/* Whether the name is an RFC 1123 subdomain, which the API server requires for a node. */
static bool
is_node_name(const char *name)
{
	return *name != '\0' && strlen(name) <= 253 &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.")] == '\0';
}

/* Reads the node whose pods are watched. */
static int
read_node(const struct options *o)
{
	if (*o->source.node_name != '\0' && !is_node_name(o->source.node_name))
		return flags_refuse("node-name", o->source.node_name,
		    "not the name of a node: small letters, digits, '-' and '.'");
	if (o->clients.pods != CLIENT_PODS_NODE)
		return 0;
	if (*o->source.node_name == '\0')
		return flags_refuse("client-pods", "node",
		    "the node is unknown: give --node-name; in a pod, --node-name=$(NODE_NAME) "
		    "with the variable from the field spec.nodeName");
	if (o->zone.pods == PODS_VERIFIED)
		return flags_refuse(
		    "client-pods", "node", "--pods=verified needs the pods of every node: use all");
	if (*o->source.objects_dir != '\0')
		return flags_refuse("client-pods", "node",
		    "with --objects-dir there is no API server that selects a node's pods: use "
		    "all");
	return 0;
}

static bool
behind_dnsmasq(const struct options *o)
{
	return o->upstream.has_search_resolver ||
	       (!o->upstream.has_resolver && *o->source.objects_dir == '\0' &&
		   o->listen.port != 53);
}

static int
read_visibility(struct options *o)
{
	o->clients.view.visibility = o->clients.visibility != VISIBILITY_OFF;
	o->clients.view.unknown_sees_all = o->clients.visibility_unknown == VISIBILITY_UNKNOWN_ALL;
	if (!o->clients.view.visibility)
		return 0;
	/* The servers of --until-synced would treat this kubedns as the client. */
	o->upstream.stage.until_synced = false;
	o->upstream.until_synced.count = 0;
	if (!behind_dnsmasq(o) || o->upstream.has_search_resolver)
		return 0;
	return flags_refuse("visibility", NULL,
	    "pods must query kubedns directly. In the classic topology dnsmasq is the only client, "
	    "and its cache would show all pods the names that one pod may see: use the front "
	    "topology (--resolver), or --dns-port=53");
}

/* Returns the reason why --hosts-namespaces is impossible, or NULL. */
static const char *
hosts_conflict(const struct options *o)
{
	if (!o->upstream.has_resolver && o->listen.port != 53)
		return "clients must query kubedns directly, because dnsmasq in the classic "
		       "topology sends queries for these names to other servers: use the front "
		       "topology (--resolver), or --dns-port=53";
	return NULL;
}

/* Reads `NAME:DOMAIN:DOMAIN` and splits it. */
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
			    "':' must be followed by the domain of this namespace's names, such as "
			    "team-a:office.example");
		dname_lower(suffix->wire, suffix->len);
		namespace->suffix_count++;
	}
	return 0;
}

static int
read_hosts_namespaces(struct options *o)
{
	size_t count = o->hosts.namespaces.count;
	char **texts = o->hosts.namespaces.items;

	if (count == 0)
		return 0;
	const char *conflict = hosts_conflict(o);
	if (conflict != NULL)
		return flags_refuse("hosts-namespaces", texts[0], conflict);
	if (count > HOSTS_NAMESPACES_MAX)
		return flags_refuse(
		    "hosts-namespaces", texts[HOSTS_NAMESPACES_MAX], "more than 8 namespaces");
	o->hosts.in_force = xcalloc(count + 1, sizeof(char *));
	o->hosts.scopes = xcalloc(count + 1, sizeof *o->hosts.scopes);
	for (size_t i = 0; i < count; i++) {
		int rc = read_hosts_namespace(texts[i], &o->hosts.scopes[i]);

		if (rc < 0)
			return rc;
		o->hosts.in_force[i] = o->hosts.scopes[i].name;
		for (size_t k = 0; k < i; k++)
			if (strcmp(o->hosts.scopes[k].name, o->hosts.scopes[i].name) == 0)
				return flags_refuse(
				    "hosts-namespaces", texts[i], "this namespace is given twice");
	}
	return 0;
}

void
client_options_free(struct options *o)
{
	for (size_t i = 0; o->hosts.scopes != NULL && o->hosts.scopes[i].name != NULL; i++) {
		free(o->hosts.scopes[i].name);
		free(o->hosts.scopes[i].suffixes);
	}
	free(o->hosts.scopes);
	free(o->hosts.in_force);
}

/* --- answers that depend on the client's place --- */

/* Returns the reason why --nearest cannot be combined with the other flags, or NULL. */
static const char *
nearest_conflict(const struct options *o)
{
	if (behind_dnsmasq(o))
		return "in the classic topology dnsmasq is the only client, and its cache would "
		       "give all pods the endpoints that are near one pod: use the front topology "
		       "(--resolver), or --dns-port=53";
	if (o->source.node_role && *o->source.node_name == '\0' && *o->place.zone == '\0')
		return "the node is unknown: give --node-name and --zone; in a pod, "
		       "--node-name=$(NODE_NAME) with the variable from the field spec.nodeName";
	if (!o->source.node_role && o->clients.pods != CLIENT_PODS_ALL)
		return "kubedns knows a client's node and zone only if it watches pods: add "
		       "--client-pods=all, or --node-role for a pod on every node";
	return NULL;
}

static int
read_nearest(struct options *o)
{
	struct endpoint_choice *choice = &o->place.choice;
	const char *flag = o->place.nearest_only ? "nearest-only" : "nearest", *conflict;

	choice->nearest_only = o->place.nearest_only;
	choice->nearest = o->place.nearest || o->place.nearest_only;
	choice->zonal = o->place.zonal;
	bool by_place = choice->nearest || choice->zonal;
	o->clients.view.pod_places =
	    by_place && !o->source.node_role && o->clients.pods == CLIENT_PODS_ALL;
	if (o->source.node_role && by_place) {
		o->place.place = client_place_of(o->source.node_name, o->place.zone);
		choice->place = &o->place.place;
	}
	if (by_place)
		o->answers.choice = choice;
	if (o->clients.view.visibility || o->clients.view.pod_places)
		o->answers.view = &o->clients.view;
	conflict = choice->nearest ? nearest_conflict(o) : NULL;
	return conflict == NULL ? 0 : flags_refuse(flag, NULL, conflict);
}

int
client_options_read(struct options *o)
{
	/* Calls all functions, so that one run reports all mistakes. */
	const int results[] = { read_node(o), read_visibility(o), read_hosts_namespaces(o),
		read_nearest(o) };
	int rc = 0;

	for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
		rc = results[i] < 0 ? results[i] : rc;
	return rc;
}
