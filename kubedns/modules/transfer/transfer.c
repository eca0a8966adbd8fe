#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kubedns/answer/zone_walk.h"
#include "kubedns/module.h"
#include "kubedns/modules/transfer/transfer_internal.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/sandbox.h"
#include "lib/xalloc.h"

/* Main function of the change thread. `arg` is the transfer. */
static void *transfer_changes(void *arg);

/* --- the stream threads --- */

static void
end_job(struct transfer *t, struct job *job, bool whole)
{
	TAILQ_REMOVE(&t->jobs, job, by_age);
	t->job_count--;
	for (size_t i = 0; i < job->change_count; i++)
		change_drop(job->changes[i]);
	free(job->changes);
	close(job->fd);
	job->end.returned(job->end.arg, job->end.slot, job->end.generation, whole);
	free(job);
}

static bool
client_has_one(const struct transfer *t, const struct addr *client)
{
	const struct job *job;

	TAILQ_FOREACH(job, &t->jobs, by_age)
	if (job->running && addr_equal(&job->client, client))
		return true;
	return false;
}

/* Returns the oldest job that can run now, or NULL. Drops jobs that have waited too long. */
static struct job *
next_job(struct transfer *t)
{
	struct job *job, *next;

	for (job = TAILQ_FIRST(&t->jobs); job != NULL; job = next) {
		next = TAILQ_NEXT(job, by_age);
		if (job->running)
			continue;
		if (clock_mono_ms() - job->queued_ms > QUEUE_MS) {
			atomic_fetch_add(&t->cut[job->kind], 1);
			end_job(t, job, false);
		} else if (t->version.tree != NULL &&
			   version_has_zone(&t->version, t->answers, job->zone) &&
			   !serial_before(
			       version_serial(&t->version, t->answers, job->zone), job->wants) &&
			   !client_has_one(t, &job->client)) {
			return job;
		}
	}
	return NULL;
}

static void
wait_for_work(struct transfer *t)
{
	struct timespec until;

	/* A change of the wall clock must not delay the next look at the jobs. */
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += 10; /* then next_job() drops old jobs */
	pthread_cond_clockwait(&t->wake, &t->lock, CLOCK_MONOTONIC, &until);
}

static void *
stream_main(void *arg)
{
	struct transfer *t = arg;
	struct job *job;

	pthread_setname_np(pthread_self(), "transfer");
	sandbox_low_ports_done();
	pthread_mutex_lock(&t->lock);
	while (!atomic_load(&t->stop)) {
		if ((job = next_job(t)) == NULL) {
			wait_for_work(t);
			continue;
		}
		struct zone_hold version = zone_hold_share(&t->version);
		uint32_t serial = version_serial(&version, t->answers, job->zone);
		transfer_choose_kind(t, job, serial);
		job->running = true;
		job->version = t->number;
		pthread_mutex_unlock(&t->lock);
		bool whole = transfer_stream(t, job, &version);
		zone_hold_drop(&version);
		pthread_mutex_lock(&t->lock);
		atomic_fetch_add(whole ? &t->whole[job->kind] : &t->cut[job->kind], 1);
		if (whole)
			transfer_note_given(t, job, serial);
		end_job(t, job, whole);
		pthread_cond_broadcast(&t->wake); /* the client's next job can start */
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* --- the main thread --- */

/* Sends NOTIFY from the first address of each family that kubedns listens on, because secondaries
 * know that address. The addresses 0.0.0.0 and :: do not count. */
static void
choose_sources(const struct module_core *core, struct addr sources[2])
{
	static const struct addr any4 = { .family = AF_INET }, any6 = { .family = AF_INET6 };

	for (size_t i = 0; i < core->address_count; i++) {
		const struct addr *addr = &core->addresses[i];
		struct addr *source = &sources[addr->family == AF_INET6];

		if (source->family == AF_UNSPEC && !addr_equal(addr, &any4) &&
		    !addr_equal(addr, &any6))
			*source = *addr;
	}
}

struct transfer *
transfer_new(const struct transfer_rules *rules, const struct module_core *core)
{
	struct transfer *t = xcalloc(1, sizeof *t);

	t->rules = rules;
	t->answers = core->answers;
	t->cache = core->tree;
	TAILQ_INIT(&t->jobs);
	journal_init(&t->journal, rules->journal_bytes, zone_count(t->answers));
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->wake, NULL);
	t->wake_changes = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (t->wake_changes < 0)
		log_fatal("eventfd");
	struct notify_config config = { .servers = rules->notify,
		.count = rules->notify_count,
		.answers = t->answers,
		.counts = &t->counts };
	choose_sources(core, config.sources);
	if (rules->key_file != NULL)
		config.keys = t->keys = tsig_ring_new(&rules->keys);
	if (rules->notify_count > 0)
		t->notify = notify_new(&config);
	return t;
}

const char *
transfer_key_file(const struct transfer *t)
{
	return t->rules->key_file;
}

void
transfer_start(struct transfer *t)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (unsigned i = 0; i < STREAMS; i++)
		if ((errno = pthread_create(&t->threads[i], NULL, stream_main, t)) != 0)
			log_fatal("pthread_create");
	if ((errno = pthread_create(&t->changes, NULL, transfer_changes, t)) != 0)
		log_fatal("pthread_create");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	t->started = true;
}

