/*
 * Clients of a node's DNS, for tests/bench/node.py. Each query has its own socket and behaves like
 * a resolver library with one server in resolv.conf. UDP and TCP alternate. A and AAAA alternate
 * too:
 *
 *	glibc, Go (two clients of three)  UDP, two attempts of 5 s. An ICMP error (IP_RECVERR) or a
 *	                                  wrong answer ends an attempt at once, so two refusals fail
 *	                                  the lookup
 *	musl (the third client)           UDP, attempts at 0 and 2.5 s, 5 s in all. It does not see
 *	                                  ICMP errors
 *	TCP of all of them                one attempt of 5 s. A refusal, a reset or an early end
 *	                                  fails it
 *
 * `node_clients CLIENTS RATE SECONDS NAMES ADDRESS...` looks up RATE names a second for each of
 * CLIENTS clients. The clients have the addresses from 10.244.1.16 on. Each client always uses the
 * same server. The servers ADDRESS are assigned to the clients in turn. There are NAMES names, from
 * n000.default.svc.cluster.local on. Each answer contains the number of its name, and how often the
 * name has changed. node.py sets the addresses accordingly: A is 10.NAME.CHANGES (16 bits) with 100
 * added to NAME, and AAAA is fd00::NAME:CHANGES.
 *
 * When all queries have ended, it prints a line for each query with these fields:
 *
 *	time of the first attempt in microseconds of CLOCK_MONOTONIC
 *	client, name, type
 *	1 for TCP, else 0
 *	number of attempts
 *	microseconds until the right answer, or -1 if there was none
 *	number of changes in the answer, and TTL of the answer
 *	number of wrong answers
 *	reason for a retry or a failure
 *	time of the last attempt in microseconds after the first attempt
 *
 * The reasons are: t timeout, f connection refused, r connection reset, e connection closed without
 * an answer, o another connection error, w wrong answer, - none.
 *
 * The last line, `pause`, is the longest time in microseconds during which this program could not
 * run although it had work.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/dname.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

enum kind { GLIBC, MUSL, TCP, KINDS };

/* For each kind of client, how long an attempt waits, and how many attempts there are. */
static const struct {
	int64_t wait_ns;
	unsigned tries;
} kinds[KINDS] = {
	[GLIBC] = { 5000000000, 2 },
	[MUSL] = { 2500000000, 2 },
	[TCP] = { 5000000000, 1 },
};

enum {
	EVENTS = 256,
	FIRST_CLIENT = 16,
	FIRST_NAME = 100,
	NAMES_MAX = 156,
	WIRE_MAX = 600,
};

struct question {
	TAILQ_ENTRY(question) by_due; /* used while in flight */
	int64_t begun_ns, due_ns;
	int64_t last_ns; /* time of the last attempt */
	int32_t took_us; /* microseconds until the answer; -1 if not answered */
	uint16_t id, name, client, change;
	uint16_t got; /* number of bytes of a TCP reply that have arrived */
	int16_t ttl;
	uint8_t tries, wrong;
	char why;
	bool aaaa;
	enum kind kind;
	int fd;
	uint8_t *in; /* the part of a TCP reply that has arrived */
};

static struct question *questions;
static size_t question_count;
static TAILQ_HEAD(queue, question) asked[KINDS]; /* queries in flight by kind, sorted by due_ns */
static int epoll_fd;
static unsigned server_count;
static struct sockaddr_in servers[8];
static int64_t longest_pause_ns;

static int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Writes the message after its length in two bytes. Returns the length without these two bytes. */
static size_t
write_message(const struct question *q, uint8_t *wire)
{
	char text[64];
	struct dname name;

	snprintf(text, sizeof text, "n%03u.default.svc.cluster.local", q->name);
	dname_from_text(&name, text);
	size_t len = query_write(
	    wire + 2, WIRE_MAX - 2, q->id, name.wire, q->aaaa ? TYPE_AAAA : TYPE_A, CLASS_IN, 0);
	wire_put16(wire, (unsigned)len);
	return len;
}

