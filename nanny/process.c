#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/xalloc.h"
#include "nanny/engine.h"
#include "nanny/process.h"

/* Time for a program to say its version. On a node that starts, pods get little of the processor. */
enum { SAY_MS = 10000 };

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

/* Lowers the limit of open files. Never raises it. */
static void
limit_files(unsigned files)
{
	struct rlimit limit;

	if (files == 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur <= files)
		return;
	limit.rlim_cur = files;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/*
 * Runs in the child between fork and exec. SIGHUP is ignored until the program installs its handler,
 * because its default action would kill it. The parent-death signal ends the child when the nanny
 * dies. If the nanny died before prctl(), no signal arrives, so the child checks its parent.
 */
static _Noreturn void
become_child(const struct process_plan *plan, pid_t parent, int log_fd, int report_fd)
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
	limit_files(plan->files);
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
process_spawn(struct process *process, const struct process_plan *plan)
{
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
		become_child(plan, self, log_pipe[1], report_pipe[1]);
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

/* Reads the process's output until the process exits, the timeout passes, or the output has `until` (NULL:
 * no such text). Returns 0, -ETIMEDOUT or -ECANCELED as process_try() does. */
static int
read_output(int fd, const char *until, int ms, char *text, size_t size)
{
	int64_t until_ms = clock_mono_ms() + ms;
	size_t len = 0;

	text[0] = '\0';
	while (len < size - 1) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		int64_t left_ms = until_ms - clock_mono_ms();
		int rc = left_ms > 0 ? poll(&ready, 1, (int)left_ms) : 0;

		if (rc == 0)
			return -ETIMEDOUT;
		ssize_t n = rc > 0 ? read(fd, text + len, size - 1 - len) : -1;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
		text[len] = '\0';
		if (until != NULL && strstr(text, until) != NULL)
			return 0;
	}
	return -ECANCELED;
}

/* Returns a pipe's end for reading, whose other end is closed after `text` was written. -errno if that
 * fails. */
static int
pipe_with(const char *text)
{
	int ends[2];
	size_t len = strlen(text);

	if (len > PROCESS_INPUT_MAX) /* a pipe has space for a page */
		return -EMSGSIZE;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	ssize_t n = write(ends[1], text, len);
	int error = n < 0 ? -errno : -EIO;
	close(ends[1]);
	if (n == (ssize_t)len)
		return ends[0];
	close(ends[0]);
	return error;
}

/* Becomes the program. The kernel kills it when the nanny dies. */
static _Noreturn void
become_try(char *const *argv, int in, int out, int output)
{
	char *const envp[] = { NULL };
	int null = open("/dev/null", O_WRONLY);

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	dup2(in, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	dup2(out, output);
	execve(argv[0], argv, envp);
	_exit(127);
}

/* Runs the program without an environment. Its output is what it writes to the descriptor `output`. */
static int
run(const struct process_try *try, int output, char *text, size_t size)
{
	int out[2], in = pipe_with(try->input);

	text[0] = '\0';
	if (in < 0)
		return in;
	if (pipe2(out, O_CLOEXEC) < 0) {
		int rc = -errno;

		close(in);
		return rc;
	}
	pid_t pid = fork();
	int rc = -errno;
	if (pid == 0)
		become_try(try->argv, in, out[1], output);
	close(in);
	close(out[1]);
	if (pid > 0) {
		rc = read_output(out[0], try->until, try->ms, text, size);
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(out[0]);
	return rc;
}

int
process_try(const struct process_try *try, char *text, size_t size)
{
	return run(try, STDERR_FILENO, text, size);
}

size_t
process_say(const char *exec, const char *option, char *text, size_t size)
{
	char *program = xstrdup(exec), *argument = xstrdup(option);

	char *const argv[] = { program, argument, NULL };

	run(&(struct process_try){ .argv = argv, .input = "", .ms = SAY_MS }, STDOUT_FILENO, text,
	    size);
	free(program);
	free(argument);
	return strlen(text);
}
