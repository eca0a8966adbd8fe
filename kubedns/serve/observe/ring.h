/*
 * The ring buffer of one worker with its last answers, for all observers. The worker writes it. Any
 * number of threads may read it at any time.
 *
 *	positions:             ....     newest  next
 *	ring:      |--older--|xxxxx|--reserved--|--the oldest that can be read ...|
 *
 * Positions only increase. A position modulo the ring's size is an offset in the ring. A record is
 * a header, the name in the question, and the client's address if that is IPv6. In a ring for whole
 * messages, the messages follow instead of the name, because they contain the name.
 * Records have no fixed size. A name has up to 255 bytes, and a message up to 65,535. No record is
 * split at the ring's end, because the memory is longer than `size` by one record. A record
 * contains its own length and the position of its predecessor. A reader can therefore walk in both
 * directions.
 *
 * The worker never waits. The worker increases `reserved` before it writes a record, and publishes
 * the records of a batch together. A reader copies a record, then loads `reserved`, and discards
 * the copy if the worker may have overwritten the record meanwhile. All shared words are atomic.
 * Stores have release order, and loads have acquire order. If a reader has copied a word of a new
 * record, it therefore also sees the value of `reserved` that was stored before that word.
 *
 * The size in --recorder (2 MB) is for all workers together. Each worker has at least 64 KB.
 * Whole messages, which a module may need, add 4 MB for all workers, and each worker then has at
 * least 512 KB. Pages of
 * memory are allocated when they are first written. A ring also has the positions of the last
 * RING_SAMPLES randomly chosen answers, which take 1 KB.
 */
#ifndef KUBEDNS_SERVE_OBSERVE_RING_H
#define KUBEDNS_SERVE_OBSERVE_RING_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/dname.h"

enum {
	RING_MIN = 64 * 1024,         /* bytes for one worker */
	RING_WHOLE = 4 * 1024 * 1024, /* additional bytes for whole messages, for all workers */
	RING_WHOLE_MIN = 512 * 1024,  /* bytes for one worker with whole messages */
	RING_SAMPLE = 40,             /* on average, one of this many answers is a sample */
	RING_SAMPLES = 128,           /* positions of samples that a ring stores */
	RING_BATCH = 64, /* maximum number of records that are added before they are published */
	RING_MESSAGE_MAX = 65535,            /* bytes of one message */
	RING_MESSAGES_MAX = 2 * (65535 + 1), /* bytes of a record's messages, in whole words */
};

/* How an answer was made. The first three values equal the values of enum answer_system. */
enum answer_made {
	MADE_CLUSTER,   /* the answer is from the tree */
	MADE_REVERSE,   /* a PTR or other record of one of our reverse zones */
	MADE_OUTSIDE,   /* the name is not ours, and there is no server to forward it to */
	MADE_FORWARDED, /* an upstream server's reply */
	MADE_RELAYED,   /* the reply of dnsmasq in the front topology */
	MADE_CHASED,    /* our CNAME and another server's records */
	MADE_REFUSED,   /* a limit was reached */
	MADE_CACHED,    /* one or more cached replies of other servers, from --answer-cache */
	MADE_COUNT
};

/* Kind of a record. A record is an answer. With whole messages, it can also be a message that is
 * not part of a local answer. */
enum record_kind {
	RECORD_ANSWER,
	RECORD_CLIENT_QUERY,    /* the answer follows later, or is a zone transfer */
	RECORD_CLIENT_RESPONSE, /* response to a request for a zone transfer */
	RECORD_SERVER_QUERY,    /* a query that was sent to another server */
	RECORD_SERVER_RESPONSE,
};

/* A record as a reader gets it. */
struct ring_record {
	enum record_kind kind;
	/* Monotonic time. If `batch` is true, it is the time when the query's batch started.
	 * Otherwise it is the time when the message arrived or was sent. */
	int64_t at_ns;
	uint32_t took_ns; /* from the query to its response, at most 4.29 s */
	bool batch;
	uint16_t type, size;
	uint8_t rcode;
	bool tcp, truncated, filtered, outside;
	int below; /* labels of the name before our zone's name; -1 if outside or refused */
	enum answer_made made;
	struct server peer; /* the client, or the other server */
	/* lower case; empty if the query had no question (see also ring_read()) */
	struct dname name;
	unsigned messages; /* number of whole messages that the record stands for */
	/* Lengths of the messages in the buffer given to ring_read(). */
	uint16_t query_len, reply_len;
	const uint8_t *query, *response; /* NULL if not in this record */
	uint64_t position, next, predecessor;
};

/* The reader to wake when whole messages are published. The reader sets `asleep` before it
 * sleeps. */
struct ring_listener {
	atomic_bool asleep;
	int wake; /* eventfd */
};

struct ring_config {
	size_t bytes;
	bool whole;                     /* record whole messages */
	struct ring_listener *listener; /* only with `whole`; may be NULL */
	int wake;      /* eventfd to write to when half of the samples are new, or -1 */
	uint64_t seed; /* random seed for the choice of samples */
};

/* Numbers that a ring has published since its start. */
struct ring_count {
	uint64_t answers, messages;
};

