/*
 * kubedns: the cluster's names, from the Kubernetes API or a directory of manifests, over DNS.
 *
 *	watch | manifests --events--> store --records--> treecache
 *	                  --snapshots--> workers --answers--> clients
 *
 * This thread is the only writer of the tree. It waits in one place, watch_wait(), and publishes
 * the changes of a turn together.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>
#ifdef MIMALLOC
#include <mimalloc.h>
#if MI_MALLOC_VERSION < 210
#define mi_option_purge_delay mi_option_decommit_delay
#endif
#endif

#include "kubedns/confine.h"
#include "kubedns/manifests/manifests.h"
#include "kubedns/migrate/migrate.h"
#include "kubedns/options.h"
#include "kubedns/settings.h"
#include "kubedns/status.h"
#include "kubedns/wanted_namespaces.h"
#include "kubedns/cluster/store.h"
#include "kubedns/api/watch.h"
#include "kubedns/show/explain.h"
#include "kubedns/serve/worker.h"
#include "kubedns/show/zone.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "treecache/treecache.h"

enum { FD_SIGNAL, FD_CONFIG, FD_RESOLV, FD_OBJECTS, FD_HTTP, FD_METRICS, FD_COUNT };

enum { EXIT_STOPPED = 0, EXIT_FAILED = 1, EXIT_MISTAKE = 2 };

enum {
	/* Replaced nodes are freed at once when they hold this much, else after RECLAIM_MS without
	 * a change: the grace period interrupts twice every CPU that a reader runs on, which is a
	 * good part of the cost of a single change. */
	RECLAIM_BYTES = 256 * 1024,
	RECLAIM_MS = 1000,
};

struct kubedns {
	struct options options;
	struct flags_common common;
	struct treecache *cache;
	struct status status;
	struct http *http, *metrics;
	struct http_route metrics_routes[2];
	struct pollfd fds[FD_COUNT];
	int64_t started_ms, drain_until_ms, next_period_ms; /* monotonic; drain 0: not stopping */
	int64_t published_ms;                               /* the last time */
	int signal_fd;
	bool published_context; /* the settings in force */
	bool stop;
};

/* --- settings and events --- */

/* What answers need besides names: shown to readers by the next publish. */
static void
renew_context(struct kubedns *k)
{
	treecache_context(k->cache, settings_context(k->status.settings));
	k->published_context = false;
}

static void
apply_settings(struct kubedns *k)
{
	size_t count;
	const struct server *servers = settings_upstreams(k->status.settings, &count);

	renew_context(k);
	if (k->status.workers != NULL)
		workers_upstreams(k->status.workers, servers, count);
	confine_check_upstreams(k->status.settings);
	if (settings_has_federations(k->status.settings) && k->status.watch != NULL)
		watch_want_federations(k->status.watch);
}

/* The event_sink: all objects but the ConfigMap go to the store. */
static void
take_event(void *arg, enum object_kind kind, enum event_type type, const struct object *object)
{
	struct kubedns *k = arg;
	const char *zone, *region;

	wanted_namespaces_event(k->status.namespaces, type, object);
	if (kind != OBJECT_CONFIGMAP) {
		store_event(k->status.store, kind, type, object);
	} else if (k->status.manifests == NULL && object != NULL) {
		if (settings_config_map(k->status.settings, type == EVENT_DELETED ? NULL : object))
			apply_settings(k);
	}
	if (kind == OBJECT_NODE) {
		store_location(k->status.store, &zone, &region);
		if (settings_location(k->status.settings, zone, region))
			apply_settings(k);
	}
}

/* --- start --- */

static uint64_t
random_seed(void)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
		log_fatal("getrandom");
	return seed;
}

static int
open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		log_fatal("signals");
	int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		log_fatal("signalfd");
	return fd;
}

static void
make_store(struct kubedns *k)
{
	const struct options *o = &k->options;
	struct store_config config = { .records = { o->answers.zone, o->answers.ttl_s },
		.reverse_all_endpoints = o->reverse_all_endpoints,
		.endpoint_pod_names = o->endpoint_pod_names,
		.namespaces = o->wanted_namespaces,
		.namespace_labels = o->namespace_selector };

	k->cache = treecache_new(random_seed());
	k->status.store = store_new(k->cache, &config);
	store_addresses(k->status.store, o->ns_addrs, o->ns_addr_count);
}

