#include <errno.h>
#include <fnmatch.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/objects.h"
#include "migrate/scope.h"
#include "lib/conf.h"
#include "lib/documents.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum { TEXTS_MAX = 1000 };

#define SECRET_FLAG "looks like a secret, so it is not printed below: add the flag by hand"

/* Reports on `what`, a part of the object at `line`. The line is not a line of a Corefile. */
static void
finding(const struct objects *o, unsigned line, const char *what, enum verdict verdict,
    const char *sentence)
{
	char *word = xstrdup(what);
	struct corefile_line at = { .file = o->source, .line = line, .words = &word, .count = 1 };

	report_line(o->report, &at, verdict, "%s", sentence);
	free(word);
}

static const char *
string_member(struct json_object *json, const char *name)
{
	struct json_object *value;

	if (!json_object_is_type(json, json_type_object) ||
	    !json_object_object_get_ex(json, name, &value) ||
	    !json_object_is_type(value, json_type_string))
		return "";
	return json_object_get_string(value);
}

static struct json_object *
member(struct json_object *json, const char *name)
{
	struct json_object *value = NULL;

	if (json_object_is_type(json, json_type_object))
		json_object_object_get_ex(json, name, &value);
	return value;
}

static size_t
length(struct json_object *array)
{
	return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

/* --- ConfigMaps --- */

/* Writes a server without its port if the port is the default. */
static const char *
written(const struct conf_server *s, char text[CONF_SERVER_TEXT_MAX])
{
	if (s->server.port != 53 || s->tls_name[0] != '\0')
		return conf_server_format(s, text);
	if (*s->host != '\0')
		return strcpy(text, s->host);
	return addr_format(&s->server.addr, text);
}

static bool
take_stubs_text(struct objects *o, const char *text, char **why)
{
	struct conf_stubs stubs;

	if (conf_stubs_parse(text, strlen(text), report_known_domain(o->report), &stubs, why) < 0)
		return false;
	if (*why != NULL) { /* some entries are refused */
		conf_stubs_free(&stubs);
		return false;
	}
	for (size_t i = 0; i < stubs.count; i++)
		for (size_t k = 0; k < stubs.items[i].count; k++) {
			char server[CONF_SERVER_TEXT_MAX];

			report_server(o->report, stubs.items[i].domain,
			    written(&stubs.items[i].servers[k], server));
		}
	conf_stubs_free(&stubs);
	return true;
}

/* Adds the servers of the stub domains that can be read one by one, if the whole text cannot. Returns
 * false if there are none. `why` is about the first other one. */
static bool
take_good_stubs(struct objects *o, const char *text, char **why)
{
	struct json_object *all = json_tokener_parse(text);
	bool any = false;

	if (json_object_is_type(all, json_type_object)) {
		json_object_object_foreach(all, domain, servers)
		{
			struct json_object *one = json_object_new_object();
			char *refused = NULL;

			json_object_object_add(one, domain, json_object_get(servers));
			any |= take_stubs_text(o, json_object_to_json_string(one), &refused);
			free(refused);
			json_object_put(one);
		}
	}
	json_object_put(all);
	if (!any)
		return false;
	char *rest = xasprintf("%s; the other stub domains are carried over", *why);
	free(*why);
	*why = rest;
	return false;
}

static bool
take_stubs(struct objects *o, const char *text, char **why)
{
	return take_stubs_text(o, text, why) || take_good_stubs(o, text, why);
}

static bool
take_upstreams(struct objects *o, const char *text, char **why)
{
	struct conf_upstreams upstreams;

	if (conf_upstreams_parse(text, strlen(text), &upstreams, why) < 0)
		return false;
	for (size_t i = 0; i < upstreams.count; i++) {
		char server[CONF_SERVER_TEXT_MAX];

		report_server(o->report, NULL, written(&upstreams.servers[i], server));
	}
	return true;
}

/* Returns `{"name": "domain"}`, the form in Kubernetes' old documentation, as `name=domain,...`. Returns
 * NULL if the text is not in this form. Caller frees. */
static char *
federations_of_json(const char *text)
{
	struct json_object *all = json_tokener_parse(text);
	char *list = NULL;
	size_t len = 0;

	if (json_object_is_type(all, json_type_object)) {
		FILE *f = open_memstream(&list, &len);

		json_object_object_foreach(all, name, domain)
		    fprintf(f, "%s=%s,", name, json_object_get_string(domain));
		fclose(f);
	}
	json_object_put(all);
	return list;
}

static bool
take_federations(struct objects *o, const char *text, char **why)
{
	struct conf_federations federations;

	if (conf_federations_parse(text, strlen(text), &federations, why) < 0) {
		char *list = federations_of_json(text), *again = NULL;
		bool good = list != NULL &&
			    conf_federations_parse(list, strlen(list), &federations, &again) == 0;

		free(list);
		free(again);
		if (!good)
			return false;
		free(*why);
		*why = NULL;
	}
	for (size_t i = 0; i < federations.count; i++)
		report_text(o->report, TEXT_FEDERATIONS, "%s=%s%s", federations.items[i].name,
		    federations.items[i].domain, i + 1 < federations.count ? "," : "");
	return true;
}

/* Reads a key of kube-dns's ConfigMap. The key has the same meaning in kubedns. Returns false for
 * any other key. */
static bool
take_kube_dns_key(struct objects *o, unsigned line, const char *key, const char *text)
{
	static const struct {
		const char *name;
		bool (*take)(struct objects *o, const char *text, char **why);
	} keys[] = { { "stubDomains", take_stubs }, { "upstreamNameservers", take_upstreams },
		{ "federations", take_federations } };

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		char *why = NULL;

		if (strcmp(keys[i].name, key) != 0)
			continue;
		o->kube_dns = o->configured = true;
		if (keys[i].take(o, text, &why)) {
			finding(o, line, key, VERDICT_CARRIED,
			    "the key of the same name in the ConfigMap kube-dns");
		} else {
			char *sentence = xasprintf("left out: %s", why);

			finding(o, line, key, VERDICT_NONE, sentence);
			free(sentence);
		}
		free(why);
		return true;
	}
	return false;
}

