/*
 * What to ask the API server next: the list/watch protocol of one resource as a state machine
 * without a socket.
 *
 *	          +--------------------------- 410, store went back ---------------------------+
 *	          v                                                                            |
 *	  WATCHLIST --400, 422, no end mark--> LIST --last page--> WATCH --broke--> PROBE -----+
 *	   |  ^  |                             |  ^                ^  ^ |            |
 *	   |  +--+ broke before its end mark   +--+ next page      |  +-+ ended      |
 *	   +-------- live; ended in good order --------------------+----------200----+
 *
 * Whoever owns it makes one request at a time with reflector_query(), reports what comes back
 * (status, events, the end), and asks reflector_due_ms() when the next one may start. Every
 * fault's consequence is decided in reflector_ended(), nowhere else. Time is the caller's
 * monotonic clock in milliseconds.
 */
#ifndef KUBEDNS_API_REFLECTOR_H
#define KUBEDNS_API_REFLECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/api/backoff.h"

enum {
	REFLECTOR_PAGE = 500,       /* objects a page */
	REFLECTOR_PAGES_MAX = 4000, /* of one list: a server whose lists never end is broken */
	REFLECTOR_SILENCE_MS =
	    60000, /* no status line, no byte of a list, no progress of a WatchList */
	REFLECTOR_DENIED_MS = 10000,          /* a 403 or 404 that lasts this long is believed */
	REFLECTOR_OPTIONAL_RETRY_MS = 300000, /* then asked again this often */
	REFLECTOR_RELIST_JITTER_MS = 3000,    /* all replicas learn of a 410 at one moment */
	REFLECTOR_RETRY_AFTER_MAX_MS = 300000,
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

struct reflector {
	enum reflector_phase phase; /* of the request in flight, or of the next one */
	bool optional;              /* once it is known to be denied, ask rarely */
	bool running;
	int64_t due_ms;      /* when the next request may start */
	char *version;       /* of the last event; NULL: none */
	char *first_version; /* of the list's first page, from which the watch will start */
	char *token;         /* continue; NULL: first page */
	bool whole;          /* the page said that it is the last one, or more: a head was seen */
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
	unsigned timeout_s;
	/* counters */
	uint64_t relists[RELIST_COUNT];
};

/* How a request ended. */
struct reflector_end {
	int status;        /* HTTP; 0: none came */
	bool unreached;    /* nobody was there to ask: whoever owns us knows when to try again */
	bool broken;       /* the body or the connection ended too early, or we ended it */
	bool malformed;    /* what came was not what was asked for */
	int error_code;    /* of an ERROR event, or 0 */
	bool too_large;    /* the Status says that the version lies in the store's future */
	const char *token; /* continue of a 410's Status, or NULL */
	int64_t retry_after_ms; /* -1: none */
	bool new_token;         /* a bearer token that was not tried yet is there */
};

/* Starts at WATCHLIST, due at once. */
void reflector_init(struct reflector *r, bool optional);
void reflector_clear(struct reflector *r);

/*
 * The query string of the next request (caller frees),
 * which is then in flight; `verb` is "list" or "watch".
 */
char *reflector_query(struct reflector *r, int64_t now_ms, const char **verb);

/* A 200 came. True if a listing begins with it: tell the sink. */
bool reflector_answered(struct reflector *r, int64_t now_ms);

/* Bytes of the body came. */
void reflector_progress(struct reflector *r, int64_t now_ms);

/*
 * An event came with this version ("" or NULL: none). `end_mark`: the bookmark that ends a
 * WatchList. True if a listing ended with it: tell the sink.
 */
bool reflector_event(struct reflector *r, int64_t now_ms, enum reflector_event event,
    const char *version, bool end_mark);

/* The metadata of a list's page. */
void reflector_page(struct reflector *r, const char *version, const char *token);

/*
 * The request has ended. True if a listing ended with it (the last page was whole): tell the sink.
 */
bool reflector_ended(struct reflector *r, int64_t now_ms, const struct reflector_end *end);

/*
 * The connection to the server was lost, whoever found out: who answers next may know less than we
 * do, also for a resource that had no request on that connection at the time. A watch that is due
 * is preceded by a probe.
 */
void reflector_doubt(struct reflector *r);

/* When the request in flight has to be ended as broken (INT64_MAX: never), and why. */
int64_t reflector_deadline_ms(const struct reflector *r, const char **why);

/* Whether it has been forbidden or missing for so long that this is believed. */
bool reflector_denied(const struct reflector *r);

/* "start", "expired", ... */
const char *relist_reason_name(enum relist_reason reason);

#endif
