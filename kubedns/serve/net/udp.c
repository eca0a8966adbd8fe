#include "kubedns/serve/net/udp.h"

#include <assert.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <unistd.h>

#include "kubedns/serve/net/batch_io.h"
#include "kubedns/serve/client_view.h"
#include "kubedns/serve/fair_share.h"
#include "kubedns/serve/upstream/inflight.h"
#include "kubedns/serve/observe/observe.h"
#include "kubedns/serve/rotation.h"
#include "lib/log.h"
#include "lib/xalloc.h"
#include "lib/rcu.h"
#include "treecache/treecache.h"

enum {
	QUERY_STRIDE = DNS_UDP_QUERY_MAX + 64,
	REPLY_STRIDE = 21 * 64, /* a little more than 1,232, and an odd number of cache lines */
	BATCHES_MAX = 16,
	/* After a batch of at least this many packets, the worker reads again before poll(). Two packets are usually one lookup: a
	 * resolver library sends A and AAAA together, and no third packet follows. */
	BUSY_BATCH = 3,
	/* If a batch has at most this many queries for other servers, they are handled before our own answers are sent. If the cache
	 * answers them, their answers leave in the same sendmmsg(). */
	FEW_OTHERS = 2,
};
_Static_assert(REPLY_STRIDE >= (int)DNS_UDP_PAYLOAD, "a reply has space");

struct udp {
	struct worker_context *context;
	struct inflight_table *inflight; /* handles queries for other servers */
	struct fair_share *fair;         /* NULL if there is no fair share */
	uint64_t rotation;               /* state of rotation_next() */
	size_t socket_count;
	struct udp_socket sockets[UDP_SOCKETS_MAX];

	/* A batch of received packets. */
	struct mmsghdr in[UDP_BATCH];
	struct iovec in_iov[UDP_BATCH];
	struct sockaddr_in6 in_addr[UDP_BATCH];
	_Alignas(struct cmsghdr) uint8_t in_control[UDP_BATCH][PKTINFO_ROOM];

	struct answer_info infos[UDP_BATCH];
	struct tree_path paths[UDP_BATCH];

	/* Replies to send, all through one socket. */
	struct mmsghdr out[UDP_BATCH];
	struct iovec out_iov[UDP_BATCH];
	/* Clients of replies from other servers. Our own replies use in_addr. */
	struct udp_peer out_peer[UDP_BATCH];
	unsigned out_count;
	unsigned out_socket;

	uint8_t *queries; /* UDP_BATCH x QUERY_STRIDE */
	uint8_t *replies; /* UDP_BATCH x REPLY_STRIDE */
};

static void
prepare_in(struct udp *udp, unsigned i)
{
	struct msghdr *hdr = &udp->in[i].msg_hdr;

	hdr->msg_name = &udp->in_addr[i];
	hdr->msg_namelen = sizeof udp->in_addr[i];
	hdr->msg_iov = &udp->in_iov[i];
	hdr->msg_iovlen = 1;
	hdr->msg_control = udp->in_control[i];
	hdr->msg_controllen = sizeof udp->in_control[i];
}

static void *
aligned(size_t size)
{
	void *memory = NULL;

	if (posix_memalign(&memory, 64, size) != 0)
		log_fatalx("out of memory: %zu bytes", size);
	return memory;
}

struct udp *
udp_new(struct worker_context *context, struct inflight_table *inflight,
    const struct udp_socket *sockets, size_t count)
{
	assert(count <= UDP_SOCKETS_MAX);
	struct udp *udp = xcalloc(1, sizeof *udp);
	udp->context = context;
	udp->inflight = inflight;
	udp->rotation = context->random;
	udp->queries = aligned((size_t)UDP_BATCH * QUERY_STRIDE);
	udp->replies = aligned((size_t)UDP_BATCH * REPLY_STRIDE);
	for (unsigned i = 0; i < UDP_BATCH; i++) {
		udp->in_iov[i] =
		    (struct iovec){ udp->queries + (size_t)i * QUERY_STRIDE, DNS_UDP_QUERY_MAX };
		udp->out_iov[i].iov_base = udp->replies + (size_t)i * REPLY_STRIDE;
		udp->out[i].msg_hdr.msg_iov = &udp->out_iov[i];
		udp->out[i].msg_hdr.msg_iovlen = 1;
		prepare_in(udp, i);
	}
	for (size_t i = 0; i < count; i++)
		udp->sockets[udp->socket_count++] = sockets[i];
	return udp;
}

