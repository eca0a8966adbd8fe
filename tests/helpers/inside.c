/*
 * LD_PRELOAD library that acts like an intruder who has taken over this process. Each thread makes
 * all attempts once, at its first poll() with more seccomp filters than INSIDE_FILTERS.
 * INSIDE_FILTERS is the number of filters of the process that started this process, or -1 to make
 * the attempts at once. The library writes a line for each attempt to the process's log:
 *
 *	inside PROGRAM THREAD ATTEMPT ok|ERRNO
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static __thread int done;
static struct stat log_stat;

__attribute__((constructor)) static void
begin(void)
{
	fstat(STDERR_FILENO, &log_stat);
}

/* Returns the descriptor of the log. dnsmasq has moved this descriptor to another number. */
static int
log_fd(void)
{
	struct stat st;

	for (int fd = STDERR_FILENO; fd < 256; fd++)
		if (fstat(fd, &st) == 0 && st.st_ino == log_stat.st_ino &&
		    st.st_dev == log_stat.st_dev)
			return fd;
	return STDERR_FILENO;
}

/* Logs the outcome of an attempt. A negative `result` is an errno. */
static void
say(const char *attempt, long result)
{
	char thread[16] = "";
	char line[256];

	pthread_getname_np(pthread_self(), thread, sizeof thread);
	int len = snprintf(line, sizeof line, "inside %s %s %s %s\n", program_invocation_short_name,
	    thread, attempt, result >= 0 ? "ok" : strerrorname_np((int)-result));
	if (write(log_fd(), line, (size_t)len) < 0)
		abort();
}

static long
outcome(long result)
{
	return result < 0 ? -errno : result;
}

static void
try_open(const char *attempt, const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	say(attempt, outcome(fd));
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && flags & O_CREAT)
		unlink(path);
}

static void
try_socket(const char *attempt, int family, int type, int protocol)
{
	int fd = socket(family, type | SOCK_CLOEXEC, protocol);

	say(attempt, outcome(fd));
	if (fd >= 0)
		close(fd);
}

static struct sockaddr_in
local(const char *variable)
{
	const char *port = getenv(variable);

	return (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons((uint16_t)(port != NULL ? atoi(port) : 1)) };
}

static void
try_tcp(void)
{
	struct sockaddr_in to = local("INSIDE_PORT"), at = local("INSIDE_FREE_PORT");
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	say("connect", outcome(connect(fd, (struct sockaddr *)&to, sizeof to)));
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	say("listen", outcome(bind(fd, (struct sockaddr *)&at, sizeof at)));
	close(fd);
}

/*
 * Tries ways around the checks of connect() and bind(). MSG_FASTOPEN connects within a send. If a
 * socket without an address listens, the kernel binds it to an address. MPTCP is TCP with another
 * protocol number.
 */
static void
try_tcp_otherwise(void)
{
	struct sockaddr_in to = local("INSIDE_PORT");
	struct iovec byte = { .iov_base = (char[]){ 'x' }, .iov_len = 1 };
	struct mmsghdr message = { .msg_hdr = { .msg_name = &to,
				       .msg_namelen = sizeof to,
				       .msg_iov = &byte,
				       .msg_iovlen = 1 } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	say("fastopen-sendto",
	    outcome(sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&to, sizeof to)));
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	say("fastopen-sendmsg", outcome(sendmsg(fd, &message.msg_hdr, MSG_FASTOPEN)));
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	say("fastopen-sendmmsg", outcome(sendmmsg(fd, &message, 1, MSG_FASTOPEN)));
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	say("listen-unbound", outcome(listen(fd, 1)));
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_MPTCP);
	say("mptcp",
	    fd < 0 ? outcome(fd) : outcome(connect(fd, (struct sockaddr *)&to, sizeof to)));
	close(fd);
}

