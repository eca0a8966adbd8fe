/*
 * What the main thread has learned in a turn becomes what readers see: the settings in force, the
 * tree of cluster names and that of the external zones, all with one publish. The replaced nodes are
 * freed here too.
 */
#include <stdlib.h>

#include "kubedns/api/api_source.h"
#include "kubedns/cluster/store.h"
#include "kubedns/run/confine.h"
#include "kubedns/config/external_setup.h"
#include "kubedns/config/hosts_maps.h"
#include "kubedns/kubedns.h"
#include "kubedns/manifests/manifests.h"
#include "kubedns/serve/worker.h"
#include "kubedns/config/settings.h"
#include "kubedns/transfer/transfer.h"
#include "kubedns/config/wanted_namespaces.h"
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

/* --- settings --- */

/* Renews the answer_context; readers get it with the next publish. */
void
publish_context(struct kubedns *k)
{
	settings_settle(k->status.settings, k->status.hosts, clock_mono_ms());
	struct answer_context *context = settings_context(k->status.settings);

	context->visibility = k->status.visibility;
	context->places = k->status.node_places;
	treecache_context(k->cache, context);
	k->published_context = false;
}

void
publish_settings(struct kubedns *k)
{
	size_t count;
	const struct server *servers = settings_upstreams(k->status.settings, &count);

	publish_context(k);
	if (k->status.workers != NULL)
		workers_upstreams(k->status.workers, servers, count);
	confine_check_upstreams(k->status.settings);
	if (settings_has_federations(k->status.settings) && k->status.watch != NULL)
		api_source_want_federations(k->status.watch);
}

/* --- trees --- */

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
	publish_context(k);
}

/* With --nearest: the table fits the nodes' numbers of the same snapshot. */
static void
renew_places(struct kubedns *k)
{
	struct node_places *renewed = store_node_places(k->status.store);

	if (renewed == NULL)
		return;
	treecache_retire(k->cache, k->status.node_places);
	k->status.node_places = renewed;
	publish_context(k);
}

/* Makes all changes of this turn visible to readers at once. */
void
publish_turn(struct kubedns *k)
{
	struct status *s = &k->status;

	check_synced(k);
	if (s->synced && settings_families(s->settings, store_has_family(s->store, AF_INET),
			     store_has_family(s->store, AF_INET6)))
		publish_settings(k);
	if (hosts_maps_wait_ms(s->hosts, clock_mono_ms()) == 0)
		publish_context(k);
	/* Until the first sync only the settings are published: all answers are SERVFAIL, and a
	 * tree that readers have not seen is changed in place. */
	if (!s->synced && k->published_context)
		return;
	if (k->options.answers.visibility)
		renew_visibility(k);
	if (k->options.answers.pod_places)
		renew_places(k);
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

int64_t
reclaim_wait_ms(const struct kubedns *k, int64_t now_ms)
{
	int64_t due_ms = k->published_ms + RECLAIM_MS;

	if (garbage(k) == 0)
		return -1;
	return due_ms > now_ms ? due_ms - now_ms : 0;
}

void
reclaim_when_quiet(struct kubedns *k)
{
	if (reclaim_wait_ms(k, clock_mono_ms()) == 0)
		reclaim(k);
}
