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
#include "sidecar/probes/dns_exchange.h"
#include "sidecar/probes/tls.h"

enum {
	QUERY_MAX = 300,
	/* maximum read per call, so that stray datagrams cannot block the loop */
	DATAGRAMS_MAX = 16
};

void
dns_exchange_init(struct dns_exchange *exchange)
{
	*exchange =
	    (struct dns_exchange){ .phase = EXCHANGE_IDLE, .fd = -1, .deadline_ns = CLOCK_NEVER };
}

static void
close_socket(struct dns_exchange *exchange)
{
	tls_close(exchange->tls);
	exchange->tls = NULL;
	if (exchange->fd >= 0)
		close(exchange->fd);
	exchange->fd = -1;
	free(exchange->tcp);
	exchange->tcp = NULL;
}

static bool
end(struct dns_exchange *exchange, enum cause cause, int64_t arrived_ns)
{
	close_socket(exchange);
	exchange->phase = EXCHANGE_IDLE;
	exchange->events = 0;
	exchange->deadline_ns = CLOCK_NEVER;
	exchange->reply.cause = cause;
	exchange->latency_ns = arrived_ns - exchange->sent_ns;
	return true;
}

/* Ends the query after a network error. Converts the errno `error` to the cause. */
static bool
end_errno(struct dns_exchange *exchange, int error)
{
	exchange->error = error;
	return end(exchange, error == ECONNREFUSED ? CAUSE_CONNECTION_REFUSED : CAUSE_UNREACHABLE,
	    clock_mono_ns());
}

static bool
end_answer(struct dns_exchange *exchange, const uint8_t *wire, size_t len, int64_t arrived_ns)
{
	exchange->message = xmalloc(len);
	memcpy(exchange->message, wire, len);
	exchange->message_len = len;
	return end(exchange, exchange->reply.cause, arrived_ns);
}

