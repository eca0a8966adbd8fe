/*
 * What a process gives up once it has started, so that whoever takes it over gains little:
 *
 *	start: flags, sockets, files   -->   sandbox_enter()   -->   work, with strangers' packets
 *
 *	no_new_privs   no exec gives privileges
 *	capabilities   none but those of `keep`; the bounding set is emptied
 *	files          Landlock: only the paths named here, reading unless said otherwise
 *	tcp            Landlock: connections only to the ports named here, no other port bound; what
 *	               Landlock does not see (Fast Open, MPTCP, listening unbound) is with syscalls
 *	signals        Landlock: only to its own children; no abstract Unix sockets of others
 *	syscalls       seccomp: an allow-list; what is not on it fails with ENOSYS
 *
 * The caller makes a sandbox, names what it goes on needing, and enters it before it starts a
 * thread: Landlock and capabilities are a thread's and pass to the threads that it creates. There
 * is no way out. A layer that the kernel lacks is said once and left out; nothing here ends a
 * process. Code that opens another file, connects to another port or makes another system call
 * after the start needs its line where the sandbox is made, or in lib/sandbox_syscalls.c.
 */
#ifndef LIB_SANDBOX_H
#define LIB_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

/* --sandbox. In `log` the kernel logs system calls that `on` refuses (audit, type 1326, "comm" and
 * "syscall"), and files and TCP are left alone. */
enum sandbox_mode { SANDBOX_ON, SANDBOX_OFF, SANDBOX_LOG };

enum sandbox_layer {
	SANDBOX_NO_NEW_PRIVS,
	SANDBOX_CAPABILITIES,
	SANDBOX_FILES,
	SANDBOX_TCP,
	SANDBOX_SIGNALS,
	SANDBOX_SYSCALLS,
	SANDBOX_LAYERS,
};

/* What a program keeps beside files that it named, sockets of IPv4 and IPv6, and waiting. */
enum sandbox_keep {
	SANDBOX_KEEP_THREADS = 1 << 0, /* starting threads */
	SANDBOX_KEEP_CHILD = 1 << 1,   /* a child: fork, exec, signals, its process group */
	SANDBOX_KEEP_WRITES = 1 << 2,  /* making, writing and renaming files */
	/* CAP_NET_BIND_SERVICE, for a child that binds port 53, or until sandbox_low_ports_done() */
	SANDBOX_KEEP_LOW_PORTS = 1 << 3,
	SANDBOX_KEEP_GROUPS = 1 << 4,    /* CAP_SETGID, for a child that leaves root's groups */
	SANDBOX_KEEP_NET_ADMIN = 1 << 5, /* CAP_NET_ADMIN, on sockets that are open */
	SANDBOX_KEEP_UNIX = 1 << 6,      /* connecting streams to Unix sockets; to
						  * abstract ones too without `signals` */
	SANDBOX_KEEP_LISTEN = 1 << 7,    /* listen() later on; SANDBOX_KEEP_CHILD includes it */
};

struct metrics;
struct sandbox;

/* An empty list of needs; what the C library and TLS read later is added here. Caller frees with
 * sandbox_free, unless it enters it. */
struct sandbox *sandbox_new(enum sandbox_mode mode);
void sandbox_free(struct sandbox *s);

/*
 * A path and, for a directory, all beneath it may be read. One that does not exist is passed over:
 * the rule is about the file or directory that is there now, whatever takes its name later.
 */
void sandbox_read(struct sandbox *s, const char *path);

/*
 * The same for a path that may be replaced or appear later (a mounted ConfigMap, resolv.conf, a
 * certificate): allows everything in its directory, and in the directory of its link target. In
 * directories with more than configuration (/, /home, /tmp; for root /etc, /var and /run) only the
 * path itself is allowed, as it is now.
 */
void sandbox_read_replaced(struct sandbox *s, const char *path);

/* A directory whose files may be read, made, written, renamed and removed; or a file that may be
 * read and written. */
void sandbox_write(struct sandbox *s, const char *path);

/* A directory from which empty directories may be removed. */
void sandbox_remove_dirs(struct sandbox *s, const char *path);

/* A program that may be executed, with the dynamic loader. */
void sandbox_execute(struct sandbox *s, const char *path);

/* A port of any address to which TCP may connect; without a call to either, none. */
void sandbox_connect(struct sandbox *s, uint16_t port);
void sandbox_connect_any(struct sandbox *s);

/* A port that TCP may be bound to; 0: one that the kernel chooses. */
void sandbox_bind(struct sandbox *s, uint16_t port);
void sandbox_bind_any(struct sandbox *s);

/*
 * Gives up all but `keep` (enum sandbox_keep) and what was named, and says in one line what holds;
 * takes `s`. Only one sandbox of a process is entered this way.
 */
void sandbox_enter(struct sandbox *s, unsigned keep);

/*
 * In a child between fork and exec: enters the sandbox and executes argv[0], after which no exec
 * is possible any more. Writes the layers in force (a mask of 1 << enum sandbox_layer) as an int
 * to `report_fd`, if that is not -1. Returns -errno of exec. For a process with one thread.
 */
int sandbox_exec(const struct sandbox *s, unsigned keep, char *const *argv, int report_fd);

/*
 * Gives up what SANDBOX_KEEP_LOW_PORTS has kept, in the calling thread and those that it starts from
 * now on; without effect if that is nothing.
 */
void sandbox_low_ports_done(void);

/* Whether TCP to the port is possible in `s`, and in the one that this process has entered (true
 * where that does not confine TCP). */
bool sandbox_connects(const struct sandbox *s, uint16_t port);
bool sandbox_may_connect(uint16_t port);

/*
 * Drops all capabilities but those of `keep` from the bounding set, without a word where that is
 * not permitted. For a program that changes its user before it enters the sandbox.
 */
void sandbox_empty_bounding_set(unsigned keep);

/* One log line that begins with `who`: the layers in force, and those that the kernel lacks. */
void sandbox_say(const struct sandbox *s, const char *who, unsigned layers);

/* A gauge `name` with a value for each layer: 1 in force, 0 not. */
void sandbox_metrics(struct metrics *m, const char *name);
void sandbox_metrics_of(struct metrics *m, const char *name, unsigned layers);

/* The version of Landlock that the kernel has; 0: none. */
int sandbox_landlock_abi(void);

/* One log line: what this kernel offers. For --check. */
void sandbox_check(enum sandbox_mode mode);

#endif
