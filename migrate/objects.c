#include <errno.h>
#include <fnmatch.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/objects.h"
#include "migrate/plugins.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum { TEXTS_MAX = 1000 };

/* Reports on `what` in the object at `line`, which is no line of a Corefile. */
static void
finding(
    struct objects *o, unsigned line, const char *what, enum verdict verdict, const char *sentence)
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

/* upstreamNameservers and stubDomains mean the same here: carries them over, reports wrong ones. */
static void
take_kube_dns_key(struct objects *o, unsigned line, const char *key, const char *text)
{
	struct json_object *json = json_tokener_parse(text);
	bool good = true;
	if (strcmp(key, "upstreamNameservers") == 0) {
		good = json_object_is_type(json, json_type_array);
		for (size_t i = 0; i < length(json); i++)
			report_server(o->report, NULL,
			    json_object_get_string(json_object_array_get_idx(json, i)));
	} else {
		good = json_object_is_type(json, json_type_object);
		if (good) {
			json_object_object_foreach(json, domain, servers)
			{
				for (size_t i = 0; i < length(servers); i++)
					report_server(o->report, domain,
					    json_object_get_string(
						json_object_array_get_idx(servers, i)));
			}
		}
	}
	json_object_put(json);
	finding(o, line, key, good ? VERDICT_CARRIED : VERDICT_NONE,
	    good ? "the same key of the ConfigMap kube-dns"
		 : "not the JSON that this key has: write it again (conf/kubernetes/README.md)");
}

static void
take_configmap(struct objects *o, struct json_object *json, unsigned line)
{
	struct json_object *data = member(json, "data");
	if (!json_object_is_type(data, json_type_object))
		return;
	json_object_object_foreach(data, key, value)
	{
		if (!json_object_is_type(value, json_type_string))
			continue;
		const char *text = json_object_get_string(value);
		if (strcmp(key, "stubDomains") == 0 || strcmp(key, "upstreamNameservers") == 0) {
			take_kube_dns_key(o, line, key, text);
		} else if (strcmp(key, "federations") == 0) {
			finding(o, line, key, VERDICT_CARRIED,
			    "the same key: copy it into the ConfigMap");
		} else if (o->count < TEXTS_MAX) {
			if ((o->count & (o->count - 1)) == 0)
				o->texts = xreallocarray(
				    o->texts, o->count ? 2 * o->count : 1, sizeof *o->texts);
			o->texts[o->count++] = (struct corefile_text){
				.name = xstrdup(key), .text = xstrdup(text), .len = strlen(text)
			};
		}
	}
}

static bool
begins(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Splits a flag into its name (without dashes and underscores, for comparing) and its value. */
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
	for (; *names; names++)
		if (strcmp(name, *names) == 0)
			return true;
	return false;
}

/* A flag of the container kubedns of kube-dns. */
static void
take_kubedns_flag(struct objects *o, unsigned line, const char *arg)
{
	static const char *const manifest[] = { "dns-port", "healthz-port", "v", "drain",
		"config-dir", "logtostderr", NULL };
	char name[64];
	const char *value;
	flag_parts(arg, name, &value);
	if (strcmp(name, "domain") == 0) {
		char *domain = plugins_zone(value);
		if (domain != NULL && strcmp(domain, ".") != 0)
			report_domain(o->report, domain);
		free(domain);
		finding(o, line, arg, VERDICT_CARRIED, "settings.yaml's clusterDomain");
	} else if (among(name, manifest)) {
		finding(o, line, arg, VERDICT_CARRIED, "the manifest says it");
	} else {
		report_flag(o->report, PROGRAM_KUBEDNS, "%s", arg);
		finding(o, line, arg, VERDICT_CARRIED, "kubedns takes the same flag");
	}
}

/* One of dnsmasq's, behind the nanny's `--`. */
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
	if (among(name, manifest) || (strcmp(name, "server") == 0 && strstr(value, "127.0.0.1"))) {
		finding(o, line, arg, VERDICT_CARRIED, "the manifest says it");
	} else if (strcmp(name, "no-negcache") == 0) {
		finding(o, line, arg, VERDICT_CHANGES,
		    "kubedns's --negative-ttl=0 in the manifest says it for cluster names alone; "
		    "denials of outside names are kept as long as they say");
	} else if (among(name, nannys)) {
		finding(o, line, arg, VERDICT_CHANGES, "the nanny's: it sets this itself");
	} else {
		report_flag(o->report, PROGRAM_DNSMASQ, "%s", arg);
		finding(o, line, arg, VERDICT_CARRIED, "dnsmasq takes the same flag");
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
			finding(o, line, arg, VERDICT_CARRIED,
			    "the manifest says it, or the same flag can be added");
		else if (strcmp(name, "coredns") == 0 && strcmp(arg, "-conf") != 0 && *arg == '-')
			finding(o, line, arg, VERDICT_CARRIED,
			    "CoreDNS's own: what it says is in the manifest");
	}
}

