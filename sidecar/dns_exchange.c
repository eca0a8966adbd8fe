#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/log.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "lib/clock.h"
#include "sidecar/dns_exchange.h"

enum { QUERY_MAX = 300, DATAGRAMS_MAX = 16 /* read per call: strays must not hold the loop */ };

void
net_init(struct net *net)
{
	*net = (struct net){ .phase = NET_IDLE, .fd = -1, .deadline_ns = CLOCK_NEVER };
}

static void
close_socket(struct net *net)
{
	if (net->fd >= 0)
		close(net->fd);
	net->fd = -1;
	free(net->tcp);
	net->tcp = NULL;
}

static bool
end(struct net *net, enum cause cause, int64_t arrived_ns)
{
	close_socket(net);
	net->phase = NET_IDLE;
	net->events = 0;
	net->deadline_ns = CLOCK_NEVER;
	net->reply.cause = cause;
	net->latency_ns = arrived_ns - net->sent_ns;
	return true;
}

/* Ends with what an errno of the network means. */
static bool
end_errno(struct net *net, int error)
{
	net->error = error;
	return end(net, error == ECONNREFUSED ? CAUSE_CONNECTION_REFUSED : CAUSE_UNREACHABLE,
	    clock_mono_ns());
}

static bool
end_answer(struct net *net, const uint8_t *wire, size_t len, int64_t arrived_ns)
{
	net->message = xmalloc(len);
	memcpy(net->message, wire, len);
	net->message_len = len;
	return end(net, net->reply.cause, arrived_ns);
}