static bool
ends(const char *text, const char *suffix)
{
	size_t len = strlen(text), n = strlen(suffix);

	return len > n && strcmp(text + len - n, suffix) == 0;
}

/* Takes `name`, `text` and `where`. */
static struct objects_text *
add_text(struct objects *o, char *name, char *text, char *where)
{
	if ((o->count & (o->count - 1)) == 0)
		o->texts = xreallocarray(o->texts, o->count ? 2 * o->count : 1, sizeof *o->texts);
	struct objects_text *added = &o->texts[o->count++];
	*added = (struct objects_text){ .text = { .name = name, .text = text, .len = strlen(text) },
		.where = where };
	return added;
}

static void
take_configmap(struct objects *o, struct json_object *json, const char *map, unsigned line)
{
	struct json_object *data = member(json, "data");

	if (!json_object_is_type(data, json_type_object))
		return;
	bool exact = *string_member(data, "Corefile") != '\0';
	json_object_object_foreach(data, key, value)
	{
		if (!json_object_is_type(value, json_type_string))
			continue;
		const char *text = json_object_get_string(value);
		if (take_kube_dns_key(o, line, key, text))
			continue;
		if (o->count == TEXTS_MAX) {
			o->left_out = true;
			continue;
		}
		o->custom = o->custom || !exact;
		bool named = strncmp(key, "Corefile", 8) == 0 || ends(key, ".Corefile");
		struct objects_text *added = add_text(
		    o, xstrdup(key), xstrdup(text), xasprintf("%s of ConfigMap %s", key, map));
		added->corefile = exact ? strcmp(key, "Corefile") == 0 : named;
		added->backup = named && !added->corefile;
	}
}