size_t
udp_fds(const struct udp *udp, struct pollfd fds[UDP_SOCKETS_MAX])
{
	for (size_t i = 0; i < udp->socket_count; i++)
		fds[i] = (struct pollfd){ .fd = udp->sockets[i].fd, .events = POLLIN };
	return udp->socket_count;
}

void
udp_flush(struct udp *udp)
{
	unsigned sent = 0;

	while (sent < udp->out_count) {
		int n = messages_send(
		    udp->sockets[udp->out_socket].fd, udp->out + sent, udp->out_count - sent);

		if (n > 0) {
			sent += (unsigned)n;
		} else if (errno != EINTR) {
			/*
			 * The first message could not be sent, because the client is unreachable or the buffer is full. The other messages
			 * may succeed.
			 */
			stats_drop(udp->context->stats, DROP_SEND);
			sent++;
		}
	}
	udp->out_count = 0;
}

uint8_t *
udp_reply_reserve(struct udp *udp, const struct udp_peer *peer)
{
	if (udp->out_count == UDP_BATCH || (udp->out_count > 0 && udp->out_socket != peer->socket))
		udp_flush(udp);
	unsigned i = udp->out_count;
	struct udp_peer *kept = &udp->out_peer[i];
	*kept = *peer;
	udp->out_socket = peer->socket;
	struct msghdr *hdr = &udp->out[i].msg_hdr;
	hdr->msg_name = &kept->addr;
	hdr->msg_namelen = kept->addr_len;
	hdr->msg_control = kept->control_len > 0 ? kept->control : NULL;
	hdr->msg_controllen = kept->control_len;
	return udp->out_iov[i].iov_base;
}

void
udp_reply_done(struct udp *udp, size_t len)
{
	udp->out_iov[udp->out_count++].iov_len = len;
}

/*
 * Turns the destination of a received packet into the source of its reply. Routing chooses the interface. For link-local addresses, the
 * interface must be set.
 */
static void
reverse_pktinfo(struct msghdr *hdr)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(hdr);

	if (cmsg == NULL) {
		hdr->msg_controllen = 0;
	} else if (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_PKTINFO) {
		struct in_pktinfo *info = (struct in_pktinfo *)(void *)CMSG_DATA(cmsg);

		info->ipi_ifindex = 0;
		hdr->msg_controllen = CMSG_SPACE(sizeof *info);
	} else if (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_PKTINFO) {
		struct in6_pktinfo *info = (struct in6_pktinfo *)(void *)CMSG_DATA(cmsg);

		if (!IN6_IS_ADDR_LINKLOCAL(&info->ipi6_addr))
			info->ipi6_ifindex = 0;
		hdr->msg_controllen = CMSG_SPACE(sizeof *info);
	} else {
		hdr->msg_controllen = 0;
	}
}

/* Stores the destination for a later reply to packet `i` of the batch. */
static void
fill_client(const struct udp *udp, unsigned index, unsigned i, struct client *client)
{
	const struct msghdr *hdr = &udp->in[i].msg_hdr;

	client->proto = PROTO_UDP;
	client->family = udp->sockets[index].family == AF_INET ? FAMILY_4 : FAMILY_6;
	client->hash = client_hash(hdr->msg_name, udp->context->hash_key);
	client->peer.udp.socket = (uint8_t)index;
	client->peer.udp.addr_len = hdr->msg_namelen;
	memcpy(&client->peer.udp.addr, hdr->msg_name, hdr->msg_namelen);
	client->peer.udp.control_len = (uint8_t)hdr->msg_controllen;
	memcpy(client->peer.udp.control, hdr->msg_control, hdr->msg_controllen);
}

/* Uses the address of packet `i` for the reply, without a copy. */
static uint8_t *
reply_buffer(struct udp *udp, unsigned index, unsigned i)
{
	if (udp->out_count == UDP_BATCH || (udp->out_count > 0 && udp->out_socket != index))
		udp_flush(udp);
	udp->out_socket = index;
	const struct msghdr *from = &udp->in[i].msg_hdr;
	struct msghdr *to = &udp->out[udp->out_count].msg_hdr;
	to->msg_name = from->msg_name;
	to->msg_namelen = from->msg_namelen;
	to->msg_control = from->msg_controllen > 0 ? from->msg_control : NULL;
	to->msg_controllen = from->msg_controllen;
	return udp->out_iov[udp->out_count].iov_base;
}

