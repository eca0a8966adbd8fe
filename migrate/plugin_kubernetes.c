/*
 * CoreDNS's `kubernetes`: the cluster's zones and the options that decide which names exist in
 * them, as flags of kubedns. A table has the options for which one sentence is enough.
 */
#include <stdlib.h>
#include <string.h>

#include "migrate/plugins.h"
#include "lib/xalloc.h"

static const struct plugin_option options[] = {
	{ "endpoint", VERDICT_CHANGES, "--kube-master-url=URL; in a pod neither is needed" },
	{ "kubeconfig", VERDICT_CHANGES,
	    "--kubecfg-file=FILE, mounted into the container kubedns" },
	{ "tls", VERDICT_CHANGES, "in a kubeconfig: --kubecfg-file=FILE" },
	{ "labels", VERDICT_NONE,
	    "every Service of the cluster is answered; --namespaces and --namespace-labels limit "
	    "by "
	    "namespace" },
	{ "noendpoints", VERDICT_NONE,
	    "--endpointslice-selector=service.kubernetes.io/headless keeps the headless ones only, "
	    "which saves as much memory" },
	{ "startup_timeout", VERDICT_CHANGES,
	    "kubedns answers SERVFAIL (Not Ready) until it has read the cluster, and is not ready "
	    "before" },
	{ "apiserver_qps", VERDICT_CARRIED, "one list and one watch a resource: nothing to limit" },
	{ "apiserver_burst", VERDICT_CARRIED, "one list and one watch a resource" },
	{ "apiserver_max_inflight", VERDICT_CARRIED, "one list and one watch a resource" },
	{ "resyncperiod", VERDICT_CARRIED, "CoreDNS itself ignores it" },
	{ "upstream", VERDICT_CARRIED, "ExternalName targets are looked up as every other name" },
};

/* The line's words from the second on, with `between` between them; caller frees. */
static char *
join_words(const struct corefile_line *line, const char *between)
{
	char *text = xstrdup("");
	for (size_t i = 1; i < line->count; i++) {
		char *more = xasprintf("%s%s%s", text, i > 1 ? between : "", line->words[i]);
		free(text);
		text = more;
	}
	return text;
}

/* Whether the option `multicluster` names the zone. */
static bool
is_of_other_clusters(const struct corefile_directive *d, const char *zone)
{
	bool found = false;

	for (size_t i = 0; i < d->body_count && !found; i++)
		for (size_t k = 1; k < d->body[i].count && !found; k++) {
			char *named = plugins_zone(d->body[i].words[k]);
			found = strcmp(d->body[i].words[0], "multicluster") == 0 && named != NULL &&
				strcmp(named, zone) == 0;
			free(named);
		}
	return found;
}

/* kubedns has one such zone. */
static void
read_multicluster(struct scope *scope, const struct corefile_line *line)
{
	struct report *r = scope->report;
	char *zone = line->count > 1 ? plugins_zone(line->words[1]) : NULL;

	if (line->count != 2 || zone == NULL || strcmp(zone, ".") == 0 || plugins_reverse(zone) ||
	    plugins_in_cluster(r, zone)) {
		report_line(r, line, VERDICT_NONE,
		    "--clusterset-domain wants one zone beside the cluster's own, such as "
		    "clusterset.local");
	} else {
		report_flag(r, PROGRAM_KUBEDNS, "--clusterset-domain=%s", zone);
		report_flag(r, PROGRAM_DNSMASQ, "--server=/%s/127.0.0.1#10053", zone);
		report_line(r, line, VERDICT_CARRIED,
		    "--clusterset-domain; the right to read ServiceImports is in "
		    "components/multicluster, with Helm multicluster.enabled "
		    "(docs/multicluster.md)");
	}
	free(zone);
}

/* Zones of ours; others need no flag. */
static void
read_fallthrough(
    struct scope *scope, const struct corefile_directive *d, const struct corefile_line *line)
{
	char *zones = xstrdup("");
	bool all = line->count == 1;
	for (size_t i = 1; i < line->count; i++) {
		char *zone = plugins_zone(line->words[i]);
		all = all || (zone != NULL && strcmp(zone, ".") == 0);
		if (zone != NULL &&
		    (plugins_in_cluster(scope->report, zone) || is_of_other_clusters(d, zone))) {
			char *more = xasprintf("%s%s%s", zones, *zones ? "," : "", zone);
			free(zones);
			zones = more;
		}
		free(zone);
	}
	if (all)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--fallthrough");
	else if (*zones)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--fallthrough=%s", zones);
	report_line(scope->report, line, VERDICT_CARRIED, "%s",
	    all || *zones ? "--fallthrough; reverse names that are not the cluster's are forwarded "
			    "without being told"
			  : "names there that are not the cluster's are always forwarded");
	free(zones);
}

static void
read_pods(struct scope *scope, const struct corefile_line *line)
{
	const char *mode = line->count > 1 ? line->words[1] : "disabled";
	if (strcmp(mode, "insecure") != 0)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--pods=%s",
		    strcmp(mode, "verified") == 0 ? "verified" : "disabled");
	report_line(scope->report, line, VERDICT_CARRIED, "%s",
	    strcmp(mode, "insecure") == 0   ? "the default"
	    : strcmp(mode, "verified") == 0 ? "--pods=verified; the ClusterRole needs a rule for "
					      "pods: list, watch"
					    : "--pods=disabled");
}

