/*
 * The code that forwards queries from clients to a hostile server. The server may reply late, twice,
 * truncated each time, with garbage, or over TCP byte by byte. It may close a connection in the
 * middle of a reply, or be down. In addition, a forger sends replies without knowing the ID, from
 * another address, or to another question. Each query must be answered once, by its deadline, and
 * never with a forged record or with the record of another name. No forged reply may end a query. No
 * descriptor may leak, and no event may repeat forever. With an honest resolver, each query must be
 * answered at once.
 *
 * input: options, then operations. An operation is one byte, then one byte for its argument. An
 * operation with AT_ONCE is handled in the same iteration as the next operation.
 */
#include <fcntl.h>
#include <sys/random.h>

#include "kubedns/answer/answer.h"
#include "tests/answer_parts.h"
#include "kubedns/cluster/store.h"
#include "kubedns/serve/upstream/upstream.h"
#include "kubedns/serve/upstream/forwarded_cache.h"
#include "kubedns/serve/upstream/inflight.h"
#include "kubedns/serve/worker.h"
#include "lib/hash.h"
#include "lib/rcu.h"
#include "tests/fuzz/resolver_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	QUERIES = 250,
	OPERATIONS_MAX = 100,
	ROUNDS_MAX = 10000,
	FDS = 64,
	AT_ONCE = 128,
	FAILSAFE_MS = 5000
};
enum {
	OPTION_CACHE = 1,
	OPTION_TABLE = 6, /* size of the table */
	OPTION_CLASSIC = 8,
	OPTION_SEARCH_RESOLVER = 16, /* only in the classic topology */
	/* The first of two servers is always down. Not used in the front topology. */
	OPTION_DEAD = 32,
	OPTION_HONEST = 64,        /* the resolver is always up, and replies correctly at once */
	OPTION_UNTIL_SYNCED = 128, /* the names are cluster names, and are sent to other DNS pods */
};
static const int64_t ms_ns = 1000000;

#ifndef MODULE_STAGES /* A target of a module includes this file, and defines its stages, and a name for them. */
#define MODULE_STAGES(option) ((void)(option), NULL)
#define MODULE_NAME           "e.example.org."
#endif

/* The first letter of a name determines the address that the resolver returns. */
static const char *const names[LETTERS] = { "a.example.org.", "b.example.org.", "c.example.org.",
	"ext.default.svc.cluster.local." /* CNAME of d.example.org */, MODULE_NAME };
static const char *const local_names[LETTERS] = { "a.default.svc.cluster.local.",
	"b.default.svc.cluster.local.", "c.default.svc.cluster.local.",
	"d.default.svc.cluster.local.", "e.default.svc.cluster.local." };

static unsigned ids_taken;

/* Replaces the C library's function, which supplies the IDs of queries. The IDs are the same in
 * each run, and all IDs are even, so a forger's odd ID never matches. */
ssize_t
getrandom(void *buffer, size_t size, unsigned flags)
{
	(void)flags;
	for (size_t i = 0; i + 2 <= size; i += 2)
		wire_put16((uint8_t *)buffer + i, ids_taken++ * 25214u & 0xfffe);
	return (ssize_t)size;
}

/* --- the constant environment --- */

static struct treecache *cache, *not_synced;
static struct store *volatile store; /* reachable for the leak checker */
static struct answer_config config;
static struct answer_parts parts;
enum { STATS_SIZE = sizeof(struct stats) + 32 * sizeof(uint64_t) };
static struct stats *stats; /* with counters of a module */
static struct worker_context context;

static struct treecache *
make_cache(void)
{
	struct answer_context *forwarding = calloc(1, sizeof *forwarding);
	struct treecache *made = treecache_new(1);

	CHECK(forwarding != NULL);
	forwarding->forwarding = true;
	treecache_context(made, forwarding);
	return made;
}

