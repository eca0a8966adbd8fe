/*
 * LD_PRELOAD library that sets the wall clock of the process. CLOCK_SET_AFTER_S seconds after the
 * start of the process, the wall clock jumps forward by CLOCK_SET_BY_S seconds, as if an operator
 * had corrected the node's time. The monotonic clock does not change.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static time_t set_at_s, set_by_s;

__attribute__((constructor)) static void
begin(void)
{
	const char *after = getenv("CLOCK_SET_AFTER_S"), *by = getenv("CLOCK_SET_BY_S");
	struct timespec now;

	real_clock_gettime =
	    (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	real_clock_gettime(CLOCK_MONOTONIC, &now);
	set_at_s = now.tv_sec + (after != NULL ? atol(after) : 0);
	set_by_s = by != NULL ? atol(by) : 0;
}

int
clock_gettime(clockid_t clock, struct timespec *t)
{
	struct timespec now;
	int rc;

	if (real_clock_gettime == NULL)
		begin();
	rc = real_clock_gettime(clock, t);
	if (rc == 0 && clock == CLOCK_REALTIME) {
		real_clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec >= set_at_s)
			t->tv_sec += set_by_s;
	}
	return rc;
}
