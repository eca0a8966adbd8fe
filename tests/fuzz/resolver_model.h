/*
 * A resolver on real loopback sockets, over UDP and TCP, for fuzz_forwarding.c. The resolver goes
 * down and up again. The resolver replies correctly, wrongly, late, twice, with garbage, always
 * truncated, or over TCP byte by byte, and closes connections in the middle. Some replies are like those of a forger who has not seen the query. The first
 * letter of a name determines the address of the name.
 */
#ifndef TESTS_FUZZ_RESOLVER_MODEL_H
#define TESTS_FUZZ_RESOLVER_MODEL_H

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/dname.h"
#include "lib/wire.h"

enum { LETTERS = 5, ASKED = 256, CONNS = 8 };
static const uint8_t address[3] = { 192, 0, 2 }, forged[4] = { 203, 0, 113, 1 };

static bool said[LETTERS]; /* the resolver has replied to a query for this name */
static bool has_failed;    /* the resolver was down for a while, or has ended a connection */

#define CHECK(truth) ((truth) ? (void)0 : broken(__LINE__, #truth))

static void
broken(int line, const char *what)
{
	fprintf(stderr, "line %d: not so: %s\n", line, what);
	abort();
}

struct packet {
	struct sockaddr_in from;
	size_t len;
	uint8_t wire[DNS_UDP_QUERY_MAX];
};

static struct {
	int udp, tcp; /* -1: the resolver is down */
	struct sockaddr_in addr;
	struct packet asked[ASKED]; /* the latest queries over UDP */
	unsigned asked_count;
	struct {
		int fd; /* -1: not connected */
		size_t in_len, out_len, sent;
		uint8_t in[2 + DNS_UDP_QUERY_MAX], out[16384];
	} conns[CONNS];
} resolver = { .udp = -1, .tcp = -1 };

static int stranger = -1; /* a socket at another address */

static void
stranger_open(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr = { htonl(INADDR_LOOPBACK + 8) } };

	stranger = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	CHECK(stranger >= 0 && bind(stranger, (const struct sockaddr *)&in, sizeof in) == 0);
}

/* Starts the resolver. Returns false if another process uses the port. */
static bool
resolver_up(void)
{
	const struct sockaddr *addr = (const struct sockaddr *)&resolver.addr;
	socklen_t len = sizeof resolver.addr;
	int on = 1;

	resolver.udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	resolver.tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	CHECK(resolver.udp >= 0 && resolver.tcp >= 0);
	setsockopt(resolver.tcp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(resolver.udp, addr, len) == 0 &&
	    getsockname(resolver.udp, (struct sockaddr *)&resolver.addr, &len) == 0 &&
	    bind(resolver.tcp, addr, len) == 0 && listen(resolver.tcp, ASKED) == 0)
		return true;
	close(resolver.udp);
	close(resolver.tcp);
	resolver.udp = resolver.tcp = -1;
	return false;
}

/* Ends a connection. If `reset` is set, the other side gets ECONNRESET, and no socket stays in
 * TIME_WAIT. */
