#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/xalloc.h"
#include "nanny/dnsmasq/process.h"

void
process_init(struct process *process)
{
	*process = (struct process){ .pidfd = -1, .log_fd = -1 };
}

void
process_adopt_orphans(void)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		log_warn("dnsmasq: its orphans cannot be adopted");
}

struct child_plan {
	char *const *argv;
	const struct sandbox *sandbox;
	unsigned keep;
};

/*
 * Between fork and exec. SIGHUP is ignored until dnsmasq installs its handler: before that it would
 * die of one. It ends with us (and takes its own forks along); if we are gone already, there will
 * be no signal.
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

/* Reads what the child reports before exec: the layers of its sandbox, then -errno if exec failed;
 * if it succeeds the pipe is just closed. */
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
	/* Non-blocking at both ends: a dnsmasq that blocks on its log answers nobody. */
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
	process->pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* without one, SIGCHLD tells */
	return 0;
}

void
process_signal(struct process *process, int sig)
{
	if (process->pid > 0 && kill(process->pid, sig) < 0)
		log_warn("dnsmasq: signal %d", sig);
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
		process_kill(process); /* what it forked for TCP clients: it holds the port */
	}
	if (!had || process->pid > 0)
		return false;
	if (kill(-process->group, SIGKILL) == 0 || errno == EPERM)
		return false; /* SIGCHLD comes with the last of them */
	process->group = 0;
	process_read_log(process);
	return true;
}

/* Words in dnsmasq's log that mean trouble, and the beginnings of lines that come with every reload
 * or query. */
enum log_level
process_log_level(const char *line)
{
	static const char *const trouble[] = { "fail", "cannot", "can't", "error", "bad ",
		"illegal", "warning", "WARNING", "not known", "unknown", "junk", "missing",
		"ignoring", "Maximum", "reducing", "refused", "dropping", "overflow", "LOUD",
		"invalid" };
	static const char *const detail[] = { "using ", "read ", "query", "forwarded", "reply",
		"cached", "config", "compile time", "more servers", "cleared cache", "validation",
		"DNS service limited", "stopped ", "warning: no upstream servers configured" };
	for (size_t i = 0; i < sizeof detail / sizeof *detail; i++)
		if (strncmp(line, detail[i], strlen(detail[i])) == 0)
			return LOG_LEVEL_DEBUG;
	for (size_t i = 0; i < sizeof trouble / sizeof *trouble; i++)
		if (strstr(line, trouble[i]) != NULL)
			return LOG_LEVEL_WARN;
	return LOG_LEVEL_INFO;
}

/* "started, version 2.90 cachesize 1000" */
static void
note_version(struct process *process, const char *text)
{
	static const char begin[] = "started, version ";

	if (strncmp(text, begin, sizeof begin - 1) != 0)
		return;
	text += sizeof begin - 1;
	snprintf(process->version, sizeof process->version, "%.*s", (int)strcspn(text, " "), text);
}

static void
end_line(struct process *process)
{
	process->line[process->line_len] = '\0';
	process->line_len = 0;
	const char *text = process->line;
	if (strncmp(text, "dnsmasq: ", 9) == 0)
		text += 9;
	else if (strncmp(text, "dnsmasq[", 8) == 0 && strstr(text, "]: ") != NULL)
		text = strstr(text, "]: ") + 3;
	if (*text == '\0')
		return;
	note_version(process, text);
	enum log_level level = process_log_level(text);
	if (level != LOG_LEVEL_DEBUG)
		snprintf(process->last[process->lines++ % PROCESS_LAST_LINES], PROCESS_LINE_MAX,
		    "%s", text);
	log_at(level, "dnsmasq: %s", text);
}

/* Reads at most 64 KiB in a turn of the loop, so that a verbose dnsmasq does not delay the rest; it
 * drops what does not fit into the pipe. */
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

/* The exit codes of dnsmasq(8), with what to check. */
static const char *
exit_meaning(int code)
{
	switch (code) {
	case 0:
		return "as if asked to";
	case 1:
		return "it refuses its arguments";
	case 2:
		return "network: the address is in use, not of this machine, or the port is not "
		       "permitted";
	case 3:
		return "a file or directory is missing or not permitted";
	case 4:
		return "out of memory";
	case 5:
		return "a user, a capability or something else is missing";
	default:
		return "unknown";
	}
}

char *
process_last_words(const struct process *process)
{
	int status = process->status;
	char *how = WIFSIGNALED(status)
			? xasprintf("dnsmasq was killed by signal %d (%s)", WTERMSIG(status),
			      strsignal(WTERMSIG(status)))
			: xasprintf("dnsmasq exited with status %d (%s)", WEXITSTATUS(status),
			      exit_meaning(WEXITSTATUS(status)));
	unsigned from =
	    process->lines > PROCESS_LAST_LINES ? process->lines - PROCESS_LAST_LINES : 0;

	for (unsigned i = from; i < process->lines; i++) {
		char *more = xasprintf("%s%s %s", how, i == from ? "; it said:" : " |",
		    process->last[i % PROCESS_LAST_LINES]);

		free(how);
		how = more;
	}
	return how;
}
