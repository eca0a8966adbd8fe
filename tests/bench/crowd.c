/*
 * `crowd PORT QUERIES CLIENTS SEED [SECONDS]` is a crowd of clients of a name server on loopback.
 * Each client has its own address. The numbers of queries follow Zipf's law: client n sends 1/n as
 * many queries as client 1. QUERIES and SECONDS limit the run.
 *
 * Client n has the address 127.1.0.0 + n. The number n determines all queries of the client and
 * their answers. A record that mixes two answers is therefore detectable (question_of).
 *
 * Prints one JSON object: seconds, answers, lost, and the number of answers by client address for
 * the clients with the most, in descending order.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

enum {
	WINDOW = 64, /* number of queries in flight */
	CLIENTS_MAX = 65000,
	SECONDS_MAX = 300,
	SHOWN = 30,
	WAIT_MS = 500,
	PAD_MAX = 40,
	FIRST = 0x7f010000,
};

struct question {
	uint8_t wire[512];
	size_t len;
};

static double *until;
static struct question *questions;
static uint64_t *answered;
static unsigned clients;

/* Makes the query of client N for cN-xxx.default.svc.cluster.local, with N % 41 letters x. The type
 * is A if N is even, else AAAA. */
static void
question_of(unsigned n, struct question *q)
{
	static const uint8_t rest[] = "\7default\3svc\7cluster\5local";
	char label[64];
	int len = snprintf(label, sizeof label, "c%u-", n);

	memset(label + len, 'x', PAD_MAX);
	len += (int)(n % (PAD_MAX + 1));
	*q = (struct question){ .wire = { [5] = 1 } };
	uint8_t *p = q->wire + DNS_HEADER;
	*p++ = (uint8_t)len;
	memcpy(p, label, (size_t)len);
	p += len;
	memcpy(p, rest, sizeof rest);
	p += sizeof rest;
	wire_put16(p, n % 2 == 0 ? TYPE_A : TYPE_AAAA);
	wire_put16(p + 2, CLASS_IN);
	q->len = (size_t)(p + 4 - q->wire);
}

static void
make_clients(void)
{
	double sum = 0;

	until = xcalloc(clients, sizeof *until);
	questions = xcalloc(clients, sizeof *questions);
	answered = xcalloc(clients, sizeof *answered);
	for (unsigned n = 0; n < clients; n++) {
		until[n] = sum += 1.0 / (n + 1);
		question_of(n + 1, &questions[n]);
	}
}

