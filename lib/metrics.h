/*
 * A page of metrics, made anew for each scrape from counters that the program keeps as plain
 * numbers. Prometheus text format 0.0.4 or OpenMetrics 1.0, as the Accept header asks. Families
 * come in the order they are written; a program writes every series at every scrape, so that each
 * is present from the start.
 */
#ifndef LIB_METRICS_H
#define LIB_METRICS_H

#include <stddef.h>
#include <stdint.h>

enum metrics_format { METRICS_TEXT, METRICS_OPENMETRICS };
enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM, METRIC_UNTYPED };

enum { HISTOGRAM_BUCKETS_MAX = 24 };

/* A histogram; one writer. `bounds` are upper bounds in the metric's own unit, ascending; the last
 * bucket is +Inf. */
struct histogram {
	const double *bounds;
	size_t count;                                /* of bounds */
	uint64_t buckets[HISTOGRAM_BUCKETS_MAX + 1]; /* not cumulative */
	double sum;
};

struct metrics;

/* An empty page; caller frees with metrics_free. */
struct metrics *metrics_new(enum metrics_format format);

/* Which format an Accept header (or NULL) asks for. */
enum metrics_format metrics_negotiate(const char *accept);

/* The Content-Type of `format`. */
const char *metrics_content_type(enum metrics_format format);

/* Begins a family. A counter whose name lacks `_total` (kube-dns's) is shown as unknown in
 * OpenMetrics, where it may not be one. */
void metrics_family(struct metrics *m, const char *name, enum metric_type type, const char *help);

/* One sample of the current family; label names and values in pairs, NULL ends. Values are escaped
 * here. */
void metrics_value(struct metrics *m, double value,
    ... /* const char *name, const char *value, ..., NULL */) __attribute__((sentinel));

/* All lines of one histogram of the current family, labels as above. */
void metrics_histogram(struct metrics *m, const struct histogram *h, ...) __attribute__((sentinel));

/* What the container uses without the page cache, which the kernel can take back, and where the
 * kernel ends a process of it; both 0 where there is no limit (cgroup v1 or v2). Bytes. */
void process_container_memory(double *used, double *limit);

/* process_* and the program's own build_info (label version) families. */
void metrics_process(struct metrics *m, const char *build_info_name);

/* Ends the page; returns its text (length in `len`), which the caller frees. The page is freed. */
char *metrics_finish(struct metrics *m, size_t *len);

/* Adds `value` to the bucket it belongs to. */
void histogram_observe(struct histogram *h, double value);

/* Adds the counts of `from` (same bounds) to `into`. */
void histogram_add(struct histogram *into, const struct histogram *from);

#endif
