/* lib/sandbox. Each case runs in its own process, because a process cannot leave its sandbox. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/sandbox.h"
#include "lib/sandbox_syscalls.h"
#include "tests/unit/emulator.h"

static char dir[] = "/tmp/sandbox-XXXXXX";

/* Runs `body` in a child process. Returns the exit status of the child. */
static int
in_child(int (*body)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Returns 0 if the file below `dir` can be opened, else errno. */
static int
opened(const char *name, int flags)
{
	char path[256];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	int fd = open(path, flags | O_CLOEXEC, 0644), error = errno;
	if (fd < 0)
		return error;
	close(fd);
	return 0;
}

static void
make(const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	if (text == NULL) {
		assert_int_equal(mkdir(path, 0755), 0);
		return;
	}
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static struct sandbox *
reading(enum sandbox_mode mode, const char *name)
{
	char path[256];
	struct sandbox *s = sandbox_new(mode);

	snprintf(path, sizeof path, "%s/%s", dir, name);
	sandbox_read(s, path);
	return s;
}

/* Simulates an older kernel, which does not have these calls. */
static void
without(const int *calls, size_t count)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	for (size_t i = 0; i < count; i++)
		seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), calls[i], 0);
	if (seccomp_load(filter) != 0)
		_exit(99);
	seccomp_release(filter);
}

static void
skip_without_landlock(int version)
{
	if (sandbox_landlock_abi() < version)
		skip();
}

/* --- restrictions --- */

static int
read_elsewhere(void)
{
	sandbox_enter(reading(SANDBOX_ON, "mine"), 0);
	if (opened("mine/file", O_RDONLY) != 0)
		return 1;
	return opened("other/file", O_RDONLY) == EACCES ? 0 : 2;
}

static void
only_named_directories_can_be_read(void **state)
{
	(void)state;
	skip_without_landlock(1);
	assert_int_equal(in_child(read_elsewhere), 0);
}

static int
write_where_reading_is_allowed(void)
{
	sandbox_enter(reading(SANDBOX_ON, "mine"), 0);
	if (opened("mine/new", O_WRONLY | O_CREAT) == 0)
		return 1;
	return opened("mine/file", O_WRONLY) == 0 ? 2 : 0;
}

static void
what_is_read_cannot_be_written(void **state)
{
	(void)state;
	skip_under_emulator("seccomp()");
	assert_int_equal(in_child(write_where_reading_is_allowed), 0);
}

static int
write_and_rename(void)
{
	char from[256], to[256], elsewhere[256];
	struct sandbox *s = sandbox_new(SANDBOX_ON);

	snprintf(from, sizeof from, "%s/mine/new", dir);
	snprintf(to, sizeof to, "%s/mine/newer", dir);
	snprintf(elsewhere, sizeof elsewhere, "%s/other/newer", dir);
	from[strlen(from) - strlen("/new")] = '\0';
	sandbox_write(s, from);
	strcat(from, "/new");
	sandbox_enter(s, SANDBOX_KEEP_WRITES);
	if (opened("mine/new", O_WRONLY | O_CREAT) != 0)
		return 1;
	if (rename(from, to) != 0)
		return 2;
	if (rename(to, elsewhere) == 0)
		return 3;
	return unlink(to) == 0 ? 0 : 4;
}

static void
a_directory_to_write_in_takes_files_and_gives_none_away(void **state)
{
	(void)state;
	skip_without_landlock(1);
	assert_int_equal(in_child(write_and_rename), 0);
}

/* An editor or the kubelet does this: another directory gets the name. */
static int
replace_the_directory(void)
{
	char path[256], aside[256], old[256];
	struct sandbox *s = sandbox_new(SANDBOX_ON);

	snprintf(path, sizeof path, "%s/conf/map", dir);
	snprintf(aside, sizeof aside, "%s/conf/aside", dir);
	snprintf(old, sizeof old, "%s/conf/old", dir);
	sandbox_read_replaced(s, path);
	make("conf/aside", NULL);
	make("conf/aside/key", "new");
	if (rename(path, old) != 0 || rename(aside, path) != 0)
		return 1;
	sandbox_enter(s, 0);
	if (opened("conf/map/key", O_RDONLY) != 0)
		return 2;
	return opened("other/file", O_RDONLY) == EACCES ? 0 : 3;
}

static void
a_directory_that_is_replaced_can_still_be_read(void **state)
{
	(void)state;
	skip_without_landlock(1);
	assert_int_equal(in_child(replace_the_directory), 0);
}

