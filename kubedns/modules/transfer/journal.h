/*
 * The last changes of our zones, for incremental transfers (RFC 1995). Its size is limited in
 * bytes, and the oldest changes are removed first. The caller's lock protects the list. A change
 * that journal_take() returns is const, and stays valid until it is dropped. This module also
 * parses the query for an incremental transfer.
 */
#ifndef KUBEDNS_MODULES_TRANSFER_JOURNAL_H
#define KUBEDNS_MODULES_TRANSFER_JOURNAL_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "kubedns/answer/zone_diff.h"

/*
 * Returns whether serial `a` is before `b` in serial number arithmetic (RFC 1982). If the two
 * serials are 2^31 apart, each of them is before the other.
 */
static inline bool
serial_before(uint32_t a, uint32_t b)
{
	return a != b && (uint32_t)(b - a) <= UINT32_C(0x80000000);
}

/* The changes of one zone in one version. */
struct change {
	TAILQ_ENTRY(change) by_age;
	size_t zone;
	uint32_t to; /* the serial of the zone in this version */
	atomic_uint uses;
	/* Lengths of the two parts of `bytes`. The first part has the removed records, the
	 * second part the added records. */
	size_t len[2];
	uint8_t bytes[]; /* uncompressed records */
};

enum { CHANGE_WENT, CHANGE_CAME };

struct journal {
	TAILQ_HEAD(, change) changes; /* oldest first */
	size_t bytes, max;            /* if `max` is 0, no changes are stored */
	size_t zone_count;
	uint32_t *since; /* for each zone: the journal is complete from this serial on */
};

/* Initialises a journal of at most this many bytes, for zones with an index below `zone_count`. */
void journal_init(struct journal *journal, size_t max, size_t zone_count);
void journal_free(struct journal *journal);

/* Removes all changes. Call journal_begin() for each zone next. */
void journal_clear(struct journal *journal);

/* Later changes of this zone start from this serial. */
void journal_begin(struct journal *journal, size_t zone, uint32_t serial);

/* Adds the changes of a version, in any order. The journal takes ownership of them. */
void journal_add(struct journal *journal, struct change **changes, size_t count);

/*
 * Sets `*changes` to a list of `*count` changes of a zone since this serial, oldest first. If there
 * are none, the list is NULL. The caller drops each change and frees the list. Returns false if the
 * journal does not reach back that far.
 */
bool journal_take(const struct journal *journal, size_t zone, uint32_t since,
    struct change ***changes, size_t *count);

/* Releases a change. */
void change_drop(struct change *change);

/* Calls `take` for each removed record or each added record. Returns false if `take` returned
 * false. */
bool change_records(const struct change *change, unsigned which,
    bool (*take)(void *arg, const struct zone_record *record), void *arg);

/*
 * Computes the changes of a version, as a list of `*count` changes for journal_add(). The caller
 * frees the list. Returns false if the changes need more than `max` bytes, or if zone_diff()
 * returns false.
 */
bool changes_of(const struct answer_config *config, const struct zone_snapshots *snapshots,
    size_t max, struct change ***changes, size_t *count);

/* Parses the client's serial from the SOA in the authority section of a query. The query's question
 * has `question_len` bytes. Returns 0 or -EBADMSG. */
int ixfr_serial(const uint8_t *query, size_t len, size_t question_len, uint32_t *serial);

#endif
