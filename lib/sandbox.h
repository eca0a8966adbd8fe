/*
 * Restricts a process after startup, so that an attacker who takes it over can do little with it:
 *
 *	start: flags, sockets, files   -->   sandbox_enter()   -->   work, with untrusted packets
 *
 *	no_new_privs   exec gives no privileges
 *	capabilities   only those of `keep`; the bounding set is emptied
 *	files          Landlock: only the paths named here, for reading unless stated otherwise
 *	tcp            Landlock: connects only to the ports named here and binds no other port;
 *	               syscalls covers what Landlock does not: Fast Open, MPTCP, unbound listening
 *	signals        Landlock: only to the process's children; no abstract Unix sockets of others
 *	syscalls       seccomp: an allow-list; other calls fail with ENOSYS
 *
 * The caller creates a sandbox, names what it will still need, and enters the sandbox before it
 * starts a thread: threads inherit Landlock and capabilities from the thread that creates them. A
 * process cannot leave its sandbox. A layer that the kernel lacks is logged once and skipped. No
 * function here ends a process.
 *
 * Code that opens another file, connects to another port or makes another system call after startup
 * must also be allowed where the sandbox is created, or in lib/sandbox_syscalls.c.
 */
#ifndef LIB_SANDBOX_H
#define LIB_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

/* The values of --sandbox. In mode `log` the kernel logs the system calls that `on` refuses (audit
 * records of type 1326 with "comm" and "syscall"). Files and TCP are not restricted then. */
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

/* The permissions that a program keeps, in addition to the files that it named, IPv4 and IPv6
 * sockets, and waiting. */
enum sandbox_keep {
	SANDBOX_KEEP_THREADS = 1 << 0, /* starts threads */
	SANDBOX_KEEP_CHILD = 1 << 1,   /* starts a child: fork, exec, signals, a process group */
	SANDBOX_KEEP_WRITES = 1 << 2,  /* creates, writes and renames files */
	/* CAP_NET_BIND_SERVICE, for a child that binds port 53, or until sandbox_low_ports_done() */
	SANDBOX_KEEP_LOW_PORTS = 1 << 3,
	SANDBOX_KEEP_GROUPS = 1 << 4,    /* CAP_SETGID, for a child that drops root's groups */
	SANDBOX_KEEP_NET_ADMIN = 1 << 5, /* CAP_NET_ADMIN, on sockets that are already open */
	SANDBOX_KEEP_UNIX = 1 << 6,      /* connects to Unix stream sockets, and to abstract sockets
					  * if layer `signals` is missing */
	SANDBOX_KEEP_LISTEN = 1 << 7,    /* calls listen() later; SANDBOX_KEEP_CHILD includes it */
};

struct metrics;
struct sandbox;

/* Creates a sandbox that allows only what the C library and TLS open later. Caller frees with
 * sandbox_free, unless the caller enters the sandbox. */
struct sandbox *sandbox_new(enum sandbox_mode mode);
void sandbox_free(struct sandbox *s);

/*
 * Allows reading the path and, for a directory, everything below it. A path that does not exist is
 * skipped. The rule applies to the file or directory that exists now, not to a later file or
 * directory of the same name.
 */
void sandbox_read(struct sandbox *s, const char *path);

/*
 * Allows reading a path that may be replaced or appear later (a mounted ConfigMap, resolv.conf, a
 * certificate). Allows everything in its directory and in the directory of its link target. In
 * directories that contain more than configuration, only the path itself is allowed, as it is now.
 * Such directories are /, /home and /tmp, and for root also /etc, /var and /run.
 */
void sandbox_read_replaced(struct sandbox *s, const char *path);

/* Allows reading, creating, writing, renaming and removing files in a directory, or reading and
 * writing a file. */
void sandbox_write(struct sandbox *s, const char *path);

/* Allows removing empty directories from this directory. */
void sandbox_remove_dirs(struct sandbox *s, const char *path);

/* Allows creating a Unix socket in a directory, and removing files there. Needs SANDBOX_KEEP_UNIX. */
void sandbox_make_socket(struct sandbox *s, const char *path);

/* Allows executing a program, with the dynamic loader. */
void sandbox_execute(struct sandbox *s, const char *path);

/* Allows TCP connections to the port at any address. The next function allows every port. If
 * neither is called, no port is allowed. */
void sandbox_connect(struct sandbox *s, uint16_t port);
void sandbox_connect_any(struct sandbox *s);

/* Allows binding TCP to the port. Port 0 means a port that the kernel chooses. */
void sandbox_bind(struct sandbox *s, uint16_t port);

/*
 * Gives up all permissions except `keep` (enum sandbox_keep) and the permissions that the functions
 * above allowed. Logs in one line which layers are in force. Takes `s`. A process can enter only
 * one sandbox this way.
 */
void sandbox_enter(struct sandbox *s, unsigned keep);

/*
 * For a child between fork and exec: enters the sandbox and executes argv[0]. No further exec is
 * possible. Writes the layers in force (a mask of 1 << enum sandbox_layer) as an int to
 * `report_fd`, unless that is -1. Returns exec's -errno. The process must have one thread.
 */
int sandbox_exec(const struct sandbox *s, unsigned keep, char *const *argv, int report_fd);

/*
 * Gives up the capability of SANDBOX_KEEP_LOW_PORTS, in the calling thread and in threads that it
 * starts later. Does nothing without that flag.
 */
void sandbox_low_ports_done(void);

/* Whether TCP to the port is allowed in `s`, and in the sandbox that this process has entered.
 * Returns true if the sandbox does not restrict TCP. */
bool sandbox_connects(const struct sandbox *s, uint16_t port);
bool sandbox_may_connect(uint16_t port);

/* Drops all capabilities except the capabilities of `keep` from the bounding set. Does nothing if
 * the process may not do this. For a program that changes its user before it enters the sandbox. */
void sandbox_empty_bounding_set(unsigned keep);

/* Writes one log line that begins with `who`: the layers in force, and the layers that the kernel lacks. */
void sandbox_say(const char *who, unsigned layers);

/* Writes a gauge `name` with a sample for each layer. The value is 1 if the layer is in force, else 0. */
void sandbox_metrics(struct metrics *m, const char *name);
void sandbox_metrics_of(struct metrics *m, const char *name, unsigned layers);

/* Returns the kernel's version of Landlock, or 0 if the kernel does not have it. */
int sandbox_landlock_abi(void);

/* Writes one log line about what this kernel supports. For --check. */
void sandbox_check(enum sandbox_mode mode);

#endif
