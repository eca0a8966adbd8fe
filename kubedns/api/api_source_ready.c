/* When what is known is whole: the cluster's names, and those of the zones beside them. */
#include "kubedns/api/api_source.h"

#include "kubedns/api/resource_watch.h"
#include "lib/log.h"

enum { OPTIONAL_GRACE_MS = 30000 };

static bool
is_settled(const struct resource_watch *s, int64_t now)
{
	int64_t denied_ms = reflector_denied_since_ms(s->reflector);
	return !s->wanted || reflector_synced(s->reflector) ||
	       (denied_ms && now - denied_ms >= API_SETTLE_MS);
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
		all = all && is_settled(&s[i], now);
	/* An optional resource that is neither listed nor denied does not delay readiness for
	 * ever. */
	w->ready = all || now - w->required_ms >= OPTIONAL_GRACE_MS;
}

const char *
api_source_zones(const struct api_source *w)
{
	return !w->imports    ? "external zones"
	       : !w->external ? "the zone of --clusterset-domain"
			      : "external zones and that of --clusterset-domain";
}

/* Says which kinds these zones wait for; the grace of the optional ones has passed. */
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
check_external_ready(struct api_source *w, int64_t now, bool was_ready)
{
	bool all = true;

	if (w->external_ready || !w->ready)
		return;
	for (unsigned i = API_INGRESSES; i < w->kinds; i++)
		all = all && is_settled(&w->streams[i], now);
	w->external_ready = all;
	if (!all && !was_ready)
		say_external_missing(w, now);
	else if (all && was_ready && (w->external || w->imports))
		log_info("%s: all that they need has been listed", api_source_zones(w));
}

void
api_source_check_ready(struct api_source *w, int64_t now)
{
	bool was_ready = w->ready;

	check_ready(w, now);
	check_external_ready(w, now, was_ready);
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
