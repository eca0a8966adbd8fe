/*
 * Non-blocking recvmmsg() and sendmmsg(), and poll(), as direct system calls. glibc's functions are
 * cancellation points: in a program with threads each call switches asynchronous cancellation on
 * and off, which took 4 % of the instructions of a query that comes alone. No thread here is ever
 * cancelled.
 */
#ifndef KUBEDNS_SERVE_NET_BATCH_IO_H
#define KUBEDNS_SERVE_NET_BATCH_IO_H

#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Messages received, at most `count`; -1 with errno set when there are none. */
static inline int
messages_receive(int fd, struct mmsghdr *messages, unsigned count)
{
#ifdef SYS_recvmmsg
	return (int)syscall(SYS_recvmmsg, fd, messages, count, MSG_DONTWAIT, NULL);
#else
	return recvmmsg(fd, messages, count, MSG_DONTWAIT, NULL);
#endif
}

/* Messages sent, at most `count`; -1 with errno set when the first of them could not be. */
static inline int
messages_send(int fd, struct mmsghdr *messages, unsigned count)
{
#ifdef SYS_sendmmsg
	return (int)syscall(SYS_sendmmsg, fd, messages, count, MSG_DONTWAIT);
#else
	return sendmmsg(fd, messages, count, MSG_DONTWAIT);
#endif
}

/* poll() as it is. */
static inline int
sockets_poll(struct pollfd *fds, nfds_t count, int wait_ms)
{
#ifdef SYS_poll
	return (int)syscall(SYS_poll, fds, count, wait_ms);
#else
	return poll(fds, count, wait_ms);
#endif
}

#endif