static void
make_world(void)
{
	struct object service = {
		.kind = OBJECT_SERVICE,
		.namespace = "default",
		.name = "ext",
		.resource_version = "1",
		.service = { .type = SERVICE_EXTERNALNAME, .external_name = "d.example.org" },
	};
	struct object namespace = {
		.kind = OBJECT_NAMESPACE, .name = "default", .resource_version = "1"
	};

	rcu_join();
	stranger_open();
	CHECK(dname_from_text(&config.zone, "cluster.local.") == 0);
	config.ttl_s = 30;
	config.negative_ttl_s = 5;
	config.module_stages = MODULE_STAGES(true);
	answer_parts_use(&config, &parts);
	not_synced = make_cache();
	treecache_publish(not_synced, 1, false);
	cache = make_cache();
	struct store_config store_config = { .records = { .zone = config.zone, .ttl_s = 30 } };
	store = store_new(cache, &store_config);
	store_event(store, OBJECT_NAMESPACE, EVENT_ADDED, &namespace);
	store_event(store, OBJECT_SERVICE, EVENT_ADDED, &service);
	treecache_publish(cache, 1, true);
	context.epoll = epoll_create1(EPOLL_CLOEXEC);
	CHECK(context.epoll >= 0);
	context.stats = stats = calloc(1, STATS_SIZE);
	CHECK(stats != NULL);
	context.answers = &config;
	worker_thread_init(&context);
}

/* --- the clients --- */

/* The resolver is between two addresses without a server. */
enum { DEAD, GOOD, DEAD_TOO, SERVERS };

static struct upstream *forwarding;
static struct forwarded_cache *kept;
static struct server servers[SERVERS];
static bool classic, until_synced, honest, dead_asked;
static bool has_relay; /* a relay sends queries for some or all names to the resolver */
static unsigned table_max;
static struct {
	enum stats_proto proto;
	uint8_t name;
	unsigned replies;
	int64_t start_ns;
} queries[QUERIES];
static unsigned query_count;
static uint64_t limits_before; /* limits_reached() before the newest query */
static bool ending;
static uint8_t buffer[DNS_TCP_MAX];

static void
client_defer(void *arg, const struct client *client)
{
	(void)arg;
	(void)client;
}

static uint8_t *
client_reserve(void *arg, const struct client *client, size_t *max)
{
	(void)arg;
	*max = client->proto == PROTO_TCP ? DNS_TCP_MAX : DNS_UDP_PAYLOAD;
	return buffer;
}

/* Returns whether the message has an A record with this address. */
static bool
has(const uint8_t *wire, size_t len, const uint8_t *rdata)
{
	uint8_t record[2 + 4] = { 0, 4 };

	memcpy(record + 2, rdata, 4);
	return memmem(wire + DNS_HEADER, len - DNS_HEADER, record, sizeof record) != NULL;
}

/* Returns the timeout of a query in the current topology. In the front topology, it is the sum of
 * the timeouts of the relay and of the upstream servers. */
static int64_t
timeout_ns(void)
{
	return (classic || until_synced ? FORWARD_TIMEOUT_MS : 2 * RELAY_TIMEOUT_MS) * ms_ns;
}

static uint64_t
limits_reached(void)
{
	return stats->dropped[DROP_FORWARD_CLIENT] + stats->dropped[DROP_FORWARD_TOTAL];
}

/*
 * Whether the query may end now. A query may end because of a limit, at its deadline, or after a reply of the resolver. The forwarder gives
 * up when all servers have failed. The relay waits, because its resolver comes back.
 */
static bool
may_end(unsigned id)
{
	/* A query over a limit ends before inflight_start() returns. */
	bool over_limit = id == query_count - 1 && limits_reached() > limits_before;

	return ending || over_limit || (buffer[3] & 15) == RCODE_REFUSED ||
	       said[queries[id].name] || ((classic || until_synced) && has_failed) ||
	       context.now_ns >=
		   queries[id].start_ns + (has_relay ? RELAY_TIMEOUT_MS * ms_ns : timeout_ns());
}

/* Handles a reply to a client. The reply has `len` bytes and is in `buffer`. */
static void
client_done(void *arg, const struct client *client, size_t len)
{
	uint8_t own[4] = { address[0], address[1], address[2], 0 };
	unsigned id = wire_get16(buffer);

	(void)arg;
	CHECK(len >= DNS_HEADER && (buffer[2] & 0x80) != 0 && id < query_count);
	CHECK(client->proto == queries[id].proto && queries[id].replies++ == 0);
	CHECK(may_end(id));
	CHECK(!honest || ending || table_max < QUERIES || (buffer[3] & 15) != RCODE_SERVFAIL);
	CHECK(client->proto == PROTO_TCP || len <= DNS_UDP_PAYLOAD);
	CHECK(!has(buffer, len, forged));
	for (unsigned i = 0; i < LETTERS; i++) {
		own[3] = (uint8_t)i;
		CHECK(i == queries[id].name || !has(buffer, len, own));
	}
}

