/* The results of one probe in the last ten minutes, in a ring of fixed size. A point has 16 bytes. A probe with an interval of one second
 * keeps 600 points. */
#ifndef SIDECAR_HISTORY_H
#define SIDECAR_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "sidecar/probes/reply_check.h"

enum { HISTORY_S = 600, HISTORY_POINTS_MAX = 600 };

struct history_point {
	int64_t at_ns; /* time when the query was sent, monotonic */
	float latency_ms;
	uint8_t cause; /* enum cause */
};

struct history {
	struct history_point *points;
	size_t size, count, next;
};

/* Initialises a ring for one point every `interval_s`. Caller frees with history_free. */
void history_init(struct history *history, uint32_t interval_s);
void history_free(struct history *history);

void history_add(struct history *history, const struct history_point *point);

/* Returns the `i`th point, oldest first, or NULL after the newest point. */
const struct history_point *history_get(const struct history *history, size_t i);

/* A summary of the points since `since_ns`. The quantiles are of answered queries, or NaN if no query was answered. */
struct history_summary {
	unsigned total, failed;
	unsigned causes[CAUSE_COUNT];
	double p50_ms, p99_ms, max_ms;
};
void history_summary(
    const struct history *history, int64_t since_ns, struct history_summary *summary);

/* Counts of the last ten minutes in sixty buckets of ten seconds, for counters that the sidecar polls. */
enum { BUCKETS = 60, BUCKET_S = HISTORY_S / BUCKETS };

struct buckets {
	int64_t newest; /* number of the newest bucket, counted from the start of the clock */
	uint32_t counts[BUCKETS];
};

void buckets_add(struct buckets *buckets, int64_t now_ns, uint64_t count);

/* Returns the count of the bucket that is `age` buckets old, 0 <= age < BUCKETS. */
uint32_t buckets_get(const struct buckets *buckets, int64_t now_ns, int age);

/* Returns the sum of the counts of the last ten minutes. */
uint64_t buckets_sum(const struct buckets *buckets, int64_t now_ns);

#endif
