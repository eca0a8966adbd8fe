/*
 * LD_PRELOAD library that makes time an input of a test. There are two modes:
 *
 *	HURRY=factor	The monotonic clock of this process runs this many times as fast, and its
 *			waits are shorter by the same factor. A test therefore sees minutes of
 *			backoff, jitter and retries of the real program within seconds. With a
 *			factor below 1, a busy machine has more time before a timeout.
 *	HURRY=file	The monotonic clock stands still until the test moves it. The file contains
 *			a struct test_clock. A wait ends when its time on this clock has passed, so the
 *			machine's speed does not change what happens.
 *
 * On such a clock, a periodic kernel timer of the program only wakes it, very often. If the test
 * sets the wall clock, the wall clock moves with the monotonic clock.
 *
 * Otherwise the wall clock does not change, nor do kernel timers (TCP keepalive) and other
 * processes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define SECOND   1000000000LL
#define MS       1000000LL
#define SLICE_MS 5 /* a thread that waits looks at the test's clock this often */

enum { PLACES = 256, RUNS = 0, WAITS_WITH_AN_END = 1, WAITS_WITHOUT_AN_END = 2 };

/*
 * The file of the test's clock. The test writes the time and the wall clock's time at 0 (0: the real
 * wall clock), and Clock.settle() of hurry.py reads the rest. Each thread that has waited has a place. `last` and `before` are the times on the clock when
 * the thread began its last wait and the wait before that. If `before` is the clock's time, the
 * thread has done everything that was due.
 */
struct test_clock {
	volatile int64_t ns, wall_ns;
	_Atomic int64_t taken;
	struct place {
		volatile int32_t tid, state;
		volatile int64_t last, before;
	} places[PLACES];
};

static double factor = 1;
static long long base;
static struct test_clock *shared;
static volatile int64_t *moved; /* the test's clock, or NULL */
static __thread struct place *own;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

/* Declares `next`, a pointer to the C library's function that the function here replaces. */
#define NEXT(name) __typeof__(&name) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static long long
to_ns(const struct timespec *t)
{
	return t->tv_sec * SECOND + t->tv_nsec;
}

static struct timespec
of_ns(long long ns)
{
	return (struct timespec){ .tv_sec = ns / SECOND, .tv_nsec = ns % SECOND };
}

/* The child of a fork is another thread. */
static void
forget_place(void)
{
	own = NULL;
}

__attribute__((constructor)) static void
begin(void)
{
	if (real_clock_gettime != NULL)
		return;
	const char *text = getenv("HURRY");
	struct timespec now;
	real_clock_gettime =
	    (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	real_clock_gettime(CLOCK_MONOTONIC, &now);
	base = to_ns(&now);
	if (text == NULL)
		return;
	if (text[0] != '/') {
		factor = atof(text) > 0 ? atof(text) : 1;
		return;
	}
	int fd = open(text, O_RDWR | O_CLOEXEC);
	void *at = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		abort();
	shared = at;
	moved = &shared->ns;
	close(fd);
	pthread_atfork(NULL, NULL, forget_place);
}

static int
is_hurried(clockid_t clock)
{
	return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
	       clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME;
}

/* Returns the time on this process's clock for the real monotonic time `ns`. */
static long long
own_ns(long long ns)
{
	return moved != NULL ? base + *moved : base + (long long)((double)(ns - base) * factor);
}

static long long
shorter_ns(long long ns)
{
	return (long long)((double)ns / factor);
}

/* Returns the shorter wait in milliseconds. Only a wait of 0 becomes 0. An infinite wait stays
 * infinite. */
static int
shorter_ms(int ms)
{
	if (ms < 0)
		return ms;
	int out = (int)(ms / factor);
	return ms > 0 && out == 0 ? 1 : out;
}

static struct timespec
shorter(const struct timespec *t)
{
	return of_ns(shorter_ns(to_ns(t)));
}

int
clock_gettime(clockid_t clock, struct timespec *t)
{
	begin();
	int r = real_clock_gettime(clock, t);
	if (r == 0 && is_hurried(clock))
		*t = of_ns(own_ns(to_ns(t)));
	else if (r == 0 && clock == CLOCK_REALTIME && shared != NULL && shared->wall_ns != 0)
		*t = of_ns(shared->wall_ns + shared->ns);
	return r;
}

time_t
time(time_t *out)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (out != NULL)
		*out = now.tv_sec;
	return now.tv_sec;
}

/* Notes that this thread begins a wait. `state` says whether the wait has an end. */
static void
begin_wait(int state)
{
	if (own == NULL) {
		static __thread struct place unseen;
		int64_t n = atomic_fetch_add(&shared->taken, 1);

		own = n < PLACES ? &shared->places[n] : &unseen;
		own->last = -1;
		own->before = -1;
		own->tid = gettid();
	}
	own->before = own->last;
	own->last = *moved;
	own->state = state;
}

