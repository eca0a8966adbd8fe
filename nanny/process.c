#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/xalloc.h"
#include "nanny/engine.h"
#include "nanny/process.h"

enum { SAY_MS = 1000 };

void
process_init(struct process *process, const struct engine *engine)
{
	*process = (struct process){ .engine = engine, .pidfd = -1, .log_fd = -1 };
}

void
process_adopt_orphans(void)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		log_warn("nanny: cannot adopt orphaned processes of its child");
}

struct child_plan {
	char *const *argv;
	const struct sandbox *sandbox;
	unsigned keep;
};

/*
 * Runs in the child between fork and exec. SIGHUP is ignored until the program installs its handler,
 * because its default action would kill it. The parent-death signal ends the child when the nanny
 * dies. If the nanny died before prctl(), no signal arrives, so the child checks its parent.
 */
static _Noreturn void
become_child(const struct child_plan *plan, pid_t parent, int log_fd, int report_fd)
{
	sigset_t none;
	int null = open("/dev/null", O_RDONLY);

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
	if (getppid() != parent)
		_exit(1);
	for (int sig = 1; sig < 32; sig++)
		signal(sig, SIG_DFL);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (null >= 0)
		dup2(null, STDIN_FILENO);
	dup2(log_fd, STDOUT_FILENO);
	dup2(log_fd, STDERR_FILENO);
	int error = sandbox_exec(plan->sandbox, plan->keep, plan->argv, report_fd);
	ssize_t ignored = write(report_fd, &error, sizeof error);
	(void)ignored;
	_exit(127);
}

/* Reads the child's report before exec: the active layers of its sandbox, then -errno if exec
 * failed. If exec succeeds, the child closes the pipe and writes nothing more. */
static int
read_report(int fd, unsigned *layers)
{
	int word, error = 0;
	ssize_t n;

	while ((n = read(fd, &word, sizeof word)) == sizeof word || (n < 0 && errno == EINTR))
		if (n > 0 && word < 0)
			error = word;
		else if (n > 0)
			*layers = (unsigned)word;
	close(fd);
	return error;
}

int
process_spawn(
    struct process *process, char *const *argv, const struct sandbox *sandbox, unsigned keep)
{
	const struct child_plan plan = { argv, sandbox, keep };
	int log_pipe[2], report_pipe[2];

	process_close(process);
	if (pipe2(log_pipe, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(report_pipe, O_CLOEXEC) < 0) {
		int rc = -errno;

		close(log_pipe[0]);
		close(log_pipe[1]);
		return rc;
	}
	/* Both ends of the log pipe are non-blocking, because a child that blocks while it logs
	 * answers no client. */
	fcntl(log_pipe[0], F_SETFL, O_NONBLOCK);
	fcntl(log_pipe[1], F_SETFL, O_NONBLOCK);
	pid_t self = getpid(), pid = fork();
	int fork_error = -errno;
	if (pid == 0)
		become_child(&plan, self, log_pipe[1], report_pipe[1]);
	close(log_pipe[1]);
	close(report_pipe[1]);
	process->log_fd = log_pipe[0];
	process->line_len = process->lines = 0;
	if (pid < 0) {
		close(report_pipe[0]);
		return fork_error;
	}
	setpgid(pid, pid);
	process->layers = 0;
	int rc = read_report(report_pipe[0], &process->layers);
	if (rc < 0) {
		waitpid(pid, &process->status, 0);
		return rc;
	}
	process->pid = process->group = pid;
	/* without a pidfd, SIGCHLD reports the death */
	process->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return 0;
}

void
process_signal(struct process *process, int sig)
{
	if (process->pid > 0 && kill(process->pid, sig) < 0)
		log_warn("%s: signal %d", process->engine->name, sig);
}

void
process_kill(struct process *process)
{
	if (process->group > 0)
		kill(-process->group, SIGKILL);
}

bool
process_reap(struct process *process)
{
	int status;
	pid_t pid;
	bool had = process->group > 0;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != process->pid)
			continue;
		process->pid = 0;
		process->status = status;
		/* also kill the processes that it forked for TCP clients, because they occupy the
		 * port */
		process_kill(process);
	}
	if (!had || process->pid > 0)
		return false;
	if (kill(-process->group, SIGKILL) == 0 || errno == EPERM)
		return false; /* wait for the SIGCHLD of the last process in the group */
	process->group = 0;
	process_read_log(process);
	return true;
}

