/* A snapshot of all data that the metrics, /status.json and the verdict need. sidecar_view() (loop.h) fills the snapshot. */
#ifndef SIDECAR_VIEW_H
#define SIDECAR_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sidecar/probes/server_checks.h"
#include "sidecar/containers/dnsmasq_stats.h"
#include "sidecar/containers/container_status.h"
#include "sidecar/probes/probe.h"
#include "sidecar/suggested_commands.h"

struct journal;

struct view {
	int64_t now_ns; /* monotonic */
	double now_s;   /* wall clock */
	int64_t started_ns;
	bool draining;
	uint64_t http_dropped;
	enum surroundings surroundings;
	const char *host; /* name of the pod or the machine */
	const char *prometheus_namespace, *metrics_path;
	bool coredns_metrics;
	unsigned port; /* port of this page; the other pods use the same port */
	struct server dnsmasq;
	const struct probe *probes;
	size_t probe_count;
	const struct dnsmasq_stats *cache;
	const struct kubedns_view *kubedns; /* NULL if --kubedns-url is empty */
	const struct nanny_view *nanny;     /* NULL if --nanny-url is empty */
	const struct server_checks *checks;
	const struct journal *journal;
	/* seconds by which the wall clock was set since the start; 0 if it was not set */
	double clock_step_s;
	double memory, memory_limit; /* of the sidecar's container, in bytes; 0 if unknown */
	/* the HTTP client may use the question box, and may see addresses and the configuration */
	bool may_ask;
};

#endif
