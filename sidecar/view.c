#include "lib/clock.h"
#include "lib/http.h"
#include "lib/metrics.h"
#include "sidecar/loop.h"
#include "sidecar/view.h"

/* By how much the wall clock is off what it was at the start, in seconds: set, not slewed. */
static double
clock_step_s(const struct sidecar *sidecar)
{
	enum { STEP_MIN_S = 5 };
	double step_s = clock_wall_s() - (double)clock_mono_ns() / 1e9 - sidecar->clock_offset_s;

	return step_s > STEP_MIN_S || step_s < -STEP_MIN_S ? step_s : 0;
}

void
sidecar_view(struct sidecar *sidecar, struct view *view)
{
	const struct sidecar_options *options = sidecar->options;

	*view = (struct view){
		.now_ns = clock_mono_ns(),
		.now_s = clock_wall_s(),
		.started_ns = sidecar->started_ns,
		.draining = sidecar->stop_ns != CLOCK_NEVER,
		.http_dropped = sidecar->http != NULL ? http_dropped(sidecar->http) : 0,
		.surroundings = sidecar->surroundings,
		.host = sidecar->host,
		.port = sidecar->http != NULL ? http_port(sidecar->http) : 0,
		.prometheus_namespace = options->prometheus_namespace,
		.coredns_metrics = options->coredns_metrics,
		.metrics_path = options->prometheus_path,
		.dnsmasq = options->dnsmasq,
		.probes = sidecar->probes,
		.probe_count = sidecar->probe_count,
		.cache = &sidecar->cache,
		.kubedns = options->has_kubedns ? &sidecar->kubedns_view : NULL,
		.nanny = options->has_nanny ? &sidecar->nanny_view : NULL,
		.checks = &sidecar->checks,
		.journal = &sidecar->journal,
		.clock_step_s = clock_step_s(sidecar),
	};
	process_container_memory(&view->memory, &view->memory_limit);
}
