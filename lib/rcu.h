/*
 * liburcu's memb flavour, as the suite uses it. One writer publishes a pointer, and many readers
 * follow it. The writer waits for the readers that may still have the old pointer, then frees the
 * old data.
 *
 *	reader (its thread has called rcu_join() once):
 *		rcu_enter(); p = rcu_get(&slot); ...read *p...; rcu_leave();
 *	writer:
 *		old = slot; rcu_publish(&slot, new); rcu_wait(); free(old);
 *
 * Debian's liburcu is not built for ThreadSanitizer, so ThreadSanitizer cannot see that rcu_wait()
 * returns after every rcu_leave(). These wrappers annotate that order. They cost nothing in other
 * builds.
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
 * reports. A build for ThreadSanitizer calls the library's functions instead. */
#ifdef RCU_TSAN
#undef _LGPL_SOURCE
#endif
#include <urcu.h>

#ifdef RCU_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
/* For ThreadSanitizer only. Readers release this variable when they leave, and the writer acquires
 * it. It is weak, so that all files that include this header share one variable. */
__attribute__((weak)) char rcu_grace;
#endif

/* A reader thread registers once, and unregisters before it exits. */
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

/* A read section. Every use of a pointer from rcu_get() must be inside a read section. Sections can
 * be nested, and block nothing except rcu_wait(). */
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

/* Returns the pointer that was published last in `*slot`. */
#define rcu_get(slot) __atomic_load_n((slot), __ATOMIC_ACQUIRE)

/* Makes `value` visible to readers, including everything written to it before. */
#define rcu_publish(slot, value) __atomic_store_n((slot), (value), __ATOMIC_RELEASE)

/* Returns when no reader can have an old pointer any more. Must not be called inside a read section. */
static inline void
rcu_wait(void)
{
	synchronize_rcu();
#ifdef RCU_TSAN
	__tsan_acquire(&rcu_grace);
#endif
}

#endif
