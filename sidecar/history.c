#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "lib/clock.h"
#include "sidecar/history.h"

void
history_init(struct history *history, uint32_t interval_s)
{
	size_t size = HISTORY_S / (interval_s > 0 ? interval_s : 1) + 1;

	if (size < 2)
		size = 2; /* keep at least two points, however long the interval */
	if (size > HISTORY_POINTS_MAX)
		size = HISTORY_POINTS_MAX;
	*history =
	    (struct history){ .points = xcalloc(size, sizeof *history->points), .size = size };
}

void
history_free(struct history *history)
{
	free(history->points);
	*history = (struct history){ 0 };
}

void
history_add(struct history *history, const struct history_point *point)
{
	history->points[history->next] = *point;
	history->next = (history->next + 1) % history->size;
	if (history->count < history->size)
		history->count++;
}

const struct history_point *
history_get(const struct history *history, size_t i)
{
	if (i >= history->count)
		return NULL;
	return &history
		    ->points[(history->next + history->size - history->count + i) % history->size];
}

static int
compare_floats(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

void
history_summary(const struct history *history, int64_t since_ns, struct history_summary *summary)
{
	float latencies[HISTORY_POINTS_MAX];
	size_t answered = 0;

	*summary = (struct history_summary){ .p50_ms = NAN, .p99_ms = NAN, .max_ms = NAN };
	for (size_t i = 0; i < history->count; i++) {
		const struct history_point *point = history_get(history, i);

		if (point->at_ns < since_ns)
			continue;
		summary->total++;
		summary->causes[point->cause]++;
		if (point->cause == CAUSE_OK)
			latencies[answered++] = point->latency_ms;
		else if (!cause_is_alive(point->cause))
			summary->failed++;
	}
	if (answered == 0)
		return;
	qsort(latencies, answered, sizeof latencies[0], compare_floats);
	summary->p50_ms = (double)latencies[(answered - 1) / 2];
	summary->p99_ms = (double)latencies[(answered * 99 + 99) / 100 - 1];
	summary->max_ms = (double)latencies[answered - 1];
}

static int64_t
bucket_number(int64_t now_ns)
{
	return now_ns / (BUCKET_S * NS_PER_S);
}

void
buckets_add(struct buckets *buckets, int64_t now_ns, uint64_t count)
{
	int64_t number = bucket_number(now_ns);

	if (number - buckets->newest >= BUCKETS)
		memset(buckets->counts, 0, sizeof buckets->counts);
	else
		for (int64_t n = buckets->newest + 1; n <= number; n++)
			buckets->counts[n % BUCKETS] = 0;
	if (number > buckets->newest)
		buckets->newest = number;
	uint32_t *bucket = &buckets->counts[number % BUCKETS];
	*bucket = count > UINT32_MAX - *bucket ? UINT32_MAX : *bucket + (uint32_t)count;
}

uint32_t
buckets_get(const struct buckets *buckets, int64_t now_ns, int age)
{
	int64_t number = bucket_number(now_ns) - age;

	if (number < 0 || number > buckets->newest || number <= buckets->newest - BUCKETS)
		return 0;
	return buckets->counts[number % BUCKETS];
}

uint64_t
buckets_sum(const struct buckets *buckets, int64_t now_ns)
{
	uint64_t sum = 0;

	for (int age = 0; age < BUCKETS; age++)
		sum += buckets_get(buckets, now_ns, age);
	return sum;
}
