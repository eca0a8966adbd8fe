/*
 * Both sides of a forwarder whose configuration changes: the clients and the servers. Clients and
 * servers use the same clock, so this program knows for every answer which server sent it and when.
 *
 *	change_load
 *
 * The program prints `port` and the port of its SERVERS servers. The servers use UDP and TCP at
 * 127.0.0.1 and the following addresses. All servers have the same port, because the nanny's
 * sandbox lets dnsmasq connect only to the ports that were configured at dnsmasq's start. The
 * program then waits for a line `PORT SECONDS RATE TCP_RATE` on standard input. It sends RATE
 * queries a second over UDP, and TCP_RATE queries a second over TCP, to 127.0.0.1:PORT. Each query
 * is sent once and on time, whether or not answers arrive.
 *
 * At the end, the program prints a line for each query: `KIND SENT RECEIVED RCODE SERVER`. Times
 * are in microseconds of CLOCK_MONOTONIC. RECEIVED is 0 if no answer arrived within LOST_S. Server
 * N, from 1, answers with the address 10.9.0.N. The last line is `closed N`. The kinds are:
 *
 *	0 cached    one of CACHED_NAMES names below ext.test with a TTL of a minute
 *	1 uncached  a new name below ext.test
 *	2 kept      like cached, but below keep.test
 *	3 slow      a new name below slow.test: servers 3 and 4 answer after SLOW_MS
 *	4 tcp       a new name below ext.test or slow.test, each over a new TCP connection
 *	5 held      like tcp, but one after the other over one of HELD connections that stay open
 *
 * If the forwarder closes a held connection, the client opens a new connection. On the new
 * connection it repeats a query that has no answer yet (RFC 7766 section 6.2.4). `closed` counts
 * these queries.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/dname.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

enum {
	SERVERS = 6,
	SOCKETS = 64,
	CACHED_NAMES = 100,
	FAST_MS = 10,
	SLOW_MS = 300,
	LOST_S = 6,
	QUEUE = 1 << 15,
	BUFFER = 4 << 20,
	TTL_S = 60,
	HELD = 8,
};
enum kind { KIND_CACHED, KIND_UNCACHED, KIND_KEPT, KIND_SLOW, KIND_TCP, KIND_HELD };
enum role {
	ROLE_SERVER_UDP,
	ROLE_SERVER_LISTEN,
	ROLE_SERVER_TCP,
	ROLE_CLIENT_UDP,
	ROLE_CLIENT_TCP,
	ROLE_CLIENT_HELD
};

struct asking {
	int64_t sent_us, received_us;
	uint8_t kind, rcode, server;
};

/* The object behind an epoll event. */
struct endpoint {
	enum role role;
	int fd;
	int server;       /* index of the server, for the roles of a server */
	size_t record;    /* index of the query's record, for a TCP client */
	size_t len, want; /* bytes of the TCP message in `buf`, and bytes wanted */
	unsigned pending; /* answers that a TCP server has not sent yet */
	bool closed;
	uint8_t buf[1024];
};

struct reply {
	int64_t due_us;
	/* where the reply goes: a TCP connection, or `peer` over the server's UDP socket */
	struct endpoint *to;
	struct sockaddr_in peer;
	uint16_t len;
	uint8_t wire[512];
};

static struct {
	struct endpoint udp, listener;
	struct reply *queue;
	unsigned head, tail;
} servers[SERVERS];

static struct endpoint clients[SOCKETS];
static size_t asked[SOCKETS][65536]; /* index of the record plus 1, by ID */
static uint16_t next_id[SOCKETS];
static struct asking *records;
static size_t record_count, record_max, answered;
static struct endpoint held[HELD];
static bool held_busy[HELD]; /* the query on this connection has no answer yet */
static unsigned held_closed; /* number of connections closed while a query had no answer */
static int epoll_fd;
static struct sockaddr_in target = { .sin_family = AF_INET };

static int64_t
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void
watch(struct endpoint *e, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = e };

	if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, e->fd, &event) < 0 &&
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, e->fd, &event) < 0)
		err(1, "epoll_ctl");
}

