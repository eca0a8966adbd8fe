/*
 * The loop of the main thread, which is the only writer of the tree. It waits in one place,
 * api_source_wait(), and ends each iteration with a publish.
 */
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "kubedns/config/hosts_maps.h"
#include "kubedns/api/api_source.h"
#include "kubedns/audit/audit.h"
#include "kubedns/run/handover.h"
#include "kubedns/kubedns.h"
#include "kubedns/manifests/manifests.h"
#include "kubedns/pages/query_log.h"
#include "kubedns/serve/upstream/forwarded_cache.h"
#include "kubedns/serve/observe/observers.h"
#include "kubedns/serve/worker.h"
#include "kubedns/config/settings.h"
#include "lib/clock.h"
#include "lib/log.h"

void
loop_fill_fds(struct kubedns *k)
{
	const struct status *s = &k->status;
	const int fds[FD_COUNT] = { [FD_SIGNAL] = k->signal_fd,
		[FD_CONFIG] = settings_fd(s->settings),
		[FD_RESOLV] = settings_resolv_fd(s->settings),
		[FD_OBJECTS] = s->manifests == NULL ? -1 : manifests_fd(s->manifests),
		[FD_HTTP] = k->http == NULL ? -1 : http_fd(k->http),
		[FD_OBSERVE] = s->observers == NULL ? -1 : observers_fd(s->observers),
		[FD_METRICS] = k->metrics == NULL ? -1 : http_fd(k->metrics) };

	for (unsigned i = 0; i < FD_COUNT; i++)
		k->fds[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
}

/* --- the loop --- */

/* Returns the number of queries that the workers have read. Sets `*in_flight` to whether a query is
 * waiting for another server. */
static uint64_t
questions(const struct kubedns *k, bool *in_flight)
{
	struct stats stats = { 0 };
	uint64_t sum = 0;

	*in_flight = false;
	if (k->status.workers == NULL)
		return 0;
	workers_stats(k->status.workers, &stats, 0);
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

	if (o->limits.drain_quiet_ms > 0)
		log_info("%s: shutting down: answering until no query has come for %lld ms, for at "
			 "most %lld ms",
		    signal, (long long)o->limits.drain_quiet_ms, (long long)o->limits.drain_ms);
	else
		log_info("%s: shutting down: answering for another %lld ms", signal,
		    (long long)o->limits.drain_ms);
	k->status.draining = true;
	drain_begin(&k->drain, clock_mono_ms(), o->limits.drain_ms, o->limits.drain_quiet_ms,
	    questions(k, &in_flight));
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

/* Returns how many milliseconds of the current second have passed, by the clock for serials. */
static int64_t
now_in_second_ms(const struct kubedns *k)
{
	return (clock_mono_ns() + k->wall_ahead_ns) % 1000000000 / 1000000;
}

/* Returns the next time at which the loop has something to do, even if no event arrives. */
static int64_t
next_deadline_ms(const struct kubedns *k)
{
	int64_t now = clock_mono_ms(), next = k->next_period_ms;

	next = clock_earlier(next, drain_due_ms(&k->drain, now));
	if (!k->status.synced && !k->status.sync_timed_out)
		next = clock_earlier(
		    next, k->started_ms + k->options.source.initial_sync_timeout_ms + 1);
	next = clock_earlier(next, audit_due_ms(k->status.audit));
	next = clock_earlier(next, handover_due_ms(k->handover));
	next = clock_earlier(next, reclaim_due_ms(k));
	next = clock_earlier(next, hosts_maps_due_ms(k->status.hosts));
	/* The next second starts within one second. */
	if (k->snapshot_open)
		next = clock_earlier(next, now + 1000 - now_in_second_ms(k));
	if (k->status.query_log != NULL)
		next = clock_earlier(next, query_log_due_ms(k->status.query_log));
	if (k->http != NULL)
		next = clock_earlier(next, http_due_ms(k->http));
	return k->metrics == NULL ? next : clock_earlier(next, http_due_ms(k->metrics));
}

/* Removes cached answers that are older than a change of the configuration. */
static void
flush_answers(struct kubedns *k)
{
	uint64_t reads = settings_reads(k->status.settings);

	if (reads != k->settings_read && k->status.answer_cache != NULL)
		forwarded_cache_flush(k->status.answer_cache, clock_mono_ns());
	k->settings_read = reads;
}

void
loop_iteration(struct kubedns *k)
{
	struct status *s = &k->status;

	api_source_wait(s->watch, k->fds, FD_COUNT, next_deadline_ms(k));
	bool period = clock_mono_ms() >= k->next_period_ms;

	if (period)
		k->next_period_ms = clock_mono_ms() + k->options.configmap.period_ms;
	if (k->fds[FD_SIGNAL].revents != 0)
		take_signals(k);
	if (k->status.draining)
		check_drain(k);
	api_source_run(s->watch);
	audit_run(s->audit, s->watch, clock_mono_ms());
	if (s->manifests != NULL && (period || k->fds[FD_OBJECTS].revents != 0))
		manifests_run(s->manifests, period);
	if ((period || k->fds[FD_CONFIG].revents != 0 || k->fds[FD_RESOLV].revents != 0) &&
	    settings_poll(s->settings, period))
		publish_settings(k);
	if (period)
		modules_period(&k->options.modules);
	if (settings_failing(s->settings, api_source_failing_since_ms(s->watch), clock_mono_ms()))
		publish_context(k);
	publish_iteration(k);
	flush_answers(k);
	if (k->fds[FD_OBSERVE].revents != 0)
		observers_drain(s->observers);
	if (s->query_log != NULL)
		query_log_iteration(s->query_log);
	if (k->http != NULL)
		http_run(k->http);
	if (k->metrics != NULL)
		http_run(k->metrics);
	if (handover_iteration(k->handover, s->synced, s->draining, clock_mono_ms()) < 0)
		k->stop = k->failed = true;
	reclaim_when_quiet(k);
}
