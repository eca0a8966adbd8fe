/* The writer thread reads messages from the workers' rings and sends them to the collector. */
#include "kubedns/modules/dnstap/dnstap.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kubedns/modules/dnstap/dnstap_frame.h"
#include "kubedns/modules/dnstap/dnstap_stream.h"
#include "kubedns/serve/observe/ring.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/sandbox.h"
#include "lib/xalloc.h"

enum {
	RINGS_MAX = 64,
	ITERATION_MAX = 1024, /* records read from one worker before the next worker's turn */
	AT_ONCE = 16,         /* records read under the lock before they are sent */
	GATHER_MS = 10,       /* pause after an iteration that found few records */
	BACKOFF_FIRST_MS = 100,
	BACKOFF_MAX_MS = 10000,
	GOOD_MS = 10000, /* a connection that has lasted this long counts as good */
};

struct dnstap {
	struct dnstap_target target;
	struct dnstap_sender sender;
	struct ring_listener listener;
	pthread_t thread;
	bool started;
	atomic_bool stop;

	/* The main thread counts overwritten messages too, because the writer may be waiting for
	 * the collector. */
	pthread_mutex_t lock;
	unsigned ring_count;
	struct ring_follower followers[RINGS_MAX];

	/* Only the writer thread uses the following members. */
	struct dnstap_stream *stream;
	/* last wait before a retry, or 0 if no try has failed since a good connection */
	int backoff_ms;
	int64_t try_ms; /* time of the next try */
	int64_t connected_ms;
	bool complained; /* a try has failed since the last good connection */
	bool flapping;   /* a connection has ended too soon */
	struct ring_record records[AT_ONCE];
	uint8_t frame[DNSTAP_FRAME_MAX];
	uint64_t messages[2 * RING_MESSAGES_MAX / sizeof(uint64_t)];

	/* The main thread reads the following members. */
	atomic_bool connected;
	atomic_uint_least64_t sent, lost, connections;
};

struct dnstap *
dnstap_new(const struct dnstap_config *config)
{
	struct dnstap *dnstap = xcalloc(1, sizeof *dnstap);

	dnstap->target = config->target;
	dnstap_sender_init(&dnstap->sender, config->identity, config->version);
	dnstap->listener.wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (dnstap->listener.wake < 0)
		log_fatal("eventfd");
	pthread_mutex_init(&dnstap->lock, NULL);
	dnstap->stream = dnstap_stream_new(&dnstap->target, dnstap->listener.wake, &dnstap->stop);
	return dnstap;
}

struct ring_listener *
dnstap_listener(struct dnstap *dnstap)
{
	return &dnstap->listener;
}

const struct dnstap_target *
dnstap_target(const struct dnstap *dnstap)
{
	return &dnstap->target;
}

void
dnstap_add_ring(struct dnstap *dnstap, const struct ring *ring)
{
	assert(dnstap->ring_count < RINGS_MAX);
	ring_follow(&dnstap->followers[dnstap->ring_count++], ring);
}

/* --- the writer thread --- */

static void
back_off(struct dnstap *dnstap)
{
	dnstap->backoff_ms = dnstap->backoff_ms == 0 ? BACKOFF_FIRST_MS : dnstap->backoff_ms * 2;
	if (dnstap->backoff_ms > BACKOFF_MAX_MS)
		dnstap->backoff_ms = BACKOFF_MAX_MS;
	dnstap->try_ms = clock_mono_ms() + dnstap->backoff_ms;
}

static void
try_connect(struct dnstap *dnstap)
{
	char text[DNSTAP_TARGET_TEXT_MAX];
	int rc = dnstap_stream_open(dnstap->stream);

	dnstap_target_format(&dnstap->target, text);
	if (rc == 0) {
		if (!dnstap->flapping)
			log_info("dnstap: %s: connected", text);
		atomic_store(&dnstap->connected, true);
		atomic_fetch_add(&dnstap->connections, 1);
		dnstap->connected_ms = clock_mono_ms();
		return;
	}
	if (!dnstap->complained)
		log_warnx("dnstap: %s: %s: trying again; the newest 4 MB of messages are kept, and "
			  "answers are not affected",
		    text,
		    rc == -EPROTO ? "the server there does not accept dnstap" : strerror(-rc));
	dnstap->complained = true;
	back_off(dnstap);
}

/* If a collector accepts connections and soon ends them, the retries are as rare as for an unreachable collector, and the failure is
 * logged once. Only a connection that has lasted counts as good. */
static void
notice_good(struct dnstap *dnstap)
{
	char text[DNSTAP_TARGET_TEXT_MAX];

	if (!atomic_load(&dnstap->connected) || clock_mono_ms() - dnstap->connected_ms < GOOD_MS)
		return;
	if (dnstap->flapping && dnstap_stream_is_open(dnstap->stream))
		log_info("dnstap: %s: connected", dnstap_target_format(&dnstap->target, text));
	dnstap->backoff_ms = 0;
	dnstap->complained = dnstap->flapping = false;
}

