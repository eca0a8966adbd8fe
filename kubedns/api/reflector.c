#include "kubedns/api/reflector.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/api/backoff.h"
#include "lib/clock.h"
#include "lib/percent.h"
#include "lib/xalloc.h"

struct reflector {
	enum reflector_phase phase; /* phase of the request in flight, or of the next request */
	bool optional;              /* if it is known to be denied, it is requested rarely */
	/* Relists wait for a time that depends on the size of the listing. */
	bool spread;
	size_t listed; /* bytes of the last listing or, so far, of the current one */
	bool running;
	int64_t due_ms;      /* when the next request may start */
	char *version;       /* version of the last event; NULL: none */
	char *first_version; /* version of the list's first page; the watch will start from it */
	struct reflector_versions held;
	/* A list whose pages have different versions is the state of no version. It becomes the
	 * state of a version when the watch has reached the last page's version. 0: it has. */
	uint64_t catch_up;
	uint64_t page_version; /* version of the last page */
	char *token;           /* `continue` token; NULL: first page */
	char *next_token;      /* token in the current page; used when the page is complete */
	unsigned pages;
	/* The page's metadata, which tells whether more pages follow, has arrived. */
	bool head_seen;
	bool listing;            /* a listing is running: WATCHLIST before its end mark, or LIST */
	bool synced;             /* a listing has ended at least once */
	unsigned breaks;         /* consecutive WatchLists that ended before the end mark */
	unsigned expired_tokens; /* number of 410 responses during one list */
	unsigned brief;          /* consecutive watches that ended at once */
	int64_t no_watchlist_until_ms;
	int64_t synced_ms; /* time of the last sync */
	/* Since when all responses have been 403 or 404; 0 if the last one was not. */
	int64_t denied_ms;
	int64_t denied_last_ms; /* time of the last 403 or 404 */
	bool denied_asked;      /* the request that confirms the denial has been brought forward */
	bool retried_token;     /* a 401 has already caused a retry with a new token */
	int denied_status;      /* 403 or 404, whichever was last */
	struct backoff backoff;
	enum relist_reason reason; /* reason of the listing that is due or running */
	/* the request in flight */
	int64_t started_ms, answered_ms, progress_ms;
	/* An event arrived that cannot be part of an initial list, so the server does not support
	 * WatchList. */
	bool live_seen;
	bool any_event;
	bool doubted; /* reflector_doubt() was called during the request */
	bool exact;   /* a single list at `version`, see reflector_list_at() */
	bool back;    /* the versions went back: see reflector_take_back() */
	unsigned timeout_s;
	uint64_t newest; /* newest version of this epoch, if versions are numbers */
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
	struct reflector restarted = { .optional = r->optional, .spread = r->spread };

	memcpy(restarted.relists, r->relists, sizeof restarted.relists);
	free_versions(r);
	*r = restarted;
}

/* Replaces a version or token. "" and NULL mean none. */
static void
reflector_set_text(char **field, const char *value)
{
	char *copy = value != NULL && *value ? xstrdup(value) : NULL;

	free(*field);
	*field = copy;
}

/* Returns the version as a number, or 0 if it is missing or no number. */
static uint64_t
number_of(const char *version)
{
	char *end;

	if (version == NULL || *version < '0' || *version > '9')
		return 0;
	errno = 0;
	unsigned long long number = strtoull(version, &end, 10);
	return *end == '\0' && errno == 0 ? number : 0;
}

static void
note_newest(struct reflector *r, const char *version)
{
	uint64_t number = number_of(version);

	if (number > r->newest)
		r->newest = number;
}

/* Whether a complete state of this version is older than what the server has sent before. */
static bool
is_older(const struct reflector *r, const char *version)
{
	uint64_t number = number_of(version);

	return number != 0 && number < r->newest;
}

bool
reflector_goes_back(const struct reflector *r, const char *version, bool end_mark)
{
	/* The events of a listing are in no order, except the last one. */
	if (r->listing)
		return end_mark && r->reason != RELIST_WENT_BACK && is_older(r, version);
	return is_older(r, version);
}

bool
reflector_take_back(struct reflector *r)
{
	bool back = r->back;

	r->back = false;
	return back;
}

bool
reflector_new_epoch(const struct reflector *r)
{
	return r->listing && r->reason == RELIST_WENT_BACK;
}

bool
reflector_follows_back(const struct reflector *r)
{
	bool due =
	    r->phase == REFLECTOR_LIST || (r->phase == REFLECTOR_WATCHLIST && r->version == NULL);

	return r->reason == RELIST_WENT_BACK && (due || r->listing);
}

void
reflector_list_at(struct reflector *r, int64_t now_ms, const char *version)
{
	reflector_restart(r);
	r->exact = true;
	r->phase = REFLECTOR_LIST;
	r->due_ms = now_ms;
	r->version = xstrdup(version);
}

bool
reflector_at_version(const struct reflector *r)
{
	return !r->exact || (r->first_version != NULL && strcmp(r->first_version, r->version) == 0);
}