static void
hang_up(struct question *q)
{
	if (q->fd >= 0)
		close(q->fd);
	q->fd = -1;
	free(q->in);
	q->in = NULL;
	q->got = 0;
}

/* Ends the query, with or without an answer. */
static void
finish(struct question *q)
{
	TAILQ_REMOVE(&asked[q->kind], q, by_due);
	hang_up(q);
}

static void ask(struct question *q, int64_t at_ns);

/* Ends an attempt that failed before its timeout. The next attempt, if any, follows at once. */
static void
fail_try(struct question *q, char why)
{
	q->why = why;
	if (q->tries >= kinds[q->kind].tries) {
		finish(q);
		return;
	}
	TAILQ_REMOVE(&asked[q->kind], q, by_due);
	hang_up(q);
	ask(q, now_ns());
}

/* Handles a broken connection. If `error` is 0, the other side closed the connection in an orderly
 * way. */
static void
broke(struct question *q, int error)
{
	fail_try(q, error == 0              ? 'e'
		    : error == ECONNREFUSED ? 'f'
		    : error == ECONNRESET   ? 'r'
					    : 'o');
}

/* Opens and connects the socket of a query. Returns 0 or the errno of connect(2). */
static int
open_socket(struct question *q)
{
	struct sockaddr_in from = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0x0af40100U + FIRST_CLIENT + q->client) };
	const struct sockaddr_in *to = &servers[q->client % server_count];
	const int yes = 1, type = q->kind == TCP ? SOCK_STREAM : SOCK_DGRAM;

	q->fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (q->fd < 0)
		err(1, "socket");
	if (setsockopt(q->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes) < 0 ||
	    (q->kind == GLIBC && setsockopt(q->fd, IPPROTO_IP, IP_RECVERR, &yes, sizeof yes) < 0) ||
	    bind(q->fd, (const struct sockaddr *)&from, sizeof from) < 0)
		err(1, "client %u: bind", q->client);
	if (q->kind != MUSL && connect(q->fd, (const struct sockaddr *)to, sizeof *to) < 0 &&
	    errno != EINPROGRESS)
		return errno;
	struct epoll_event event = { q->kind == TCP ? EPOLLOUT : EPOLLIN, { .ptr = q } };
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, q->fd, &event) < 0)
		err(1, "epoll_ctl");
	return 0;
}

/* Sends the query of an attempt. musl uses one unconnected socket for all attempts. The other
 * clients use a new socket for each attempt. */
static void
ask(struct question *q, int64_t at_ns)
{
	const struct sockaddr_in *to = &servers[q->client % server_count];
	uint8_t wire[WIRE_MAX];

	q->tries++;
	q->last_ns = at_ns;
	q->due_ns = at_ns + kinds[q->kind].wait_ns;
	TAILQ_INSERT_TAIL(&asked[q->kind], q, by_due);
	int error = q->fd < 0 ? open_socket(q) : 0;
	if (error != 0) {
		broke(q, error);
		return;
	}
	size_t len = write_message(q, wire);
	if (q->kind == MUSL)
		sendto(q->fd, wire + 2, len, MSG_NOSIGNAL, (const struct sockaddr *)to, sizeof *to);
	else if (q->kind == GLIBC && send(q->fd, wire + 2, len, MSG_NOSIGNAL) < 0)
		broke(q, errno);
}

/* Counts a wrong answer. After a wrong answer, musl waits for another answer. */
static void
note_wrong(struct question *q)
{
	q->wrong++;
	if (q->kind == MUSL)
		q->why = 'w';
	else
		fail_try(q, 'w');
}

/* Whether the record at the end of `wire` belongs to this name. For a matching record, sets the
 * query's number of changes and TTL. */
