/* The monotonic clock, and the wall clock for timestamps that people and Prometheus read. */
#ifndef LIB_CLOCK_H
#define LIB_CLOCK_H

#include <limits.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

/*
 * A deadline is a time on the monotonic clock, in an `int64_t ..._ms` or `..._ns`. CLOCK_NEVER
 * means "no deadline" and is later than every other deadline. Only poll() takes a duration in
 * milliseconds.
 */
#define CLOCK_NEVER INT64_MAX

static inline int64_t
timespec_ns(const struct timespec *ts)
{
	return (int64_t)ts->tv_sec * NS_PER_S + ts->tv_nsec;
}

static inline int64_t
clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return timespec_ns(&ts);
}

static inline int64_t
clock_mono_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline int64_t
clock_mono_ms(void)
{
	return clock_mono_ns() / NS_PER_MS;
}

/* Returns the CPU time of the calling thread in nanoseconds. */
static inline int64_t
clock_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Returns Unix time in nanoseconds. */
static inline int64_t
clock_wall_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

static inline double
clock_wall_s(void)
{
	return (double)clock_wall_ns() / 1e9;
}

/* Returns the earlier of two deadlines in the same unit. */
static inline int64_t
clock_earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Returns the timeout for poll(): milliseconds until the deadline, 0 if it has passed, -1 for
 * CLOCK_NEVER. */
static inline int
clock_wait_ms(int64_t deadline_ms, int64_t now_ms)
{
	if (deadline_ms == CLOCK_NEVER)
		return -1;
	if (deadline_ms <= now_ms)
		return 0;
	return deadline_ms - now_ms > INT_MAX ? INT_MAX : (int)(deadline_ms - now_ms);
}

/* Returns the timeout in milliseconds for a deadline in nanoseconds. It is rounded up, so poll()
 * does not return before the deadline. */
static inline int
clock_wait_ns(int64_t deadline_ns, int64_t now_ns)
{
	if (deadline_ns == CLOCK_NEVER)
		return -1;
	if (deadline_ns <= now_ns)
		return 0;
	return clock_wait_ms((deadline_ns - now_ns - 1) / NS_PER_MS + 1, 0);
}

#endif
