/*
 * kubedns: the cluster's names, from the Kubernetes API or a directory of manifests, over DNS.
 *
 *	watch | manifests --events--> store --records--> treecache
 *	                  --snapshots--> workers --answers--> clients
 *
 * This thread sets up all parts, and then runs the loop (loop.c).
 */
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

#include "kubedns/api/api_source.h"
#include "kubedns/audit/audit.h"
#include "kubedns/cluster/store.h"
#include "kubedns/run/confine.h"
#include "kubedns/config/external_setup.h"
#include "kubedns/config/hosts_maps.h"
#include "kubedns/run/handover.h"
#include "kubedns/kubedns.h"
#include "kubedns/manifests/manifests.h"
#include "kubedns/pages/digest_page.h"
#include "kubedns/pages/query_log.h"
#include "kubedns/serve/upstream/forwarded_cache.h"
#include "kubedns/serve/observe/observers.h"
#include "kubedns/serve/observe/top_clients.h"
#include "kubedns/serve/worker.h"
#include "kubedns/config/settings.h"
#include "kubedns/show/explain.h"
#include "kubedns/show/zone.h"
#include "kubedns/config/wanted_namespaces.h"
#include "lib/clock.h"
#include "lib/http_ready.h"
#include "lib/confdir.h"
#include "lib/log.h"
#include "treecache/treecache.h"

enum { EXIT_STOPPED = 0, EXIT_FAILED = 1, EXIT_MISTAKE = 2 };

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
		.reverse_all_endpoints = o->reverse.all_endpoints,
		.endpoint_pod_names = o->zone.endpoint_pod_names,
		.client_pods = o->clients.pods != CLIENT_PODS_OFF,
		.visibility = o->clients.view.visibility,
		.visible_to_only = o->clients.visibility == VISIBILITY_VISIBLE_TO,
		.nearest = o->place.choice.nearest,
		.zonal = o->place.choice.zonal,
		.pod_places = o->clients.view.pod_places,
		.namespaces = o->source.wanted_namespaces,
		.namespace_labels = o->source.namespace_selector,
		.label = o->modules.wants.namespace_label };

	k->cache = treecache_new(random_seed());
	k->status.store = store_new(k->cache, &config);
	k->status.digest = digest_new(o);
	if (o->observe.explain_by_dns)
		explain_by_dns(&k->options.answers);
	k->status.external = external_setup_new(&k->options, k->status.store, random_seed());
	store_addresses(k->status.store, o->zone.ns_addrs, o->zone.ns_addr_count);
}

static int
start_http(struct kubedns *k)
{
	const struct options *o = &k->options;
	struct http_config config = { .address = o->observe.healthz_address,
		.port = (uint16_t)o->observe.healthz_port,
		.routes = status_routes,
		.changes = status_changes,
		.arg = &k->status,
		.debug_remote = o->observe.debug_remote };

	if (http_start(&k->http, &config) < 0)
		return EXIT_FAILED;
	if (o->observe.metrics_port == 0)
		return 0;
	status_metrics_routes(k->metrics_routes, o->observe.metrics_path);
	config.port = o->observe.metrics_port;
	config.routes = k->metrics_routes;
	config.changes = NULL;
	return http_start(&k->metrics, &config) < 0 ? EXIT_FAILED : 0;
}

/* The observers that read the workers' rings in the main thread. */
static const struct observer *const observer_table[] = { &top_clients_observer, &query_log_observer,
	NULL };

static void
start_observers(struct kubedns *k)
{
	struct status *s = &k->status;
	bool recorded = k->options.observe.recorder_bytes > 0;

	for (unsigned w = 0; recorded && w < workers_count(s->workers); w++)
		observers_add_ring(s->observers, workers_ring(s->workers, w));
	if (recorded) {
		s->top_clients = top_clients_new(random_seed(), clock_mono_ns());
		observers_set(s->observers, &top_clients_observer, s->top_clients);
	}
	s->query_log = query_log_new(recorded ? s->observers : NULL, s->store,
	    k->options.observe.wants_query_log ? &k->options.observe.query_log : NULL);
}

