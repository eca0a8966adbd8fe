/* The writer: reads messages from the workers' rings and sends them to the collector. */
#include "kubedns/dnstap/dnstap.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kubedns/dnstap/dnstap_frame.h"
#include "kubedns/dnstap/dnstap_stream.h"
#include "kubedns/serve/observe/ring.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/sandbox.h"
#include "lib/xalloc.h"

enum {
	RINGS_MAX = 64,
	TURN_MAX = 1024, /* records of one worker at a time */
	AT_ONCE = 16,    /* of them, read before they are sent */
	GATHER_MS = 10,  /* between two looks at rings that have little */
	BACKOFF_FIRST_MS = 100,
	BACKOFF_MAX_MS = 10000,
	GOOD_MS = 10000, /* a connection that has lasted this long is one */
};

struct dnstap {
	struct dnstap_target target;
	struct dnstap_sender sender;
	struct ring_listener listener;
	pthread_t thread;
	bool started;
	atomic_bool stop;

	/* The main thread counts too what was overwritten: while the writer waits for the collector. */
	pthread_mutex_t lock;
	unsigned ring_count;
	struct ring_follower followers[RINGS_MAX];

	/* The writer's own. */
	struct dnstap_stream *stream;
	int backoff_ms; /* the last wait for the collector; 0: none since a good connection */
	int64_t try_ms; /* when it is tried again */
	int64_t connected_ms;
	bool complained; /* a try failed, since the last good connection; */
	bool flapping;   /* or a connection ended soon */
	uint8_t frame[DNSTAP_FRAME_MAX];
	uint64_t messages[2 * RING_MESSAGES_MAX / sizeof(uint64_t)];

	/* Read by the main thread. */
	atomic_bool connected;
	atomic_uint_least64_t sent, lost, connections;
};

struct dnstap *
dnstap_new(const struct dnstap_config *config)
{
	struct dnstap *dnstap = xcalloc(1, sizeof *dnstap);

	dnstap->target = config->target;
	dnstap->sender.identity = config->identity;
	dnstap->sender.version = config->version;
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
	return dnstap == NULL ? NULL : &dnstap->listener;
}

void
dnstap_add_ring(struct dnstap *dnstap, const struct ring *ring)
{
	assert(dnstap->ring_count < RINGS_MAX);
	ring_follow(&dnstap->followers[dnstap->ring_count++], ring);
}

/* --- the writer's thread --- */

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
		log_warnx("dnstap: %s: %s: trying again; the newest 4 MB of messages are kept, "
			  "and DNS is answered as before",
		    text,
		    rc == -EPROTO ? "what listens there does not take dnstap" : strerror(-rc));
	dnstap->complained = true;
	back_off(dnstap);
}

/* A collector that takes connections and ends them is tried as rarely as one that is away, and named
 * once: only what has lasted is good. */
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
		log_warnx("dnstap: %s: the collector has gone: trying again%s",
		    dnstap_target_format(&dnstap->target, text),
		    good ? "" : "; not said again until a connection lasts 10 s");
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
	head.kind++; /* of the same peer */
	head.len = record->reply_len;
	head.response_ns = head.query_ns + record->took_ns;
	send_message(dnstap, &head, record->response, sent, lost);
}

