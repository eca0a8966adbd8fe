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
#include "nanny/dnsmasq/probe.h"
#include "nanny/servers/servers_file.h"

enum { QUESTIONS_A_TURN = 64, PACKET_MAX = 4096, IDS = 64 };

struct dnsmasq_probe {
	int fd, questions_fd;
	uint16_t port;
	uint64_t secret;   /* in the label of each of our questions */
	unsigned asked;    /* in the label too, since dnsmasq answers equal questions that are in
			    * flight with one reply */
	uint16_t ids[IDS]; /* of the latest questions; a ring by `asked` */
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
		log_error("probe: socket for dnsmasq's questions");
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

struct dnsmasq_probe *
dnsmasq_probe_new(const struct server *dnsmasq)
{
	struct dnsmasq_probe *probe = xcalloc(1, sizeof *probe);

	probe->questions_fd = -1;
	probe->fd = open_probe(dnsmasq);
	if (probe->fd < 0 || (probe->questions_fd = open_questions(&probe->port)) < 0) {
		dnsmasq_probe_free(probe);
		return NULL;
	}
	if (getrandom(&probe->secret, sizeof probe->secret, 0) != sizeof probe->secret)
		log_fatal("probe: random bytes");
	dname_from_text(&probe->marker, SERVERS_MARKER);
	dname_from_text(&probe->version, "version.bind");
	return probe;
}

void
dnsmasq_probe_free(struct dnsmasq_probe *probe)
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
dnsmasq_probe_fd(const struct dnsmasq_probe *probe)
{
	return probe->fd;
}

int
dnsmasq_probe_questions_fd(const struct dnsmasq_probe *probe)
{
	return probe->questions_fd;
}

uint16_t
dnsmasq_probe_port(const struct dnsmasq_probe *probe)
{
	return probe->port;
}

static struct server
local_server(const struct dnsmasq_probe *probe, uint8_t last)
{
	return (struct server){ .addr = { .family = AF_INET, .bytes = { 127, 0, 1, last } },
		.port = probe->port };
}

struct server
dnsmasq_probe_servfail(const struct dnsmasq_probe *probe)
{
	return local_server(probe, 2);
}

struct server
dnsmasq_probe_refused(const struct dnsmasq_probe *probe)
{
	return local_server(probe, 3);
}

/* A question that cannot be sent now is asked again soon anyway. */
static void
send_question(struct dnsmasq_probe *probe, const uint8_t *name, uint16_t class)
{
	uint8_t wire[512];
	uint16_t id;

	if (getrandom(&id, sizeof id, 0) != sizeof id)
		return;
	probe->ids[probe->asked++ % IDS] = id;
	size_t len = query_write(wire, sizeof wire, id, name, TYPE_TXT, class, 0);
	ssize_t ignored = send(probe->fd, wire, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)ignored;
}

void
dnsmasq_probe_ask_version(struct dnsmasq_probe *probe)
{
	send_question(probe, probe->version.wire, CLASS_CH);
}

static void
secret_text(const struct dnsmasq_probe *probe, char text[17])
{
	snprintf(text, 17, "%016llx", (unsigned long long)probe->secret);
}

void
dnsmasq_probe_ask_generation(struct dnsmasq_probe *probe)
{
	char secret[17], label[32];
	struct dname name = probe->marker;

	secret_text(probe, secret);
	int len = snprintf(label, sizeof label, "%s-%u", secret, probe->asked);
	if (dname_prepend(&name, label, (size_t)len) == 0)
		send_question(probe, name.wire, CLASS_IN);
}

bool
dnsmasq_probe_read(struct dnsmasq_probe *probe)
{
	uint8_t wire[PACKET_MAX];
	bool answered = false;

	for (int i = 0; i < QUESTIONS_A_TURN; i++) {
		ssize_t n = recv(probe->fd, wire, sizeof wire, MSG_DONTWAIT);

		if (n < 0 && errno == ECONNREFUSED)
			continue; /* nobody listens yet */
		if (n < 0)
			break;
		if (n < DNS_HEADER || !(wire[2] & 0x80))
			continue;
		for (unsigned k = 0; k < IDS && k < probe->asked; k++)
			answered |= probe->ids[k] == wire_get16(wire);
	}
	return answered;
}

/* Whether the question is one of ours that dnsmasq has forwarded. */
static bool
is_ours(const struct dnsmasq_probe *probe, const struct query *query)
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

/* Turns the question in `wire` into its answer in place, header and question only, and sends it
 * from where it was asked. */
static void
answer_question(struct dnsmasq_probe *probe, struct msghdr *msg, uint8_t *wire,
    const struct query *query, const struct addr *at)
{
	wire_put16(wire + 2, (unsigned)FLAG_QR | (query->flags & FLAG_RD) | FLAG_RA | rcode_at(at));
	memset(wire + 6, 0, 6);
	msg->msg_iov->iov_len = DNS_HEADER + query->question_len;
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	struct in_pktinfo info = { 0 };
	assert(cmsg != NULL); /* the question came with one */
	memcpy(&info.ipi_spec_dst, at->bytes, 4);
	memcpy(CMSG_DATA(cmsg), &info, sizeof info);
	ssize_t ignored = sendmsg(probe->questions_fd, msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)ignored;
}

/* The address that the packet was sent to; false if it did not come by this machine's loopback. */
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
dnsmasq_probe_answer(struct dnsmasq_probe *probe)
{
	uint32_t generation = 0;

	for (int i = 0; i < QUESTIONS_A_TURN; i++) {
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
		    !query.has_question) /* another opcode: dnsmasq forwards queries only */
			continue;
		if (is_ours(probe, &query))
			generation = servers_generation(&at);
		answer_question(probe, &msg, wire, &query, &at);
	}
	return generation;
}
