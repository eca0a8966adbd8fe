#include "kubedns/api/reflector_internal.h"

#include <stdlib.h>
#include <string.h>

#include "lib/percent.h"
#include "lib/xalloc.h"

enum { TIMEOUT_MIN_S = 300, TIMEOUT_SPREAD_S = 300 };

const char *
relist_reason_name(enum relist_reason reason)
{
	static const char *const names[RELIST_COUNT] = {
		[RELIST_START] = "start",
		[RELIST_EXPIRED] = "expired",
		[RELIST_WENT_BACK] = "went_back",
		[RELIST_INCOMPLETE] = "incomplete",
		[RELIST_REFUSED] = "refused",
		[RELIST_FALLBACK] = "fallback",
	};
	return names[reason];
}

struct reflector *
reflector_new(bool optional)
{
	struct reflector *r = xcalloc(1, sizeof(*r));
	r->optional = optional;
	return r;
}

static void
free_versions(struct reflector *r)
{
	free(r->version);
	free(r->first_version);
	free(r->token);
	free(r->next_token);
}

void
reflector_free(struct reflector *r)
{
	if (!r)
		return;
	free_versions(r);
	free(r);
}

void
reflector_restart(struct reflector *r)
{
	struct reflector anew = { .optional = r->optional, .spread = r->spread };
	memcpy(anew.relists, r->relists, sizeof(anew.relists));
	free_versions(r);
	*r = anew;
}

void
reflector_set_text(char **field, const char *value)
{
	char *copy = value && *value ? xstrdup(value) : NULL;
	free(*field);
	*field = copy;
}

char *
reflector_query(struct reflector *r, int64_t now_ms, const char **verb)
{
	char *version = percent_encode(r->version ? r->version : ""),
	     *token = percent_encode(r->token ? r->token : ""), *query = NULL;
	r->running = true;
	r->started_ms = r->progress_ms = now_ms;
	r->answered_ms = 0;
	r->head_seen = r->live_seen = r->any_event = r->doubted = false;
	r->timeout_s = TIMEOUT_MIN_S + (unsigned)backoff_jitter(TIMEOUT_SPREAD_S);
	*verb = r->phase == REFLECTOR_WATCHLIST || r->phase == REFLECTOR_WATCH ? "watch" : "list";
	switch (r->phase) {
	case REFLECTOR_WATCHLIST:
		query =
		    xasprintf("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&"
			      "allowWatchBookmarks=true&resourceVersion=&timeoutSeconds=%u",
			r->timeout_s);
		break;
	case REFLECTOR_LIST:
		query =
		    xasprintf("limit=%d%s%s", REFLECTOR_PAGE, *token ? "&continue=" : "", token);
		break;
	case REFLECTOR_PROBE:
		query = xasprintf(
		    "limit=1&resourceVersion=%s&resourceVersionMatch=NotOlderThan", version);
		break;
	case REFLECTOR_WATCH:
		query = xasprintf(
		    "watch=1&allowWatchBookmarks=true&resourceVersion=%s&timeoutSeconds=%u",
		    version, r->timeout_s);
		break;
	}
	free(version);
	free(token);
	return query;
}

bool
reflector_answered(struct reflector *r, int64_t now_ms)
{
	r->answered_ms = r->progress_ms = now_ms;
	r->denied_ms = r->denied_last_ms = 0;
	r->denied_status = 0;
	r->denied_asked = false;
	r->retried_token = false;
	backoff_good(&r->backoff, now_ms);
	bool begins = r->phase == REFLECTOR_WATCHLIST || (r->phase == REFLECTOR_LIST && !r->token);
	if (!begins)
		return false;
	r->listing = true;
	r->listed = 0;
	r->relists[r->reason]++;
	return true;
}

void
reflector_progress(struct reflector *r, int64_t now_ms, size_t bytes)
{
	if (r->listing)
		r->listed += bytes;
	/* A server without WatchList also sends the state, but then live events without end: those
	 * are no progress. */
	if (!r->live_seen)
		r->progress_ms = now_ms;
}

