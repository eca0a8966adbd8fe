#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/log.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "nanny/child_probe.h"
#include "nanny/servers/servers_file.h"

enum { ITERATION_PACKETS = 64, PACKET_MAX = 4096, IDS = 64 };

struct child_probe {
	int fd, questions_fd;
	uint16_t port;
	uint64_t secret; /* part of the label in each of our queries */
	/* number of queries sent. The label contains this number too, because dnsmasq sends only
	 * one reply for identical queries in flight. */
	unsigned asked;
	/* the latest queries, a ring indexed by `asked` */
	struct {
		uint16_t id;
		bool version; /* version.bind, which dnsmasq answers itself */
	} queries[IDS];
	uint64_t version_answers;
	struct dname marker, version;
};

static int
open_questions(uint16_t *port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof sin;
	int one = 1, fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof one) < 0 ||
	    bind(fd, (struct sockaddr *)&sin, len) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sin, &len) < 0) {
		log_error("probe: socket for dnsmasq's queries");
		if (fd >= 0)
			close(fd);
		return -1;
	}
	*port = ntohs(sin.sin_port);
	return fd;
}

static int
open_probe(const struct server *dnsmasq)
{
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(dnsmasq, &ss);
	int fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&ss, len) == 0)
		return fd;
	char text[SERVER_TEXT_MAX];
	log_error("probe: socket to dnsmasq at %s", server_format(dnsmasq, text));
	if (fd >= 0)
		close(fd);
	return -1;
}

struct child_probe *
child_probe_new(const struct server *dnsmasq)
{
	struct child_probe *probe = xcalloc(1, sizeof *probe);

	probe->questions_fd = -1;
	probe->fd = open_probe(dnsmasq);
	if (probe->fd < 0 || (probe->questions_fd = open_questions(&probe->port)) < 0) {
		child_probe_free(probe);
		return NULL;
	}
	if (getrandom(&probe->secret, sizeof probe->secret, 0) != sizeof probe->secret)
		log_fatal("probe: random bytes");
	dname_from_text(&probe->marker, SERVERS_MARKER);
	dname_from_text(&probe->version, "version.bind");
	return probe;
}

void
child_probe_free(struct child_probe *probe)
{
	if (probe == NULL)
		return;
	if (probe->fd >= 0)
		close(probe->fd);
	if (probe->questions_fd >= 0)
		close(probe->questions_fd);
	free(probe);
}

int
child_probe_fd(const struct child_probe *probe)
{
	return probe->fd;
}

int
child_probe_questions_fd(const struct child_probe *probe)
{
	return probe->questions_fd;
}

uint16_t
child_probe_port(const struct child_probe *probe)
{
	return probe->port;
}

static struct server
local_server(const struct child_probe *probe, uint8_t last)
{
	return (struct server){ .addr = { .family = AF_INET, .bytes = { 127, 0, 1, last } },
		.port = probe->port };
}

struct server
child_probe_servfail(const struct child_probe *probe)
{
	return local_server(probe, 2);
}

struct server
child_probe_refused(const struct child_probe *probe)
{
	return local_server(probe, 3);
}

/* Sends a query. Ignores a failure to send, because the next probe follows soon. */
static void
send_question(struct child_probe *probe, const uint8_t *name, uint16_t class)
{
	uint8_t wire[512];
	uint16_t id;

	if (getrandom(&id, sizeof id, 0) != sizeof id)
		return;
	probe->queries[probe->asked % IDS].id = id;
	probe->queries[probe->asked++ % IDS].version = class == CLASS_CH;
	size_t len = query_write(wire, sizeof wire, id, name, TYPE_TXT, class, 0);
	ssize_t ignored = send(probe->fd, wire, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)ignored;
}

void
child_probe_ask_version(struct child_probe *probe)
{
	send_question(probe, probe->version.wire, CLASS_CH);
}

static void
secret_text(const struct child_probe *probe, char text[17])
{
	snprintf(text, 17, "%016llx", (unsigned long long)probe->secret);
}

void
child_probe_ask_generation(struct child_probe *probe)
{
	char secret[17], label[32];
	struct dname name = probe->marker;

	secret_text(probe, secret);
	int len = snprintf(label, sizeof label, "%s-%u", secret, probe->asked);
	if (dname_prepend(&name, label, (size_t)len) == 0)
		send_question(probe, name.wire, CLASS_IN);
}

