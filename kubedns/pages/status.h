/*
 * kubedns's HTTP pages about itself: health, readiness with reasons, metrics.
 */
#ifndef KUBEDNS_PAGES_STATUS_H
#define KUBEDNS_PAGES_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "kubedns/config/options.h"
#include "kubedns/cluster/store.h"
#include "lib/http.h"
#include "lib/metrics.h"

struct forwarded_cache;
struct dnstap;
struct external_names;
struct manifests;
struct observers;
struct query_log;
struct top_clients;
struct settings;
struct wanted_namespaces;
struct api_source;
struct transfer;
struct workers;

/* The parts of the running program that are shown; main owns them all. */
struct status {
	const struct options *options;
	const struct treecache *cache;
	struct store *store;
	struct external_names *external; /* NULL without --external-zones */
	struct settings *settings;
	struct hosts_maps *hosts;        /* NULL without --hosts-namespaces */
	struct node_places *node_places; /* in force; NULL: none yet, or without --nearest */
	struct visibility *visibility;   /* in force; NULL: none yet, or without --visibility */
	struct wanted_namespaces *namespaces;
	struct api_source *watch;
	struct manifests *manifests;          /* NULL without --objects-dir */
	struct forwarded_cache *answer_cache; /* NULL: --answer-cache=off */
	struct workers *workers;
	struct transfer *transfer;       /* NULL without --transfer-to */
	struct observers *observers;     /* of the main thread */
	struct top_clients *top_clients; /* NULL: --recorder=off */
	struct query_log *query_log;
	struct dnstap *dnstap; /* NULL without --dnstap */
	bool synced;           /* everything that is needed has been seen once */
	bool draining;
	bool sync_timed_out; /* it took longer than --initial-sync-timeout */
	uint64_t publishes;
	struct histogram programming[SERVICE_KIND_COUNT];
};

/* Sets up the histograms. */
void status_init(struct status *status);

/* Counts the changes that the last publish has made visible; `now_ns` is Unix time. */
void status_published(struct status *status, int64_t now_ns);

/* Routes of the health port, and of the metrics port; the handlers' argument is the status. */
extern const struct http_route status_routes[], status_changes[];
void status_metrics_routes(struct http_route routes[2], const char *path);

#endif