static void
read_namespaces(struct scope *scope, const struct corefile_line *line)
{
	char names[2000] = "";
	for (size_t i = 1; i < line->count; i++)
		if (strlen(names) + strlen(line->words[i]) + 2 < sizeof names) {
			strcat(names, *names ? "," : "");
			strcat(names, line->words[i]);
		}
	if (*names)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--namespaces=%s", names);
	report_line(scope->report, line, VERDICT_CARRIED, "--namespaces");
}

static void
read_ttl(struct scope *scope, const struct corefile_line *line)
{
	char *end = NULL;
	long ttl = line->count > 1 ? strtol(line->words[1], &end, 10) : -1;
	if (ttl < 0 || ttl > 3600 || *end) {
		report_line(scope->report, line, VERDICT_NONE, "not a number from 0 to 3600");
		return;
	}
	/* CoreDNS's own default is 5 when nothing is said, ours is kube-dns's. */
	if (ttl != 30)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--ttl=%ld", ttl);
	report_line(scope->report, line, VERDICT_CARRIED, "--ttl=%ld%s", ttl,
	    ttl == 30 ? ", the default" : "");
}

static void
read_option(
    struct scope *scope, const struct corefile_directive *d, const struct corefile_line *line)
{
	struct report *r = scope->report;
	const char *name = line->words[0];
	if (strcmp(name, "pods") == 0) {
		read_pods(scope, line);
	} else if (strcmp(name, "ttl") == 0) {
		read_ttl(scope, line);
	} else if (strcmp(name, "namespaces") == 0) {
		read_namespaces(scope, line);
	} else if (strcmp(name, "multicluster") == 0) {
		read_multicluster(scope, line);
	} else if (strcmp(name, "fallthrough") == 0) {
		read_fallthrough(scope, d, line);
	} else if (strcmp(name, "namespace_labels") == 0) {
		char *selector = join_words(line, " ");
		report_flag(r, PROGRAM_KUBEDNS, "--namespace-labels=%s", selector);
		report_line(r, line, VERDICT_CARRIED, "--namespace-labels");
		free(selector);
	} else if (strcmp(name, "endpoint_pod_names") == 0) {
		report_flag(r, PROGRAM_KUBEDNS, "--endpoint-pod-names");
		report_line(r, line, VERDICT_CARRIED, "--endpoint-pod-names");
	} else if (strcmp(name, "zonal") == 0) {
		report_flag(r, PROGRAM_KUBEDNS, "--zonal");
		report_line(r, line, VERDICT_CARRIED, "--zonal");
	} else if (strcmp(name, "ignore") == 0) {
		report_flag(r, PROGRAM_KUBEDNS, "--ignore-empty-service");
		report_line(r, line, VERDICT_CARRIED, "--ignore-empty-service");
	} else if (strcmp(name, "transfer") == 0 && line->count > 1 &&
		   strcmp(line->words[1], "to") == 0) {
		plugin_transfer_to(scope, line, 2);
	} else if (!plugins_option(r, line, options, sizeof options / sizeof *options)) {
		report_line(r, line, VERDICT_NONE, "not known; see kubernetes's manual");
	}
}

/* kubernetes [ZONE...] { ... }; without zones it has the block's. */
void
plugin_kubernetes(struct scope *scope, const struct corefile_directive *d)
{
	const struct corefile_line *line = &d->head;
	bool has_ttl = false;
	enum verdict verdict = VERDICT_CARRIED;
	const char *sentence = "settings.yaml's clusterDomain; reverse names are answered without "
			       "being told";
	size_t count = line->count > 1 ? line->count - 1 : scope->count;
	for (size_t i = 0; i < count; i++) {
		char *zone = plugins_zone(line->count > 1 ? line->words[i + 1] : scope->zones[i]);
		if (zone == NULL || plugins_reverse(zone) || is_of_other_clusters(d, zone)) {
			free(zone);
			continue;
		}
		if (strcmp(zone, ".") == 0) {
			verdict = VERDICT_NONE;
			sentence = "the cluster's domain cannot be the root: say one";
		} else if (!report_domain(scope->report, zone)) {
			verdict = VERDICT_NONE;
			sentence =
			    "one cluster domain a pod: run a second Deployment (beside, with "
			    "another clusterDomain) and make its address a stub domain here";
		}
		free(zone);
	}
	for (size_t i = 0; i < d->body_count; i++)
		has_ttl = has_ttl || strcmp(d->body[i].words[0], "ttl") == 0;
	if (!has_ttl)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--ttl=5");
	if (!has_ttl && verdict == VERDICT_CARRIED)
		sentence = "settings.yaml's clusterDomain, and --ttl=5, CoreDNS's default; reverse "
			   "names are answered without being told";
	report_line(scope->report, line, verdict, "%s", sentence);
	for (size_t i = 0; i < d->body_count; i++)
		read_option(scope, d, &d->body[i]);
}