static void
try_fork(void)
{
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		syscall(SYS_exit_group, 0);
	say("fork", outcome(pid));
	while (pid > 0 && waitpid((pid_t)pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Tries to clone a child in new namespaces. In these namespaces the child would be root. */
static void
try_namespaces(void)
{
	long pid = syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		syscall(SYS_exit_group, 0);
	say("clone-namespaces", outcome(pid));
	while (pid > 0 && waitpid((pid_t)pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Tries to execute a program in a child. Does not use libc's fork(), because its handlers are not
 * suitable for a process that continues with all its threads. */
static void
try_exec(const char *attempt, const char *path)
{
	char *const argv[] = { (char *)path, "--version", NULL }, *const none[] = { NULL };
	int status = 0;
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid < 0) {
		/* If there is no child, the attempt happens in this process. execve() returns
		 * unless the sandbox is useless. */
		execve(path, argv, none);
		say(attempt, -errno);
		return;
	}
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 1);
		dup2(null, 2);
		execve(path, argv, none);
		syscall(SYS_exit_group, errno);
	}
	while (waitpid((pid_t)pid, &status, 0) < 0 && errno == EINTR)
		;
	say(attempt, -WEXITSTATUS(status));
}

/* Tries to execute a file that has no path. Its content is no program, so an execve() that is allowed fails with ENOEXEC. */
static void
try_exec_memfd(void)
{
	char path[64];
	int fd = memfd_create("inside", 0);

	if (fd < 0) {
		say("exec-memfd", -errno);
		return;
	}
	if (write(fd, "no program", 10) != 10)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	try_exec("exec-memfd", path);
	close(fd);
}

/* Tries to remove a file outside, and to connect to a Unix socket there. Nobody has the socket open, so a connection that is allowed
 * fails with ECONNREFUSED. */
static void
try_files_of_others(const char *dir)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	char path[512];

	snprintf(path, sizeof path, "%s/removable", dir);
	say("unlink", outcome(unlink(path)));
	const char *servers =
	    getenv("INSIDE_SERVERS"); /* the nanny's file; the nanny may remove it */
	if (servers != NULL && strcmp(program_invocation_short_name, "nanny") != 0)
		say("unlink-servers", outcome(unlink(servers)));
	snprintf(to.sun_path, sizeof to.sun_path, "%.80s/socket", dir);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	say("unix-connect",
	    fd < 0 ? outcome(fd) : outcome(connect(fd, (struct sockaddr *)&to, sizeof to)));
	if (fd >= 0)
		close(fd);
}

static void
try_kernel(void)
{
	static const struct {
		const char *name;
		long number;
	} calls[] = { { "mount", SYS_mount }, { "unshare", SYS_unshare }, { "bpf", SYS_bpf },
		{ "io_uring", SYS_io_uring_setup }, { "userfaultfd", SYS_userfaultfd },
		{ "perf", SYS_perf_event_open }, { "keys", SYS_add_key }, { "chroot", SYS_chroot },
		{ "process_vm_readv", SYS_process_vm_readv }, { "pidfd_getfd", SYS_pidfd_getfd },
		{ "init_module", SYS_init_module }, { "setns", SYS_setns } };

	/* The arguments are invalid, so a permitted call fails with EFAULT, EINVAL or EPERM. */
	for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
		say(calls[i].name, outcome(syscall(calls[i].number, -1, -1, -1, -1, -1)));
}

static void
try_all(void)
{
	const char *dir = getenv("INSIDE_DIR"), *exec = getenv("INSIDE_EXEC");
	char path[512];

	try_open("shadow", "/etc/shadow", O_RDONLY);
	snprintf(path, sizeof path, "%s/secret", dir);
	try_open("read", path, O_RDONLY);
	try_open("write", path, O_WRONLY);
	snprintf(path, sizeof path, "%s/new-%d", dir, (int)gettid());
	try_open("create", path, O_WRONLY | O_CREAT);
	try_files_of_others(dir);
	try_tcp();
	try_tcp_otherwise();
	try_fork();
	try_namespaces();
	try_socket("unix", AF_UNIX, SOCK_STREAM, 0);
	try_socket("raw", AF_INET, SOCK_RAW, IPPROTO_ICMP);
	try_socket("packet", AF_PACKET, SOCK_RAW, 0);
	try_socket("vsock", AF_VSOCK, SOCK_STREAM, 0);
	try_socket("netfilter", AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);
	say("kill", outcome(kill(getppid(), 0)));
	say("limits-of-another",
	    outcome(syscall(SYS_prlimit64, getppid(), RLIMIT_NOFILE, NULL, &(struct rlimit){ 0 })));
	say("limits-of-itself",
	    outcome(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &(struct rlimit){ 0 })));
	say("ptrace", outcome(syscall(SYS_ptrace, PTRACE_SEIZE, getppid(), 0, 0)));
	try_kernel();
	try_exec("exec", "/bin/true");
	try_exec_memfd();
	if (exec != NULL)
		try_exec("exec-itself", exec);
	say("end", 0);
}

static int
confined(void)
{
	/* Read the number from /proc, because a filter may answer prctl() itself. */
	static const char label[] = "\nSeccomp_filters:";
	char text[4096];
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	const char *filters = strstr(text, label), *before = getenv("INSIDE_FILTERS");
	return (filters != NULL ? atoi(filters + sizeof label - 1) : 0) >
	       (before != NULL ? atoi(before) : 0);
}

static void
try_once(void)
{
	if (done || getenv("INSIDE_DIR") == NULL || !confined())
		return;
	done = 1;
	try_all();
}

typedef int poll_function(struct pollfd *, nfds_t, int);
typedef int epoll_function(int, struct epoll_event *, int, int);
typedef int checked_function(struct pollfd *, nfds_t, int, size_t);

int
poll(struct pollfd *fds, nfds_t count, int timeout)
{
	try_once();
	return ((poll_function *)dlsym(RTLD_NEXT, "poll"))(fds, count, timeout);
}

/* unbound waits here. */
int
epoll_wait(int epoll, struct epoll_event *events, int max, int timeout)
{
	try_once();
	return ((epoll_function *)dlsym(RTLD_NEXT, "epoll_wait"))(epoll, events, max, timeout);
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
		try_once();
#endif
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* With _FORTIFY_SOURCE, poll() becomes a call of this function. */
int
__poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size)
{
	try_once();
	return ((checked_function *)dlsym(RTLD_NEXT, "__poll_chk"))(fds, count, timeout, size);
}