static size_t
held_bytes(const struct transfer *t)
{
	return zones_held_bytes(t->answers, t->cache);
}

static void
wake_changes(const struct transfer *t)
{
	uint64_t one = 1;

	if (write(t->wake_changes, &one, sizeof one) < 0 && errno != EAGAIN)
		log_fatal("eventfd");
}

void
transfer_snapshot(struct transfer *t)
{
	struct zone_hold next = zones_hold(t->answers, t->cache);

	pthread_mutex_lock(&t->lock);
	struct zone_hold missed = t->next;
	t->next = next;
	if (held_bytes(t) > HELD_MAX)
		atomic_store(&t->cut_before, t->number + 1);
	pthread_mutex_unlock(&t->lock);
	zone_hold_drop(&missed);
	wake_changes(t);
}

/* Logs a mistake in the file once, and logs when the file is valid again. */
static void
note_key_file(struct transfer *t, bool failing, const char *why)
{
	if (failing && (t->keys_why == NULL || strcmp(t->keys_why, why) != 0)) {
		log_errorx(
		    "--transfer-key=%s: %s; keeping the previous keys", t->rules->key_file, why);
		free(t->keys_why);
		t->keys_why = xstrdup(why);
	} else if (!failing && t->keys_failing) {
		log_info("--transfer-key=%s: good again", t->rules->key_file);
		free(t->keys_why);
		t->keys_why = NULL;
	}
	t->keys_failing = failing;
}

void
transfer_read_keys(struct transfer *t)
{
	struct tsig_keys keys;
	char why[TSIG_WHY_MAX] = "";

	if (t->keys == NULL)
		return;
	bool good = tsig_keys_read(&keys, t->rules->key_file, why) == 0;
	note_key_file(t, !good, why);
	if (good && tsig_ring_set(t->keys, &keys))
		log_info("--transfer-key=%s: changed, %zu keys, used for NOTIFY and transfers from "
			 "now on",
		    t->rules->key_file, keys.count);
	explicit_bzero(&keys, sizeof keys);
}

static void
key_metrics(struct transfer *t, struct metrics *m)
{
	if (t->keys == NULL)
		return;
	metrics_family(
	    m, "kubedns_transfer_keys", METRIC_GAUGE, "Keys of --transfer-key in force.");
	metrics_value(m, (double)tsig_ring_count(t->keys), NULL);
	metrics_family(m, "kubedns_transfer_keys_failing", METRIC_GAUGE,
	    "1 while the file of --transfer-key cannot be used, so that its last good keys are in "
	    "force.");
	metrics_value(m, t->keys_failing, NULL);
}

