/* unbound's reply to a command. The input is the bytes on the socket. The first byte says after how many
 * bytes the client reads. The command must end exactly once, and every figure must be a number from 0 to
 * 1e15. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "nanny/unbound/control.h"
#include "nanny/unbound/statistics.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int done;

static void
take(void *arg, const char *command, const char *reply, const char *why)
{
	double values[FIGURE_COUNT] = { 0 };

	(void)command;
	if (arg != &done || (reply == NULL) == (why == NULL))
		abort();
	done++;
	if (reply == NULL)
		return;
	if (strlen(reply) >= CONTROL_REPLY_MAX)
		abort();
	unbound_statistics_read(values, reply);
	for (int i = 0; i < FIGURE_COUNT; i++)
		if (!(values[i] >= 0 && values[i] <= 1e15))
			abort();
}

/* Sends the bytes in pieces. The client may close the connection before the end. */
static void
send_bytes(struct control *control, int fd, const uint8_t *data, size_t size)
{
	size_t piece = size > 0 ? (size_t)data[0] * 64 + 1 : 1;

	while (size > 0 && done == 0) {
		size_t len = size < piece ? size : piece;
		ssize_t n = send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		control_run(control, 0);
		if (n > 0) {
			data += n;
			size -= (size_t)n;
		}
	}
}

static struct sockaddr_un sun = { .sun_family = AF_UNIX };

static void
remove_socket(void)
{
	unlink(sun.sun_path);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int listener = -1;

	if (listener < 0) {
		snprintf(sun.sun_path, sizeof sun.sun_path, "/tmp/fuzz-control-%d", (int)getpid());
		unlink(sun.sun_path);
		listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(listener, (struct sockaddr *)&sun, sizeof sun) < 0 ||
		    listen(listener, 4) < 0 || atexit(remove_socket) != 0)
			abort();
	}
	struct control *control = control_new(sun.sun_path, &done);
	done = 0;
	if (!control_send(control, "stats_noreset", take))
		abort();
	control_run(control, 0);
	int fd = accept(listener, NULL, NULL);
	send_bytes(control, fd, data, size);
	close(fd);
	control_run(control, 0);
	if (done != 1 || control_fd(control) != -1)
		abort();
	control_free(control);
	return 0;
}
