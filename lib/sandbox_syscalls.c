/*
 * The allow-list of system calls, by name. A name that the architecture does not have is skipped. A
 * call that is not listed, or that libseccomp does not know, fails with ENOSYS, and the C library
 * falls back to an older call.
 *
 * Calls without conditions on their arguments cost almost nothing, because the kernel keeps a
 * bitmap of them (Linux 5.11). For other calls, the kernel runs the filter, which takes about 20
 * ns. Of the calls that answer a query, only the calls that send have a condition.
 */
#include "lib/sandbox_syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/log.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41 /* names anonymous memory; the C library and allocators call it */
#endif

/* With -DSANDBOX_REFUSE=SCMP_ACT_KILL_PROCESS a refused call ends the process. Use it with the
 * system tests to find missing calls. */
#define REFUSE SCMP_ACT_ERRNO(ENOSYS)
#ifdef SANDBOX_REFUSE
#define SANDBOX_DEBUG 1
#else
#define SANDBOX_DEBUG  0
#define SANDBOX_REFUSE REFUSE
#endif

/* Calls for every program that waits for sockets and files. */
static const char *const common[] = {
	/* the network */
	"recvmmsg", "poll", "epoll_wait", "read", "write", "recvmsg", "recvfrom", "epoll_ctl",
	"epoll_pwait", "epoll_create", "epoll_create1", "ppoll", "select", "pselect6", "accept",
	"accept4", "connect", "bind", "shutdown", "getsockname", "getpeername", "setsockopt",
	"getsockopt", "readv", "writev",
	/* descriptors */
	"close", "close_range", "dup", "dup2", "dup3", "fcntl", "pipe", "pipe2", "eventfd2",
	"signalfd4", "timerfd_create", "timerfd_settime", "timerfd_gettime", "inotify_init1",
	"inotify_add_watch", "inotify_rm_watch",
	/* reading files */
	"fstat", "newfstatat", "stat", "lstat", "statx", "fstatfs", "statfs", "lseek", "pread64",
	"pwrite64", "preadv", "access", "faccessat", "faccessat2", "readlink", "readlinkat",
	"getdents64", "getcwd", "fadvise64", "flock", "fsync", "fdatasync", "ftruncate",
	/* memory */
	"mmap", "munmap", "mremap", "mprotect", "madvise", "brk", "mlock", "munlock", "mincore",
	"membarrier",
	/* time; the process itself and its limits */
	"clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time",
	"times", "getpid", "gettid", "getppid", "getpgrp", "getpgid", "getuid", "geteuid", "getgid",
	"getegid", "getresuid", "getresgid", "getgroups", "getrusage", "getrlimit", "setrlimit",
	"ugetrlimit", "sched_getaffinity", "sched_yield", "sched_getparam", "sched_getscheduler",
	"getcpu", "uname", "sysinfo", "getrandom",
	/* threads and signals */
	"futex", "set_robust_list", "get_robust_list", "rseq", "set_tid_address", "rt_sigaction",
	"rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait", "rt_sigsuspend",
	"sigaltstack", "restart_syscall", "exit", "exit_group", "arch_prctl"
};

/* Calls to start a child, and calls of the child until it restricts itself further. */
static const char *const child[] = { "listen", "fork", "vfork", "execve", "wait4", "waitid", "kill",
	"tgkill", "tkill", "pidfd_open", "pidfd_send_signal", "setpgid", "setsid", "getsid",
	"prctl", "capget", "capset", "seccomp", "landlock_create_ruleset", "landlock_add_rule",
	"landlock_restrict_self",
	/* for dnsmasq, which makes the calls of a daemon even in the foreground */
	"alarm", "setitimer", "getitimer", "umask", "chdir", "setgroups", "setuid", "setgid",
	"setresuid", "setresgid", "setreuid", "setregid", "fchown", "chown", "fchownat" };

static const char *const writes[] = { "open", "openat", "creat", "rename", "renameat", "renameat2",
	"unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "fchmod", "fchmodat", "chmod",
	"utimensat", "truncate" };

/* The child's own filter does not have these calls, because they are needed only before exec. */
static const char *const until_exec[] = { "execve", "vfork", "seccomp", "landlock_create_ruleset",
	"landlock_add_rule", "landlock_restrict_self", "setresuid", "setresgid", "setreuid",
	"setregid", "pidfd_open", "pidfd_send_signal", "mkdir", "mkdirat" };

static const uint32_t ioctls[] = { FIONREAD, FIONBIO, TCGETS, TIOCGWINSZ, TIOCOUTQ, SIOCGIFCONF,
	SIOCGIFNAME, SIOCGIFINDEX, SIOCGIFFLAGS, SIOCGIFADDR, SIOCGIFNETMASK, SIOCGIFBRDADDR,
	SIOCGIFMTU, SIOCGIFHWADDR };

struct filter {
	scmp_filter_ctx context;
	int error; /* the first error */
};