/* Notes that nothing happened during a slice of the wait that began at this time. */
static void
wait_on(int64_t at)
{
	own->before = own->last = at;
}

static void
end_wait(void)
{
	own->state = RUNS;
}

/*
 * WAIT calls `call` with the variable `ms`, the real time to wait, and returns its result. On the
 * test's clock it calls `call` again and again, until the result is not 0 or `timeout_ms` has
 * passed.
 */
#define WAIT(timeout_ms, call)                                                                     \
	do {                                                                                       \
		int ms = shorter_ms(timeout_ms), r_;                                               \
		if (moved == NULL || ms == 0)                                                      \
			return call;                                                               \
		begin_wait(ms < 0 ? WAITS_WITHOUT_AN_END : WAITS_WITH_AN_END);                     \
		int64_t at_ = *moved, until_ = at_ + (timeout_ms)*MS;                              \
		if (ms > 0)                                                                        \
			ms = SLICE_MS;                                                             \
		while ((r_ = call) == 0 && *moved < until_) {                                      \
			wait_on(at_);                                                              \
			at_ = *moved;                                                              \
		}                                                                                  \
		end_wait();                                                                        \
		return r_;                                                                         \
	} while (0)

int
poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	NEXT(poll);
	WAIT(timeout_ms, next(fds, n, ms));
}

int
__poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size)
{
	(void)size;
	return poll(fds, n, ms);
}

/* kubedns's workers call poll() through this function. */
long
syscall(long number, ...)
{
	static long (*next)(long, ...);
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (next == NULL)
		next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
#ifdef SYS_poll
	if (number == SYS_poll)
		WAIT((int)a[2], (int)next(number, a[0], a[1], (long)ms));
#endif
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int
ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
	NEXT(ppoll);
	int timeout_ms = t != NULL ? (int)((to_ns(t) + MS - 1) / MS) : -1;
	struct timespec less = { 0 };
	if (timeout_ms > 0)
		less = moved != NULL ? of_ns(SLICE_MS * MS) : shorter(t);
	WAIT(timeout_ms, ((void)ms, next(fds, n, t != NULL ? &less : NULL, mask)));
}

int
__ppoll_chk(
    struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask, size_t size)
{
	(void)size;
	return ppoll(fds, n, t, mask);
}

int
epoll_wait(int fd, struct epoll_event *events, int n, int timeout_ms)
{
	NEXT(epoll_wait);
	WAIT(timeout_ms, next(fd, events, n, ms));
}

int
epoll_pwait(int fd, struct epoll_event *events, int n, int timeout_ms, const sigset_t *mask)
{
	NEXT(epoll_pwait);
	WAIT(timeout_ms, next(fd, events, n, ms, mask));
}

int
select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t)
{
	NEXT(select);
	if (t == NULL)
		return next(n, r, w, e, NULL);
	long long us = shorter_ns(t->tv_sec * 1000000LL + t->tv_usec);
	struct timeval less = { .tv_sec = us / 1000000, .tv_usec = us % 1000000 };
	return next(n, r, w, e, &less);
}

int
timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	NEXT(timerfd_settime);
	struct itimerspec less = { .it_interval = shorter(&new->it_interval),
		.it_value = shorter(&new->it_value) };
	if (moved != NULL && to_ns(&new->it_interval) > SLICE_MS * MS)
		less.it_interval = less.it_value = of_ns(SLICE_MS * MS);
	return next(fd, flags, flags & TFD_TIMER_ABSTIME ? new : &less, old);
}

int
pthread_cond_clockwait(
    pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
	NEXT(pthread_cond_clockwait);
	struct timespec now;
	int r;
	if (!is_hurried(clock))
		return next(cond, mutex, clock, until);
	begin();
	if (moved != NULL)
		begin_wait(WAITS_WITH_AN_END);
	for (;;) {
		int64_t at = moved != NULL ? *moved : 0;
		real_clock_gettime(clock, &now);
		long long left = to_ns(until) - own_ns(to_ns(&now));
		left = left < 0 ? 0 : moved != NULL ? SLICE_MS * MS : shorter_ns(left);
		now = of_ns(to_ns(&now) + left);
		r = next(cond, mutex, clock, &now);
		real_clock_gettime(clock, &now);
		if (r != ETIMEDOUT || moved == NULL || own_ns(to_ns(&now)) >= to_ns(until))
			break;
		wait_on(at);
	}
	if (moved != NULL)
		end_wait();
	return r;
}

int
clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left)
{
	NEXT(clock_nanosleep);
	struct timespec less = shorter(t);
	if (flags & TIMER_ABSTIME)
		less = is_hurried(clock) ? of_ns(base + shorter_ns(to_ns(t) - base)) : *t;
	return next(clock, flags, &less, left);
}

int
nanosleep(const struct timespec *t, struct timespec *left)
{
	NEXT(nanosleep);
	struct timespec less = shorter(t);
	return next(&less, left);
}
