/*
 * An upstream server's reply to a client's query. For any query and reply, the client may get no
 * message. If it gets a message, the message must be readable to its end, and not longer than the
 * client accepts. From the answer cache, the client must get a message with the same length and
 * rcode.
 *
 * input: transport (odd: TCP), the query's length (2 bytes), the query, the reply
 */
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/answer.h"
#include "kubedns/answer/stage.h"
#include "kubedns/serve/upstream/forwarded_cache.h"
#include "kubedns/serve/upstream/inflight.h"
#include "kubedns/serve/upstream/transport_internal.h"
#include "kubedns/cluster/store.h"
#include "lib/hash.h"
#include "lib/rcu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct treecache *cache;
static struct store *volatile store; /* reachable for the leak checker */
static struct answer_config config;
static struct forwarded_cache *volatile answers;

static void
make_world(void)
{
	static struct answer_context forwarding = { .forwarding = true };
	struct answer_context *context = malloc(sizeof *context);
	struct object service = {
		.kind = OBJECT_SERVICE,
		.namespace = "default",
		.name = "ext",
		.resource_version = "1",
		.service = { .type = SERVICE_EXTERNALNAME, .external_name = "target.example.net" },
	};

	rcu_join();
	if (context == NULL || dname_from_text(&config.zone, "cluster.local.") != 0)
		abort();
	*context = forwarding;
	config.ttl_s = 30;
	config.negative_ttl_s = 5;
	stages_build(&config);
	cache = treecache_new(1);
	answers = forwarded_cache_new(FORWARDED_CACHE_LEAST, HASH_START);
	treecache_context(cache, context);
	struct store_config store_config = { .records = { .zone = config.zone, .ttl_s = 30 } };
	store = store_new(cache, &store_config);
	store_event(store, OBJECT_SERVICE, EVENT_ADDED, &service);
	treecache_publish(cache, 1, true);
}

/* Checks that every record of the message is readable, and that no bytes follow the last record. */
static void
read_whole(const uint8_t *wire, size_t len)
{
	struct dname name;
	struct record record;
	size_t at = DNS_HEADER;

	if (len < DNS_HEADER || (wire[2] & 0x80) == 0)
		abort();
	for (unsigned i = wire_get16(wire + 4); i > 0; i--) {
		if (wire_read_name(wire, len, &at, &name) != 0 || len - at < 4)
			abort();
		at += 4;
	}
	unsigned records = 0;
	for (size_t count = 6; count < DNS_HEADER; count += 2)
		records += wire_get16(wire + count);
	for (; records > 0; records--)
		if (wire_read_record(wire, len, &at, &record) != 0)
			abort();
	if (at != len)
		abort();
}

static void
match(const struct answer_info *info, const uint8_t *reply, size_t len)
{
	static struct inflight inflight;

	inflight.type = info->query.qtype;
	inflight.info = *info;
	exchange_matches(&(struct exchange){ .question = &inflight }, reply, len);
}

/* Checks the reply that `pass_on` makes from the cached message. */
static void
ask_again(size_t (*pass_on)(const struct answer_request *request,
	      const struct upstream_reply *upstream, struct answer_info *info),
    const struct answer_request *request, const struct answer_info *asked,
    const struct upstream_reply *upstream, size_t len)
{
	static int64_t now_ns = 1;
	uint8_t kept[FORWARDED_CACHE_SLOT], rcode = request->out[3] & 15;
	struct answer_info info = *asked;
	const struct forwarded_key key = {
		.name = pass_on == answer_chased ? asked->target.wire : asked->query.qname,
		.type = asked->query.qtype,
	};

	now_ns += 10 * INT64_C(1000000000);
	if (!forwarded_cache_takes(&asked->query, request->query_len) ||
	    forwarded_cache_put(answers, &key, upstream->wire, upstream->len, now_ns) ==
		ANSWER_NOT_KEPT)
		return;
	struct upstream_reply again = { .wire = kept,
		.len = forwarded_cache_get(answers, &key, now_ns + 900000000, kept) };
	if (again.len != upstream->len || pass_on(request, &again, &info) != len ||
	    (len > 0 && (request->out[3] & 15) != rcode))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t out[DNS_TCP_MAX];
	struct answer_info info;

	if (cache == NULL)
		make_world();
	if (size < 3)
		return 0;
	bool tcp = (data[0] & 1) != 0;
	size_t max = tcp ? sizeof out : DNS_UDP_PAYLOAD, len = 0;
	size_t query_len = wire_get16(data + 1);
	if (query_len > size - 3)
		query_len = size - 3;
	const uint8_t *query = data + 3, *reply = query + query_len;
	size_t reply_len = size - 3 - query_len;

	rcu_enter();
	const struct upstream_reply upstream = { .wire = reply, .len = reply_len };
	const struct answer_request request = { .config = &config,
		.tree = tree_current(cache),
		.query = query,
		.query_len = query_len,
		.out = out,
		.max = max,
		.tcp = tcp };
	enum answer_outcome outcome = answer(&request, &info);
	if (outcome == ANSWER_REPLY)
		read_whole(out, info.len);
	const struct answer_info asked = info;
	if (outcome == ANSWER_CHASE) {
		len = answer_chased(&request, &upstream, &info);
		ask_again(answer_chased, &request, &asked, &upstream, len);
	}
	if (outcome == ANSWER_FORWARD) {
		match(&info, reply, reply_len);
		len = answer_forwarded(&request, &upstream, &info);
		ask_again(answer_forwarded, &request, &asked, &upstream, len);
	}
	rcu_leave();
	if (len > max || (len > 0 && !tcp && len > info.query.udp_size))
		abort();
	if (len > 0)
		read_whole(out, len);
	return 0;
}
