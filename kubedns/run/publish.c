/*
 * Turns the events of the source (API or manifests) into the data that readers see. Objects go to
 * the store and to the external names. The ConfigMap goes to the settings. At the end of an
 * iteration, one publish shows all changes to readers: the active settings, the tree of cluster
 * names, and the tree of external zones. Replaced nodes are freed here too.
 */
#include <stdlib.h>

#include "kubedns/api/api_source.h"
#include "kubedns/cluster/store.h"
#include "kubedns/run/confine.h"
#include "kubedns/audit/audit.h"
#include "kubedns/config/external_setup.h"
#include "kubedns/config/hosts_maps.h"
#include "kubedns/kubedns.h"
#include "kubedns/manifests/manifests.h"
#include "kubedns/pages/digest_page.h"
#include "kubedns/serve/worker.h"
#include "kubedns/config/settings.h"
#include "kubedns/config/wanted_namespaces.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "treecache/treecache.h"

enum {
	/*
	 * Replaced nodes are freed at once if they have this size, otherwise after RECLAIM_MS
	 * without a change. A grace period twice interrupts every CPU on which a reader runs. These
	 * interrupts are much of the cost of a single change.
	 */
	RECLAIM_BYTES = 256 * 1024,
	RECLAIM_MS = 1000,
};

/* --- settings --- */

/* Makes a new answer_context. Readers get it with the next publish. */
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

/* --- events --- */

/* The event_sink. All objects except the ConfigMap go to the store. */
void
event_sink_take(void *arg, enum object_kind kind, enum event_type type, const struct object *object)
{
	struct kubedns *k = arg;
	const char *zone, *region;

	audit_event(k->status.audit, kind, type, object);
	wanted_namespaces_event(k->status.namespaces, type, object);
	if (kind != OBJECT_CONFIGMAP) {
		store_event(k->status.store, kind, type, object);
		external_setup_event(k->status.external, kind, type, object);
	} else if (k->status.manifests == NULL && object != NULL) {
		if (settings_config_map(k->status.settings, type == EVENT_DELETED ? NULL : object))
			publish_settings(k);
	}
	if (kind == OBJECT_CONFIGMAP && k->status.manifests == NULL && type == EVENT_SYNCED &&
	    settings_config_map_listed(k->status.settings))
		publish_settings(k);
	if (kind == OBJECT_NODE) {
		store_location(k->status.store, &zone, &region);
		if (settings_location(k->status.settings, zone, region))
			publish_settings(k);
	}
}

void
hosts_sink_take(void *arg, const char *namespace, enum event_type type, const struct object *object)
{
	struct kubedns *k = arg;

	hosts_maps_event(k->status.hosts, namespace, type, object);
}

/* --- trees --- */

static void
check_synced(struct kubedns *k)
{
	struct status *s = &k->status;

	if (s->synced)
		return;
	/* While the directory is missing, answers are SERVFAIL, not NXDOMAIN. */
	s->synced = s->manifests != NULL ? manifests_synced(s->manifests)
					 : s->watch != NULL && api_source_ready(s->watch);
	if (s->synced)
		log_info("synced after %lld ms: %zu services, %zu slices, %zu namespaces",
		    (long long)(clock_mono_ms() - k->started_ms),
		    store_count(s->store, OBJECT_SERVICE), store_count(s->store, OBJECT_SLICES),
		    store_count(s->store, OBJECT_NAMESPACE));
	else if (!s->sync_timed_out &&
		 clock_mono_ms() - k->started_ms > k->options.source.initial_sync_timeout_ms) {
		char *progress = api_source_status(s->watch, true);

		s->sync_timed_out = true;
		log_errorx("not synced after %lld ms; answering SERVFAIL, still trying: %s",
		    (long long)k->options.source.initial_sync_timeout_ms, progress);
		free(progress);
	}
}

/* Returns the bytes of both trees that were replaced and not freed yet. The next function frees them. */
static size_t
garbage(const struct kubedns *k)
{
	return treecache_garbage(k->cache) + external_setup_garbage(k->status.external);
}

static void
reclaim(struct kubedns *k)
{
	treecache_reclaim(k->cache);
	external_setup_reclaim(k->status.external);
}

/*
 * Returns the serial for a change that is made now, in Unix time. The serial continues to increase
 * even if the clock is set back. The serials of one process thus never decrease. The serials can
 * decrease after a restart, if the clock was set back by more than the duration of the restart.
 */
static uint32_t
serial_now(struct kubedns *k, int64_t wall_ns)
{
	int64_t now_ns = clock_mono_ns();

	if (wall_ns - now_ns > k->wall_ahead_ns)
		k->wall_ahead_ns = wall_ns - now_ns;
	return (uint32_t)((now_ns + k->wall_ahead_ns) / 1000000000);
}

/* With --visibility, replaces the table, which must match the namespaces of the same snapshot. */
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

/* With --nearest, replaces the table, which must match the node numbers of the same snapshot. */
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

/* Makes all changes of this iteration visible to readers at once. */
void
publish_iteration(struct kubedns *k)
{
	struct status *s = &k->status;
	struct api_source_version versions[API_SOURCE_VERSIONS_MAX];

	check_synced(k);
	if (s->synced && settings_families(s->settings, store_has_family(s->store, AF_INET),
			     store_has_family(s->store, AF_INET6)))
		publish_settings(k);
	if (clock_mono_ms() >= hosts_maps_due_ms(s->hosts))
		publish_context(k);
	/* Until the first sync, all answers are SERVFAIL, so only the settings are published. A tree
	 * that readers have not seen can be changed in place. */
	if (!s->synced && k->published_context)
		return;
	if (k->options.clients.view.visibility)
		renew_visibility(k);
	if (k->options.clients.view.pod_places)
		renew_places(k);
	int64_t now_ns = clock_wall_ns();
	uint32_t serial = serial_now(k, now_ns);
	if (k->snapshot_open && serial != k->snapshot_serial) {
		k->snapshot_open = false;
		modules_snapshot_complete(&k->options.modules);
	}
	bool changed = external_setup_publish(
	    s->external, serial, s->synced && api_source_external_ready(s->watch));
	if (changed) {
		s->publishes++;
		k->published_ms = clock_mono_ms();
	}
	digest_change(s->digest, k->cache);
	if (treecache_publish(k->cache, serial, s->synced)) {
		changed = true;
		status_published(s, now_ns);
		k->published_ms = clock_mono_ms();
		if (s->synced)
			wanted_namespaces_check(s->namespaces, s->store);
	}
	if (changed && s->synced && modules_take_snapshots(&k->options.modules)) {
		k->snapshot_open = true;
		k->snapshot_serial = serial;
	}
	digest_versions(
	    s->digest, versions, s->synced ? api_source_versions(s->watch, versions) : 0);
	k->published_context = true;
	if (garbage(k) >= RECLAIM_BYTES)
		reclaim(k);
}

int64_t
reclaim_due_ms(const struct kubedns *k)
{
	return garbage(k) == 0 ? CLOCK_NEVER : k->published_ms + RECLAIM_MS;
}

void
reclaim_when_quiet(struct kubedns *k)
{
	if (clock_mono_ms() >= reclaim_due_ms(k))
		reclaim(k);
}
