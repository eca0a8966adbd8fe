/* The writer: takes messages from the workers' queues and gives them to the collector. */
#include "kubedns/dnstap/dnstap.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kubedns/dnstap/dnstap_frame.h"
#include "kubedns/dnstap/dnstap_queue.h"
#include "kubedns/dnstap/dnstap_stream.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/sandbox.h"
#include "lib/xalloc.h"

enum {
	QUEUES_MAX = 64,
	QUEUED = 4 * 1024 * 1024, /* of all workers: 80 ms of 100,000 answers a second */
	QUEUE_MIN = 256 * 1024,
	TURN_MAX = 1024, /* messages of one worker at a time */
	GATHER_MS = 10,  /* between two looks at queues that have little */
	BACKOFF_FIRST_MS = 100,
	BACKOFF_MAX_MS = 10000,
	GOOD_MS = 10000, /* a connection that has lasted this long is one */
};

struct dnstap {
	struct dnstap_target target;
	struct dnstap_sender sender;
	struct dnstap_queue *queues[QUEUES_MAX];
	unsigned queue_count;
	int wake;
	pthread_t thread;
	bool started;
	atomic_bool asleep, stop;

	/* The writer's own. */
	struct dnstap_stream *stream;
	int backoff_ms; /* the last wait for the collector; 0: none since a good connection */
	int64_t try_ms; /* when it is tried again */
	int64_t connected_ms;
	bool complained; /* a try failed, since the last good connection; */
	bool flapping;   /* or a connection ended soon */
	uint8_t frame[DNSTAP_FRAME_MAX];

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
	dnstap->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (dnstap->wake < 0)
		log_fatal("eventfd");
	dnstap->stream = dnstap_stream_new(&dnstap->target, dnstap->wake, &dnstap->stop);
	return dnstap;
}

struct dnstap_queue *
dnstap_queue_for(struct dnstap *dnstap, unsigned workers)
{
	size_t bytes = QUEUED;

	if (dnstap == NULL)
		return NULL;
	while (bytes > QUEUE_MIN && bytes * workers > QUEUED)
		bytes /= 2;
	struct dnstap_queue *queue = dnstap_queue_new(bytes, &dnstap->asleep, dnstap->wake);
	dnstap->queues[dnstap->queue_count++] = queue;
	return queue;
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
		log_warnx("dnstap: %s: %s: trying again; what the queue cannot hold is dropped, "
			  "and DNS is answered as ever",
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

/* Sends a worker's messages, so many at most; how many there were. */
static unsigned
take_turn(struct dnstap *dnstap, struct dnstap_queue *queue, uint64_t *sent, uint64_t *lost)
{
	const struct dnstap_head *head;
	const uint8_t *message;
	unsigned count = 0;

	while (count < TURN_MAX && (head = dnstap_queue_first(queue, &message)) != NULL) {
		size_t len = dnstap_frame(&dnstap->sender, head, message, dnstap->frame);
		dnstap_queue_pop(queue);
		count++;
		if (dnstap_stream_write(dnstap->stream, dnstap->frame, len, sent, lost) < 0)
			break;
	}
	return count;
}

/* Sends some of what is queued; the most that one worker had. */
static unsigned
drain(struct dnstap *dnstap)
{
	uint64_t sent = 0, lost = 0;
	unsigned most = 0;

	dnstap->sender.wall_ns = clock_wall_ns() - clock_mono_ns();
	for (unsigned i = 0; i < dnstap->queue_count && dnstap_stream_is_open(dnstap->stream);
	     i++) {
		unsigned count = take_turn(dnstap, dnstap->queues[i], &sent, &lost);
		most = count > most ? count : most;
	}
	if (dnstap_stream_is_open(dnstap->stream))
		dnstap_stream_flush(dnstap->stream, &sent, &lost);
	atomic_fetch_add(&dnstap->sent, sent);
	atomic_fetch_add(&dnstap->lost, lost);
	return most;
}

static bool
is_empty(struct dnstap *dnstap)
{
	const uint8_t *message;

	for (unsigned i = 0; i < dnstap->queue_count; i++)
		if (dnstap_queue_first(dnstap->queues[i], &message) != NULL)
			return false;
	return true;
}

/* Sleeps until a worker has a message, the collector goes, or the end comes. */
static void
sleep_on(struct dnstap *dnstap)
{
	atomic_store(&dnstap->asleep, true);
	atomic_thread_fence(memory_order_seq_cst); /* see publish() in dnstap_queue.c */
	if (is_empty(dnstap) && !atomic_load(&dnstap->stop))
		dnstap_stream_wait(dnstap->stream, dnstap->flapping ? GOOD_MS : -1);
	atomic_store(&dnstap->asleep, false);
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

static uint64_t
count_dropped(const struct dnstap *dnstap)
{
	uint64_t dropped = 0;

	for (unsigned i = 0; i < dnstap->queue_count; i++)
		dropped += dnstap_queue_dropped(dnstap->queues[i]);
	return dropped;
}

void
dnstap_metrics(const struct dnstap *dnstap, struct metrics *m)
{
	if (dnstap == NULL)
		return;
	metrics_family(m, "kubedns_dnstap_sent_total", METRIC_COUNTER,
	    "Messages that the collector's connection has taken (--dnstap).");
	metrics_value(m, (double)atomic_load(&dnstap->sent), (char *)NULL);
	metrics_family(m, "kubedns_dnstap_dropped_total", METRIC_COUNTER,
	    "Messages that were not sent: the queue was full, or the connection broke.");
	metrics_value(m, (double)count_dropped(dnstap), "reason", "queue_full", (char *)NULL);
	metrics_value(m, (double)atomic_load(&dnstap->lost), "reason", "connection", (char *)NULL);
	metrics_family(m, "kubedns_dnstap_connections_total", METRIC_COUNTER,
	    "Times that a connection to the collector was made.");
	metrics_value(m, (double)atomic_load(&dnstap->connections), (char *)NULL);
	metrics_family(
	    m, "kubedns_dnstap_connected", METRIC_GAUGE, "1 while there is a connection.");
	metrics_value(m, atomic_load(&dnstap->connected), (char *)NULL);
}

/* What is still queued goes with us. */
static uint64_t
count_left(struct dnstap *dnstap)
{
	const uint8_t *message;
	uint64_t left = 0;

	for (unsigned i = 0; i < dnstap->queue_count; i++)
		for (; dnstap_queue_first(dnstap->queues[i], &message) != NULL; left++)
			dnstap_queue_pop(dnstap->queues[i]);
	return left;
}

void
dnstap_free(struct dnstap *dnstap)
{
	uint64_t one = 1;

	if (dnstap == NULL)
		return;
	atomic_store(&dnstap->stop, true);
	if (write(dnstap->wake, &one, sizeof one) < 0 && errno != EAGAIN)
		log_fatal("eventfd");
	if (dnstap->started) {
		pthread_join(dnstap->thread, NULL);
		uint64_t dropped =
		    count_dropped(dnstap) + atomic_load(&dnstap->lost) + count_left(dnstap);
		log_info("dnstap: %llu messages were sent, %llu dropped",
		    (unsigned long long)atomic_load(&dnstap->sent), (unsigned long long)dropped);
	}
	dnstap_stream_free(dnstap->stream);
	for (unsigned i = 0; i < dnstap->queue_count; i++)
		dnstap_queue_free(dnstap->queues[i]);
	close(dnstap->wake);
	free(dnstap);
}