/* --- values of the coredns chart --- */

/* Writes one item of the chart's `servers` to the Corefile, in the same way as the chart. */
static void
write_server(FILE *f, struct json_object *server)
{
	struct json_object *zones = member(server, "zones"), *plugins = member(server, "plugins");
	const char *port = json_object_get_string(member(server, "port"));

	for (size_t i = 0; i < length(zones); i++) {
		struct json_object *zone = json_object_array_get_idx(zones, i);
		const char *name = string_member(zone, "zone");

		fprintf(f, "%s%s:%s ", string_member(zone, "scheme"), *name ? name : ".",
		    port != NULL ? port : "53");
	}
	if (length(zones) == 0)
		fprintf(f, ".:%s ", port != NULL ? port : "53");
	fputs("{\n", f);
	for (size_t i = 0; i < length(plugins); i++) {
		struct json_object *plugin = json_object_array_get_idx(plugins, i);
		const char *words = json_object_get_string(member(plugin, "parameters"));
		const char *block = string_member(plugin, "configBlock");

		fprintf(f, "%s %s", string_member(plugin, "name"), words != NULL ? words : "");
		if (*block != '\0')
			fprintf(f, " {\n%s\n}", block);
		fputc('\n', f);
	}
	fputs("}\n", f);
}

/* Reads the chart's `zoneFiles`, to which the plugin `file` refers. */
static void
take_zone_files(struct objects *o, struct json_object *files, const char *what)
{
	for (size_t i = 0; i < length(files) && o->count < TEXTS_MAX; i++) {
		struct json_object *file = json_object_array_get_idx(files, i);
		const char *name = string_member(file, "filename");

		if (*name != '\0')
			add_text(o, xstrdup(name), xstrdup(string_member(file, "contents")),
			    xasprintf("%s of zoneFiles in %s", name, what));
	}
}

/* Reads values of a chart, and makes the Corefile from the value `servers`. Returns false if there
 * are no `servers`. */
static bool
take_values(struct objects *o, struct json_object *values, const char *what, unsigned line)
{
	struct json_object *servers = member(values, "servers");
	const char *corefile = string_member(values, "corefile");

	/* the configuration of EKS's add-on */
	if (*corefile != '\0' && o->count < TEXTS_MAX) {
		add_text(o, xstrdup("corefile"), xstrdup(corefile), xstrdup(what))->corefile = true;
		return true;
	}
	/* values of a chart that contains the coredns chart */
	if (servers == NULL)
		servers = member(values = member(values, "coredns"), "servers");
	if (!json_object_is_type(servers, json_type_array) || o->count == TEXTS_MAX)
		return false;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	for (size_t i = 0; i < length(servers); i++)
		write_server(f, json_object_array_get_idx(servers, i));
	fclose(f);
	add_text(o, xstrdup("servers"), text, xstrdup(what))->corefile = true;
	take_zone_files(o, member(values, "zoneFiles"), what);
	const char *ip = string_member(member(values, "service"), "clusterIP");
	if (*ip != '\0')
		report_cluster_ip(o->report, ip);
	finding(o, line, what, VERDICT_CHANGES,
	    "the value `servers` makes a Corefile, whose lines are below. Other values: the chart "
	    "conf/helm/kubedns accepts the coredns chart's values, and its notes list those "
	    "without effect");
	return true;
}

struct values_sink {
	struct objects *objects;
	const char *what;
	unsigned line;
	bool taken;
};

static void
take_values_document(void *arg, struct json_object *json, const char *kind_hint, unsigned line)
{
	struct values_sink *sink = arg;

	(void)kind_hint;
	(void)line;
	sink->taken |= take_values(sink->objects, json, sink->what, sink->line);
}

/* Reads an object that contains values of a chart: Flux's HelmRelease, or k3s's HelmChart or
 * HelmChartConfig. */
