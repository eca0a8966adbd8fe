/* Decides what follows the end of a request: the next request, when it may start, and a relist. */
#include "kubedns/api/reflector_internal.h"

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
	if (token && *token) {
		reflector_set_text(&r->token, token);
	} else {
		list_anew(r, now_ms, RELIST_EXPIRED);
	}
	if (r->expired_tokens > 1 || !r->token)
		back_off(r, now_ms);
	else
		wait_for(r, now_ms, 0);
}

/*
 * Retry-After, and a random time more, so that clients that were refused together do not come back
 * together. With --node-role that time grows with each refusal: thousands of nodes start at one moment
 * when their cluster comes back, and the server takes some requests at a time. The first request is
 * made at once: a node that starts alone need not wait.
 */
static int64_t
retry_after_ms(struct reflector *r, int64_t now_ms, int64_t said_ms)
{
	int64_t ms = said_ms < 1000 ? 1000 : said_ms;
	if (ms > REFLECTOR_RETRY_AFTER_MAX_MS)
		ms = REFLECTOR_RETRY_AFTER_MAX_MS;
	if (r->spread)
		return ms + backoff_failed(&r->backoff, now_ms, BACKOFF_MAX_MS);
	return ms + backoff_jitter(ms / 10);
}

/* Not a 200. */
static void
request_refused(struct reflector *r, int64_t now_ms, const struct reflector_end *end)
{
	int status = end->status;
	bool paging = r->phase == REFLECTOR_LIST && r->token;
	bool denied = status == 403 || status == 404;
	if (!denied || !r->denied_ms)
		r->denied_ms = denied ? now_ms : 0;
	r->denied_last_ms = denied ? now_ms : 0;
	r->denied_status = denied ? status : 0;
	if (end->too_large && r->version) {
		version_lost(r, now_ms, RELIST_WENT_BACK);
	} else if (end->retry_after_ms >= 0 && (status == 429 || status >= 500)) {
		wait_for(r, now_ms, retry_after_ms(r, now_ms, end->retry_after_ms));
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
	if (r->token && ++r->pages < REFLECTOR_PAGES_MAX)
		return false;
	if (r->token || !r->first_version) {
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
	} else if (!r->version) {
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
	} else if (!r->listing && r->version) {
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
	else if (page || r->listing || !r->version)
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
