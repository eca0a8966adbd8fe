/*
 * What the files of transfer.h share: transfer.c (versions, which job runs when, and the thread that goes from version
 * to version), transfer_ask.c (questions), transfer_reply.c (replies that are no transfer) and transfer_stream.c (one
 * transfer).
 */
#ifndef KUBEDNS_TRANSFER_TRANSFER_INTERNAL_H
#define KUBEDNS_TRANSFER_TRANSFER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "kubedns/answer/zone_walk.h"
#include "kubedns/transfer/ixfr_query.h"
#include "kubedns/transfer/journal.h"
#include "kubedns/transfer/notify.h"
#include "kubedns/transfer/transfer.h"
#include "kubedns/transfer/tsig_keys.h"
#include "lib/wire.h"
#include "treecache/treecache.h"

enum {
	STREAMS = 4,
	QUEUE_MAX = 64,
	QUEUE_CLIENT_MAX = 16,
	QUEUE_MS = 60000, /* a job that has waited this long is dropped */
	STALL_MS = 10000, /* for one message to be taken */
	TRANSFER_MS = 120000,
	HELD_MAX = 16 * 1024 * 1024,
	QUERY_MAX = 2048, /* a question, an IXFR's SOA, a TSIG */
	AHEAD_S = 60,     /* clocks of replicas differ by less */
	GIVEN_MAX = 256,  /* clients and zones whose last serial is known */
};

enum transfer_refusal {
	REFUSED_ADDRESS, /* not in --transfer-to */
	REFUSED_ZONE,    /* not one of ours */
	REFUSED_QUEUE,   /* too many are waiting */
	REFUSED_MESSAGE, /* not to be understood, or over UDP */
	REFUSED_KEY,     /* no TSIG, or one of a key that is not ours */
	REFUSED_SIGNATURE,
	REFUSED_TIME,
	REFUSED_COUNT
};

/* A snapshot of each tree, of the same moment. */
struct version {
	struct tree_hold *tree;     /* NULL: no version */
	struct tree_hold *external; /* NULL: no zones for outside */
};

/* How a question is answered. */
enum transfer_kind { KIND_AXFR, KIND_IXFR, KIND_CURRENT, KIND_COUNT };

/* The serial of a zone that a client has from us. */
struct given {
	struct addr client; /* AF_UNSPEC: free */
	size_t zone;
	uint32_t serial;
	uint64_t used; /* when: the one that was used longest ago gives way */
};

struct job {
	TAILQ_ENTRY(job) by_age;
	int fd;
	struct addr client;
	struct transfer_end end;
	size_t zone;    /* index, of zone_walk.h */
	uint32_t wants; /* the serial that its SOA query may have been told */
	int64_t queued_ms;
	bool is_signed; /* each message gets a TSIG of the chain */
	struct tsig_chain chain;
	bool incremental; /* IXFR, of a client that has the serial `has` */
	uint32_t has;
	bool running; /* and then: */
	enum transfer_kind kind;
	struct change **changes; /* of an IXFR */
	size_t change_count;
	unsigned version; /* its number, once it runs */
	struct query question;
	size_t query_len;
	uint8_t query[QUERY_MAX];
};

struct transfer {
	const struct transfer_rules *rules;
	const struct answer_config *answers;
	struct tsig_ring *keys;             /* NULL: without --transfer-key */
	struct treecache *cache, *external; /* the latter may be NULL */
	pthread_t threads[STREAMS], changes;
	struct notify *notify; /* the change thread's; NULL: nobody is told */
	struct notify_counts counts;
	int wake_changes; /* eventfd: there is a next version, or the end */
	/* the main thread's: the newest snapshots that it has given to the change thread */
	const struct tree *given, *given_external;
	bool started;
	bool keys_failing;    /* the file as it is now has no keys: the last good ones hold */
	char *keys_why;       /* or NULL: what was said of it */
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t wake;
	struct version version; /* which the change thread alone changes */
	struct journal journal;
	struct given given_to[GIVEN_MAX];
	uint64_t given_count;
	struct version next;    /* from the main thread for the change thread */
	unsigned number;        /* of versions so far */
	TAILQ_HEAD(, job) jobs; /* waiting and running */
	unsigned job_count;
	atomic_bool stop;
	/* Streams of versions before this number are cut: too much is kept for them. */
	atomic_uint cut_before;
	/* counters */
	_Atomic(uint64_t) whole[KIND_COUNT], cut[KIND_COUNT], records, bytes;
	_Atomic(uint64_t) refused[REFUSED_COUNT];
};

struct version version_share(const struct version *version);
void version_drop(const struct version *version);

/* A question, and what is known of its TSIG. */
struct asked {
	const struct transfer_ask *ask;
	bool is_signed; /* its TSIG is good: a reply gets one of the chain */
	struct tsig_chain chain;
	enum tsig_error error; /* of `tsig` */
	struct tsig tsig;
	enum transfer_refusal refusal; /* with an error */
	const char *why;
};

/* Verifies the question's TSIG; false: it is wrong. A question without one is true, and not
 * signed. */
bool asked_verify(struct transfer *transfer, struct asked *asked);

/* Begins a reply: header and question. Ends it, with the OPT and the TSIG that it has to have; returns
 * its length, cut to fit. */
struct writer asked_begin(const struct asked *asked, unsigned flags);
size_t asked_end(struct asked *asked, struct writer *w);

/* A reply that has nothing but this rcode. */
size_t asked_rcode(struct asked *asked, unsigned rcode);

/* The clock of TSIGs: what the machine says, whatever serials come from. */
int64_t tsig_now_s(void);

/* The zone's serial in it. */
static inline uint32_t
version_serial(const struct version *version, const struct answer_config *answers, size_t zone)
{
	return zone_serial(answers, zone, tree_held(version->tree),
	    version->external == NULL ? NULL : tree_held(version->external));
}

/* Whether the version has the zone: those for outside may come after ours. */
static inline bool
version_has_zone(const struct version *version, const struct answer_config *answers, size_t zone)
{
	return zone_is_synced(answers, zone, tree_held(version->tree),
	    version->external == NULL ? NULL : tree_held(version->external));
}

/* Sends the transfer; true if it was whole. In a stream thread, with a share of the version. */
bool transfer_stream(struct transfer *transfer, struct job *job, const struct version *version);

#endif
