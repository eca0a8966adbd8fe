/*
 * The ring of one worker: what it answered last, for everyone who observes answers. The worker
 * writes; any number of threads read at any time.
 *
 *	positions: ....     newest  next
 *	ring:      |--older--|xxxxx|--reserved--|--the oldest that can be read ...|
 *
 * Positions only grow; a position modulo the ring's size is the place in the ring. A record is a
 * header, the name of the question, the client's address if it is IPv6, and, if the ring has whole
 * messages (--dnstap), these. Records have no fixed size: a name has up to 255 bytes and a message
 * up to 65,535. No record is split at the ring's end: the memory is longer than `size` by one
 * record. A record holds its own length and the position of its predecessor, so a reader can walk
 * in both directions.
 *
 * The worker never waits. It moves `reserved` before it writes a record, and publishes the records
 * of a batch together. A reader copies a record, then loads `reserved`, and drops the copy if the
 * worker may have overwritten the record by then. All shared words are atomic: stores release,
 * loads acquire. So a reader that has copied a word of a new record also sees the `reserved` that
 * came before it.
 *
 * The sizes: --recorder (2 MB) for all workers, 64 KB or more for each; --dnstap adds 4 MB for all,
 * and a worker then has 256 KB or more. Memory is used as it is written to. A ring also has the
 * positions of the last RING_SAMPLES answers that were chosen at random, 1 KB.
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
	RING_MIN = 64 * 1024,         /* for one worker, in bytes */
	RING_WHOLE = 4 * 1024 * 1024, /* with whole messages, for all workers, on top of it */
	RING_WHOLE_MIN = 256 * 1024,  /* and for one worker */
	RING_SAMPLE = 40,             /* one answer of so many is a sample, on average */
	RING_SAMPLES = 128,           /* positions of samples that a ring keeps */
	RING_BATCH = 64,              /* records added before they are published */
	RING_MESSAGE_MAX = 65535,     /* bytes of one message */
	RING_MESSAGES_MAX = 2 * (65535 + 1), /* bytes of a record's messages, in whole words */
};

/* How an answer was made; the first three are those of enum answer_system. */
enum answer_made {
	MADE_CLUSTER,   /* from the tree */
	MADE_REVERSE,   /* a PTR, or another record of a reverse zone of ours */
	MADE_OUTSIDE,   /* not a name of ours, and no server to forward it to */
	MADE_FORWARDED, /* an upstream server's reply */
	MADE_RELAYED,   /* the reply of the front topology's dnsmasq */
	MADE_CHASED,    /* our CNAME and another server's records */
	MADE_REFUSED,   /* a bound was reached */
	MADE_CACHED, /* another server's reply, or several of a search walk, from --answer-cache */
	MADE_COUNT
};

/* An answer, or with whole messages one message that is part of no local answer. */
enum record_kind {
	RECORD_ANSWER,
	RECORD_CLIENT_QUERY,    /* the answer follows later, or is a zone transfer */
	RECORD_CLIENT_RESPONSE, /* to a request for a zone transfer */
	RECORD_SERVER_QUERY,    /* sent to another server */
	RECORD_SERVER_RESPONSE,
};

/* A record as a reader gets it. */
struct ring_record {
	enum record_kind kind;
	int64_t at_ns; /* monotonic: when the query's batch began, if `batch`; else when the message
			* came or left */
	uint32_t took_ns; /* from the query to its response, 4.29 s at most */
	bool batch;
	uint16_t type, size;
	uint8_t rcode;
	bool tcp, truncated, filtered, outside;
	int below; /* labels of the name before our zone; -1: outside, or refused */
	enum answer_made made;
	struct server peer;              /* the client, or the other server */
	struct dname name;               /* lower case; len 0: the query had no question */
	unsigned messages;               /* how many of whole messages it stands for */
	uint16_t query_len, reply_len;   /* of these in the buffer given to ring_read(): */
	const uint8_t *query, *response; /* NULL: not in this record */
	uint64_t position, next, predecessor;
};

/* Whom to wake when whole messages are published: `asleep` is set before the reader sleeps. */
struct ring_listener {
	atomic_bool asleep;
	int wake; /* eventfd */
};

struct ring_config {
	size_t bytes;
	bool whole;                     /* keep whole messages */
	struct ring_listener *listener; /* with `whole`; NULL: none */
	int wake;      /* eventfd that is written to when half of the samples are new; -1: none */
	uint64_t seed; /* random: chooses the samples */
};

/* What a ring has published since its start. */
struct ring_count {
	uint64_t answers, messages;
};

/* --- the layout, for observe.h --- */

