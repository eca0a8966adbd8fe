/*
 * c-ares channels: one source port to one server, for 32 queries. A new one is opened for the next
 * 32, and the old one stays until its last attempt has ended. A forged answer has to guess a port
 * and an ID that are valid for seconds only.
 */
#include "kubedns/serve/upstream/forward_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/log.h"
#include "lib/xalloc.h"

enum { CHANNELS_MAX = 4096 };

static void
socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	const struct channel *channel = arg;
	const struct worker_context *context = channel->forward->context;
	uint64_t key = worker_key(channel->forward->way.part, channel->slot, (uint32_t)fd);
	uint32_t events = (readable ? (uint32_t)EPOLLIN : 0) | (writable ? (uint32_t)EPOLLOUT : 0);
	if (events == 0) {
		worker_epoll_ctl(context, EPOLL_CTL_DEL, fd, 0, key);
		return;
	}
	int rc = worker_epoll_ctl(context, EPOLL_CTL_MOD, fd, events, key);
	if (rc != 0 && errno == ENOENT)
		rc = worker_epoll_ctl(context, EPOLL_CTL_ADD, fd, events, key);
	if (rc != 0)
		log_neterr("forward: epoll_ctl: %s", strerror(errno));
}

static int
set_server(ares_channel ares, const struct server *server)
{
	struct ares_addr_port_node node = {
		.family = server->addr.family, .udp_port = server->port, .tcp_port = server->port
	};
	memcpy(&node.addr, server->addr.bytes, addr_len(&server->addr));
	return ares_set_servers_ports(ares, &node);
}

/*
 * Sets every option that c-ares would otherwise read from /etc/resolv.conf or the environment. Its
 * timeout is that of the whole query: the shorter ones are forward.c's.
 */
static int
open_ares(struct channel *channel)
{
	static char lookups[] = "b";
	struct ares_options options = {
		.flags = ARES_FLAG_EDNS | ARES_FLAG_NOCHECKRESP | ARES_FLAG_NOSEARCH |
			 (channel->forward->way.tcp ? ARES_FLAG_USEVC | ARES_FLAG_STAYOPEN : 0),
		.timeout = FORWARD_TIMEOUT_MS,
		.tries = 1,
		.ndots = 0,
		.lookups = lookups,
		.sock_state_cb = socket_state,
		.sock_state_cb_data = channel,
		.ednspsz = DNS_UDP_PAYLOAD,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
		   ARES_OPT_LOOKUPS | ARES_OPT_DOMAINS | ARES_OPT_SERVERS | ARES_OPT_SORTLIST |
		   ARES_OPT_SOCK_STATE_CB | ARES_OPT_EDNSPSZ | ARES_OPT_NOROTATE;
	int status = ares_init_options(&channel->ares, &options, mask);
	if (status != ARES_SUCCESS)
		return status;
	status = set_server(channel->ares, &channel->server);
	if (status != ARES_SUCCESS)
		ares_destroy(channel->ares);
	return status;
}

static uint32_t
take_slot(struct forward *forward)
{
	if (forward->free_count > 0)
		return forward->free_slots[--forward->free_count];
	if ((forward->slot_count & (forward->slot_count + 1)) == 0 || forward->slots == NULL) {
		size_t room = forward->slots == NULL ? 16 : (size_t)forward->slot_count * 2 + 2;
		forward->slots = xreallocarray(forward->slots, room, sizeof(*forward->slots));
		forward->free_slots =
		    xreallocarray(forward->free_slots, room, sizeof(*forward->free_slots));
	}
	return forward->slot_count++;
}

struct channel *
channel_open(struct forward *forward, const struct server *server)
{
	if (forward->slot_count - forward->free_count >= CHANNELS_MAX)
		return NULL;
	struct channel *channel = xcalloc(1, sizeof(*channel));
	channel->forward = forward;
	channel->server = *server;
	int status = open_ares(channel);
	if (status != ARES_SUCCESS) {
		log_neterr("forward: c-ares: %s", ares_strerror(status));
		free(channel);
		return NULL;
	}
	channel->slot = take_slot(forward);
	forward->slots[channel->slot] = channel;
	LIST_INSERT_HEAD(&forward->channels, channel, link);
	return channel;
}

void
channel_retire(struct forward *forward, struct channel *channel)
{
	if (channel->retired)
		return;
	channel->retired = true;
	LIST_REMOVE(channel, link);
	LIST_INSERT_HEAD(channel->waiting > 0 ? &forward->retired : &forward->done, channel, link);
	for (size_t i = 0; i < forward->upstream_count; i++)
		if (forward->upstreams[i].channel == channel)
			forward->upstreams[i].channel = NULL;
}

void
channel_close(struct forward *forward, struct channel *channel)
{
	assert(channel->waiting == 0);
	ares_destroy(channel->ares); /* ends abandoned attempts */
	assert(channel->open == 0);
	LIST_REMOVE(channel, link);
	forward->slots[channel->slot] = NULL;
	forward->free_slots[forward->free_count++] = channel->slot;
	free(channel);
}

uint16_t
channel_id(struct forward *forward, struct channel *channel)
{
	uint16_t id = ids_take(&forward->ids, channel->ids, channel->used);
	channel->ids[channel->used++] = id;
	return id;
}
