#include "kubedns/serve/relay.h"

#include <assert.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/serve/ids.h"
#include "kubedns/serve/inflight.h"
#include "kubedns/serve/relay_tcp.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum {
	PORT_QUERIES = 32, /* RFC 5452 section 10 */
	PORTS_MAX = 2048,
	IDLE_MAX =
	    32, /* sockets kept for the next port: a new number is cheaper than a new socket */
	REPLY_STRIDE = DNS_UDP_QUERY_MAX + 64,
	RUN_MAX = 60000, /* bytes of a run: what IP takes, less its headers */
};
static const int64_t retry_ns = 1000 * INT64_C(1000000);
static const int64_t refused_ns =
    50 * INT64_C(1000000); /* dnsmasq is being restarted: it will be back soon */

/* A source port towards the resolver. */
struct relay_port {
	int fd;
	uint32_t slot, generation;
	unsigned used, open;
	uint16_t ids[PORT_QUERIES];
	struct inflight *queries[PORT_QUERIES]; /* NULL: answered or over */
};

struct relay {
	struct worker *worker;
	struct server resolver;
	struct relay_tcp *tcp;
	struct relay_port *current;          /* new queries go here; NULL: open one */
	struct relay_port *ports[PORTS_MAX]; /* by slot */
	uint32_t free_slots[PORTS_MAX];
	uint32_t free_count;
	struct relay_port *idle[IDLE_MAX];
	unsigned idle_count;
	uint32_t generation; /* of the port opened last */

	/* Messages for the current port that this turn has gathered. */
	unsigned out_count;
	size_t out_used;
	uint8_t *out; /* PORT_QUERIES x DNS_UDP_QUERY_MAX */
	struct iovec out_iov[PORT_QUERIES];
	bool segments; /* the kernel cuts a run into its messages: UDP_SEGMENT */

	TAILQ_HEAD(, inflight) refused; /* nobody listened: to be sent again soon */
	int64_t refused_at_ns;

	struct mmsghdr in[PORT_QUERIES];
	struct iovec in_iov[PORT_QUERIES];
	uint8_t *replies; /* PORT_QUERIES x REPLY_STRIDE */
	struct ids ids;
};

/* The message to send: the client's own, or a question of ours for a CNAME's target. */
static size_t
write_query(const struct inflight *inflight, uint16_t id, uint8_t *out)
{
	if (inflight->chase)
		return inflight_question(inflight, id, out);
	memcpy(out, inflight->query, inflight->query_len);
	wire_put16(out, id);
	return inflight->query_len;
}

bool
relay_matches(const struct inflight *inflight, uint16_t id, const uint8_t *reply, size_t len)
{
	return len >= DNS_HEADER && wire_get16(reply) == id &&
	       wire_replies_to(reply, len, inflight_name(inflight), inflight->type, CLASS_IN);
}

/* --- ports --- */

static void
port_close(struct relay *relay, struct relay_port *port)
{
	close(port->fd);
	relay->ports[port->slot] = NULL;
	relay->free_slots[relay->free_count++] = port->slot;
	free(port);
}

static struct relay_port *
find_port(const struct relay *relay, uint32_t slot, uint32_t generation)
{
	struct relay_port *port = slot < PORTS_MAX ? relay->ports[slot] : NULL;
	return port != NULL && port->generation == generation ? port : NULL;
}

/* Connected: the kernel lets nobody else's packets in, and tells when nobody listens. */
static bool
port_connect(const struct relay *relay, int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(&relay->resolver, &ss);
	return connect(fd, (struct sockaddr *)&ss, len) == 0;
}

/* All its queries are over. What still arrives at it is for nobody. */
static void
port_retire(struct relay *relay, struct relay_port *port)
{
	if (relay->idle_count == IDLE_MAX) {
		port_close(relay, port);
		return;
	}
	port->used = 0;
	relay->idle[relay->idle_count++] = port;
}

/* A socket that was used before, under another number: without its peer it has none. */
static struct relay_port *
port_again(struct relay *relay)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct relay_port *port = relay->idle[--relay->idle_count];
	if (connect(port->fd, &none, sizeof(none)) == 0 && port_connect(relay, port->fd))
		return port;
	port_close(relay, port);
	return NULL;
}

