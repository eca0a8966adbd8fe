/*
 * dnsmasq's TCP connections across a reload. dnsmasq forks a process for each, which keeps the
 * configuration of that moment for as long as the connection lasts: 150 s or 100 questions. After a
 * reload the processes that were there are ended, each as soon as it has waited a moment for its
 * client's next question: a client whose idle connection closes opens another
 * (RFC 7766 section 6.2.4). One that works on a question answers it first.
 *
 * When connections near dnsmasq's limit, past which it accepts none until one ends (up to 150 s),
 * idle ones are ended too, those of the client with the most first, and of those the one
 * that has been idle longest, until half of the limit is free. A client that opens connections and
 * asks nothing does not take TCP from the others.
 *
 * The signal is the one by which dnsmasq ends such a process, SIGALRM. That it waits is what
 * the kernel says of it: in read(2) of one byte, the first of the next question's length,
 * on a socket at dnsmasq's port. Where the kernel does not tell, because dnsmasq is another user,
 * nothing is ended.
 */
#ifndef NANNY_STALE_FORKS_H
#define NANNY_STALE_FORKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	STALE_FORKS_MAX =
	    256, /* looked after; dnsmasq's own limit is 20 unless it is told another */
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

/* dnsmasq, process `dnsmasq`, has been seen to have a new file:
 * whatever it has forked may have an old one. */
void stale_forks_reloaded(struct stale_forks *tcp, pid_t dnsmasq, int64_t now_ms);

/* Counts the connections of dnsmasq, process `dnsmasq`, if it is time; near the limit all of them
 * are looked at. */
void stale_forks_count(struct stale_forks *tcp, pid_t dnsmasq, int64_t now_ms);

/* Looks, if it is time, and ends what is quiet on a connection to dnsmasq's `port`. */
void stale_forks_run(struct stale_forks *tcp, uint16_t port, int64_t now_ms);

/* When stale_forks_run or, near the limit, stale_forks_count has something to do; INT64_MAX: never.
 * Otherwise counting waits for whatever else wakes the loop. */
int64_t stale_forks_next_ms(const struct stale_forks *tcp);

/* Nothing is left of this dnsmasq. */
void stale_forks_forget(struct stale_forks *tcp);

/*
 * Whether `text`, of /proc/PID/syscall, says that the process waits in read(2) for one byte, and on
 * which descriptor. Pure.
 */
bool stale_forks_waits(const char *text, int *fd);

#endif
