/*
 * The main thread's loop: the only writer of the tree. It waits in one place, api_source_wait(), and
 * publishes the changes of a turn together.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "kubedns/api/api_source.h"
#include "kubedns/cluster/store.h"
#include "kubedns/confine.h"
#include "kubedns/external_setup.h"
#include "kubedns/handover.h"
#include "kubedns/kubedns.h"
#include "kubedns/manifests/manifests.h"
#include "kubedns/query_log.h"
#include "kubedns/serve/forwarded_cache.h"
#include "kubedns/serve/worker.h"
#include "kubedns/settings.h"
#include "kubedns/transfer/transfer.h"
#include "kubedns/wanted_namespaces.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "treecache/treecache.h"

enum {
	/* Replaced nodes are freed at once when they amount to this much, else after RECLAIM_MS
	 * without a change: a grace period interrupts every CPU that a reader runs on twice, which
	 * is much of the cost of a single change. */
	RECLAIM_BYTES = 256 * 1024,
	RECLAIM_MS = 1000,
};

/* --- settings and events --- */

/* Renews the answer_context; readers get it with the next publish. */
static void
renew_context(struct kubedns *k)
{
	struct answer_context *context = settings_context(k->status.settings);

	context->visibility = k->status.visibility;
	treecache_context(k->cache, context);
	k->published_context = false;
}

void
loop_apply_settings(struct kubedns *k)
{
	size_t count;
	const struct server *servers = settings_upstreams(k->status.settings, &count);

	renew_context(k);
	if (k->status.workers != NULL)
		workers_upstreams(k->status.workers, servers, count);
	confine_check_upstreams(k->status.settings);
	if (settings_has_federations(k->status.settings) && k->status.watch != NULL)
		api_source_want_federations(k->status.watch);
}

/* The event_sink: all objects but the ConfigMap go to the store. */
void
loop_take_event(void *arg, enum object_kind kind, enum event_type type, const struct object *object)
{
	struct kubedns *k = arg;
	const char *zone, *region;

	wanted_namespaces_event(k->status.namespaces, type, object);
	if (kind != OBJECT_CONFIGMAP) {
		store_event(k->status.store, kind, type, object);
		external_names_event(k->status.external, kind, type, object);
	} else if (k->status.manifests == NULL && object != NULL) {
		if (settings_config_map(k->status.settings, type == EVENT_DELETED ? NULL : object))
			loop_apply_settings(k);
	}
	if (kind == OBJECT_NODE) {
		store_location(k->status.store, &zone, &region);
		if (settings_location(k->status.settings, zone, region))
			loop_apply_settings(k);
	}
}

