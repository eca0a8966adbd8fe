/*
 * NOTIFY (RFC 1996) tells secondaries over UDP that a zone has changed. The message is repeated
 * until they respond.
 *
 *	QUIET --changed--> DUE --sent--> SENT --answer--> QUIET
 *	                    ^             |--no answer in time--> DUE, until sent NOTIFY_TRIES times
 *	                    |             '--then--> given up: QUIET, or DUE
 *	                    '--answer to a NOTIFY with an older serial than the zone has now
 *
 * After an answer or the last try, a serial that was not sent yet is DUE.
 *
 * With keys, a response only counts if it is signed with the same key as the NOTIFY.
 *
 * A NOTIFY contains the zone's newest serial, even if it is sent again. A NOTIFY that is sent again
 * with the same serial has the same ID and signature, so a late answer to any of them counts. Only
 * one thread may use this module.
 */
#ifndef KUBEDNS_MODULES_TRANSFER_NOTIFY_H
#define KUBEDNS_MODULES_TRANSFER_NOTIFY_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/answer/answer.h"
#include "kubedns/modules/transfer/tsig_keys.h"

enum {
	NOTIFY_SERVERS_MAX = 16,
	NOTIFY_TRIES = 6,
	NOTIFY_FIRST_MS = 1000, /* the retry interval; it is doubled after each try */
	NOTIFY_FDS = 2,
};

struct notify;

/* Counters that any thread may read. */
struct notify_counts {
	_Atomic(uint64_t) sent, answered, failed;
};

struct notify_config {
	const struct server *servers; /* at most NOTIFY_SERVERS_MAX */
	size_t count;
	/* One source address for each family. If an address is AF_UNSPEC, the kernel chooses. */
	struct addr sources[NOTIFY_FDS];
	const struct answer_config *answers; /* the configuration, for its list of zones */
	struct notify_counts *counts;
	/* Keys that sign each NOTIFY and must sign each response, or NULL. */
	struct tsig_ring *keys;
};

/* Opens the sockets. The objects to which `config` points must outlive the result. */
struct notify *notify_new(const struct notify_config *config);

/* Reports that the zone with this index has changed, and its new serial. */
void notify_changed(struct notify *notify, size_t zone, uint32_t serial);

/* Fills in the sockets for poll(). */
void notify_fds(const struct notify *notify, struct pollfd fds[NOTIFY_FDS]);

/* Reads responses and sends all notifications that are due. Returns the latest time to call it
 * again, or CLOCK_NEVER. */
int64_t notify_iteration(struct notify *notify, int64_t now_ms);

/* NULL is fine. */
void notify_free(struct notify *notify);

#endif