static int
start_http(struct kubedns *k)
{
	const struct options *o = &k->options;
	struct http_config config = { .address = o->healthz_address,
		.port = (uint16_t)o->healthz_port,
		.routes = status_routes,
		.arg = &k->status,
		.debug_remote = o->debug_remote };

	if (http_start(&k->http, &config) < 0)
		return EXIT_FAILED;
	if (o->metrics_port == 0)
		return 0;
	status_metrics_routes(k->metrics_routes, o->metrics_path);
	config.port = o->metrics_port;
	config.routes = k->metrics_routes;
	return http_start(&k->metrics, &config) < 0 ? EXIT_FAILED : 0;
}

static int
open_workers(struct kubedns *k)
{
	const struct options *o = &k->options;
	struct workers_config config = { .address = o->address,
		.port = (uint16_t)o->port,
		.threads = (unsigned)o->threads,
		.tcp_connections = (unsigned)o->tcp_connections,
		.fair_share = o->fair_share,
		.resolver = o->has_resolver ? &o->resolver : NULL,
		.tree = k->cache,
		.answers = &o->answers };

	config.upstreams = settings_upstreams(k->status.settings, &config.upstream_count);
	return workers_open(&k->status.workers, &config) < 0 ? EXIT_FAILED : 0;
}

static void
watch_options(const struct options *o, struct watch_config *config)
{
	*config = (struct watch_config){ .kubecfg_file = o->kubecfg_file,
		.master_url = o->master_url,
		.pods = o->answers.pods == PODS_VERIFIED,
		.nodes = o->federations.count > 0,
		.endpoint_pods = o->endpoint_pod_names,
		.config_map = o->config_map,
		.config_map_namespace = o->config_map_namespace,
		.namespaces = (const char *const *)o->wanted_namespaces,
		.namespace_labels = o->namespace_selector != NULL,
		.endpointslice_selector = o->endpointslice_selector,
		.headless_slices = o->node_role && !o->ignore_empty_service &&
				   !o->reverse_all_endpoints && o->federations.count == 0,
		.one_of_many = o->node_role,
		.no_api = *o->objects_dir != '\0' };
}

static int
start_source(struct kubedns *k)
{
	struct watch_config config;

	watch_options(&k->options, &config);
	k->status.watch = watch_new(&config, take_event, k);
	if (k->status.watch == NULL)
		return EXIT_MISTAKE;
	if (settings_has_federations(k->status.settings))
		watch_want_federations(k->status.watch);
	if (!config.no_api)
		return 0;
	k->status.manifests = manifests_new(k->options.objects_dir, take_event, k);
	if (access(k->options.objects_dir, R_OK | X_OK) < 0)
		log_error("--objects-dir=%s: answering SERVFAIL until it can be read",
		    k->options.objects_dir);
	return 0;
}

static void
fill_fds(struct kubedns *k)
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

