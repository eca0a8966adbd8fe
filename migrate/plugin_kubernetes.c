/*
 * CoreDNS's `kubernetes`. The cluster's zones, and the options that decide which names exist in
 * these zones, become flags of kubedns. A table contains the options that need only one sentence.
 */
#include <stdlib.h>
#include <string.h>

#include "migrate/plugins.h"
#include "lib/xalloc.h"

static const struct report_option options[] = {
	{ "endpoint", VERDICT_CHANGES, "--kube-master-url=URL; in a pod neither is needed" },
	{ "kubeconfig", VERDICT_CHANGES,
	    "--kubecfg-file=FILE, mounted into the container kubedns" },
	{ "tls", VERDICT_CHANGES, "in a kubeconfig: --kubecfg-file=FILE" },
	{ "labels", VERDICT_NONE,
	    "kubedns answers for every Service; --namespaces and --namespace-labels select "
	    "namespaces" },
	{ "noendpoints", VERDICT_NONE,
	    "--endpointslice-selector=service.kubernetes.io/headless reads only slices of headless "
	    "Services, which saves as much memory" },
	{ "startup_timeout", VERDICT_CHANGES,
	    "kubedns answers SERVFAIL (Not Ready) until it has read the cluster, and is not ready "
	    "before" },
	{ "apiserver_qps", VERDICT_CARRIED,
	    "one list and one watch per resource: nothing to limit" },
	{ "apiserver_burst", VERDICT_CARRIED, "one list and one watch per resource" },
	{ "apiserver_max_inflight", VERDICT_CARRIED, "one list and one watch per resource" },
	{ "resyncperiod", VERDICT_CARRIED, "CoreDNS ignores it too" },
	{ "upstream", VERDICT_CARRIED, "ExternalName targets are looked up like any other name" },
};

/* Returns the words of the line, without the first word, joined with `between`. Caller frees. */
static char *
join_words(const struct corefile_line *line, const char *between)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	for (size_t i = 1; i < line->count; i++)
		fprintf(f, "%s%s", i > 1 ? between : "", line->words[i]);
	fclose(f);
	return text;
}

/* Returns the zones of the option `multicluster`. Caller frees. */
static struct zone_set *
zones_of_other_clusters(const struct corefile_directive *d)
{
	struct zone_set *set = zone_set_new();

	for (size_t i = 0; i < d->body_count; i++)
		for (size_t k = 1; k < d->body[i].count; k++) {
			char *zone = strcmp(d->body[i].words[0], "multicluster") == 0
					 ? zone_parse(d->body[i].words[k])
					 : NULL;

			if (zone != NULL)
				zone_set_add(set, zone);
			free(zone);
		}
	return set;
}

/* Reads the option `multicluster`. kubedns supports only one such zone. */
static void
read_multicluster(struct scope *scope, const struct corefile_line *line)
{
	struct report *r = scope->report;
	char *zone = line->count > 1 ? zone_parse(line->words[1]) : NULL;

	if (line->count != 2 || zone == NULL || strcmp(zone, ".") == 0 || zone_is_reverse(zone) ||
	    report_in_cluster(r, zone)) {
		report_line(r, line, VERDICT_NONE,
		    "--clusterset-domain needs one zone other than the cluster's, such as "
		    "clusterset.local");
	} else {
		report_flag(r, PROGRAM_KUBEDNS, "--clusterset-domain=%s", zone);
		if (report_topology(r) == TOPOLOGY_CLASSIC)
			report_flag(r, PROGRAM_DNSMASQ, "--server=/%s/127.0.0.1#10053", zone);
		report_line(r, line, VERDICT_CARRIED,
		    "--clusterset-domain; components/multicluster, or Helm's multicluster.enabled, "
		    "adds the right to read ServiceImports (docs/multicluster.md)");
	}
	free(zone);
}

/* Reads `fallthrough` for the cluster's own zones. Other zones need no flag. */
static void
read_fallthrough(
    struct scope *scope, const struct zone_set *others, const struct corefile_line *line)
{
	char *zones = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&zones, &len);
	bool all = line->count == 1;

	for (size_t i = 1; i < line->count; i++) {
		char *zone = zone_parse(line->words[i]);

		all = all || (zone != NULL && strcmp(zone, ".") == 0);
		if (zone != NULL &&
		    (report_in_cluster(scope->report, zone) || zone_set_has(others, zone)))
			fprintf(f, "%s%s", ftell(f) > 0 ? "," : "", zone);
		free(zone);
	}
	fclose(f);
	if (all)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--fallthrough");
	else if (*zones)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--fallthrough=%s", zones);
	report_line(scope->report, line, VERDICT_CARRIED, "%s",
	    all || *zones
		? "--fallthrough; reverse names that the cluster does not have are always forwarded"
		: "names there that the cluster does not have are always forwarded");
	free(zones);
}