static void
take_helm(struct objects *o, struct json_object *json, const char *what, unsigned line)
{
	struct json_object *spec = member(json, "spec");
	struct values_sink sink = { .objects = o, .what = what, .line = line };
	const char *content = string_member(spec, "valuesContent");
	struct documents_error error;

	sink.taken = take_values(o, member(spec, "values"), what, line);
	FILE *in = *content ? fmemopen((void *)(uintptr_t)content, strlen(content), "re") : NULL;
	if (in != NULL) {
		documents_read(in, DOCUMENTS_YAML, take_values_document, &sink, &error);
		fclose(in);
	}
	if (!sink.taken)
		finding(o, line, what, VERDICT_NONE,
		    "not read: its values have no `servers`. Read its Corefile: kubectl -n "
		    "kube-system get configmap/coredns -o yaml");
}

/* --- Deployments and DaemonSets --- */

/* Splits a flag into its name and its value. Removes dashes and underscores from the name, so that
 * names can be compared. */
static void
flag_parts(const char *arg, char name[64], const char **value)
{
	arg += strspn(arg, "-");
	size_t len = strcspn(arg, "=");
	*value = arg[len] == '=' ? arg + len + 1 : "";
	len = len < 63 ? len : 63;
	for (size_t i = 0; i < len; i++)
		name[i] = arg[i] == '_' ? '-' : arg[i];
	name[len] = '\0';
}

static bool
among(const char *name, const char *const *names)
{
	for (; *names != NULL; names++)
		if (strcmp(name, *names) == 0)
			return true;
	return false;
}

/* Reads a flag of kube-dns's container kubedns. */
static void
take_kubedns_flag(struct objects *o, unsigned line, const char *arg)
{
	static const char *const manifest[] = { "dns-port", "healthz-port", "v", "drain",
		"config-dir", "logtostderr", NULL };
	char name[64];
	const char *value;
	flag_parts(arg, name, &value);
	if (strcmp(name, "domain") == 0) {
		char *domain = zone_parse(value);

		if (domain != NULL && strcmp(domain, ".") != 0)
			report_domain(o->report, domain);
		free(domain);
		finding(o, line, arg, VERDICT_CARRIED, "settings.yaml's clusterDomain");
	} else if (among(name, manifest)) {
		finding(o, line, arg, VERDICT_CARRIED, "already in the manifest");
	} else if (report_is_secret(arg)) {
		finding(o, line, arg, VERDICT_NONE, SECRET_FLAG);
	} else {
		report_flag(o->report, PROGRAM_KUBEDNS, "%s", arg);
		finding(o, line, arg, VERDICT_CARRIED, "kubedns has the same flag");
	}
}

/* Reads a flag of dnsmasq, after the nanny's `--`. */
static void
take_dnsmasq_flag(struct objects *o, unsigned line, const char *arg)
{
	static const char *const manifest[] = { "k", "keep-in-foreground", "dns-loop-detect",
		"no-resolv", NULL };
	static const char *const nannys[] = { "log-facility", "d", "no-daemon", "servers-file",
		"pid-file", "C", "conf-file", NULL };
	char name[64];
	const char *value;
	flag_parts(arg, name, &value);
	if (among(name, manifest) ||
	    (strcmp(name, "server") == 0 && strstr(value, "127.0.0.1") != NULL)) {
		finding(o, line, arg, VERDICT_CARRIED, "already in the manifest");
	} else if (strcmp(name, "no-negcache") == 0) {
		finding(o, line, arg, VERDICT_CHANGES,
		    "kubedns's --negative-ttl=0 in the manifest does this for cluster names only; "
		    "negative answers for external names are cached for their own TTL");
	} else if (among(name, nannys)) {
		finding(o, line, arg, VERDICT_CHANGES, "the nanny sets this itself");
	} else if (report_is_secret(arg)) {
		finding(o, line, arg, VERDICT_NONE, SECRET_FLAG);
	} else {
		report_flag(o->report, PROGRAM_DNSMASQ, "%s", arg);
		finding(o, line, arg, VERDICT_CARRIED, "dnsmasq has the same flag");
	}
}

