/*
 * The layer `syscalls` of the sandbox: a seccomp filter for a process that keeps `keep` (enum
 * sandbox_keep). lib/sandbox.c installs it after the other layers. Programs use lib/sandbox.h.
 */
#ifndef LIB_SANDBOX_SYSCALLS_H
#define LIB_SANDBOX_SYSCALLS_H

#include "lib/sandbox.h"

/* The execve() that the filter allows. The call must have exactly these two pointers. */
struct sandbox_exec_key {
	const char *path;
	char *const *argv;
};

/* Installs the filter in all threads. `key` is the only exec that stays possible, or NULL if none
 * does. Returns 0 or -errno. */
int sandbox_syscalls_enter(
    enum sandbox_mode mode, unsigned keep, const struct sandbox_exec_key *key);

/* Whether the kernel supports seccomp filters. */
bool sandbox_has_syscalls(void);

/* Whether the program is built with a sanitizer. A sanitizer inspects its own process like a
 * debugger, so refused system calls are only logged. */
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
