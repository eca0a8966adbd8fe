/*
 * Non-blocking recvmmsg() and sendmmsg(), and poll(), as direct system calls. The functions of
 * glibc are cancellation points. In a program with threads, each call enables and disables
 * asynchronous cancellation. These switches took 4 % of the instructions for a single query. No
 * thread here is ever cancelled.
 */
#ifndef KUBEDNS_SERVE_NET_BATCH_IO_H
#define KUBEDNS_SERVE_NET_BATCH_IO_H

#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns the number of messages received, at most `count`. If there are none, returns -1 and
 * sets errno. */
static inline int
messages_receive(int fd, struct mmsghdr *messages, unsigned count)
{
#ifdef SYS_recvmmsg
	return (int)syscall(SYS_recvmmsg, fd, messages, count, MSG_DONTWAIT, NULL);
#else
	return recvmmsg(fd, messages, count, MSG_DONTWAIT, NULL);
#endif
}

/* Returns the number of messages sent, at most `count`. If the first message could not be sent,
 * returns -1 and sets errno. */
static inline int
messages_send(int fd, struct mmsghdr *messages, unsigned count)
{
#ifdef SYS_sendmmsg
	return (int)syscall(SYS_sendmmsg, fd, messages, count, MSG_DONTWAIT);
#else
	return sendmmsg(fd, messages, count, MSG_DONTWAIT);
#endif
}

/* Does the same as poll(). */
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
