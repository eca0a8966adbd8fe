/*
 * The list/watch protocol of one resource, as a state machine without a socket: what to ask the API
 * server next.
 *
 *	          +--------------------------- 410, store went back ---------------------------+
 *	          v                                                                            |
 *	  WATCHLIST --400, 422, no end mark--> LIST --last page--> WATCH --broke--> PROBE -----+
 *	   |  ^  |                             |  ^                ^  ^ |            |
 *	   |  +--+ broke before its end mark   +--+ next page      |  +-+ ended      |
 *	   +-------- live; ended in good order --------------------+----------200----+
 *
 * The caller makes one request at a time with reflector_query(), reports what comes back (status,
 * events, the end), and asks reflector_due_ms() when the next one may start. Only reflector_ended()
 * decides what follows a failure: the next request, the wait before it, a relist. Time is the
 * caller's monotonic clock in milliseconds.
 */
#ifndef KUBEDNS_API_REFLECTOR_H
#define KUBEDNS_API_REFLECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	REFLECTOR_PAGE = 500,       /* objects a page */
	REFLECTOR_PAGES_MAX = 4000, /* of one list: a server whose lists never end is broken */
	REFLECTOR_SILENCE_MS =
	    60000, /* no status line, no byte of a list, no progress of a WatchList */
	REFLECTOR_DENIED_MS = 10000,          /* a 403 or 404 that lasts this long is believed */
	REFLECTOR_OPTIONAL_RETRY_MS = 300000, /* then asked again this often */
	REFLECTOR_RELIST_JITTER_MS = 3000,    /* all replicas learn of a 410 at one moment */
	/* With kubedns on every node, each waits at random up to the time that its last listing
	 * takes at this rate: 5,000 of them then ask for 2.5 GB/s on average, whatever the
	 * cluster's size. */
	REFLECTOR_SPREAD_BYTES_S = 500000,
	REFLECTOR_SPREAD_MAX_MS = 120000,
	REFLECTOR_OVERSTAY_MS = 30000, /* a watch may outlive its timeoutSeconds by this */
	REFLECTOR_NO_WATCHLIST_MS =
	    1800000, /* after that a WatchList is tried again at the next relist */
};

enum reflector_phase { REFLECTOR_WATCHLIST, REFLECTOR_LIST, REFLECTOR_PROBE, REFLECTOR_WATCH };

/* Why everything had to be listed (anew). */
enum relist_reason {
	RELIST_START,
	RELIST_EXPIRED,    /* 410 */
	RELIST_WENT_BACK,  /* the store is older than what was seen */
	RELIST_INCOMPLETE, /* a listing that broke off */
	RELIST_REFUSED,    /* the version was not understood */
	RELIST_FALLBACK,   /* no WatchList here */
	RELIST_COUNT,
};

enum reflector_event { REFLECTOR_ADDED, REFLECTOR_CHANGED, REFLECTOR_BOOKMARK };

/* How a request ended. */
struct reflector_end {
	int status;             /* HTTP; 0: none came */
	bool unreached;         /* there was no connection: the caller knows when to try again */
	bool broken;            /* the body or the connection ended too early, or we ended it */
	bool malformed;         /* the response was not a valid one */
	int error_code;         /* of an ERROR event, or 0 */
	bool too_large;         /* the Status says that the version lies in the store's future */
	const char *token;      /* continue of a 410's Status, or NULL */
	int64_t retry_after_ms; /* -1: none */
	bool new_token;         /* there is a bearer token that was not tried yet */
};

struct reflector;

/* Starts at WATCHLIST, due at once; caller frees with reflector_free (NULL is fine). */
struct reflector *reflector_new(bool optional);
void reflector_free(struct reflector *r);

/* Starts anew, as after reflector_new; the relist counters and the spread go on. */
void reflector_restart(struct reflector *r);

/* A resource that is optional and known to be denied is asked for rarely. */
void reflector_set_optional(struct reflector *r, bool optional);

/* Whether relists are spread by the size of the listing, REFLECTOR_SPREAD_BYTES_S, and requests that
 * were refused with a Retry-After by how often they were. */
void reflector_set_spread(struct reflector *r, bool spread);

/* The caller has dropped the request in flight, without consequence. */
void reflector_dropped(struct reflector *r);

/* The next request may start at `due_ms` at the latest. */
void reflector_bring_forward(struct reflector *r, int64_t due_ms);

/*
 * The query string of the next request (caller frees), which is then in flight; `verb` is "list" or
 * "watch".
 */
char *reflector_query(struct reflector *r, int64_t now_ms, const char **verb);

/* A 200 came. True if a listing begins with it: tell the sink. */
bool reflector_answered(struct reflector *r, int64_t now_ms);

/* `bytes` of the body came. */
void reflector_progress(struct reflector *r, int64_t now_ms, size_t bytes);

/*
 * An event came with this version ("" or NULL: none). `end_mark`: the bookmark that ends a
 * WatchList. True if a listing ended with it: tell the sink.
 */
bool reflector_event(struct reflector *r, int64_t now_ms, enum reflector_event event,
    const char *version, bool end_mark);

/* The metadata of a list's page, before its items or behind them. */
void reflector_page(struct reflector *r, const char *version, const char *token);

/*
 * The request has ended. True if a listing ended with it (the last page was whole): tell the sink.
 */
bool reflector_ended(struct reflector *r, int64_t now_ms, const struct reflector_end *end);

/*
 * A connection to the server was lost, this resource's or another's: the server that answers next
 * may be behind the last one. A probe is then made before a watch that is due, also after one that is
 * still taken for running: its end may wait behind the break.
 */
void reflector_doubt(struct reflector *r);

/* When the request in flight has to be ended as broken (INT64_MAX: never), and why. */
int64_t reflector_deadline_ms(const struct reflector *r, const char **why);

/* Since when the request in flight has brought nothing that it owes: its answer, or the next bytes of a
 * list. 0: nothing is owed. */
int64_t reflector_silent_since_ms(const struct reflector *r);

/* When the next request may start. */
int64_t reflector_due_ms(const struct reflector *r);

/* Whether a request is in flight, and the phase of that request or of the next one. */
bool reflector_running(const struct reflector *r);
enum reflector_phase reflector_phase(const struct reflector *r);

/* Whether a listing has begun and not ended yet; whether one has ended at least once. */
bool reflector_listing(const struct reflector *r);
bool reflector_synced(const struct reflector *r);

/* Since when all answers were 403 or 404 (0: the last one was not), and which of them was last. */
int64_t reflector_denied_since_ms(const struct reflector *r);
int reflector_denied_status(const struct reflector *r);

/* Whether it has been forbidden or missing for so long that this is believed. */
bool reflector_denied(const struct reflector *r);

/* Restarts the time of the denial at its last answer: it was not about this resource alone. */
void reflector_denial_restart(struct reflector *r);

/* Failures in a row, from which the next wait is drawn. */
unsigned reflector_failures(const struct reflector *r);

/* Listings begun for this reason. */
uint64_t reflector_relists(const struct reflector *r, enum relist_reason reason);

/* "start", "expired", ... */
const char *relist_reason_name(enum relist_reason reason);

#endif