static void
take_args(struct objects *o, unsigned line, const char *name, struct json_object *args)
{
	bool dashes = false;

	for (size_t i = 0; i < length(args); i++) {
		const char *arg = json_object_get_string(json_object_array_get_idx(args, i));

		if (arg == NULL)
			continue;
		if (strcmp(name, "kubedns") == 0)
			take_kubedns_flag(o, line, arg);
		else if (strcmp(arg, "--") == 0)
			dashes = true;
		else if (strcmp(name, "dnsmasq") == 0 && dashes)
			take_dnsmasq_flag(o, line, arg);
		else if (strcmp(name, "dnsmasq") == 0 || strcmp(name, "sidecar") == 0)
			finding(
			    o, line, arg, VERDICT_CARRIED, "in the manifest, or add the same flag");
		else if (strcmp(name, "coredns") == 0 && strcmp(arg, "-conf") != 0 && *arg == '-')
			finding(o, line, arg, VERDICT_CARRIED,
			    "a flag of CoreDNS: the manifest has its settings");
	}
}

/* Stores which ConfigMap contains the Corefile: the first ConfigMap that CoreDNS's pod requires. */
static void
take_coredns(struct objects *o, struct json_object *workload, struct json_object *pod)
{
	struct json_object *volumes = member(pod, "volumes");

	o->coredns = true;
	for (size_t i = 0; i < length(volumes) && *o->corefile_from == '\0'; i++) {
		struct json_object *map =
		    member(json_object_array_get_idx(volumes, i), "configMap");

		if (!json_object_get_boolean(member(map, "optional")))
			snprintf(o->corefile_from, sizeof o->corefile_from, "%s",
			    string_member(map, "name"));
	}
	if (strcmp(string_member(workload, "kind"), "DaemonSet") == 0)
		return;
	report_coredns(o->report, string_member(member(workload, "metadata"), "name"),
	    json_object_get_int(member(member(workload, "spec"), "replicas")));
}

static void
take_workload(struct objects *o, struct json_object *json, unsigned line)
{
	struct json_object *spec = member(json, "spec");
	struct json_object *pod = member(member(spec, "template"), "spec");
	struct json_object *containers = member(pod, "containers");
	bool known = false;

	for (size_t i = 0; i < length(containers); i++) {
		struct json_object *c = json_object_array_get_idx(containers, i);
		const char *name = string_member(c, "name");

		static const char *const ours[] = { "kubedns", "dnsmasq", "sidecar", "coredns",
			NULL };
		char what[300];
		snprintf(
		    what, sizeof what, "container %.100s: %.150s", name, string_member(c, "image"));
		known = known || among(name, ours);
		o->kube_dns |= strcmp(name, "kubedns") == 0;
		if (strcmp(name, "node-cache") == 0)
			finding(o, line, what, VERDICT_STAYS, "stays in NodeLocal DNSCache");
		else if (among(name, ours))
			finding(o, line, what, VERDICT_CARRIED, "replaced by our image");
		else
			finding(o, line, what, VERDICT_NONE,
			    "not a container of the DNS: add it with a patch in the overlay");
		take_args(o, line, name, member(c, "args"));
		if (strcmp(name, "coredns") == 0)
			take_coredns(o, json, pod);
	}
	if (!known)
		return;
	o->configured = true;
	if (member(spec, "replicas") != NULL)
		finding(o, line, "replicas", VERDICT_CARRIED,
		    "a Deployment named kube-dns keeps its number; when you switch from CoreDNS, "
		    "scale to the same number");
	if (length(member(pod, "tolerations")) > 1)
		finding(o, line, "tolerations", VERDICT_CHANGES,
		    "CriticalAddonsOnly is in the manifest, the control plane's are in "
		    "components/control-plane; add others with a patch in the overlay");
	if (member(pod, "affinity") != NULL)
		finding(o, line, "affinity", VERDICT_CHANGES,
		    "the manifest keeps pods apart by host and by zone; add other rules with a "
		    "patch in the overlay");
}

