#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nanny/dnsmasq_version.h"

enum { TIMEOUT_MS = 1000 };

unsigned
dnsmasq_version_parse(const char *text)
{
	static const char head[] = "Dnsmasq version ";
	unsigned major, minor;
	if (strncmp(text, head, sizeof head - 1) != 0 ||
	    sscanf(text + sizeof head - 1, "%2u.%2u", &major, &minor) != 2)
		return 0;
	return major * 100 + minor;
}

/* What it writes first. */
static void
read_line(int fd, char *text, size_t size)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	ssize_t n = poll(&ready, 1, TIMEOUT_MS) == 1 ? read(fd, text, size - 1) : 0;
	text[n > 0 ? n : 0] = '\0';
}

unsigned
dnsmasq_version(const char *exec)
{
	char first[256] = "", option[] = "--version", path[4096];
	char *const argv[] = { path, option, NULL };
	char *const envp[] = { NULL };
	posix_spawn_file_actions_t actions;
	int out[2];
	pid_t pid;
	if (strlen(exec) >= sizeof path || pipe2(out, O_CLOEXEC) < 0)
		return 0;
	strcpy(path, exec);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	int rc = posix_spawn(&pid, path, &actions, NULL, argv, envp);
	posix_spawn_file_actions_destroy(&actions);
	close(out[1]);
	if (rc == 0) {
		read_line(out[0], first, sizeof first);
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(out[0]);
	return dnsmasq_version_parse(first);
}
