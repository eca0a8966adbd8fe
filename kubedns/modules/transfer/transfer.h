/*
 * Zone transfer (RFC 5936, RFC 1995) to other name servers: --transfer-to.
 *
 *	main thread   --once a second: the last snapshot of a second--> next
 *	change thread --changes since the version--> journal, NOTIFY; next becomes the version
 *	worker        --AXFR or IXFR query, and its connection (answer/message.h)--> queue
 *	stream thread --a job of the queue, the version--> messages on the connection, then back
 *
 * A serial is the Unix time in seconds of the last change. A snapshot may therefore only be
 * transferred under its serial when that second is over. A version is the last snapshot of a
 * second. A client that requests a transfer earlier waits for the version, for at most a second.
 * Each replica numbers a change by the second in which it saw the change, so the same serial may
 * mean different contents on two replicas.
 *
 * A client that requests an incremental transfer (RFC 1995) gets it on two conditions. The journal
 * must reach back to the client's serial, and the client must have got that serial from us. Another
 * replica may have sent different content under the same serial. Otherwise the client gets the
 * whole zone. If the client's serial is ours or later, it only gets our SOA. Clients are identified
 * by address only. Use one secondary for each address, or --transfer-journal=off.
 *
 * A zone has no version until it is synced. External zones may be synced later than the cluster's
 * zone. Until then, a transfer of such a zone is answered SERVFAIL, and no NOTIFY is sent.
 *
 * A stream holds its version (treecache_hold). The tree's writer continues meanwhile, and replaced
 * blocks stay in memory. If a client does not read for STALL_MS, its transfer is aborted. Each
 * transfer ends after TRANSFER_MS at the latest. Transfers of older versions are aborted when more
 * than HELD_MAX bytes are kept for them.
 *
 * With keys (--transfer-key), unsigned AXFR and IXFR queries are refused, and each message of a
 * transfer is signed (tsig.h). A TSIG is verified before the client's address is checked. Therefore
 * a client gets a signed reply even if its address is refused, and can trust that reply.
 *
 * For a client address, one transfer runs at a time. In total, STREAMS transfers run at a time.
 * Each transfer uses at most half a CPU. The queue has the running and the waiting transfers. The
 * queue has at most QUEUE_MAX transfers, and at most QUEUE_CLIENT_MAX for one address. A transfer
 * waits for at most QUEUE_MS.
 */
#ifndef KUBEDNS_MODULES_TRANSFER_TRANSFER_H
#define KUBEDNS_MODULES_TRANSFER_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/answer/message.h"
#include "kubedns/modules/transfer/tsig_keys.h"
#include "lib/addr.h"

struct metrics;
struct module_core;
struct transfer;

enum { TRANSFER_PREFIXES_MAX = 64, TRANSFER_NOTIFY_MAX = 16 };

/* Which clients may transfer our zones. The options set these rules, which do not change
 * afterwards. */
struct transfer_rules {
	struct {
		struct addr addr;
		unsigned bits;
	} to[TRANSFER_PREFIXES_MAX];
	size_t to_count;      /* 0 if there are no transfers */
	size_t journal_bytes; /* 0 if there are no incremental transfers */
	struct server notify[TRANSFER_NOTIFY_MAX];
	size_t notify_count;
	const char *key_file;  /* NULL if transfers are unsigned */
	struct tsig_keys keys; /* the keys that the file had at startup */
};

/* Creates the object. All arguments must outlive the result. */
struct transfer *transfer_new(const struct transfer_rules *rules, const struct module_core *core);

/* Returns the file of --transfer-key, or NULL. */
const char *transfer_key_file(const struct transfer *transfer);

/* Starts the threads. Call it once. */
void transfer_start(struct transfer *transfer);

/* --- for the main thread --- */

/* Makes a version from the published snapshot, which is complete. */
void transfer_snapshot(struct transfer *transfer);

/* Reads the key file again. Valid keys take effect. If the file has a mistake, the mistake is
 * logged and the old keys stay in effect. */
void transfer_read_keys(struct transfer *transfer);

void transfer_metrics(struct transfer *transfer, struct metrics *m);

/* Ends all transfers and joins the threads. Workers may still pass queries, and all these
 * queries are refused. */
void transfer_stop(struct transfer *transfer);

/* Frees the object. Call it after the workers have ended. NULL is fine. */
void transfer_free(struct transfer *transfer);

/* --- for the workers --- */

/* Whether the query is for a zone transfer. With keys, this includes an SOA query with a TSIG for one of our
 * zones, because its reply is signed. */
bool transfer_takes(const struct transfer *transfer, const struct answer_config *answers,
    const struct query *query, bool has_tsig);

/* Answers the query, or makes a job for a stream thread (answer/message.h). */
size_t transfer_answer(struct transfer *transfer, const struct module_message *message);

#endif
