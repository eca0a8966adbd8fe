/* The flags of clients: who a client is, which namespaces may give names, where a client is; query log, dnstap and sizes of
 * memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/api/api_source.h"
#include "kubedns/config/hosts_maps.h"
#include "kubedns/config/options_internal.h"
#include "kubedns/serve/upstream/forwarded_cache.h"
#include "lib/log.h"
#include "lib/size.h"
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

/* --- answers by where the client is --- */

/* What --nearest cannot be together with; NULL: nothing. */
static const char *
nearest_conflict(const struct options *o)
{
	if (options_behind_dnsmasq(o))
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

int
options_read_nearest(struct options *o)
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
	if (!a->nearest && !a->zonal && *o->zone != '\0')
		return options_refuse("zone", o->zone,
		    "answers do not depend on it yet: add --nearest, --nearest-only or --zonal, or "
		    "leave it out");
	if (!o->node_role && *o->zone != '\0')
		return options_refuse("zone", o->zone,
		    "is the zone of the node whose pods ask this kubedns: it needs --node-role");
	conflict = a->nearest ? nearest_conflict(o) : NULL;
	return conflict == NULL ? 0 : options_refuse(flag, NULL, conflict);
}

/* --- --log-queries and --dnstap --- */

static int
read_query_log(struct options *o)
{
	char *part = NULL;
	const char *why;

	if (query_log_wish_parse(&o->query_log, o->log_queries, &part, &why) < 0) {
		log_errorx("--log-queries: \"%s\": %s is needed", part, why);
		free(part);
		return -EINVAL;
	}
	if (o->recorder_bytes > 0)
		return 0;
	log_errorx("--log-queries writes what the recorder has: leave out --recorder=off");
	return -EINVAL;
}

static int
read_dnstap(struct options *o)
{
	const char *why;

	return dnstap_target_parse(o->dnstap_text, &o->dnstap, &why) == 0
		   ? 0
		   : options_refuse("dnstap", o->dnstap_text, why);
}

int
options_read_log(struct options *o, const struct flags_common *common)
{
	if (flags_given(common, "dnstap") && read_dnstap(o) < 0)
		return -EINVAL;
	o->wants_query_log = flags_given(common, "log-queries");
	return o->wants_query_log ? read_query_log(o) : 0;
}

/* --- --recorder, --answer-cache, --transfer-journal and --memory --- */

enum {
	RECORDER_LEAST = 256 * 1024,
	JOURNAL_LEAST = 64 * 1024,
	JOURNAL_MOST = 4 * 1024 * 1024,
	MEMORY_LEAST = 16 * 1024 * 1024,
	/* Parts of --memory; the rest is the cluster's, and the program itself. */
	RECORDER_PART = 16,
	TCP_PART = 8,
	/*
	 * A query has its message, its client, its deadline and its attempts. With dnsmasq behind,
	 * no more than that takes: a fortieth of the same --memory at 1 KB each (nanny.8).
	 */
	IN_FLIGHT_PART = 24,
	IN_FLIGHT_BYTES = 2048,
};

/* A size of at least `least_bytes`, or "off": 0. */
static int
read_size(const char *flag, const char *text, size_t least_bytes, const char *why, size_t *bytes)
{
	*bytes = 0;
	if (strcmp(text, "off") == 0)
		return 0;
	if (size_parse(text, bytes) < 0 || *bytes < least_bytes || *bytes > SIZE_MOST)
		return options_refuse(flag, text, why);
	return 0;
}

/* The parts of --memory, none more than what it would be without. */
static int
divide_memory(struct options *o, const struct flags_common *common)
{
	size_t memory;

	if (*o->memory_text == '\0')
		return 0;
	if (size_parse(o->memory_text, &memory) < 0 || memory < MEMORY_LEAST || memory > SIZE_MOST)
		return options_refuse(
		    "memory", o->memory_text, "must be a size from 16M to 1G, such as 32Mi");
	size_t recorder = memory / RECORDER_PART;
	if (!flags_given(common, "recorder") && recorder < o->recorder_bytes)
		o->recorder_bytes = recorder;
	o->tcp_bytes = memory / TCP_PART;
	o->in_flight = (unsigned)(memory / IN_FLIGHT_PART / IN_FLIGHT_BYTES);
	log_info("--memory=%s: recorder %zu kB, answer cache %zu kB, TCP %zu kB, %u queries in "
		 "flight; the rest is the cluster's",
	    o->memory_text, o->recorder_bytes / 1024, o->answer_cache_bytes / 1024,
	    o->tcp_bytes / 1024, o->in_flight);
	return 0;
}

int
options_read_sizes(struct options *o, const struct flags_common *common)
{
	int recorder = read_size("recorder", o->recorder_text, RECORDER_LEAST,
	    "must be off, or a size from 256k to 1G, such as 2M", &o->recorder_bytes);
	int cache = read_size("answer-cache", o->answer_cache_text, FORWARDED_CACHE_LEAST,
	    "must be off, or a size from 64k to 1G, such as 1M", &o->answer_cache_bytes);

	int memory = divide_memory(o, common);
	int journal = read_size("transfer-journal", o->transfer_journal_text, JOURNAL_LEAST,
	    "must be off, or a size from 64k to 4M, such as 1M", &o->transfer.journal_bytes);

	if (o->transfer.journal_bytes > JOURNAL_MOST)
		journal = options_refuse("transfer-journal", o->transfer_journal_text,
		    "must be off, or a size from 64k to 4M, such as 1M");
	return recorder < 0 ? recorder : cache < 0 ? cache : journal < 0 ? journal : memory;
}