static bool
read_record(struct question *q, const uint8_t *wire, size_t len)
{
	static const uint8_t prefix[] = { 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	const size_t rdata = q->aaaa ? 16 : 4;

	if (len < DNS_HEADER + 10 + rdata)
		return false;
	const uint8_t *data = wire + len - rdata;
	if (data[-1] != rdata || data[-2] != 0)
		return false;
	q->ttl = (int16_t)wire_get16(data - 4);
	q->change = (uint16_t)wire_get16(data + rdata - 2);
	if (q->aaaa)
		return memcmp(data, prefix, sizeof prefix) == 0 && wire_get16(data + 12) == q->name;
	return data[0] == 10 && data[1] == FIRST_NAME + q->name;
}

static void
judge(struct question *q, const uint8_t *wire, size_t len, int64_t at_ns)
{
	if (len < DNS_HEADER || wire_get16(wire) != q->id || (wire[2] & 0x80) == 0)
		return;
	if ((wire[3] & 0xf) != 0 || wire_get16(wire + 6) != 1 || !read_record(q, wire, len)) {
		note_wrong(q);
		return;
	}
	/* An answer after `due_ns` is too late. The timeout has passed, but this program has not
	 * handled the timeout yet. */
	if (at_ns < q->due_ns)
		q->took_us = (int32_t)((at_ns - q->begun_ns) / 1000);
	finish(q);
}

/* Reads the replies on a UDP socket. An unconnected socket (musl) reports no error. */
static void
read_udp(struct question *q)
{
	uint8_t wire[WIRE_MAX];
	const int fd = q->fd;
	ssize_t len;

	while (q->fd == fd && (len = recv(q->fd, wire, sizeof wire, 0)) >= 0)
		judge(q, wire, (size_t)len, now_ns());
	if (q->fd == fd && errno != EAGAIN)
		broke(q, errno);
}

static void
write_tcp(struct question *q)
{
	uint8_t wire[WIRE_MAX];
	size_t len = write_message(q, wire) + 2;
	struct epoll_event event = { EPOLLIN, { .ptr = q } };

	if (send(q->fd, wire, len, MSG_NOSIGNAL) != (ssize_t)len)
		broke(q, errno);
	else if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, q->fd, &event) < 0)
		err(1, "epoll_ctl");
}

static void
read_tcp(struct question *q)
{
	if (q->in == NULL)
		q->in = xmalloc(WIRE_MAX);
	ssize_t n = recv(q->fd, q->in + q->got, (size_t)(WIRE_MAX - q->got), 0);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		broke(q, n < 0 ? errno : 0);
		return;
	}
	q->got = (uint16_t)(q->got + n);
	if (q->got > 2 && q->got >= 2 + wire_get16(q->in))
		judge(q, q->in + 2, wire_get16(q->in), now_ns());
}

/* Reads all replies that have arrived. Called before any query counts as timed out. */
static void
take_events(int wait_ms)
{
	struct epoll_event events[EVENTS];
	int n = EVENTS;

	for (; n == EVENTS; wait_ms = 0) {
		n = epoll_wait(epoll_fd, events, EVENTS, wait_ms);
		for (int i = 0; i < n; i++) {
			struct question *q = events[i].data.ptr;

			if (q->fd < 0)
				continue; /* an earlier event ended this query */
			if (q->kind != TCP)
				read_udp(q);
			else if ((events[i].events & EPOLLOUT) != 0)
				write_tcp(q);
			else
				read_tcp(q);
		}
	}
}

static void
ask_again(int64_t now)
{
	struct question *q;

	for (enum kind kind = 0; kind < KINDS; kind++)
		while ((q = TAILQ_FIRST(&asked[kind])) != NULL && q->due_ns <= now) {
			q->why = 't';
			if (q->tries >= kinds[kind].tries) {
				finish(q);
				continue;
			}
			TAILQ_REMOVE(&asked[kind], q, by_due);
			if (kind != MUSL)
				hang_up(q);
			ask(q, now);
		}
}

static int64_t
earliest(int64_t next_ns)
{
	for (enum kind kind = 0; kind < KINDS; kind++) {
		const struct question *q = TAILQ_FIRST(&asked[kind]);

		if (q != NULL && q->due_ns < next_ns)
			next_ns = q->due_ns;
	}
	return next_ns;
}

