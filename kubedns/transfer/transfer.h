/*
 * Zone transfer (RFC 5936, RFC 1995) to other name servers: --transfer-to.
 *
 *	main thread   --once a second: the last snapshot of a second--> next
 *	change thread --what changed since the version--> journal, NOTIFY; next becomes the version
 *	worker        --a question for AXFR or IXFR, and its connection--> queue
 *	stream thread --a job of the queue, the version--> messages on the connection, then back
 *
 * A serial is the Unix second of the last change, so a snapshot may be given away under its serial
 * only after that second is over: a version is the last snapshot of a second, and whoever asks
 * before waits for it, a second at most. Each replica numbers a change by the second in which it saw
 * the change, so one serial of two replicas may name two contents.
 *
 * A client that asks for an incremental transfer (RFC 1995) gets one if the journal reaches back to
 * its serial and it has that serial from us: another replica may have given another content under
 * it. Else it gets the zone whole; or our SOA alone, if its serial is ours or later. Clients are told apart by address alone: one secondary an
 * address, or --transfer-journal=off.
 *
 * A zone for outside has no version until its tree is synced, which may be later than ours: until
 * then it is SERVFAIL, and nobody is told of it.
 *
 * A stream holds its version (treecache_hold): the writer is not held back, and what is replaced
 * meanwhile is kept. A client that does not read loses its transfer after STALL_MS, each transfer
 * ends after TRANSFER_MS, and older versions lose theirs when more than HELD_MAX is kept for them.
 *
 * With keys (--transfer-key) AXFR and IXFR that are not signed with one are refused, and each message of
 * a transfer is signed (tsig.h). A TSIG is verified before the client's address is checked: a refusal of
 * that address is then signed, and the client believes it.
 *
 * One transfer runs at a time for a client address, STREAMS in all, each at half a CPU at most. The
 * queue holds those that run and those that wait: QUEUE_MAX in all, QUEUE_CLIENT_MAX for an address,
 * and none waits for longer than QUEUE_MS.
 */
#ifndef KUBEDNS_TRANSFER_TRANSFER_H
#define KUBEDNS_TRANSFER_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/answer/answer.h"
#include "kubedns/transfer/tsig_keys.h"
#include "lib/addr.h"

struct metrics;
struct treecache;
struct transfer;

enum { TRANSFER_PREFIXES_MAX = 64, TRANSFER_NOTIFY_MAX = 16 };

/* Who may have our zones; from the options, constant. */
struct transfer_rules {
	struct {
		struct addr addr;
		unsigned bits;
	} to[TRANSFER_PREFIXES_MAX];
	size_t to_count;      /* 0: nobody */
	size_t journal_bytes; /* 0: no incremental transfers */
	struct server notify[TRANSFER_NOTIFY_MAX];
	size_t notify_count;
	const char *key_file;   /* NULL: transfers are not signed */
	struct tsig_keys keys;  /* as the file has them at the start */
	struct addr sources[2]; /* where NOTIFY comes from, one a family; AF_UNSPEC: anywhere */
};

/* `external`: the zones for the world outside, or NULL. All is borrowed and outlives it. */
struct transfer *transfer_new(const struct transfer_rules *rules,
    const struct answer_config *answers, struct treecache *cache, struct treecache *external);

/* Starts the threads, once. */
void transfer_start(struct transfer *transfer);

/* --- for the main thread --- */

/* Makes a version of the published snapshot if its second is over; before each publish. `now_s` is
 * the clock that serials come from. */
void transfer_turn(struct transfer *transfer, uint32_t now_s);

/* Whether a snapshot waits for its second to be over. */
bool transfer_waits(const struct transfer *transfer);

/* Reads the file of keys again: good ones take effect; a file with a mistake is logged, and changes
 * nothing. */
void transfer_read_keys(struct transfer *transfer);

void transfer_metrics(struct transfer *transfer, struct metrics *m);

/* Ends the transfers and joins the threads; workers may still ask, and are refused. */
void transfer_stop(struct transfer *transfer);

/* After the workers have ended; NULL is fine. */
void transfer_free(struct transfer *transfer);

/* --- for the workers --- */

/* Whom to tell that a stream has ended, from another thread. `whole`: the client has been sent
 * everything, and the connection can go on; else it is of no more use. */
struct transfer_end {
	void (*ended)(void *arg, uint32_t slot, uint32_t generation, bool whole);
	void *arg;
	uint32_t slot, generation;
};

/* A message for which answer() returned ANSWER_TRANSFER. */
struct transfer_ask {
	const struct answer_config *answers; /* of the address that was asked */
	const struct sockaddr *peer;
	const struct query *question;
	const uint8_t *query; /* as it came */
	size_t query_len;
	const struct tree *tree; /* the published one; in a read section */
	uint8_t *out;            /* room for `max` bytes, 512 at least */
	size_t max;
	int fd;                  /* the connection, nothing unsent before it; -1: UDP */
	struct transfer_end end; /* of the stream */
};

/*
 * The length of the reply in `out`, which is REFUSED if `transfer` is NULL; or 0: a stream thread sends
 * messages on the connection, on which the caller sends and reads nothing until end.ended() is called.
 */
size_t transfer_answer(struct transfer *transfer, const struct transfer_ask *ask);

#endif
