#include "nanny/unbound/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/xalloc.h"

struct command {
	char *text;
	control_done *done;
};

struct control {
	char *path;
	void *arg;
	struct command queue[CONTROL_COMMANDS_MAX]; /* the first one is sent if fd >= 0 */
	size_t count;
	int fd;
	int64_t deadline_ms; /* of the command that has been sent */
	char *reply;
	size_t reply_len;
};

struct control *
control_new(const char *path, void *arg)
{
	struct control *control = xcalloc(1, sizeof *control);

	control->path = xstrdup(path);
	control->arg = arg;
	control->fd = -1;
	control->reply = xcalloc(CONTROL_REPLY_MAX + 1, 1);
	return control;
}

void
control_free(struct control *control)
{
	if (control == NULL)
		return;
	control_forget(control);
	free(control->path);
	free(control->reply);
	free(control);
}

static void
close_socket(struct control *control)
{
	if (control->fd >= 0)
		close(control->fd);
	control->fd = -1;
	control->reply_len = 0;
}

void
control_forget(struct control *control)
{
	close_socket(control);
	for (size_t i = 0; i < control->count; i++)
		free(control->queue[i].text);
	control->count = 0;
}

bool
control_send(struct control *control, const char *command, control_done *done)
{
	for (size_t i = control->fd >= 0 ? 1 : 0; i < control->count; i++)
		if (strcmp(control->queue[i].text, command) == 0)
			return true;
	if (control->count == CONTROL_COMMANDS_MAX)
		return false;
	control->queue[control->count++] =
	    (struct command){ .text = xstrdup(command), .done = done };
	return true;
}

/* Removes the first command and reports its result. The handler may queue further commands. */
static void
end_command(struct control *control, const char *why)
{
	struct command command = control->queue[0];

	control->reply[control->reply_len] = '\0';
	close_socket(control);
	control->count--;
	memmove(control->queue, control->queue + 1, control->count * sizeof *control->queue);
	if (command.done != NULL)
		command.done(control->arg, command.text, why == NULL ? control->reply : NULL, why);
	free(command.text);
}

/* Connects and sends the first command. A Unix socket accepts both at once or not at all. */
static int
start(struct control *control)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	char text[1024];
	int len = snprintf(text, sizeof text, "UBCT1 %s\n", control->queue[0].text);

	if (strlen(control->path) >= sizeof sun.sun_path || len >= (int)sizeof text)
		return -ENAMETOOLONG;
	strcpy(sun.sun_path, control->path);
	control->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (control->fd < 0)
		return -errno;
	if (connect(control->fd, (const struct sockaddr *)&sun, sizeof sun) < 0)
		return -errno;
	ssize_t n = send(control->fd, text, (size_t)len, MSG_NOSIGNAL);
	return n == len ? 0 : n < 0 ? -errno : -EIO;
}

/* Returns true if the reply is complete. */
static bool
read_reply(struct control *control)
{
	for (;;) {
		size_t left = CONTROL_REPLY_MAX - control->reply_len;
		ssize_t n = left > 0 ? recv(control->fd, control->reply + control->reply_len, left,
					   MSG_DONTWAIT)
				     : 0;

		if (n < 0)
			return errno != EAGAIN && errno != EINTR;
		if (n == 0)
			return true;
		control->reply_len += (size_t)n;
	}
}

void
control_run(struct control *control, int64_t now_ms)
{
	if (control->fd >= 0 && read_reply(control))
		end_command(control, control->reply_len == 0 ? "no reply"
				     : control->reply_len == CONTROL_REPLY_MAX
					 ? "the reply is too long"
					 : NULL);
	else if (control->fd >= 0 && now_ms >= control->deadline_ms)
		end_command(control, "no reply in time");
	while (control->fd < 0 && control->count > 0) {
		int rc = start(control);

		control->deadline_ms = now_ms + CONTROL_TIMEOUT_MS;
		if (rc < 0)
			end_command(control, strerror(-rc));
	}
}

int
control_fd(const struct control *control)
{
	return control->fd;
}

int64_t
control_next_ms(const struct control *control)
{
	if (control->fd >= 0)
		return control->deadline_ms;
	return control->count > 0 ? 0 : CLOCK_NEVER;
}