/* --- the memory layout, for observe.h --- */

enum {
	RECORD_WORD = sizeof(uint64_t),
	RECORD_TCP = 0x80,
	RECORD_MESSAGES_SHIFT = 4,
};

/* What a record says about its answer. `made` is an enum answer_made plus 1, or 0 for an answer of a
 * batch, and RECORD_TCP. `kind` is an enum record_kind and, above RECORD_MESSAGES_SHIFT, the number of
 * messages. `len` is the length of the record in words. The other members are those of struct
 * answer_info. */
struct record_info {
	uint8_t system, made, below, kind, rcode;
	bool truncated, filtered;
	uint16_t size, question_len, qtype, len;
};

/* The header of a record. */
struct record_header {
	int64_t at_ns;
	uint64_t peer; /* the first 8 bytes of a sockaddr: family, port, IPv4 address */
	uint32_t took_ns;
	/* Lower half of the predecessor's position. If this half equals the record's own
	 * position, there is no predecessor. */
	uint32_t predecessor;
	struct record_info info;
};

enum {
	/* The name is copied in halves of this many bytes, which is faster than a copy word by
	 * word. */
	RECORD_AHEAD = 64,
	RECORD_MAX = sizeof(struct record_header) + DNAME_MAX + 1 + sizeof(struct in6_addr),
	RECORD_WHOLE_MAX = RECORD_MAX + RECORD_WORD + RING_MESSAGES_MAX,
};

struct ring {
	uint8_t *at;       /* where the next record is written, before `end` */
	uint64_t position; /* position of the next record */
	const uint8_t *end;
	uint64_t newest_position; /* position of the last record */
	uint32_t left;            /* number of answers until the next sample */
	unsigned batched;
	struct record_header *batch[RING_BATCH]; /* records that are not published yet */
	uint64_t records;                        /* number of published records */
	/* With `whole`: numbers of answers and messages added. */
	struct ring_count counted;
	uint64_t random, told_position, told_samples;
	bool whole;
	int wake;
	struct ring_listener *listener;
	uint8_t *bytes;
	size_t size;
	/* Other threads read the following members. */
	_Alignas(64) uint64_t reserved; /* bytes before this position may be overwritten */
	/* Both get the value of `records`: `begun` before the following members are updated,
	 * `ended` after that. */
	uint64_t begun, ended;
	uint64_t newest;             /* position of the newest record that may be read */
	struct ring_count published; /* with `whole` */
	uint64_t sampled;            /* number of samples since the start */
	uint64_t samples[RING_SAMPLES];
};

static const uint64_t RING_NONE = UINT64_MAX;

/*
 * A store with release order and a load with acquire order, for memory that several threads use. On
 * x86, both operations are plain moves.
 */
#define RING_PUT(to, value) __atomic_store_n(&(to), (value), __ATOMIC_RELEASE)
#define RING_GET(from)      __atomic_load_n(&(from), __ATOMIC_ACQUIRE)

/* --- for the thread that creates the workers --- */

/* Returns the size of the ring of each worker. `recorder` is the size for all `workers`
 * together, or 0. */
size_t ring_bytes(size_t recorder, bool whole, unsigned workers);

struct ring *ring_new(const struct ring_config *config);

/* NULL is fine. */
void ring_free(struct ring *ring);

/* --- for readers --- */

/*
 * Copies the record at `position`. Returns false if the record was overwritten. `messages` is a
 * buffer of RING_MESSAGES_MAX bytes for its whole messages. If `messages` is NULL, the messages are
 * not copied. If whole messages are copied, the record's name is empty, because the messages have
 * the name.
 */
bool ring_read(
    const struct ring *ring, uint64_t position, struct ring_record *record, uint64_t *messages);

/* Returns the position of the newest record, or RING_NONE if there is none. */
uint64_t ring_newest(const struct ring *ring);

/*
 * State of a reader that reads every record once, oldest first. If the reader is too slow for the
 * worker, it skips to the oldest record that will not be overwritten soon.
 */
struct ring_follower {
	const struct ring *ring;
	uint64_t last;  /* position of the record that was read last, or RING_NONE */
	uint64_t next;  /* position of the record after `last` */
	uint64_t until; /* position of the last record of this iteration */
	struct ring_count seen, skipped;
};

/* Starts reading after the newest record. */
void ring_follow(struct ring_follower *follower, const struct ring *ring);

/* Starts an iteration over the records published so far. Counts the records that were
 * overwritten. */
void ring_follow_iteration(struct ring_follower *follower);

/* Reads the next record of the iteration. Returns false if no record is left. */
bool ring_follow_next(
    struct ring_follower *follower, struct ring_record *record, uint64_t *messages);

/* Returns whether there are published records that have not been read. */
bool ring_follow_has_more(const struct ring_follower *follower);

/* State of a reader that reads every sample once. */
struct ring_sampler {
	const struct ring *ring;
	uint64_t seen; /* number of samples that were read or skipped */
	uint64_t skipped;
};

void ring_sample_follow(struct ring_sampler *sampler, const struct ring *ring);
bool ring_sample_next(struct ring_sampler *sampler, struct ring_record *record);

#endif
