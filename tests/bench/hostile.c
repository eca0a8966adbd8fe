/*
 * A hostile client, for tests/bench/hostile.py and the system tests. The client sends as fast as one core can, from a separate address, for
 * a limited time, and only to loopback.
 *
 * `hostile udp SOURCE PORT FILE SECONDS RATE` sends the messages of FILE over UDP without waiting for replies. FILE has one message in
 * hexadecimal on each line. RATE is the number of messages per second, and 0 means as many as possible.
 *
 * `hostile tcp SOURCE PORT FILE SECONDS CONNECTIONS [WAIT]` sends the messages over CONNECTIONS connections without waiting, and reads the
 * replies. `hostile mute ...` does not read the replies. `hostile connect ...` opens and closes connections, at most CONNECTIONS at a time. If
 * these commands have sent nothing after SECONDS, they go on for WAIT seconds (0) at most, because on a busy machine they begin late.
 *
 * These commands print one JSON object: the number of messages sent or connections opened.
 *
 * `hostile ask SOURCE PORT FILE SECONDS RATE [WAIT]` plays the victim. The victim sends RATE messages a second over UDP (`asktcp` uses one
 * TCP connection). Like a stub resolver, the victim repeats a message that has no reply after 1 s. A message is lost if it has no reply WAIT
 * seconds (2) after the last message. The output is the numbers of messages sent, repeated and lost, the rcodes, and the latency. In this
 * program, the latency counts from the time when a message was first sent. In asker.c, the latency counts from the time when the message was
 * due. The two differ if timers are coarse.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/wire.h"
#include "lib/xalloc.h"

enum { BATCH = 32, SOCKETS = 4, CHUNK = 65536, SECONDS_MAX = 120, CONNECTIONS_MAX = 4000 };

static struct {
	uint8_t *bytes; /* all messages, each after its length, as over TCP */
	size_t len, capacity;
	size_t *at; /* position of the length of each message in `bytes` */
	size_t count;
} messages;

static const int64_t VICTIM_WAIT_NS = 2000000000, VICTIM_REPEAT_NS = 1000000000;
static int64_t wait_ns; /* WAIT, or 0 */
static struct sockaddr_in source, server;
static int64_t end_ns;
static uint64_t sent;
static bool mute; /* use small buffers and never read replies */

