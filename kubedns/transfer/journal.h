/*
 * The last changes of our zones, for incremental transfers (RFC 1995): bounded in bytes, the oldest
 * are forgotten first. Its list is under the caller's lock; a change that was taken is const and
 * stays until it is dropped.
 */
#ifndef KUBEDNS_TRANSFER_JOURNAL_H
#define KUBEDNS_TRANSFER_JOURNAL_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "kubedns/answer/zone_diff.h"

/* What a version changed in one zone. */
struct change {
	TAILQ_ENTRY(change) by_age;
	size_t zone;
	uint32_t to; /* the version's serial in this zone */
	atomic_uint uses;
	size_t len[2];   /* of the bytes of what went, and behind them of what came */
	uint8_t bytes[]; /* records without compression */
};

enum { CHANGE_WENT, CHANGE_CAME };

struct journal {
	TAILQ_HEAD(, change) changes; /* oldest first */
	size_t bytes, max;            /* 0: nothing is kept */
	/* Since which serial it is whole: of our zone, the reverse zones, those for outside. */
	uint32_t since[3];
};

/* A journal of at most this many bytes. */
void journal_init(struct journal *journal, size_t max);

/* Forgets everything: what comes later follows on these serials. */
void journal_clear(
    struct journal *journal, uint32_t serial, uint32_t reverse_serial, uint32_t external_serial);

/* Adds what a version changed: `changes` in any order, taken. */
void journal_add(struct journal *journal, const struct answer_config *config,
    struct change **changes, size_t count);

/*
 * The changes of a zone since this serial, oldest first, as a list of `*count` (0: none, NULL) that
 * the caller drops one by one and frees. False: it does not reach back so far.
 */
bool journal_take(const struct journal *journal, const struct answer_config *config, size_t zone,
    uint32_t since, struct change ***changes, size_t *count);

/* Gives a change back. */
void change_drop(struct change *change);

/* Calls `take` for each record that went, or came; false if it said so. */
bool change_records(const struct change *change, unsigned which,
    bool (*take)(void *arg, const struct zone_record *record), void *arg);

/*
 * Works out what a version changes: a list of `*count` changes for journal_add(), to be freed. False
 * if they are more than `max` bytes, or zone_diff() says so.
 */
bool changes_of(const struct answer_config *config, const struct zone_moments *moments, size_t max,
    struct change ***changes, size_t *count);

#endif