const char *
reflector_live_version(const struct reflector *r)
{
	/* After pages of several versions, the objects are not those of one version yet. */
	bool live = r->running && r->synced && !r->listing && r->answered_ms && r->catch_up == 0 &&
		    (r->phase == REFLECTOR_WATCH || r->phase == REFLECTOR_WATCHLIST);

	return live ? r->version : NULL;
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
		if (r->exact && *token == '\0')
			query = xasprintf("limit=%d&resourceVersion=%s&resourceVersionMatch=Exact",
			    REFLECTOR_PAGE, version);
		else
			query = xasprintf(
			    "limit=%d%s%s", REFLECTOR_PAGE, *token ? "&continue=" : "", token);
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
	r->held = (struct reflector_versions){ 0 };
	r->catch_up = 0;
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
	/* A server without WatchList also sends the state, but then live events without end. Live
	 * events do not count as progress. */
	if (!r->live_seen)
		r->progress_ms = now_ms;
}

/* Updates the versions that are held, for a live event. */
static void
note_version(struct reflector *r, bool bookmark, uint64_t version)
{
	if (version < r->catch_up)
		return;
	if (!bookmark)
		r->held.first = version;
	else if (r->catch_up != 0)
		r->held.first = r->catch_up;
	else if (r->held.first == 0 || version < r->held.last)
		return;
	r->held.last = version;
	r->catch_up = 0;
}

struct reflector_versions
reflector_versions(const struct reflector *r)
{
	return r->held;
}

/* Ends a complete listing. `newest` is the highest version of its pages. Always returns true, which
 * means: tell the sink. */
static bool
reflector_listing_ended(struct reflector *r, int64_t now_ms, uint64_t newest)
{
	uint64_t version = number_of(r->version);

	if (newest > version)
		r->catch_up = newest;
	else
		r->held = (struct reflector_versions){ version, version };
	r->newest = version;
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
	if (!r->listing) {
		note_version(r, event == REFLECTOR_BOOKMARK, number_of(version));
		note_newest(r, version);
		return false;
	}
	if (end_mark)
		return reflector_listing_ended(r, now_ms, 0);
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
	/* Pages after an expired token have a later version. A watch from the first page's version
	 * returns the changes in between. */
	if (r->first_version == NULL)
		reflector_set_text(&r->first_version, version);
	r->page_version = number_of(version);
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
		return CLOCK_NEVER;
	int64_t silent_ms = reflector_silent_since_ms(r);
	if (silent_ms) {
		*why = !r->answered_ms                   ? "no answer for 60 s"
		       : r->phase == REFLECTOR_WATCHLIST ? "no progress of the WatchList for 60 s"
							 : "no byte for 60 s";
		return silent_ms + REFLECTOR_SILENCE_MS;
	}
	*why = "the server did not end it after timeoutSeconds";
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

/* Decides what follows the end of a request: the next request, when it may start, and whether to relist. */

enum { BRIEF_MS = 1000 };

/* Starts a new listing. Uses a WatchList unless the server is known not to support it. */
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

/* Longest wait before a relist. */
static int64_t
relist_jitter_ms(const struct reflector *r)
{
	int64_t ms = (int64_t)(r->listed / (REFLECTOR_SPREAD_BYTES_S / 1000));

	if (!r->spread || ms < REFLECTOR_RELIST_JITTER_MS)
		return REFLECTOR_RELIST_JITTER_MS;
	return ms < REFLECTOR_SPREAD_MAX_MS ? ms : REFLECTOR_SPREAD_MAX_MS;
}

void
reflector_go_back(struct reflector *r, int64_t now_ms)
{
	list_anew(r, now_ms, RELIST_WENT_BACK);
	wait_for(r, now_ms, backoff_jitter(relist_jitter_ms(r)));
}

/* Handles a proof that the server's versions went back. */
static void
went_back(struct reflector *r, int64_t now_ms)
{
	r->back = true;
	reflector_go_back(r, now_ms);
}

/* Whether the current or last listing also followed a lost version, and no watch has worked since. */
static bool
lost_again(const struct reflector *r, int64_t now_ms)
{
	bool relisted = r->reason == RELIST_EXPIRED || r->reason == RELIST_WENT_BACK;
	bool just_listed = r->synced && now_ms - r->synced_ms < REFLECTOR_SILENCE_MS;
	bool was_listing = r->listing || r->phase == REFLECTOR_LIST ||
			   (r->phase == REFLECTOR_WATCHLIST && !r->answered_ms);
	bool had_events = r->any_event && !r->listing;

	return relisted && ((just_listed && !had_events) || was_listing);
}

/* Handles a version or token that the server does not have. It has expired, or the server was
 * restored from a backup and its state is older than the version. The failures before it say
 * nothing about the new listing, so only a server that repeats the response is backed off. */
static void
version_lost(struct reflector *r, int64_t now_ms, enum relist_reason reason)
{
	bool again = lost_again(r, now_ms);

	list_anew(r, now_ms, reason);
	if (again)
		back_off(r, now_ms);
	else
		wait_for(r, now_ms, backoff_jitter(relist_jitter_ms(r)));
}

/* Uses a list instead of a WatchList that will not reach its end mark. */
static void
no_watchlist(struct reflector *r, int64_t now_ms)
{
	r->no_watchlist_until_ms = now_ms + REFLECTOR_NO_WATCHLIST_MS;
	r->breaks = 0;
	list_anew(r, now_ms, RELIST_FALLBACK);
}

/* The `continue` token of a page has expired. The 410 may contain a new token, for the remaining
 * objects in their current state. */
static void
token_expired(struct reflector *r, int64_t now_ms, const char *token)
{
	if (token == NULL || *token == '\0') {
		version_lost(r, now_ms, RELIST_EXPIRED);
		return;
	}
	reflector_set_text(&r->token, token);
	if (++r->expired_tokens > 1)
		back_off(r, now_ms);
	else
		wait_for(r, now_ms, 0);
}

/* Handles a status other than 200. */
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
		/* Schedules one request for the time when the denial has lasted long enough. That
		 * request confirms the denial. */
		int64_t fact_ms = r->denied_ms + REFLECTOR_DENIED_MS;
		if (denied && !reflector_denied(r) && !r->denied_asked && r->due_ms > fact_ms) {
			r->due_ms = fact_ms;
			r->denied_asked = true;
		}
	}
}

