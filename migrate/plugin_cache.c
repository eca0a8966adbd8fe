/*
 * CoreDNS's `cache`. With kubedns, dnsmasq or unbound is the cache. The flags after the nanny's `--` set the TTLs and sizes.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "migrate/plugins.h"

/* The maximum and the minimum TTL of CoreDNS's cache if none is set, in seconds. */
enum { COREDNS_CACHE_TTL = 3600, COREDNS_CACHE_MIN = 5 };

/* Parses a duration in CoreDNS's format (30, 30s, 10m, 1h). Returns seconds, or -1. */
static long
seconds(const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);
	long unit = *end == 'h' ? 3600 : *end == 'm' ? 60 : 1;
	bool ok = end != text && n >= 0 && n < 1000000 && (*end == '\0' || end[1] == '\0') &&
		  strchr("smh", *end) != NULL;

	return ok ? n * unit : -1;
}

/* Returns the index of the first zone in `cache [TTL] [ZONE...]`. */
static size_t
zones_at(const struct corefile_line *line)
{
	return line->count > 1 && seconds(line->words[1]) >= 0 ? 2 : 1;
}

/* Whether the directive caches all names of its block: it has no zones, or its zones cover those of the block. */
static bool
caches_all(const struct corefile_block *block, const struct corefile_line *line)
{
	struct zone_set *zones = zone_set_new();
	bool all = true, some = false;

	for (size_t i = zones_at(line); i < line->count; i++) {
		char *zone = zone_parse(line->words[i]);

		some = true;
		if (zone != NULL)
			zone_set_add(zones, zone);
		free(zone);
	}
	for (size_t i = 0; some && all && i < block->keys.count; i++) {
		char *zone = zone_parse(block->keys.words[i]);

		all = zone == NULL || zone_set_covers(zones, zone);
		free(zone);
	}
	zone_set_free(zones);
	return all;
}

/* Returns the TTL in an option `success SIZE TTL` of the directive, else `ttl`. */
static long
success_ttl(const struct corefile_directive *d, long ttl)
{
	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *line = &d->body[i];

		if (strcmp(line->words[0], "success") == 0 && line->count > 2 &&
		    seconds(line->words[2]) > 0)
			ttl = seconds(line->words[2]);
	}
	return ttl;
}

/* Returns the maximum TTL of answers with records that the directive sets. */
static long
maximum(const struct corefile_directive *d)
{
	long ttl = d->head.count > 1 ? seconds(d->head.words[1]) : -1;

	return success_ttl(d, ttl > 0 ? ttl : COREDNS_CACHE_TTL);
}

/* Returns the minimum TTL, which an option `success SIZE TTL MINTTL` can set. */
static long
minimum(const struct corefile_directive *d)
{
	long ttl = COREDNS_CACHE_MIN;

	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *line = &d->body[i];

		if (strcmp(line->words[0], "success") == 0 && line->count > 3 &&
		    seconds(line->words[3]) >= 0)
			ttl = seconds(line->words[3]);
	}
	return ttl;
}

long
plugin_cache_ttl(const struct corefile_block *block, long ttl)
{
	const struct corefile_directive *d = corefile_find(block, "cache");

	if (d == NULL || !caches_all(block, &d->head))
		return ttl;
	long least = minimum(d), most = maximum(d);
	if (ttl < least)
		ttl = least;
	return ttl < most ? ttl : most;
}

/* Returns the end of a sentence about the TTLs that CoreDNS raises. Caller frees. */
static char *
raised_text(const struct corefile_directive *d)
{
	return minimum(d) > 0 ? xasprintf(", and raises TTLs below %ld s", minimum(d))
			      : xstrdup("");
}

/* Reads `success SIZE [TTL [MINTTL]]`. `limited` is set if --max-cache-ttl is among the flags, with this TTL. */
static void
read_success(struct scope *scope, const struct corefile_line *line, bool limited)
{
	long size = line->count > 1 ? strtol(line->words[1], NULL, 10) : 0;

	if (size > 0 && size <= 1000000)
		report_flag(scope->report, PROGRAM_DNSMASQ, "--cache-size=%ld", size);
	report_line(scope->report, line, VERDICT_CHANGES,
	    "%s. Records are cached for their TTL%s%s",
	    report_is_unbound(scope->report)
		? "the nanny's --cache-size, in names of 1 KB each, if neither -memory nor the "
		  "container sets a limit"
		: "dnsmasq's --cache-size, in records of about 100 bytes: check the memory limit",
	    limited ? ", at most the --max-cache-ttl above" : "",
	    line->count > 3 ? ". The minimum TTL is left out; --min-cache-ttl sets such a limit"
			    : "");
}