static void
notice_end(struct dnstap *dnstap)
{
	char text[DNSTAP_TARGET_TEXT_MAX];

	notice_good(dnstap);
	if (!atomic_load(&dnstap->connected) || dnstap_stream_is_open(dnstap->stream))
		return;
	bool good = clock_mono_ms() - dnstap->connected_ms >= GOOD_MS;
	atomic_store(&dnstap->connected, false);
	if (!dnstap->flapping)
		log_warnx("dnstap: %s: the collector closed the connection: trying again%s",
		    dnstap_target_format(&dnstap->target, text),
		    good ? "" : "; not logged again until a connection lasts 10 s");
	dnstap->flapping = !good;
	back_off(dnstap);
}

static void
send_message(struct dnstap *dnstap, const struct dnstap_head *head, const uint8_t *message,
    uint64_t *sent, uint64_t *lost)
{
	if (!dnstap_stream_is_open(dnstap->stream)) {
		++*lost;
		return;
	}
	size_t len = dnstap_frame(&dnstap->sender, head, message, dnstap->frame);
	dnstap_stream_write(dnstap->stream, dnstap->frame, len, sent, lost);
}

/* Sends the query and the response of a record, if it has them. */
static void
send_record(struct dnstap *dnstap, const struct ring_record *record, uint64_t *sent, uint64_t *lost)
{
	bool server = record->kind == RECORD_SERVER_QUERY || record->kind == RECORD_SERVER_RESPONSE;
	struct dnstap_head head = { .kind = server ? DNSTAP_FORWARDER_QUERY : DNSTAP_CLIENT_QUERY,
		.tcp = record->tcp,
		.len = record->query_len,
		.peer = record->peer,
		.query_ns = record->batch ? record->at_ns : record->at_ns - record->took_ns };

	if (record->query != NULL)
		send_message(dnstap, &head, record->query, sent, lost);
	if (record->response == NULL)
		return;
	head.kind++; /* the kind of a response from or to the same peer */
	head.len = record->reply_len;
	head.response_ns = head.query_ns + record->took_ns;
	send_message(dnstap, &head, record->response, sent, lost);
}

/* Reads as many of the next records as fit. Returns their number. */
static unsigned
read_some(struct dnstap *dnstap, struct ring_follower *follower)
{
	struct ring_record *records = dnstap->records;
	uint64_t *to = dnstap->messages, *last = to + RING_MESSAGES_MAX / sizeof *to;
	unsigned count = 0;

	pthread_mutex_lock(&dnstap->lock);
	while (count < AT_ONCE && to <= last && ring_follow_next(follower, &records[count], to)) {
		to += (records[count].query_len + sizeof *to - 1) / sizeof *to;
		to += (records[count].reply_len + sizeof *to - 1) / sizeof *to;
		count++;
	}
	pthread_mutex_unlock(&dnstap->lock);
	return count;
}

/* Sends a worker's messages, up to a limit of records. Returns the number of records. */
static unsigned
take_iteration(
    struct dnstap *dnstap, struct ring_follower *follower, uint64_t *sent, uint64_t *lost)
{
	unsigned count = 0, some;

	pthread_mutex_lock(&dnstap->lock);
	ring_follow_iteration(follower);
	pthread_mutex_unlock(&dnstap->lock);
	while (count < ITERATION_MAX && dnstap_stream_is_open(dnstap->stream) &&
	       (some = read_some(dnstap, follower)) > 0) {
		for (unsigned i = 0; i < some; i++)
			send_record(dnstap, &dnstap->records[i], sent, lost);
		count += some;
	}
	return count;
}

/* Sends some messages from each ring. Returns the highest number of records from one ring. */
static unsigned
drain(struct dnstap *dnstap)
{
	uint64_t sent = 0, lost = 0;
	unsigned most = 0;

	dnstap->sender.wall_ns = clock_wall_ns() - clock_mono_ns();
	for (unsigned i = 0; i < dnstap->ring_count && dnstap_stream_is_open(dnstap->stream); i++) {
		unsigned count = take_iteration(dnstap, &dnstap->followers[i], &sent, &lost);

		most = count > most ? count : most;
	}
	if (dnstap_stream_is_open(dnstap->stream))
		dnstap_stream_flush(dnstap->stream, &sent, &lost);
	atomic_fetch_add(&dnstap->sent, sent);
	atomic_fetch_add(&dnstap->lost, lost);
	return most;
}

static bool
is_empty(const struct dnstap *dnstap)
{
	for (unsigned i = 0; i < dnstap->ring_count; i++)
		if (ring_follow_has_more(&dnstap->followers[i]))
			return false;
	return true;
}

/* Sleeps until a worker has a message, the collector closes the connection, or dnstap is
 * stopped. */
