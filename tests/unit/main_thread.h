/*
 * The state of the main thread for a test. It is set up as in main.c, but without sockets, workers
 * and a source of objects. The test sends the events and runs the iterations itself.
 */
#ifndef TESTS_UNIT_MAIN_THREAD_H
#define TESTS_UNIT_MAIN_THREAD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kubedns/config/hosts_maps.h"
#include "kubedns/config/settings.h"
#include "kubedns/config/wanted_namespaces.h"
#include "kubedns/kubedns.h"
#include "kubedns/pages/digest_page.h"
#include "lib/clock.h"
#include "lib/rcu.h"
#include "treecache/treecache.h"

/* Makes the state before the first sync, with the zone cluster.local. `wanted` is the list of
 * --namespaces and ends with NULL. If `wanted` is NULL, all namespaces are wanted. `visibility` is
 * the value of --visibility. Free the state with main_thread_free(). */
static inline struct kubedns *
main_thread_new(char *const *wanted, bool visibility)
{
	static char none[1];
	struct kubedns *k = calloc(1, sizeof *k);
	struct options *o = &k->options;

	k->drain.until_ms = CLOCK_NEVER;
	o->zone.domain = o->configmap.dir = none;
	o->configmap.name = o->configmap.namespace = none;
	o->source.endpointslice_selector = o->source.namespace_labels = none;
	o->answers.ttl_s = 30;
	o->clients.view.visibility = visibility;
	o->source.initial_sync_timeout_ms = 60000;
	assert_int_equal(dname_from_text(&o->answers.zone, "cluster.local."), 0);
	k->cache = treecache_new(3);
	k->status.options = o;
	k->status.cache = k->cache;
	status_init(&k->status);
	const struct store_config config = { .records = { .zone = o->answers.zone, .ttl_s = 30 },
		.visibility = visibility };
	k->status.store = store_new(k->cache, &config);
	k->status.namespaces = wanted_namespaces_new(wanted, NULL);
	k->status.settings = settings_new(o);
	k->status.digest = digest_new(o);
	k->started_ms = clock_mono_ms();
	publish_settings(k);
	return k;
}

static inline void
main_thread_free(struct kubedns *k)
{
	store_free(k->status.store);
	settings_free(k->status.settings);
	digest_free(k->status.digest);
	hosts_maps_free(k->status.hosts);
	wanted_namespaces_free(k->status.namespaces);
	treecache_free(k->cache);
	free(k->status.visibility);
	free(k);
}

/* Runs one iteration of the main thread. Returns how often it published a tree. */
static inline uint64_t
iterate(struct kubedns *k)
{
	uint64_t before = k->status.publishes;

	publish_iteration(k);
	return k->status.publishes - before;
}

/* Sends an event of a Service in the namespace `shop` with this ClusterIP. */
static inline void
service_event(struct kubedns *k, enum event_type type, const char *name, const char *address)
{
	struct object object = { .kind = OBJECT_SERVICE,
		.namespace = "shop",
		.name = name,
		.resource_version = "1",
		.service = { .type = SERVICE_CLUSTERIP, .external_name = "", .addr_count = 1 } };

	assert_int_equal(addr_parse(address, &object.service.addrs[0]), 0);
	event_sink_take(k, OBJECT_SERVICE, type, &object);
}

static inline void
namespace_event(struct kubedns *k, enum event_type type, const char *name)
{
	struct object object = {
		.kind = OBJECT_NAMESPACE, .namespace = "", .name = name, .resource_version = ""
	};

	event_sink_take(k, OBJECT_NAMESPACE, type, &object);
}

/* Sends an event of the ConfigMap with one key, or without keys if `value` is NULL. */
static inline void
config_map_event(struct kubedns *k, enum event_type type, const char *key, const char *value)
{
	struct object_key_value data = { key, value, value == NULL ? 0 : strlen(value) };
	struct object object = { .kind = OBJECT_CONFIGMAP,
		.namespace = "kube-system",
		.name = "kube-dns",
		.resource_version = "",
		.data = &data,
		.data_count = value != NULL };

	event_sink_take(k, OBJECT_CONFIGMAP, type, &object);
}

/* The setup of a cmocka test: the state after the first sync. */
static inline int
main_thread_begin_synced(void **state)
{
	struct kubedns *k = main_thread_new(NULL, false);

	k->status.synced = true;
	publish_iteration(k);
	*state = k;
	return 0;
}

/* The teardown of a cmocka test. */
static inline int
main_thread_end(void **state)
{
	main_thread_free(*state);
	return 0;
}

/* Returns the settings of the tree that the main thread changes. */
static inline const struct answer_context *
context(const struct kubedns *k)
{
	return treecache_next(k->cache)->context;
}

/* Returns the newest tree that readers see. The test must have called rcu_join(). */
static inline struct tree
seen(const struct kubedns *k)
{
	rcu_enter();
	struct tree tree = *tree_current(k->cache);
	rcu_leave();
	return tree;
}

/* Returns whether readers see this name below the zone, such as "web.shop.svc". */
static inline bool
readers_see(const struct kubedns *k, const char *text)
{
	struct dname name;

	assert_int_equal(dname_from_text(&name, text), 0);
	rcu_enter();
	bool found = tree_find(tree_current(k->cache), name.wire) != NULL;
	rcu_leave();
	return found;
}

#endif
