#include "kubedns/dnstap/dnstap_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/log.h"

enum { CACHE_LINE = 64, MESSAGE_MAX = 65535 };
_Static_assert(sizeof(struct dnstap_head) % 8 == 0, "heads are aligned");

/* Positions count bytes from the start and never turn back; the ring's size is a power of 2. */
struct dnstap_queue { /* NOLINT(clang-analyzer-optin.performance.Padding) */
	uint8_t *bytes;
	size_t size;
	atomic_bool *asleep;
	int wake;

	_Alignas(CACHE_LINE) atomic_uint_least64_t tail; /* the worker's */
	uint64_t head_seen;                              /* where the writer was, the last time */
	atomic_uint_least64_t dropped;

	_Alignas(CACHE_LINE) atomic_uint_least64_t head; /* the writer's */
};

struct dnstap_queue *
dnstap_queue_new(size_t bytes, atomic_bool *asleep, int wake)
{
	struct dnstap_queue *queue = NULL;

	assert((bytes & (bytes - 1)) == 0 && bytes >= (size_t)MESSAGE_MAX * 4);
	if (posix_memalign((void **)&queue, CACHE_LINE, sizeof *queue) != 0)
		log_fatalx("out of memory");
	memset(queue, 0, sizeof *queue);
	if (posix_memalign((void **)&queue->bytes, CACHE_LINE, bytes) != 0)
		log_fatalx("out of memory: %zu bytes", bytes);
	queue->size = bytes;
	queue->asleep = asleep;
	queue->wake = wake;
	return queue;
}

void
dnstap_queue_free(struct dnstap_queue *queue)
{
	if (queue == NULL)
		return;
	free(queue->bytes);
	free(queue);
}

/* --- the worker's side --- */

static struct dnstap_head *
at(const struct dnstap_queue *queue, uint64_t position)
{
	return (struct dnstap_head *)(void *)(queue->bytes + (position & (queue->size - 1)));
}

/* How many of `size` bytes are free at the end of the ring. */
static size_t
until_end(const struct dnstap_queue *queue, uint64_t position)
{
	return queue->size - (position & (queue->size - 1));
}

static bool
has_room(struct dnstap_queue *queue, uint64_t tail, size_t size)
{
	if (tail + size - queue->head_seen <= queue->size)
		return true;
	queue->head_seen = atomic_load_explicit(&queue->head, memory_order_acquire);
	return tail + size - queue->head_seen <= queue->size;
}

/* The message is there for the writer. */
static void
publish(struct dnstap_queue *queue, uint64_t tail)
{
	uint64_t one = 1;

	atomic_store_explicit(&queue->tail, tail, memory_order_release);
	/* Either we see that the writer sleeps, or it sees the message before it goes to sleep. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(queue->asleep, memory_order_relaxed) &&
	    atomic_exchange(queue->asleep, false) &&
	    write(queue->wake, &one, sizeof one) != sizeof one)
		log_neterr("dnstap: eventfd");
}

void
dnstap_add(struct dnstap_queue *queue, enum dnstap_kind kind, bool tcp, const struct sockaddr *peer,
    const uint8_t *message, size_t len, int64_t query_ns, int64_t response_ns)
{
	uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
	size_t size = (sizeof(struct dnstap_head) + len + 7) & ~(size_t)7, left;

	assert(len <= MESSAGE_MAX);
	left = until_end(queue, tail);
	if (!has_room(queue, tail, left < size ? left + size : size)) {
		atomic_store_explicit(&queue->dropped,
		    atomic_load_explicit(&queue->dropped, memory_order_relaxed) + 1,
		    memory_order_relaxed);
		return;
	}
	if (left < size) {
		at(queue, tail)->size = 0;
		tail += left;
	}
	struct dnstap_head *head = at(queue, tail);
	*head = (struct dnstap_head){ .size = (uint32_t)size,
		.len = (uint16_t)len,
		.kind = (uint8_t)kind,
		.tcp = tcp,
		.query_ns = query_ns,
		.response_ns = response_ns };
	server_from_sockaddr(peer, &head->peer);
	memcpy(head + 1, message, len);
	publish(queue, tail + size);
}

void
dnstap_answered(struct dnstap_queue *queue, bool tcp, const struct sockaddr *client,
    const uint8_t *query, size_t query_len, const uint8_t *reply, size_t len, int64_t query_ns)
{
	dnstap_add(queue, DNSTAP_CLIENT_QUERY, tcp, client, query, query_len, query_ns, 0);
	dnstap_add(
	    queue, DNSTAP_CLIENT_RESPONSE, tcp, client, reply, len, query_ns, clock_mono_ns());
}

void
dnstap_asked(struct dnstap_queue *queue, bool tcp, const struct server *server,
    const uint8_t *query, size_t len, int64_t asked_ns)
{
	struct sockaddr_storage ss;

	server_sockaddr(server, &ss);
	dnstap_add(
	    queue, DNSTAP_FORWARDER_QUERY, tcp, (struct sockaddr *)&ss, query, len, asked_ns, 0);
}

void
dnstap_replied(struct dnstap_queue *queue, bool tcp, const struct server *server,
    const uint8_t *reply, size_t len, int64_t asked_ns, int64_t now_ns)
{
	struct sockaddr_storage ss;

	server_sockaddr(server, &ss);
	dnstap_add(queue, DNSTAP_FORWARDER_RESPONSE, tcp, (struct sockaddr *)&ss, reply, len,
	    asked_ns, now_ns);
}

/* --- the writer's side --- */

const struct dnstap_head *
dnstap_queue_first(struct dnstap_queue *queue, const uint8_t **message)
{
	uint64_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);

	if (head == atomic_load_explicit(&queue->tail, memory_order_acquire))
		return NULL;
	if (at(queue, head)->size == 0) {
		head += until_end(queue, head);
		atomic_store_explicit(&queue->head, head, memory_order_release);
	}
	*message = (const uint8_t *)(at(queue, head) + 1);
	return at(queue, head);
}

void
dnstap_queue_pop(struct dnstap_queue *queue)
{
	uint64_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);

	atomic_store_explicit(&queue->head, head + at(queue, head)->size, memory_order_release);
}

uint64_t
dnstap_queue_dropped(const struct dnstap_queue *queue)
{
	return atomic_load_explicit(&queue->dropped, memory_order_relaxed);
}
