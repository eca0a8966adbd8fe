/*
 * A list of one resource in one namespace at exactly the version that the resource's watch has
 * reached. The audit (kubedns/audit/audit.h) compares it with the store. The list has its own
 * resource_watch, beside the watches of api_source.c, because readiness and problems of the source
 * do not depend on it.
 */
#include <stdlib.h>
#include <string.h>

#include "kubedns/api/resource_watch.h"
#include "lib/clock.h"
#include "lib/xalloc.h"

/* Returns the watch that objects of this kind come from, or NULL if the audit does not cover the
 * kind. */
static struct resource_watch *
watch_of(struct api_source *w, enum object_kind kind)
{
	switch (kind) {
	case OBJECT_SERVICE:
		return &w->streams[API_SERVICES];
	case OBJECT_SLICES:
		return &w->streams[w->streams[API_ENDPOINTS].wanted ? API_ENDPOINTS : API_SLICES];
	case OBJECT_NAMESPACE:
		return &w->streams[API_NAMESPACES];
	default:
		return NULL;
	}
}

/* Whether the source has time for the audit: every watch is complete, and no request waits for the
 * server. */
static bool
is_idle(const struct api_source *w)
{
	if (w->no_api || w->away || !w->ready || !api_credentials_has_token(&w->server))
		return false;
	for (unsigned i = 0; i < w->count; i++) {
		const struct reflector *r = w->streams[i].reflector;

		if (w->streams[i].wanted && reflector_denied_since_ms(r) == 0 &&
		    reflector_live_version(r) == NULL)
			return false;
	}
	return true;
}

/* Makes the list's requests like those of the watch `like`, but for one namespace. */
static void
aim(struct resource_watch *s, const struct resource_watch *like, const char *namespace)
{
	s->resource = like->resource;
	s->keep = like->keep;
	free(s->label);
	free(s->place);
	free(s->selector);
	s->label = xasprintf("audit of %s", like->resource->name);
	s->place = xstrdup(like->place);
	s->selector = xstrdup(like->selector);
	if (*namespace != '\0')
		resource_watch_select_namespace(s, namespace);
}

enum api_list_start
api_source_list(
    struct api_source *w, enum object_kind kind, const char *namespace, event_sink sink, void *arg)
{
	const struct resource_watch *like = watch_of(w, kind);

	if (like == NULL || !like->wanted || reflector_denied_since_ms(like->reflector) != 0)
		return API_LIST_DENIED;
	const char *version = reflector_live_version(like->reflector);
	if (w->exact_running || version == NULL || !is_idle(w))
		return API_LIST_LATER;
	if (w->exact == NULL) {
		w->exact = xcalloc(1, sizeof *w->exact);
		resource_watch_init(w->exact, w, API_COUNT);
		w->exact->wanted = true;
	}
	aim(w->exact, like, namespace);
	w->exact->own_sink = sink;
	w->exact->own_arg = arg;
	w->exact_ns = 0;
	w->exact_running = true;
	reflector_list_at(w->exact->reflector, clock_mono_ms(), version);
	return API_LIST_STARTED;
}

bool
api_source_listed(struct api_source *w, struct api_list_end *end)
{
	const struct resource_watch *s = w->exact;

	if (s == NULL || w->exact_running)
		return false;
	*end = (struct api_list_end){
		.whole = reflector_synced(s->reflector),
		.status = s->status,
		.cpu_ns = w->exact_ns,
		.not_before_ms =
		    reflector_synced(s->reflector) ? CLOCK_NEVER : reflector_due_ms(s->reflector),
	};
	return true;
}

void
api_source_versions_went_back(struct api_source *w)
{
	w->exact_back = true;
}

bool
api_exact_run(struct api_source *w, int64_t now_ms)
{
	struct resource_watch *s = w->exact;
	const char *why;

	if (!w->exact_running)
		return false;
	if (reflector_running(s->reflector)) {
		if (now_ms >= reflector_deadline_ms(s->reflector, &why))
			resource_watch_late(s, now_ms, why);
		if (reflector_running(s->reflector))
			return false;
	}
	if (now_ms < reflector_due_ms(s->reflector)) {
		w->exact_running = false;
		return false;
	}
	resource_watch_start(s, now_ms);
	return true;
}

int64_t
api_exact_due_ms(const struct api_source *w)
{
	const char *why;

	if (!w->exact_running)
		return CLOCK_NEVER;
	return reflector_running(w->exact->reflector)
		   ? reflector_deadline_ms(w->exact->reflector, &why)
		   : reflector_due_ms(w->exact->reflector);
}

void
api_exact_drop(struct api_source *w)
{
	if (!w->exact_running)
		return;
	resource_watch_stop(w->exact);
	w->exact->status = 0;
	w->exact_running = false;
}

void
api_exact_free(struct api_source *w)
{
	if (w->exact == NULL)
		return;
	resource_watch_clear(w->exact);
	free(w->exact);
}
