/*
 * The flight recorder: the last answers of one worker, in a ring of bytes that the worker writes
 * and the main thread may read at any time.
 *
 *	positions: ....  newest  next
 *	ring:      |--older--|xx|--being written--|lost: RECORDER_MARGIN|--the oldest that can be read ...|
 *
 * Positions only grow; a position modulo the ring's size is the place in the ring. A record is a
 * header, the question's name, and the client's address if it is IPv6; no record is split at the
 * ring's end. Each holds its predecessor's position, so a reader walks backwards from the newest
 * one.
 *
 * The worker never waits. It adds the answers of a batch, then publishes the position of the newest
 * in `newest`. Between two such stores it writes RECORDER_MARGIN bytes at most. A reader copies a
 * record, loads `newest` again, and drops the copy if the worker may have overwritten the record by
 * then.
 */
#ifndef KUBEDNS_SERVE_OBSERVE_RECORDER_H
#define KUBEDNS_SERVE_OBSERVE_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "kubedns/answer/answer.h"
#include "lib/addr.h"
#include "lib/dname.h"
#include "lib/rcu.h"

enum {
	RECORDER_MIN = 64 * 1024,           /* a worker's, in bytes */
	RECORDER_DEFAULT = 2 * 1024 * 1024, /* of all workers */
};

/* How an answer was made; the first three are those of enum answer_system. */
enum answer_made {
	MADE_CLUSTER,   /* from the tree */
	MADE_REVERSE,   /* a PTR, or what else there is in a reverse zone of ours */
	MADE_OUTSIDE,   /* no name of ours, and nobody to ask */
	MADE_FORWARDED, /* an upstream server's reply */
	MADE_RELAYED,   /* the reply of the front topology's dnsmasq */
	MADE_CHASED,    /* our CNAME and another server's records */
	MADE_REFUSED,   /* a bound was reached */
	MADE_CACHED, /* another server's reply, or several of a search walk, from --answer-cache */
	MADE_COUNT
};

/* What a reader gets. */
struct answer_record {
	int64_t at_ns; /* monotonic: when the query came, or the batch with it; of another server's
			* reply, when that came */
	uint32_t took_ns;
	uint16_t type, size;
	uint8_t rcode;
	bool tcp, truncated, filtered;
	enum answer_made made;
	struct server client; /* its address and port */
	struct dname name;    /* lower case; len 0: the query had no question */
};

/* --- the worker's side, inline: a call would cost as much again --- */

enum {
	RECORD_WORD = sizeof(uint64_t),
	/* Of the name, in halves: cheaper than word by word. */
	RECORD_AHEAD = 64,
	RECORD_INFO = 16, /* bytes of struct answer_info, from `system` on */
	/* Of them, the words with the query's ID and flags, which are replaced. */
	RECORD_SIZE = 4,
	RECORD_QUESTION = 5,
	RECORD_TCP = 0x80,
};

/*
 * The head of a record; the name in whole words follows, then the address for IPv6. Records of one
 * batch have the same `at_ns`; the last of them has the time that the batch took.
 */
struct record_header {
	int64_t at_ns;
	uint64_t peer;        /* the first 8 bytes of a sockaddr: family, port, IPv4 address */
	uint32_t took_ns;     /* in the last record of a batch; undefined in the others */
	uint32_t predecessor; /* low half of its position; the record's own: there is none */
	/*
	 * Of the answer_info; with an enum answer_made and RECORD_TCP in place of the system, the
	 * reply's size in place of the ID, and the length of the question in place of the flags.
	 */
	union {
		uint8_t bytes[RECORD_INFO];
		uint16_t words[RECORD_INFO / 2];
	} info;
};

enum {
	RECORD_MAX = sizeof(struct record_header) + DNAME_MAX + 1 + sizeof(struct in6_addr),
	RECORD_BATCH = 64, /* records added before they are published */
	RECORDER_MARGIN = (RECORD_BATCH + 1) * RECORD_MAX + RECORD_AHEAD,
};
_Static_assert((int)RECORDER_MIN > 2 * RECORDER_MARGIN, "most of a ring can be read");

struct recorder {
	uint8_t *at;       /* where the next record goes: before `end` */
	uint64_t position; /* of it */
	const uint8_t *end;
	struct record_header *newest_at;
	uint64_t newest_position;
	uint8_t *bytes;
	size_t size;
	_Alignas(64) uint64_t newest; /* the position of the newest record that may be read */
};

/*
 * For memory that both threads use: a store with release order, a load with acquire order. Both are
 * plain moves on x86. Whoever loads a value sees all that was stored before that value, and with it
 * that the record may have been overwritten: recorder_read() and talkers_read() look afterwards.
 */
