/*
 * The states that programs tell each other in JSON, as enums with one name for each value: of dnsmasq
 * in the nanny's /config, and of kubedns in its /readiness?format=json. The sidecar reads both. Its
 * peers may be of another version, so a name that it does not know is a value of its own. Words for
 * people come beside the names; nobody searches them. Problems with the API server are in
 * lib/api_problem.h.
 */
#ifndef LIB_PROGRAM_STATE_H
#define LIB_PROGRAM_STATE_H

#include <string.h>

/* The dnsmasq that the nanny runs; nanny/dnsmasq/states.h has the transitions. */
enum child_state {
	CHILD_STARTING,  /* spawned, has not answered a query yet: a SIGHUP now could kill it */
	CHILD_RELOADING, /* answers; has not confirmed the newest file yet */
	CHILD_READY,     /* answers, and has the newest file */
	CHILD_BACKOFF,   /* dead; to be started again at the deadline */
	CHILD_DRAINING,  /* told to stop; goes on answering until the deadline */
	CHILD_STOPPING,  /* sent SIGTERM */
	CHILD_STOPPED,   /* the end */
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

/* CHILD_STATE_UNKNOWN for "" and for a name that a newer nanny may have. */
static inline enum child_state
child_state_named(const char *name)
{
	unsigned i = 0;

	while (i < CHILD_STATE_COUNT && strcmp(name, child_state_name((enum child_state)i)) != 0)
		i++;
	return (enum child_state)i;
}

/* Why kubedns is not ready for clients. */
enum readiness_reason {
	READINESS_READY,
	READINESS_DRAINING,          /* it stops soon */
	READINESS_WAITING_FOR_PORT,  /* another kubedns has it (--share-port) */
	READINESS_WAITING_FOR_ZONES, /* those beside the cluster's are not read yet */
	READINESS_NOT_SYNCED,        /* the cluster is not read yet */
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