void
transfer_metrics(struct transfer *t, struct metrics *m)
{
	static const char *const reasons[REFUSED_COUNT] = { [REFUSED_ADDRESS] = "address",
		[REFUSED_ZONE] = "zone",
		[REFUSED_QUEUE] = "queue",
		[REFUSED_MESSAGE] = "message",
		[REFUSED_KEY] = "key",
		[REFUSED_SIGNATURE] = "signature",
		[REFUSED_TIME] = "time" };

	metrics_family(m, "kubedns_transfers_total", METRIC_COUNTER, "Zone transfers that ended.");
	for (unsigned kind = KIND_AXFR; kind <= KIND_IXFR; kind++) {
		const char *name = kind == KIND_AXFR ? "AXFR" : "IXFR";

		metrics_value(
		    m, (double)atomic_load(&t->whole[kind]), "kind", name, "result", "whole", NULL);
		metrics_value(
		    m, (double)atomic_load(&t->cut[kind]), "kind", name, "result", "cut", NULL);
	}
	metrics_family(m, "kubedns_transfer_refused_total", METRIC_COUNTER,
	    "Requests for a zone transfer that were refused.");
	for (unsigned i = 0; i < REFUSED_COUNT; i++)
		metrics_value(m, (double)atomic_load(&t->refused[i]), "reason", reasons[i], NULL);
	metrics_family(
	    m, "kubedns_transfer_records_total", METRIC_COUNTER, "Records in zone transfers.");
	metrics_value(m, (double)atomic_load(&t->records), NULL);
	metrics_family(
	    m, "kubedns_transfer_bytes_total", METRIC_COUNTER, "Bytes sent in zone transfers.");
	metrics_value(m, (double)atomic_load(&t->bytes), NULL);
	metrics_family(m, "kubedns_notify_total", METRIC_COUNTER,
	    "NOTIFY messages to --transfer-notify, by result.");
	metrics_value(m, (double)atomic_load(&t->counts.sent), "result", "sent", NULL);
	metrics_value(m, (double)atomic_load(&t->counts.answered), "result", "answered", NULL);
	metrics_value(m, (double)atomic_load(&t->counts.failed), "result", "failed", NULL);
	metrics_family(m, "kubedns_transfer_held_bytes", METRIC_GAUGE,
	    "Bytes of replaced parts of the tree that running zone transfers still need.");
	metrics_value(m, (double)held_bytes(t), NULL);
	pthread_mutex_lock(&t->lock);
	size_t journal = t->journal.bytes;
	pthread_mutex_unlock(&t->lock);
	metrics_family(m, "kubedns_transfer_journal_bytes", METRIC_GAUGE,
	    "Memory of the changes that are kept for incremental transfers.");
	metrics_value(m, (double)journal, NULL);
	key_metrics(t, m);
}

void
transfer_stop(struct transfer *t)
{
	struct job *job;

	if (t == NULL)
		return;
	pthread_mutex_lock(&t->lock);
	atomic_store(&t->stop, true);
	TAILQ_FOREACH(job, &t->jobs, by_age)
	shutdown(job->fd, SHUT_RDWR); /* wakes a stream that waits for its client */
	pthread_cond_broadcast(&t->wake);
	pthread_mutex_unlock(&t->lock);
	wake_changes(t);
	for (unsigned i = 0; t->started && i < STREAMS; i++)
		pthread_join(t->threads[i], NULL);
	if (t->started)
		pthread_join(t->changes, NULL);
	t->started = false;
}

