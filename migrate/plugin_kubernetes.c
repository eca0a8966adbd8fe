/*
 * CoreDNS's `kubernetes`. The cluster's zones, and the options that decide which names exist in
 * these zones, become flags of kubedns. A table contains the options that need only one sentence.
 *
 * In CoreDNS, each server block has options of its own. kubedns has one set of options: those of the
 * block that answers the cluster's domain. The reverse zones of all blocks count together.
 */
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/plugins.h"
#include "lib/dname.h"
#include "lib/xalloc.h"

/* Default TTLs of the cluster's names, in seconds. kubedns has the default of kube-dns. */
enum { COREDNS_TTL = 5, KUBEDNS_TTL = 30 };

static const struct report_option options[] = {
	{ "endpoint", VERDICT_CHANGES, "--kube-master-url=URL; in a pod neither is needed" },
	{ "kubeconfig", VERDICT_CHANGES,
	    "--kubecfg-file=FILE, mounted into the container kubedns" },
	{ "tls", VERDICT_CHANGES, "in a kubeconfig: --kubecfg-file=FILE" },
	{ "labels", VERDICT_NONE,
	    "kubedns answers for every Service; CoreDNS only for Services with these labels. "
	    "--namespaces and --namespace-labels select namespaces" },
	{ "noendpoints", VERDICT_NONE,
	    "kubedns answers headless Services, endpoints and their reverse names; CoreDNS did not "
	    "know them. "
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

/* Returns the whole line as text, for comparisons. Caller frees. */
static char *
line_key(const struct corefile_line *line)
{
	char *rest = join_words(line, " ");
	char *text = xasprintf("%s %s", line->words[0], rest);

	free(rest);
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
	    !zone_is_hosts(zone) || report_in_cluster(r, zone)) {
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
	if (report_is_unbound(scope->report) && report_topology(scope->report) == TOPOLOGY_CLASSIC)
		report_line(scope->report, line, VERDICT_CHANGES,
		    "%sreverse names that the cluster does not have get SERVFAIL, because kubedns "
		    "does not query tls:// servers: use the front topology",
		    all || *zones ? "--fallthrough; " : "");
	else
		report_line(scope->report, line, VERDICT_CARRIED, "%s",
		    all || *zones
			? "--fallthrough; reverse names that the cluster does not have are always "
			  "forwarded"
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
	for (size_t i = 1; i < line->count; i++)
		if (!dname_label_ok(line->words[i], strlen(line->words[i])) ||
		    line->words[i][strcspn(line->words[i], "ABCDEFGHIJKLMNOPQRSTUVWXYZ_")]) {
			report_line(scope->report, line, VERDICT_NONE,
			    "%s is not the name of a namespace: kubedns answers for all namespaces",
			    line->words[i]);
			return;
		}
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
	ttl = plugin_kubernetes_ttl(scope->files->kubernetes);
	if (ttl != KUBEDNS_TTL)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--ttl=%ld", ttl);
	report_line(scope->report, line, VERDICT_CARRIED, "--ttl=%ld%s", ttl,
	    ttl == KUBEDNS_TTL ? ", the default" : "");
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

enum { PREFIX_MAX = ADDR_TEXT_MAX + 4 };

/* reverse_prefix() for a zone below ip6.arpa. */
static bool
reverse_prefix6(const char *zone, char text[PREFIX_MAX])
{
	unsigned char digits[32];
	unsigned count = 0;
	struct addr addr = { .family = AF_INET6 };

	while (count < 32 && isxdigit((unsigned char)zone[0]) && zone[1] == '.') {
		digits[count++] =
		    (unsigned char)(isdigit((unsigned char)*zone) ? *zone - '0' : *zone - 'a' + 10);
		zone += 2;
	}
	if (count == 0 || strcmp(zone, "ip6.arpa") != 0)
		return false;
	for (unsigned i = 0; i < count; i++)
		addr.bytes[i / 2] |= (unsigned char)(digits[count - 1 - i] << (i % 2 ? 0 : 4));
	addr_format(&addr, text);
	snprintf(text + strlen(text), PREFIX_MAX - strlen(text), "/%u", 4 * count);
	return true;
}

/* Converts `2.10.in-addr.arpa` to `10.2.0.0/16`. Returns false if the zone does not consist of
 * whole bytes, or for IPv6, of whole digits. */
static bool
reverse_prefix(const char *zone, char text[PREFIX_MAX])
{
	unsigned bytes[4], count = 0;
	int used = 0;

	if (conf_name_under(zone, "ip6.arpa"))
		return reverse_prefix6(zone, text);
	while (count < 4 && sscanf(zone, "%3u.%n", &bytes[count], &used) == 1 && used > 0 &&
	       bytes[count] <= 255) {
		zone += used;
		used = 0;
		count++;
	}
	if (count == 0 || strcmp(zone, "in-addr.arpa") != 0)
		return false;
	unsigned a = bytes[count - 1], b = count > 1 ? bytes[count - 2] : 0,
		 c = count > 2 ? bytes[count - 3] : 0, d = count > 3 ? bytes[0] : 0;
	snprintf(text, PREFIX_MAX, "%u.%u.%u.%u/%u", a, b, c, d, 8 * count);
	return true;
}

/* --- all directives together --- */

struct kubernetes_plan {
	/* the directive that answers the cluster's names; NULL if the Corefile has none */
	const struct corefile_directive *directive;
	struct zone_set *lines; /* the lines of its block, as text */
	const struct corefile_block
	    *block;              /* its server block, if this answers the cluster's names */
	bool outside;            /* CoreDNS passes no query for the cluster's names to it */
	bool reverse;            /* the zones include reverse zones */
	bool whole_v4, whole_v6; /* the zones include in-addr.arpa, or ip6.arpa */
	bool other;              /* some reverse zone cannot be a range of --reverse-cidrs */
	/* in one of the reverse zones, CoreDNS returns NXDOMAIN for names that the cluster does not
	 * have, or SERVFAIL */
	bool denied, lost;
	bool hidden; /* CoreDNS passes some of the reverse names to a block without kubernetes */
	bool all_endpoints; /* CoreDNS also has PTR records for endpoints of Services with an IP */
	struct zone_set *ranges, *above; /* the reverse zones, and the names above each of them */
	/* value of --reverse-cidrs: the zones for which kubedns can also return NXDOMAIN */
	char *prefixes;
};

/* Whether all reverse zones can be ranges of --reverse-cidrs, so --ptr=cidrs is possible. */
static bool
only_ranges(const struct kubernetes_plan *plan)
{
	return *plan->prefixes && !plan->other;
}

/* The zones of the option `fallthrough`. */
struct falls {
	struct zone_set *zones;
	bool all;
	bool forwarded; /* the block forwards the names that fall through */
};

static struct falls
falls_of(const struct corefile_directive *d)
{
	struct falls falls = { .zones = zone_set_new() };

	for (size_t i = 0; i < d->body_count; i++) {
		if (strcmp(d->body[i].words[0], "fallthrough") != 0)
			continue;
		falls.all |= d->body[i].count == 1;
		for (size_t k = 1; k < d->body[i].count; k++) {
			char *zone;

			for (size_t n = 0; (zone = zone_part(d->body[i].words[k], n)) != NULL;
			     n++) {
				zone_set_add(falls.zones, zone);
				free(zone);
			}
		}
	}
	return falls;
}

static void
plan_reverse_zone(
    struct kubernetes_plan *plan, const struct falls *falls, const char *zone, FILE *prefixes)
{
	char prefix[PREFIX_MAX];
	bool falls_through = falls->all || zone_set_covers(falls->zones, zone);

	zone_set_add(plan->ranges, zone);
	for (const char *dot = strchr(zone, '.'); dot != NULL; dot = strchr(dot + 1, '.'))
		zone_set_add(plan->above, dot + 1);
	plan->reverse = true;
	plan->whole_v4 |= strcmp(zone, "in-addr.arpa") == 0;
	plan->whole_v6 |= strcmp(zone, "ip6.arpa") == 0;
	if (!falls_through && reverse_prefix(zone, prefix)) {
		fprintf(prefixes, "%s%s", ftell(prefixes) > 0 ? "," : "", prefix);
		return;
	}
	plan->other = true;
	plan->denied |= !falls_through;
	plan->lost |= falls_through && !falls->forwarded;
}

/* Collects the reverse zones of the directive for which CoreDNS passes queries to its block. */
static void
plan_reverse(struct kubernetes_plan *plan, const struct blocks *blocks, size_t number,
    const struct corefile_block *block, const struct corefile_directive *d, FILE *prefixes)
{
	struct zone_set *own = zone_set_new(), *others = zones_of_other_clusters(d);
	struct falls falls = falls_of(d);
	falls.forwarded = block_forwards(block);
	bool endpoints = true, before = plan->reverse;

	plan->reverse = false;
	for (size_t i = 1; i < d->head.count; i++) {
		char *zone;

		for (size_t k = 0; (zone = zone_part(d->head.words[i], k)) != NULL; k++) {
			if (zone_is_reverse(zone) && !zone_set_has(others, zone)) {
				zone_set_add(own, zone);
				if (blocks_of_name(blocks, zone) == block)
					plan_reverse_zone(plan, &falls, zone, prefixes);
			}
			free(zone);
		}
	}
	for (size_t i = 0; i < block->keys.count; i++) {
		char *zone = zone_parse(block->keys.words[i]);

		if (zone != NULL && zone_is_reverse(zone) && !zone_set_has(own, zone) &&
		    blocks_has_zone(blocks, number, zone) &&
		    (d->head.count == 1 || zone_set_covers(own, zone)))
			plan_reverse_zone(plan, &falls, zone, prefixes);
		free(zone);
	}
	for (size_t i = 0; i < d->body_count; i++)
		endpoints &= strcmp(d->body[i].words[0], "noendpoints") != 0;
	plan->all_endpoints |= plan->reverse && endpoints;
	plan->reverse |= before;
	zone_set_free(own);
	zone_set_free(others);
	zone_set_free(falls.zones);
}

/* Whether the block has a reverse zone with reverse names that kubedns answers. A stub domain gets the names in
 * it, as in CoreDNS. */
static bool
hides_names(const struct kubernetes_plan *plan, const struct blocks *blocks, size_t number,
    const struct corefile_block *block)
{
	bool found = false;

	for (size_t i = 0; i < block->keys.count && !found; i++) {
		char *zone = zone_parse(block->keys.words[i]);

		found = zone != NULL && zone_is_reverse(zone) &&
			blocks_has_zone(blocks, number, zone) &&
			!plugin_forward_has_servers(block, zone) &&
			(!only_ranges(plan) || zone_set_covers(plan->ranges, zone) ||
			    zone_set_has(plan->above, zone));
		free(zone);
	}
	return found;
}

/* Whether the zones of the directive, or those of its block, cover the name. */
static bool
covers(const struct corefile_block *block, const struct corefile_directive *d, const char *name)
{
	const struct corefile_line *zones = d->head.count > 1 ? &d->head : &block->keys;
	bool found = false;

	for (size_t i = d->head.count > 1; i < zones->count && !found; i++) {
		char *zone = zone_parse(zones->words[i]);

		found = zone != NULL && (strcmp(zone, ".") == 0 || conf_name_under(name, zone));
		free(zone);
	}
	return found;
}

struct kubernetes_plan *
plugin_kubernetes_plan(
    const struct report *report, const struct corefile *corefile, const struct blocks *blocks)
{
	struct kubernetes_plan *plan = xcalloc(1, sizeof *plan);
	char *services = xasprintf("svc.%s", report_known_domain(report));
	const struct corefile_block *block = blocks_of_name(blocks, services);
	const struct corefile_directive *d =
	    block != NULL ? corefile_find(block, "kubernetes") : NULL;
	size_t len = 0;
	FILE *prefixes = open_memstream(&plan->prefixes, &len);

	plan->ranges = zone_set_new();
	plan->above = zone_set_new();
	if (d != NULL && covers(block, d, services)) {
		plan->directive = d;
		plan->block = block;
	}
	plan->outside = plan->directive == NULL;
	for (size_t i = 0; i < corefile->count; i++) {
		block = &corefile->blocks[i];
		d = corefile_find(block, "kubernetes");
		if (d == NULL || blocks_fate(blocks, i) != BLOCK_SERVES)
			continue;
		plan_reverse(plan, blocks, i, block, d, prefixes);
		if (plan->directive == NULL)
			plan->directive = d;
	}
	fclose(prefixes);
	for (size_t i = 0; i < corefile->count; i++)
		if (corefile_find(&corefile->blocks[i], "kubernetes") == NULL)
			plan->hidden |= hides_names(plan, blocks, i, &corefile->blocks[i]);
	free(services);
	/* A closed cluster has a sentence of its own. */
	block = blocks_of_name(blocks, ".");
	plan->lost &= block != NULL && block_forwards(block);
	plan->lines = zone_set_new();
	for (size_t i = 0; plan->directive != NULL && i < plan->directive->body_count; i++) {
		char *text = line_key(&plan->directive->body[i]);

		zone_set_add(plan->lines, text);
		free(text);
	}
	return plan;
}

void
plugin_kubernetes_plan_free(struct kubernetes_plan *plan)
{
	zone_set_free(plan->lines);
	zone_set_free(plan->ranges);
	zone_set_free(plan->above);
	free(plan->prefixes);
	free(plan);
}

long
plugin_kubernetes_ttl(const struct kubernetes_plan *plan)
{
	long ttl = plan->directive != NULL ? COREDNS_TTL : KUBEDNS_TTL;

	for (size_t i = 0; plan->directive != NULL && i < plan->directive->body_count; i++) {
		const struct corefile_line *line = &plan->directive->body[i];

		if (strcmp(line->words[0], "ttl") == 0 && line->count > 1)
			ttl = strtol(line->words[1], NULL, 10);
	}
	return plan->block != NULL ? plugin_cache_ttl(plan->block, ttl) : ttl;
}

void
plugin_kubernetes_domain(
    struct report *report, const struct corefile_block *block, const struct corefile_directive *d)
{
	const struct corefile_line *zones = d->head.count > 1 ? &d->head : &block->keys;

	for (size_t n = d->head.count > 1; n < zones->count; n++) {
		char *zone = zone_parse(zones->words[n]);

		if (zone != NULL && strcmp(zone, ".") != 0 && !zone_is_reverse(zone))
			report_domain(report, zone);
		free(zone);
	}
}

/* --- the verdict on the directive itself --- */

/* Returns the part of the sentence that is about reverse names. Sets `changes` if kubedns answers
 * some of these names differently. Caller frees. */
static char *
reverse_sentence(const struct kubernetes_plan *plan, bool *changes)
{
	const char *more = "";

	*changes = true;
	if (!plan->reverse)
		return xstrdup(
		    ". kubedns also answers the cluster's reverse names; CoreDNS does not");
	if (!only_ranges(plan) && !plan->whole_v4)
		more = ". kubedns also answers reverse names of the cluster's addresses outside "
		       "these zones; CoreDNS does not";
	else if (!only_ranges(plan) && !plan->whole_v6)
		more = ". kubedns also answers reverse names of the cluster's IPv6 addresses; "
		       "CoreDNS does not";
	*changes = plan->denied || *more != '\0' || plan->hidden || plan->lost;
	if (!*changes)
		return xstrdup(
		    only_ranges(plan)
			? "; --reverse-cidrs and --ptr=cidrs: PTR records only in these ranges"
			: "; reverse names are always answered");
	return xasprintf("%s%s%s%s",
	    plan->denied
		? ". A reverse name that the cluster does not have is forwarded; CoreDNS "
		  "returns NXDOMAIN without fallthrough. --reverse-cidrs=CIDR,... does the "
		  "same for ranges"
		: "",
	    more,
	    plan->hidden ? ". kubedns also answers the cluster's reverse names in the reverse zone "
			   "of another server block; CoreDNS passes them to that block"
			 : "",
	    plan->lost ? ". A reverse name that the cluster does not have is forwarded; CoreDNS "
			 "returns SERVFAIL, because its server block has no forward"
		       : "");
}

/* The zones of a directive that are domains. */
struct domains {
	bool root;
	const char *placeholder; /* a zone that is no name */
	char *seconds;           /* domains that became rewrites, separated by ", " */
	bool full;               /* the key rewrites has no room */
	bool refused;            /* a second domain that cannot be a rewrite */
};

/* Reads a domain other than the cluster's. Its names are the same Services, so a rewrite is enough. */
static void
take_second(struct scope *scope, const struct corefile_line *line, const char *zone,
    struct domains *domains, FILE *seconds)
{
	char name[CONF_HOST_MAX];
	const char *why;

	if (domains->refused || domains->full)
		return;
	if (conf_name_parse(zone, name, &why) < 0 || report_in_cluster(scope->report, name) ||
	    conf_name_under(report_known_domain(scope->report), name) ||
	    !scope_serves(scope, name)) {
		domains->refused = true;
		return;
	}
	domains->full = !plugin_rewrite_has_room(scope, line, false);
	if (domains->full)
		return;
	char *start = xasprintf("suffix %s ", name);
	/* In CoreDNS too, a rewrite of these names comes before kubernetes. */
	if (!report_text_begins(scope->report, TEXT_REWRITES, start))
		report_text(scope->report, TEXT_REWRITES, "%s%s", start,
		    report_known_domain(scope->report));
	free(start);
	if (ftell(seconds) < 200)
		fprintf(seconds, "%s%s", ftell(seconds) > 0 ? ", " : "", name);
}

/* Reads the zones of the line or, if the line has none, of the block. Caller frees `seconds`. */
static struct domains
read_domains(struct scope *scope, const struct corefile_directive *d, const struct zone_set *others)
{
	const struct corefile_line *line = &d->head;
	struct domains domains = { 0 };
	size_t count = line->count > 1 ? line->count - 1 : scope->count, len = 0;
	FILE *seconds = open_memstream(&domains.seconds, &len);

	for (size_t i = 0; i < count; i++) {
		const char *word = line->count > 1 ? line->words[i + 1] : scope->zones[i];
		char *zone = zone_parse(word);

		if (zone_is_placeholder(word))
			domains.placeholder = word;
		else if (zone == NULL || zone_is_reverse(zone) || zone_set_has(others, zone))
			; /* reported elsewhere */
		else if (strcmp(zone, ".") == 0)
			domains.root = true;
		else if (!report_domain(scope->report, zone))
			take_second(scope, line, zone, &domains, seconds);
		free(zone);
	}
	fclose(seconds);
	return domains;
}

/* Adds flags for options whose default in CoreDNS differs from kubedns's. Returns the sentence
 * about these options. */
static char *
report_defaults(struct report *report, bool has_ttl, bool has_pods)
{
	if (!has_ttl)
		report_flag(report, PROGRAM_KUBEDNS, "--ttl=%d", COREDNS_TTL);
	if (!has_pods)
		report_flag(report, PROGRAM_KUBEDNS, "--pods=disabled");
	return xasprintf("%s%s%s", has_ttl ? "" : ", and --ttl=5",
	    has_pods ? "" : ", and --pods=disabled",
	    has_ttl && has_pods ? "" : ", CoreDNS's default");
}

static void
report_zones(struct scope *scope, const struct corefile_line *line, const struct domains *domains,
    const char *defaults)
{
	const struct kubernetes_plan *plan = scope->files->kubernetes;
	bool changes;
	char *reverse = reverse_sentence(plan, &changes);

	if (domains->root) {
		report_line(scope->report, line, VERDICT_NONE,
		    "the cluster's domain cannot be the root: name the domain");
	} else if (domains->placeholder != NULL) {
		report_unknown_domain(scope->report, domains->placeholder);
		report_line(scope->report, line, VERDICT_NONE,
		    "%.80s is a placeholder for the cluster's domain: set clusterDomain as the "
		    "template of your manifest does. Until then it is %s",
		    domains->placeholder, report_known_domain(scope->report));
	} else if (domains->refused) {
		report_line(scope->report, line, VERDICT_NONE,
		    "a pod has one cluster domain: run a second Deployment (overlay beside, with "
		    "another clusterDomain) and add a stub domain with its address here");
	} else {
		changes = changes || *domains->seconds || plan->outside;
		report_line(scope->report, line, changes ? VERDICT_CHANGES : VERDICT_CARRIED,
		    "settings.yaml's clusterDomain%s%s%s%s%s%s", defaults, reverse,
		    plan->all_endpoints ? ". kubedns's --reverse-all-endpoints adds PTR records of "
					  "every Service's endpoints"
					: "",
		    *domains->seconds ? ". The ConfigMap's key rewrites gives the same names to "
				      : "",
		    domains->seconds,
		    plan->outside ? ". kubedns answers queries for the cluster's names; CoreDNS "
				    "answers them only after a rewrite in this server block"
				  : "");
	}
	free(reverse);
}

/* --- directives of other blocks --- */

/* Whether kubedns has one value of this option for all queries. */
static bool
is_one_setting(const char *option)
{
	static const char *const names[] = { "ttl", "pods", "namespaces", "namespace_labels",
		"endpoint_pod_names", "zonal", "ignore", "labels", "noendpoints" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(option, names[i]) == 0)
			return true;
	return false;
}

/* Whether the option has the same effect as in the directive that answers the cluster's names. The cache of each block limits its TTLs. */
static bool
is_same_option(const struct scope *scope, const struct corefile_line *line)
{
	char *text = line_key(line);
	bool same = zone_set_has(scope->files->kubernetes->lines, text);

	free(text);
	if (same && strcmp(line->words[0], "ttl") == 0 && line->count > 1) {
		same = plugin_cache_ttl(scope->block, strtol(line->words[1], NULL, 10)) ==
		       plugin_kubernetes_ttl(scope->files->kubernetes);
	}
	return same;
}

/* Reads an option of a directive that does not answer the cluster's names. */
static void
read_other_option(
    struct scope *scope, const struct zone_set *others, const struct corefile_line *line)
{
	const struct kubernetes_plan *plan = scope->files->kubernetes;
	const struct corefile_line *main = &plan->directive->head;

	if (is_same_option(scope, line))
		report_line(scope->report, line, VERDICT_CARRIED,
		    "as in the server block that answers the cluster's names");
	else if (is_one_setting(line->words[0]) || strcmp(line->words[0], "fallthrough") == 0)
		report_line(scope->report, line, VERDICT_NONE,
		    "left out: it is only for the queries of this server block. kubedns has one "
		    "setting for all queries, that of kubernetes at %s:%u",
		    main->file, main->line);
	else
		read_option(scope, others, line);
}

/* Whether CoreDNS passes some query to the directive: the block has some of its zones, or a rewrite may lead to
 * them. */
static bool
gets_queries(
    const struct scope *scope, const struct corefile_directive *d, const struct zone_set *others)
{
	struct zone_set *zones = scope_zones(scope, &d->head, 1);
	bool found = plugin_rewrite_leads_to(scope->block, zones);

	for (size_t i = 0; i < scope->count && !found; i++)
		found = zone_set_covers(zones, scope->zones[i]);
	for (size_t i = 1; i < d->head.count && !found; i++) {
		char *zone = zone_parse(d->head.words[i]);

		found = zone == NULL || scope_serves(scope, zone) || zone_set_has(others, zone);
		free(zone);
	}
	zone_set_free(zones);
	return found;
}

/* Reads a directive of another block than the one that answers the cluster's names. */
static void
read_other(struct scope *scope, const struct corefile_directive *d, const struct zone_set *others)
{
	const struct corefile_directive *main = scope->files->kubernetes->directive;

	if (!gets_queries(scope, d, others)) {
		report_line(scope->report, &d->head, VERDICT_CARRIED,
		    "left out: this server block gets no queries for these names, so CoreDNS never "
		    "uses it");
		for (size_t i = 0; i < d->body_count; i++)
			report_line(scope->report, &d->body[i], VERDICT_CARRIED,
			    "left out with its kubernetes");
		return;
	}
	struct domains domains = read_domains(scope, d, others);
	bool same = d->body_count == main->body_count;

	for (size_t i = 0; i < d->body_count; i++)
		same = same && is_same_option(scope, &d->body[i]);
	if (domains.refused || domains.root || domains.placeholder != NULL)
		report_zones(scope, &d->head, &domains, "");
	else
		report_line(scope->report, &d->head,
		    same && *domains.seconds == '\0' ? VERDICT_CARRIED : VERDICT_CHANGES,
		    "the cluster's names, with the options of kubernetes at %s:%u%s%s",
		    main->head.file, main->head.line,
		    *domains.seconds ? "; the ConfigMap's key rewrites gives the same names to "
				     : "",
		    domains.seconds);
	free(domains.seconds);
	for (size_t i = 0; i < d->body_count; i++)
		read_other_option(scope, others, &d->body[i]);
}

/* Reads the directive that answers the cluster's names. */
static void
read_main(struct scope *scope, const struct corefile_directive *d, const struct zone_set *others)
{
	const struct kubernetes_plan *plan = scope->files->kubernetes;
	struct report *r = scope->report;
	bool has_ttl = false, has_pods = false;

	if (*plan->prefixes)
		report_flag(r, PROGRAM_KUBEDNS, "--reverse-cidrs=%s", plan->prefixes);
	if (only_ranges(plan))
		report_flag(r, PROGRAM_KUBEDNS, "--ptr=cidrs");
	if (plan->all_endpoints)
		report_flag(r, PROGRAM_KUBEDNS, "--reverse-all-endpoints");
	for (size_t i = 0; i < d->body_count; i++) {
		has_ttl |= strcmp(d->body[i].words[0], "ttl") == 0;
		has_pods |= strcmp(d->body[i].words[0], "pods") == 0;
	}
	struct domains domains = read_domains(scope, d, others);
	char *defaults = report_defaults(r, has_ttl, has_pods);
	report_zones(scope, &d->head, &domains, defaults);
	free(defaults);
	free(domains.seconds);
	for (size_t i = 0; i < d->body_count; i++)
		read_option(scope, others, &d->body[i]);
}

/* kubernetes [ZONE...] { ... }. If the directive has no zones, the block's zones apply. */
void
plugin_kubernetes(struct scope *scope, const struct corefile_directive *d)
{
	struct zone_set *others = zones_of_other_clusters(d);

	if (corefile_find(scope->block, "kubernetes") != d) {
		report_line(scope->report, &d->head, VERDICT_NONE,
		    "left out: this server block already has kubernetes. CoreDNS does not start "
		    "with such a Corefile (can only be used once per Server Block)");
		for (size_t i = 0; i < d->body_count; i++)
			report_line(scope->report, &d->body[i], VERDICT_NONE,
			    "left out with its kubernetes");
	} else if (scope->files->kubernetes->directive == d) {
		read_main(scope, d, others);
	} else {
		read_other(scope, d, others);
	}
	zone_set_free(others);
}
