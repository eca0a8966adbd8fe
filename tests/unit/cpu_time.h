/* CPU time, for tests that compare costs. */
#ifndef TESTS_UNIT_CPU_TIME_H
#define TESTS_UNIT_CPU_TIME_H

#include <time.h>

/* Returns the CPU time of this thread, in seconds. */
static inline double
cpu_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#endif
