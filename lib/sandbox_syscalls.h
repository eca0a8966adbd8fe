/*
 * The layer `syscalls` of the sandbox: a seccomp filter for a process that keeps what `keep` (enum
 * sandbox_keep) names. lib/sandbox.c installs it, after the other layers; programs use lib/sandbox.h.
 */
#ifndef LIB_SANDBOX_SYSCALLS_H
#define LIB_SANDBOX_SYSCALLS_H

#include "lib/sandbox.h"

/* An execve() that the filter lets through: that of exactly these two pointers. */
struct sandbox_exec_key {
	const char *path;
	char *const *argv;
};

/*
 * Installs the filter for all threads; `key` (NULL: none) is the one exec that stays possible.
 * 0, or -errno.
 */
int sandbox_syscalls_enter(
    enum sandbox_mode mode, unsigned keep, const struct sandbox_exec_key *key);

/* Whether the kernel has seccomp filters. */
bool sandbox_has_syscalls(void);

/* Whether the program is built with a sanitizer, which looks at its own process as a debugger does:
 * refused system calls are only logged then. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANDBOX_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANDBOX_SANITIZED 1
#endif
#endif
#ifndef SANDBOX_SANITIZED
#define SANDBOX_SANITIZED 0
#endif

#endif
