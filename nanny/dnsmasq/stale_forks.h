/*
 * Ends dnsmasq's TCP connections after a reload. When there are too many connections, it also ends
 * idle connections.
 *
 * dnsmasq forks a process for each TCP connection. Until the connection ends, the process keeps
 * using the configuration from the time of the fork. A connection can last 150 s or 100 queries.
 * After a reload, the nanny ends each older process as soon as this process has nothing to do
 * except to wait for a query. A client whose idle connection is closed opens a new one (RFC 7766
 * section 6.2.4). A process that is working on a query answers it first.
 *
 * At its connection limit, dnsmasq accepts no new connection until an old one ends, which may take
 * 150 s. When the number of connections is near the limit, the nanny ends idle connections until
 * half of the limit is free. Of the client with the most connections, the connection that has been
 * idle longest ends first. A client that opens connections and sends nothing therefore cannot
 * prevent other clients from using TCP.
 *
 * The signal is SIGALRM, which dnsmasq itself uses to end such a process. A process counts as
 * waiting if /proc shows that it waits in read(2) for one byte, on a socket at dnsmasq's port. That
 * byte is the first byte of the next query's length. If dnsmasq runs as another user, the nanny may
 * not read these files in /proc. The nanny then ends no process.
 */
#ifndef NANNY_DNSMASQ_STALE_FORKS_H
#define NANNY_DNSMASQ_STALE_FORKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	STALE_FORKS_MAX = 256, /* forks tracked at the same time; dnsmasq's default limit is 20 */
	/* idle time after which a stale connection is ended. A client that sends queries more often
	 * reaches dnsmasq's limit of 100 soon. */
	STALE_FORKS_QUIET_MS = 20,
	/* idle time for a connection that has not sent any query yet */
	STALE_FORKS_FRESH_MS = 1000,
	STALE_FORKS_LOOK_MS = STALE_FORKS_QUIET_MS / 2,
	/* duration of frequent checks after a reload; after that, only stuck or very busy
	 * connections are left */
	STALE_FORKS_OFTEN_MS = 3000,
	STALE_FORKS_LOOK_LATER_MS = 100,
	STALE_FORKS_CROWD_MS = 1000, /* interval between counts of the connections */
	STALE_FORKS_CROWDED_MS = 50, /* interval between counts while the count is near the limit */
	/* idle time for a connection without a query while the count is near the limit; clients
	 * normally send the first query at once */
	STALE_FORKS_CROWD_FRESH_MS = 100,
	STALE_FORKS_PEER_MAX = 40,
};

enum stale_forks_whose { STALE_FORKS_UNKNOWN, STALE_FORKS_CLIENT, STALE_FORKS_SERVER };

struct stale_fork {
	pid_t pid;
	int pidfd; /* identifies the process even if its PID is reused */
	/* the process's context switches; an unchanged count means that no query has arrived */
	uint64_t switches;
	int64_t quiet_ms; /* start of the idle time; 0 if the process is not known to be idle */
	bool quiet;       /* the connection has been idle for long enough */
	int fd; /* descriptor on which the process waits; `inode` is the inode of this socket */
	unsigned long inode;
	enum stale_forks_whose whose;
	/* forked before a reload; false if tracked only because the count is near the limit */
	bool stale;
	char peer[STALE_FORKS_PEER_MAX]; /* the client's address in the format of /proc/net/tcp */
};

struct stale_forks {
	/* forks from before a reload, and idle forks while the count is near the limit */
	struct stale_fork forks[STALE_FORKS_MAX];
	size_t count;
	int64_t reloaded_ms, next_ms; /* time of the last reload, and of the next check */
	uint64_t ended;               /* stale connections ended since the nanny's start */
	unsigned limit;               /* dnsmasq's limit of concurrent connections; 0 if unknown */
	size_t connections;           /* number of connections at the last count */
	bool crowded;                 /* the count was near the limit */
	int64_t crowd_ms;             /* time of the next count */
	/* connections ended because the count was near the limit, since the nanny's start */
	uint64_t crowd_ended;
};

/* Call after a reload is confirmed. From then on, all existing forks of process `dnsmasq` may use
 * the old configuration. */
void stale_forks_reloaded(struct stale_forks *tcp, pid_t dnsmasq, int64_t now_ms);

/* Counts the connections of process `dnsmasq` if a count is due. If the count is near the limit,
 * starts tracking all connections. */
void stale_forks_count(struct stale_forks *tcp, pid_t dnsmasq, int64_t now_ms);

/* Checks the tracked forks if a check is due. Ends the forks that are idle on a connection to
 * dnsmasq's `port`. */
void stale_forks_run(struct stale_forks *tcp, uint16_t port, int64_t now_ms);

/*
 * Returns when stale_forks_run must be called next or, near the limit, stale_forks_count. Returns
 * CLOCK_NEVER if no call is due. Far from the limit, the next count waits until another event wakes
 * the loop.
 */
int64_t stale_forks_next_ms(const struct stale_forks *tcp);

/* Stops tracking all forks. Called after dnsmasq and all its forks have ended. */
void stale_forks_forget(struct stale_forks *tcp);

/*
 * Parses `text` from /proc/PID/syscall. Returns whether the process waits in read(2) for one byte.
 * Sets `*fd` to the descriptor that the process reads. Pure.
 */
bool stale_forks_waits(const char *text, int *fd);

#endif
