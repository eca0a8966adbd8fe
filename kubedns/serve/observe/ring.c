#include "kubedns/serve/observe/ring.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kubedns/serve/observe/observe.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

_Static_assert(sizeof(struct record_header) % RECORD_WORD == 0, "readers copy whole words");
_Static_assert(RECORD_WHOLE_MAX / RECORD_WORD <= UINT16_MAX, "record_info.len counts words");

enum { SKIP_MAX = 16384 }; /* records */

/* The word before the messages of a record. */
union message_lens {
	uint64_t word;
	struct {
		uint16_t query, reply;
	} of;
};

static size_t
padded(size_t len)
{
	return (len + RECORD_WORD - 1) & ~(size_t)(RECORD_WORD - 1);
}

size_t
ring_bytes(size_t recorder, bool whole, unsigned workers)
{
	size_t bytes = (recorder + (whole ? (size_t)RING_WHOLE : 0)) / workers;
	size_t least = whole ? RING_WHOLE_MIN : RING_MIN;

	if (recorder == 0 && !whole)
		return 0;
	return bytes > least ? bytes : least;
}

/* Chooses a random number of answers until the next sample. */
static void
choose_next(struct ring *ring)
{
	/* xorshift64* (Vigna 2014) */
	ring->random ^= ring->random >> 12;
	ring->random ^= ring->random << 25;
	ring->random ^= ring->random >> 27;
	uint64_t random = ring->random * UINT64_C(2685821657736338717);
	ring->left = 1 + (uint32_t)((random >> 32) * (2 * RING_SAMPLE - 1) >> 32);
}

struct ring *
ring_new(const struct ring_config *config)
{
	struct ring *ring = NULL;
	size_t slack = (config->whole ? RECORD_WHOLE_MAX : RECORD_MAX) + RECORD_AHEAD;

	if (posix_memalign((void **)&ring, _Alignof(struct ring), sizeof *ring) != 0)
		log_fatalx("out of memory");
	memset(ring, 0, sizeof *ring);
	ring->size = config->bytes / RECORD_WORD * RECORD_WORD;
	ring->bytes = xmalloc(ring->size + slack);
	ring->at = ring->bytes;
	ring->end = ring->bytes + ring->size;
	ring->newest = RING_NONE;
	ring->whole = config->whole;
	ring->listener = config->listener;
	ring->wake = config->wake;
	ring->random = config->seed | 1;
	choose_next(ring);
	return ring;
}

void
ring_free(struct ring *ring)
{
	if (ring == NULL)
		return;
	free(ring->bytes);
	free(ring);
}

/* --- the worker's side --- */

/* Copies any number of bytes. Reads no byte beyond `len`, but writes whole words. */
static void
copy_bytes(uint8_t *to, const uint8_t *from, size_t len)
{
	size_t whole = len / RECORD_WORD * RECORD_WORD;
	record_word last = 0;

	record_copy(to, from, whole);
	if (whole == len)
		return;
	memcpy(&last, from + whole, len - whole);
	RING_PUT(*(record_word *)(void *)(to + whole), last);
}

/* Writes the messages at offset `len` from `header`. Returns the new length. */
static size_t
put_messages(struct ring *ring, struct record_header *header, size_t len, const uint8_t *query,
    size_t query_len, const uint8_t *reply, size_t reply_len)
{
	union message_lens lens = { .of = { (uint16_t)query_len, (uint16_t)reply_len } };
	uint8_t *to = (uint8_t *)header + len;
	size_t all = len + RECORD_WORD + padded(query_len) + padded(reply_len);

	RING_PUT(ring->reserved, ring->position + all + RECORD_AHEAD);
	RING_PUT(*(record_word *)(void *)to, lens.word);
	copy_bytes(to + RECORD_WORD, query, query_len);
	copy_bytes(to + RECORD_WORD + padded(query_len), reply, reply_len);
	return all;
}

/* Appends the messages of an answer to the record at `header`, after its `len` bytes. Returns the
 * new length. */
