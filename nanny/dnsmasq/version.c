#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "nanny/dnsmasq/version.h"

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

/* What it writes until it ends. */
static size_t
read_all(int fd, char *text, size_t size)
{
	int64_t until_ms = clock_mono_ms() + TIMEOUT_MS;
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
dnsmasq_say(const char *exec, const char *option, char *text, size_t size)
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
		len = read_all(out[0], text, size);
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(out[0]);
	return len;
}

unsigned
dnsmasq_version(const char *exec)
{
	char text[4096];

	dnsmasq_say(exec, "--version", text, sizeof text);
	return dnsmasq_version_parse(text);
}

void
dnsmasq_package_read(FILE *record, char version[PACKAGE_VERSION_MAX])
{
	static const char field[] = "Version: ";
	char line[256];

	version[0] = '\0';
	while (fgets(line, sizeof line, record) != NULL) {
		if (strncmp(line, field, sizeof field - 1) != 0)
			continue;
		const char *value = line + sizeof field - 1;
		size_t len = strcspn(value, " \n");
		if (len < PACKAGE_VERSION_MAX) {
			memcpy(version, value, len);
			version[len] = '\0';
		}
		return;
	}
}

void
dnsmasq_package_version(char version[PACKAGE_VERSION_MAX])
{
	FILE *record = fopen("/var/lib/dpkg/status.d/dnsmasq", "re");

	version[0] = '\0';
	if (record == NULL)
		return;
	dnsmasq_package_read(record, version);
	fclose(record);
}
