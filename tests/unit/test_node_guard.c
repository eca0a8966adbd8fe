/* The process that manages the rules of the node. It ends when the nanny ends. The nanny does not
 * wait for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nanny/node/guard.h"
#include "nanny/privileges.h"

/* Makes a child that waits for the end of the pipe. If `stopped`, the child does not notice the
 * end. */
static struct node_guard
guard_of_child(bool stopped)
{
	int ends[2];
	char byte;

	assert_int_equal(pipe(ends), 0);
	struct node_guard guard = { .pid = fork() };
	if (guard.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* the child also ends if a test fails */
		close(ends[1]);
		if (stopped)
			raise(SIGSTOP);
		_exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(ends[0]);
	guard.pipe = ends[1];
	guard.pidfd = (int)syscall(SYS_pidfd_open, guard.pid, 0);
	if (stopped)
		assert_int_equal(waitpid(guard.pid, NULL, WUNTRACED), guard.pid);
	return guard;
}

static void
expect_end(bool stopped)
{
	struct node_guard guard = guard_of_child(stopped);
	pid_t pid = guard.pid;

	alarm(20);
	node_guard_stop(&guard);
	alarm(0);
	assert_int_equal(guard.pid, 0);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void
it_ends_when_its_pipe_does(void **state)
{
	(void)state;
	expect_end(false);
}

static void
a_stopped_one_is_killed(void **state)
{
	(void)state;
	expect_end(true);
}

static void
the_signal_at_the_parents_death_outlives_the_change_of_user(void **state)
{
	(void)state;
	int status = 0, sig = 0;
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (privileges_keep_net_admin() < 0 || prctl(PR_GET_PDEATHSIG, &sig) < 0)
			_exit(1);
		_exit(sig == SIGKILL ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_ends_when_its_pipe_does),
		cmocka_unit_test(a_stopped_one_is_killed),
		cmocka_unit_test(the_signal_at_the_parents_death_outlives_the_change_of_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