static void
take_signals(struct kubedns *k)
{
	struct signalfd_siginfo info;

	while (read(k->fds[FD_SIGNAL].fd, &info, sizeof info) == sizeof info) {
		if (k->drain_until_ms != 0) {
			log_info("second signal: stopping now");
			k->stop = true;
			return;
		}
		log_info("%s: not ready any more, answering for another %lld ms",
		    info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT",
		    (long long)k->options.drain_ms);
		k->status.draining = true;
		k->drain_until_ms = clock_mono_ms() + k->options.drain_ms;
		k->stop = k->options.drain_ms == 0;
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
					 : s->watch != NULL && watch_ready(s->watch);
	if (s->synced)
		log_info("synced after %lld ms: %zu services, %zu slices, %zu namespaces",
		    (long long)(clock_mono_ms() - k->started_ms),
		    store_count(s->store, OBJECT_SERVICE), store_count(s->store, OBJECT_SLICES),
		    store_count(s->store, OBJECT_NAMESPACE));
	else if (!s->sync_timed_out &&
		 clock_mono_ms() - k->started_ms > k->options.initial_sync_timeout_ms) {
		char *progress = watch_status(s->watch, true);
		s->sync_timed_out = true;
		log_errorx("not synced after %lld ms; answering SERVFAIL and trying on: %s",
		    (long long)k->options.initial_sync_timeout_ms, progress);
		free(progress);
	}
}

/* Makes all changes of this turn visible to readers at once. */
static void
publish(struct kubedns *k)
{
	struct status *s = &k->status;

	check_synced(k);
	if (s->synced && settings_families(s->settings, store_has_family(s->store, AF_INET),
			     store_has_family(s->store, AF_INET6)))
		apply_settings(k);
	/* Until the first sync only the settings are published: the answer is SERVFAIL, and a tree that
	 * has no readers is changed without copies. */
	if (!s->synced && k->published_context)
		return;
	int64_t now_ns = clock_wall_ns();
	if (treecache_publish(k->cache, (uint32_t)(now_ns / 1000000000), s->synced)) {
		status_published(s, now_ns);
		k->published_ms = clock_mono_ms();
		if (s->synced)
			wanted_namespaces_check(s->namespaces, s->store);
	}
	k->published_context = true;
	if (treecache_garbage(k->cache) >= RECLAIM_BYTES)
		treecache_reclaim(k->cache);
}

static int
least(int64_t a, int64_t b)
{
	int64_t less = a < 0 ? b : b < 0 || a < b ? a : b;

	return less > 60000 ? 60000 : (int)less;
}

static int
wait_ms(const struct kubedns *k)
{
	int64_t now = clock_mono_ms(), ms = k->next_period_ms - now;

	if (k->drain_until_ms != 0)
		ms = least(ms, k->drain_until_ms - now);
	if (!k->status.synced && !k->status.sync_timed_out)
		ms = least(ms, k->started_ms + k->options.initial_sync_timeout_ms - now + 1);
	if (treecache_garbage(k->cache) > 0 && k->published_ms + RECLAIM_MS - now < ms)
		ms = k->published_ms + RECLAIM_MS - now;
	ms = ms < 0 ? 0 : ms;
	if (k->http != NULL)
		ms = least(ms, http_timeout_ms(k->http));
	return k->metrics == NULL ? (int)ms : least(ms, http_timeout_ms(k->metrics));
}

static void
turn(struct kubedns *k)
{
	struct status *s = &k->status;
	watch_wait(s->watch, k->fds, FD_COUNT, wait_ms(k));
	bool period = clock_mono_ms() >= k->next_period_ms;

	if (period)
		k->next_period_ms = clock_mono_ms() + k->options.config_period_ms;
	if (k->fds[FD_SIGNAL].revents != 0)
		take_signals(k);
	if (k->drain_until_ms != 0 && clock_mono_ms() >= k->drain_until_ms)
		k->stop = true;
	watch_run(s->watch);
	if (s->manifests != NULL && (period || k->fds[FD_OBJECTS].revents != 0))
		manifests_run(s->manifests, period);
	if ((period || k->fds[FD_CONFIG].revents != 0 || k->fds[FD_RESOLV].revents != 0) &&
	    settings_poll(s->settings, period))
		apply_settings(k);
	if (settings_failing(s->settings, watch_failing_since_ms(s->watch), clock_mono_ms()))
		renew_context(k);
	publish(k);
	if (k->http != NULL)
		http_run(k->http);
	if (k->metrics != NULL)
		http_run(k->metrics);
	if (treecache_garbage(k->cache) > 0 && clock_mono_ms() - k->published_ms >= RECLAIM_MS)
		treecache_reclaim(k->cache);
}

/* All that is needed before the first object can be taken. */
static void
prepare(struct kubedns *k)
{
	k->signal_fd = open_signals();
	k->started_ms = clock_mono_ms();
	k->next_period_ms = k->started_ms; /* the first turn reads everything */
	status_init(&k->status);
	k->status.options = &k->options;
	make_store(k);
	k->status.cache = k->cache;
	k->status.namespaces = wanted_namespaces_new(k->options.wanted_namespaces);
	k->status.settings = settings_new(&k->options);
	settings_poll(k->status.settings, true);
	apply_settings(k);
	publish(k);
}

static int
run(struct kubedns *k)
{
	int rc;

	prepare(k);
	if ((rc = start_http(k)) != 0 || (rc = open_workers(k)) != 0 || (rc = start_source(k)) != 0)
		return rc;
	sandbox_enter(confine_needs(&k->status, k->common.sandbox), SANDBOX_KEEP_THREADS);
	workers_start(k->status.workers);
	fill_fds(k);
	log_info("answering %s on %s port %u, %u threads", k->options.domain, k->options.address,
	    workers_port(k->status.workers), workers_count(k->status.workers));
	while (!k->stop)
		turn(k);
	return EXIT_STOPPED;
}

static void
stop(struct kubedns *k)
{
	workers_stop(k->status.workers);
	http_stop(k->http);
	http_stop(k->metrics);
	manifests_free(k->status.manifests);
	watch_free(k->status.watch);
	store_free(k->status.store);
	settings_free(k->status.settings);
	wanted_namespaces_free(k->status.namespaces);
	treecache_free(k->cache);
	kubedns_options_free(&k->options, &k->common);
}

/* --check: reads everything and logs every mistake. */
static int
check(struct kubedns *k)
{
	struct watch_config config;
	size_t mistakes = 0;

	k->status.settings = settings_new(&k->options);
	settings_poll(k->status.settings, true);
	mistakes += settings_mistakes(k->status.settings);
	watch_options(&k->options, &config);
	if (config.no_api)
		mistakes += manifests_check(k->options.objects_dir);
	else if (watch_check(&config) < 0)
		mistakes++;
	sandbox_check(k->common.sandbox);
	log_info("%zu mistake%s", mistakes, mistakes == 1 ? "" : "s");
	return mistakes == 0 ? EXIT_STOPPED : EXIT_MISTAKE;
}

/* --print-zone: the source's objects as a zone, without serving it. */
static int
print_zone(struct kubedns *k)
{
	struct dname zone;
	int rc;

	if (zone_find(&k->options.answers, k->options.print_zone, &zone) < 0)
		return EXIT_MISTAKE;
	k->options.drain_ms = 0; /* nobody is being answered */
	prepare(k);
	if ((rc = start_source(k)) != 0)
		return rc;
	fill_fds(k);
	while (!k->status.synced && !k->stop)
		turn(k);
	if (!k->status.synced)
		return EXIT_FAILED;
	return zone_print(stdout, &k->options.answers, treecache_next(k->cache), &zone) == 0
		   ? EXIT_STOPPED
		   : EXIT_FAILED;
}

static int
act(struct kubedns *k)
{
	if (k->common.check)
		return check(k);
	if (*k->options.migrate != '\0')
		return migrate(k->options.migrate, stdout) == 0 ? EXIT_STOPPED : EXIT_MISTAKE;
	if (*k->options.explain != '\0')
		return explain_ask(k->options.explain, k->options.healthz_address,
			   k->options.healthz_port) == 0
			   ? EXIT_STOPPED
			   : EXIT_FAILED;
	return k->options.wants_zone ? print_zone(k) : run(k);
}

/* Keeps the resident set close to what is in use: the pod's memory is limited. */
static void
limit_resident_memory(void)
{
	/* Where transparent huge pages are always on they would add some 5 MB. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
#ifdef MIMALLOC
	/* Free pages are returned at once: mimalloc would do it at a later allocation, and after an
	 * object of a megabyte there may be none for hours. */
	mi_option_set_default(mi_option_purge_delay, 0);
#endif
}

int
main(int argc, char **argv)
{
	struct kubedns k = {
		.common = { .program = "kubedns",
		    .summary = "Kubernetes cluster DNS: names from the API, answers over DNS" }
	};
	int rc = EXIT_MISTAKE;

	limit_resident_memory();
	if (kubedns_options_read(&k.options, &k.common, argc, argv) == 0)
		rc = act(&k);
	stop(&k);
	return rc;
}
