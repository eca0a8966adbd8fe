/*
 * States that the programs tell each other as JSON. The nanny's /config has the state of dnsmasq,
 * and kubedns's /readiness?format=json has the state of kubedns. The sidecar reads both pages. Each
 * value of an enum has one name. The nanny or kubedns may have another version than the sidecar, so
 * an unknown name has a value of its own. The JSON also has texts for people, which no program
 * parses. lib/api_problem.h has the names of problems with the API server.
 */
#ifndef LIB_PROGRAM_STATE_H
#define LIB_PROGRAM_STATE_H

#include <string.h>

/* The dnsmasq that the nanny runs; nanny/child_states.h has the transitions. */
enum child_state {
	CHILD_STARTING,  /* it has not answered a query yet; a SIGHUP now could kill it */
	CHILD_RELOADING, /* it answers, but has not confirmed the newest file yet */
	CHILD_READY,     /* it answers, and has the newest file */
	CHILD_BACKOFF,   /* it has exited, and will be restarted at the deadline */
	CHILD_DRAINING,  /* it will stop, but answers until the deadline */
	CHILD_STOPPING,  /* the nanny has sent it SIGTERM */
	CHILD_STOPPED,   /* it has exited, and will not be restarted */
	CHILD_STATE_COUNT,
	CHILD_STATE_UNKNOWN = CHILD_STATE_COUNT,
};

static inline const char *
child_state_name(enum child_state state)
{
	static const char *const names[CHILD_STATE_COUNT] = {
		[CHILD_STARTING] = "starting",
		[CHILD_RELOADING] = "reloading",
		[CHILD_READY] = "ready",
		[CHILD_BACKOFF] = "backing off",
		[CHILD_DRAINING] = "draining",
		[CHILD_STOPPING] = "stopping",
		[CHILD_STOPPED] = "stopped",
	};

	return names[state];
}

/* Returns CHILD_STATE_UNKNOWN for "" and for unknown names, because a newer nanny may have more states. */
static inline enum child_state
child_state_named(const char *name)
{
	unsigned i = 0;

	while (i < CHILD_STATE_COUNT && strcmp(name, child_state_name((enum child_state)i)) != 0)
		i++;
	return (enum child_state)i;
}

/* The reason why kubedns is not ready for clients. */
enum readiness_reason {
	READINESS_READY,
	READINESS_DRAINING,          /* kubedns is shutting down */
	READINESS_WAITING_FOR_PORT,  /* another kubedns uses the port (--share-port) */
	READINESS_WAITING_FOR_ZONES, /* kubedns has not read the external and clusterset zones
				      * yet */
	READINESS_NOT_SYNCED,        /* kubedns has not read the cluster's objects yet */
	READINESS_COUNT,
};

static inline const char *
readiness_reason_name(enum readiness_reason reason)
{
	static const char *const names[READINESS_COUNT] = {
		[READINESS_READY] = "ready",
		[READINESS_DRAINING] = "draining",
		[READINESS_WAITING_FOR_PORT] = "waiting_for_port",
		[READINESS_WAITING_FOR_ZONES] = "waiting_for_zones",
		[READINESS_NOT_SYNCED] = "not_synced",
	};

	return names[reason];
}

#endif