static void
read_stale(struct scope *scope, const struct corefile_line *line)
{
	long time = 3600;

	if (report_is_unbound(scope->report)) {
		report_line(scope->report, line, VERDICT_CHANGES,
		    "unbound sends an expired answer, for at most a day, if no server answers "
		    "within 1.8 s");
		return;
	}
	for (size_t i = 1; i < line->count; i++)
		if (seconds(line->words[i]) > 0)
			time = seconds(line->words[i]);
	report_flag(scope->report, PROGRAM_DNSMASQ, "--use-stale-cache=%ld", time);
	report_line(scope->report, line, VERDICT_CARRIED, "dnsmasq's --use-stale-cache=%ld", time);
}

static const struct report_option options[] = {
	{ "prefetch", VERDICT_NONE,
	    "no prefetch; with --use-stale-cache, which the nanny adds in the front topology, "
	    "dnsmasq answers from the cache first and refreshes it afterwards" },
	{ "servfail", VERDICT_CHANGES,
	    "failures are not cached; identical queries in flight are sent once" },
	{ "disable", VERDICT_CHANGES,
	    "the front topology does not cache cluster names; dnsmasq's --no-negcache disables the "
	    "cache of negative answers" },
	{ "keepttl", VERDICT_NONE, "a cached record's TTL counts down" },
};

static const struct report_option unbound_options[] = {
	{ "prefetch", VERDICT_CHANGES,
	    "unbound refreshes a name that is queried in the last tenth of its TTL" },
	{ "servfail", VERDICT_CHANGES, "unbound keeps a failure for 5 s" },
	{ "disable", VERDICT_CHANGES,
	    "the front topology does not cache cluster names; the nanny's --no-negcache disables "
	    "the cache of negative answers" },
	{ "keepttl", VERDICT_NONE, "a cached record's TTL counts down" },
};

/* The verdict on `cache` itself. */
static void
conclude(struct scope *scope, const struct corefile_directive *d, long ttl, bool stale)
{
	const struct corefile_line *line = &d->head;
	char *raised = raised_text(d);
	struct report *r = scope->report;
	bool unbound = report_is_unbound(r);
	const char *dedup =
	    stale     ? ""
	    : unbound ? ". An expired record is sent only if no server answers "
			"within 1.8 s"
		      : ". In the front topology it returns an expired record "
			"once more, and then refreshes it (docs/from-coredns.md#what-is-different)";
	/* unbound also limits the TTL in its answers. */
	enum verdict verdict =
	    stale && unbound && ttl > 0 && *raised == '\0' ? VERDICT_CARRIED : VERDICT_CHANGES;

	if (ttl > 0) {
		report_flag(r, PROGRAM_DNSMASQ, "--max-cache-ttl=%ld", ttl);
		report_line(r, line, verdict,
		    "%s's --max-cache-ttl=%ld: the maximum time that it caches a record, also of "
		    "other server blocks%s%s%s%s",
		    flags_owner(r), ttl,
		    unbound ? ""
			    : ". The first answer to a client has the TTL of the upstream server, "
			      "and dns-version.DOMAIN has 28800 s; CoreDNS limits these TTLs too",
		    unbound && *raised ? ". CoreDNS limits TTLs too" : "", raised, dedup);
	} else {
		report_line(r, line, verdict,
		    "%s caches a record for its TTL; CoreDNS limits the TTL to 3600 s%s%s",
		    engine_name(r), raised, dedup);
	}
	free(raised);
}

/* Whether the new name of a rewrite is in the cluster. Rules for types have no new name. */
static bool
stays_in_cluster(const struct scope *scope, const struct corefile_directive *d)
{
	const char *domain = report_known_domain(scope->report);
	bool type = false, inside = false;

	for (size_t i = 0; i <= d->body_count; i++) {
		const struct corefile_line *line = i > 0 ? &d->body[i - 1] : &d->head;

		for (size_t k = 0; k < line->count; k++) {
			type |= k < 3 && strcmp(line->words[k], "type") == 0;
			inside |= conf_name_under(line->words[k], domain);
		}
	}
	return type || inside;
}

/* Whether the block has answers whose TTL the cache changes, besides those of `file` and `template`. The reports of
 * these two name their TTLs. */