static int
open_workers(struct kubedns *k)
{
	const struct options *o = &k->options;

	k->core = (struct module_core){ .answers = &o->answers,
		.tree = k->cache,
		.addresses = o->listen.addrs,
		.address_count = o->listen.count };
	modules_open(&k->options.modules, &k->core);
	k->status.observers = observers_new(observer_table);
	struct workers_config config = { .address = o->listen.text,
		.port = (uint16_t)o->listen.port,
		.share_port = o->listen.share_port,
		.threads = (unsigned)o->limits.threads,
		.tcp_connections = (unsigned)o->limits.tcp_connections,
		.recorder_bytes = o->observe.recorder_bytes,
		.tcp_memory = o->limits.tcp_bytes,
		.forward_max = o->limits.in_flight,
		.whole_messages = o->modules.wants.messages,
		.module_counters = o->modules.counters,
		.listener = k->core.listener,
		.wake_observers = observers_fd(k->status.observers),
		.fair_share = o->clients.fair_share,
		.resolver = o->upstream.has_resolver ? &o->upstream.resolver : NULL,
		.servfail_retry = o->upstream.servfail_retry,
		.until_synced = o->upstream.until_synced.servers,
		.until_synced_count = o->upstream.until_synced.count,
		.search_resolver =
		    o->upstream.has_search_resolver ? &o->upstream.search_resolver : NULL,
		.tree = k->cache,
		.answers = &o->answers };

	if (*o->external.address_only != '\0') {
		config.second_address = o->external.address_only;
		config.second_port = o->external.address.port;
		config.second_answers = &o->external.answers;
		log_info("answering only the external zones on %s", o->external.address_text);
	}
	config.upstreams = settings_upstreams(k->status.settings, &config.upstream_count);
	if (o->upstream.answer_cache_bytes > 0)
		k->status.answer_cache =
		    forwarded_cache_new(o->upstream.answer_cache_bytes, random_seed());
	config.answer_cache = k->status.answer_cache;
	k->settings_read = settings_reads(k->status.settings);
	if (workers_open(&k->status.workers, &config) < 0)
		return EXIT_FAILED;
	k->core.workers = k->status.workers;
	if (o->listen.share_port)
		k->handover = handover_new(k->status.workers, config.resolver);
	start_observers(k);
	return 0;
}

static void
watch_options(const struct options *o, struct api_source_config *config)
{
	*config = (struct api_source_config){ .kubecfg_file = o->source.kubecfg_file,
		.master_url = o->source.master_url,
		.pods = o->zone.pods == PODS_VERIFIED || o->clients.pods != CLIENT_PODS_OFF,
		.visibility = o->clients.view.visibility,
		.pods_node = o->clients.pods == CLIENT_PODS_NODE ? o->source.node_name : NULL,
		.nodes = o->zone.federations.count > 0 || o->clients.view.pod_places,
		.places = o->place.choice.nearest || o->place.choice.zonal,
		.endpoint_pods = o->zone.endpoint_pod_names,
		.config_map = o->configmap.name,
		.config_map_namespace = o->configmap.namespace,
		.namespaces = (const char *const *)o->source.wanted_namespaces,
		.hosts_namespaces = (const char *const *)o->hosts.in_force,
		.namespace_labels = o->source.namespace_selector != NULL,
		.all_labels = o->modules.wants.namespace_label.key != NULL,
		.endpointslice_selector = o->source.endpointslice_selector,
		.external = o->external.zone_count > 0,
		.imports = o->clusterset.wanted,
		.headless_slices = o->source.node_role && !o->zone.ignore_empty_service &&
				   !o->reverse.all_endpoints && !o->clusterset.wanted &&
				   o->zone.federations.count == 0,
		.one_of_many = o->source.node_role,
		.no_api = *o->source.objects_dir != '\0' };
}