static void
read_pods(struct scope *scope, const struct corefile_line *line)
{
	const char *mode = line->count > 1 ? line->words[1] : "disabled";

	if (strcmp(mode, "insecure") != 0)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--pods=%s",
		    strcmp(mode, "verified") == 0 ? "verified" : "disabled");
	if (strcmp(mode, "verified") == 0)
		report_reads_pods(scope->report);
	report_line(scope->report, line, VERDICT_CARRIED, "%s",
	    strcmp(mode, "insecure") == 0 ? "the default"
	    : strcmp(mode, "verified") == 0
		? "--pods=verified; the ClusterRole gets the right to read pods"
		: "--pods=disabled");
}

static void
read_namespaces(struct scope *scope, const struct corefile_line *line)
{
	char *names = join_words(line, ",");

	if (*names)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--namespaces=%s", names);
	report_line(scope->report, line, VERDICT_CARRIED, "--namespaces");
	free(names);
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
	/* CoreDNS's default is 5. kubedns has the same default as kube-dns. */
	if (ttl != 30)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--ttl=%ld", ttl);
	report_line(scope->report, line, VERDICT_CARRIED, "--ttl=%ld%s", ttl,
	    ttl == 30 ? ", the default" : "");
}

static void
read_option(struct scope *scope, const struct zone_set *others, const struct corefile_line *line)
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
		read_fallthrough(scope, others, line);
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
	} else if (!report_option(r, line, options, sizeof options / sizeof *options)) {
		report_line(r, line, VERDICT_NONE, "unknown option; see kubernetes's manual");
	}
}

/* Converts `2.10.in-addr.arpa` to `10.2.0.0/16`. Returns false if the zone does not consist of one
 * to three whole bytes. */
static bool
reverse_prefix(const char *zone, char text[32])
{
	unsigned bytes[3], count = 0;
	int used = 0;

	while (count < 3 && sscanf(zone, "%3u.%n", &bytes[count], &used) == 1 && used > 0 &&
	       bytes[count] <= 255) {
		zone += used;
		used = 0;
		count++;
	}
	if (count == 0 || strcmp(zone, "in-addr.arpa") != 0)
		return false;
	unsigned a = bytes[count - 1], b = count > 1 ? bytes[count - 2] : 0,
		 c = count > 2 ? bytes[0] : 0;
	snprintf(text, 32, "%u.%u.%u.0/%u", a, b, c, 8 * count);
	return true;
}

/* The zones of a directive `kubernetes`. */
struct kubernetes_zones {
	bool root, second;       /* the zones include the root, or a second domain */
	bool reverse;            /* the zones include reverse zones */
	bool whole_v4, whole_v6; /* the zones include in-addr.arpa, or ip6.arpa */
	bool other;              /* some reverse zone cannot be a range of --reverse-cidrs */
	bool ranges; /* all reverse zones can be such ranges, so --ptr=cidrs is possible */
	/* in one of the reverse zones, CoreDNS returns NXDOMAIN for names that the cluster does not
	 * have */
	bool denied;
	bool all_endpoints; /* CoreDNS also has PTR records for endpoints of Services with an IP */
	/* value of --reverse-cidrs: the zones for which kubedns can also return NXDOMAIN */
	FILE *prefixes;
	struct zone_set *falls; /* zones of the option `fallthrough` */
	bool falls_all;
};

static void
take_zone(struct scope *scope, const char *zone, struct kubernetes_zones *zones)
{
	char prefix[32];

	if (!zone_is_reverse(zone)) {
		zones->root |= strcmp(zone, ".") == 0;
		zones->second |= strcmp(zone, ".") != 0 && !report_domain(scope->report, zone);
		return;
	}
	zones->reverse = true;
	zones->whole_v4 |= strcmp(zone, "in-addr.arpa") == 0;
	zones->whole_v6 |= strcmp(zone, "ip6.arpa") == 0;
	bool falls = zones->falls_all || zone_set_covers(zones->falls, zone);
	if (!falls && reverse_prefix(zone, prefix)) {
		fprintf(zones->prefixes, "%s%s", ftell(zones->prefixes) > 0 ? "," : "", prefix);
		return;
	}
	zones->other = true;
	zones->denied |= !falls;
}

/* Reads the zones of the line or, if the line has none, of the block. */
static void
take_zones(struct scope *scope, const struct corefile_directive *d, const struct zone_set *others,
    struct kubernetes_zones *zones)
{
	const struct corefile_line *line = &d->head;
	size_t count = line->count > 1 ? line->count - 1 : scope->count;