/* Handles the end of a complete page of a list, or of a probe. Returns true if the page was the
 * last one of a complete list. */
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
	if (r->reason != RELIST_WENT_BACK && is_older(r, r->first_version)) {
		went_back(r, now_ms);
		return false;
	}
	reflector_set_text(&r->version, r->first_version);
	r->phase = REFLECTOR_WATCH;
	return reflector_listing_ended(r, now_ms, r->page_version);
}

/* Handles a live watch that ended normally. Either its timeoutSeconds are over, or the server is
 * shedding watches. */
static void
watch_ended(struct reflector *r, int64_t now_ms)
{
	/* The duration is measured from the response, however long the response took. */
	bool brief = now_ms - r->answered_ms < BRIEF_MS;

	r->phase = REFLECTOR_WATCH;
	r->brief = brief ? r->brief + 1 : 0;
	if (r->brief >= 2 && !r->any_event)
		back_off(r, now_ms);
	else
		r->due_ms = r->brief >= 2 ? r->started_ms + BRIEF_MS : now_ms;
}

/* Handles a 200 whose body was truncated, or a missing response. */
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
		; /* retry the same page or the same WatchList */
	} else if (r->version == NULL) {
		list_anew(r, now_ms, RELIST_INCOMPLETE);
	} else {
		r->phase = REFLECTOR_PROBE; /* the server that responds next may have older state */
	}
	if (unreached)
		wait_for(r, now_ms, 0);
	else
		back_off(r, now_ms);
}

/* Handles an ERROR event inside a 200. */
static void
error_event(struct reflector *r, int64_t now_ms, const struct reflector_end *end)
{
	if (end->error_code == 410) {
		version_lost(r, now_ms, RELIST_EXPIRED);
	} else if (end->too_large) {
		version_lost(r, now_ms, RELIST_WENT_BACK);
	} else if (!r->listing && r->version != NULL) {
		/* The server is the same, so its state is not older than the last version that it sent. */
		r->phase = REFLECTOR_WATCH;
		back_off(r, now_ms);
	} else {
		answer_broke(r, now_ms, false);
	}
}

/* Handles the end of a page of reflector_list_at(). */
static bool
exact_ended(struct reflector *r, int64_t now_ms, const struct reflector_end *end)
{
	bool whole = end->status == 200 && !end->broken && !end->malformed && r->head_seen &&
		     reflector_at_version(r);

	r->running = false;
	r->due_ms = CLOCK_NEVER;
	if (end->retry_after_ms > 0 && (end->status == 429 || end->status >= 500))
		r->due_ms = now_ms + end->retry_after_ms;
	if (!whole)
		return false;
	reflector_set_text(&r->token, r->next_token);
	if (r->token == NULL)
		return reflector_listing_ended(r, now_ms, r->page_version);
	if (++r->pages < REFLECTOR_PAGES_MAX)
		r->due_ms = now_ms;
	return false;
}

static bool
request_ended(struct reflector *r, int64_t now_ms, const struct reflector_end *end)
{
	bool page = r->phase == REFLECTOR_LIST || r->phase == REFLECTOR_PROBE;
	bool ended = false;

	r->running = false;
	if (end->status && end->status != 200) {
		request_refused(r, now_ms, end);
		/* The end was not clean, so continue as after a broken connection. After 429 (load)
		 * and 401 (token), repeat the same request. */
		if (r->phase == REFLECTOR_WATCH && end->status != 429 && end->status != 401)
			r->phase = REFLECTOR_PROBE;
		return false;
	}
	if (!end->status)
		r->denied_ms = r->denied_last_ms = 0;
	if (end->went_back)
		went_back(r, now_ms);
	else if (end->error_code)
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
	bool ended = r->exact ? exact_ended(r, now_ms, end) : request_ended(r, now_ms, end);

	if (r->doubted && r->phase == REFLECTOR_WATCH)
		r->phase = REFLECTOR_PROBE;
	return ended;
}
