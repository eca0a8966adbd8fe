/*
 * The list/watch protocol of one resource: a state machine, without a socket, that decides which
 * request to send to the API server next.
 *
 *	          +--------------------------- 410, older state -------------------------------+
 *	          v                                                                            |
 *	  WATCHLIST --400, 422, no end mark--> LIST --last page--> WATCH --broke--> PROBE -----+
 *	   |  ^  |                             |  ^                ^  ^ |            |
 *	   |  +--+ broke before its end mark   +--+ next page      |  +-+ ended      |
 *	   +-------- live; ended normally -------------------------+----------200----+
 *
 * "Older state": the server's state is older than the version that was seen last. The caller makes
 * one request at a time with reflector_query(), and reports its status, its events and its end.
 * reflector_due_ms() returns the time of the next request. Only reflector_ended() decides what
 * follows a failure: the next request, the wait before it, a relist. Times are in milliseconds,
 * from the caller's monotonic clock.
 */
#ifndef KUBEDNS_API_REFLECTOR_H
#define KUBEDNS_API_REFLECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	REFLECTOR_PAGE = 500,       /* objects in a page */
	REFLECTOR_PAGES_MAX = 4000, /* pages of one list; a server that sends more is broken */
	/* Time limit for the status line, for the next byte of a list, and for progress of a
	 * WatchList. */
	REFLECTOR_SILENCE_MS = 60000,
	/* A 403 or 404 is trusted when the server has returned it for this long. */
	REFLECTOR_DENIED_MS = 10000,
	REFLECTOR_OPTIONAL_RETRY_MS = 300000, /* interval of an optional resource's requests after
					       * that */
	REFLECTOR_RELIST_JITTER_MS = 3000,    /* random, because all replicas get a 410 at the same
					       * time */
	/*
	 * With kubedns on every node, each instance waits for a random time. The limit is the time
	 * that its last listing takes at this rate. 5,000 instances then read 2.5 GB/s on average,
	 * whatever the cluster's size.
	 */
	REFLECTOR_SPREAD_BYTES_S = 500000,
	REFLECTOR_SPREAD_MAX_MS = 120000,
	REFLECTOR_OVERSTAY_MS = 30000, /* a watch may exceed its timeoutSeconds by this time */
	/* After this time, the next relist tries a WatchList again. */
	REFLECTOR_NO_WATCHLIST_MS = 1800000,
};

enum reflector_phase { REFLECTOR_WATCHLIST, REFLECTOR_LIST, REFLECTOR_PROBE, REFLECTOR_WATCH };

/* The reason for a complete listing. */
enum relist_reason {
	RELIST_START,
	RELIST_EXPIRED, /* status 410: the version has expired */
	/* The server's state is older than the version seen last. */
	RELIST_WENT_BACK,
	RELIST_INCOMPLETE, /* a listing ended too early */
	RELIST_REFUSED,    /* the server did not accept the version */
	RELIST_FALLBACK,   /* the server does not support WatchList */
	RELIST_COUNT,
};

enum reflector_event { REFLECTOR_ADDED, REFLECTOR_CHANGED, REFLECTOR_BOOKMARK };

/* The result of a request. */
struct reflector_end {
	int status;     /* HTTP status; 0: no response */
	bool unreached; /* there was no connection; the caller decides when to try again */
	/* The body or the connection ended too early, or the caller ended the request. */
	bool broken;
	bool malformed; /* the response was invalid */
	bool went_back; /* an event had an older version than an earlier event */
	int error_code; /* code of an ERROR event, or 0 */
	/* According to the Status, the server has not reached the requested version yet. */
	bool too_large;
	const char *token;      /* `continue` token in the Status of a 410, or NULL */
	int64_t retry_after_ms; /* -1: none */
	bool new_token;         /* there is a bearer token that has not been tried yet */
};

struct reflector;

/* Creates a reflector in the phase WATCHLIST, with a request due at once. Free with
 * reflector_free(); NULL is fine. */
struct reflector *reflector_new(bool optional);
void reflector_free(struct reflector *r);

/* Resets the reflector to the state after reflector_new(). The relist counters and the spread stay. */
void reflector_restart(struct reflector *r);

/*
 * For the audit: makes the next request a list at exactly this version, due at once. It is a single
 * list: after its end, whole or not, nothing is due. reflector_synced() tells whether it was whole.
 */
void reflector_list_at(struct reflector *r, int64_t now_ms, const char *version);

/* Whether the page that is being read is for the version of reflector_list_at(). Also returns true
 * for an ordinary list. */
bool reflector_at_version(const struct reflector *r);

/* Returns the version of the last event while a watch is complete and running, or NULL. */
const char *reflector_live_version(const struct reflector *r);

/*
 * Whether an event with this version shows that the server's versions went back. The version is older
 * than a version that the server has sent before. Versions that are not numbers cannot be compared.
 * An API server goes back only if its data was restored from a backup. The caller then ends the
 * request with `went_back`.
 */
