/*
 * NOTIFY (RFC 1996): tells secondaries by UDP that a zone has changed, and again until they say that
 * they have heard it.
 *
 *	QUIET --changed--> DUE --sent--> SENT --answer--> QUIET
 *	                    ^             |--no answer in time--> DUE, until sent NOTIFY_TRIES times
 *	                    |             '--then--> given up: QUIET
 *	                    '--answer, to an older serial than the zone has by now
 *
 * With keys an answer counts if it is signed with the key that the NOTIFY was signed with.
 *
 * A NOTIFY carries the zone's newest serial, also when it is sent again. For one thread.
 */
#ifndef KUBEDNS_TRANSFER_NOTIFY_H
#define KUBEDNS_TRANSFER_NOTIFY_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/answer/answer.h"
#include "kubedns/transfer/tsig_keys.h"

enum {
	NOTIFY_SERVERS_MAX = 16,
	NOTIFY_TRIES = 6,
	NOTIFY_FIRST_MS = 1000, /* then twice as long each time */
	NOTIFY_FDS = 2,
};

struct notify;

/* Counters, for any thread. */
struct notify_counts {
	_Atomic(uint64_t) sent, answered, failed;
};

struct notify_config {
	const struct server *servers; /* NOTIFY_SERVERS_MAX at most */
	size_t count;
	struct addr sources[NOTIFY_FDS];     /* one a family; AF_UNSPEC: as the kernel chooses */
	const struct answer_config *answers; /* for the zones */
	struct notify_counts *counts;
	struct tsig_ring *keys; /* sign what is sent, and its answers have to be signed; or NULL */
};

/* Opens the sockets; what `config` points at is borrowed. */
struct notify *notify_new(const struct notify_config *config);

/* The zone of this index has changed, and has this serial. */
void notify_changed(struct notify *notify, size_t zone, uint32_t serial);

/* The sockets, for poll(). */
void notify_fds(const struct notify *notify, struct pollfd fds[NOTIFY_FDS]);

/* Reads what has come and sends what is due; returns in how many milliseconds to call it again, -1:
 * when something comes or changes. */
int notify_turn(struct notify *notify, int64_t now_ms);

/* NULL is fine. */
void notify_free(struct notify *notify);

#endif