static int
start_source(struct kubedns *k)
{
	struct api_source_config config;

	watch_options(&k->options, &config);
	k->status.watch = api_source_new(&config, event_sink_take, hosts_sink_take, k);
	if (k->status.watch == NULL)
		return EXIT_MISTAKE;
	if (settings_has_federations(k->status.settings))
		api_source_want_federations(k->status.watch);
	if (k->options.source.audit && !config.no_api)
		k->status.audit = audit_new(k->status.store, event_sink_take, k);
	if (!config.no_api)
		return 0;
	k->status.manifests = manifests_new(k->options.source.objects_dir, event_sink_take, k);
	if (config.external)
		manifests_read_external(k->status.manifests);
	if (config.imports)
		manifests_read_imports(k->status.manifests);
	if (access(k->options.source.objects_dir, R_OK | X_OK) < 0)
		log_error("--objects-dir=%s: answering SERVFAIL until it can be read",
		    k->options.source.objects_dir);
	return 0;
}

/* Prepares everything that is needed before the first object can be handled. */
static void
prepare(struct kubedns *k)
{
	k->signal_fd = open_signals();
	k->started_ms = clock_mono_ms();
	k->next_period_ms = k->started_ms; /* the first iteration reads everything */
	status_init(&k->status);
	k->status.options = &k->options;
	make_store(k);
	k->status.cache = k->cache;
	k->status.namespaces =
	    wanted_namespaces_new(k->options.source.wanted_namespaces, k->options.hosts.in_force);
	if (k->options.hosts.in_force != NULL)
		k->status.hosts = hosts_maps_new(&k->options.answers, k->options.hosts.scopes,
		    k->options.hosts.namespaces.count);
	k->status.settings = settings_new(&k->options);
	settings_poll(k->status.settings, true);
	publish_settings(k);
	publish_iteration(k);
}

static int
run(struct kubedns *k)
{
	int rc;

	prepare(k);
	if ((rc = start_http(k)) != 0 || (rc = open_workers(k)) != 0 || (rc = start_source(k)) != 0)
		return rc;
	confine(&k->status, k->common.sandbox);
	modules_start(&k->options.modules, &k->core);
	workers_start(k->status.workers);
	loop_fill_fds(k);
	log_info("answering %s on %s port %u, %u threads%s", k->options.zone.domain,
	    k->options.listen.text, workers_port(k->status.workers),
	    workers_count(k->status.workers),
	    workers_held(k->status.workers)
		? ", after the first sync, because another kubedns has the port"
		: "");
	while (!k->stop)
		loop_iteration(k);
	return k->failed ? EXIT_FAILED : EXIT_STOPPED;
}

static void
stop(struct kubedns *k)
{
	modules_stop(&k->options.modules);
	handover_free(k->handover);
	workers_stop(k->status.workers);
	/* The query log and the modules read the last answers from the rings, which the workers own. */
	query_log_free(k->status.query_log);
	modules_stopped(&k->options.modules);
	workers_free(k->status.workers);
	observers_free(k->status.observers);
	free(k->status.top_clients);
	forwarded_cache_free(k->status.answer_cache);
	http_stop(k->http);
	http_stop(k->metrics);
	manifests_free(k->status.manifests);
	api_source_free(k->status.watch);
	audit_free(k->status.audit);
	store_free(k->status.store);
	external_setup_free(k->status.external);
	settings_free(k->status.settings);
	hosts_maps_free(k->status.hosts);
	wanted_namespaces_free(k->status.namespaces);
	treecache_free(k->cache);
	digest_free(k->status.digest);
	free(k->status.visibility);
	free(k->status.node_places);
	kubedns_options_free(&k->options, &k->common);
}