static void
sleep_on(struct dnstap *dnstap)
{
	atomic_store(&dnstap->listener.asleep, true);
	atomic_thread_fence(memory_order_seq_cst); /* see ring_wake_listener() */
	if (is_empty(dnstap) && !atomic_load(&dnstap->stop))
		dnstap_stream_wait(
		    dnstap->stream, dnstap->flapping ? clock_mono_ms() + GOOD_MS : CLOCK_NEVER);
	atomic_store(&dnstap->listener.asleep, false);
}

static void
iterate(struct dnstap *dnstap)
{
	int64_t now_ms = clock_mono_ms();

	if (!dnstap_stream_is_open(dnstap->stream)) {
		if (now_ms >= dnstap->try_ms)
			try_connect(dnstap);
		else
			dnstap_stream_wait(dnstap->stream, dnstap->try_ms);
		return;
	}
	/* Checks whether the collector has closed the connection. */
	dnstap_stream_wait(dnstap->stream, now_ms);
	unsigned count = drain(dnstap);
	if (count == 0 && dnstap_stream_is_open(dnstap->stream))
		sleep_on(dnstap);
	if (count < ITERATION_MAX)
		dnstap_stream_wait(dnstap->stream, clock_mono_ms() + GATHER_MS);
	notice_end(dnstap);
}

static void *
run(void *arg)
{
	struct dnstap *dnstap = arg;

	pthread_setname_np(pthread_self(), "dnstap");
	sandbox_low_ports_done();
	while (!atomic_load(&dnstap->stop))
		iterate(dnstap);
	while (dnstap_stream_is_open(dnstap->stream) && drain(dnstap) > 0)
		;
	return NULL;
}

/* --- for the main thread --- */

void
dnstap_start(struct dnstap *dnstap)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	errno = pthread_create(&dnstap->thread, NULL, run, dnstap);
	if (errno != 0)
		log_fatal("pthread_create");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	dnstap->started = true;
}

/* Returns the number of messages that were overwritten before the writer had read them. */
static uint64_t
count_overwritten(struct dnstap *dnstap)
{
	uint64_t overwritten = 0;

	pthread_mutex_lock(&dnstap->lock);
	for (unsigned i = 0; i < dnstap->ring_count; i++) {
		ring_follow_iteration(&dnstap->followers[i]);
		overwritten += dnstap->followers[i].skipped.messages;
	}
	pthread_mutex_unlock(&dnstap->lock);
	return overwritten;
}

void
dnstap_metrics(struct dnstap *dnstap, struct metrics *m)
{
	metrics_family(m, "kubedns_dnstap_sent_total", METRIC_COUNTER,
	    "Messages sent to the collector (--dnstap).");
	metrics_value(m, (double)atomic_load(&dnstap->sent), (char *)NULL);
	metrics_family(m, "kubedns_dnstap_dropped_total", METRIC_COUNTER,
	    "Messages that were not sent: newer ones overwrote them, or the connection broke.");
	metrics_value(m, (double)count_overwritten(dnstap), "reason", "queue_full", (char *)NULL);
	metrics_value(m, (double)atomic_load(&dnstap->lost), "reason", "connection", (char *)NULL);
	metrics_family(m, "kubedns_dnstap_connections_total", METRIC_COUNTER,
	    "Connections made to the collector.");
	metrics_value(m, (double)atomic_load(&dnstap->connections), (char *)NULL);
	metrics_family(
	    m, "kubedns_dnstap_connected", METRIC_GAUGE, "1 while there is a connection.");
	metrics_value(m, atomic_load(&dnstap->connected), (char *)NULL);
}

/* Returns the number of messages that are still in the rings. */
static uint64_t
count_left(struct dnstap *dnstap)
{
	struct ring_record record;
	uint64_t left = 0;

	for (unsigned i = 0; i < dnstap->ring_count; i++) {
		ring_follow_iteration(&dnstap->followers[i]);
		while (ring_follow_next(&dnstap->followers[i], &record, NULL))
			left += record.messages;
	}
	return left;
}

void
dnstap_free(struct dnstap *dnstap)
{
	uint64_t one = 1;

	atomic_store(&dnstap->stop, true);
	if (write(dnstap->listener.wake, &one, sizeof one) < 0 && errno != EAGAIN)
		log_fatal("eventfd");
	if (dnstap->started) {
		pthread_join(dnstap->thread, NULL);
		uint64_t dropped =
		    count_left(dnstap) + count_overwritten(dnstap) + atomic_load(&dnstap->lost);
		log_info("dnstap: %llu messages were sent, %llu dropped",
		    (unsigned long long)atomic_load(&dnstap->sent), (unsigned long long)dropped);
	}
	dnstap_stream_free(dnstap->stream);
	pthread_mutex_destroy(&dnstap->lock);
	close(dnstap->listener.wake);
	free(dnstap);
}
