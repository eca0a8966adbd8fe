/* When what is known is whole: the cluster's names, and those of the zones beside them; and what is
 * waited for. */
#include "kubedns/api/api_source.h"

#include <stdlib.h>

#include "kubedns/api/resource_watch.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/xalloc.h"

/* How long the cluster's names wait for the optional resources that they are made of (namespaces, pods,
 * nodes, ConfigMaps) when the required ones are there: a good server lists all of them at once. */
enum { OPTIONAL_GRACE_MS = 2000 };

/* How long readiness, and no name of the cluster, waits for the zones beside it: longer than a kind that is
 * missing or forbidden takes to be believed. */
enum { ZONES_GRACE_MS = 5000 };

static bool
is_settled(const struct resource_watch *s, int64_t now)
{
	int64_t denied_ms = reflector_denied_since_ms(s->reflector);
	return !s->wanted || reflector_synced(s->reflector) ||
	       (denied_ms && now - denied_ms >= API_SETTLE_MS);
}

/* Whether the resource is for the zones beside the cluster's alone. */
static bool
is_beside_cluster(const struct api_source *w, unsigned i)
{
	return i >= API_INGRESSES && i < w->kinds;
}

static void
check_ready(struct api_source *w, int64_t now)
{
	const struct resource_watch *s = w->streams;
	if (w->ready || w->no_api)
		return;
	if (!reflector_synced(s[API_SERVICES].reflector) ||
	    !(reflector_synced(s[API_SLICES].reflector) ||
		reflector_synced(s[API_ENDPOINTS].reflector)) ||
	    (w->namespaces_required && !reflector_synced(s[API_NAMESPACES].reflector)) ||
	    (w->pods_required && !reflector_synced(s[API_PODS].reflector)))
		return;
	if (!w->required_ms)
		w->required_ms = now;
	bool all = true;
	for (unsigned i = API_NAMESPACES; i < w->count; i++)
		all = all && (is_beside_cluster(w, i) || is_settled(&s[i], now));
	w->ready = all || now - w->required_ms >= OPTIONAL_GRACE_MS;
}

const char *
api_source_zones(const struct api_source *w)
{
	return !w->imports    ? "external zones"
	       : !w->external ? "the zone of --clusterset-domain"
			      : "external zones and that of --clusterset-domain";
}

/* Says which kinds these zones wait for. */
static void
say_external_missing(const struct api_source *w, int64_t now)
{
	for (unsigned i = API_INGRESSES; i < w->kinds; i++)
		if (!is_settled(&w->streams[i], now))
			log_warnx("%s: not listed yet: until then names of %s are answered "
				  "SERVFAIL and not transferred",
			    w->streams[i].resource->name, api_source_zones(w));
}

/*
 * Whether the zones beside the cluster's are whole, but for what may not be read. A kind whose lists fail is
 * waited for: a zone without its names would reach secondaries as the newest one.
 */
static void
check_external_ready(struct api_source *w, int64_t now)
{
	bool all = true;

	if (w->external_ready || !w->ready)
		return;
	for (unsigned i = API_INGRESSES; i < w->kinds; i++)
		all = all && is_settled(&w->streams[i], now);
	w->external_ready = all;
	if (all && w->external_said)
		log_info("%s: all that they need has been listed", api_source_zones(w));
	if (all || w->external_said || now - w->required_ms < ZONES_GRACE_MS)
		return;
	w->external_said = true;
	say_external_missing(w, now);
}

/* Whether the server owes this resource's first list for API_SILENT_MS, and that was not said yet. */
static bool
is_news_of_silence(const struct resource_watch *s, int64_t now)
{
	int64_t since_ms = reflector_silent_since_ms(s->reflector);

	return s->wanted && !s->said_silent && !reflector_synced(s->reflector) && since_ms &&
	       now - since_ms >= API_SILENT_MS;
}

/* A list that is accepted and not answered has no error to log: it may be so for a minute. */
static void
say_silent(struct api_source *w, int64_t now)
{
	char *names = NULL;

	for (unsigned i = 0; i < w->count; i++) {
		struct resource_watch *s = &w->streams[i];
		if (!is_news_of_silence(s, now))
			continue;
		s->said_silent = true;
		char *more =
		    names == NULL ? xstrdup(s->label) : xasprintf("%s, %s", names, s->label);
		free(names);
		names = more;
	}
	if (names != NULL)
		log_warnx(
		    "api %s: no answer for %d s to the list of %s; still waiting: is the server "
		    "overloaded, or a proxy in between?",
		    w->server.shown_url, API_SILENT_MS / 1000, names);
	free(names);
}

void
api_source_check_ready(struct api_source *w, int64_t now)
{
	check_ready(w, now);
	check_external_ready(w, now);
	say_silent(w, now);
}

int64_t
api_source_ready_due_ms(const struct api_source *w, int64_t now)
{
	int64_t due_ms = INT64_MAX;

	if (!w->ready && w->required_ms)
		due_ms = w->required_ms + OPTIONAL_GRACE_MS;
	else if (w->ready && !w->external_ready && !w->external_said)
		due_ms = w->required_ms + ZONES_GRACE_MS;
	for (unsigned i = 0; i < w->count; i++) {
		const struct resource_watch *s = &w->streams[i];
		const struct reflector *r = s->reflector;
		int64_t settled_ms = reflector_denied_since_ms(r) + API_SETTLE_MS,
			silent_ms = reflector_silent_since_ms(r);
		if (!(w->ready && w->external_ready) && reflector_denied_since_ms(r) &&
		    settled_ms > now && settled_ms < due_ms)
			due_ms = settled_ms;
		if (s->wanted && !s->said_silent && !reflector_synced(r) && silent_ms &&
		    silent_ms + API_SILENT_MS < due_ms)
			due_ms = silent_ms + API_SILENT_MS;
	}
	return due_ms;
}

bool
api_source_ready(const struct api_source *w)
{
	return w && w->ready;
}

bool
api_source_external_ready(const struct api_source *w)
{
	return !w || w->no_api || w->external_ready;
}

bool
api_source_awaits_zones(const struct api_source *w)
{
	return w && w->ready && !api_source_external_ready(w) &&
	       clock_mono_ms() - w->required_ms < ZONES_GRACE_MS;
}
