/*
 * A page of metrics. Each scrape builds it from counters that the program keeps as plain numbers.
 * The Accept header selects Prometheus text format 0.0.4 or OpenMetrics 1.0. Families appear in the
 * order in which they are written. Programs write every series at every scrape, so each series
 * exists from the start.
 */
#ifndef LIB_METRICS_H
#define LIB_METRICS_H

#include <stddef.h>
#include <stdint.h>

enum metrics_format { METRICS_TEXT, METRICS_OPENMETRICS };
enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM, METRIC_UNTYPED };

enum { HISTOGRAM_BUCKETS_MAX = 24 };

/* A histogram with one writer. `bounds` are the upper bounds in the metric's unit, ascending. The
 * last bucket is +Inf. */
struct histogram {
	const double *bounds;
	size_t count;                                /* number of bounds */
	uint64_t buckets[HISTOGRAM_BUCKETS_MAX + 1]; /* not cumulative */
	double sum;
};

struct metrics;

/* Returns an empty page; caller frees with metrics_free. */
struct metrics *metrics_new(enum metrics_format format);

/* Selects the format for an Accept header (or NULL). */
enum metrics_format metrics_negotiate(const char *accept);

/* Returns the Content-Type of `format`. */
const char *metrics_content_type(enum metrics_format format);

/* Begins a family. OpenMetrics requires `_total` in a counter's name. kube-dns's counters without
 * `_total` have type unknown in OpenMetrics. */
void metrics_family(struct metrics *m, const char *name, enum metric_type type, const char *help);

/* Writes one sample of the current family. Label names and values come in pairs; NULL ends them.
 * Values are escaped here. */
void metrics_value(struct metrics *m, double value,
    ... /* const char *name, const char *value, ..., NULL */) __attribute__((sentinel));

/* Writes all lines of one histogram of the current family. Labels are given as in metrics_value. */
void metrics_histogram(struct metrics *m, const struct histogram *h, ...) __attribute__((sentinel));

/*
 * Gets the memory that the container uses, and the container's limit, in bytes. The page cache is
 * not included, because the kernel can reclaim it. At the limit, the kernel kills a process. Both
 * numbers are 0 if there is no limit (cgroup v1 or v2).
 */
void process_container_memory(double *used, double *limit);

/* Writes the families process_* and the program's own build_info (label version). */
void metrics_process(struct metrics *m, const char *build_info_name);

/* Ends the page, frees it, and returns its text, which the caller frees. `len` gets the length. */
char *metrics_finish(struct metrics *m, size_t *len);

/* Counts `value` in its bucket. */
void histogram_observe(struct histogram *h, double value);

/* Adds the counts of `from` (same bounds) to `into`. */
void histogram_add(struct histogram *into, const struct histogram *from);

#endif