#define RECORD_PUT(to, value) __atomic_store_n(&(to), (value), __ATOMIC_RELEASE)
#define RECORD_GET(from)      __atomic_load_n(&(from), __ATOMIC_ACQUIRE)

/* A word of memory that has another type too. */
typedef uint64_t __attribute__((may_alias)) record_word;

/* Copies whole words to memory that another thread may be reading, which is aligned to words. */
static inline __attribute__((always_inline)) void
record_copy(void *to, const void *from, size_t len)
{
#pragma GCC unroll 8
	for (size_t i = 0; i < len / RECORD_WORD; i++) {
		record_word word;
		memcpy(&word, (const uint8_t *)from + i * RECORD_WORD, sizeof(word));
		RECORD_PUT(((record_word *)to)[i], word);
	}
}

/* Of `bytes`, at least RECORDER_MIN; memory is taken as it is written to. */
void recorder_init(struct recorder *recorder, size_t bytes);

/*
 * Adds the answer to `client` that `info` describes, in a batch that began at `at_ns`. Readers see
 * it after recorder_publish(), which must come before RECORD_BATCH more.
 */
static inline __attribute__((always_inline)) void
recorder_add(struct recorder *recorder, const struct sockaddr *client,
    const struct answer_info *info, int64_t at_ns)
{
	struct record_header *header = (struct record_header *)(void *)recorder->at;
	uint8_t *name = (uint8_t *)(header + 1);
	/* Without type and class, which are 4 bytes; 0 without a question. */
	size_t name_len =
	    (info->query.question_len + RECORD_WORD - 1u - 4) & ~(size_t)(RECORD_WORD - 1);
	size_t len = sizeof(*header) + name_len;
	RECORD_PUT(header->at_ns, at_ns);
	record_copy(&header->peer, client, sizeof(header->peer));
	RECORD_PUT(header->predecessor, (uint32_t)recorder->newest_position);
	record_copy(&header->info, &info->system, RECORD_INFO);
	RECORD_PUT(header->info.words[RECORD_SIZE], (uint16_t)info->len);
	RECORD_PUT(header->info.words[RECORD_QUESTION], info->query.question_len);
	record_copy(name, info->query.qname, RECORD_AHEAD / 2);
	if (name_len > RECORD_AHEAD / 2)
		record_copy(name + RECORD_AHEAD / 2, info->query.qname + RECORD_AHEAD / 2,
		    RECORD_AHEAD / 2);
	if (name_len > RECORD_AHEAD)
		record_copy(
		    name + RECORD_AHEAD, info->query.qname + RECORD_AHEAD, name_len - RECORD_AHEAD);
	if (client->sa_family == AF_INET6) {
		record_copy(name + name_len,
		    (const uint8_t *)client + offsetof(struct sockaddr_in6, sin6_addr),
		    sizeof(struct in6_addr));
		len += sizeof(struct in6_addr);
	}
	recorder->newest_at = header;
	recorder->newest_position = recorder->position;
	recorder->position += len;
	recorder->at += len;
	if (recorder->at >= recorder->end) {
		recorder->position -= (size_t)(recorder->at - recorder->end);
		recorder->at = recorder->bytes;
	}
}

/* Publishes the records added since the last call, a batch that took so long. */
static inline void
recorder_publish(struct recorder *recorder, uint32_t took_ns)
{
	RECORD_PUT(recorder->newest_at->took_ns, took_ns);
	RECORD_PUT(recorder->newest, recorder->newest_position);
}

/* Sets how the record added last was made, if not by the worker alone over UDP. */
static inline void
recorder_made(struct recorder *recorder, enum answer_made made, bool tcp)
{
	RECORD_PUT(recorder->newest_at->info.bytes[0], (uint8_t)(made | (tcp ? RECORD_TCP : 0)));
}

/* --- for any thread --- */

/* Goes from the newest record backwards. */
struct recorder_reader {
	const struct recorder *recorder;
	uint64_t position; /* of the record to be read; RECORDER_END: none */
	int64_t batch_ns;  /* the batch that the last record belongs to, and its time */
	uint32_t took_ns;
};

static const uint64_t RECORDER_END = UINT64_MAX;

void recorder_reader_init(struct recorder_reader *reader, const struct recorder *recorder);

/* Reads one record; false if there is none left: the others have been overwritten. */
bool recorder_read(struct recorder_reader *reader, struct answer_record *record);

/* Copies `len` bytes, whole words, which another thread may be writing. */
void recorder_copy_out(void *to, const void *from, size_t len);

/* The bytes of the ring. */
size_t recorder_size(const struct recorder *recorder);

/* Frees the ring. */
void recorder_free(struct recorder *recorder);

#endif