/* Sends a client's query. The lowest bits of `how` select the name. The other bits select TCP or
 * UDP, DO, CD, and the client. */
static void
client_asks(unsigned how)
{
	uint8_t wire[DNS_UDP_QUERY_MAX], reply[DNS_UDP_PAYLOAD];
	struct dname name;
	struct answer_info info;
	unsigned id = query_count;
	struct client client = { .proto = (how >> 3 & 1) != 0 ? PROTO_TCP : PROTO_UDP,
		.hash = how >> 6 };

	if (query_count == QUERIES)
		return;
	query_count++;
	queries[id].proto = client.proto;
	queries[id].name = (uint8_t)((how & 7) % LETTERS);
	queries[id].replies = 0;
	queries[id].start_ns = context.now_ns;
	CHECK(dname_from_text(&name, (until_synced ? local_names : names)[queries[id].name]) == 0);
	size_t len = query_write(wire, sizeof wire, (uint16_t)id, name.wire, TYPE_A, CLASS_IN,
	    (how >> 4 & 1) != 0 ? DNS_UDP_PAYLOAD : 0);
	if ((how >> 5 & 1) != 0)
		wire_put16(wire + 2, wire_get16(wire + 2) | FLAG_CD);
	client.peer.udp.addr.in = (struct sockaddr_in){ .sin_family = AF_INET };
	rcu_enter();
	struct answer_request request = { .config = &config,
		.tree = tree_current(context.tree),
		.query = wire,
		.query_len = len,
		.out = reply,
		.max = sizeof reply,
		.tcp = client.proto == PROTO_TCP,
		.thread = &context.thread };
	enum answer_outcome outcome = answer(&request, &info);
	rcu_leave();
	CHECK(outcome == ANSWER_FORWARD || outcome == ANSWER_CHASE);
	limits_before = limits_reached();
	inflight_start(upstream_inflight(forwarding), &client, wire, len, outcome, &info);
}

/* --- the worker's loop --- */

static int64_t due_ns; /* when the loop must run again, or CLOCK_NEVER */

/* Runs one iteration. Returns whether there was an event. */
static bool
iterate(void)
{
	struct epoll_event events[16];
	int count = epoll_wait(context.epoll, events, 16, 0);

	for (int i = 0; i < count; i++)
		upstream_event(forwarding, events[i].data.u64, events[i].events);
	due_ns = upstream_iteration(forwarding);
	return count > 0;
}

static void
iterate_while_any(void)
{
	unsigned rounds = 0;

	while (iterate())
		CHECK(++rounds < ROUNDS_MAX);
}

/* Returns the number of queries that wait for a reply. Checks that none of them has passed its deadline. */
static unsigned
waiting(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < query_count; i++) {
		int64_t end_ns = queries[i].start_ns + timeout_ns();

		if (queries[i].replies == 1)
			continue;
		CHECK(context.now_ns < end_ns && due_ns > 0 && due_ns <= end_ns);
		count++;
	}
	return count;
}

static void
settle(void)
{
	iterate_while_any();
	if (!honest) {
		resolver_reads();
		iterate_while_any();
		waiting();
		return;
	}
	for (bool any = resolver_serves(); any || waiting() > 0; any = resolver_serves()) {
		/* If two queries are sent to a dead server at the same time, the kernel may report the error for only one of these queries. */
		if (!any && !resolver_waits(context.epoll, dead_asked ? 1 : FAILSAFE_MS)) {
			CHECK(dead_asked);
			context.now_ns = due_ns;
		}
		iterate_while_any();
	}
}

enum {
	ASK,
	ASK_MANY,
	REPLY,
	REPLY_ALL,
	TCP_QUEUE,
	TCP_SEND,
	TCP_END,
	TIME,
	DOWN_OR_UP,
	UPSTREAMS,
	OPERATIONS
};

