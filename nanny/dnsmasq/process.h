/*
 * The child as a process: dnsmasq in a process group of its own, so that the processes that it
 * forks for TCP clients can be found when it is gone (they hold its listening socket), and its log
 * as lines.
 */
#ifndef NANNY_DNSMASQ_PROCESS_H
#define NANNY_DNSMASQ_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/log.h"
#include "lib/sandbox.h"

enum { PROCESS_LINE_MAX = 512, PROCESS_LAST_LINES = 5, PROCESS_VERSION_MAX = 32 };

struct process {
	pid_t pid;       /* 0: none */
	pid_t group;     /* still has members; 0: none */
	int pidfd;       /* readable when it has died; -1: none */
	int log_fd;      /* its stdout and stderr; -1: none */
	int status;      /* of the last one, from waitpid */
	unsigned layers; /* of its sandbox that are in force, 1 << enum sandbox_layer each */
	char version[PROCESS_VERSION_MAX]; /* as it says when it starts; "" until then */
	char line[PROCESS_LINE_MAX];
	size_t line_len;
	char last[PROCESS_LAST_LINES][PROCESS_LINE_MAX]; /* a ring of what it said last */
	unsigned lines;                                  /* since it started */
};

void process_init(struct process *process);

/* Makes this process the subreaper, which adopts the child's orphans. */
void process_adopt_orphans(void);

/* Starts argv[0] in the sandbox, with the rights in `keep` (enum sandbox_keep); 0, or -errno of
 * fork or exec. */
int process_spawn(
    struct process *process, char *const *argv, const struct sandbox *sandbox, unsigned keep);

/* Sends the signal, if there is a child. */
void process_signal(struct process *process, int sig);

/* Kills it and everything that it forked. */
void process_kill(struct process *process);

/*
 * Reaps whatever has died. True once when the child and all that it forked are gone: its forks are
 * killed here, and until the last one is reaped the answer is false.
 */
bool process_reap(struct process *process);

/* Reads the log and passes whole lines on to ours, at their level. */
void process_read_log(struct process *process);

/* Closes descriptors of a child that is gone. */
void process_close(struct process *process);

/* The meaning of the status in words ("exited with status 2 (network: ...)"), and the last lines;
 * caller frees. */
char *process_last_words(const struct process *process);

/* At which level a line of dnsmasq's log is to be shown; dnsmasq writes none to stderr. Pure. */
enum log_level process_log_level(const char *line);

#endif