void
loop_fill_fds(struct kubedns *k)
{
	const struct status *s = &k->status;
	const int fds[FD_COUNT] = { [FD_SIGNAL] = k->signal_fd,
		[FD_CONFIG] = settings_fd(s->settings),
		[FD_RESOLV] = settings_resolv_fd(s->settings),
		[FD_OBJECTS] = s->manifests == NULL ? -1 : manifests_fd(s->manifests),
		[FD_HTTP] = k->http == NULL ? -1 : http_fd(k->http),
		[FD_METRICS] = k->metrics == NULL ? -1 : http_fd(k->metrics) };

	for (unsigned i = 0; i < FD_COUNT; i++)
		k->fds[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
}

/* --- the loop --- */

/* How many questions the workers have read, and whether one waits for another server. */
static uint64_t
questions(const struct kubedns *k, bool *in_flight)
{
	struct stats stats = { 0 };
	uint64_t sum = 0;

	*in_flight = false;
	if (k->status.workers == NULL)
		return 0;
	workers_stats(k->status.workers, &stats);
	for (unsigned system = 0; system < SYSTEM_COUNT; system++)
		sum += stats.systems[system];
	*in_flight = stats.forward_in_flight > 0;
	return sum;
}

static void
begin_drain(struct kubedns *k, const char *signal)
{
	const struct options *o = &k->options;
	bool in_flight;

	if (o->drain_quiet_ms > 0)
		log_info("%s: not ready any more, answering until no question has come for %lld "
			 "ms, for another %lld ms at most",
		    signal, (long long)o->drain_quiet_ms, (long long)o->drain_ms);
	else
		log_info("%s: not ready any more, answering for another %lld ms", signal,
		    (long long)o->drain_ms);
	k->status.draining = true;
	drain_begin(
	    &k->drain, clock_mono_ms(), o->drain_ms, o->drain_quiet_ms, questions(k, &in_flight));
}

static void
check_drain(struct kubedns *k)
{
	bool in_flight;
	uint64_t count = questions(k, &in_flight);

	k->stop |= drain_over(&k->drain, clock_mono_ms(), count, in_flight);
}

static void
take_signals(struct kubedns *k)
{
	struct signalfd_siginfo info;

	while (read(k->fds[FD_SIGNAL].fd, &info, sizeof info) == sizeof info) {
		if (k->status.draining) {
			log_info("second signal: stopping now");
			k->stop = true;
			return;
		}
		begin_drain(k, info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
	}
}

static void
check_synced(struct kubedns *k)
{
	struct status *s = &k->status;

	if (s->synced)
		return;
	/* While the directory is missing the answer is SERVFAIL, not NXDOMAIN. */
	s->synced = s->manifests != NULL ? manifests_synced(s->manifests)
					 : s->watch != NULL && api_source_ready(s->watch);
	if (s->synced)
		log_info("synced after %lld ms: %zu services, %zu slices, %zu namespaces",
		    (long long)(clock_mono_ms() - k->started_ms),
		    store_count(s->store, OBJECT_SERVICE), store_count(s->store, OBJECT_SLICES),
		    store_count(s->store, OBJECT_NAMESPACE));
	else if (!s->sync_timed_out &&
		 clock_mono_ms() - k->started_ms > k->options.initial_sync_timeout_ms) {
		char *progress = api_source_status(s->watch, true);
		s->sync_timed_out = true;
		log_errorx("not synced after %lld ms; answering SERVFAIL and trying on: %s",
		    (long long)k->options.initial_sync_timeout_ms, progress);
		free(progress);
	}
}

/* Bytes of both trees that were replaced and not yet freed; and frees them. */
static size_t
garbage(const struct kubedns *k)
{
	return treecache_garbage(k->cache) + external_names_garbage(k->status.external);
}

static void
reclaim(struct kubedns *k)
{
	treecache_reclaim(k->cache);
	external_names_reclaim(k->status.external);
}

/*
 * The serial of a change that is made now: the Unix second, which goes on counting when the clock is
 * set back: serials of one process never go back. After a restart they can, if the clock was set
 * back by more than the restart took.
 */
static uint32_t
serial_now(struct kubedns *k, int64_t wall_ns)
{
	int64_t now_ns = clock_mono_ns();

	if (wall_ns - now_ns > k->wall_ahead_ns)
		k->wall_ahead_ns = wall_ns - now_ns;
	return (uint32_t)((now_ns + k->wall_ahead_ns) / 1000000000);
}

/* With --visibility: the table fits the namespaces of the same snapshot. */
static void
renew_visibility(struct kubedns *k)
{
	struct visibility *renewed = store_visibility(k->status.store);

	if (renewed == NULL)
		return;
	treecache_retire(k->cache, k->status.visibility);
	k->status.visibility = renewed;
	renew_context(k);
}

/* Makes all changes of this turn visible to readers at once. */
void
loop_publish(struct kubedns *k)
{
	struct status *s = &k->status;

	check_synced(k);
	if (s->synced && settings_families(s->settings, store_has_family(s->store, AF_INET),
			     store_has_family(s->store, AF_INET6)))
		loop_apply_settings(k);
	/* Until the first sync only the settings are published: all answers are SERVFAIL, and a
	 * tree that readers have not seen is changed in place. */
	if (!s->synced && k->published_context)
		return;
	if (k->options.answers.visibility)
		renew_visibility(k);
	int64_t now_ns = clock_wall_ns();
	uint32_t serial = serial_now(k, now_ns);
	if (s->transfer != NULL)
		transfer_turn(s->transfer, serial);
	if (external_names_publish(
		s->external, serial, s->synced && api_source_external_ready(s->watch))) {
		s->publishes++;
		k->published_ms = clock_mono_ms();
	}
	if (treecache_publish(k->cache, serial, s->synced)) {
		status_published(s, now_ns);
		k->published_ms = clock_mono_ms();
		if (s->workers != NULL)
			workers_published(s->workers);
		if (s->synced)
			wanted_namespaces_check(s->namespaces, s->store);
	}
	k->published_context = true;
	if (garbage(k) >= RECLAIM_BYTES)
		reclaim(k);
}

static int
least(int64_t a, int64_t b)
{
	int64_t less = a < 0 ? b : b < 0 || a < b ? a : b;

	return less > 60000 ? 60000 : (int)less;
}

/* How much of the second that serials come from is over. */
static int64_t
now_in_second_ms(const struct kubedns *k)
{
	return (clock_mono_ns() + k->wall_ahead_ns) % 1000000000 / 1000000;
}

static int
wait_ms(const struct kubedns *k)
{
	int64_t now = clock_mono_ms(), ms = k->next_period_ms - now;

	ms = least(ms, drain_wait_ms(&k->drain, now));
	if (!k->status.synced && !k->status.sync_timed_out)
		ms = least(ms, k->started_ms + k->options.initial_sync_timeout_ms - now + 1);
	ms = least(ms, handover_wait_ms(k->handover, now));
	if (garbage(k) > 0 && k->published_ms + RECLAIM_MS - now < ms)
		ms = k->published_ms + RECLAIM_MS - now;
	/* The next second begins within one. */
	if (k->status.transfer != NULL && transfer_waits(k->status.transfer))
		ms = least(ms, 1000 - (now_in_second_ms(k)));
	if (k->status.query_log != NULL)
		ms = least(ms, query_log_wait_ms(k->status.query_log));
	ms = ms < 0 ? 0 : ms;
	if (k->http != NULL)
		ms = least(ms, http_timeout_ms(k->http));
	return k->metrics == NULL ? (int)ms : least(ms, http_timeout_ms(k->metrics));
}

/* Answers from before a change of the configuration end with it. */
static void
flush_answers(struct kubedns *k)
{
	uint64_t reads = settings_reads(k->status.settings);

	if (reads != k->settings_read && k->status.answer_cache != NULL)
		forwarded_cache_flush(k->status.answer_cache, clock_mono_ns());
	k->settings_read = reads;
}

void
loop_turn(struct kubedns *k)
{
	struct status *s = &k->status;
	api_source_wait(s->watch, k->fds, FD_COUNT, wait_ms(k));
	bool period = clock_mono_ms() >= k->next_period_ms;

	if (period)
		k->next_period_ms = clock_mono_ms() + k->options.config_period_ms;
	if (k->fds[FD_SIGNAL].revents != 0)
		take_signals(k);
	if (k->status.draining)
		check_drain(k);
	api_source_run(s->watch);
	if (s->manifests != NULL && (period || k->fds[FD_OBJECTS].revents != 0))
		manifests_run(s->manifests, period);
	if ((period || k->fds[FD_CONFIG].revents != 0 || k->fds[FD_RESOLV].revents != 0) &&
	    settings_poll(s->settings, period))
		loop_apply_settings(k);
	if (settings_failing(s->settings, api_source_failing_since_ms(s->watch), clock_mono_ms()))
		renew_context(k);
	loop_publish(k);
	flush_answers(k);
	if (s->query_log != NULL)
		query_log_turn(s->query_log);
	if (k->http != NULL)
		http_run(k->http);
	if (k->metrics != NULL)
		http_run(k->metrics);
	if (handover_turn(k->handover, s->synced, s->draining, clock_mono_ms()) < 0)
		k->stop = k->failed = true;
	if (garbage(k) > 0 && clock_mono_ms() - k->published_ms >= RECLAIM_MS)
		reclaim(k);
}
