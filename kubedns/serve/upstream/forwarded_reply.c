#include "kubedns/serve/upstream/forwarded_reply.h"

#include "kubedns/answer/upstream_stage.h"
#include "kubedns/serve/upstream/forwarded_cache.h"
#include "kubedns/serve/observe/observe.h"
#include "kubedns/serve/client_view.h"
#include "lib/rcu.h"
#include "lib/wire.h"
#include "treecache/treecache.h"

static struct forwarded_key
cache_key(const struct inflight *inflight)
{
	return (struct forwarded_key){ .name = inflight_name(inflight),
		.type = inflight->type,
		.flags = inflight->flags & (FLAG_CD | FLAG_AD),
		.edns_do = inflight->edns_do };
}

bool
forwarded_reply_find(const struct worker_context *context, struct forwarded_cache *cache,
    const struct inflight *inflight, uint8_t *buffer, struct upstream_reply *said)
{
	struct stats *stats = context->stats;

	if (cache == NULL || !forwarded_cache_takes(&inflight->info.query, inflight->query_len))
		return false;
	const struct forwarded_key key = cache_key(inflight);
	size_t len = forwarded_cache_get(cache, &key, context->now_ns, buffer);
	stats_add(len > 0 ? &stats->cache_hits : &stats->cache_misses, 1);
	*said = (struct upstream_reply){ .wire = buffer, .len = len };
	return len > 0;
}

void
forwarded_reply_keep(const struct worker_context *context, struct forwarded_cache *cache,
    const struct inflight *inflight, const struct upstream_reply *said)
{
	if (cache == NULL || said->wire == NULL ||
	    !forwarded_cache_takes(&inflight->info.query, inflight->query_len))
		return;
	const struct forwarded_key key = cache_key(inflight);
	if (forwarded_cache_put(cache, &key, said->wire, said->len, context->now_ns) ==
	    ANSWER_EVICTED)
		stats_add(&context->stats->cache_evictions, 1);
}

bool
forwarded_reply_was_truncated(const struct worker_context *context, struct forwarded_cache *cache,
    const struct inflight *inflight)
{
	if (cache == NULL)
		return false;
	const struct forwarded_key key = cache_key(inflight);
	return forwarded_cache_was_truncated(cache, &key, context->now_ns);
}

/* Makes a request from the client's message again. The caller sets the tree of the request, inside a read section. */
static struct answer_request
request_again(struct worker_context *context, const struct inflight *inflight)
{
	return (struct answer_request){
		.config = context->answers,
		.query = inflight->query,
		.query_len = inflight->query_len,
		.tcp = inflight->client.proto == PROTO_TCP,
		.thread = &context->thread,
		.client = client_sockaddr(&inflight->client),
	};
}

/* Returns the tree that the client may see. Call it inside a read section. */
static const struct tree *
seen_tree(struct worker_context *context, const struct inflight *inflight)
{
	return client_view_again(
	    context, tree_current(context->tree), client_sockaddr(&inflight->client));
}

bool
forwarded_reply_leads_on(
    struct worker_context *context, struct inflight *inflight, const struct upstream_reply *said)
{
	if (!inflight->info.claim.candidate)
		return false;
	struct answer_request request = request_again(context, inflight);
	rcu_enter();
	request.tree = seen_tree(context, inflight);
	bool on = answer_chases_on(&request, said, &inflight->info);
	rcu_leave();
	return on;
}

int
forwarded_reply_extended_error(const struct upstream_reply *said)
{
	struct reply_walk walk;
	const struct record *opt = &walk.record;

	if (said->len > DNS_UDP_PAYLOAD || !reply_walk_begin(&walk, said->wire, said->len))
		return -1;
	while (reply_walk_next(&walk) > 0) {
		size_t left = opt->type == TYPE_OPT ? opt->rdata_len : 0, len;

		for (const uint8_t *at = opt->rdata; left >= 4; at += len, left -= len) {
			if (wire_get16(at) == OPTION_EDE)
				return left >= 6 ? wire_get16(at + 4) : EDE_OTHER;
			len = 4U + wire_get16(at + 2);
			if (len > left)
				break;
		}
	}
	return -1;
}

bool
forwarded_reply_in_stub_domain(
    const struct worker_context *context, const struct inflight *inflight)
{
	rcu_enter();
	bool in = answer_stub_domain(
		      tree_current(context->tree)->context, inflight_name(inflight)) != NULL;
	rcu_leave();
	return in;
}

/* Writes the reply to the client, which is made from the other server's reply. Returns its length, or 0 if no reply is possible. */
static size_t
write_reply(struct worker_context *context, struct inflight *inflight,
    const struct upstream_reply *said, uint8_t *out, size_t max)
{
	struct answer_request request = request_again(context, inflight);
	size_t len;

	request.out = out;
	request.max = max;
	rcu_enter();
	request.tree = seen_tree(context, inflight);
	if (inflight->chase)
		len = answer_chased(&request, said, &inflight->info);
	else
		len = answer_forwarded(&request, said, &inflight->info);
	rcu_leave();
	return len;
}

void
forwarded_reply_note(const struct worker_context *context, const struct client *client,
    const struct answer_info *info, const uint8_t *reply, int64_t start_ns, enum answer_made made)
{
	/* This time must not be earlier than the time of the other server's response, which has its own record. */
	int64_t now_ns = observe_wants_messages(context->ring) ? clock_mono_ns() : context->now_ns;

	observe_alone(context->ring,
	    &(struct observed){
		.client = client_sockaddr(client), .info = info, .reply = reply, .at_ns = now_ns },
	    made, client->proto == PROTO_TCP, now_ns - start_ns);
}

void
forwarded_reply_send(struct worker_context *context, const struct client_ops *clients,
    struct inflight *inflight, const struct upstream_reply *said, enum answer_made made)
{
	const struct client *client = &inflight->client;
	/* The counters need the system that answer() found. That value is read before the reply overwrites it. */
	enum answer_system system = inflight->info.system;
	size_t max;

	uint8_t *buffer = clients->reply_buffer(clients->arg, client, &max);
	size_t len = write_reply(context, inflight, said, buffer, max);
	clients->done(clients->arg, client, len);
	stats_reply(context->stats, client->proto, &inflight->info, len);
	stats_took(
	    &context->stats->times[system], (uint64_t)(context->now_ns - inflight->start_ns), 1);
	inflight->info.len = len;
	forwarded_reply_note(context, client, &inflight->info, buffer, inflight->start_ns, made);
}