static int
open_socket(struct net *net, int type)
{
	struct sockaddr_storage ss;
	socklen_t ss_len = server_sockaddr(&net->server, &ss);
	const int on = 1;

	net->fd = socket(ss.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (net->fd < 0)
		return -errno;
	if (type == SOCK_DGRAM)
		setsockopt(net->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
	if (connect(net->fd, (struct sockaddr *)&ss, ss_len) < 0)
		return -errno;
	return 0;
}

static size_t
write_question(const struct net *net, uint8_t *out)
{
	return query_write(out, QUERY_MAX, net->question.id, net->question.name.wire,
	    net->question.type, net->question.class, DNS_UDP_PAYLOAD);
}

bool
net_ask(struct net *net, const struct server *server, const struct dname *name, uint16_t type,
    uint16_t class, int timeout_ms)
{
	uint8_t query[QUERY_MAX];

	net_close(net);
	net->server = *server;
	net->question = (struct question){ .type = type, .class = class, .name = *name };
	if (getrandom(&net->question.id, sizeof net->question.id, 0) < 0)
		log_fatal("getrandom");
	net->stray = CAUSE_TIMEOUT;
	net->sent_ns = clock_mono_ns();
	net->deadline_ns = net->sent_ns + timeout_ms * NS_PER_MS;

	int error = open_socket(net, SOCK_DGRAM);
	if (error < 0)
		return end_errno(net, -error);
	net->phase = NET_UDP;
	net->events = POLLIN;
	net->sent_ns = clock_mono_ns();
	if (send(net->fd, query, write_question(net, query), 0) < 0)
		return end_errno(net, errno);
	return false;
}

static bool
start_tcp(struct net *net)
{
	close_socket(net);
	net->over_tcp = true;
	net->tcp = xmalloc(2 + QUERY_MAX);
	net->tcp_done = 0;
	net->tcp_len = 2 + write_question(net, net->tcp + 2);
	wire_put16(net->tcp, (unsigned)net->tcp_len - 2);
	int error = open_socket(net, SOCK_STREAM);
	if (error < 0 && error != -EINPROGRESS)
		return end_errno(net, -error);
	net->phase = NET_TCP_CONNECT;
	net->events = POLLOUT;
	return false;
}

/*
 * When the datagram arrived, by the monotonic clock. The kernel stamps it by the wall clock; only
 * its age in our own queue is taken from that, so that a busy loop here does not look like a slow
 * server, and never more than has passed.
 */
static int64_t
arrival_ns(const struct net *net, struct msghdr *msg)
{
	int64_t now = clock_mono_ns();

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
		struct timespec stamp, wall;
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
			continue;
		memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
		clock_gettime(CLOCK_REALTIME, &wall);
		int64_t age = timespec_ns(&wall) - timespec_ns(&stamp);
		if (age > 0 && age < now - net->sent_ns)
			return now - age;
	}
	return now;
}

static bool
read_datagram(struct net *net, bool *again)
{
	uint8_t buf[DNS_UDP_QUERY_MAX];
	union {
		char bytes[CMSG_SPACE(sizeof(struct timespec))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { buf, sizeof buf };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes };

	ssize_t len = recvmsg(net->fd, &msg, 0);
	*again = len >= 0;
	if (len < 0)
		return errno == EAGAIN || errno == EINTR ? false : end_errno(net, errno);
	switch (probe_reply_read(&net->reply, &net->question, buf, (size_t)len)) {
	case PROBE_REPLY_STRAY:
		net->stray = net->reply.cause;
		return false;
	case PROBE_REPLY_TRUNCATED:
		*again = false;
		return start_tcp(net);
	case PROBE_REPLY_DONE:
		return end_answer(net, buf, (size_t)len, arrival_ns(net, &msg));
	}
	return false;
}

static bool
run_udp(struct net *net)
{
	bool again = true;

	for (int i = 0; again && i < DATAGRAMS_MAX; i++)
		if (read_datagram(net, &again))
			return true;
	return false;
}

static bool
run_connect(struct net *net)
{
	int error = 0;
	socklen_t len = sizeof error;

	if (getsockopt(net->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error != 0)
		return end_errno(net, error);
	net->phase = NET_TCP_SEND;
	return false;
}

static bool
run_send(struct net *net)
{
	ssize_t n =
	    send(net->fd, net->tcp + net->tcp_done, net->tcp_len - net->tcp_done, MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? false : end_errno(net, errno);
	net->tcp_done += (size_t)n;
	if (net->tcp_done == net->tcp_len) {
		net->phase = NET_TCP_READ;
		net->events = POLLIN;
		net->tcp_done = 0;
		net->tcp_len = 2; /* the length comes first */
	}
	return false;
}

/* A whole message over TCP: the stream is to nobody else, so a stray ends it. */
static bool
end_tcp(struct net *net)
{
	const uint8_t *wire = net->tcp + 2;
	size_t len = net->tcp_len - 2;

	if (probe_reply_read(&net->reply, &net->question, wire, len) == PROBE_REPLY_TRUNCATED)
		net->reply.cause = CAUSE_MALFORMED;
	return end_answer(net, wire, len, clock_mono_ns());
}

static bool
run_read(struct net *net)
{
	ssize_t n = recv(net->fd, net->tcp + net->tcp_done, net->tcp_len - net->tcp_done, 0);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? false : end_errno(net, errno);
	if (n == 0)
		return end(net, CAUSE_MALFORMED, clock_mono_ns());
	net->tcp_done += (size_t)n;
	if (net->tcp_done < net->tcp_len)
		return false;
	if (net->tcp_len == 2) {
		size_t len = wire_get16(net->tcp);
		if (len < DNS_HEADER)
			return end(net, CAUSE_MALFORMED, clock_mono_ns());
		net->tcp_len = 2 + len;
		net->tcp = xreallocarray(net->tcp, net->tcp_len, 1);
		return false;
	}
	return end_tcp(net);
}

bool
net_run(struct net *net, short revents)
{
	static bool (*const run[])(struct net *) = {
		[NET_UDP] = run_udp,
		[NET_TCP_CONNECT] = run_connect,
		[NET_TCP_SEND] = run_send,
		[NET_TCP_READ] = run_read,
	};

	if (net->phase == NET_IDLE)
		return false;
	if (revents != 0 && run[net->phase](net))
		return true;
	if (clock_mono_ns() >= net->deadline_ns)
		return end(net, net->stray, clock_mono_ns());
	return false;
}

void
net_close(struct net *net)
{
	close_socket(net);
	free(net->message);
	net_init(net);
}
