/*
 * Ends dnsmasq's TCP connections after a reload. dnsmasq forks a process for each, which keeps the
 * configuration of that moment for as long as the connection lasts: 150 s or 100 queries. After a
 * reload the nanny ends the older processes, each as soon as it has waited a moment for its
 * client's next query: a client whose idle connection closes opens another (RFC 7766 section
 * 6.2.4). A process that works on a query answers it first.
 *
 * When the connections come near dnsmasq's limit, at which it accepts none until one ends (up to
 * 150 s), the nanny ends idle ones too, until half of the limit is free: first those of the client
 * with the most, and of these the one that has been idle longest. So a client that opens
 * connections and asks nothing does not keep others from using TCP.
 *
 * The signal is SIGALRM, by which dnsmasq itself ends such a process. A process waits if /proc
 * shows it in read(2) of one byte, the first of the next query's length, on a socket at dnsmasq's
 * port. Where /proc may not be read, because dnsmasq runs as another user, nothing is ended.
 */
#ifndef NANNY_DNSMASQ_STALE_FORKS_H
#define NANNY_DNSMASQ_STALE_FORKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	STALE_FORKS_MAX =
	    256, /* tracked at a time; dnsmasq's own limit is 20 unless it is told another */
	STALE_FORKS_QUIET_MS = 20,   /* without a question;
			      * a client that asks more often has its 100 questions soon */
	STALE_FORKS_FRESH_MS = 1000, /* without the first one */
	STALE_FORKS_LOOK_MS = STALE_FORKS_QUIET_MS / 2,
	STALE_FORKS_OFTEN_MS = 3000, /* after a reload; then only what hangs or hurries is left */
	STALE_FORKS_LOOK_LATER_MS = 100,
	STALE_FORKS_CROWD_MS = 1000,      /* between countings of the connections */
	STALE_FORKS_CROWDED_MS = 50,      /* the same while they are near the limit */
	STALE_FORKS_CROWD_FRESH_MS = 300, /* without a first question: a client sends it at once */
	STALE_FORKS_PEER_MAX = 40,
};

enum stale_forks_whose { STALE_FORKS_UNKNOWN, STALE_FORKS_CLIENT, STALE_FORKS_SERVER };

struct stale_fork {
	pid_t pid;
	int pidfd;         /* so that no other process is ever meant */
	uint64_t switches; /* its context switches: unchanged, no question has come */
	int64_t quiet_ms;  /* since when; 0: not known to be */
	bool quiet;        /* for long enough */
	int fd;            /* what it waits on, and which socket that is */
	unsigned long inode;
	enum stale_forks_whose whose;
	bool stale;                      /* from before a reload; else near the limit only */
	char peer[STALE_FORKS_PEER_MAX]; /* the client's address, as /proc/net/tcp has it */
};

struct stale_forks {
	struct stale_fork forks[STALE_FORKS_MAX]; /* from before a reload, or idle near the limit */
	size_t count;
	int64_t reloaded_ms, next_ms; /* the last reload, and when to look again */
	uint64_t ended;               /* since the start */
	unsigned limit;               /* dnsmasq's, of connections at a time; 0: not known */
	size_t connections;           /* when they were last counted */
	bool crowded;                 /* they were near the limit */
	int64_t crowd_ms;             /* when to count again */
	uint64_t crowd_ended;         /* for being idle near the limit, since the start */
};

/* dnsmasq, process `dnsmasq`, has been seen to have a new file: the processes that it has forked so
 * far may have an old one. */
void stale_forks_reloaded(struct stale_forks *tcp, pid_t dnsmasq, int64_t now_ms);

/* Counts the connections of dnsmasq, process `dnsmasq`, if it is time; near the limit all of them
 * are looked at. */
void stale_forks_count(struct stale_forks *tcp, pid_t dnsmasq, int64_t now_ms);

/* Looks, if it is time, and ends what is quiet on a connection to dnsmasq's `port`. */
void stale_forks_run(struct stale_forks *tcp, uint16_t port, int64_t now_ms);

/* When stale_forks_run or, near the limit, stale_forks_count has something to do; INT64_MAX: never.
 * Far from the limit counting waits until something else wakes the loop. */
int64_t stale_forks_next_ms(const struct stale_forks *tcp);

/* Forgets a dnsmasq of which no process is left. */
void stale_forks_forget(struct stale_forks *tcp);

/*
 * Whether `text`, of /proc/PID/syscall, says that the process waits in read(2) for one byte, and on
 * which descriptor. Pure.
 */
bool stale_forks_waits(const char *text, int *fd);

#endif
