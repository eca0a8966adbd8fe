/*
 * Declarations that the four files of transfer.h share. transfer.c has versions, the choice of the
 * next job, and the thread that makes new versions. transfer_ask.c has queries, and replies other
 * than transfers. transfer_kind.c chooses between AXFR and IXFR. transfer_stream.c has a single
 * transfer.
 */
#ifndef KUBEDNS_MODULES_TRANSFER_TRANSFER_INTERNAL_H
#define KUBEDNS_MODULES_TRANSFER_TRANSFER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "kubedns/answer/zone_walk.h"
#include "kubedns/modules/transfer/journal.h"
#include "kubedns/modules/transfer/notify.h"
#include "kubedns/modules/transfer/transfer.h"
#include "kubedns/modules/transfer/tsig_keys.h"
#include "lib/wire.h"
#include "treecache/treecache.h"

enum {
	STREAMS = 4,
	QUEUE_MAX = 64,
	QUEUE_CLIENT_MAX = 16,
	QUEUE_MS = 60000, /* a job that has waited this long is dropped */
	STALL_MS = 10000, /* time limit for the client to accept one message */
	TRANSFER_MS = 120000,
	HELD_MAX = 16 * 1024 * 1024,
	QUERY_MAX = 2048, /* space for a question, the SOA of an IXFR, and a TSIG */
	AHEAD_S = 60,     /* clocks of replicas differ by less than this */
	GIVEN_MAX = 256,  /* number of pairs of client and zone whose last serial is stored */
};

enum transfer_refusal {
	REFUSED_ADDRESS, /* the address is not in --transfer-to */
	REFUSED_ZONE,    /* the zone is not one of ours */
	REFUSED_QUEUE,   /* too many transfers are waiting */
	REFUSED_MESSAGE, /* the message is invalid, or arrived over UDP */
	REFUSED_KEY,     /* there is no TSIG, or its key is not one of ours */
	REFUSED_SIGNATURE,
	REFUSED_TIME,
	REFUSED_COUNT
};

/* How a query is answered. */
enum transfer_kind { KIND_AXFR, KIND_IXFR, KIND_CURRENT, KIND_COUNT };

/* The last serial of a zone that we transferred to a client. */
struct given {
	struct addr client; /* AF_UNSPEC if the entry is free */
	size_t zone;
	uint32_t serial;
	uint64_t used; /* counter at the last use; the entry with the lowest value is replaced */
};

struct job {
	TAILQ_ENTRY(job) by_age;
	int fd;
	struct addr client;
	struct connection_return end;
	size_t zone; /* index of the zone (zone_walk.h) */
	/* The serial that the client may have seen in the answer to its SOA query. */
	uint32_t wants;
	int64_t queued_ms;
	bool is_signed; /* each message gets a TSIG of the chain */
	struct tsig_chain chain;
	bool incremental; /* IXFR from a client that has the serial `has` */
	uint32_t has;
	bool running; /* the following members are valid if it is running */
	enum transfer_kind kind;
	struct change **changes; /* the changes for an IXFR */
	size_t change_count;
	unsigned version; /* number of the version, if the job is running */
	struct query question;
	size_t query_len;
	uint8_t query[QUERY_MAX];
};

struct transfer {
	const struct transfer_rules *rules;
	const struct answer_config *answers;
	struct tsig_ring *keys; /* NULL without --transfer-key */
	struct treecache *cache;
	pthread_t threads[STREAMS], changes;
	struct notify *notify; /* used by the change thread; NULL if no NOTIFY is sent */
	struct notify_counts counts;
	/* eventfd; means that there is a next version or that the transfer ends */
	int wake_changes;
	/* For the main thread: */
	bool started;
	/* The current file has no valid keys, so the last valid keys are in effect. */
	bool keys_failing;
	char *keys_why;       /* the last error that was logged about the file, or NULL */
	pthread_mutex_t lock; /* protects the following members */
	pthread_cond_t wake;
	struct zone_hold version; /* changed only by the change thread */
	struct journal journal;
	struct given given_to[GIVEN_MAX];
	uint64_t given_count;
	struct zone_hold next;  /* from the main thread to the change thread */
	unsigned number;        /* number of versions so far */
	TAILQ_HEAD(, job) jobs; /* waiting and running jobs */
	unsigned job_count;
	atomic_bool stop;
	/* Streams of versions before this number are aborted, because their versions keep too
	 * much memory. */
	atomic_uint cut_before;
	/* counters */
	_Atomic(uint64_t) whole[KIND_COUNT], cut[KIND_COUNT], records, bytes;
	_Atomic(uint64_t) refused[REFUSED_COUNT];
};

/* --- transfer_kind.c --- */

/* Sets the job's `kind`: how to answer it from a version with this serial. With KIND_IXFR, also
 * sets `changes`. Caller holds the lock. */
void transfer_choose_kind(struct transfer *transfer, struct job *job, uint32_t serial);

/* Notes that the job's client has got its zone up to this serial. Only such a client can get
 * changes later. Caller holds the lock. */
void transfer_note_given(struct transfer *transfer, const struct job *job, uint32_t serial);

/* A query, and the state of its TSIG. */
struct asked {
	const struct module_message *ask;
	bool is_signed; /* the query's TSIG is valid, so the reply gets a TSIG of the chain */
	struct tsig_chain chain;
	enum tsig_error error; /* the error in `tsig` */
	struct tsig tsig;
	enum transfer_refusal refusal; /* set if there is an error */
	const char *why;
};

/* Verifies the query's TSIG. Returns false if the TSIG is invalid. If the query has no TSIG,
 * returns true and leaves `is_signed` false. */
bool asked_verify(struct transfer *transfer, struct asked *asked);

/* asked_begin() starts a reply with header and question. asked_end() adds the OPT and the TSIG
 * that the reply needs, and returns its length. If the reply does not fit, it is truncated. */
struct writer asked_begin(const struct asked *asked, unsigned flags);
size_t asked_end(struct asked *asked, struct writer *w);

/* Writes a reply that has only this rcode, and returns its length. */
size_t asked_rcode(struct asked *asked, unsigned rcode);

/* Returns the time for TSIG. This time is from the system's clock, even if serials use another
 * clock. */
int64_t tsig_now_s(void);

/* Returns the zone's serial in this version. */
static inline uint32_t
version_serial(const struct zone_hold *version, const struct answer_config *answers, size_t zone)
{
	const struct zone_trees trees = zone_hold_trees(version);

	return zone_serial(answers, zone_at(answers, zone), &trees);
}

/* Returns whether the version has the zone. Some zones may be synced later than the cluster's zone. */
static inline bool
version_has_zone(const struct zone_hold *version, const struct answer_config *answers, size_t zone)
{
	const struct zone_trees trees = zone_hold_trees(version);

	return zone_is_synced(answers, zone_at(answers, zone), &trees);
}

/* Sends the transfer. Returns true if it was complete. Runs in a stream thread, which has a
 * reference to the version. */
bool transfer_stream(struct transfer *transfer, struct job *job, const struct zone_hold *version);

#endif