static size_t
add_messages(
    struct ring *ring, struct record_header *header, size_t len, const struct observed *seen)
{
	size_t query_len = seen->query != NULL ? seen->query_len : 0;
	unsigned messages = observed_messages(seen);

	assert(query_len <= RING_MESSAGE_MAX && seen->info->len <= RING_MESSAGE_MAX);
	RING_PUT(header->info.kind, (uint8_t)(RECORD_ANSWER | messages << RECORD_MESSAGES_SHIFT));
	ring->counted.answers++;
	ring->counted.messages += messages;
	return put_messages(
	    ring, header, len, seen->query, query_len, seen->reply, seen->info->len);
}

/* Notifies the thread that reads the samples. Notifications are rare, because each takes a system call. */
static void
tell(struct ring *ring, uint64_t sampled)
{
	uint64_t one = 1;

	if (ring->wake < 0 || (sampled - ring->told_samples < RING_SAMPLES / 2 &&
				  ring->position - ring->told_position < ring->size / 2))
		return;
	ring->told_samples = sampled;
	ring->told_position = ring->position;
	if (write(ring->wake, &one, sizeof one) != sizeof one)
		log_neterr("eventfd");
}

void
ring_sample(struct ring *ring)
{
	uint64_t sampled = ring->sampled;

	choose_next(ring);
	RING_PUT(ring->samples[sampled % RING_SAMPLES], ring->newest_position);
	RING_PUT(ring->sampled, sampled + 1);
	tell(ring, sampled + 1);
}

void
ring_add_whole(struct ring *ring, const struct observed *seen, uint8_t made)
{
	struct record_header *header = ring_begin(ring, seen, made);
	uint8_t *name = (uint8_t *)(header + 1);
	size_t len = 0;

	if (observed_messages(seen) == 0) { /* otherwise a message in the record has the name */
		len = record_name_len(seen->info);
		record_name(name, seen->info->query.qname, len);
	}
	len += record_address(name + len, seen->client);
	len = add_messages(ring, header, sizeof *header + len, seen);
	ring_added(ring, header, len);
	if (--ring->left == 0)
		ring_sample(ring);
}