static void
end_line(struct process *process)
{
	process->line[process->line_len] = '\0';
	process->line_len = 0;
	enum log_level level;
	const char *text = process->engine->log_line(process, process->line, &level);
	if (*text == '\0')
		return;
	if (level != LOG_LEVEL_DEBUG)
		snprintf(process->last[process->lines++ % PROCESS_LAST_LINES], PROCESS_LINE_MAX,
		    "%s", text);
	log_at(level, "%s: %s", process->engine->name, text);
}

/* Reads at most 64 KiB in one iteration of the loop, so that a verbose child does not delay other
 * work. When the pipe is full, the child drops log lines. */
void
process_read_log(struct process *process)
{
	char buf[4096];
	ssize_t n;

	for (int i = 0;
	     i < 16 && process->log_fd >= 0 && (n = read(process->log_fd, buf, sizeof buf)) != 0;
	     i++) {
		if (n < 0)
			return;
		for (ssize_t k = 0; k < n; k++)
			if (buf[k] == '\n' || process->line_len == PROCESS_LINE_MAX - 1)
				end_line(process);
			else
				process->line[process->line_len++] = buf[k];
	}
}

void
process_close(struct process *process)
{
	if (process->line_len)
		end_line(process);
	if (process->pidfd >= 0)
		close(process->pidfd);
	if (process->log_fd >= 0)
		close(process->log_fd);
	process->pidfd = process->log_fd = -1;
}

char *
process_last_words(const struct process *process)
{
	const char *name = process->engine->name;
	int status = process->status;
	char *how = WIFSIGNALED(status)
			? xasprintf("%s was killed by signal %d (%s)", name, WTERMSIG(status),
			      strsignal(WTERMSIG(status)))
			: xasprintf("%s exited with status %d (%s)", name, WEXITSTATUS(status),
			      process->engine->exit_meaning(process));
	unsigned from =
	    process->lines > PROCESS_LAST_LINES ? process->lines - PROCESS_LAST_LINES : 0;

	for (unsigned i = from; i < process->lines; i++) {
		char *more = xasprintf("%s%s %s", how, i == from ? "; its last log lines:" : " |",
		    process->last[i % PROCESS_LAST_LINES]);

		free(how);
		how = more;
	}
	return how;
}

/* Reads the process's output until the process exits or the timeout passes. */
static size_t
read_output(int fd, char *text, size_t size)
{
	int64_t until_ms = clock_mono_ms() + SAY_MS;
	size_t len = 0;
	ssize_t n = 1;

	while (n > 0 && len < size - 1) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		int64_t left_ms = until_ms - clock_mono_ms();

		if (left_ms <= 0 || poll(&ready, 1, (int)left_ms) != 1)
			break;
		n = read(fd, text + len, size - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	text[len] = '\0';
	return len;
}

size_t
process_say(const char *exec, const char *option, char *text, size_t size)
{
	char path[4096], argument[32];

	char *const argv[] = { path, argument, NULL };
	char *const envp[] = { NULL };
	posix_spawn_file_actions_t actions;
	size_t len = 0;
	int out[2];
	pid_t pid;

	text[0] = '\0';
	if (strlen(exec) >= sizeof path || strlen(option) >= sizeof argument ||
	    pipe2(out, O_CLOEXEC) < 0)
		return 0;
	strcpy(path, exec);
	strcpy(argument, option);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	int rc = posix_spawn(&pid, path, &actions, NULL, argv, envp);
	posix_spawn_file_actions_destroy(&actions);
	close(out[1]);
	if (rc == 0) {
		len = read_output(out[0], text, size);
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(out[0]);
	return len;
}
