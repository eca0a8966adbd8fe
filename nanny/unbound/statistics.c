#include "nanny/unbound/statistics.h"

#include <stdlib.h>
#include <string.h>

const struct unbound_metric unbound_metrics[FIGURE_COUNT] = {
	[FIGURE_QUERIES] = { "total.num.queries", "nanny_engine_queries_total",
	    "Queries that the engine received.", METRIC_COUNTER },
	[FIGURE_CACHE_HITS] = { "total.num.cachehits", "nanny_engine_cache_hits_total",
	    "Queries answered from the engine's cache.", METRIC_COUNTER },
	[FIGURE_CACHE_MISSES] = { "total.num.cachemiss", "nanny_engine_cache_misses_total",
	    "Queries for which the engine's cache had no answer.", METRIC_COUNTER },
	[FIGURE_PREFETCHES] = { "total.num.prefetch", "nanny_engine_prefetches_total",
	    "Cached answers that the engine refreshed before they expired.", METRIC_COUNTER },
	[FIGURE_STALE] = { "total.num.expired", "nanny_engine_stale_answers_total",
	    "Expired answers sent because no upstream server answered.", METRIC_COUNTER },
	[FIGURE_CLIENT_LIMIT] = { "total.num.queries_wait_limit",
	    "nanny_engine_client_limited_total",
	    "Queries dropped because too many queries of their client were waiting.",
	    METRIC_COUNTER },
	[FIGURE_OVERWRITTEN] = { "total.requestlist.overwritten",
	    "nanny_engine_queries_replaced_total",
	    "Waiting queries given up for newer ones, because the table was full.",
	    METRIC_COUNTER },
	[FIGURE_EXCEEDED] = { "total.requestlist.exceeded", "nanny_engine_queries_refused_total",
	    "Queries dropped because the table of waiting queries was full.", METRIC_COUNTER },
	[FIGURE_IN_FLIGHT] = { "total.requestlist.current.all", "nanny_engine_queries_waiting",
	    "Queries that wait for an upstream server.", METRIC_GAUGE },
	[FIGURE_TCP] = { "total.tcpusage", "nanny_engine_tcp_connections",
	    "Clients' TCP connections.", METRIC_GAUGE },
	[FIGURE_MEMORY_RRSETS] = { "mem.cache.rrset", "nanny_engine_cache_rrset_bytes",
	    "Memory of the cached record sets.", METRIC_GAUGE },
	[FIGURE_MEMORY_MESSAGES] = { "mem.cache.message", "nanny_engine_cache_message_bytes",
	    "Memory of the cached messages.", METRIC_GAUGE },
};

/* Reads the number between the '=' and the end of the line. Returns a negative number if it is none. */
static double
number(const char *text, const char *end)
{
	char *after;
	double value = strtod(text, &after);

	return after == end && after > text && value >= 0 && value <= 1e15 ? value : -1;
}

void
unbound_statistics_read(double values[FIGURE_COUNT], const char *reply)
{
	for (const char *line = reply, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		size_t len = strcspn(line, "=\n");

		for (int i = 0; i < FIGURE_COUNT && line[len] == '='; i++) {
			const char *key = unbound_metrics[i].key;
			double value;

			if (strlen(key) != len || strncmp(line, key, len) != 0)
				continue;
			value = number(line + len + 1, end);
			if (value >= 0)
				values[i] = value;
		}
	}
}
