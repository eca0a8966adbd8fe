/*
 * The HTTP pages of kubedns about itself: health, readiness with reasons, metrics.
 */
#ifndef KUBEDNS_PAGES_STATUS_H
#define KUBEDNS_PAGES_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "kubedns/config/options.h"
#include "kubedns/cluster/store.h"
#include "lib/http.h"
#include "lib/metrics.h"

struct digest;
struct forwarded_cache;
struct external_setup;
struct manifests;
struct observers;
struct query_log;
struct top_clients;
struct settings;
struct wanted_namespaces;
struct api_source;
struct workers;

/* The parts of the running program that the pages show. main() owns all of them. */
struct status {
	const struct options *options;
	const struct treecache *cache;
	struct store *store;
	struct digest *digest;
	struct external_setup *external; /* NULL without --external-zones */
	struct settings *settings;
	struct hosts_maps *hosts; /* NULL without --hosts-namespaces */
	/* The active table. NULL if there is none yet, or without --nearest. */
	struct node_places *node_places;
	/* The active table. NULL if there is none yet, or without --visibility. */
	struct visibility *visibility;
	struct wanted_namespaces *namespaces;
	struct api_source *watch;
	struct audit *audit;                  /* NULL with --audit=off or without the API */
	struct manifests *manifests;          /* NULL without --objects-dir */
	struct forwarded_cache *answer_cache; /* NULL with --answer-cache=off */
	struct workers *workers;
	struct observers *observers;     /* the observers of the main thread */
	struct top_clients *top_clients; /* NULL with --recorder=off */
	struct query_log *query_log;
	bool synced; /* all required data has been received at least once */
	bool draining;
	bool sync_timed_out; /* the sync took longer than --initial-sync-timeout */
	uint64_t publishes;
	struct histogram programming[SERVICE_KIND_COUNT];
};

/* Sets up the histograms. */
void status_init(struct status *status);

/* Records the latency of the changes that the last publish made visible. `now_ns` is Unix time. */
void status_published(struct status *status, int64_t now_ns);

/* Routes of the health port and of the metrics port. The handlers' argument is the status. */
extern const struct http_route status_routes[], status_changes[];
void status_metrics_routes(struct http_route routes[2], const char *path);

#endif
