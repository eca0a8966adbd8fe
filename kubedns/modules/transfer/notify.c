#include "kubedns/modules/transfer/notify.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/answer/zone_walk.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum { OPCODE_NOTIFY = 4, DATAGRAM_MAX = 1232 };

/* The notifications to one server about one zone. */
struct notice {
	uint32_t serial, sent;
	uint16_t id;
	uint8_t tries;  /* number of times that the message was sent, or 0 */
	bool pending;   /* true in the states DUE and SENT */
	int64_t due_ms; /* time of the next send */
	int64_t made_s; /* wall clock time at which the message was first sent, for its signature */
	uint8_t mac[TSIG_MAC_MAX]; /* MAC of the message that was sent */
	uint16_t mac_len;          /* 0 if the message was not signed */
};

struct notify {
	struct notify_config config;
	size_t zones;
	int fds[NOTIFY_FDS];    /* for IPv4 and IPv6; -1 if no server has this family */
	struct notice *notices; /* ordered by server, then by zone */
};

static int
open_socket(const struct notify_config *config, unsigned which)
{
	static const uint8_t families[NOTIFY_FDS] = { AF_INET, AF_INET6 };
	struct server source = { .addr = config->sources[which] };
	struct sockaddr_storage ss;
	bool wanted = false;

	for (size_t i = 0; i < config->count; i++)
		wanted = wanted || config->servers[i].addr.family == families[which];
	if (!wanted)
		return -1;
	int fd = socket(families[which], SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && source.addr.family == families[which]) {
		socklen_t len = server_sockaddr(&source, &ss);

		if (bind(fd, (struct sockaddr *)&ss, len) < 0)
			log_warn("notify: cannot send from the address of --dns-bind-address");
	}
	if (fd < 0)
		log_warn("notify: socket");
	return fd;
}

struct notify *
notify_new(const struct notify_config *config)
{
	struct notify *n = xcalloc(1, sizeof *n);

	n->config = *config;
	n->zones = zone_count(config->answers);
	n->notices = xcalloc(config->count * n->zones + 1, sizeof *n->notices);
	for (unsigned i = 0; i < NOTIFY_FDS; i++)
		n->fds[i] = open_socket(config, i);
	return n;
}

void
notify_changed(struct notify *n, size_t zone, uint32_t serial)
{
	for (size_t s = 0; s < n->config.count; s++) {
		struct notice *notice = &n->notices[s * n->zones + zone];

		/* A server that does not respond keeps its retry time. A dead server therefore does not get a message for every change. */
		if (!notice->pending) {
			notice->due_ms = 0;
			notice->tries = 0;
		}
		notice->serial = serial;
		notice->pending = true;
	}
}

void
notify_fds(const struct notify *n, struct pollfd fds[NOTIFY_FDS])
{
	for (unsigned i = 0; i < NOTIFY_FDS; i++)
		fds[i] = (struct pollfd){ .fd = n->fds[i], .events = POLLIN };
}

/* --- responses --- */

/* Returns whether the response is signed like the notification. If the signature is wrong, logs the reason. Anybody could have sent such
 * a response, so the wait continues. */
static bool
is_signed_as(const struct notify *n, const struct notice *notice, const struct server *from,
    const uint8_t *wire, size_t len)
{
	struct tsig_chain chain = { .mac_len = notice->mac_len };
	char text[SERVER_TEXT_MAX], code[12];
	unsigned rcode = wire_get16(wire + 2) & 15;
	struct tsig tsig = { .error = 0 };

	if (notice->mac_len == 0)
		return true;
	memcpy(chain.mac, notice->mac, notice->mac_len);
	bool found = tsig_read(wire, len, &tsig) == TSIG_FOUND;
	if (found && tsig_ring_find(n->config.keys, &tsig, &chain.key) &&
	    tsig_verify(wire, &tsig, &chain, clock_wall_ns() / NS_PER_S) == TSIG_NOERROR)
		return true;
	log_neterr("notify: %s answers %s, TSIG %s, which is not signed with our key",
	    server_format(from, text), rcode_name(rcode, code),
	    found ? tsig_error_name(tsig.error) : "missing");
	return false;
}

static void
take_answer_to(struct notify *n, struct notice *notice, const struct server *from,
    const uint8_t *wire, size_t len)
{
	char text[SERVER_TEXT_MAX], code[12];
	unsigned rcode = wire_get16(wire + 2) & 15;

	if (!notice->pending || notice->tries == 0 || notice->id != wire_get16(wire) ||
	    !is_signed_as(n, notice, from, wire, len))
		return;
	notice->pending = notice->serial != notice->sent;
	notice->due_ms = 0;
	notice->tries = 0;
	atomic_fetch_add(&n->config.counts->answered, 1);
	if (rcode != RCODE_NOERROR)
		log_neterr(
		    "notify: %s answers %s", server_format(from, text), rcode_name(rcode, code));
}

static void
take_answer(struct notify *n, const struct server *from, const uint8_t *wire, size_t len)
{
	if (len < DNS_HEADER || (wire_get16(wire + 2) & FLAG_QR) == 0 ||
	    (wire_get16(wire + 2) >> 11 & 15) != OPCODE_NOTIFY)
		return;
	for (size_t s = 0; s < n->config.count; s++)
		for (size_t z = 0; z < n->zones && server_equal(from, &n->config.servers[s]); z++)
			take_answer_to(n, &n->notices[s * n->zones + z], from, wire, len);
}