static void
operate(unsigned operation, unsigned argument)
{
	unsigned conn = argument % CONNS;

	operation = operation % AT_ONCE % OPERATIONS;
	if (honest && operation != ASK && operation != ASK_MANY && operation != TIME)
		operation = UPSTREAMS;
	switch (operation) {
	case ASK:
		client_asks(argument);
		break;
	case ASK_MANY:
		for (unsigned i = 0; i < 33; i++)
			client_asks(argument + i);
		break;
	case REPLY:
		resolver_replies(argument >> 4, argument % 16);
		break;
	case REPLY_ALL:
		for (unsigned i = 0; i < ASKED && i < resolver.asked_count; i++)
			resolver_replies(i, argument % REPLY_KINDS);
		break;
	case TCP_QUEUE:
		resolver_queues(conn, argument / CONNS % REPLY_KINDS);
		break;
	case TCP_SEND:
		resolver_sends(conn, argument < 128 ? 1 + argument / CONNS : SIZE_MAX);
		break;
	case TCP_END:
		conn_end(conn, argument >= 128);
		break;
	case TIME:
		if (honest)
			settle();
		context.now_ns += (1 + argument) * 20 * ms_ns;
		break;
	case UPSTREAMS:
		has_failed = dead_asked = true;
		upstream_servers(
		    forwarding, servers + argument % 2, honest ? 2 : argument / 2 % SERVERS);
		break;
	default: /* DOWN_OR_UP */
		if (resolver.udp < 0)
			resolver_up();
		else
			resolver_down();
	}
}

static void
begin(unsigned options)
{
	static const unsigned sizes[] = { 4, 16, 100, 250 };
	const struct client_ops clients = { NULL, client_defer, client_reserve, client_done };
	const uint8_t local[4] = { 127, 0, 0, 1 };

	memset(stats, 0, STATS_SIZE);
	memset(said, 0, sizeof said);
	ending = false;
	context.now_ns = 1;
	query_count = resolver.asked_count = ids_taken = 0;
	for (unsigned i = 0; i < CONNS; i++)
		resolver.conns[i].fd = -1;
	resolver.addr = (struct sockaddr_in){ .sin_family = AF_INET };
	memcpy(&resolver.addr.sin_addr, local, 4);
	while (!resolver_up()) /* the port is in use for the other protocol, so try another port */
		resolver.addr.sin_port = 0;
	for (unsigned i = 0; i < SERVERS; i++) {
		memcpy(servers[i].addr.bytes, local, 4);
		servers[i].addr.family = AF_INET;
		servers[i].port = be16toh(resolver.addr.sin_port);
	}
	servers[DEAD].addr.bytes[3] = 2;
	servers[DEAD_TOO].addr.bytes[3] = 3;
	table_max = sizes[(options & OPTION_TABLE) >> 1];
	honest = (options & OPTION_HONEST) != 0;
	parts.upstream.until_synced = until_synced = (options & OPTION_UNTIL_SYNCED) != 0;
	context.tree = until_synced ? not_synced : cache;
	classic = (options & OPTION_CLASSIC) != 0;
	has_relay = !until_synced && (!classic || (options & OPTION_SEARCH_RESOLVER) != 0);
	has_failed = dead_asked = (options & OPTION_DEAD) != 0;
	if ((options & OPTION_CACHE) != 0)
		kept = forwarded_cache_new(FORWARDED_CACHE_LEAST, HASH_START);
	const struct server *upstreams = servers + (has_failed ? DEAD : GOOD);
	size_t upstream_count = has_failed ? 2 : 1;
	const struct workers_config workers = {
		.forward_max = table_max,
		.forward_client_max = table_max,
		.resolver = classic ? NULL : &servers[GOOD],
		.servfail_retry = !classic,
		.search_resolver = (options & OPTION_SEARCH_RESOLVER) != 0 ? &servers[GOOD] : NULL,
		.upstreams = upstreams,
		.upstream_count = upstream_count,
		.until_synced = upstreams,
		.until_synced_count = until_synced ? upstream_count : 0,
		.answer_cache = kept,
	};
	forwarding = upstream_new(&context, &clients, &workers, 1);
}

static bool
is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool open_before[FDS];

	if (cache == NULL)
		make_world();
	if (size == 0)
		return 0;
	for (int fd = 0; fd < FDS; fd++)
		open_before[fd] = is_open(fd);
	begin(data[0]);
	for (size_t i = 1; i + 1 < size && i < 2 * OPERATIONS_MAX; i += 2) {
		operate(data[i], data[i + 1]);
		if (data[i] < AT_ONCE)
			settle();
	}
	settle();
	ending = true;
	upstream_finish_all(forwarding);
	CHECK(stats->forward_in_flight == 0);
	for (unsigned i = 0; i < query_count; i++)
		CHECK(queries[i].replies == 1);
	resolver_down();
	upstream_free(forwarding);
	forwarded_cache_free(kept);
	kept = NULL;
	for (int fd = 0; fd < FDS; fd++)
		CHECK(open_before[fd] == is_open(fd));
	return 0;
}