/* --check: reads everything and logs every mistake. */
static int
check(struct kubedns *k)
{
	struct api_source_config config;
	size_t mistakes = 0;

	k->status.settings = settings_new(&k->options);
	settings_poll(k->status.settings, true);
	mistakes += settings_mistakes(k->status.settings);
	if (flags_given(&k->common, "config-dir") &&
	    !confdir_check("--config-dir", k->options.configmap.dir))
		mistakes++;
	watch_options(&k->options, &config);
	if (config.no_api)
		mistakes +=
		    manifests_check(k->options.source.objects_dir, config.external, config.imports);
	else if (api_source_check(&config) < 0)
		mistakes++;
	sandbox_check(k->common.sandbox);
	log_info("%zu mistake%s", mistakes, mistakes == 1 ? "" : "s");
	return mistakes == 0 ? EXIT_STOPPED : EXIT_MISTAKE;
}

/* Whether all objects of this zone have been read. The cluster's zone does not wait for the kinds that
 * only external and clusterset zones use. The reverse zones do, because they have PTR records of
 * clusterset names. */
static bool
is_complete(const struct kubedns *k, size_t zone)
{
	return k->status.synced && (zone == 0 || api_source_external_ready(k->status.watch));
}

/* --print-zone: prints the source's objects as a zone, without serving the zone. */
static int
print_zone(struct kubedns *k)
{
	size_t zone;
	int rc;

	k->options.limits.drain_ms = 0; /* no drain, because there are no clients */
	prepare(k);
	if (zone_find(&k->options.answers, k->options.commands.print_zone, &zone) < 0)
		return EXIT_MISTAKE;
	if ((rc = start_source(k)) != 0)
		return rc;
	loop_fill_fds(k);
	while (!is_complete(k, zone) && !k->stop)
		loop_iteration(k);
	if (!is_complete(k, zone))
		return EXIT_FAILED;
	return zone_print(stdout, &k->options.answers, treecache_next(k->cache), zone) == 0
		   ? EXIT_STOPPED
		   : EXIT_FAILED;
}

/* --migrate was a flag of kubedns in 0.1.0. */
static int
say_where_migrate_is(const char *file)
{
	log_errorx("--migrate: moved to a separate program: run kubedns-migrate %s", file);
	return EXIT_MISTAKE;
}

static int
run_command(struct kubedns *k)
{
	if (k->common.check)
		return check(k);
	if (*k->options.commands.migrate != '\0')
		return say_where_migrate_is(k->options.commands.migrate);
	if (*k->options.commands.explain != '\0')
		return explain_ask(k->options.commands.explain, k->options.observe.healthz_address,
			   k->options.observe.healthz_port) == 0
			   ? EXIT_STOPPED
			   : EXIT_FAILED;
	if (k->options.commands.ready)
		return http_ready_ask((uint16_t)k->options.observe.healthz_port) == 0 ? EXIT_STOPPED
										      : EXIT_FAILED;
	return k->options.commands.wants_zone ? print_zone(k) : run(k);
}

/* Keeps the resident set close to the memory in use, because the pod's memory is limited. */
static void
limit_resident_memory(void)
{
	/* Transparent huge pages would add some 5 MB if the kernel always uses them. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
#ifdef MIMALLOC
	/* Makes mimalloc return free pages at once. By default, it returns them at a later
	 * allocation. After an object of a megabyte, there may be no allocation for hours. */
	mi_option_set_default(mi_option_purge_delay, 0);
#endif
}

int
main(int argc, char **argv)
{
	struct kubedns k = {
		.common = { .program = "kubedns",
		    .summary = "Kubernetes cluster DNS: names from the API, answers over DNS" },
		.drain = { .until_ms = CLOCK_NEVER }
	};
	int rc = EXIT_MISTAKE;

	limit_resident_memory();
	if (kubedns_options_read(&k.options, &k.common, argc, argv) == 0)
		rc = run_command(&k);
	stop(&k);
	return rc;
}