static void
conn_end(unsigned i, bool reset)
{
	const struct linger none = { .l_onoff = 1, .l_linger = 0 };

	if (resolver.conns[i].fd < 0)
		return;
	has_failed = true;
	if (reset)
		setsockopt(resolver.conns[i].fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	close(resolver.conns[i].fd);
	resolver.conns[i].fd = -1;
}

static void
resolver_down(void)
{
	if (resolver.udp < 0)
		return;
	has_failed = true;
	close(resolver.udp);
	close(resolver.tcp);
	resolver.udp = resolver.tcp = -1;
	for (unsigned i = 0; i < CONNS; i++)
		conn_end(i, true);
}

static void
resolver_accepts(void)
{
	const int on = 1;

	for (unsigned i = 0; i < CONNS; i++) {
		if (resolver.conns[i].fd >= 0)
			continue;
		int fd = accept4(resolver.tcp, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		resolver.conns[i].fd = fd;
		resolver.conns[i].in_len = resolver.conns[i].out_len = resolver.conns[i].sent = 0;
	}
}

/* Reads all data that has arrived. */
static void
resolver_reads(void)
{
	socklen_t len = sizeof(struct sockaddr_in);
	struct packet *message = &resolver.asked[resolver.asked_count % ASKED];
	ssize_t n;

	if (resolver.udp < 0)
		return;
	while ((n = recvfrom(resolver.udp, message->wire, sizeof message->wire, 0,
		    (struct sockaddr *)&message->from, &len)) >= 0) {
		CHECK(n > DNS_HEADER);
		message->len = (size_t)n;
		message = &resolver.asked[++resolver.asked_count % ASKED];
	}
	resolver_accepts();
	for (unsigned i = 0; i < CONNS; i++) {
		if (resolver.conns[i].fd < 0)
			continue;
		n = recv(resolver.conns[i].fd, resolver.conns[i].in + resolver.conns[i].in_len,
		    sizeof resolver.conns[i].in - resolver.conns[i].in_len, 0);
		if (n > 0)
			resolver.conns[i].in_len += (size_t)n;
		else if (n == 0 || errno != EAGAIN)
			conn_end(i, true);
	}
}

/* Waits until the resolver or the descriptor `other` has data to read, for at most this time. The
 * wait is needed because the kernel may deliver data late. Returns whether there is data. */
static bool
resolver_waits(int other, int ms)
{
	struct pollfd fds[CONNS + 3] = { { other, POLLIN, 0 }, { resolver.udp, POLLIN, 0 },
		{ resolver.tcp, POLLIN, 0 } };

	for (unsigned i = 0; i < CONNS; i++)
		fds[3 + i] = (struct pollfd){ resolver.conns[i].fd, POLLIN, 0 };
	int ready;
	do
		ready = poll(fds, CONNS + 3, ms);
	while (ready < 0 && errno == EINTR); /* the fuzzer's alarm */
	return ready > 0;
}

enum reply_kind {
	REPLY_GOOD,
	REPLY_MANY, /* more records than fit into a UDP message */
	REPLY_TRUNCATED,
	REPLY_SERVFAIL,
	REPLY_NXDOMAIN,
	REPLY_REFUSED,
	REPLY_CUT,
	REPLY_OTHER_ID, /* this reply and all following replies are forged, except where noted */
	REPLY_OTHER_NAME,
	REPLY_OTHER_TYPE,
	REPLY_OTHER_CLASS,
	REPLY_QUERY,
	REPLY_NO_QUESTION,
	/* Like a server that does not know EDNS. For the first letter, only the header. Not forged. */
	REPLY_FORMERR,
	REPLY_OTHER_ADDRESS, /* with the right ID and question, but from another address */
	REPLY_GARBAGE,       /* after the question, nothing can be read; not forged */
	REPLY_SHORT,         /* shorter than a header */
	REPLY_KINDS
};

/* Writes an A record for the name in the question. */
static size_t
put_address(uint8_t *out, const uint8_t *rdata)
{
	static const uint8_t head[] = { 0xc0, DNS_HEADER, 0, TYPE_A, 0, CLASS_IN, 0, 0, 0, 5, 0,
		4 };

	memcpy(out, head, sizeof head);
	memcpy(out + sizeof head, rdata, 4);
	return sizeof head + 4;
}

/* Writes the reply of the resolver or of a forger. Returns its length. */
static size_t
reply_write(const uint8_t *query, size_t len, enum reply_kind kind, uint8_t *out)
{
	static const uint8_t rcodes[REPLY_KINDS] = { [REPLY_SERVFAIL] = RCODE_SERVFAIL,
		[REPLY_NXDOMAIN] = RCODE_NXDOMAIN,
		[REPLY_REFUSED] = RCODE_REFUSED,
		[REPLY_FORMERR] = RCODE_FORMERR };
	unsigned letter = query[DNS_HEADER + 1] - 'a';
	const uint8_t own[4] = { address[0], address[1], address[2], (uint8_t)letter };
	bool is_forged = kind >= REPLY_OTHER_ID && kind != REPLY_FORMERR && kind != REPLY_GARBAGE;
	bool bare = rcodes[kind] != 0 || kind == REPLY_TRUNCATED;
	unsigned records = bare ? 0 : kind == REPLY_MANY ? 200 : 1;
	size_t at = DNS_HEADER;
	struct dname name;

	CHECK(wire_read_name(query, len, &at, &name) == 0 && at + 4 <= len && letter < LETTERS);
	at += 4;
	said[letter] = said[letter] || !is_forged;
	memcpy(out, query, at);
	wire_put16(out + 2, 0x8180u | rcodes[kind] | (kind == REPLY_TRUNCATED ? FLAG_TC : 0));
	wire_put16(out + 6, records);
	wire_put16(out + 8, 0);
	wire_put16(out + 10, 0);
	if (kind == REPLY_FORMERR && letter == 0) {
		wire_put16(out + 4, 0);
		return DNS_HEADER;
	}
	switch (kind) {
	case REPLY_OTHER_ID:
		out[1] ^= 1;
		break;
	case REPLY_OTHER_NAME:
		out[DNS_HEADER + 1] = out[DNS_HEADER + 1] == 'a' ? 'b' : 'a';
		break;
	case REPLY_OTHER_TYPE:
		out[at - 3] = TYPE_AAAA;
		break;
	case REPLY_OTHER_CLASS:
		out[at - 1] = CLASS_IN + 2;
		break;
	case REPLY_QUERY:
		out[2] &= 0x7f;
		break;
	case REPLY_NO_QUESTION:
		wire_put16(out + 4, 0);
		break;
	default:
		break;
	}
	for (unsigned i = 0; i < records; i++)
		at += put_address(out + at, is_forged ? forged : own);
	if (kind == REPLY_GARBAGE) {
		memset(out + 6, 0xff, DNS_HEADER - 6); /* the numbers of records */
		memset(out + at - 16, (int)(0xff - letter), 16);
	}
	return kind == REPLY_SHORT ? DNS_HEADER - 1 : kind == REPLY_CUT ? at - 7 : at;
}

/* Replies to one of the latest queries over UDP. The query may already have a reply. */
static void
resolver_replies(unsigned which, enum reply_kind kind)
{
	uint8_t out[DNS_UDP_QUERY_MAX];
	unsigned known = resolver.asked_count < ASKED ? resolver.asked_count : ASKED;

	if (known == 0 || resolver.udp < 0)
		return;
	const struct packet *message =
	    &resolver.asked[(resolver.asked_count - 1 - which % known) % ASKED];
	size_t len = reply_write(message->wire, message->len, kind, out);
	sendto(kind == REPLY_OTHER_ADDRESS ? stranger : resolver.udp, out, len, 0,
	    (const struct sockaddr *)&message->from, sizeof message->from);
}

/* Writes the reply to the query on a connection. resolver_sends() sends the reply later. Returns
 * false if there is no query or no space. */
static bool
resolver_queues(unsigned i, enum reply_kind kind)
{
	size_t asked = resolver.conns[i].in_len, at = resolver.conns[i].out_len;

	if (kind == REPLY_OTHER_ADDRESS) /* a connection has only one address */
		kind = REPLY_OTHER_ID;
	if (resolver.conns[i].fd < 0 || asked < 2 ||
	    asked < 2u + wire_get16(resolver.conns[i].in) ||
	    at > sizeof resolver.conns[i].out - DNS_UDP_QUERY_MAX - 2)
		return false;
	size_t len = reply_write(resolver.conns[i].in + 2, wire_get16(resolver.conns[i].in), kind,
	    resolver.conns[i].out + at + 2);
	wire_put16(resolver.conns[i].out + at, (unsigned)len);
	resolver.conns[i].out_len += 2 + len;
	return true;
}

/* Sends at most `max` queued bytes. After the last queued byte, handles the next query. */
static void
resolver_sends(unsigned i, size_t max)
{
	size_t left = resolver.conns[i].out_len - resolver.conns[i].sent;

	if (resolver.conns[i].fd < 0 || left == 0)
		return;
	ssize_t n = send(resolver.conns[i].fd, resolver.conns[i].out + resolver.conns[i].sent,
	    left < max ? left : max, MSG_NOSIGNAL);
	if (n < 0) {
		conn_end(i, true);
		return;
	}
	resolver.conns[i].sent += (size_t)n;
	if (resolver.conns[i].sent < resolver.conns[i].out_len)
		return;
	size_t done = 2u + wire_get16(resolver.conns[i].in);
	resolver.conns[i].in_len -= done;
	memmove(resolver.conns[i].in, resolver.conns[i].in + done, resolver.conns[i].in_len);
	resolver.conns[i].out_len = resolver.conns[i].sent = 0;
}

/* Replies to each new query like a correct resolver. A name with a search domain gets NXDOMAIN. The
 * name `c` gets its reply only over TCP. Returns whether there was a query. */
static bool
resolver_serves(void)
{
	unsigned asked = resolver.asked_count;
	bool any = false;

	resolver_reads();
	CHECK(resolver.asked_count - asked <= ASKED);
	for (; asked != resolver.asked_count; asked++) {
		const uint8_t *name = resolver.asked[asked % ASKED].wire + DNS_HEADER;

		resolver_replies(resolver.asked_count - 1 - asked,
		    dname_length(name, DNAME_MAX) > sizeof "e.example.org" + 1 ? REPLY_NXDOMAIN
		    : name[1] == 'c'                                           ? REPLY_TRUNCATED
									       : REPLY_GOOD);
		any = true;
	}
	for (unsigned i = 0; i < CONNS; i++)
		while (resolver_queues(i, REPLY_GOOD)) {
			resolver_sends(i, SIZE_MAX);
			any = true;
		}
	return any;
}

#endif