static struct relay_port *
port_open(struct relay *relay)
{
	if (relay->idle_count > 0)
		return port_again(relay);
	if (relay->free_count == 0)
		return NULL;
	int fd = socket(relay->resolver.addr.family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	uint32_t slot = relay->free_slots[relay->free_count - 1], generation = ++relay->generation;
	if (!port_connect(relay, fd) || loop_control(relay->worker, EPOLL_CTL_ADD, fd, EPOLLIN,
					    loop_key(LOOP_RELAY_UDP, slot, generation)) != 0) {
		close(fd);
		return NULL;
	}
	relay->free_count--;
	struct relay_port *port = xcalloc(1, sizeof(*port));
	port->fd = fd;
	port->slot = slot;
	port->generation = generation;
	relay->ports[slot] = port;
	return port;
}

/* The query is no longer out: its place is free, and the port with it when it was the last. */
static void
leave_port(struct relay *relay, struct inflight *inflight)
{
	struct relay_port *port = inflight->port;
	if (port == NULL)
		return;
	port->queries[inflight->place] = NULL;
	inflight->port = NULL;
	if (--port->open == 0 && port != relay->current)
		port_retire(relay, port);
}

/*
 * Every query of this port that is still out was refused,
 * or may have been: all are sent again soon.
 */
static void
port_refused(struct relay *relay, struct relay_port *port)
{
	stats_add(&relay->worker->stats->forward_server_failures, 1);
	for (unsigned i = 0; i < port->used; i++) {
		struct inflight *inflight = port->queries[i];
		if (inflight == NULL || inflight->queued)
			continue;
		if (TAILQ_EMPTY(&relay->refused))
			relay->refused_at_ns = relay->worker->now_ns + refused_ns;
		inflight->queued = true;
		TAILQ_INSERT_TAIL(&relay->refused, inflight, by_queue);
	}
}

/* Room for what tells the kernel the length of a run's messages. */
struct segment_size {
	_Alignas(struct cmsghdr) uint8_t room[CMSG_SPACE(sizeof(uint16_t))];
};

static void
segment_size(struct msghdr *hdr, struct segment_size *size, size_t len)
{
	uint16_t value = (uint16_t)len;
	*size = (struct segment_size){ 0 };
	hdr->msg_control = size->room;
	hdr->msg_controllen = sizeof(size->room);
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(hdr);
	*cmsg = (struct cmsghdr){
		.cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof(value))
	};
	memcpy(CMSG_DATA(cmsg), &value, sizeof(value));
}

/* A kernel that does not know them would send a run as one message. */
static bool
has_segments(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = 0;
	if (fd < 0)
		return false;
	bool has = setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)) == 0;
	close(fd);
	return has;
}

/* Longest first, so that those of one length are side by side. */
static void
sort_gathered(struct relay *relay)
{
	for (unsigned i = 1; i < relay->out_count; i++) {
		struct iovec iov = relay->out_iov[i];
		unsigned at = i;
		for (; at > 0 && relay->out_iov[at - 1].iov_len < iov.iov_len; at--)
			relay->out_iov[at] = relay->out_iov[at - 1];
		relay->out_iov[at] = iov;
	}
}

/* How many messages from `first` on can leave as one:
 * as long as the first, the last may be shorter. */
static unsigned
run_length(const struct relay *relay, unsigned first)
{
	const struct iovec *iov = relay->out_iov + first;
	unsigned count = 1, max = relay->segments ? relay->out_count - first : 1;
	for (size_t len = iov->iov_len; count < max; count++) {
		len += iov[count].iov_len;
		if (len > RUN_MAX || iov[count - 1].iov_len < iov->iov_len)
			break;
	}
	return count;
}

/*
 * The gathered messages as runs, each of which passes through the kernel as one packet up to the
 * resolver's socket. Most of what a message costs is this way.
 */
static unsigned
make_runs(struct relay *relay, struct mmsghdr *out, struct segment_size *sizes)
{
	unsigned runs = 0;
	sort_gathered(relay);
	for (unsigned i = 0; i < relay->out_count; runs++) {
		struct msghdr *hdr = &out[runs].msg_hdr;
		unsigned count = run_length(relay, i);
		*hdr = (struct msghdr){ .msg_iov = relay->out_iov + i, .msg_iovlen = count };
		if (count > 1)
			segment_size(hdr, &sizes[runs], relay->out_iov[i].iov_len);
		i += count;
	}
	return runs;
}