enum {
	RECORD_WORD = sizeof(uint64_t),
	RECORD_INFO = 16, /* bytes of struct answer_info, from `system` on */
	/* Bytes of the info in which the record has something else; see observe.h. */
	RECORD_MADE = 1,
	RECORD_BELOW = 2,
	RECORD_KIND = 3,
	/* And words of 2 bytes. */
	RECORD_SIZE = 4,
	RECORD_QUESTION = 5,
	RECORD_LEN = 7,
	RECORD_TCP = 0x80,
	RECORD_MESSAGES_SHIFT = 4,
};

/* The head of a record. */
struct record_header {
	int64_t at_ns;
	uint64_t peer; /* the first 8 bytes of a sockaddr: family, port, IPv4 address */
	uint32_t took_ns;
	uint32_t predecessor; /* low half of its position; the record's own: there is none */
	union {
		uint8_t bytes[RECORD_INFO];
		uint16_t words[RECORD_INFO / 2];
	} info;
};

enum {
	/* The name is copied in halves of so many bytes: cheaper than word by word. */
	RECORD_AHEAD = 64,
	RECORD_MAX = sizeof(struct record_header) + DNAME_MAX + 1 + sizeof(struct in6_addr),
	RECORD_WHOLE_MAX = RECORD_MAX + RECORD_WORD + RING_MESSAGES_MAX,
};

struct ring {
	uint8_t *at;       /* where the next record goes: before `end` */
	uint64_t position; /* of it */
	const uint8_t *end;
	uint64_t newest_position; /* of the record added last */
	uint32_t left;            /* answers until the next sample */
	unsigned batched;
	struct record_header *batch[RING_BATCH]; /* not published yet */
	uint64_t records;                        /* published */
	struct ring_count counted;               /* with `whole`: answers and messages added */
	uint64_t random, told_position, told_samples;
	bool whole;
	int wake;
	struct ring_listener *listener;
	uint8_t *bytes;
	size_t size;
	/* Other threads read these. */
	_Alignas(64) uint64_t reserved; /* bytes before this position may be overwritten */
	uint64_t begun, ended;          /* `records`, stored before and after what lies between */
	uint64_t newest;                /* the position of the newest record that may be read */
	struct ring_count published;    /* with `whole` */
	uint64_t sampled;               /* samples so far */
	uint64_t samples[RING_SAMPLES];
};

static const uint64_t RING_NONE = UINT64_MAX;

/*
 * For memory that both threads use: a store with release order, a load with acquire order. Both are
 * plain moves on x86.
 */
#define RING_PUT(to, value) __atomic_store_n(&(to), (value), __ATOMIC_RELEASE)
#define RING_GET(from)      __atomic_load_n(&(from), __ATOMIC_ACQUIRE)

/* --- for the thread that makes the workers --- */

/* The bytes for each of `workers`, of a recorder of `recorder` bytes for all of them (0: none). */
size_t ring_bytes(size_t recorder, bool whole, unsigned workers);

struct ring *ring_new(const struct ring_config *config);

/* NULL is fine. */
void ring_free(struct ring *ring);

/* --- for readers --- */

/*
 * Copies the record at `position`; false if it was overwritten. `messages` has RING_MESSAGES_MAX
 * bytes for its whole messages; NULL: these are left out.
 */
bool ring_read(
    const struct ring *ring, uint64_t position, struct ring_record *record, uint64_t *messages);

/* The position of the newest record, RING_NONE if there is none. */
uint64_t ring_newest(const struct ring *ring);

/*
 * Reads all records once, the oldest first. A follower that was too slow for the worker continues
 * with the oldest record that will stay for a while.
 */
struct ring_follower {
	const struct ring *ring;
	uint64_t last;  /* the position of the record that was read last; RING_NONE: none */
	uint64_t next;  /* of the record after it */
	uint64_t until; /* of the last record of this turn */
	struct ring_count seen, skipped;
};

/* Begins after the newest record. */
void ring_follow(struct ring_follower *follower, const struct ring *ring);

/* Begins a turn: the records published so far. Counts the records that were overwritten. */
void ring_follow_turn(struct ring_follower *follower);

/* The next record of the turn; false: there is none left. */
bool ring_follow_next(
    struct ring_follower *follower, struct ring_record *record, uint64_t *messages);

/* Whether a record was published that has not been read. */
bool ring_follow_has_more(const struct ring_follower *follower);

/* Reads the samples once. */
struct ring_sampler {
	const struct ring *ring;
	uint64_t seen; /* samples */
	uint64_t skipped;
};

void ring_sample_follow(struct ring_sampler *sampler, const struct ring *ring);
bool ring_sample_next(struct ring_sampler *sampler, struct ring_record *record);

#endif