void
transfer_free(struct transfer *t)
{
	struct job *job;

	if (t == NULL)
		return;
	while ((job = TAILQ_FIRST(&t->jobs)) != NULL) {
		TAILQ_REMOVE(&t->jobs, job, by_age);
		close(job->fd);
		free(job);
	}
	journal_free(&t->journal);
	zone_hold_drop(&t->version);
	zone_hold_drop(&t->next);
	notify_free(t->notify);
	tsig_ring_free(t->keys);
	free(t->keys_why);
	close(t->wake_changes);
	pthread_cond_destroy(&t->wake);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* --- the change thread --- */

/*
 * The change thread turns the next version into the current one, and notifies the secondaries. The thread makes at most one version per
 * second. Therefore a server that responds gets at most one NOTIFY per second for a zone.
 */

enum { FD_WAKE, FD_NOTIFY, FD_COUNT = FD_NOTIFY + NOTIFY_FDS };

static void
wait_for_change(struct transfer *t, int64_t deadline_ms)
{
	struct pollfd fds[FD_COUNT] = { [FD_WAKE] = { .fd = t->wake_changes, .events = POLLIN } };
	uint64_t count;
	nfds_t used = FD_NOTIFY;

	if (t->notify != NULL) {
		notify_fds(t->notify, fds + FD_NOTIFY);
		used = FD_COUNT;
	}
	if (poll(fds, used, clock_wait_ms(deadline_ms, clock_mono_ms())) < 0 && errno != EINTR)
		log_fatal("poll");
	if (read(t->wake_changes, &count, sizeof count) < 0 && errno != EAGAIN)
		log_fatal("eventfd");
}

/* Takes the version that the main thread has passed. Returns false if there is none. */
static bool
take_next(struct transfer *t, struct zone_hold *next)
{
	pthread_mutex_lock(&t->lock);
	*next = t->next;
	t->next = (struct zone_hold){ NULL, NULL };
	pthread_mutex_unlock(&t->lock);
	return next->tree != NULL;
}

static bool
has_changed(struct change *const *changes, size_t count, size_t zone)
{
	for (size_t i = 0; i < count; i++)
		if (changes[i]->zone == zone)
			return true;
	return false;
}

/* Computes the changes between the current version and the next one. Returns false if they are unknown. */
static bool
find_changes(
    const struct transfer *t, const struct zone_hold *next, struct change ***changes, size_t *count)
{
	if (t->version.tree == NULL)
		return false;
	const struct zone_snapshots snapshots = { zone_hold_trees(&t->version),
		zone_hold_trees(next) };
	return changes_of(t->answers, &snapshots, t->journal.max, changes, count);
}

/* Makes the next version the current version. Adds its changes to the journal. If the changes are unknown, the journal starts again with
 * this version. */
static void
put_in_force(struct transfer *t, const struct zone_hold *next)
{
	struct change **changes = NULL;
	size_t count = 0;
	bool known = t->journal.max > 0 && find_changes(t, next, &changes, &count);

	pthread_mutex_lock(&t->lock);
	if (known)
		journal_add(&t->journal, changes, count);
	else
		journal_clear(&t->journal);
	for (size_t zone = 0; !known && zone < zone_count(t->answers); zone++)
		journal_begin(&t->journal, zone, version_serial(next, t->answers, zone));
	struct zone_hold before = t->version;
	t->version = *next;
	t->number++;
	pthread_cond_broadcast(&t->wake);
	pthread_mutex_unlock(&t->lock);
	for (size_t zone = 0; t->notify != NULL && zone < zone_count(t->answers); zone++) {
		if (version_has_zone(next, t->answers, zone) &&
		    (!known || has_changed(changes, count, zone)))
			notify_changed(t->notify, zone, version_serial(next, t->answers, zone));
	}
	free(changes);
	zone_hold_drop(&before);
}

static void *
transfer_changes(void *arg)
{
	struct transfer *t = arg;
	struct zone_hold next;
	int64_t due_ms = CLOCK_NEVER;

	pthread_setname_np(pthread_self(), "zone-changes");
	sandbox_low_ports_done();
	while (!atomic_load(&t->stop)) {
		wait_for_change(t, due_ms);
		if (take_next(t, &next))
			put_in_force(t, &next);
		due_ms =
		    t->notify == NULL ? CLOCK_NEVER : notify_iteration(t->notify, clock_mono_ms());
	}
	return NULL;
}