bool
child_probe_read(struct child_probe *probe)
{
	uint8_t wire[PACKET_MAX];
	bool answered = false;

	for (int i = 0; i < ITERATION_PACKETS; i++) {
		ssize_t n = recv(probe->fd, wire, sizeof wire, MSG_DONTWAIT);

		if (n < 0 && errno == ECONNREFUSED)
			continue; /* no process listens at the port yet */
		if (n < 0)
			break;
		if (n < DNS_HEADER || !(wire[2] & 0x80))
			continue;
		for (unsigned k = 0; k < IDS && k < probe->asked; k++) {
			if (probe->queries[k].id != wire_get16(wire))
				continue;
			answered = true;
			probe->version_answers += probe->queries[k].version;
			break;
		}
	}
	return answered;
}

uint64_t
child_probe_version_answers(const struct child_probe *probe)
{
	return probe->version_answers;
}

/* Whether the query is one that we sent and that dnsmasq forwarded back to us. */
static bool
is_ours(const struct child_probe *probe, const struct query *query)
{
	char secret[17];

	secret_text(probe, secret);
	int at = dname_in_zone(query->qname, probe->marker.wire);
	return at > 0 && query->qname[0] > 16 && memcmp(query->qname + 1, secret, 16) == 0;
}

static unsigned
rcode_at(const struct addr *at)
{
	bool local = at->bytes[1] == 0 && at->bytes[2] == 1;

	if (local && at->bytes[3] == 2)
		return RCODE_SERVFAIL;
	return local && at->bytes[3] == 3 ? RCODE_REFUSED : RCODE_NOERROR;
}

/* Turns the query in `wire` into its response in place, with header and question only. Sends it
 * from the address that the query was sent to. */
static void
answer_question(struct child_probe *probe, struct msghdr *msg, uint8_t *wire,
    const struct query *query, const struct addr *at)
{
	wire_put16(wire + 2, (unsigned)FLAG_QR | (query->flags & FLAG_RD) | FLAG_RA | rcode_at(at));
	memset(wire + 6, 0, 6);
	msg->msg_iov->iov_len = DNS_HEADER + query->question_len;
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	struct in_pktinfo info = { 0 };
	assert(cmsg != NULL); /* recvmsg() has filled in the packet info */
	memcpy(&info.ipi_spec_dst, at->bytes, 4);
	memcpy(CMSG_DATA(cmsg), &info, sizeof info);
	ssize_t ignored = sendmsg(probe->questions_fd, msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)ignored;
}

/* Gets the address that the packet was sent to. Returns false if it is not a loopback address. */
static bool
asked_at(struct msghdr *msg, struct addr *at)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	struct in_pktinfo info;

	if (cmsg == NULL || cmsg->cmsg_level != IPPROTO_IP || cmsg->cmsg_type != IP_PKTINFO)
		return false;
	memcpy(&info, CMSG_DATA(cmsg), sizeof info);
	*at = (struct addr){ .family = AF_INET };
	memcpy(at->bytes, &info.ipi_addr, 4);
	return at->bytes[0] == 127;
}

uint32_t
child_probe_answer(struct child_probe *probe)
{
	uint32_t generation = 0;

	for (int i = 0; i < ITERATION_PACKETS; i++) {
		uint8_t wire[PACKET_MAX];
		struct sockaddr_storage from;
		char control[CMSG_SPACE(sizeof(struct in_pktinfo))] __attribute__((aligned(8)));
		struct iovec iov = { .iov_base = wire, .iov_len = sizeof wire };
		struct msghdr msg = { .msg_name = &from,
			.msg_namelen = sizeof from,
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof control };
		struct query query;
		struct addr at;
		ssize_t n = recvmsg(probe->questions_fd, &msg, MSG_DONTWAIT);

		if (n < 0)
			break;
		if (!asked_at(&msg, &at) || query_read(&query, wire, (size_t)n) != QUERY_OK ||
		    !query.has_question) /* dnsmasq forwards only opcode QUERY */
			continue;
		if (is_ours(probe, &query))
			generation = servers_generation(&at);
		answer_question(probe, &msg, wire, &query, &at);
	}
	return generation;
}
