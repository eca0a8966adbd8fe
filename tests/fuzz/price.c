/*
 * Limits the cost of an input. Both the replay of seeds and the fuzzer call every target through
 * this file (the linker's --wrap). An input is slow if it exceeds its limit three times in a row.
 * The limit is a fixed CPU time of the thread, plus a time for each byte. If the cost is not
 * linear, a long input exceeds the limit on any machine.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif
#ifndef MEMCHECK /* make memcheck */
#define MEMCHECK 0
#endif

/* Several times the cost of the slowest target. Sanitizers and coverage are ten times slower,
 * Valgrind a hundred times. Under qemu-user (EMULATOR is set) a program may be 30 times slower. */
enum {
	FIXED_NS = 10000000,
	BYTE_NS = 500,
	SLOWER = MEMCHECK    ? 100
		 : SANITIZED ? 10
			     : 1,
	EMULATED = 30,
	TRIES = 3
};

int __real_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int64_t
thread_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int
__wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int64_t most = ((int64_t)FIXED_NS + (int64_t)size * BYTE_NS) * SLOWER, took = 0;
	int rc = 0;

	if (getenv("EMULATOR") != NULL)
		most *= EMULATED;
	for (int i = 0; i < TRIES; i++) {
		int64_t start = thread_cpu_ns();

		rc = __real_LLVMFuzzerTestOneInput(data, size);
		took = thread_cpu_ns() - start;
		if (took <= most)
			return rc;
	}
	fprintf(stderr, "slow: %zu bytes took %.3f ms of CPU, %.3f are allowed, %d times\n", size,
	    (double)took / 1e6, (double)most / 1e6, TRIES);
	abort();
}