/* --- all of them --- */

static void
take_service(
    struct objects *o, struct json_object *json, const char *name, const char *what, unsigned line)
{
	const char *ip = string_member(member(json, "spec"), "clusterIP");

	if (strcmp(name, "kube-dns") == 0 && *ip && strcmp(ip, "None") != 0) {
		report_cluster_ip(o->report, ip);
		finding(o, line, what, VERDICT_CARRIED, "settings.yaml's clusterIP");
	} else {
		finding(o, line, what, VERDICT_CARRIED, "stays; kubedns does not use it");
	}
}

/* Reports an object of a kind that does not affect answers. */
static void
take_other(struct objects *o, const char *kind, const char *what, unsigned line)
{
	static const char *const ours[] = { "ServiceAccount", "ClusterRole", "ClusterRoleBinding",
		"Role", "RoleBinding", "PodDisruptionBudget", "HorizontalPodAutoscaler",
		"NetworkPolicy", "ServiceMonitor", "PodMonitor", "PrometheusRule", NULL };
	static const char *const made[] = { "Namespace", "Pod", "ReplicaSet", "ControllerRevision",
		"Endpoints", "EndpointSlice", "Event", "Lease", "Node", NULL };
	if (among(kind, ours))
		finding(o, line, what, VERDICT_CARRIED,
		    "conf/kubernetes has its own object of this kind");
	else if (among(kind, made))
		finding(o, line, what, VERDICT_CARRIED, "made by the cluster: nothing to migrate");
	else
		finding(o, line, what, VERDICT_NONE,
		    "not read: kubedns-migrate reads ConfigMaps, Deployments, DaemonSets, the "
		    "Service, and values of the coredns chart");
}

void
objects_take(void *arg, struct json_object *json, const char *kind_hint, unsigned line)
{
	struct objects *o = arg;
	const char *kind = string_member(json, "kind");

	if (*kind == '\0')
		kind = kind_hint != NULL ? kind_hint : "";
	const char *name = string_member(member(json, "metadata"), "name");
	char what[400];
	snprintf(what, sizeof what, "%.100s %.200s", *kind ? kind : "values of a chart", name);
	if (strcmp(kind, "ConfigMap") == 0)
		take_configmap(o, json, name, line);
	else if (strcmp(kind, "Deployment") == 0 || strcmp(kind, "DaemonSet") == 0)
		take_workload(o, json, line);
	else if (strcmp(kind, "Service") == 0)
		take_service(o, json, name, what, line);
	else if (strcmp(kind, "HelmRelease") == 0 || strcmp(kind, "HelmChart") == 0 ||
		 strcmp(kind, "HelmChartConfig") == 0)
		take_helm(o, json, what, line);
	else if (*kind != '\0' || !take_values(o, json, what, line))
		take_other(o, kind, what, line);
}

/* Called if the objects contain neither a Corefile nor a workload of CoreDNS. If they contain keys
 * of the ConfigMap coredns-custom, makes a Corefile that imports these keys. */
static void
take_custom(struct objects *o)
{
	bool server = false, override = false;

	for (size_t i = 0; i < o->count; i++) {
		server = server || ends(o->texts[i].text.name, ".server");
		override = override || ends(o->texts[i].text.name, ".override");
	}
	if ((!server && !override) || o->count == TEXTS_MAX)
		return;
	add_text(o, xstrdup("coredns-custom"),
	    xasprintf("%s%s", override ? ".:53 {\n import *.override\n}\n" : "",
		server ? "import *.server\n" : ""),
	    xstrdup("coredns-custom"))
	    ->corefile = true;
	o->partial = true;
	finding(o, 0, "Corefile", VERDICT_NONE,
	    "missing: the report lacks its lines. Read it together with coredns-custom: kubectl -n "
	    "kube-system get configmap/coredns configmap/coredns-custom -o yaml");
}

