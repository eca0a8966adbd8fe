#include "kubedns/api/reflector.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/api/backoff.h"
#include "lib/percent.h"
#include "lib/xalloc.h"

struct reflector {
	enum reflector_phase phase; /* of the request in flight, or of the next one */
	bool optional;              /* once it is known to be denied, ask rarely */
	bool spread;                /* relists wait by the size of the listing */
	size_t listed;              /* bytes of the last listing, as far as it has come */
	bool running;
	int64_t due_ms;      /* when the next request may start */
	char *version;       /* of the last event; NULL: none */
	char *first_version; /* of the list's first page, from which the watch will start */
	char *token;         /* continue; NULL: first page */
	char *next_token;    /* as the page in flight names it: used when that is whole */
	bool head_seen;      /* of a page: its metadata, which says whether more pages follow */
	unsigned pages;
	bool listing;            /* WATCHLIST before its end mark, LIST */
	bool synced;             /* at least once */
	unsigned breaks;         /* WatchLists that ended before the end mark, in a row */
	unsigned expired_tokens; /* 410s of one list */
	unsigned brief;          /* watches that ended at once, in a row */
	int64_t no_watchlist_until_ms;
	int64_t synced_ms;      /* the last time */
	int64_t denied_ms;      /* since when only 403 and 404 came; 0: not */
	int64_t denied_last_ms; /* the last of them */
	bool denied_asked;      /* the request that makes it a fact was brought forward */
	int denied_status;      /* which of them */
	bool retried_token;     /* a 401 was answered with a new token already */
	struct backoff backoff;
	enum relist_reason reason; /* of the listing that is due or running */
	/* the request in flight */
	int64_t started_ms, answered_ms, progress_ms;
	bool live_seen; /* an event that no WatchList begins with:
			 * the server does not know WatchList */
	bool any_event;
	bool doubted; /* reflector_doubt() during the request */
	unsigned timeout_s;
	/* counters */
	uint64_t relists[RELIST_COUNT];
};

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
	struct reflector *r = xcalloc(1, sizeof *r);

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
	if (r == NULL)
		return;
	free_versions(r);
	free(r);
}

void
reflector_restart(struct reflector *r)
{
	struct reflector anew = { .optional = r->optional, .spread = r->spread };

	memcpy(anew.relists, r->relists, sizeof anew.relists);
	free_versions(r);
	*r = anew;
}

/* Replaces a version or token; "" and NULL are none. */
static void
reflector_set_text(char **field, const char *value)
{
	char *copy = value != NULL && *value ? xstrdup(value) : NULL;

	free(*field);
	*field = copy;
}

