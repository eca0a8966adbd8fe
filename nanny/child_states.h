/*
 * The life cycle of the supervised dnsmasq as a state machine. Pure: the input is events and times,
 * the output is actions. The caller (loop.c) performs the actions and reports the results as
 * further events. loop.c also decides whether a changed ConfigMap changes the servers file. The
 * manual page shows the same diagram.
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
#ifndef NANNY_CHILD_STATES_H
#define NANNY_CHILD_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/program_state.h"

enum child_event {
	CHILD_ANSWERED,  /* dnsmasq answered a query, with any result */
	CHILD_CONFIRMED, /* dnsmasq uses the newest file */
	CHILD_CHANGED,   /* the wanted file differs from the file on disk */
	CHILD_DIED,      /* dnsmasq and all processes that it forked have ended */
	CHILD_SILENT,    /* dnsmasq has not answered within the silence timeout */
	CHILD_TIMEOUT,   /* deadline_ms has passed */
	CHILD_TERM,      /* the nanny received SIGTERM or SIGINT */
	CHILD_EVENT_COUNT,
};

enum child_action {
	/* write a new file without lines of deleted domains, and start dnsmasq */
	CHILD_DO_SPAWN = 1 << 0,
	CHILD_DO_WRITE = 1 << 1, /* write the servers file */
	CHILD_DO_APPLY = 1 << 2, /* make dnsmasq reload the file */
	CHILD_DO_ASK = 1 << 3,   /* query dnsmasq for its generation until CHILD_CONFIRMED */
	CHILD_DO_TERM = 1 << 4,
	CHILD_DO_KILL = 1 << 5, /* kill dnsmasq and all processes that it forked */
	CHILD_DO_END = 1 << 6,  /* end the nanny with exit code 0 */
	CHILD_DO_FAIL = 1 << 7, /* end the nanny with exit code 1, and report how dnsmasq ended */
};

enum {
	/* number of deaths within CHILD_DEATHS_MS after which the nanny exits, so that the kubelet
	 * sees the failure */
	CHILD_DEATHS_MAX = 5,
	CHILD_DEATHS_MS = 60 * 1000,
	/* wait before the second restart; doubles for each further restart. The first restart is
	 * immediate. */
	CHILD_BACKOFF_MS = 250,
	/* how long the nanny waits for a confirmation before it sends SIGHUP again; doubles up to
	 * the maximum */
	CHILD_CONFIRM_MS = 1000,
	CHILD_CONFIRM_MAX_MS = 15 * 1000,
	/* minimum time between reloads. dnsmasq resends a query whose server was replaced after 200
	 * ms, and again 400 ms later. If the servers were replaced again before the new servers
	 * answer, the query would be lost. */
	CHILD_GAP_MS = 1000,
	CHILD_STOP_MS = 5 * 1000, /* time between SIGTERM and SIGKILL */
};

struct child {
	enum child_state state;
	bool changed;        /* the wanted file differs from the file on disk */
	bool was_ready;      /* any dnsmasq has answered since the nanny's start */
	int64_t deadline_ms; /* when CHILD_TIMEOUT is due */
	int64_t reloaded_ms; /* time of the last reload; far in the past for a new dnsmasq */
	int64_t drain_ms;    /* duration of the drain */
	int64_t confirm_ms;  /* current interval between SIGHUPs */
	int64_t deaths_ms[CHILD_DEATHS_MAX]; /* ring of the times of dnsmasq's deaths */
	unsigned deaths;                     /* deaths since the nanny's start */
	unsigned unconfirmed;                /* confirmation timeouts since the nanny's start */
};

/* Initialises the state of a child that starts at once. The caller performs CHILD_DO_SPAWN. */
void child_init(struct child *child, int64_t drain_ms);

/* Handles the event. Returns the actions. The caller performs the actions in the order of their
 * bits. */
unsigned child_step(struct child *child, enum child_event event, int64_t now_ms);

/* Whether clients may be sent to this dnsmasq. */
bool child_is_serving(const struct child *child);

#endif