static bool
is_one_of(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* Allows the call if all conditions are true. */
static void
allow_if(
    struct filter *filter, const char *name, unsigned count, const struct scmp_arg_cmp *conditions)
{
	/* libseccomp 2.5 does not know these names. */
	static const struct {
		const char *name;
		int number;
	} newer[] = { { "landlock_create_ruleset", 444 }, { "landlock_add_rule", 445 },
		{ "landlock_restrict_self", 446 } };
	int number = seccomp_syscall_resolve_name(name);

	for (size_t i = 0; number < 0 && i < sizeof newer / sizeof newer[0]; i++)
		if (strcmp(newer[i].name, name) == 0)
			number = newer[i].number;
	if (number < 0 || filter->error != 0)
		return;
	int rc = seccomp_rule_add_array(filter->context, SCMP_ACT_ALLOW, number, count, conditions);
	filter->error = rc == -EEXIST ? 0 : rc;
}

static void
allow_all(struct filter *filter, const char *const *names, size_t count, const char *const *but,
    size_t but_count)
{
	for (size_t i = 0; i < count; i++)
		if (!is_one_of(names[i], but, but_count))
			allow_if(filter, names[i], 0, NULL);
}

/* A condition on a call's argument; libseccomp's own macros leave a field uninitialised. */
#define ARG_IS(n, value)                                                                           \
	{                                                                                          \
		(n), SCMP_CMP_EQ, (value), 0                                                       \
	}
#define ARG_MASKED(n, mask, value)                                                                 \
	{                                                                                          \
		(n), SCMP_CMP_MASKED_EQ, (mask), (value)                                           \
	}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/*
 * Allows IPv4 and IPv6 sockets for datagrams and for TCP, and netlink sockets for the list of
 * addresses. Streams other than TCP are refused, because Landlock's `tcp` does not check MPTCP and
 * SMC, which can connect to the same servers.
 */
static void
allow_sockets(struct filter *filter, unsigned keep)
{
	static const int families[] = { AF_INET, AF_INET6 };
	static const struct {
		int type, protocol;
	} kinds[] = { { SOCK_DGRAM, 0 }, { SOCK_DGRAM, IPPROTO_UDP }, { SOCK_STREAM, 0 },
		{ SOCK_STREAM, IPPROTO_TCP } };
	const uint64_t type_mask = ~(uint64_t)(SOCK_NONBLOCK | SOCK_CLOEXEC) & UINT32_MAX;

	for (size_t f = 0; f < COUNT(families); f++)
		for (size_t k = 0; k < COUNT(kinds); k++)
			allow_if(filter, "socket", 3,
			    (struct scmp_arg_cmp[]){ ARG_IS(0, (uint64_t)families[f]),
				ARG_MASKED(1, type_mask, (uint64_t)kinds[k].type),
				ARG_IS(2, (uint64_t)kinds[k].protocol) });
	allow_if(filter, "socket", 2,
	    (struct scmp_arg_cmp[]){ ARG_IS(0, AF_NETLINK), ARG_IS(2, 0 /* NETLINK_ROUTE */) });
	/* Landlock's `signals` (version 6, Linux 6.12) blocks abstract sockets of other processes.
	 * On older kernels, the program can reach these sockets. */
	if (keep & SANDBOX_KEEP_UNIX)
		allow_if(filter, "socket", 2,
		    (struct scmp_arg_cmp[]){
			ARG_IS(0, AF_UNIX), ARG_MASKED(1, type_mask, SOCK_STREAM) });
	/* A socket pair within the process, which libcurl uses to wake up. */
	allow_if(filter, "socketpair", 1, (struct scmp_arg_cmp[]){ ARG_IS(0, AF_UNIX) });
}

/* Allows sending, except with MSG_FASTOPEN (TCP Fast Open). Sending with that flag connects, but
 * Landlock's `tcp` only checks connect(). */
static void
allow_sending(struct filter *filter)
{
	static const struct {
		const char *name;
		unsigned flags; /* index of the flags argument */
	} calls[] = { { "sendto", 3 }, { "sendmsg", 2 }, { "sendmmsg", 3 } };

	for (size_t i = 0; i < COUNT(calls); i++)
		allow_if(filter, calls[i].name, 1,
		    (struct scmp_arg_cmp[]){ ARG_MASKED(calls[i].flags, MSG_FASTOPEN, 0) });
}

/* Without SANDBOX_KEEP_WRITES files can only be opened for reading, even on kernels without
 * Landlock. */
static void
allow_reading(struct filter *filter)
{
	const uint64_t mask = O_ACCMODE | O_CREAT | O_TRUNC;

	allow_if(filter, "open", 1, (struct scmp_arg_cmp[]){ ARG_MASKED(1, mask, O_RDONLY) });
	allow_if(filter, "openat", 1, (struct scmp_arg_cmp[]){ ARG_MASKED(2, mask, O_RDONLY) });
}

/* Some system calls are allowed in full only to a process that starts a child. Every other process
 * may use a few forms of these calls, which are allowed here. */
static void
allow_without_child(struct filter *filter)
{
	static const int options[] = { PR_SET_NAME, PR_GET_NAME, PR_SET_VMA };

	for (size_t i = 0; i < COUNT(options); i++)
		allow_if(
		    filter, "prctl", 1, (struct scmp_arg_cmp[]){ ARG_IS(0, (uint64_t)options[i]) });
	allow_if(filter, "memfd_create", 0, NULL); /* kubedns's credentials (api_credentials.c) */
	/* abort() */
	allow_if(filter, "tgkill", 1, (struct scmp_arg_cmp[]){ ARG_IS(0, (uint64_t)getpid()) });
}

/*
 * In debug builds, refuses calls that the C library tries routinely and has a fallback for. These
 * are clone3() and a socket to nscd. The flags of clone3() are in memory that a filter cannot read.
 */
static void
refuse_politely(struct filter *filter, unsigned keep)
{
	const struct scmp_arg_cmp unix_socket = ARG_IS(0, AF_UNIX);

	if (!SANDBOX_DEBUG)
		return; /* refused by default */
	seccomp_rule_add(filter->context, REFUSE, seccomp_syscall_resolve_name("clone3"), 0);
	if ((keep & SANDBOX_KEEP_UNIX) == 0)
		seccomp_rule_add_array(filter->context, REFUSE, SCMP_SYS(socket), 1, &unix_socket);
}

static void
allow_threads(struct filter *filter)
{
	allow_if(filter, "clone", 1,
	    (struct scmp_arg_cmp[]){ ARG_MASKED(0, CLONE_THREAD, CLONE_THREAD) });
}

/* Allows a child in the namespaces of this process. In a new user namespace it would be root. */
static void
allow_child(struct filter *filter, const char *const *but, size_t but_count)
{
	const uint64_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
				    CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

	allow_if(filter, "clone", 1, (struct scmp_arg_cmp[]){ ARG_MASKED(0, namespaces, 0) });
	allow_all(filter, child, COUNT(child), but, but_count);
}

static void
fill(struct filter *filter, unsigned keep, const struct sandbox_exec_key *key)
{
	size_t but = key == NULL ? 0 : COUNT(until_exec);

	allow_all(filter, common, COUNT(common), until_exec, but);
	for (size_t i = 0; i < COUNT(ioctls); i++)
		allow_if(filter, "ioctl", 1, (struct scmp_arg_cmp[]){ ARG_IS(1, ioctls[i]) });
	allow_sockets(filter, keep);
	allow_sending(filter);
	/* Allows the process to change only its own limits. With a CPU limit of 0 s, it could end
	 * another process, despite Landlock's `signals`. */
	allow_if(filter, "prlimit64", 1, (struct scmp_arg_cmp[]){ ARG_IS(0, 0) });
	if (keep & SANDBOX_KEEP_LISTEN)
		allow_if(filter, "listen", 0, NULL);
	refuse_politely(filter, keep);
	if (keep & SANDBOX_KEEP_WRITES)
		allow_all(filter, writes, COUNT(writes), until_exec, but);
	else
		allow_reading(filter);
	if (keep & SANDBOX_KEEP_THREADS)
		allow_threads(filter);
	if (keep & SANDBOX_KEEP_LOW_PORTS) { /* for sandbox_low_ports_done() */
		allow_if(filter, "capget", 0, NULL);
		allow_if(filter, "capset", 0, NULL);
	}
	/* Landlock has no rules for files without a path. A process that may execute could execute one. */
	if (keep & SANDBOX_KEEP_CHILD)
		allow_child(filter, until_exec, but);
	else
		allow_without_child(filter);
	if (key != NULL)
		allow_if(filter, "execve", 2,
		    (struct scmp_arg_cmp[]){
			ARG_IS(0, (uintptr_t)key->path), ARG_IS(1, (uintptr_t)key->argv) });
}

bool
sandbox_has_syscalls(void)
{
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0;
}

int
sandbox_syscalls_enter(enum sandbox_mode mode, unsigned keep, const struct sandbox_exec_key *key)
{
	bool only_log = mode == SANDBOX_LOG || SANDBOX_SANITIZED;
	struct filter filter = { .context =
				     seccomp_init(only_log ? SCMP_ACT_LOG : SANDBOX_REFUSE) };

	if (filter.context == NULL)
		return -ENOMEM;
	/* Without this, kernels before 5.16 would slow the process down to protect it from
	 * speculation attacks by foreign code. The process runs no foreign code. */
	seccomp_attr_set(filter.context, SCMP_FLTATR_CTL_SSB, 1);
	seccomp_attr_set(filter.context, SCMP_FLTATR_CTL_TSYNC, 1);
	seccomp_attr_set(filter.context, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree instead of a
								        * list */
	fill(&filter, keep, key);
	if (filter.error == 0)
		filter.error = seccomp_load(filter.context);
	seccomp_release(filter.context);
	return filter.error;
}