char *
reflector_query(struct reflector *r, int64_t now_ms, const char **verb)
{
	char *version = percent_encode(r->version != NULL ? r->version : ""),
	     *token = percent_encode(r->token != NULL ? r->token : ""), *query = NULL;

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
	bool begins =
	    r->phase == REFLECTOR_WATCHLIST || (r->phase == REFLECTOR_LIST && r->token == NULL);
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

/* The listing is complete. Always true: tell the sink. */
static bool
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
	if (version != NULL && *version)
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
	if (r->first_version == NULL)
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

/* Decides what follows the end of a request: the next request, when it may start, and a relist. */

enum { BRIEF_MS = 1000 };

/* Everything has to be listed: with a WatchList unless the server is known to have none. */
static void
list_anew(struct reflector *r, int64_t now_ms, enum relist_reason reason)
{
	r->phase = now_ms < r->no_watchlist_until_ms ? REFLECTOR_LIST : REFLECTOR_WATCHLIST;
	r->reason = reason;
	r->listing = false;
	r->pages = r->expired_tokens = 0;
	reflector_set_text(&r->token, NULL);
	reflector_set_text(&r->first_version, NULL);
	reflector_set_text(&r->version, NULL);
}

static void
wait_for(struct reflector *r, int64_t now_ms, int64_t ms)
{
	r->due_ms = now_ms + ms;
}

static void
back_off(struct reflector *r, int64_t now_ms)
{
	wait_for(r, now_ms, backoff_failed(&r->backoff, now_ms, BACKOFF_MAX_MS));
}

/* How long a relist waits at most. */
static int64_t
relist_jitter_ms(const struct reflector *r)
{
	int64_t ms = (int64_t)(r->listed / (REFLECTOR_SPREAD_BYTES_S / 1000));

	if (!r->spread || ms < REFLECTOR_RELIST_JITTER_MS)
		return REFLECTOR_RELIST_JITTER_MS;
	return ms < REFLECTOR_SPREAD_MAX_MS ? ms : REFLECTOR_SPREAD_MAX_MS;
}

/* The server does not have the version: it is too old, or newer than a store that was set back. */
static void
version_lost(struct reflector *r, int64_t now_ms, enum relist_reason reason)
{
	bool just_listed = r->synced && now_ms - r->synced_ms < REFLECTOR_SILENCE_MS;
	bool was_listing = r->listing || r->phase == REFLECTOR_LIST ||
			   (r->phase == REFLECTOR_WATCHLIST && !r->answered_ms);
	bool had_events = r->any_event && !r->listing;

	list_anew(r, now_ms, reason);
	if ((just_listed && !had_events) || was_listing)
		back_off(r, now_ms);
	else
		wait_for(r, now_ms, backoff_jitter(relist_jitter_ms(r)));
}

/* A WatchList that will not come to its end: a list instead. */
static void
no_watchlist(struct reflector *r, int64_t now_ms)
{
	r->no_watchlist_until_ms = now_ms + REFLECTOR_NO_WATCHLIST_MS;
	r->breaks = 0;
	list_anew(r, now_ms, RELIST_FALLBACK);
}

/* The token of a page has expired: the 410 may carry one for the rest as it is now. */
static void
token_expired(struct reflector *r, int64_t now_ms, const char *token)
{
	r->expired_tokens++;
	if (token != NULL && *token) {
		reflector_set_text(&r->token, token);
	} else {
		list_anew(r, now_ms, RELIST_EXPIRED);
	}
	if (r->expired_tokens > 1 || r->token == NULL)
		back_off(r, now_ms);
	else
		wait_for(r, now_ms, 0);
}

/* Not a 200. */
static void
request_refused(struct reflector *r, int64_t now_ms, const struct reflector_end *end)
{
	int status = end->status;
	bool paging = r->phase == REFLECTOR_LIST && r->token != NULL;
	bool denied = status == 403 || status == 404;

	if (!denied || !r->denied_ms)
		r->denied_ms = denied ? now_ms : 0;
	r->denied_last_ms = denied ? now_ms : 0;
	r->denied_status = denied ? status : 0;
	if (end->too_large && r->version != NULL) {
		version_lost(r, now_ms, RELIST_WENT_BACK);
	} else if (end->retry_after_ms >= 0 && (status == 429 || status >= 500)) {
		wait_for(r, now_ms,
		    backoff_retry_after(&r->backoff, now_ms, end->retry_after_ms, r->spread));
	} else if (status == 401 && end->new_token && !r->retried_token) {
		r->retried_token = true;
		wait_for(r, now_ms, 0);
	} else if (r->phase == REFLECTOR_WATCHLIST && (status == 400 || status == 422)) {
		no_watchlist(r, now_ms);
		wait_for(r, now_ms, 0);
	} else if (status == 410 && paging) {
		token_expired(r, now_ms, end->token);
	} else if (status == 410) {
		version_lost(r, now_ms, RELIST_EXPIRED);
	} else if (status == 400 || status == 422) {
		list_anew(r, now_ms, RELIST_REFUSED);
		back_off(r, now_ms);
	} else if (r->optional && reflector_denied(r)) {
		wait_for(r, now_ms, REFLECTOR_OPTIONAL_RETRY_MS);
	} else {
		back_off(r, now_ms);
		/* Makes the request that confirms the denial once it has lasted long enough. */
		int64_t fact_ms = r->denied_ms + REFLECTOR_DENIED_MS;
		if (denied && !reflector_denied(r) && !r->denied_asked && r->due_ms > fact_ms) {
			r->due_ms = fact_ms;
			r->denied_asked = true;
		}
	}
}

/* A page of a list, or the answer to a probe, was whole. True if it was the last page. */
static bool
page_ended(struct reflector *r, int64_t now_ms)
{
	r->breaks = 0;
	wait_for(r, now_ms, 0);
	if (r->phase == REFLECTOR_PROBE) {
		r->phase = REFLECTOR_WATCH;
		return false;
	}
	reflector_set_text(&r->token, r->next_token);
	if (r->token != NULL && ++r->pages < REFLECTOR_PAGES_MAX)
		return false;
	if (r->token != NULL || r->first_version == NULL) {
		list_anew(r, now_ms, RELIST_INCOMPLETE);
		back_off(r, now_ms);
		return false;
	}
	reflector_set_text(&r->version, r->first_version);
	r->phase = REFLECTOR_WATCH;
	return reflector_listing_ended(r, now_ms);
}

/*
 * A live watch has ended in good order: its timeoutSeconds are over, or the server wants to have
 * fewer of them.
 */
static void
watch_ended(struct reflector *r, int64_t now_ms)
{
	bool brief = now_ms - r->answered_ms < BRIEF_MS; /* however long the answer took */

	r->phase = REFLECTOR_WATCH;
	r->brief = brief ? r->brief + 1 : 0;
	if (r->brief >= 2 && !r->any_event)
		back_off(r, now_ms);
	else
		r->due_ms = r->brief >= 2 ? r->started_ms + BRIEF_MS : now_ms;
}

/* A 200 whose body was cut off, or nothing at all. */
static void
answer_broke(struct reflector *r, int64_t now_ms, bool unreached)
{
	if (r->phase == REFLECTOR_WATCHLIST && r->listing) {
		bool silent = now_ms - r->progress_ms >= REFLECTOR_SILENCE_MS;

		if (silent || ++r->breaks >= 2)
			no_watchlist(r, now_ms);
		else
			list_anew(r, now_ms, RELIST_INCOMPLETE);
	} else if (r->phase == REFLECTOR_LIST ||
		   (r->phase == REFLECTOR_WATCHLIST && !r->answered_ms)) {
		; /* the same page again; the same WatchList again */
	} else if (r->version == NULL) {
		list_anew(r, now_ms, RELIST_INCOMPLETE);
	} else {
		r->phase = REFLECTOR_PROBE; /* the next server to answer may be behind */
	}
	if (unreached)
		wait_for(r, now_ms, 0);
	else
		back_off(r, now_ms);
}

/* An ERROR event inside a 200. */
static void
error_event(struct reflector *r, int64_t now_ms, const struct reflector_end *end)
{
	if (end->error_code == 410) {
		version_lost(r, now_ms, RELIST_EXPIRED);
	} else if (end->too_large) {
		version_lost(r, now_ms, RELIST_WENT_BACK);
	} else if (!r->listing && r->version != NULL) {
		r->phase =
		    REFLECTOR_WATCH; /* it is still the same server, so not behind what was seen */
		back_off(r, now_ms);
	} else {
		answer_broke(r, now_ms, false);
	}
}

static bool
request_ended(struct reflector *r, int64_t now_ms, const struct reflector_end *end)
{
	bool page = r->phase == REFLECTOR_LIST || r->phase == REFLECTOR_PROBE;
	bool ended = false;

	r->running = false;
	if (end->status && end->status != 200) {
		request_refused(r, now_ms, end);
		/* Not a clean end, so as after a break; after 429 and 401, which are about load and
		 * the token, the same request is made again. */
		if (r->phase == REFLECTOR_WATCH && end->status != 429 && end->status != 401)
			r->phase = REFLECTOR_PROBE;
		return false;
	}
	if (!end->status)
		r->denied_ms = r->denied_last_ms = 0;
	if (end->error_code)
		error_event(r, now_ms, end);
	else if (!end->status || end->broken || end->malformed)
		answer_broke(r, now_ms, end->unreached);
	else if (page && r->head_seen)
		ended = page_ended(r, now_ms);
	else if (page || r->listing || r->version == NULL)
		answer_broke(r, now_ms, false);
	else
		watch_ended(r, now_ms);
	return ended;
}

bool
reflector_ended(struct reflector *r, int64_t now_ms, const struct reflector_end *end)
{
	bool ended = request_ended(r, now_ms, end);

	if (r->doubted && r->phase == REFLECTOR_WATCH)
		r->phase = REFLECTOR_PROBE;
	return ended;
}
