/*
 * A snapshot of everything that metrics, JSON and page show: read by all three. sidecar_view()
 * (loop.h) fills it from what the loop has learned.
 */
#ifndef SIDECAR_VIEW_H
#define SIDECAR_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sidecar/page/question_box.h"
#include "sidecar/probes/server_checks.h"
#include "sidecar/containers/dnsmasq_stats.h"
#include "sidecar/containers/container_status.h"
#include "sidecar/probes/probe.h"
#include "sidecar/surroundings.h"

struct journal;

struct view {
	int64_t now_ns; /* monotonic */
	double now_s;   /* wall clock */
	int64_t started_ns;
	bool draining;
	uint64_t http_dropped;
	enum surroundings surroundings;
	const char *host; /* the pod's name, or the machine's */
	const char *prometheus_namespace, *metrics_path;
	bool coredns_metrics;
	unsigned port; /* of this page, and of those of the other pods */
	struct server dnsmasq;
	const struct probe *probes;
	size_t probe_count;
	const struct dnsmasq_stats *cache;
	const struct kubedns_view *kubedns; /* NULL when it is not asked */
	const struct nanny_view *nanny;     /* the same */
	const struct server_checks *checks;
	const struct journal *journal;
	double clock_step_s; /* by how much the wall clock was set since the start; 0: it was not */
	double memory, memory_limit; /* bytes, of the sidecar's container; 0: not known */
	bool may_ask;                /* the peer may ask, and see addresses and the configuration */
	const struct boxed_question *asked; /* in the question box, or NULL */
	const char *ask_error;              /* why it was not asked, or NULL */
};

#endif