static int
open_socket(struct dns_exchange *exchange, int type)
{
	struct sockaddr_storage ss;
	socklen_t ss_len = server_sockaddr(&exchange->server, &ss);
	const int on = 1;

	exchange->fd = socket(ss.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (exchange->fd < 0)
		return -errno;
	if (type == SOCK_DGRAM)
		setsockopt(exchange->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
	if (connect(exchange->fd, (struct sockaddr *)&ss, ss_len) < 0)
		return -errno;
	return 0;
}

static size_t
write_question(const struct dns_exchange *exchange, uint8_t *out)
{
	return query_write(out, QUERY_MAX, exchange->question.id, exchange->question.name.wire,
	    exchange->question.type, exchange->question.class, DNS_UDP_PAYLOAD);
}

static void
prepare(struct dns_exchange *exchange, const struct server *server, const struct dname *name,
    uint16_t type, uint16_t class, int timeout_ms)
{
	dns_exchange_close(exchange);
	exchange->server = *server;
	exchange->question = (struct question){ .type = type, .class = class, .name = *name };
	if (getrandom(&exchange->question.id, sizeof exchange->question.id, 0) < 0)
		log_fatal("getrandom");
	exchange->stray = CAUSE_TIMEOUT;
	exchange->sent_ns = clock_mono_ns();
	exchange->deadline_ns = exchange->sent_ns + timeout_ms * NS_PER_MS;
}

bool
dns_exchange_ask(struct dns_exchange *exchange, const struct server *server,
    const struct dname *name, uint16_t type, uint16_t class, int timeout_ms)
{
	uint8_t query[QUERY_MAX];

	prepare(exchange, server, name, type, class, timeout_ms);
	int error = open_socket(exchange, SOCK_DGRAM);
	if (error < 0)
		return end_errno(exchange, -error);
	exchange->phase = EXCHANGE_UDP;
	exchange->events = POLLIN;
	exchange->sent_ns = clock_mono_ns();
	if (send(exchange->fd, query, write_question(exchange, query), 0) < 0)
		return end_errno(exchange, errno);
	return false;
}

static bool
start_tcp(struct dns_exchange *exchange)
{
	close_socket(exchange);
	exchange->over_tcp = true;
	exchange->tcp = xmalloc(2 + QUERY_MAX);
	exchange->tcp_done = 0;
	exchange->tcp_len = 2 + write_question(exchange, exchange->tcp + 2);
	wire_put16(exchange->tcp, (unsigned)exchange->tcp_len - 2);
	int error = open_socket(exchange, SOCK_STREAM);
	if (error < 0 && error != -EINPROGRESS)
		return end_errno(exchange, -error);
	exchange->phase = EXCHANGE_TCP_CONNECT;
	exchange->events = POLLOUT;
	return false;
}

bool
dns_exchange_ask_tls(struct dns_exchange *exchange, const struct server *server,
    const char *tls_name, struct tls_trust *trust, const struct dname *name, uint16_t type,
    int timeout_ms)
{
	prepare(exchange, server, name, type, CLASS_IN, timeout_ms);
	exchange->tls_name = tls_name;
	exchange->trust = trust;
	return start_tcp(exchange);
}

/*
 * Returns the time when the datagram arrived, by the monotonic clock. Without the kernel's timestamp, a busy loop of the sidecar would look like a
 * slow server. The kernel's timestamp is of the wall clock, so it is only used to compute how long the datagram waited in the receive
 * queue. If this time is longer than the time since the query was sent, it is ignored.
 */
static int64_t
arrival_ns(const struct dns_exchange *exchange, struct msghdr *msg)
{
	int64_t now = clock_mono_ns();

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
		struct timespec stamp, wall;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
			continue;
		memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
		clock_gettime(CLOCK_REALTIME, &wall);
		int64_t age = timespec_ns(&wall) - timespec_ns(&stamp);
		if (age > 0 && age < now - exchange->sent_ns)
			return now - age;
	}
	return now;
}

static bool
read_datagram(struct dns_exchange *exchange, bool *again)
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

	ssize_t len = recvmsg(exchange->fd, &msg, 0);
	*again = len >= 0;
	if (len < 0)
		return errno == EAGAIN || errno == EINTR ? false : end_errno(exchange, errno);
	switch (dns_reply_read(&exchange->reply, &exchange->question, buf, (size_t)len)) {
	case DNS_REPLY_STRAY:
		exchange->stray = exchange->reply.cause;
		return false;
	case DNS_REPLY_TRUNCATED:
		*again = false;
		return start_tcp(exchange);
	case DNS_REPLY_DONE:
		return end_answer(exchange, buf, (size_t)len, arrival_ns(exchange, &msg));
	}
	return false;
}

static bool
run_udp(struct dns_exchange *exchange)
{
	bool again = true;

	for (int i = 0; again && i < DATAGRAMS_MAX; i++)
		if (read_datagram(exchange, &again))
			return true;
	return false;
}

static bool
run_tls(struct dns_exchange *exchange)
{
	enum cause cause;
	int rc = tls_handshake(exchange->tls, &exchange->events, &cause);

	if (rc == -EAGAIN)
		return false;
	if (rc < 0)
		return end(exchange, cause, clock_mono_ns());
	/* The time of the handshakes does not count: a client's query uses an open connection. */
	exchange->sent_ns = clock_mono_ns();
	exchange->phase = EXCHANGE_TCP_SEND;
	exchange->events = POLLOUT;
	return false;
}

