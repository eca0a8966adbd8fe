/* The state of a reflector. Private to reflector.c and reflector_next.c. */
#ifndef KUBEDNS_API_REFLECTOR_INTERNAL_H
#define KUBEDNS_API_REFLECTOR_INTERNAL_H

#include "kubedns/api/backoff.h"
#include "kubedns/api/reflector.h"

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

/* Replaces a version or token; "" and NULL are none. */
void reflector_set_text(char **field, const char *value);

/* The listing is complete. Always true: tell the sink. */
bool reflector_listing_ended(struct reflector *r, int64_t now_ms);

#endif