int
objects_complete(struct objects *o)
{
	bool found = false;

	for (size_t i = 0; i < o->count; i++)
		found = found || o->texts[i].corefile;
	if (report_topology(o->report) == TOPOLOGY_AUTO)
		report_set_topology(o->report,
		    o->kube_dns && !found && !o->coredns ? TOPOLOGY_CLASSIC : TOPOLOGY_FRONT);
	if (o->kube_dns && !found && !o->coredns)
		report_replaces_kube_dns(o->report);
	if (!found && !o->coredns)
		take_custom(o);
	if (!found && !o->coredns && !o->partial && !o->configured &&
	    (o->count > 0 || !report_is_empty(o->report))) {
		log_errorx(
		    "%s: nothing to migrate: none of these objects has a Corefile, or keys or "
		    "flags of kube-dns. Read the Corefile: kubectl -n kube-system get "
		    "configmap/coredns -o yaml",
		    o->source);
		return -ENODATA;
	}
	if (found || !o->coredns)
		return 0;
	const char *map = *o->corefile_from ? o->corefile_from : "coredns";
	log_errorx("%s: has CoreDNS, but its Corefile is missing: add the ConfigMap %s (kubectl -n "
		   "kube-system get configmap/%s ... -o yaml)",
	    o->source, map, map);
	return -ENOENT;
}

void
objects_report_unread(const struct objects *o)
{
	bool corefile = false;

	for (size_t i = 0; i < o->count; i++)
		corefile = corefile || (o->texts[i].corefile && !o->partial);
	for (size_t i = 0; i < o->count; i++) {
		const struct objects_text *t = &o->texts[i];

		if (t->corefile || t->used)
			continue;
		if (t->backup)
			finding(o, 0, t->where, VERDICT_CARRIED,
			    "not read: a copy of the Corefile, which CoreDNS does not read either");
		else if (corefile)
			finding(o, 0, t->where, VERDICT_CARRIED,
			    "not read: no line of the Corefile refers to it");
		else
			finding(o, 0, t->where, VERDICT_NONE,
			    "not read: there is no Corefile that refers to it");
	}
	if (o->left_out)
		finding(
		    o, 0, "ConfigMaps", VERDICT_NONE, "too many keys: not all of them are read");
}

static struct corefile_text
copy_text(const struct corefile_text *text)
{
	return (struct corefile_text){
		.name = xstrdup(text->name), .text = xstrdup(text->text), .len = text->len
	};
}

size_t
objects_import(void *arg, const char *pattern, const char *from, struct corefile_text **texts)
{
	struct objects *o = arg;
	const char *slash = strrchr(pattern, '/');
	size_t count = 0;

	(void)from;
	*texts = xcalloc(o->count + 1, sizeof **texts);
	for (size_t i = 0; i < o->count; i++)
		if (!o->texts[i].corefile && !o->texts[i].backup &&
		    fnmatch(slash != NULL ? slash + 1 : pattern, o->texts[i].text.name, 0) == 0) {
			o->texts[i].used = true;
			(*texts)[count++] = copy_text(&o->texts[i].text);
		}
	return count;
}

bool
objects_file(void *arg, const char *path, const char *from, struct corefile_text *text)
{
	struct objects *o = arg;
	const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;

	(void)from;
	for (size_t i = 0; i < o->count; i++)
		if (!o->texts[i].corefile && strcmp(o->texts[i].text.name, name) == 0) {
			o->texts[i].used = true;
			*text = copy_text(&o->texts[i].text);
			return true;
		}
	return false;
}

void
objects_free(struct objects *o)
{
	for (size_t i = 0; i < o->count; i++) {
		free(o->texts[i].text.name);
		free(o->texts[i].text.text);
		free(o->texts[i].where);
	}
	free(o->texts);
	o->texts = NULL;
	o->count = 0;
}
