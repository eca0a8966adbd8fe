/*
 * Starts, signals and reaps the child, and reads its log. The child has a separate process group. The
 * group still identifies processes that the child forked after the child itself has died. dnsmasq
 * forks one for each TCP client, and these processes keep its listening socket open.
 */
#ifndef NANNY_PROCESS_H
#define NANNY_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/log.h"
#include "lib/sandbox.h"

enum { PROCESS_LINE_MAX = 512, PROCESS_LAST_LINES = 5, PROCESS_VERSION_MAX = 32 };

struct engine;

struct process {
	const struct engine *engine;
	pid_t pid;       /* 0 if not running */
	pid_t group;     /* process group of the child and its forks; 0 once all have ended */
	int pidfd;       /* pidfd that becomes readable when the child dies; -1 if not open */
	int log_fd;      /* pipe from the child's stdout and stderr; -1 if not open */
	int status;      /* exit status of the last process, from waitpid */
	unsigned layers; /* active layers of the child's sandbox: bits 1 << enum sandbox_layer */
	/* version that the child logs at startup; "" until then */
	char version[PROCESS_VERSION_MAX];
	char line[PROCESS_LINE_MAX];
	size_t line_len;
	char last[PROCESS_LAST_LINES][PROCESS_LINE_MAX]; /* ring of the child's last log lines */
	unsigned lines; /* number of lines logged since the child started */
};

void process_init(struct process *process, const struct engine *engine);

/* Makes this process a child subreaper, so that it adopts the orphans of the child. */
void process_adopt_orphans(void);

/* How the child starts. */
struct process_plan {
	char *const *argv; /* argv[0] is the program */
	const struct sandbox *sandbox;
	unsigned keep;  /* rights of the child (enum sandbox_keep) */
	unsigned files; /* limit of open files; 0 for the nanny's own limit */
};

/* Starts the child. Returns 0, or -errno of fork or exec. */
int process_spawn(struct process *process, const struct process_plan *plan);

/* Sends the signal if the child is running. */
void process_signal(struct process *process, int sig);

/* Kills the child and all processes that it forked. */
void process_kill(struct process *process);

/*
 * Reaps dead processes, and kills the processes that a dead child forked. Returns true once, when
 * the child and all of its forks have been reaped.
 */
bool process_reap(struct process *process);

/* Reads the child's log and writes complete lines to the nanny's log, at the matching level. */
void process_read_log(struct process *process);

/* Closes the descriptors of a child that has died. */
void process_close(struct process *process);

/* Describes how the child ended ("exited with status 2 (network: ...)"), followed by its last log
 * lines. Caller frees. */
char *process_last_words(const struct process *process);

/* Runs `exec option` and reads its standard output into `text`, for at most ten seconds. Returns the
 * number of bytes, without the final NUL. */
size_t process_say(const char *exec, const char *option, char *text, size_t size);

enum { PROCESS_INPUT_MAX = 4096 };

/* A short run of a program, whose output says what the nanny wants to know. */
struct process_try {
	char *const *argv;
	const char *input; /* for standard input, at most PROCESS_INPUT_MAX bytes */
	const char *until; /* the run ends when the output has this text */
	int ms;            /* longest time of the run */
};

/* Runs the program, and reads its standard error into `text`. Kills the program when the output has
 * `until`, is too long or the time has passed. Returns 0 if the output has `until`, -ETIMEDOUT if the
 * time has passed, -ECANCELED if the program ended before, or another -errno if it could not start. */
int process_try(const struct process_try *try, char *text, size_t size);

#endif
