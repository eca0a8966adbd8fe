/* Metric families for names that are not looked up as asked: explanations, search completion,
 * rewrites and --fallthrough; and for --answer-cache. */
#include "kubedns/answer/search.h"
#include "kubedns/serve/observe/stats.h"
#include "lib/metrics.h"

static void
search_families(const struct stats *stats, struct metrics *m)
{
	static const char *const results[SEARCH_RESULTS] = {
		[SEARCH_FOUND] = "found", [SEARCH_NOTHING] = "nothing", [SEARCH_FAILED] = "failed"
	};
	metrics_family(m, "kubedns_search_completed_total", METRIC_COUNTER,
	    "Walks along a pod's search list, by how they ended.");
	for (size_t f = SEARCH_DECLARED; f <= SEARCH_INFERRED; f++)
		for (size_t r = 0; r < SEARCH_RESULTS; r++)
			metrics_value(m, (double)(stats->search_completed[f][r]), "form",
			    f == SEARCH_DECLARED ? "declared" : "inferred", "result", results[r],
			    (char *)NULL);
	metrics_family(m, "kubedns_search_refused_total", METRIC_COUNTER,
	    "Names below svc that do not exist and were not walked for, by reason.");
	for (unsigned r = 0; r < SEARCH_REFUSALS; r++)
		metrics_value(m, (double)(stats->search_refused[r]), "reason",
		    search_refusal_name(r), (char *)NULL);
}

static void
nearest_families(const struct stats *stats, struct metrics *m)
{
	static const char *const first[NEAR_COUNT] = { [NEAR_NODE] = "node",
		[NEAR_ZONE] = "zone",
		[NEAR_FAR] = "elsewhere",
		[NEAR_UNKNOWN] = "unknown" };

	metrics_family(m, "kubedns_nearest_total", METRIC_COUNTER,
	    "With --nearest, answers of headless Services by how near their first endpoint is to "
	    "the "
	    "client; unknown: where that is.");
	for (unsigned i = 0; i < NEAR_COUNT; i++)
		metrics_value(m, (double)stats->nearest[i], "first", first[i], (char *)NULL);
	metrics_family(m, "kubedns_zonal_total", METRIC_COUNTER,
	    "Answers of names of --zonal, from endpoints in the zone, or of all zones for want of "
	    "any.");
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
	    "Explanations asked for by DNS (NAME._explain), made, or refused for their number.");
	metrics_value(m, (double)stats->explained, "result", "made", NULL);
	metrics_value(m, (double)stats->explain_refused, "result", "refused", NULL);
	counter(m, "kubedns_fallthrough_total",
	    "Queries handed to other servers because our zones do not have the name.",
	    stats->fallthrough);
	counter(m, "kubedns_until_synced_total",
	    "Queries handed to the servers of --until-synced before the first sync.",
	    stats->until_synced);
	counter(m, "kubedns_rewritten_total", "Questions that were looked up under another name.",
	    stats->rewritten);
	counter(m, "kubedns_rewrite_limit_total",
	    "Questions for which a pattern of the rewrites was given up at its bound.",
	    stats->rewrite_limit);
	counter(m, "kubedns_clients_unknown_total",
	    "With --visibility, queries of clients that are no known pod.", stats->clients_unknown);
	nearest_families(stats, m);
	search_families(stats, m);
	counter(m, "kubedns_answer_cache_hits_total",
	    "Questions to other servers answered from --answer-cache.", stats->cache_hits);
	counter(m, "kubedns_answer_cache_misses_total",
	    "Questions that --answer-cache had no answer to.", stats->cache_misses);
	counter(m, "kubedns_answer_cache_evictions_total",
	    "Answers that were still good and made room in --answer-cache.",
	    stats->cache_evictions);
}