/* Handles packet `i`, which a module answers (message.h). */
static void
module_packet(struct udp *udp, unsigned index, unsigned i)
{
	struct worker_context *context = udp->context;
	struct answer_info *info = &udp->infos[i];
	struct module_message message = { .answers = udp->sockets[index].answers,
		.peer = udp->in[i].msg_hdr.msg_name,
		.question = &info->query,
		.query = udp->in_iov[i].iov_base,
		.query_len = udp->in[i].msg_len,
		.out = reply_buffer(udp, index, i),
		.max = info->query.udp_size < udp->sockets[index].reply_max
			   ? info->query.udp_size
			   : udp->sockets[index].reply_max,
		.fd = -1 };

	rcu_enter();
	message.tree = tree_current(context->tree);
	size_t len = message_answer(info->handler, &message);
	rcu_leave();
	assert(len > 0 && len <= message.max);
	answer_replied(info, message.out, len);
	stats_reply(context->stats, PROTO_UDP, info, info->len);
	udp_reply_done(udp, info->len);
	observe_message(context->ring, RECORD_CLIENT_QUERY, false, message.peer, message.query,
	    message.query_len, context->now_ns, 0);
	observe_message(context->ring, RECORD_CLIENT_RESPONSE, false, message.peer, message.out,
	    info->len, context->now_ns, 0);
}

/* Handles packet `i`, which is a query for another server or for a module. */
static void
forward_packet(struct udp *udp, unsigned index, unsigned i, enum answer_outcome outcome)
{
	struct client client;

	if (outcome == ANSWER_MODULE) {
		module_packet(udp, index, i);
		return;
	}
	fill_client(udp, index, i, &client);
	observe_message(udp->context->ring, RECORD_CLIENT_QUERY, false, client_sockaddr(&client),
	    udp->in_iov[i].iov_base, udp->in[i].msg_len, udp->context->now_ns, 0);
	inflight_start(udp->inflight, &client, udp->in_iov[i].iov_base, udp->in[i].msg_len, outcome,
	    &udp->infos[i]);
}

/* Reads packet `i` of the batch, received at socket `index`. */
static void
read_packet(struct udp *udp, unsigned index, unsigned i)
{
	struct mmsghdr *message = &udp->in[i];

	if (udp->sockets[index].wildcard)
		reverse_pktinfo(&message->msg_hdr);
	else
		message->msg_hdr.msg_controllen = 0;
	/* The message was truncated to 4,096 bytes, which can be a complete query. A header without its
	 * question is malformed. */
	if ((message->msg_hdr.msg_flags & MSG_TRUNC) != 0) {
		stats_drop(udp->context->stats, DROP_OVERSIZE);
		message->msg_len = DNS_HEADER;
	}
	answer_read(udp->sockets[index].answers, udp->in_iov[i].iov_base, message->msg_len,
	    &udp->infos[i], &udp->paths[i]);
}

/* Answers packet `i`, whose path was found in `tree`. Adds the reply, if there is one, to the
 * batch. */
static enum answer_outcome
answer_packet(struct udp *udp, const struct tree *tree, unsigned index, unsigned i)
{
	struct worker_context *context = udp->context;
	const struct mmsghdr *message = &udp->in[i];
	struct answer_info *info = &udp->infos[i];
	const struct answer_request request = {
		.config = udp->sockets[index].answers,
		.tree = client_view(context, tree, message->msg_hdr.msg_name),
		.query = udp->in_iov[i].iov_base,
		.query_len = message->msg_len,
		.out = reply_buffer(udp, index, i),
		.max = udp->sockets[index].reply_max,
		.rotation = rotation_next(&udp->rotation),
		.thread = &context->thread,
		.client = message->msg_hdr.msg_name,
	};
	enum answer_outcome outcome = answer_found(&request, &udp->paths[i], info);

	if (outcome == ANSWER_DROP) {
		stats_drop(context->stats, DROP_NOT_A_QUERY);
		return outcome;
	}
	stats_query(context->stats, PROTO_UDP,
	    udp->sockets[index].family == AF_INET ? FAMILY_4 : FAMILY_6, info, message->msg_len);
	if (outcome == ANSWER_REPLY) {
		stats_reply(context->stats, PROTO_UDP, info, info->len);
		udp_reply_done(udp, info->len);
		observe(context->ring, &(struct observed){ .client = message->msg_hdr.msg_name,
					   .info = info,
					   .query = request.query,
					   .query_len = request.query_len,
					   .reply = request.out,
					   .at_ns = context->now_ns });
	}
	return outcome;
}