static int
appear_later(void)
{
	char path[256];
	struct sandbox *s = sandbox_new(SANDBOX_ON);

	snprintf(path, sizeof path, "%s/conf/not/yet", dir);
	sandbox_read_replaced(s, path);
	make("conf/not", NULL);
	make("conf/not/yet", "here");
	sandbox_enter(s, 0);
	return opened("conf/not/yet", O_RDONLY);
}

static void
what_appears_later_can_be_read(void **state)
{
	(void)state;
	skip_without_landlock(1);
	assert_int_equal(in_child(appear_later), 0);
}

static int
open_the_parent(void)
{
	struct sandbox *s = sandbox_new(SANDBOX_ON);

	sandbox_read_replaced(s, "/tmp/whatever.conf");
	sandbox_enter(s, 0);
	return opened("mine/file", O_RDONLY) == EACCES ? 0 : 1;
}

static void
a_file_in_tmp_does_not_open_tmp(void **state)
{
	(void)state;
	skip_without_landlock(1);
	assert_int_equal(in_child(open_the_parent), 0);
}

/* --- TCP --- */

static int server_fd;
static struct sockaddr_in server;

static int
connected(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc = connect(fd, (struct sockaddr *)&server, sizeof server) == 0 ? 0 : errno;

	close(fd);
	return rc;
}

static int
connect_elsewhere(void)
{
	struct sandbox *s = sandbox_new(SANDBOX_ON);

	sandbox_connect(s, 53);
	sandbox_enter(s, 0);
	if (!sandbox_may_connect(53) || sandbox_may_connect(ntohs(server.sin_port)))
		return 1;
	return connected() == EACCES ? 0 : 2;
}

static int
connect_as_named(void)
{
	struct sandbox *s = sandbox_new(SANDBOX_ON);

	sandbox_connect(s, ntohs(server.sin_port));
	sandbox_enter(s, 0);
	return sandbox_may_connect(ntohs(server.sin_port)) ? connected() : 1;
}

static void
tcp_connects_to_named_ports_only(void **state)
{
	(void)state;
	skip_without_landlock(4);
	assert_int_equal(in_child(connect_elsewhere), 0);
	assert_int_equal(in_child(connect_as_named), 0);
}

/* --- system calls --- */

static int
start_a_child(void)
{
	sandbox_enter(sandbox_new(SANDBOX_ON), SANDBOX_KEEP_THREADS);
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		_exit(0);
	return pid < 0 && errno == ENOSYS ? 0 : 1;
}

static int
open_a_unix_socket(void)
{
	sandbox_enter(sandbox_new(SANDBOX_ON), 0);
	if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) >= 0)
		return 1;
	return socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) >= 0 ? 0 : 2;
}

static int
keep_unix_streams(void)
{
	sandbox_enter(sandbox_new(SANDBOX_ON), SANDBOX_KEEP_UNIX);
	if (socket(AF_UNIX, SOCK_DGRAM, 0) >= 0)
		return 1;
	return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) >= 0 ? 0 : 2;
}

static void
system_calls_beyond_the_list_are_refused(void **state)
{
	(void)state;
	skip_under_emulator("seccomp()");
	if (SANDBOX_SANITIZED)
		skip();
	assert_int_equal(in_child(start_a_child), 0);
	assert_int_equal(in_child(open_a_unix_socket), 0);
	assert_int_equal(in_child(keep_unix_streams), 0);
}

/* --- the modes, and kernels with fewer features --- */

static int
log_only(void)
{
	sandbox_enter(reading(SANDBOX_LOG, "mine"), 0);
	if (opened("other/file", O_RDONLY) != 0 || connected() != 0 || !sandbox_may_connect(1))
		return 1;
	return socket(AF_UNIX, SOCK_STREAM, 0) >= 0 ? 0 : 2;
}

static int
off(void)
{
	sandbox_enter(reading(SANDBOX_OFF, "mine"), 0);
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 0)
		return 1;
	return opened("other/file", O_RDONLY);
}

static void
log_and_off_refuse_nothing(void **state)
{
	(void)state;
	assert_int_equal(in_child(log_only), 0);
	assert_int_equal(in_child(off), 0);
}

static int
enter_without_landlock(void)
{
	const int calls[] = { 444, 445, 446 };

	without(calls, 3);
	sandbox_enter(reading(SANDBOX_ON, "mine"), 0);
	if (!sandbox_may_connect(1))
		return 1;
	if (opened("other/file", O_RDONLY) != 0)
		return 2;
	/* The list of system calls still refuses a call that Landlock would refuse. */
	return opened("mine/new", O_WRONLY | O_CREAT) == ENOSYS || SANDBOX_SANITIZED ? 0 : 3;
}