static int
open_socket(int type, struct sockaddr_in *bind_to)
{
	int size = BUFFER, one = 1, fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		err(1, "socket");
	if (type == SOCK_DGRAM &&
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	if (type == SOCK_STREAM)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	/* Connections of an earlier test occupy their port for a minute after they ended. */
	if (type == SOCK_STREAM && bind_to != NULL)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind_to != NULL && bind(fd, (struct sockaddr *)bind_to, sizeof *bind_to) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Opens the sockets of a server. If `*port` is 0, the kernel chooses the port. Returns false if the port is not free for UDP and TCP. */
static bool
open_server(int i, in_port_t *port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_port = *port,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (in_addr_t)i) };
	socklen_t len = sizeof sin;
	int udp = open_socket(SOCK_DGRAM, &sin);

	if (udp < 0)
		return false;
	if (getsockname(udp, (struct sockaddr *)&sin, &len) < 0)
		err(1, "server");
	int tcp = open_socket(SOCK_STREAM, &sin);
	if (tcp < 0 || listen(tcp, 128) < 0) {
		close(udp);
		if (tcp >= 0)
			close(tcp);
		return false;
	}
	servers[i].udp = (struct endpoint){ .role = ROLE_SERVER_UDP, .fd = udp, .server = i };
	servers[i].listener =
	    (struct endpoint){ .role = ROLE_SERVER_LISTEN, .fd = tcp, .server = i };
	*port = sin.sin_port;
	return true;
}

/* Opens all servers at one port, which is free at all their addresses. Returns the port. */
static in_port_t
open_servers(void)
{
	for (int tries = 0; tries < 100; tries++) {
		in_port_t port = 0;
		int opened = 0;

		while (opened < SERVERS && open_server(opened, &port))
			opened++;
		if (opened == SERVERS)
			return port;
		while (opened-- > 0) {
			close(servers[opened].udp.fd);
			close(servers[opened].listener.fd);
		}
	}
	errx(1, "no port is free for UDP and TCP at all addresses");
}

/* Adds the answer to `wire` to the server's queue. The server sends the answer after its delay. */
static void
serve(struct endpoint *from, const struct sockaddr_in *peer, const uint8_t *wire, size_t len)
{
	struct query query;
	int server = from->server;

	if (query_read(&query, wire, len) != QUERY_OK)
		return;
	bool is_slow = (server == 2 || server == 3);
	bool has_answer = query.qtype == TYPE_A && query.qclass == CLASS_IN;
	struct reply *r = &servers[server].queue[servers[server].tail++ % QUEUE];
	if (servers[server].tail - servers[server].head > QUEUE)
		errx(1, "server %d: the queue of replies is full", server + 1);
	*r =
	    (struct reply){ .due_us = now_us() + (is_slow ? SLOW_MS : FAST_MS) * 1000, .to = from };
	if (peer != NULL)
		r->peer = *peer;
	struct writer w = { .buf = r->wire, .max = sizeof r->wire };
	writer_put16(&w, query.id);
	writer_put16(&w, (unsigned)FLAG_QR | FLAG_RA | (query.flags & FLAG_RD));
	writer_put16(&w, 1);
	writer_put16(&w, has_answer);
	writer_put32(&w, 0);
	writer_put(&w, wire + DNS_HEADER, query.question_len);
	if (has_answer) {
		writer_put16(&w, 0xc000 | DNS_HEADER);
		writer_put16(&w, TYPE_A);
		writer_put16(&w, CLASS_IN);
		writer_put32(&w, query.qname[1] == 'c' ? TTL_S : 0);
		writer_put16(&w, 4);
		writer_put32(&w, 0x0a090000 + (unsigned)server + 1);
	}
	r->len = (uint16_t)w.len;
	from->pending++;
}

static void
drop(struct endpoint *e)
{
	if (e->fd >= 0)
		close(e->fd);
	e->fd = -1;
	e->closed = true;
	if (e->pending == 0)
		free(e);
}