void
ring_wake_listener(struct ring *ring)
{
	struct ring_listener *listener = ring->listener;
	uint64_t one = 1;

	if (listener == NULL)
		return;
	/* With this fence, either this thread sees that the reader sleeps, or the reader sees the record before it sleeps. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&listener->asleep, memory_order_relaxed) &&
	    atomic_exchange(&listener->asleep, false) &&
	    write(listener->wake, &one, sizeof one) != sizeof one)
		log_neterr("ring: eventfd");
}

void
observe_alone(struct ring *ring, const struct observed *seen, enum answer_made made, bool tcp,
    int64_t took_ns)
{
	if (ring == NULL)
		return;
	ring_add(ring, seen, (uint8_t)((made + 1u) | (tcp ? RECORD_TCP : 0u)));
	ring_publish(ring, took_ns);
}

void
observe_message(struct ring *ring, enum record_kind kind, bool tcp, const struct sockaddr *peer,
    const uint8_t *message, size_t len, int64_t at_ns, int64_t took_ns)
{
	struct record_header *header;
	bool query = kind == RECORD_CLIENT_QUERY || kind == RECORD_SERVER_QUERY;
	size_t at = sizeof *header;

	if (!observe_wants_messages(ring))
		return;
	assert(len <= RING_MESSAGE_MAX);
	header = (struct record_header *)(void *)ring->at;
	RING_PUT(ring->reserved, ring->position + RECORD_MAX);
	RING_PUT(header->at_ns, at_ns);
	record_copy(&header->peer, peer, sizeof header->peer);
	RING_PUT(header->predecessor, (uint32_t)ring->newest_position);
	const struct record_info info = { .made = tcp ? RECORD_TCP : 0,
		.kind = (uint8_t)(kind | 1u << RECORD_MESSAGES_SHIFT) };
	record_copy(&header->info, &info, sizeof info);
	at += record_address((uint8_t *)header + at, peer);
	ring->counted.messages++;
	ring_added(ring, header,
	    put_messages(ring, header, at, message, query ? len : 0, message, query ? 0 : len));
	ring_publish(ring, took_ns);
}

int64_t
observe_server_query(
    struct ring *ring, bool tcp, const struct server *server, const uint8_t *message, size_t len)
{
	struct sockaddr_storage ss;

	if (!observe_wants_messages(ring))
		return 0;
	int64_t now_ns = clock_mono_ns();
	server_sockaddr(server, &ss);
	observe_message(
	    ring, RECORD_SERVER_QUERY, tcp, (struct sockaddr *)&ss, message, len, now_ns, 0);
	return now_ns;
}

void
observe_server_response(struct ring *ring, bool tcp, const struct server *server,
    const uint8_t *message, size_t len, int64_t sent_ns)
{
	struct sockaddr_storage ss;

	if (!observe_wants_messages(ring))
		return;
	int64_t now_ns = clock_mono_ns();
	server_sockaddr(server, &ss);
	observe_message(ring, RECORD_SERVER_RESPONSE, tcp, (struct sockaddr *)&ss, message, len,
	    now_ns, now_ns - sent_ns);
}

/* --- reading records --- */

static void
copy_out(void *to, const void *from, size_t len)
{
	for (size_t i = 0; i < len / RECORD_WORD; i++)
		((record_word *)to)[i] = RING_GET(((const record_word *)from)[i]);
}

/* Returns whether the record at `position` is intact. A record is intact until the worker reserves its space. */
static bool
is_intact(const struct ring *ring, uint64_t position)
{
	return position + ring->size >= RING_GET(ring->reserved);
}

/* Reads the header of a record, and the positions of its neighbours. Returns false if the record was overwritten. */
static bool
read_header(const struct ring *ring, uint64_t position, struct record_header *header,
    struct record_info *info, struct ring_record *record)
{
	size_t offset = (size_t)(position % ring->size);

	copy_out(header, ring->bytes + offset, sizeof *header);
	if (!is_intact(ring, position))
		return false;
	memcpy(info, &header->info, sizeof *info);
	size_t len = (size_t)info->len * RECORD_WORD;
	record->position = position;
	record->next = offset + len < ring->size ? position + len : position - offset + ring->size;
	record->predecessor = (position & ~(uint64_t)UINT32_MAX) | header->predecessor;
	if (header->predecessor == (uint32_t)position)
		record->predecessor = RING_NONE;
	else if (record->predecessor > position)
		record->predecessor -= UINT64_C(1) << 32;
	record->kind = (enum record_kind)(info->kind & ((1u << RECORD_MESSAGES_SHIFT) - 1));
	record->messages = info->kind >> RECORD_MESSAGES_SHIFT;
	return true;
}

static void
fill_record(
    struct ring_record *record, const struct record_header *header, const struct record_info *info)
{
	unsigned made = info->made & ~(unsigned)RECORD_TCP;

	record->at_ns = header->at_ns;
	record->took_ns = header->took_ns;
	/* Messages of other servers are not part of a batch. These messages have their own times. */
	record->batch = info->made == 0 && record->kind == RECORD_ANSWER;
	record->type = info->qtype;
	record->size = info->size;
	record->rcode = info->rcode;
	record->tcp = (info->made & RECORD_TCP) != 0;
	record->truncated = info->truncated;
	record->filtered = info->filtered;
	record->outside = info->system == SYSTEM_RECURSIVE;
	record->below = info->below == UINT8_MAX ? -1 : info->below;
	record->made = made == 0 ? (enum answer_made)info->system : (enum answer_made)(made - 1);
}

/* Copies the address of a record's peer. An IPv6 address is at `from`. Returns the number of bytes that the address has at `from`. */
static size_t
read_peer(struct ring_record *record, const struct record_header *header, const uint8_t *from)
{
	struct sockaddr_in6 peer = { 0 };
	uint64_t address[sizeof peer.sin6_addr / RECORD_WORD];
	size_t len = 0;

	memcpy(&peer, &header->peer, sizeof header->peer);
	if (peer.sin6_family == AF_INET6) {
		len = sizeof address;
		copy_out(address, from, len);
		memcpy(&peer.sin6_addr, address, len);
	}
	server_from_sockaddr((const struct sockaddr *)&peer, &record->peer);
	return len;
}

/* Copies the name of `len` bytes, padded to whole words, of a record without messages. */
static void
read_name(struct ring_record *record, const uint8_t *from, size_t len)
{
	uint64_t name[(DNAME_MAX + 1) / RECORD_WORD];

	if (len == 0 || len > sizeof name)
		return;
	copy_out(name, from, len);
	record->name.len = (uint8_t)dname_length((const uint8_t *)name, DNAME_MAX);
	memcpy(record->name.wire, name, record->name.len);
}

/* Copies the messages, which are the last `len` bytes of a record. */
static void
read_messages(struct ring_record *record, const uint8_t *from, size_t len, uint64_t *messages)
{
	union message_lens lens;

	if (len < RECORD_WORD || len - RECORD_WORD > RING_MESSAGES_MAX)
		return;
	copy_out(&lens, from, sizeof lens);
	copy_out(messages, from + RECORD_WORD, len - RECORD_WORD);
	if (padded(lens.of.query) + padded(lens.of.reply) > len - RECORD_WORD)
		return; /* the record was overwritten */
	record->query_len = lens.of.query;
	record->reply_len = lens.of.reply;
	if (lens.of.query > 0)
		record->query = (const uint8_t *)messages;
	if (lens.of.reply > 0)
		record->response = (const uint8_t *)messages + padded(lens.of.query);
}

/* Reads the name of the question from the first message. The messages are the last `len` bytes of a record. */
static void
read_message_name(struct ring_record *record, const uint8_t *from, size_t len)
{
	uint64_t start[(DNS_HEADER + DNAME_MAX) / RECORD_WORD + 1];
	union message_lens lens;

	if (len < RECORD_WORD)
		return;
	copy_out(&lens, from, sizeof lens);
	size_t message_len = lens.of.query > 0 ? lens.of.query : lens.of.reply;
	if (message_len <= DNS_HEADER || padded(message_len) > len - RECORD_WORD)
		return;
	if (message_len > sizeof start)
		message_len = sizeof start;
	copy_out(start, from + RECORD_WORD, padded(message_len));
	const uint8_t *name = (const uint8_t *)start + DNS_HEADER;
	record->name.len = (uint8_t)dname_length(name, message_len - DNS_HEADER);
	memcpy(record->name.wire, name, record->name.len);
	dname_lower(record->name.wire, record->name.len);
}

bool
ring_read(
    const struct ring *ring, uint64_t position, struct ring_record *record, uint64_t *messages)
{
	struct record_header header;
	struct record_info info;

	if (position == RING_NONE || !read_header(ring, position, &header, &info, record))
		return false;
	const uint8_t *from = ring->bytes + position % ring->size + sizeof header;
	size_t len = (size_t)info.len * RECORD_WORD - sizeof header, name_len = 0;
	bool in_message = ring->whole && record->messages > 0;
	if (info.question_len > 4 && !in_message)
		name_len = padded(info.question_len - 4u);
	fill_record(record, &header, &info);
	size_t used = name_len + read_peer(record, &header, from + name_len);
	record->name.len = 0;
	record->query = record->response = NULL;
	record->query_len = record->reply_len = 0;
	if (messages != NULL && ring->whole)
		read_messages(record, from + used, len - used, messages);
	else if (!in_message)
		read_name(record, from, name_len);
	else if (info.question_len > 4)
		read_message_name(record, from + used, len - used);
	return is_intact(ring, position);
}

uint64_t
ring_newest(const struct ring *ring)
{
	return RING_GET(ring->newest);
}

/* --- followers, which read every record once --- */

/* Returns the position of the newest record, or RING_NONE if there is none. Sets `*count` to the numbers that were published up to that
 * record. */
static uint64_t
read_published(const struct ring *ring, struct ring_count *count)
{
	uint64_t newest, records;

	do {
		records = RING_GET(ring->ended);
		newest = RING_GET(ring->newest);
		count->answers = ring->whole ? RING_GET(ring->published.answers) : records;
		count->messages = RING_GET(ring->published.messages);
	} while (RING_GET(ring->begun) != records);
	return newest;
}

void
ring_follow(struct ring_follower *follower, const struct ring *ring)
{
	struct record_header header;
	struct record_info info;
	struct ring_record record;

	*follower = (struct ring_follower){ .ring = ring };
	follower->last = follower->until = read_published(ring, &follower->seen);
	/* If the newest record is already overwritten, the record after it is too, and the first iteration finds that. */
	follower->next = 0;
	if (follower->last != RING_NONE &&
	    read_header(ring, follower->last, &header, &info, &record))
		follower->next = record.next;
}

/*
 * Continues with the oldest record of the last three quarters of the ring, but at most SKIP_MAX records back. The walk needs a limit,
 * because it delays the reader, and --recorder has no upper bound.
 */
static void
skip(struct ring_follower *follower, const struct ring_count *published)
{
	const struct ring *ring = follower->ring;
	struct record_header header;
	struct record_info info;
	struct ring_record record;
	struct ring_count left = *published;
	uint64_t at = follower->until,
		 oldest = at > ring->size / 4 * 3 ? at - ring->size / 4 * 3 : 0;

	follower->next = at;
	for (unsigned n = 0; n < SKIP_MAX && at != RING_NONE && at >= oldest &&
			     read_header(ring, at, &header, &info, &record);
	     n++) {
		follower->next = at;
		left.answers -= record.kind == RECORD_ANSWER;
		left.messages -= record.messages;
		at = record.predecessor;
	}
	follower->skipped.answers += left.answers - follower->seen.answers;
	follower->skipped.messages += left.messages - follower->seen.messages;
	follower->seen = left;
}

void
ring_follow_iteration(struct ring_follower *follower)
{
	struct ring_count published;

	follower->until = read_published(follower->ring, &published);
	if (follower->until != follower->last && !is_intact(follower->ring, follower->next))
		skip(follower, &published);
}

bool
ring_follow_next(struct ring_follower *follower, struct ring_record *record, uint64_t *messages)
{
	if (follower->last == follower->until ||
	    !ring_read(follower->ring, follower->next, record, messages))
		return false;
	follower->last = follower->next;
	follower->next = record->next;
	follower->seen.answers += record->kind == RECORD_ANSWER;
	follower->seen.messages += record->messages;
	return true;
}

bool
ring_follow_has_more(const struct ring_follower *follower)
{
	return ring_newest(follower->ring) != follower->last;
}

/* --- reading samples --- */

void
ring_sample_follow(struct ring_sampler *sampler, const struct ring *ring)
{
	*sampler = (struct ring_sampler){ .ring = ring, .seen = RING_GET(ring->sampled) };
}

bool
ring_sample_next(struct ring_sampler *sampler, struct ring_record *record)
{
	const struct ring *ring = sampler->ring;

	while (sampler->seen != RING_GET(ring->sampled)) {
		uint64_t position = RING_GET(ring->samples[sampler->seen % RING_SAMPLES]);
		bool read = ring_read(ring, position, record, NULL);
		/* The worker may be overwriting this sample with the next sample, so this sample is skipped too. */
		uint64_t behind = RING_GET(ring->sampled) - sampler->seen;

		if (behind >= RING_SAMPLES) {
			sampler->skipped += behind - RING_SAMPLES / 2;
			sampler->seen += behind - RING_SAMPLES / 2;
			continue;
		}
		sampler->seen++;
		if (read)
			return true;
		sampler->skipped++;
	}
	return false;
}