static bool
none_asked(void)
{
	return earliest(INT64_MAX) == INT64_MAX;
}

static void
make_questions(unsigned clients, double rate, double seconds, unsigned names)
{
	uint64_t state = 88172645463325252ULL;

	question_count = (size_t)(clients * rate * seconds);
	questions = xcalloc(question_count, sizeof *questions);
	for (size_t n = 0; n < question_count; n++) {
		struct question *q = &questions[n];

		state ^= state << 13, state ^= state >> 7, state ^= state << 17;
		q->client = (uint16_t)(n % clients);
		q->aaaa = (n / clients & 1) != 0;
		q->kind = (n / clients & 2) != 0 ? TCP : q->client % 3 == 2 ? MUSL : GLIBC;
		q->name = (uint16_t)((state >> 32) % names);
		q->id = (uint16_t)(state >> 16);
		q->why = '-';
		q->took_us = q->fd = -1;
	}
}

static void
run(double per_second)
{
	const int64_t begun = now_ns();
	size_t next = 0;

	while (next < question_count || !none_asked()) {
		int64_t next_ns = begun + (int64_t)((double)next / per_second * 1e9);

		if (next == question_count)
			next_ns = INT64_MAX;
		int64_t before = now_ns(), due = earliest(next_ns);
		int64_t wait_ms = due > before ? (due - before + 999999) / 1000000 : 0;
		take_events((int)wait_ms);
		/* Measure the pause before the clock is read for the timeouts. Packets that arrive
		 * after this point are read in the next iteration. */
		if (now_ns() - (due > before ? due : before) > longest_pause_ns)
			longest_pause_ns = now_ns() - (due > before ? due : before);
		int64_t now = now_ns();
		take_events(0);
		ask_again(now);
		for (; next < question_count &&
		       begun + (int64_t)((double)next / per_second * 1e9) <= now;
		     next++) {
			questions[next].begun_ns = now_ns();
			ask(&questions[next], questions[next].begun_ns);
		}
	}
}

static void
print_all(void)
{
	for (size_t n = 0; n < question_count; n++) {
		const struct question *q = &questions[n];

		printf("%" PRId64 " %u %u %s %d %u %d %u %d %u %c %" PRId64 "\n",
		    q->begun_ns / 1000, q->client, q->name, q->aaaa ? "AAAA" : "A", q->kind == TCP,
		    q->tries, q->took_us, q->change, q->ttl, q->wrong,
		    q->tries > 1 || q->took_us < 0 ? q->why : '-',
		    (q->last_ns - q->begun_ns) / 1000);
	}
	printf("pause %" PRId64 "\n", longest_pause_ns / 1000);
}

int
main(int argc, char **argv)
{
	struct rlimit many;

	if (argc < 6 || argc > 5 + 8)
		errx(2, "usage: node_clients CLIENTS RATE SECONDS NAMES ADDRESS...");
	unsigned clients = (unsigned)atoi(argv[1]), names = (unsigned)atoi(argv[4]);
	if (clients < 1 || clients > 64 || names < 1 || names > NAMES_MAX)
		errx(2, "1 to 64 clients, 1 to %d names", NAMES_MAX);
	for (int i = 5; i < argc; i++) {
		struct sockaddr_in *to = &servers[server_count++];

		*to = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(53) };
		if (inet_pton(AF_INET, argv[i], &to->sin_addr) != 1)
			errx(2, "%s: not an address", argv[i]);
	}
	if (getrlimit(RLIMIT_NOFILE, &many) < 0)
		err(1, "getrlimit");
	many.rlim_cur = many.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &many) < 0)
		err(1, "setrlimit");
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	for (enum kind kind = 0; kind < KINDS; kind++)
		TAILQ_INIT(&asked[kind]);
	make_questions(clients, atof(argv[2]), atof(argv[3]), names);
	run(clients * atof(argv[2]));
	print_all();
	return 0;
}
