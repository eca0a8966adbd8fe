/*
 * What one probe saw in the last ten minutes: a ring that never grows. A point is 16 bytes; a probe
 * every second keeps 600.
 */
#ifndef SIDECAR_HISTORY_H
#define SIDECAR_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "sidecar/probes/dns_reply.h"

enum { HISTORY_S = 600, HISTORY_POINTS_MAX = 600 };

struct history_point {
	int64_t at_ns; /* monotonic, when the question was sent */
	float latency_ms;
	uint8_t cause; /* enum cause */
};

struct history {
	struct history_point *points;
	size_t size, count, next;
};

/* A ring for one point every `interval_s`; freed with history_free. */
void history_init(struct history *history, uint32_t interval_s);
void history_free(struct history *history);

void history_add(struct history *history, const struct history_point *point);

/* The `i`th point from the oldest, NULL past the newest. */
const struct history_point *history_get(const struct history *history, size_t i);

/* The numbers of the points since `since_ns`. Quantiles are over those that were answered, NaN
 * without any. */
struct history_summary {
	unsigned total, failed;
	unsigned causes[CAUSE_COUNT];
	double p50_ms, p99_ms, max_ms;
};
void history_summary(
    const struct history *history, int64_t since_ns, struct history_summary *summary);

/* Counts of the last ten minutes in sixty buckets of ten seconds, for values that are polled. */
enum { BUCKETS = 60, BUCKET_S = HISTORY_S / BUCKETS };

struct buckets {
	int64_t newest; /* number of the newest bucket since the clock's start */
	uint32_t counts[BUCKETS];
};

void buckets_add(struct buckets *buckets, int64_t now_ns, uint64_t count);

/* The count of the bucket `age` buckets before the present one, 0 <= age < BUCKETS. */
uint32_t buckets_get(const struct buckets *buckets, int64_t now_ns, int age);

/* The sum of all that are not older than ten minutes. */
uint64_t buckets_sum(const struct buckets *buckets, int64_t now_ns);

#endif