static bool
run_connect(struct dns_exchange *exchange)
{
	int error = 0;
	socklen_t len = sizeof error;

	if (getsockopt(exchange->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error != 0)
		return end_errno(exchange, error);
	exchange->phase = EXCHANGE_TCP_SEND;
	if (exchange->tls_name == NULL)
		return false;
	exchange->tls = tls_open(exchange->trust, exchange->fd, exchange->tls_name);
	if (exchange->tls == NULL)
		return end(exchange, CAUSE_TLS_CA_BUNDLE, clock_mono_ns());
	exchange->phase = EXCHANGE_TLS;
	return run_tls(exchange);
}

/* As send() and recv(), but return a negative errno value. */
static ssize_t
put_bytes(struct dns_exchange *exchange, const void *data, size_t len)
{
	if (exchange->tls != NULL)
		return tls_send(exchange->tls, data, len);
	ssize_t n = send(exchange->fd, data, len, MSG_NOSIGNAL);
	return n < 0 ? -errno : n;
}

static ssize_t
get_bytes(struct dns_exchange *exchange, void *data, size_t len)
{
	if (exchange->tls != NULL)
		return tls_recv(exchange->tls, data, len);
	ssize_t n = recv(exchange->fd, data, len, 0);
	return n < 0 ? -errno : n;
}

static bool
run_send(struct dns_exchange *exchange)
{
	ssize_t n = put_bytes(
	    exchange, exchange->tcp + exchange->tcp_done, exchange->tcp_len - exchange->tcp_done);

	if (n < 0)
		return n == -EAGAIN || n == -EINTR ? false : end_errno(exchange, (int)-n);
	exchange->tcp_done += (size_t)n;
	if (exchange->tcp_done == exchange->tcp_len) {
		exchange->phase = EXCHANGE_TCP_READ;
		exchange->events = POLLIN;
		exchange->tcp_done = 0;
		exchange->tcp_len = 2; /* the length field comes before the message */
	}
	return false;
}

/* Handles a complete message that arrived over TCP. The connection carries one query, so a message that is not the answer also ends the
 * query. */
static bool
end_tcp(struct dns_exchange *exchange)
{
	const uint8_t *wire = exchange->tcp + 2;
	size_t len = exchange->tcp_len - 2;

	if (dns_reply_read(&exchange->reply, &exchange->question, wire, len) == DNS_REPLY_TRUNCATED)
		exchange->reply.cause = CAUSE_MALFORMED;
	return end_answer(exchange, wire, len, clock_mono_ns());
}

static bool
read_bytes(struct dns_exchange *exchange)
{
	ssize_t n = get_bytes(
	    exchange, exchange->tcp + exchange->tcp_done, exchange->tcp_len - exchange->tcp_done);

	if (n < 0)
		return n == -EAGAIN || n == -EINTR ? false : end_errno(exchange, (int)-n);
	if (n == 0)
		return end(exchange, CAUSE_MALFORMED, clock_mono_ns());
	exchange->tcp_done += (size_t)n;
	if (exchange->tcp_done < exchange->tcp_len)
		return false;
	if (exchange->tcp_len == 2) {
		size_t len = wire_get16(exchange->tcp);

		if (len < DNS_HEADER)
			return end(exchange, CAUSE_MALFORMED, clock_mono_ns());
		exchange->tcp_len = 2 + len;
		exchange->tcp = xreallocarray(exchange->tcp, exchange->tcp_len, 1);
		return false;
	}
	return end_tcp(exchange);
}

static bool
run_read(struct dns_exchange *exchange)
{
	do
		if (read_bytes(exchange))
			return true;
	while (exchange->tls != NULL && tls_has_input(exchange->tls));
	return false;
}

bool
dns_exchange_run(struct dns_exchange *exchange, short revents)
{
	static bool (*const run[])(struct dns_exchange *) = {
		[EXCHANGE_UDP] = run_udp,
		[EXCHANGE_TCP_CONNECT] = run_connect,
		[EXCHANGE_TLS] = run_tls,
		[EXCHANGE_TCP_SEND] = run_send,
		[EXCHANGE_TCP_READ] = run_read,
	};

	if (exchange->phase == EXCHANGE_IDLE)
		return false;
	if (revents != 0 && run[exchange->phase](exchange))
		return true;
	if (clock_mono_ns() >= exchange->deadline_ns)
		return end(exchange,
		    exchange->phase == EXCHANGE_TLS ? CAUSE_TLS_STALLED : exchange->stray,
		    clock_mono_ns());
	return false;
}

void
dns_exchange_close(struct dns_exchange *exchange)
{
	close_socket(exchange);
	free(exchange->message);
	dns_exchange_init(exchange);
}
