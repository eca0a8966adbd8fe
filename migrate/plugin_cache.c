/*
 * CoreDNS's `cache`: here dnsmasq caches, with times and sizes set by its own flags.
 */
#include <stdlib.h>
#include <string.h>

#include "migrate/plugins.h"

/* A duration in seconds as CoreDNS writes it (30, 30s, 10m, 1h), or -1. */
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

static void
read_success(struct scope *scope, const struct corefile_line *line)
{
	long size = line->count > 1 ? strtol(line->words[1], NULL, 10) : 0;

	if (size > 0 && size <= 1000000)
		report_flag(scope->report, PROGRAM_DNSMASQ, "--cache-size=%ld", size);
	report_line(scope->report, line, VERDICT_CHANGES,
	    "dnsmasq's --cache-size, in records; times are the records' own, bounded by "
	    "--max-cache-ttl and --min-cache-ttl. Some 100 bytes a record: see the memory limit");
}

static void
read_stale(struct scope *scope, const struct corefile_line *line)
{
	long time = 3600;

	for (size_t i = 1; i < line->count; i++)
		if (seconds(line->words[i]) > 0)
			time = seconds(line->words[i]);
	report_flag(scope->report, PROGRAM_DNSMASQ, "--use-stale-cache=%ld", time);
	report_line(scope->report, line, VERDICT_CARRIED, "dnsmasq's --use-stale-cache=%ld", time);
}

static const struct report_option options[] = {
	{ "denial", VERDICT_CHANGES,
	    "denials of outside names are cached as long as they say; of cluster names that may "
	    "come to exist not at all (kubedns's --negative-ttl=0 in the manifest)" },
	{ "prefetch", VERDICT_NONE,
	    "no prefetch; --use-stale-cache, which the nanny adds, answers at once and asks then" },
	{ "servfail", VERDICT_CHANGES, "no failure is cached; questions in flight are asked once" },
	{ "disable", VERDICT_CHANGES,
	    "the front topology does not cache the cluster's names at all; dnsmasq's --no-negcache "
	    "caches no denials" },
	{ "keepttl", VERDICT_NONE, "a cached record's TTL counts down" },
};

/* cache [TTL] [ZONE...] { ... } */
void
plugin_cache(struct scope *scope, const struct corefile_directive *d)
{
	const struct corefile_line *line = &d->head;
	long ttl = line->count > 1 ? seconds(line->words[1]) : -1;
	bool stale = false;

	for (size_t i = 0; i < d->body_count; i++)
		stale = stale || strcmp(d->body[i].words[0], "serve_stale") == 0;
	const char *once = stale ? ""
				 : ". After that it answers once more and asks then, by the "
				   "--use-stale-cache that the nanny adds: --use-stale-cache=1 of "
				   "dnsmasq is as good as none";
	enum verdict verdict = stale ? VERDICT_CARRIED : VERDICT_CHANGES;
	if (ttl > 0) {
		report_flag(scope->report, PROGRAM_DNSMASQ, "--max-cache-ttl=%ld", ttl);
		report_line(scope->report, line, verdict,
		    "dnsmasq's --max-cache-ttl=%ld: it caches a record no longer than this, "
		    "whatever "
		    "its TTL%s",
		    ttl, once);
	} else {
		report_line(scope->report, line, verdict,
		    "dnsmasq caches a record as long as its TTL says%s", once);
	}
	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *option = &d->body[i];

		if (strcmp(option->words[0], "success") == 0)
			read_success(scope, option);
		else if (strcmp(option->words[0], "serve_stale") == 0)
			read_stale(scope, option);
		else if (!report_option(
			     scope->report, option, options, sizeof options / sizeof *options))
			report_line(
			    scope->report, option, VERDICT_NONE, "not known; see cache's manual");
	}
}
