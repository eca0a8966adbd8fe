/* The time that prices are measured in. */
#ifndef TESTS_UNIT_CPU_TIME_H
#define TESTS_UNIT_CPU_TIME_H

#include <time.h>

/* What this thread has had of a processor, in seconds. */
static inline double
cpu_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#endif