static void
send_due(int64_t now)
{
	for (int i = 0; i < SERVERS; i++)
		while (servers[i].head != servers[i].tail &&
		       servers[i].queue[servers[i].head % QUEUE].due_us <= now) {
			struct reply *r = &servers[i].queue[servers[i].head++ % QUEUE];

			r->to->pending--;
			if (r->to->role == ROLE_SERVER_UDP) {
				sendto(r->to->fd, r->wire, r->len, 0, (struct sockaddr *)&r->peer,
				    sizeof r->peer);
				continue;
			}
			uint8_t framed[sizeof r->wire + 2];
			wire_put16(framed, r->len);
			memcpy(framed + 2, r->wire, r->len);
			/* skip a closed connection, whose client knows that it is closed */
			if (!r->to->closed) {
				ssize_t ignored =
				    send(r->to->fd, framed, r->len + 2u, MSG_NOSIGNAL);

				(void)ignored;
			}
			if (r->to->closed && r->to->pending == 0)
				free(r->to);
		}
}

static void
read_server_udp(struct endpoint *e)
{
	uint8_t wire[2048];
	struct sockaddr_in peer;
	socklen_t len = sizeof peer;
	ssize_t n;

	while ((n = recvfrom(e->fd, wire, sizeof wire, 0, (struct sockaddr *)&peer, &len)) > 0)
		serve(e, &peer, wire, (size_t)n);
}