/* Reads the next records, as many as there is room for; how many there were. */
static unsigned
read_some(struct dnstap *dnstap, struct ring_follower *follower, struct ring_record *records)
{
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

/* Sends a worker's messages, so many records at most; how many there were. */
static unsigned
take_turn(struct dnstap *dnstap, struct ring_follower *follower, uint64_t *sent, uint64_t *lost)
{
	struct ring_record records[AT_ONCE];
	unsigned count = 0, some;

	pthread_mutex_lock(&dnstap->lock);
	ring_follow_turn(follower);
	pthread_mutex_unlock(&dnstap->lock);
	while (count < TURN_MAX && dnstap_stream_is_open(dnstap->stream) &&
	       (some = read_some(dnstap, follower, records)) > 0) {
		for (unsigned i = 0; i < some; i++)
			send_record(dnstap, &records[i], sent, lost);
		count += some;
	}
	return count;
}

/* Sends some of what the rings have; the most records that one worker had. */
static unsigned
drain(struct dnstap *dnstap)
{
	uint64_t sent = 0, lost = 0;
	unsigned most = 0;

	dnstap->sender.wall_ns = clock_wall_ns() - clock_mono_ns();
	for (unsigned i = 0; i < dnstap->ring_count && dnstap_stream_is_open(dnstap->stream); i++) {
		unsigned count = take_turn(dnstap, &dnstap->followers[i], &sent, &lost);

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

/* Sleeps until a worker has a message, the collector goes, or the end comes. */
static void
sleep_on(struct dnstap *dnstap)
{
	atomic_store(&dnstap->listener.asleep, true);
	atomic_thread_fence(memory_order_seq_cst); /* see ring_wake_listener() */
	if (is_empty(dnstap) && !atomic_load(&dnstap->stop))
		dnstap_stream_wait(dnstap->stream, dnstap->flapping ? GOOD_MS : -1);
	atomic_store(&dnstap->listener.asleep, false);
}

static void
turn(struct dnstap *dnstap)
{
	int64_t now_ms = clock_mono_ms();

	if (!dnstap_stream_is_open(dnstap->stream)) {
		if (now_ms >= dnstap->try_ms)
			try_connect(dnstap);
		else
			dnstap_stream_wait(dnstap->stream, (int)(dnstap->try_ms - now_ms));
		return;
	}
	dnstap_stream_wait(dnstap->stream, 0); /* has it gone? */
	unsigned count = drain(dnstap);
	if (count == 0 && dnstap_stream_is_open(dnstap->stream))
		sleep_on(dnstap);
	if (count < TURN_MAX)
		dnstap_stream_wait(dnstap->stream, GATHER_MS);
	notice_end(dnstap);
}

static void *
run(void *arg)
{
	struct dnstap *dnstap = arg;

	pthread_setname_np(pthread_self(), "dnstap");
	sandbox_low_ports_done();
	while (!atomic_load(&dnstap->stop))
		turn(dnstap);
	while (dnstap_stream_is_open(dnstap->stream) && drain(dnstap) > 0)
		;
	return NULL;
}

/* --- the main thread's --- */

void
dnstap_start(struct dnstap *dnstap)
{
	sigset_t all, before;

	if (dnstap == NULL)
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	errno = pthread_create(&dnstap->thread, NULL, run, dnstap);
	if (errno != 0)
		log_fatal("pthread_create");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	dnstap->started = true;
}

/* Messages that were overwritten before the writer had read them. */
static uint64_t
count_overwritten(struct dnstap *dnstap)
{
	uint64_t overwritten = 0;

	pthread_mutex_lock(&dnstap->lock);
	for (unsigned i = 0; i < dnstap->ring_count; i++) {
		ring_follow_turn(&dnstap->followers[i]);
		overwritten += dnstap->followers[i].skipped.messages;
	}
	pthread_mutex_unlock(&dnstap->lock);
	return overwritten;
}

void
dnstap_metrics(struct dnstap *dnstap, struct metrics *m)
{
	if (dnstap == NULL)
		return;
	metrics_family(m, "kubedns_dnstap_sent_total", METRIC_COUNTER,
	    "Messages that the collector's connection has taken (--dnstap).");
	metrics_value(m, (double)atomic_load(&dnstap->sent), (char *)NULL);
	metrics_family(m, "kubedns_dnstap_dropped_total", METRIC_COUNTER,
	    "Messages that were not sent: newer ones took their place, or the connection broke.");
	metrics_value(m, (double)count_overwritten(dnstap), "reason", "queue_full", (char *)NULL);
	metrics_value(m, (double)atomic_load(&dnstap->lost), "reason", "connection", (char *)NULL);
	metrics_family(m, "kubedns_dnstap_connections_total", METRIC_COUNTER,
	    "Times that a connection to the collector was made.");
	metrics_value(m, (double)atomic_load(&dnstap->connections), (char *)NULL);
	metrics_family(
	    m, "kubedns_dnstap_connected", METRIC_GAUGE, "1 while there is a connection.");
	metrics_value(m, atomic_load(&dnstap->connected), (char *)NULL);
}

/* Messages that the rings still have. */
static uint64_t
count_left(struct dnstap *dnstap)
{
	struct ring_record record;
	uint64_t left = 0;

	for (unsigned i = 0; i < dnstap->ring_count; i++) {
		ring_follow_turn(&dnstap->followers[i]);
		while (ring_follow_next(&dnstap->followers[i], &record, NULL))
			left += record.messages;
	}
	return left;
}

void
dnstap_free(struct dnstap *dnstap)
{
	uint64_t one = 1;

	if (dnstap == NULL)
		return;
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