/* Returns a random index of a client, by Zipf's law. */
static unsigned
draw(void)
{
	double at = drand48() * until[clients - 1];
	unsigned low = 0, high = clients - 1;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (until[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

union control {
	struct cmsghdr header;
	uint8_t bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
};

/* Sends the window with this number. Each query comes from the address of its client. Sets `who` to
 * the client of each query, by the low part of the ID. */
static void
ask(int fd, const struct sockaddr_in *server, unsigned number, unsigned who[WINDOW])
{
	struct mmsghdr out[WINDOW] = { 0 };
	struct iovec iov[WINDOW];
	union control control[WINDOW];

	for (unsigned i = 0; i < WINDOW; i++) {
		who[i] = draw();
		struct question *q = &questions[who[i]];
		/* Each client has one buffer. If a client is twice in a window, both queries have
		 * the later ID. */
		wire_put16(q->wire, (uint16_t)(number * WINDOW + i));
		iov[i] = (struct iovec){ q->wire, q->len };
		out[i].msg_hdr = (struct msghdr){ .msg_name = (void *)(uintptr_t)server,
			.msg_namelen = sizeof *server,
			.msg_iov = &iov[i],
			.msg_iovlen = 1,
			.msg_control = &control[i],
			.msg_controllen = sizeof control[i] };
		const struct in_pktinfo from = { .ipi_spec_dst.s_addr = htonl(FIRST + who[i] + 1) };
		struct cmsghdr *header = CMSG_FIRSTHDR(&out[i].msg_hdr);
		header->cmsg_level = IPPROTO_IP;
		header->cmsg_type = IP_PKTINFO;
		header->cmsg_len = CMSG_LEN(sizeof from);
		memcpy(CMSG_DATA(header), &from, sizeof from);
	}
	for (unsigned done = 0; done < WINDOW;) {
		int n = sendmmsg(fd, out + done, WINDOW - done, 0);

		if (n <= 0)
			err(1, "sendmmsg");
		done += (unsigned)n;
	}
}

/* Receives the answers to a window and returns the number of answers. Answers that arrive too late
 * are lost. */
static unsigned
receive(int fd, unsigned number, const unsigned who[WINDOW])
{
	static uint8_t buffers[WINDOW][1024];
	struct mmsghdr in[WINDOW] = { 0 };
	struct iovec iov[WINDOW];
	unsigned got = 0;

	for (unsigned i = 0; i < WINDOW; i++) {
		iov[i] = (struct iovec){ buffers[i], sizeof buffers[i] };
		in[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	while (got < WINDOW) {
		int n = recvmmsg(fd, in, WINDOW - got, MSG_DONTWAIT, NULL);
		struct pollfd p = { .fd = fd, .events = POLLIN };

		if (n <= 0 && poll(&p, 1, WAIT_MS) <= 0)
			return got;
		for (int i = 0; i < n; i++) {
			unsigned id = wire_get16(buffers[i]);

			if (id / WINDOW != (uint16_t)(number * WINDOW) / WINDOW)
				continue;
			answered[who[id % WINDOW]]++;
			got++;
		}
	}
	return got;
}

static int
by_answers(const void *a, const void *b)
{
	uint64_t x = answered[*(const unsigned *)a], y = answered[*(const unsigned *)b];

	return x < y ? 1 : x > y ? -1 : 0;
}

static void
print(double seconds, uint64_t answers, uint64_t lost)
{
	unsigned *order = xcalloc(clients, sizeof *order);

	for (unsigned n = 0; n < clients; n++)
		order[n] = n;
	qsort(order, clients, sizeof *order, by_answers);
	printf("{\"seconds\": %.3f, \"answers\": %" PRIu64 ", \"lost\": %" PRIu64
	       ", \"clients\": {",
	    seconds, answers, lost);
	for (unsigned i = 0; i < SHOWN && i < clients; i++) {
		const struct in_addr addr = { htonl(FIRST + order[i] + 1) };
		char text[INET_ADDRSTRLEN];

		printf("%s\"%s\": %" PRIu64, i > 0 ? ", " : "",
		    inet_ntop(AF_INET, &addr, text, sizeof text), answered[order[i]]);
	}
	printf("}}\n");
	free(order);
}

int
main(int argc, char **argv)
{
	struct sockaddr_in server = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	unsigned who[WINDOW];
	uint64_t answers = 0, lost = 0;

	if (argc != 5 && argc != 6)
		errx(2, "usage: crowd PORT QUERIES CLIENTS SEED [SECONDS]");
	server.sin_port = htons((uint16_t)atoi(argv[1]));
	uint64_t queries = strtoull(argv[2], NULL, 10);
	clients = (unsigned)strtoul(argv[3], NULL, 10);
	srand48(atol(argv[4]));
	double seconds = argc == 6 ? atof(argv[5]) : SECONDS_MAX;
	if (clients == 0 || clients > CLIENTS_MAX || !(seconds > 0 && seconds <= SECONDS_MAX))
		errx(2, "CLIENTS: 1 to %d; SECONDS: up to %d", CLIENTS_MAX, SECONDS_MAX);
	make_clients();
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const struct sockaddr_in any = { .sin_family = AF_INET };
	if (fd < 0 || bind(fd, (const struct sockaddr *)&any, sizeof any) != 0)
		err(1, "socket");
	int64_t begun_ns = clock_mono_ns(), end_ns = begun_ns + (int64_t)(seconds * 1e9);
	for (unsigned n = 0; answers + lost < queries && clock_mono_ns() < end_ns; n++) {
		ask(fd, &server, n, who);
		unsigned got = receive(fd, n, who);
		answers += got;
		lost += WINDOW - got;
	}
	print((double)(clock_mono_ns() - begun_ns) / 1e9, answers, lost);
	return 0;
}