static int
enter_without_seccomp(void)
{
	/* The library calls seccomp() first, and then the older prctl(). */
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(seccomp), 0);
	seccomp_rule_add(filter, SCMP_ACT_ERRNO(EINVAL), SCMP_SYS(prctl), 1,
	    (struct scmp_arg_cmp){ 0, SCMP_CMP_EQ, PR_SET_SECCOMP, 0 });
	if (seccomp_load(filter) != 0)
		return 99;
	seccomp_release(filter);
	sandbox_enter(reading(SANDBOX_ON, "mine"), 0);
	return socket(AF_UNIX, SOCK_STREAM, 0) >= 0 ? 0 : 1;
}

static void
what_the_kernel_lacks_is_left_out(void **state)
{
	(void)state;
	skip_under_emulator("seccomp()");
	assert_int_equal(in_child(enter_without_landlock), 0);
	assert_int_equal(in_child(enter_without_seccomp), 0);
}

/* --- exec --- */

static int
execute(const char *script)
{
	char *const argv[] = { (char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
		(char *)(uintptr_t)script, NULL };
	struct sandbox *s = sandbox_new(SANDBOX_ON);

	sandbox_execute(s, "/bin/sh");
	sandbox_execute(s, "/bin/true");
	int rc = sandbox_exec(s, SANDBOX_KEEP_CHILD | SANDBOX_KEEP_WRITES, argv, -1);
	return rc < 0 ? 99 : 98;
}

static int
execute_once(void)
{
	return execute("exit 7");
}

static int
execute_twice(void)
{
	return execute("exec /bin/true");
}

static void
a_child_executes_its_program_and_nothing_after_it(void **state)
{
	(void)state;
	assert_int_equal(in_child(execute_once), 7);
	if (SANDBOX_SANITIZED)
		skip();
	skip_under_emulator("seccomp()");
	/* A shell exits with 126 or 127 if it cannot execute a program. */
	int status = in_child(execute_twice);
	assert_true(status == 126 || status == 127);
}

static int
execute_what_was_not_named(void)
{
	char *const argv[] = { (char *)(uintptr_t) "/bin/true", NULL };
	int pipe_fds[2], layers = -1;
	struct sandbox *s = sandbox_new(SANDBOX_ON);

	if (pipe(pipe_fds) != 0)
		return 1;
	int rc = sandbox_exec(s, SANDBOX_KEEP_CHILD, argv, pipe_fds[1]);
	if (read(pipe_fds[0], &layers, sizeof layers) != sizeof layers)
		return 2;
	if ((layers & 1 << SANDBOX_FILES) == 0 || (layers & 1 << SANDBOX_SYSCALLS) == 0)
		return 3;
	return rc == -EACCES ? 0 : 4;
}

static void
exec_reports_its_layers_and_why_it_failed(void **state)
{
	(void)state;
	skip_without_landlock(1);
	assert_int_equal(in_child(execute_what_was_not_named), 0);
}

static int
set_up(void **state)
{
	socklen_t len = sizeof server;

	(void)state;
	if (mkdtemp(dir) == NULL)
		return -1;
	make("mine", NULL);
	make("other", NULL);
	make("conf", NULL);
	make("conf/map", NULL);
	make("mine/file", "mine");
	make("other/file", "other");
	server = (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	server_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return bind(server_fd, (struct sockaddr *)&server, len) == 0 && listen(server_fd, 9) == 0
		   ? getsockname(server_fd, (struct sockaddr *)&server, &len)
		   : -1;
}

static int
tear_down(void **state)
{
	char command[64];

	(void)state;
	close(server_fd);
	snprintf(command, sizeof command, "rm -rf %s", dir);
	return system(command); /* NOLINT: the test made the name itself */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_named_directories_can_be_read),
		cmocka_unit_test(what_is_read_cannot_be_written),
		cmocka_unit_test(a_directory_to_write_in_takes_files_and_gives_none_away),
		cmocka_unit_test(a_directory_that_is_replaced_can_still_be_read),
		cmocka_unit_test(what_appears_later_can_be_read),
		cmocka_unit_test(a_file_in_tmp_does_not_open_tmp),
		cmocka_unit_test(tcp_connects_to_named_ports_only),
		cmocka_unit_test(system_calls_beyond_the_list_are_refused),
		cmocka_unit_test(log_and_off_refuse_nothing),
		cmocka_unit_test(what_the_kernel_lacks_is_left_out),
		cmocka_unit_test(a_child_executes_its_program_and_nothing_after_it),
		cmocka_unit_test(exec_reports_its_layers_and_why_it_failed),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
