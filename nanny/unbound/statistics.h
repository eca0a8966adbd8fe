/*
 * unbound's statistics, the reply to its command `stats_noreset`: a line "key=number" for each figure.
 * Pure. The reply is untrusted: it can be cut, and a number can be anything.
 */
#ifndef NANNY_UNBOUND_STATISTICS_H
#define NANNY_UNBOUND_STATISTICS_H

#include "lib/metrics.h"

/* The figures that become metrics. */
enum unbound_figure {
	FIGURE_QUERIES,
	FIGURE_CACHE_HITS,
	FIGURE_CACHE_MISSES,
	FIGURE_PREFETCHES,
	FIGURE_STALE,
	FIGURE_CLIENT_LIMIT,
	FIGURE_OVERWRITTEN,
	FIGURE_EXCEEDED,
	FIGURE_IN_FLIGHT,
	FIGURE_TCP,
	FIGURE_MEMORY_RRSETS,
	FIGURE_MEMORY_MESSAGES,
	FIGURE_COUNT,
};

/* unbound's key of each figure, and its metric. */
struct unbound_metric {
	const char *key, *metric, *help;
	enum metric_type type;
};

extern const struct unbound_metric unbound_metrics[FIGURE_COUNT];

/* Stores the figures of the reply. A figure keeps its value if the reply does not have it, if its line
 * has no end, or if its number is not from 0 to 1e15. */
void unbound_statistics_read(double values[FIGURE_COUNT], const char *reply);

#endif
