/* The monotonic clock, and the wall clock for timestamps that people and Prometheus read. */
#ifndef LIB_CLOCK_H
#define LIB_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

/* No deadline: later than every other. */
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

/* Since 1970. */
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

#endif
