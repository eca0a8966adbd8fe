/*
 * Small charts of the last ten minutes, as SVG that stretches with the page: one unit of x is one
 * second, so the plot is HISTORY_S wide; axis labels are HTML beside it, which keeps their size on
 * a phone. Pure.
 */
#ifndef SIDECAR_PAGE_CHART_H
#define SIDECAR_PAGE_CHART_H

#include "sidecar/containers/dnsmasq_stats.h"
#include "sidecar/history.h"
#include "sidecar/page/html.h"

/* What a chart shows beside its data. */
struct chart {
	int64_t now_ns;
	int window_s;      /* the newest so many seconds, at most HISTORY_S */
	const char *title; /* what a screen reader says */
	uint64_t top;      /* of chart_bars: the axis, in counts a bucket; 0: its own data's */
};

/* 2, 5 or 10 minutes: the shortest window with everything since the start, so that the charts of a
 * new process are not nearly empty. */
int chart_window_s(int64_t now_ns, int64_t started_ns);

/*
 * Latency on a logarithmic axis of whole decades (a spike of 100 ms must not flatten the rest),
 * failures as bars over the full height.
 */
void chart_latency(struct html *html, const struct chart *chart, const struct history *history,
    uint32_t interval_s);

/* Share of `part` in `part + rest`, 0 to 100 %; nothing where nothing was asked. */
void chart_ratio(struct html *html, const struct chart *chart, const struct buckets *part,
    const struct buckets *rest);

/* Bars of `total`, the share of `bad` in them in the colour of failure. */
void chart_bars(struct html *html, const struct chart *chart, const struct buckets *total,
    const struct buckets *bad);

/* The axis that holds all of these counts. */
uint64_t chart_top(int64_t now_ns, const struct buckets *buckets);

/* Stacked bars of several counts, in this order; the height is their sum per second. */
struct chart_part {
	const struct buckets *buckets;
	const char *class; /* of the path */
};
void chart_stack(
    struct html *html, const struct chart *chart, const struct chart_part *parts, size_t count);

/* The decades 10^low..10^high ms that hold all latencies between the two; at least two of them. */
void chart_decades(double min_ms, double max_ms, int *low, int *high);

#endif
