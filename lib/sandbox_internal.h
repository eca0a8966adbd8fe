/* What the parts of lib/sandbox share; nobody else includes it. */
#ifndef LIB_SANDBOX_INTERNAL_H
#define LIB_SANDBOX_INTERNAL_H

#include <stddef.h>

#include "lib/sandbox.h"

enum { SANDBOX_PATHS_MAX = 128, SANDBOX_PORTS_MAX = 64 };

enum sandbox_access {
	ACCESS_READ = 1 << 0,
	ACCESS_WRITE = 1 << 1,
	ACCESS_EXECUTE = 1 << 2,
	ACCESS_REMOVE_DIRS = 1 << 3,
};

struct sandbox_path {
	char *path;
	unsigned access;
};

struct sandbox_ports {
	uint16_t ports[SANDBOX_PORTS_MAX];
	size_t count;
	bool any;
};

struct sandbox {
	enum sandbox_mode mode;
	struct sandbox_path paths[SANDBOX_PATHS_MAX];
	size_t path_count;
	struct sandbox_ports connect, bind;
};

/* An execve() that the filter lets through: that of exactly these two pointers. */
struct sandbox_exec_key {
	const char *path;
	char *const *argv;
};

/* The Landlock version of the kernel: 0 for none. */
int sandbox_landlock_abi(void);

/* Confines this thread's files, TCP and signals; the mask of layers in force. */
unsigned sandbox_landlock_enter(const struct sandbox *s, int abi);

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