/*
 * Sends one run, message by message: the kernel would not have it whole, because they are longer
 * than the path takes in one piece, or its checksums are not made on the way.
 */
static void
send_singly(int fd, const struct msghdr *run)
{
	for (size_t i = 0; i < run->msg_iovlen; i++)
		if (send(fd, run->msg_iov[i].iov_base, run->msg_iov[i].iov_len, MSG_DONTWAIT) < 0)
			log_neterr("relay: send: %s", strerror(errno));
}

/*
 * Sends what was gathered; true if the kernel told meanwhile that nobody listens. That is about
 * a query sent before, and the run at hand has not been sent: it gets another try. One that
 * cannot be sent at all waits for its retry time.
 */
static bool
send_gathered(struct relay *relay)
{
	struct mmsghdr out[PORT_QUERIES];
	struct segment_size sizes[PORT_QUERIES];
	unsigned runs = make_runs(relay, out, sizes), sent = 0;
	bool refused = false, again = true;
	while (sent < runs) {
		int n = sendmmsg(relay->current->fd, out + sent, runs - sent, MSG_DONTWAIT);
		if (n > 0) {
			sent += (unsigned)n;
			again = true;
		} else if (errno == ECONNREFUSED && again) {
			refused = true;
			again = false;
		} else if (errno != EINTR) {
			send_singly(relay->current->fd, &out[sent++].msg_hdr);
			again = true;
		}
	}
	return refused;
}

static void
flush(struct relay *relay)
{
	if (relay->out_count == 0)
		return;
	struct relay_port *port = relay->current;
	bool refused = send_gathered(relay);
	relay->out_count = 0;
	relay->out_used = 0;
	if (refused)
		port_refused(relay, port);
	if (port->used == PORT_QUERIES) {
		relay->current = NULL;
		if (port->open == 0)
			port_retire(relay, port);
	}
}

/* Gives the query a place and an ID at the current port. */
static bool
take_place(struct relay *relay, struct inflight *inflight)
{
	if (relay->current != NULL && relay->current->used == PORT_QUERIES)
		flush(relay);
	if (relay->current == NULL)
		relay->current = port_open(relay);
	struct relay_port *port = relay->current;
	if (port == NULL)
		return false;
	inflight->port = port;
	inflight->place = port->used;
	port->ids[port->used] = ids_take(&relay->ids, port->ids, port->used);
	port->queries[port->used++] = inflight;
	port->open++;
	return true;
}

/* --- asker --- */

static void
ask(void *arg, struct inflight *inflight)
{
	struct relay *relay = arg;
	if (!take_place(relay, inflight))
		return; /* no descriptor: the retry time comes */
	uint8_t *message = relay->out + relay->out_used;
	size_t len = write_query(inflight, inflight->port->ids[inflight->place], message);
	relay->out_iov[relay->out_count++] = (struct iovec){ message, len };
	relay->out_used += len;
}

/* Once more by the same port with the same ID, so that the reply to the first one counts too. */
static void
send_again(struct relay *relay, struct inflight *inflight)
{
	uint8_t message[DNS_UDP_QUERY_MAX];
	stats_add(&relay->worker->stats->forward_retries, 1);
	if (inflight->port == NULL) {
		ask(relay, inflight);
		return;
	}
	size_t len = write_query(inflight, inflight->port->ids[inflight->place], message);
	ssize_t n = send(inflight->port->fd, message, len, MSG_DONTWAIT);
	if (n < 0 && errno == ECONNREFUSED) /* told of an earlier one; this one has not been sent */
		n = send(inflight->port->fd, message, len, MSG_DONTWAIT);
	if (n < 0)
		log_neterr("relay: send: %s", strerror(errno));
}

static void
retry(void *arg, struct inflight *inflight)
{
	struct relay *relay = arg;
	if (inflight->conn != NULL || inflight->queued)
		return;
	if (inflight->port != NULL)
		stats_add(&relay->worker->stats->forward_server_failures, 1);
	if (inflight->port == NULL && inflight->tried != 0) {
		stats_add(&relay->worker->stats->forward_retries, 1);
		relay_tcp_ask(relay->tcp, inflight);
	} else {
		send_again(relay, inflight);
	}
}