	for (size_t i = 0; i < d->body_count; i++)
		for (size_t k = 1; strcmp(d->body[i].words[0], "fallthrough") == 0; k++) {
			zones->falls_all |= d->body[i].count == 1;
			if (k >= d->body[i].count)
				break;
			char *zone = zone_parse(d->body[i].words[k]);
			if (zone != NULL)
				zone_set_add(zones->falls, zone);
			free(zone);
		}
	for (size_t i = 0; i < count; i++) {
		char *zone = zone_parse(line->count > 1 ? line->words[i + 1] : scope->zones[i]);

		if (zone != NULL && !zone_set_has(others, zone))
			take_zone(scope, zone, zones);
		free(zone);
	}
}

/* Returns the part of the sentence that is about reverse names. Sets `changes` if kubedns answers
 * some of these names differently. */
static const char *
reverse_sentence(const struct kubernetes_zones *zones, bool *changes)
{
	*changes = true;
	if (zones->denied)
		return ". A reverse name that the cluster does not have is forwarded; CoreDNS "
		       "returns NXDOMAIN without fallthrough. --reverse-cidrs=CIDR,... does the "
		       "same for ranges";
	if (!zones->reverse)
		return ". kubedns also answers the cluster's reverse names; CoreDNS does not";
	if (!zones->ranges && !zones->whole_v4)
		return ". kubedns also answers reverse names of the cluster's addresses outside "
		       "these zones; CoreDNS does not";
	if (!zones->ranges && !zones->whole_v6)
		return ". kubedns also answers reverse names of the cluster's IPv6 addresses; "
		       "CoreDNS does not";
	*changes = false;
	return zones->ranges ? "; --reverse-cidrs and --ptr=cidrs: PTR records only in these ranges"
			     : "; reverse names are always answered";
}

static void
report_zones(struct scope *scope, const struct corefile_line *line,
    const struct kubernetes_zones *zones, const char *defaults)
{
	bool changes;
	const char *reverse = reverse_sentence(zones, &changes);

	if (zones->root)
		report_line(scope->report, line, VERDICT_NONE,
		    "the cluster's domain cannot be the root: name the domain");
	else if (zones->second)
		report_line(scope->report, line, VERDICT_NONE,
		    "a pod has one cluster domain: run a second Deployment (overlay beside, with "
		    "another clusterDomain) and add a stub domain with its address here");
	else
		report_line(scope->report, line, changes ? VERDICT_CHANGES : VERDICT_CARRIED,
		    "settings.yaml's clusterDomain%s%s%s", defaults, reverse,
		    zones->all_endpoints
			? ". --reverse-all-endpoints: PTR records of every Service's endpoints"
			: "");
}

/* Adds flags for options whose default in CoreDNS differs from kubedns's. Returns the sentence
 * about these options. */
static char *
report_defaults(struct report *report, bool has_ttl, bool has_pods)
{
	if (!has_ttl)
		report_flag(report, PROGRAM_KUBEDNS, "--ttl=5");
	if (!has_pods)
		report_flag(report, PROGRAM_KUBEDNS, "--pods=disabled");
	return xasprintf("%s%s%s", has_ttl ? "" : ", and --ttl=5",
	    has_pods ? "" : ", and --pods=disabled",
	    has_ttl && has_pods ? "" : ", CoreDNS's default");
}

/* kubernetes [ZONE...] { ... }. If the directive has no zones, the block's zones apply. */
void
plugin_kubernetes(struct scope *scope, const struct corefile_directive *d)
{
	struct zone_set *others = zones_of_other_clusters(d);
	struct kubernetes_zones zones = { .falls = zone_set_new() };
	char *prefixes = NULL;
	size_t len = 0;
	bool has_ttl = false, has_pods = false, endpoints = true;

	zones.prefixes = open_memstream(&prefixes, &len);
	take_zones(scope, d, others, &zones);
	fclose(zones.prefixes);
	zones.ranges = len > 0 && !zones.other;
	if (len > 0)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--reverse-cidrs=%s", prefixes);
	if (zones.ranges)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--ptr=cidrs");
	for (size_t i = 0; i < d->body_count; i++) {
		has_ttl |= strcmp(d->body[i].words[0], "ttl") == 0;
		has_pods |= strcmp(d->body[i].words[0], "pods") == 0;
		endpoints &= strcmp(d->body[i].words[0], "noendpoints") != 0;
	}
	zones.all_endpoints = zones.reverse && endpoints;
	if (zones.all_endpoints)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--reverse-all-endpoints");
	char *defaults = report_defaults(scope->report, has_ttl, has_pods);
	report_zones(scope, &d->head, &zones, defaults);
	free(defaults);
	for (size_t i = 0; i < d->body_count; i++)
		read_option(scope, others, &d->body[i]);
	zone_set_free(others);
	zone_set_free(zones.falls);
	free(prefixes);
}