static void
receive(struct notify *n, int fd)
{
	uint8_t wire[DATAGRAM_MAX];
	struct sockaddr_storage ss = { 0 };
	struct server from;

	for (unsigned i = 0; fd >= 0 && i < 64; i++) {
		socklen_t ss_len = sizeof ss;
		ssize_t len =
		    recvfrom(fd, wire, sizeof wire, MSG_DONTWAIT, (struct sockaddr *)&ss, &ss_len);

		if (len < 0 && errno != ECONNREFUSED)
			return;
		if (len >= 0 && server_from_sockaddr((struct sockaddr *)&ss, &from) == 0)
			take_answer(n, &from, wire, (size_t)len);
	}
}

/* --- messages --- */

static size_t
put_message(const struct notify *n, const struct notice *notice, size_t zone, uint8_t *out)
{
	const struct answer_config *answers = n->config.answers;
	const struct zone at = zone_at(answers, zone);
	const struct dname *name = at.name;
	uint8_t soa[SOA_RDATA_MAX];
	size_t soa_len = zone_soa(answers, at, notice->serial, soa);
	struct writer w = { .buf = out, .max = DATAGRAM_MAX };

	writer_put16(&w, notice->id);
	writer_put16(&w, OPCODE_NOTIFY << 11 | FLAG_AA);
	writer_put16(&w, 1);
	writer_put16(&w, 1);
	writer_put32(&w, 0);
	writer_put(&w, name->wire, name->len);
	writer_put16(&w, TYPE_SOA);
	writer_put16(&w, CLASS_IN);
	writer_put16(&w, 0xc000 | DNS_HEADER);
	writer_put16(&w, TYPE_SOA);
	writer_put16(&w, CLASS_IN);
	writer_put32(&w, answers->ttl_s);
	writer_put16(&w, (unsigned)soa_len);
	writer_put(&w, soa, soa_len);
	return w.len;
}

/* Signs the message and returns its new length. Without a key for the server, returns `len`. A repeated message has the same signature, so
 * that an answer to any of them is accepted. */
static size_t
sign(
    const struct notify *n, struct notice *notice, const struct addr *to, uint8_t *wire, size_t len)
{
	struct tsig_chain chain = { .mac_len = 0 };

	if (!tsig_ring_for_notify(n->config.keys, to, &chain.key))
		return len;
	size_t whole = tsig_sign(wire, len, DATAGRAM_MAX, &chain, notice->made_s, NULL);
	if (whole == 0)
		return len;
	memcpy(notice->mac, chain.mac, chain.mac_len);
	notice->mac_len = chain.mac_len;
	return whole;
}

static void
give_up(struct notify *n, struct notice *notice, size_t server, size_t zone)
{
	char text[SERVER_TEXT_MAX], name[DNAME_TEXT_MAX];

	/* A change that was never sent has its own tries. */
	notice->pending = notice->serial != notice->sent;
	notice->due_ms = 0;
	notice->tries = 0;
	atomic_fetch_add(&n->config.counts->failed, 1);
	log_neterr("notify: %s does not answer for %s; the server gets the change when it next "
		   "refreshes the zone",
	    server_format(&n->config.servers[server], text),
	    dname_to_text(zone_name(n->config.answers, zone)->wire, name));
}

static void
send_notice(struct notify *n, struct notice *notice, size_t server, size_t zone, int64_t now_ms)
{
	const struct server *to = &n->config.servers[server];
	uint8_t wire[DATAGRAM_MAX];
	struct sockaddr_storage ss;
	socklen_t ss_len = server_sockaddr(to, &ss);

	/* A retry of the same message keeps its ID (RFC 1996 section 3.6). */
	if (notice->tries == 0 || notice->sent != notice->serial) {
		if (getrandom(&notice->id, sizeof notice->id, 0) != sizeof notice->id)
			log_fatal("getrandom");
		notice->made_s = clock_wall_ns() / NS_PER_S;
	}
	size_t len = put_message(n, notice, zone, wire);
	notice->mac_len = 0;
	if (n->config.keys != NULL)
		len = sign(n, notice, &to->addr, wire, len);
	sendto(n->fds[to->addr.family == AF_INET6], wire, len, MSG_DONTWAIT | MSG_NOSIGNAL,
	    (struct sockaddr *)&ss, ss_len);
	notice->sent = notice->serial;
	notice->due_ms = now_ms + ((int64_t)NOTIFY_FIRST_MS << notice->tries++);
	atomic_fetch_add(&n->config.counts->sent, 1);
}

int64_t
notify_iteration(struct notify *n, int64_t now_ms)
{
	int64_t due_ms = CLOCK_NEVER;

	for (unsigned i = 0; i < NOTIFY_FDS; i++)
		receive(n, n->fds[i]);
	for (size_t s = 0; s < n->config.count; s++)
		for (size_t z = 0; z < n->zones; z++) {
			struct notice *notice = &n->notices[s * n->zones + z];

			if (notice->pending && notice->due_ms <= now_ms) {
				if (notice->tries == NOTIFY_TRIES)
					give_up(n, notice, s, z);
				else
					send_notice(n, notice, s, z, now_ms);
			}
			if (notice->pending)
				due_ms = clock_earlier(due_ms, notice->due_ms);
		}
	return due_ms;
}

void
notify_free(struct notify *n)
{
	if (n == NULL)
		return;
	for (unsigned i = 0; i < NOTIFY_FDS; i++)
		if (n->fds[i] >= 0)
			close(n->fds[i]);
	free(n->notices);
	free(n);
}
