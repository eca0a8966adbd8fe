/*
 * liburcu's memb flavour as the suite uses it: one writer publishes a pointer, many readers follow
 * it, the writer waits for the readers that may still hold the old one, then frees.
 *
 *	reader (its thread has called rcu_join() once):
 *		rcu_enter(); p = rcu_get(&slot); ...read *p...; rcu_leave();
 *	writer:
 *		old = slot; rcu_publish(&slot, new); rcu_wait(); free(old);
 *
 * Debian's liburcu is not built for ThreadSanitizer, which therefore cannot see that rcu_wait()
 * comes after every rcu_leave(); these wrappers tell it so, and cost nothing in other builds.
 */
#ifndef LIB_RCU_H
#define LIB_RCU_H

#if defined(__SANITIZE_THREAD__)
#define RCU_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RCU_TSAN 1
#endif
#endif

/* liburcu's inline functions use plain loads and stores between threads, which ThreadSanitizer
 * reports: that build calls the library instead. */
#ifdef RCU_TSAN
#undef _LGPL_SOURCE
#endif
#include <urcu.h>

#ifdef RCU_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
/* Where leaving readers and the waiting writer meet, for ThreadSanitizer only. Weak: all files that include
 * this header share one. */
__attribute__((weak)) char rcu_grace;
#endif

/* A reader thread registers once, and unregisters before it ends. */
static inline void
rcu_join(void)
{
	rcu_register_thread();
}

static inline void
rcu_part(void)
{
	rcu_unregister_thread();
}

/*
 * A read section, which brackets every use of a pointer that rcu_get() returned. Sections nest and
 * block nothing but rcu_wait().
 */
static inline void
rcu_enter(void)
{
	rcu_read_lock();
}

static inline void
rcu_leave(void)
{
#ifdef RCU_TSAN
	__tsan_release(&rcu_grace);
#endif
	rcu_read_unlock();
}

/* The pointer last published in `*slot`. */
#define rcu_get(slot) __atomic_load_n((slot), __ATOMIC_ACQUIRE)

/* Lets readers see `value`, everything written to it before included. */
#define rcu_publish(slot, value) __atomic_store_n((slot), (value), __ATOMIC_RELEASE)

/* Returns once no reader can hold what was published before. Not inside a read section. */
static inline void
rcu_wait(void)
{
	synchronize_rcu();
#ifdef RCU_TSAN
	__tsan_acquire(&rcu_grace);
#endif
}

#endif
