/*
 * Zone transfers on TCP connections. A thread of transfer.h writes to a connection through another
 * descriptor of it; until it has ended the connection is blocked, and what the client sends waits.
 */
#include "kubedns/dnstap/dnstap_queue.h"
#include "kubedns/serve/net/tcp_internal.h"
#include "lib/rcu.h"
#include "treecache/treecache.h"

/* dnstap is told of the question, and of a reply that is no transfer: a zone is not a message. */
static void
tap(const struct tcp *tcp, const struct transfer_ask *ask, size_t reply)
{
	struct dnstap_queue *dnstap = tcp->context->dnstap;
	int64_t now_ns = tcp->context->now_ns;
	if (dnstap == NULL)
		return;
	if (reply > 0)
		dnstap_answered(
		    dnstap, true, ask->peer, ask->query, ask->query_len, ask->out, reply, now_ns);
	else
		dnstap_add(dnstap, DNSTAP_CLIENT_QUERY, true, ask->peer, ask->query, ask->query_len,
		    now_ns, 0);
}

bool
tcp_transfer(struct tcp *tcp, const uint8_t *query, size_t len, struct answer_info *info)
{
	struct worker_context *context = tcp->context;
	struct conn *conn = tcp->current;
	uint8_t *room;
	/* What was answered before goes first. */
	if (!tcp_gather_flush(tcp) || (room = tcp_gather_room(tcp)) == NULL)
		return false;
	if (conn->blocked) {
		conn_drop(tcp, conn, DROP_TCP_SLOW_READER);
		return false;
	}
	struct transfer_ask ask = { .answers = conn->answers,
		.peer = &conn->addr.sa,
		.question = &info->query,
		.query = query,
		.query_len = len,
		.out = room + PREFIX,
		.max = DNS_TCP_MAX,
		.fd = conn->fd,
		.end = context->streamed };
	ask.end.slot = conn_slot(tcp, conn);
	ask.end.generation = conn->generation;
	rcu_enter();
	ask.tree = tree_current(context->tree);
	size_t reply = transfer_answer(context->transfer, &ask);
	rcu_leave();
	tap(tcp, &ask, reply);
	if (reply > 0) {
		answer_replied(info, ask.out, reply);
		tcp_gather_done(tcp, reply);
		stats_reply(context->stats, PROTO_TCP, info, reply);
		return true;
	}
	conn->streaming = conn->blocked = true;
	conn_wait_for(tcp, conn, EPOLLET); /* once, when it is closed */
	return true;
}

void
tcp_streamed(struct tcp *tcp, uint32_t slot, uint32_t generation, bool whole)
{
	struct conn *conn = &tcp->conns[slot];
	if (conn->fd < 0 || conn->generation != generation)
		return;
	conn->streaming = false;
	if (!whole)
		conn_drop(tcp, conn, DROP_TCP_SLOW_READER);
	else if (conn->out_len > 0)
		conn_wait_for(tcp, conn, EPOLLOUT); /* replies of other servers, kept meanwhile */
	else
		tcp_unblocked(tcp, conn);
}
