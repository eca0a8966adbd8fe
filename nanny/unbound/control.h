/*
 * Sends commands to unbound through its control socket, one after another, without waiting. unbound
 * closes the connection after its reply.
 *
 *	control_send --> queue --> socket --> unbound --> reply --> `done` of the command
 *
 * The socket is a file in the run directory, which only this user can enter.
 */
#ifndef NANNY_UNBOUND_CONTROL_H
#define NANNY_UNBOUND_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CONTROL_COMMANDS_MAX = 128,    /* commands that may wait; more are refused */
	CONTROL_REPLY_MAX = 64 * 1024, /* a reply of this length or more is an error */
	/* A command without a reply for this long has failed. The reload of a file with many
	 * domains takes less than a second. */
	CONTROL_TIMEOUT_MS = 10 * 1000,
};

struct control;

/* Handles a reply. `reply` is NULL if the command failed, and `why` says why. unbound does not say how
 * long a reply is, so a reply may be cut if unbound ends. */
typedef void control_done(void *arg, const char *command, const char *reply, const char *why);

/* Creates a client of the socket at `path`. Caller frees with control_free. */
struct control *control_new(const char *path, void *arg);
void control_free(struct control *control);

/* Queues a command. Does nothing if the same command waits already and has not been sent. Returns
 * false if the queue is full. */
bool control_send(struct control *control, const char *command, control_done *done);

/* Forgets all commands, because the process has ended. */
void control_forget(struct control *control);

/* Does what is possible without waiting. Call it when the descriptor is ready or the time has come. */
void control_run(struct control *control, int64_t now_ms);
int control_fd(const struct control *control);
int64_t control_next_ms(const struct control *control);

#endif
