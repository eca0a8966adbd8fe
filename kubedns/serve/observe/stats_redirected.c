/* Metric families for names that are looked up under another name: explanations, rewrites and --fallthrough. This
 * file also has the metric families for --answer-cache. */
#include "kubedns/serve/observe/stats.h"
#include "lib/metrics.h"

static void
nearest_families(const struct stats *stats, struct metrics *m)
{
	static const char *const first[NEAR_COUNT] = { [NEAR_NODE] = "node",
		[NEAR_ZONE] = "zone",
		[NEAR_FAR] = "elsewhere",
		[NEAR_UNKNOWN] = "unknown" };

	metrics_family(m, "kubedns_nearest_total", METRIC_COUNTER,
	    "With --nearest, answers for headless Services, by the distance of the first endpoint; "
	    "unknown: the node and zone of the client are unknown.");
	for (unsigned i = 0; i < NEAR_COUNT; i++)
		metrics_value(m, (double)stats->nearest[i], "first", first[i], (char *)NULL);
	metrics_family(m, "kubedns_zonal_total", METRIC_COUNTER,
	    "Answers for names of --zonal, with the endpoints of the zone, or of all zones if the "
	    "zone has none.");
	metrics_value(m, (double)stats->zonal[0], "from", "zone", (char *)NULL);
	metrics_value(m, (double)stats->zonal[1], "from", "all", (char *)NULL);
}

static void
counter(struct metrics *m, const char *name, const char *help, uint64_t value)
{
	metrics_family(m, name, METRIC_COUNTER, help);
	metrics_value(m, (double)value, (char *)NULL);
}

void
stats_metrics_redirected(const struct stats *stats, struct metrics *m)
{
	metrics_family(m, "kubedns_explanations_total", METRIC_COUNTER,
	    "Explanations requested over DNS (NAME._explain): answered, or refused because there "
	    "were too many.");
	metrics_value(m, (double)stats->explained, "result", "made", NULL);
	metrics_value(m, (double)stats->explain_refused, "result", "refused", NULL);
	counter(m, "kubedns_fallthrough_total",
	    "Queries forwarded because our zones do not have the name.", stats->fallthrough);
	counter(m, "kubedns_until_synced_total",
	    "Queries sent to the servers of --until-synced before the first sync.",
	    stats->until_synced);
	counter(m, "kubedns_rewritten_total", "Queries that were looked up under another name.",
	    stats->rewritten);
	counter(m, "kubedns_rewrite_limit_total",
	    "Queries for which a rewrite pattern was abandoned at its limit.",
	    stats->rewrite_limit);
	counter(m, "kubedns_clients_unknown_total",
	    "With --visibility, queries from clients that are not a known pod.",
	    stats->clients_unknown);
	nearest_families(stats, m);
	counter(m, "kubedns_answer_cache_hits_total",
	    "Queries for other servers that were answered from --answer-cache.", stats->cache_hits);
	counter(m, "kubedns_answer_cache_misses_total",
	    "Queries for which --answer-cache had no answer.", stats->cache_misses);
	counter(m, "kubedns_answer_cache_evictions_total",
	    "Valid answers that were evicted from --answer-cache for new ones.",
	    stats->cache_evictions);
}
