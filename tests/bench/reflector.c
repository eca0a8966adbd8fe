/*
 * A server that shows the physical limit, which is the cost of sockets without any DNS work. The
 * server returns each query with QR and AA set, and with one fixed A record after the question.
 * Like kubedns, the server receives and sends batches with recvmmsg and sendmmsg. The server only
 * parses where the question ends.
 *
 * `reflector PORT` answers on 127.0.0.1 until SIGTERM.
 */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH = 64, SIZE = 512, HEADER = 12 };

/* The record: a pointer to the question as owner, A, IN, TTL 30, 127.0.0.1. */
static const uint8_t record[] = { 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 127, 0, 0, 1 };

/* Returns the reply's length, or 0 if the packet is not a query. */
static size_t
reflect(uint8_t *packet, size_t len)
{
	size_t at = HEADER;

	if (len < HEADER + 5)
		return 0;
	while (at < len && packet[at] != 0)
		at += 1U + packet[at];
	at += 5;
	if (at > len || at + sizeof record > SIZE)
		return 0;
	packet[2] = 0x84;
	packet[3] = 0;
	packet[7] = 1;
	packet[11] = 0; /* the reply has no OPT */
	memcpy(packet + at, record, sizeof record);
	return at + sizeof record;
}

int
main(int argc, char **argv)
{
	static uint8_t packets[BATCH][SIZE];
	static struct sockaddr_in peers[BATCH];
	struct mmsghdr in[BATCH], out[BATCH];
	struct iovec in_iov[BATCH], out_iov[BATCH];

	if (argc != 2)
		errx(2, "usage: reflector PORT");
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = 4 << 20;
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(argv[1])),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sin, sizeof sin) < 0)
		err(1, "port %s", argv[1]);
	for (;;) {
		for (int i = 0; i < BATCH; i++) {
			in_iov[i] = (struct iovec){ packets[i], SIZE };
			in[i].msg_hdr = (struct msghdr){ .msg_name = &peers[i],
				.msg_namelen = sizeof peers[i],
				.msg_iov = &in_iov[i],
				.msg_iovlen = 1 };
		}
		int got = recvmmsg(fd, in, BATCH, MSG_WAITFORONE, NULL), replies = 0;
		for (int i = 0; i < got; i++) {
			size_t len = reflect(packets[i], in[i].msg_len);

			if (len == 0)
				continue;
			out_iov[replies] = (struct iovec){ packets[i], len };
			out[replies].msg_hdr = (struct msghdr){ .msg_name = &peers[i],
				.msg_namelen = sizeof peers[i],
				.msg_iov = &out_iov[replies],
				.msg_iovlen = 1 };
			replies++;
		}
		for (int sent = 0; sent < replies;) {
			int n = sendmmsg(fd, out + sent, (unsigned)(replies - sent), 0);

			sent += n > 0 ? n : 1;
		}
	}
}