bool reflector_goes_back(const struct reflector *r, const char *version, bool end_mark);

/* Whether the last request showed that the server's versions went back. Returns true only once. The
 * caller then calls reflector_go_back() for the other resources, without a request in flight. */
bool reflector_take_back(struct reflector *r);
void reflector_go_back(struct reflector *r, int64_t now_ms);

/* Whether the current listing follows versions that went back. An object may then have the same
 * version as before and other content. */
bool reflector_new_epoch(const struct reflector *r);

/* Whether the listing that is due or running follows versions that went back. */
bool reflector_follows_back(const struct reflector *r);

/* Sets whether the resource is optional. An optional resource that is known to be denied is
 * requested rarely. */
void reflector_set_optional(struct reflector *r, bool optional);

/*
 * Sets whether instances spread their requests. A relist then waits longer if the listing is large
 * (REFLECTOR_SPREAD_BYTES_S). A request that got a Retry-After then waits longer if it was refused
 * often.
 */
void reflector_set_spread(struct reflector *r, bool spread);

/* The caller has cancelled the request in flight. The cancellation does not count as a failure. */
void reflector_dropped(struct reflector *r);

/* Makes the next request due at `due_ms` at the latest. */
void reflector_bring_forward(struct reflector *r, int64_t due_ms);

/*
 * Returns the query string of the next request (the caller frees it). The request then counts as in
 * flight. `verb` is set to "list" or "watch".
 */
char *reflector_query(struct reflector *r, int64_t now_ms, const char **verb);

/* Reports a status 200. Returns true if a listing starts; the caller then tells the sink. */
bool reflector_answered(struct reflector *r, int64_t now_ms);

/* Reports that `bytes` of the body arrived. */
void reflector_progress(struct reflector *r, int64_t now_ms, size_t bytes);

/*
 * Reports an event. `version` is "" or NULL if the event has none. `end_mark` is true for the
 * bookmark that ends a WatchList. Returns true if a listing ended with the event; the caller then
 * tells the sink.
 */
bool reflector_event(struct reflector *r, int64_t now_ms, enum reflector_event event,
    const char *version, bool end_mark);

/* Reports the metadata of a list's page, which precedes or follows its items. */
void reflector_page(struct reflector *r, const char *version, const char *token);

/* Reports the end of the request. Returns true if a listing ended because its last page is
 * complete; the caller then tells the sink. */
bool reflector_ended(struct reflector *r, int64_t now_ms, const struct reflector_end *end);

/*
 * Reports that a connection to the server was lost, by this resource or another. The server that
 * responds next may have older state than the previous server. The next watch is therefore preceded
 * by a probe. This is also done for a watch that still seems to be running, because its end may not
 * have been processed yet.
 */
void reflector_doubt(struct reflector *r);

/* Returns the time when the request in flight must be ended as broken, or CLOCK_NEVER. Sets `*why` to
 * the reason. */
int64_t reflector_deadline_ms(const struct reflector *r, const char **why);

/* Returns since when the request in flight has been waiting for its response or for the next bytes
 * of a list. Returns 0 if it is not waiting. */
int64_t reflector_silent_since_ms(const struct reflector *r);

/* Returns the time when the next request may start. */
int64_t reflector_due_ms(const struct reflector *r);

/* reflector_running() tells whether a request is in flight. reflector_phase() returns the phase of
 * that request or, if there is none, of the next request. */
bool reflector_running(const struct reflector *r);
enum reflector_phase reflector_phase(const struct reflector *r);

/* reflector_listing() tells whether a listing is running. reflector_synced() tells whether a
 * listing has ended at least once. */
bool reflector_listing(const struct reflector *r);
bool reflector_synced(const struct reflector *r);

/* reflector_denied_since_ms() returns since when all responses have been 403 or 404, or 0 if the
 * last one was not. reflector_denied_status() returns the last of these statuses. */
int64_t reflector_denied_since_ms(const struct reflector *r);
int reflector_denied_status(const struct reflector *r);

/* Returns whether the resource has been forbidden or missing long enough to trust the denial. */
bool reflector_denied(const struct reflector *r);

/* Measures the duration of the denial from the last response on. Called if the denial was not
 * specific to this resource. */
void reflector_denial_restart(struct reflector *r);

/*
 * The resource versions for which the objects that were passed to the sink are the state of the
 * server. The state was the same for all versions from `first` to `last`. `first` is the version of
 * the listing or of the last change. A bookmark increases only `last`. Both are 0 if the versions
 * are unknown: before the end of the first listing, during a relist, or if the versions are not
 * numbers.
 */
struct reflector_versions {
	uint64_t first, last;
};

struct reflector_versions reflector_versions(const struct reflector *r);

/* Returns the number of consecutive failures, on which the next wait depends. */
unsigned reflector_failures(const struct reflector *r);

/* Returns the number of listings that were started for this reason. */
uint64_t reflector_relists(const struct reflector *r, enum relist_reason reason);

/* "start", "expired", ... */
const char *relist_reason_name(enum relist_reason reason);

#endif