static void
answer_batch(struct udp *udp, unsigned index, unsigned count)
{
	struct worker_context *context = udp->context;
	unsigned replied[SYSTEM_COUNT] = { 0 };

	struct {
		unsigned i;
		enum answer_outcome outcome;
	} others[UDP_BATCH];
	unsigned other_count = 0;
	int64_t start_ns = context->now_ns; /* the end of the wait or of the last batch */

	for (unsigned i = 0; i < count; i++)
		read_packet(udp, index, i);
	rcu_enter();
	const struct tree *tree = tree_current(context->tree);
	tree_find_paths(tree, udp->paths, count);
	for (unsigned i = 0; i < count; i++) {
		enum answer_outcome outcome = answer_packet(udp, tree, index, i);

		if (outcome == ANSWER_REPLY) {
			replied[udp->infos[i].system]++;
		} else if (outcome != ANSWER_DROP) {
			others[other_count].i = i;
			others[other_count++].outcome = outcome;
		}
	}
	rcu_leave();
	if (other_count == 0 || other_count > FEW_OTHERS)
		udp_flush(udp);
	bool noted = context->ring != NULL &&
		     replied[SYSTEM_AUTH] + replied[SYSTEM_REVERSE] + replied[SYSTEM_RECURSIVE] > 0;
	/* Forwarded queries may be recorded too, with their own times. */
	if (noted && other_count > 0) {
		observe_batch(context->ring, clock_mono_ns() - start_ns);
		noted = false;
	}
	/* Called outside of the read section, because forward_packet() makes system calls. */
	for (unsigned o = 0; o < other_count; o++)
		forward_packet(udp, index, others[o].i, others[o].outcome);
	if (other_count > 0)
		udp_flush(udp);

	uint64_t took_ns = (uint64_t)(worker_time(context) - start_ns);
	if (noted)
		observe_batch(context->ring, (int64_t)took_ns);
#pragma GCC unroll 3
	for (unsigned s = 0; s < SYSTEM_COUNT; s++)
		if (replied[s] > 0)
			stats_took(&context->stats->times[s], took_ns, replied[s]);
}

void
udp_fair_share(struct udp *udp, struct fair_share *fair)
{
	udp->fair = fair;
}

/* Receives and answers one batch. Returns the number of packets. */
static int
serve_batch(struct udp *udp, unsigned index)
{
	struct worker_context *context = udp->context;
	int64_t start_ns = context->now_ns;
	int n = messages_receive(udp->sockets[index].fd, udp->in, UDP_BATCH);

	if (n <= 0)
		return 0; /* no packet, or an ICMP error because a client's port is closed */
	answer_batch(udp, index, (unsigned)n);
	if (context->measuring)
		fair_share_batch(udp->fair, udp->in, (unsigned)n, context->now_ns - start_ns);
	for (unsigned i = 0; i < (unsigned)n; i++) {
		udp->in[i].msg_hdr.msg_namelen = sizeof udp->in_addr[i];
		udp->in[i].msg_hdr.msg_controllen = sizeof udp->in_control[i];
	}
	return n;
}

void
udp_readable(struct udp *udp, unsigned index)
{
	int64_t end_ns = udp->context->now_ns + WORKER_BUDGET_NS;

	for (unsigned batch = 0; batch < BATCHES_MAX && udp->context->now_ns < end_ns; batch++)
		if (serve_batch(udp, index) < BUSY_BATCH)
			return;
	if (udp->fair != NULL)
		fair_share_behind(udp->fair, index);
}

void
udp_poll(struct udp *udp)
{
	for (unsigned i = 0; i < udp->socket_count; i++)
		udp_readable(udp, i);
}

uint64_t
udp_queue_drops(const struct udp *udp)
{
	uint64_t drops = 0;

	for (size_t i = 0; i < udp->socket_count; i++) {
		uint32_t info[SK_MEMINFO_VARS] = { 0 };
		socklen_t len = sizeof info;

		if (getsockopt(udp->sockets[i].fd, SOL_SOCKET, SO_MEMINFO, info, &len) == 0)
			drops += info[SK_MEMINFO_DROPS];
	}
	return drops;
}

void
udp_free(struct udp *udp)
{
	if (udp == NULL)
		return;
	for (size_t i = 0; i < udp->socket_count; i++)
		close(udp->sockets[i].fd);
	free(udp->queries);
	free(udp->replies);
	free(udp);
}