static void
forget(void *arg, struct inflight *inflight)
{
	struct relay *relay = arg;
	leave_port(relay, inflight);
	if (inflight->queued && inflight->tried == 0) {
		TAILQ_REMOVE(&relay->refused, inflight, by_queue);
		inflight->queued = false;
	}
	relay_tcp_forget(relay->tcp, inflight);
}

/* --- events --- */

static void
take_reply(struct relay *relay, struct relay_port *port, const uint8_t *reply, size_t len)
{
	if (len < DNS_HEADER)
		return;
	unsigned i = 0;
	uint16_t id = wire_get16(reply);
	while (i < port->used && (port->ids[i] != id || port->queries[i] == NULL))
		i++;
	if (i == port->used || !relay_matches(port->queries[i], id, reply, len))
		return; /* late, or forged */
	struct inflight *inflight = port->queries[i];
	bool truncated = (wire_get16(reply + 2) & FLAG_TC) != 0;
	if (!truncated || inflight->client.proto != PROTO_TCP) {
		inflight_finish(relay->worker, inflight, reply, len);
		return;
	}
	if (inflight->queued)
		return; /* it is being sent again anyway */
	leave_port(relay, inflight);
	inflight->tried = 1; /* from now on over TCP */
	relay_tcp_ask(relay->tcp, inflight);
}

void
relay_udp_event(struct relay *relay, uint32_t slot, uint32_t generation, uint32_t events)
{
	(void)events;
	struct relay_port *port = find_port(relay, slot, generation);
	if (port == NULL)
		return;
	int n = recvmmsg(port->fd, relay->in, PORT_QUERIES, MSG_DONTWAIT, NULL);
	if (n < 0 && errno == ECONNREFUSED)
		port_refused(relay, port);
	for (int i = 0; i < n && find_port(relay, slot, generation) != NULL; i++)
		take_reply(relay, port, relay->in_iov[i].iov_base, relay->in[i].msg_len);
}

void
relay_tcp_event(struct relay *relay, uint32_t slot, uint32_t generation, uint32_t events)
{
	relay_tcp_ready(relay->tcp, slot, generation, events);
}

int64_t
relay_turn(struct relay *relay)
{
	if (!TAILQ_EMPTY(&relay->refused) && relay->refused_at_ns <= relay->worker->now_ns) {
		struct inflight *inflight;
		while ((inflight = TAILQ_FIRST(&relay->refused)) != NULL) {
			TAILQ_REMOVE(&relay->refused, inflight, by_queue);
			inflight->queued = false;
			send_again(relay, inflight);
		}
	}
	flush(relay);
	return TAILQ_EMPTY(&relay->refused) ? 0 : relay->refused_at_ns;
}

/* --- life --- */

struct relay *
relay_new(struct worker *worker, const struct server *resolver)
{
	struct relay *relay = xcalloc(1, sizeof(*relay));
	relay->worker = worker;
	relay->resolver = *resolver;
	relay->tcp = relay_tcp_new(worker, resolver, write_query);
	relay->segments = has_segments();
	relay->out = xmalloc((size_t)PORT_QUERIES * DNS_UDP_QUERY_MAX);
	relay->replies = xmalloc((size_t)PORT_QUERIES * REPLY_STRIDE);
	TAILQ_INIT(&relay->refused);
	for (uint32_t i = PORTS_MAX; i-- > 0;)
		relay->free_slots[relay->free_count++] = i;
	for (unsigned i = 0; i < PORT_QUERIES; i++) {
		relay->in_iov[i] =
		    (struct iovec){ relay->replies + (size_t)i * REPLY_STRIDE, DNS_UDP_QUERY_MAX };
		relay->in[i].msg_hdr =
		    (struct msghdr){ .msg_iov = &relay->in_iov[i], .msg_iovlen = 1 };
	}
	*inflight_ops(worker->inflight) = (struct forward_ops){
		.arg = relay, .ask = ask, .retry = retry, .forget = forget, .retry_ns = retry_ns
	};
	return relay;
}

void
relay_free(struct relay *relay)
{
	if (relay == NULL)
		return;
	relay_tcp_free(relay->tcp);
	for (uint32_t i = 0; i < PORTS_MAX; i++)
		if (relay->ports[i] != NULL)
			port_close(relay, relay->ports[i]);
	free(relay->out);
	free(relay->replies);
	free(relay);
}