static int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void
add_message(const char *hex)
{
	size_t len = strspn(hex, "0123456789abcdef") / 2;

	if (messages.len + 2 + len > messages.capacity) {
		messages.capacity = 2 * (messages.capacity + 2 + len);
		messages.bytes = xreallocarray(messages.bytes, messages.capacity, 1);
	}
	if ((messages.count & (messages.count - 1)) == 0)
		messages.at = xreallocarray(
		    messages.at, messages.count > 0 ? 2 * messages.count : 1, sizeof *messages.at);
	messages.at[messages.count++] = messages.len;
	wire_put16(messages.bytes + messages.len, (unsigned)len);
	for (size_t i = 0; i < len; i++) {
		char digits[3] = { hex[2 * i], hex[2 * i + 1], '\0' };

		messages.bytes[messages.len + 2 + i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	messages.len += 2 + len;
}

static void
read_messages(const char *path)
{
	char *line = NULL;
	size_t capacity = 0;
	FILE *in = fopen(path, "r");

	if (in == NULL)
		err(2, "%s", path);
	while (getline(&line, &capacity, in) > 0)
		add_message(line);
	free(line);
	fclose(in);
	if (messages.count == 0)
		errx(2, "%s: no messages", path);
}

static int
connected(int type)
{
	int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), small = 4096;

	if (fd < 0)
		return -1;
	if (type == SOCK_STREAM && mute)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
	if (bind(fd, (struct sockaddr *)&source, sizeof source) != 0 ||
	    (connect(fd, (struct sockaddr *)&server, sizeof server) != 0 && errno != EINPROGRESS)) {
		close(fd);
		return -1;
	}
	return fd;
}

static void
send_batch(int fd, uint64_t *next)
{
	struct mmsghdr out[BATCH] = { 0 };
	struct iovec iov[BATCH];

	for (unsigned i = 0; i < BATCH; i++) {
		uint8_t *m = messages.bytes + messages.at[(*next + i) % messages.count];

		iov[i] = (struct iovec){ m + 2, wire_get16(m) };
		out[i].msg_hdr.msg_iov = &iov[i];
		out[i].msg_hdr.msg_iovlen = 1;
	}
	int n = sendmmsg(fd, out, BATCH, MSG_DONTWAIT);
	*next += BATCH;
	if (n > 0)
		sent += (unsigned)n;
}

static void
flood_udp(double rate)
{
	int fds[SOCKETS];
	uint64_t next = 0;
	int64_t begun = now_ns();

	for (unsigned i = 0; i < SOCKETS; i++)
		if ((fds[i] = connected(SOCK_DGRAM)) < 0)
			err(1, "udp");
	for (int64_t now = begun; now < end_ns; now = now_ns()) {
		if (rate > 0 && (double)sent > (double)(now - begun) / 1e9 * rate) {
			const struct timespec pause = { 0, 200000 };

			nanosleep(&pause, NULL);
			continue;
		}
		send_batch(fds[next / BATCH % SOCKETS], &next);
	}
}

/* --- the victim --- */

enum { IDS = 65536, LATENCIES_MAX = 200000 };

static struct {
	int fd;
	bool tcp;
	uint8_t in[2 + 65535];
	size_t in_len;
	uint64_t sent, answered, repeated, checked, rcodes[16];
	int64_t sent_ns[IDS];
	double ms[LATENCIES_MAX];
} victim;

static void
victim_connect(void)
{
	victim.fd = connected(victim.tcp ? SOCK_STREAM : SOCK_DGRAM);
	victim.in_len = 0;
}

static void
victim_send(uint64_t number)
{
	uint8_t *m = messages.bytes + messages.at[number % messages.count];
	size_t len = wire_get16(m);

	wire_put16(m + 2, (uint16_t)number);
	if (victim.fd < 0)
		victim_connect();
	if (victim.fd >= 0 && victim.tcp)
		send(victim.fd, m, 2 + len, MSG_NOSIGNAL | MSG_DONTWAIT);
	else if (victim.fd >= 0)
		send(victim.fd, m + 2, len, MSG_DONTWAIT);
}

static void
victim_ask(void)
{
	victim.sent_ns[victim.sent % IDS] = now_ns();
	victim_send(victim.sent++);
}

/* Repeats messages that have no reply after VICTIM_REPEAT_NS. */
static void
victim_repeat(void)
{
	for (; victim.checked < victim.sent; victim.checked++) {
		int64_t sent_ns = victim.sent_ns[victim.checked % IDS];

		if (sent_ns != 0 && now_ns() - sent_ns < VICTIM_REPEAT_NS)
			return;
		if (sent_ns == 0)
			continue;
		victim.repeated++;
		victim_send(victim.checked);
	}
}

static void
victim_reply(const uint8_t *reply, size_t len)
{
	uint16_t id = wire_get16(reply);

	if (len < DNS_HEADER || victim.sent_ns[id] == 0 || victim.answered == LATENCIES_MAX)
		return;
	victim.ms[victim.answered++] = (double)(now_ns() - victim.sent_ns[id]) / 1e6;
	victim.sent_ns[id] = 0;
	victim.rcodes[reply[3] & 15]++;
}

static void
victim_receive(void)
{
	ssize_t n = recv(
	    victim.fd, victim.in + victim.in_len, sizeof victim.in - victim.in_len, MSG_DONTWAIT);

	if (!victim.tcp) {
		if (n > 0)
			victim_reply(victim.in, (size_t)n);
		return;
	}
	if (n == 0 || (n < 0 && errno != EAGAIN)) {
		close(victim.fd);
		victim.fd = -1;
		return;
	}
	victim.in_len += n > 0 ? (size_t)n : 0;
	while (victim.in_len >= 2 && victim.in_len >= 2 + (size_t)wire_get16(victim.in)) {
		size_t whole = 2 + (size_t)wire_get16(victim.in);

		victim_reply(victim.in + 2, whole - 2);
		memmove(victim.in, victim.in + whole, victim.in_len -= whole);
	}
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void
victim_print(void)
{
	const char *comma = "";

	qsort(victim.ms, victim.answered, sizeof *victim.ms, by_value);
	uint64_t p50 = victim.answered / 2, p99 = victim.answered * 99 / 100;
	printf("{\"sent\": %" PRIu64 ", \"repeated\": %" PRIu64 ", \"lost\": %" PRIu64
	       ", \"p50_ms\": %.3f, \"p99_ms\": %.3f, "
	       "\"max_ms\": %.3f, \"rcodes\": {",
	    victim.sent, victim.repeated, victim.sent - victim.answered, victim.ms[p50],
	    victim.ms[p99], victim.answered > 0 ? victim.ms[victim.answered - 1] : 0);
	for (unsigned i = 0; i < 16; i++) {
		char text[12];

		if (victim.rcodes[i] == 0)
			continue;
		printf("%s\"%s\": %" PRIu64, comma, rcode_name(i, text), victim.rcodes[i]);
		comma = ", ";
	}
	printf("}}\n");
}

static void
be_victim(bool tcp, double rate)
{
	victim.tcp = tcp;
	victim_connect();
	int64_t gap_ns = (int64_t)(1e9 / (rate > 0 ? rate : 100)), due_ns = now_ns();
	int64_t last_ns = end_ns + (wait_ns > 0 ? wait_ns : VICTIM_WAIT_NS);
	for (int64_t now = due_ns; now < last_ns && (now < end_ns || victim.answered < victim.sent);
	     now = now_ns()) {
		if (now >= due_ns && now < end_ns) {
			victim_ask();
			due_ns += gap_ns;
		}
		victim_repeat();
		struct pollfd p = { .fd = victim.fd, .events = POLLIN };
		if (poll(&p, 1, 1) > 0)
			victim_receive();
	}
	victim_print();
}

/* --- floods over TCP --- */

/* Fills the chunk with repetitions of the messages, as many whole messages as fit into CHUNK bytes. */
static size_t
make_chunk(uint8_t *chunk)
{
	size_t len = 0;

	for (size_t i = 0;; i++) {
		const uint8_t *m = messages.bytes + messages.at[i % messages.count];
		size_t message = 2 + (size_t)wire_get16(m);

		if (len + message > CHUNK)
			return len;
		memcpy(chunk + len, m, message);
		len += message;
	}
}

struct connection {
	int fd;
	size_t at; /* position in the chunk */
};

static void
use_connection(struct connection *c, const uint8_t *chunk, size_t len, bool reads, bool leaves)
{
	static uint8_t replies[CHUNK];
	ssize_t n = 0;

	if (c->fd < 0) {
		c->fd = connected(SOCK_STREAM);
		c->at = 0;
		if (leaves && c->fd >= 0)
			sent++;
		return;
	}
	if (!leaves)
		n = send(c->fd, chunk + c->at, len - c->at, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n > 0) {
		sent += !leaves;
		c->at = (c->at + (size_t)n) % len;
	}
	bool gone =
	    leaves || (n < 0 && errno != EAGAIN && errno != EINPROGRESS && errno != ENOTCONN);
	if (!gone && reads)
		gone = recv(c->fd, replies, sizeof replies, MSG_DONTWAIT) == 0;
	if (gone) {
		close(c->fd);
		c->fd = -1;
	}
}

static void
flood_tcp(unsigned count, bool reads, bool leaves)
{
	static uint8_t chunk[CHUNK];
	size_t len = make_chunk(chunk);
	struct connection *connections = xcalloc(count, sizeof *connections);

	for (unsigned i = 0; i < count; i++)
		connections[i].fd = -1;
	while (now_ns() < end_ns || (sent == 0 && now_ns() < end_ns + wait_ns))
		for (unsigned i = 0; i < count; i++)
			use_connection(&connections[i], chunk, len, reads, leaves);
	free(connections);
}

int
main(int argc, char **argv)
{
	if (argc != 7 && argc != 8)
		errx(2, "usage: hostile udp|tcp|mute|connect|ask|asktcp SOURCE PORT FILE SECONDS "
			"RATE|CONNECTIONS [WAIT]");
	if (argc == 8)
		wait_ns = atoll(argv[7]) * 1000000000;
	double seconds = atof(argv[5]);
	int count = atoi(argv[6]);
	source = (struct sockaddr_in){ .sin_family = AF_INET };
	server = (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(argv[3])),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (inet_pton(AF_INET, argv[2], &source.sin_addr) != 1 ||
	    ntohl(source.sin_addr.s_addr) >> 24 != 127)
		errx(2, "%s: not a loopback address", argv[2]);
	if (!(seconds > 0 && seconds <= SECONDS_MAX) || count < 0)
		errx(2, "SECONDS: up to %d", SECONDS_MAX);
	read_messages(argv[4]);
	mute = strcmp(argv[1], "mute") == 0;
	end_ns = now_ns() + (int64_t)(seconds * 1e9);
	bool asks = strcmp(argv[1], "ask") == 0, asks_tcp = strcmp(argv[1], "asktcp") == 0;
	if (asks || asks_tcp) {
		be_victim(asks_tcp, count);
		return 0;
	}
	if (strcmp(argv[1], "udp") == 0)
		flood_udp(count);
	else
		flood_tcp(count > 0 && count <= CONNECTIONS_MAX ? (unsigned)count : 1,
		    strcmp(argv[1], "tcp") == 0, strcmp(argv[1], "connect") == 0);
	printf("{\"sent\": %" PRIu64 "}\n", sent);
	return 0;
}