/* Remembers where the Corefile has to come from: the first ConfigMap that CoreDNS's pod cannot do
 * without. */
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
		if (strcmp(name, "node-cache") == 0)
			finding(o, line, what, VERDICT_CARRIED,
			    "NodeLocal DNSCache: leave it; it asks the Service, whose address "
			    "stays");
		else if (among(name, ours))
			finding(o, line, what, VERDICT_CARRIED, "an image of ours in its place");
		else
			finding(o, line, what, VERDICT_NONE,
			    "a container that is none of the DNS's: add it by a patch in the "
			    "overlay");
		take_args(o, line, name, member(c, "args"));
		if (strcmp(name, "coredns") == 0)
			take_coredns(o, json, pod);
	}
	if (!known)
		return;
	if (member(spec, "replicas") != NULL)
		finding(o, line, "replicas", VERDICT_CARRIED,
		    "under the name kube-dns the number stays as it is; from CoreDNS scale to the "
		    "same number");
	if (length(member(pod, "tolerations")) > 1)
		finding(o, line, "tolerations", VERDICT_CHANGES,
		    "CriticalAddonsOnly is in the manifest, components/control-plane has the "
		    "control "
		    "plane's; others by a patch in the overlay");
	if (member(pod, "affinity") != NULL)
		finding(o, line, "affinity", VERDICT_CHANGES,
		    "apart by host and by zone is in the manifest; others by a patch in the "
		    "overlay");
}

void
objects_take(void *arg, struct json_object *json, const char *kind_hint, unsigned line)
{
	struct objects *o = arg;
	const char *kind = string_member(json, "kind");
	if (*kind == '\0')
		kind = kind_hint ? kind_hint : "";
	const char *name = string_member(member(json, "metadata"), "name");
	char what[400];
	snprintf(what, sizeof what, "%.100s %.200s", *kind ? kind : "(no kind)", name);
	if (strcmp(kind, "ConfigMap") == 0) {
		take_configmap(o, json, line);
	} else if (strcmp(kind, "Deployment") == 0 || strcmp(kind, "DaemonSet") == 0) {
		take_workload(o, json, line);
	} else if (strcmp(kind, "Service") == 0) {
		const char *ip = string_member(member(json, "spec"), "clusterIP");
		if (strcmp(name, "kube-dns") == 0 && *ip && strcmp(ip, "None") != 0) {
			report_cluster_ip(o->report, ip);
			finding(o, line, what, VERDICT_CARRIED, "settings.yaml's clusterIP");
		} else {
			finding(o, line, what, VERDICT_CARRIED, "stays; nothing here asks for it");
		}
	} else {
		finding(o, line, what, VERDICT_CARRIED,
		    "conf/kubernetes has what is needed of this kind");
	}
}

bool
objects_is_corefile(const struct objects *o, size_t i)
{
	const char *name = o->texts[i].name;
	size_t len = strlen(name);
	return begins(name, "Corefile") || (len > 9 && strcmp(name + len - 9, ".Corefile") == 0);
}

int
objects_complete(const struct objects *o)
{
	bool found = !o->coredns;
	for (size_t i = 0; i < o->count; i++)
		found = found || objects_is_corefile(o, i);
	if (found)
		return 0;
	const char *map = *o->corefile_from ? o->corefile_from : "coredns";
	log_errorx("%s: CoreDNS runs here and its Corefile is missing: put the ConfigMap "
		   "%s into it too (kubectl -n kube-system get configmap/%s ... -o yaml)",
	    o->source, map, map);
	return -ENOENT;
}

size_t
objects_import(void *arg, const char *pattern, const char *from, struct corefile_text **texts)
{
	const struct objects *o = arg;
	const char *slash = strrchr(pattern, '/');
	size_t count = 0;
	(void)from;
	*texts = xcalloc(o->count + 1, sizeof **texts);
	for (size_t i = 0; i < o->count; i++)
		if (!objects_is_corefile(o, i) &&
		    fnmatch(slash ? slash + 1 : pattern, o->texts[i].name, 0) == 0)
			(*texts)[count++] = (struct corefile_text){
				.name = xstrdup(o->texts[i].name),
				.text = xstrdup(o->texts[i].text),
				.len = o->texts[i].len,
			};
	return count;
}

void
objects_free(struct objects *o)
{
	for (size_t i = 0; i < o->count; i++) {
		free(o->texts[i].name);
		free(o->texts[i].text);
	}
	free(o->texts);
	o->texts = NULL;
	o->count = 0;
}