static void
accept_server_tcp(struct endpoint *listener)
{
	int fd;

	while ((fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct endpoint *e = xcalloc(1, sizeof *e);

		*e = (struct endpoint){
			.role = ROLE_SERVER_TCP, .fd = fd, .server = listener->server
		};
		watch(e, EPOLLIN);
	}
}

/* Reads into e->buf until it contains a whole framed message. Returns the length of the message, 0
 * if the message is not complete, or -1 at the end of the connection. */
static int
read_framed(struct endpoint *e)
{
	ssize_t n = recv(e->fd, e->buf + e->len, sizeof e->buf - e->len, 0);

	if (n == 0 || (n < 0 && errno != EAGAIN))
		return -1;
	if (n > 0)
		e->len += (size_t)n;
	if (e->len < 2 || e->len < 2u + wire_get16(e->buf))
		return 0;
	return wire_get16(e->buf);
}

static void
read_server_tcp(struct endpoint *e)
{
	int len = read_framed(e);

	if (len < 0) {
		drop(e);
		return;
	}
	if (len == 0)
		return;
	serve(e, NULL, e->buf + 2, (size_t)len);
	e->len -= (size_t)len + 2;
	memmove(e->buf, e->buf + 2 + len, e->len);
}

/* Records which server answered. Records 0 if there is no A record, and 255 if the address belongs
 * to none of the servers. */
static void
note(size_t index, const uint8_t *wire, size_t len)
{
	struct asking *r = &records[index];
	struct dname name;
	size_t at = DNS_HEADER;

	if (r->received_us)
		return;
	r->received_us = now_us();
	answered++;
	r->rcode = wire[3] & 15;
	if (wire_get16(wire + 6) == 0 || wire_read_name(wire, len, &at, &name) < 0)
		return;
	at += 4;
	if (wire_read_name(wire, len, &at, &name) < 0 || len - at < 14 ||
	    wire_get16(wire + at) != TYPE_A)
		return;
	uint32_t addr = wire_get32(wire + at + 10);
	r->server = addr >> 8 == 0x0a0900 ? (uint8_t)addr : 255;
}

static void
read_client_udp(int i)
{
	uint8_t wire[2048];
	ssize_t n;

	while ((n = recv(clients[i].fd, wire, sizeof wire, 0)) >= 0 || errno == ECONNREFUSED)
		if (n >= DNS_HEADER && asked[i][wire_get16(wire)])
			note(asked[i][wire_get16(wire)] - 1, wire, (size_t)n);
}

static void
run_client_tcp(struct endpoint *e, uint32_t events)
{
	if (e->want && (events & EPOLLOUT)) {
		if (send(e->fd, e->buf, e->want, MSG_NOSIGNAL) != (ssize_t)e->want) {
			drop(e);
			return;
		}
		e->want = 0;
		watch(e, EPOLLIN);
		return;
	}
	int len = read_framed(e);
	if (len > 0)
		note(e->record, e->buf + 2, (size_t)len);
	if (len != 0)
		drop(e);
}

static size_t
new_record(enum kind kind)
{
	if (record_count == record_max)
		errx(1, "more queries than RATE and SECONDS allow");
	records[record_count] = (struct asking){ .sent_us = now_us(), .kind = (uint8_t)kind };
	return record_count++;
}

static size_t
write_question(uint8_t *wire, size_t max, uint16_t id, enum kind kind)
{
	static unsigned unique;

	static const char *const zones[] = { "ext.test", "ext.test", "keep.test", "slow.test" };
	char text[64];
	struct dname name;
	unsigned n = ++unique;
	if (kind == KIND_TCP || kind == KIND_HELD)
		snprintf(text, sizeof text, "t%u.%s", n, n & 1 ? "ext.test" : "slow.test");
	else if (kind == KIND_CACHED || kind == KIND_KEPT)
		snprintf(text, sizeof text, "c%u.%s", n % CACHED_NAMES, zones[kind]);
	else
		snprintf(text, sizeof text, "u%u.%s", n, zones[kind]);
	dname_from_text(&name, text);
	return query_write(wire, max, id, name.wire, TYPE_A, CLASS_IN, 0);
}

static void
ask_udp(enum kind kind)
{
	static unsigned turn;
	unsigned i = turn++ % SOCKETS;
	uint8_t wire[512];
	uint16_t id = next_id[i]++;
	size_t index = new_record(kind), len = write_question(wire, sizeof wire, id, kind);

	asked[i][id] = index + 1;
	while (send(clients[i].fd, wire, len, 0) < 0 && errno == ECONNREFUSED)
		;
}

static void
ask_tcp(void)
{
	struct endpoint *e = xcalloc(1, sizeof *e);

	e->role = ROLE_CLIENT_TCP;
	e->fd = open_socket(SOCK_STREAM, NULL);
	e->record = new_record(KIND_TCP);
	size_t len = write_question(e->buf + 2, sizeof e->buf - 2, (uint16_t)e->record, KIND_TCP);
	wire_put16(e->buf, (unsigned)len);
	e->want = len + 2;
	if (connect(e->fd, (struct sockaddr *)&target, sizeof target) < 0 && errno != EINPROGRESS)
		drop(e);
	else
		watch(e, EPOLLOUT);
}

static void
open_held(int i)
{
	held[i].role = ROLE_CLIENT_HELD;
	held[i].server = i;
	held[i].len = 0;
	held[i].fd = open_socket(SOCK_STREAM, NULL);
	if (connect(held[i].fd, (struct sockaddr *)&target, sizeof target) < 0 &&
	    errno != EINPROGRESS)
		err(1, "connect");
	watch(&held[i], held_busy[i] ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* Sends the next query of this connection, or repeats the query that has no answer yet. */
static void
send_held(struct endpoint *e)
{
	uint8_t framed[512];
	size_t len = write_question(framed + 2, sizeof framed - 2, (uint16_t)e->record, KIND_HELD);

	wire_put16(framed, (unsigned)len);
	if (send(e->fd, framed, len + 2, MSG_NOSIGNAL) != (ssize_t)len + 2)
		return; /* epoll will report the end of the connection */
	watch(e, EPOLLIN);
}

static void
ask_held(void)
{
	static unsigned turn;

	for (int i = 0; i < HELD; i++) {
		struct endpoint *e = &held[turn++ % HELD];

		if (held_busy[e->server])
			continue; /* one query at a time per connection */
		held_busy[e->server] = true;
		e->record = new_record(KIND_HELD);
		send_held(e);
		return;
	}
}

static void
run_client_held(struct endpoint *e, uint32_t events)
{
	int len = events & EPOLLIN ? read_framed(e) : events & (EPOLLERR | EPOLLHUP) ? -1 : 0;

	if (len > 0) {
		note(e->record, e->buf + 2, (size_t)len);
		e->len = 0;
		held_busy[e->server] = false;
	} else if (len < 0) {
		held_closed += held_busy[e->server];
		close(e->fd);
		open_held(e->server);
	} else if (events & EPOLLOUT)
		send_held(e);
}

/* Returns the kind of query number `n`. Of 20 queries, 14 are cached, 2 uncached, 2 kept and 2
 * slow. */
static enum kind
kind_of(uint64_t n)
{
	static const enum kind kinds[20] = { [3] = KIND_SLOW,
		[6] = KIND_UNCACHED,
		[9] = KIND_KEPT,
		[13] = KIND_SLOW,
		[16] = KIND_UNCACHED,
		[19] = KIND_KEPT };

	return kinds[n % 20];
}

static void
dispatch(int timeout_ms)
{
	struct epoll_event events[256];
	int n = epoll_wait(epoll_fd, events, 256, timeout_ms);

	for (int i = 0; i < n; i++) {
		struct endpoint *e = events[i].data.ptr;

		if (e->role == ROLE_SERVER_UDP)
			read_server_udp(e);
		else if (e->role == ROLE_SERVER_LISTEN)
			accept_server_tcp(e);
		else if (e->role == ROLE_SERVER_TCP)
			read_server_tcp(e);
		else if (e->role == ROLE_CLIENT_UDP)
			read_client_udp((int)(e - clients));
		else if (e->role == ROLE_CLIENT_HELD)
			run_client_held(e, events[i].events);
		else
			run_client_tcp(e, events[i].events);
	}
	send_due(now_us());
}

static void
run(unsigned seconds, unsigned rate, unsigned tcp_rate)
{
	int64_t start = now_us(), end = start + (int64_t)seconds * 1000000;
	uint64_t udp = 0, tcp = 0;

	for (int64_t now = start;
	     now < end || (answered < record_count && now < end + LOST_S * 1000000);
	     now = now_us()) {
		int64_t passed = (now < end ? now : end) - start;

		while (udp < (uint64_t)passed * rate / 1000000)
			ask_udp(kind_of(udp++));
		while (tcp < (uint64_t)passed * tcp_rate / 1000000) {
			if (tcp++ & 1)
				ask_held();
			else
				ask_tcp();
		}
		dispatch(1);
	}
}

int
main(void)
{
	unsigned port, seconds, rate, tcp_rate;

	if ((epoll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0)
		err(1, "epoll");
	in_port_t servers_port = open_servers();
	for (int i = 0; i < SERVERS; i++) {
		servers[i].queue = xcalloc(QUEUE, sizeof *servers[i].queue);
		watch(&servers[i].udp, EPOLLIN);
		watch(&servers[i].listener, EPOLLIN);
	}
	printf("port %u\n", ntohs(servers_port));
	fflush(stdout);
	if (scanf("%u %u %u %u", &port, &seconds, &rate, &tcp_rate) != 4)
		errx(1, "expected PORT SECONDS RATE TCP_RATE");
	target.sin_port = htons((uint16_t)port);
	target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	record_max = (size_t)seconds * (rate + tcp_rate) + 1000;
	records = xcalloc(record_max, sizeof *records);
	for (int i = 0; i < SOCKETS; i++) {
		clients[i] = (struct endpoint){ .role = ROLE_CLIENT_UDP,
			.fd = open_socket(SOCK_DGRAM, NULL) };
		if (connect(clients[i].fd, (struct sockaddr *)&target, sizeof target) < 0)
			err(1, "connect");
		watch(&clients[i], EPOLLIN);
	}
	for (int i = 0; i < HELD && tcp_rate > 0; i++)
		open_held(i);
	run(seconds, rate, tcp_rate);
	for (size_t i = 0; i < record_count; i++)
		printf("%u %" PRId64 " %" PRId64 " %u %u\n", records[i].kind, records[i].sent_us,
		    records[i].received_us, records[i].rcode, records[i].server);
	printf("closed %u\n", held_closed);
	return fflush(stdout) == 0 ? 0 : 1;
}