bool
reflector_listing_ended(struct reflector *r, int64_t now_ms)
{
	r->listing = false;
	r->synced = true;
	r->synced_ms = now_ms;
	r->breaks = 0;
	return true;
}

bool
reflector_event(struct reflector *r, int64_t now_ms, enum reflector_event event,
    const char *version, bool end_mark)
{
	r->any_event = true;
	if (version && *version)
		reflector_set_text(&r->version, version);
	if (!r->listing)
		return false;
	if (end_mark)
		return reflector_listing_ended(r, now_ms);
	if (event != REFLECTOR_ADDED)
		r->live_seen = true;
	return false;
}

void
reflector_page(struct reflector *r, const char *version, const char *token)
{
	r->head_seen = true;
	if (r->phase != REFLECTOR_LIST)
		return;
	/* Pages after an expired token are of a later version: a watch from the first page's
	 * version brings what has changed between. */
	if (!r->first_version)
		reflector_set_text(&r->first_version, version);
	reflector_set_text(&r->next_token, token);
}

void
reflector_doubt(struct reflector *r)
{
	if (r->running)
		r->doubted = !r->listing && r->phase != REFLECTOR_PROBE;
	else if (r->phase == REFLECTOR_WATCH)
		r->phase = REFLECTOR_PROBE;
}

int64_t
reflector_silent_since_ms(const struct reflector *r)
{
	if (!r->running)
		return 0;
	if (!r->answered_ms)
		return r->started_ms;
	bool owed = r->listing || r->phase == REFLECTOR_LIST || r->phase == REFLECTOR_PROBE;
	return owed ? r->progress_ms : 0;
}

int64_t
reflector_deadline_ms(const struct reflector *r, const char **why)
{
	if (!r->running)
		return INT64_MAX;
	int64_t silent_ms = reflector_silent_since_ms(r);
	if (silent_ms) {
		*why = !r->answered_ms                   ? "no answer for 60 s"
		       : r->phase == REFLECTOR_WATCHLIST ? "no progress of the WatchList for 60 s"
							 : "no byte for 60 s";
		return silent_ms + REFLECTOR_SILENCE_MS;
	}
	*why = "outlived its timeoutSeconds";
	return r->started_ms + 1000 * (int64_t)r->timeout_s + REFLECTOR_OVERSTAY_MS;
}

bool
reflector_denied(const struct reflector *r)
{
	return r->denied_ms && r->denied_last_ms - r->denied_ms >= REFLECTOR_DENIED_MS;
}

void
reflector_denial_restart(struct reflector *r)
{
	r->denied_ms = r->denied_last_ms;
}

void
reflector_set_optional(struct reflector *r, bool optional)
{
	r->optional = optional;
}

void
reflector_set_spread(struct reflector *r, bool spread)
{
	r->spread = spread;
}

void
reflector_dropped(struct reflector *r)
{
	r->running = false;
}

void
reflector_bring_forward(struct reflector *r, int64_t due_ms)
{
	if (r->due_ms > due_ms)
		r->due_ms = due_ms;
}

int64_t
reflector_due_ms(const struct reflector *r)
{
	return r->due_ms;
}

bool
reflector_running(const struct reflector *r)
{
	return r->running;
}

enum reflector_phase
reflector_phase(const struct reflector *r)
{
	return r->phase;
}

bool
reflector_listing(const struct reflector *r)
{
	return r->listing;
}

bool
reflector_synced(const struct reflector *r)
{
	return r->synced;
}

int64_t
reflector_denied_since_ms(const struct reflector *r)
{
	return r->denied_ms;
}

int
reflector_denied_status(const struct reflector *r)
{
	return r->denied_status;
}

unsigned
reflector_failures(const struct reflector *r)
{
	return r->backoff.failures;
}

uint64_t
reflector_relists(const struct reflector *r, enum relist_reason reason)
{
	return r->relists[reason];
}