static bool
changes_others(struct scope *scope, const struct corefile_directive *cache)
{
	static const char *const harmless[] = { "any", "bufsize", "cache", "errors", "file",
		"hosts", "kubernetes", "loadbalance", "log", "prometheus", "template" };

	long ttl = plugin_kubernetes_ttl(scope->files->kubernetes);

	if (ttl > maximum(cache) || ttl < minimum(cache) || scope->block->count > NEIGHBOURS_MAX)
		return true;
	bool unused = plugin_forward_is_unused(scope);
	for (size_t i = 0; i < scope->block->count; i++) {
		const struct corefile_directive *d = &scope->block->directives[i];
		const char *name = d->head.words[0];
		bool known = false;

		for (size_t k = 0; k < sizeof harmless / sizeof *harmless; k++)
			known |= strcmp(name, harmless[k]) == 0;
		known = known || (strcmp(name, "rewrite") == 0 && stays_in_cluster(scope, d));
		known = known || (strcmp(name, "forward") == 0 && unused);
		if (!known)
			return true;
	}
	return false;
}

/* Reads the cache of a block that does not serve the external names. The engine has one cache for all
 * names, with the settings of the block that serves the root. */
static void
read_other_cache(struct scope *scope, const struct corefile_directive *d)
{
	char *raised = raised_text(d);
	char *text = caches_all(scope->block, &d->head)
			 ? xasprintf(". CoreDNS limits the TTLs of the names in this server block "
				     "to %ld s%s",
			       maximum(d), raised)
			 : xstrdup("");

	free(raised);
	if (!changes_others(scope, d)) {
		for (size_t i = 0; i <= d->body_count; i++)
			report_line(scope->report, i > 0 ? &d->body[i - 1] : &d->head,
			    VERDICT_CARRIED,
			    "left out: this server block forwards no names, and no TTL of its own "
			    "answers is above the limit, except where file and template say so");
		free(text);
		return;
	}
	report_line(scope->report, &d->head, VERDICT_CHANGES,
	    "left out: it is only for the names of this server block. %s has one cache for all "
	    "names, with the settings of the server block of the root%s",
	    engine_name(scope->report), text);
	free(text);
	for (size_t i = 0; i < d->body_count; i++)
		report_line(scope->report, &d->body[i], VERDICT_CHANGES, "left out with its cache");
}

/* Reads the zones in `cache [TTL] ZONE...`, from word `at` on. */
static void
read_cache_zones(struct scope *scope, const struct corefile_line *line, size_t at)
{
	char *zones = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&zones, &len);

	for (size_t i = at; i < line->count && ftell(f) < 200; i++)
		fprintf(f, "%s%.80s", i > at ? ", " : "", line->words[i]);
	fclose(f);
	report_line(scope->report, line, VERDICT_CHANGES,
	    "CoreDNS cached only names in %s, and queried the servers for each query for another "
	    "name. %s caches all external names",
	    zones, engine_name(scope->report));
	free(zones);
}

/* cache [TTL] [ZONE...] { ... } */
void
plugin_cache(struct scope *scope, const struct corefile_directive *d)
{
	const struct corefile_line *line = &d->head;
	long ttl = line->count > 1 ? seconds(line->words[1]) : -1;
	bool stale = false;

	if (!scope_serves_root(scope)) {
		read_other_cache(scope, d);
		return;
	}
	for (size_t i = 0; i < d->body_count; i++)
		stale = stale || strcmp(d->body[i].words[0], "serve_stale") == 0;
	ttl = success_ttl(d, ttl);
	conclude(scope, d, ttl, stale);
	if (!caches_all(scope->block, line))
		read_cache_zones(scope, line, zones_at(line));
	bool unbound = report_is_unbound(scope->report);
	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *option = &d->body[i];

		if (strcmp(option->words[0], "success") == 0)
			read_success(scope, option, ttl > 0);
		else if (strcmp(option->words[0], "denial") == 0)
			report_line(scope->report, option, VERDICT_CHANGES,
			    "negative answers for external names are cached for their own TTL; "
			    "those "
			    "for cluster names are not cached here%s",
			    report_topology(scope->report) == TOPOLOGY_FRONT
				? ", and have a TTL of 5 s (kubedns's --negative-ttl)"
				: " (kubedns's --negative-ttl=0 in the manifest)");
		else if (strcmp(option->words[0], "serve_stale") == 0)
			read_stale(scope, option);
		else if (!report_option(scope->report, option, unbound ? unbound_options : options,
			     unbound ? sizeof unbound_options / sizeof *unbound_options
				     : sizeof options / sizeof *options))
			report_line(scope->report, option, VERDICT_NONE,
			    "unknown option; see cache's manual");
	}
}
