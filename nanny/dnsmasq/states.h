/*
 * The life of the supervised dnsmasq as a table of states and events. Pure: events and times go in,
 * actions come out; the caller does them (loop.c) and reports what came of it as further
 * events. Whether a change of the ConfigMap is one of the servers file at all is seen in loop.c. The
 * manual page shows the same table.
 *
 *	                  answers             confirmed
 *	  starting -----------------> reloading -----> ready
 *	   ^  |                        ^   |            |
 *	   |  | dies                   |   | changed    | changed
 *	   |  v                        +---+------------+
 *	  backing off <--- dies -----------+------------+
 *	      |                                         | SIGTERM
 *	      | five deaths in a minute                 v
 *	      +------> stopped <-- stopping <------- draining
 */
#ifndef NANNY_DNSMASQ_STATES_H
#define NANNY_DNSMASQ_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/program_state.h"

enum child_event {
	CHILD_ANSWERED,  /* it answered a query, whatever the answer */
	CHILD_CONFIRMED, /* it has the newest file */
	CHILD_CHANGED,   /* another file is wanted */
	CHILD_DIED,      /* it and everything it forked is gone */
	CHILD_SILENT,    /* no answer for too long */
	CHILD_TIMEOUT,   /* the deadline has passed */
	CHILD_TERM,      /* SIGTERM or SIGINT to the nanny */
	CHILD_EVENT_COUNT,
};

enum child_action {
	CHILD_DO_SPAWN = 1 << 0, /* write the file anew, without earlier lines, and start */
	CHILD_DO_WRITE = 1 << 1, /* write the file */
	CHILD_DO_HUP = 1 << 2,   /* make it read the file */
	CHILD_DO_ASK = 1 << 3,   /* ask it for its generation until CHILD_CONFIRMED */
	CHILD_DO_TERM = 1 << 4,
	CHILD_DO_KILL = 1 << 5, /* it and what it forked */
	CHILD_DO_END = 1 << 6,  /* end the nanny: exit 0 */
	CHILD_DO_FAIL = 1 << 7, /* end the nanny: exit 1, with the child's status */
};

enum {
	CHILD_DEATHS_MAX = 5, /* within CHILD_DEATHS_MS: the kubelet has to see it */
	CHILD_DEATHS_MS = 60 * 1000,
	CHILD_BACKOFF_MS =
	    250, /* before the second restart, doubled for each one after; the first is at once */
	CHILD_CONFIRM_MS = 1000, /* then SIGHUP again, doubled each time up to the maximum */
	CHILD_CONFIRM_MAX_MS = 15 * 1000,
	CHILD_GAP_MS =
	    1000, /* between reloads: a query whose server has just been replaced is sent again
		   * after 200 ms and after 400 ms more, and is lost if servers are replaced faster
		   * than they answer */
	CHILD_STOP_MS = 5 * 1000, /* from SIGTERM to SIGKILL */
};

struct child {
	enum child_state state;
	bool changed;        /* another file is wanted than the one written */
	bool was_ready;      /* has ever answered */
	int64_t deadline_ms; /* CHILD_TIMEOUT is due then; -1: never */
	int64_t reloaded_ms; /* when it was last told to read a file; long ago for a new one */
	int64_t drain_ms;    /* how long to drain */
	int64_t confirm_ms;  /* the present interval between SIGHUPs */
	int64_t deaths_ms[CHILD_DEATHS_MAX]; /* a ring: when it died */
	unsigned deaths;                     /* since the start */
	unsigned unconfirmed; /* deadlines that passed without confirmation, since the start */
};

/* A child to be spawned at once: the caller does CHILD_DO_SPAWN. */
void child_init(struct child *child, int64_t drain_ms);

/* Takes the event and returns the actions, to be done in the order of their bits. */
unsigned child_step(struct child *child, enum child_event event, int64_t now_ms);

/* Whether clients may be sent here. */
bool child_is_serving(const struct child *child);

#endif
