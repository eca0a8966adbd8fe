/*
 * The relay between clients and a resolver that does anything: replies late, twice, cut, over TCP byte by byte, or is
 * gone; and somebody who forges replies without the ID, or for another question. Each query is answered once, by its
 * deadline, never with a forged record or with that of another name, and no forged reply ends it; no descriptor is
 * left, and no event goes on for ever.
 *
 *	input: options, then operations: a byte, and one for its argument
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "kubedns/answer/answer.h"
#include "kubedns/cluster/store.h"
#include "kubedns/serve/forwarded_cache.h"
#include "kubedns/serve/inflight.h"
#include "kubedns/serve/relay.h"
#include "lib/hash.h"
#include "lib/rcu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { QUERIES = 250, ASKED = 64, CONNS = 8, OPERATIONS_MAX = 100, ROUNDS_MAX = 10000, FDS = 64 };
enum { OPTION_CACHE = 1, OPTION_TABLE = 6 /* its size */ };
static const int64_t ms_ns = 1000000;

/* The first letter of each name that is asked of the resolver says which address it has. */
static const char *const names[] = { "a.example.org.", "b.example.org.", "c.example.org.",
	"ext.default.svc.cluster.local." /* an alias of d.example.org */,
	"e.example.org.default.svc.cluster.local." /* a walk along a search list */ };
enum { NAMES = sizeof names / sizeof names[0] };
static const uint8_t address[3] = { 192, 0, 2 }, forged[4] = { 203, 0, 113, 1 };

#define CHECK(truth) ((truth) ? (void)0 : broken(__LINE__, #truth))

static void
broken(int line, const char *what)
{
	fprintf(stderr, "fuzz_relay.c:%d: not so: %s\n", line, what);
	abort();
}

static unsigned ids_taken;

/* In place of the C library's, for the IDs of queries: the same for each input, and all even, so that a forger's is
 * none of them. */
ssize_t
getrandom(void *buffer, size_t size, unsigned flags)
{
	(void)flags;
	for (size_t i = 0; i + 2 <= size; i += 2)
		wire_put16((uint8_t *)buffer + i, ids_taken++ * 25214u & 0xfffe);
	return (ssize_t)size;
}

/* --- the world that does not change --- */

static struct treecache *cache;
static struct store *volatile store; /* kept in sight of the leak checker */
static struct answer_config config;
static struct stats stats;
static struct worker_context context;
static struct dname search_extra;

static void
make_world(void)
{
	static struct answer_context forwarding = { .forwarding = true, .front = true };
	struct answer_context *now = malloc(sizeof *now);
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
	CHECK(now != NULL && dname_from_text(&config.zone, "cluster.local.") == 0 &&
	      dname_from_text(&search_extra, "lan.example.") == 0);
	*now = forwarding;
	config.ttl_s = 30;
	config.negative_ttl_s = 5;
	config.search_inferred = true;
	config.search_extra = &search_extra;
	config.search_extra_count = 1;
	cache = treecache_new(1);
	treecache_context(cache, now);
	struct store_config store_config = { .records = { .zone = config.zone, .ttl_s = 30 } };
	store = store_new(cache, &store_config);
	store_event(store, OBJECT_NAMESPACE, EVENT_ADDED, &namespace);
	store_event(store, OBJECT_SERVICE, EVENT_ADDED, &service);
	treecache_publish(cache, 1, true);
	context.epoll = epoll_create1(EPOLL_CLOEXEC);
	CHECK(context.epoll >= 0);
	context.stats = &stats;
	context.tree = cache;
	context.answers = &config;
	worker_answers_explain(&context, NULL);
}

/* --- the clients --- */

static struct inflight_table *table;
static struct relay *relay;
static struct {
	enum stats_proto proto;
	uint8_t name;
	unsigned replies;
	int64_t start_ns;
} queries[QUERIES];
static unsigned query_count;
static bool said[NAMES]; /* the resolver has replied to a query for this one */
static bool ending;
static uint8_t room[DNS_TCP_MAX];

static void
client_hold(void *arg, const struct client *client)
{
	(void)arg;
	(void)client;
}

static uint8_t *
client_room(void *arg, const struct client *client, size_t *max)
{
	(void)arg;
	*max = client->proto == PROTO_TCP ? DNS_TCP_MAX : DNS_UDP_PAYLOAD;
	return room;
}

static bool
has(const uint8_t *wire, size_t len, const uint8_t *rdata)
{
	static const uint8_t length[2] = { 0, 4 };

	for (size_t i = DNS_HEADER; i + 6 <= len; i++)
		if (memcmp(wire + i, length, 2) == 0 && memcmp(wire + i + 2, rdata, 4) == 0)
			return true;
	return false;
}

/* Whether the query may end now: by a bound, at its deadline, or since the resolver has said something. */
static bool
may_end(unsigned id)
{
	return ending || (room[3] & 15) == RCODE_REFUSED || said[queries[id].name] ||
	       context.now_ns >= queries[id].start_ns + FORWARD_TIMEOUT_MS * ms_ns;
}

/* The reply is in `room`. */
static void
client_done(void *arg, const struct client *client, size_t len)
{
	uint8_t own[4] = { address[0], address[1], address[2], 0 };
	unsigned id = wire_get16(room);

	(void)arg;
	CHECK(len >= DNS_HEADER && (room[2] & 0x80) != 0 && id < query_count);
	CHECK(client->proto == queries[id].proto && queries[id].replies++ == 0);
	CHECK(may_end(id));
	CHECK(client->proto == PROTO_TCP || len <= DNS_UDP_PAYLOAD);
	CHECK(!has(room, len, forged));
	for (unsigned i = 0; i < NAMES; i++) {
		own[3] = (uint8_t)i;
		CHECK(i == queries[id].name || !has(room, len, own));
	}
}

/* A client's query: the lowest bits of `how` choose the name, then TCP or UDP, DO, CD, who asks. */
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
	queries[id].name = (uint8_t)((how & 7) % NAMES);
	queries[id].replies = 0;
	queries[id].start_ns = context.now_ns;
	CHECK(dname_from_text(&name, names[queries[id].name]) == 0);
	size_t len = query_write(wire, sizeof wire, (uint16_t)id, name.wire, TYPE_A, CLASS_IN,
	    (how >> 4 & 1) != 0 ? DNS_UDP_PAYLOAD : 0);
	if ((how >> 5 & 1) != 0)
		wire_put16(wire + 2, wire_get16(wire + 2) | FLAG_CD);
	client.peer.udp.addr.in = (struct sockaddr_in){ .sin_family = AF_INET };
	rcu_enter();
	struct answer_request request = { .config = &config,
		.tree = tree_current(cache),
		.query = wire,
		.query_len = len,
		.out = reply,
		.max = sizeof reply,
		.tcp = client.proto == PROTO_TCP,
		.thread = &context.thread };
	enum answer_outcome outcome = answer(&request, &info);
	rcu_leave();
	CHECK(outcome == ANSWER_FORWARD || outcome == ANSWER_CHASE);
	inflight_start(table, &client, wire, len, outcome, &info);
}

/* --- the resolver --- */

struct message {
	struct sockaddr_in from;
	size_t len;
	uint8_t wire[DNS_UDP_QUERY_MAX];
};

static struct {
	int udp, tcp; /* -1: it is down */
	struct sockaddr_in addr;
	struct message asked[ASKED]; /* over UDP, the latest */
	unsigned asked_count;
	struct {
		int fd; /* -1: none */
		size_t in_len, out_len, sent;
		uint8_t in[2 + DNS_UDP_QUERY_MAX], out[16384];
	} conns[CONNS];
} resolver = { .udp = -1, .tcp = -1 };

/* False: somebody else has the port. */
static bool
resolver_up(void)
{
	const struct sockaddr *addr = (const struct sockaddr *)&resolver.addr;
	socklen_t len = sizeof resolver.addr;
	int on = 1;

	resolver.udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	resolver.tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	CHECK(resolver.udp >= 0 && resolver.tcp >= 0);
	setsockopt(resolver.tcp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(resolver.udp, addr, len) == 0 &&
	    getsockname(resolver.udp, (struct sockaddr *)&resolver.addr, &len) == 0 &&
	    bind(resolver.tcp, addr, len) == 0 && listen(resolver.tcp, CONNS) == 0)
		return true;
	close(resolver.udp);
	close(resolver.tcp);
	resolver.udp = resolver.tcp = -1;
	return false;
}

/* With `reset` the other side finds ECONNRESET, and nothing lingers. */
static void
conn_end(unsigned i, bool reset)
{
	const struct linger none = { .l_onoff = 1, .l_linger = 0 };

	if (resolver.conns[i].fd < 0)
		return;
	if (reset)
		setsockopt(resolver.conns[i].fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	close(resolver.conns[i].fd);
	resolver.conns[i].fd = -1;
}

static void
resolver_down(void)
{
	if (resolver.udp < 0)
		return;
	close(resolver.udp);
	close(resolver.tcp);
	resolver.udp = resolver.tcp = -1;
	for (unsigned i = 0; i < CONNS; i++)
		conn_end(i, true);
}

static void
resolver_accepts(void)
{
	for (unsigned i = 0; i < CONNS; i++) {
		if (resolver.conns[i].fd >= 0)
			continue;
		int fd = accept4(resolver.tcp, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		resolver.conns[i].fd = fd;
		resolver.conns[i].in_len = resolver.conns[i].out_len = resolver.conns[i].sent = 0;
	}
}

/* Takes all that has come. */
static void
resolver_reads(void)
{
	socklen_t len = sizeof(struct sockaddr_in);
	struct message *message = &resolver.asked[resolver.asked_count % ASKED];
	ssize_t n;

	if (resolver.udp < 0)
		return;
	while ((n = recvfrom(resolver.udp, message->wire, sizeof message->wire, 0,
		    (struct sockaddr *)&message->from, &len)) >= 0) {
		CHECK(n > DNS_HEADER);
		message->len = (size_t)n;
		message = &resolver.asked[++resolver.asked_count % ASKED];
	}
	resolver_accepts();
	for (unsigned i = 0; i < CONNS; i++) {
		if (resolver.conns[i].fd < 0)
			continue;
		n = recv(resolver.conns[i].fd, resolver.conns[i].in + resolver.conns[i].in_len,
		    sizeof resolver.conns[i].in - resolver.conns[i].in_len, 0);
		if (n > 0)
			resolver.conns[i].in_len += (size_t)n;
		else if (n == 0 || errno != EAGAIN)
			conn_end(i, true);
	}
}

enum reply_kind {
	REPLY_GOOD,
	REPLY_MANY, /* records, more than fit into UDP */
	REPLY_TRUNCATED,
	REPLY_SERVFAIL,
	REPLY_NXDOMAIN,
	REPLY_REFUSED,
	REPLY_CUT,
	REPLY_OTHER_ID, /* from here on forged */
	REPLY_OTHER_NAME,
	REPLY_OTHER_TYPE,
	REPLY_OTHER_CLASS,
	REPLY_QUERY,
	REPLY_NO_QUESTION,
	REPLY_KINDS
};

/* Writes an A record of the question's name. */
static size_t
put_address(uint8_t *out, const uint8_t *rdata)
{
	static const uint8_t head[] = { 0xc0, DNS_HEADER, 0, TYPE_A, 0, CLASS_IN, 0, 0, 0, 5, 0,
		4 };

	memcpy(out, head, sizeof head);
	memcpy(out + sizeof head, rdata, 4);
	return sizeof head + 4;
}

/* The resolver's reply to a query, or a forger's; its length. */
static size_t
reply_write(const uint8_t *query, size_t len, enum reply_kind kind, uint8_t *out)
{
	static const uint8_t rcodes[REPLY_KINDS] = { [REPLY_SERVFAIL] = RCODE_SERVFAIL,
		[REPLY_NXDOMAIN] = RCODE_NXDOMAIN,
		[REPLY_REFUSED] = RCODE_REFUSED };
	unsigned letter = query[DNS_HEADER + 1] - 'a';
	const uint8_t own[4] = { address[0], address[1], address[2], (uint8_t)letter };
	bool bare = rcodes[kind] != 0 || kind == REPLY_TRUNCATED;
	unsigned records = bare ? 0 : kind == REPLY_MANY ? 200 : 1;
	size_t at = DNS_HEADER;
	struct dname name;

	CHECK(wire_read_name(query, len, &at, &name) == 0 && at + 4 <= len && letter < NAMES);
	at += 4;
	said[letter] = said[letter] || kind < REPLY_OTHER_ID;
	memcpy(out, query, at);
	wire_put16(out + 2, 0x8180u | rcodes[kind] | (kind == REPLY_TRUNCATED ? FLAG_TC : 0));
	wire_put16(out + 6, records);
	wire_put16(out + 8, 0);
	wire_put16(out + 10, 0);
	switch (kind) {
	case REPLY_OTHER_ID:
		out[1] ^= 1;
		break;
	case REPLY_OTHER_NAME:
		out[DNS_HEADER + 1] = out[DNS_HEADER + 1] == 'a' ? 'b' : 'a';
		break;
	case REPLY_OTHER_TYPE:
		out[at - 3] = TYPE_AAAA;
		break;
	case REPLY_OTHER_CLASS:
		out[at - 1] = CLASS_IN + 2;
		break;
	case REPLY_QUERY:
		out[2] &= 0x7f;
		break;
	case REPLY_NO_QUESTION:
		wire_put16(out + 4, 0);
		break;
	default:
		break;
	}
	for (unsigned i = 0; i < records; i++)
		at += put_address(out + at, kind >= REPLY_OTHER_ID ? forged : own);
	return kind == REPLY_CUT ? at - 7 : at;
}

/* Of the latest queries over UDP the `which`th is replied to; it may have been before. */
static void
resolver_replies(unsigned which, enum reply_kind kind)
{
	uint8_t out[DNS_UDP_QUERY_MAX];
	unsigned known = resolver.asked_count < ASKED ? resolver.asked_count : ASKED;

	if (known == 0 || resolver.udp < 0)
		return;
	const struct message *message =
	    &resolver.asked[(resolver.asked_count - 1 - which % known) % ASKED];
	size_t len = reply_write(message->wire, message->len, kind, out);
	sendto(resolver.udp, out, len, 0, (const struct sockaddr *)&message->from,
	    sizeof message->from);
}

/* On a connection the reply to what was asked there is made; it is sent by resolver_sends(). */
static void
resolver_queues(unsigned i, enum reply_kind kind)
{
	size_t asked = resolver.conns[i].in_len, at = resolver.conns[i].out_len;

	if (resolver.conns[i].fd < 0 || asked < 2 ||
	    asked < 2u + wire_get16(resolver.conns[i].in) ||
	    at > sizeof resolver.conns[i].out - DNS_UDP_QUERY_MAX - 2)
		return;
	size_t len = reply_write(resolver.conns[i].in + 2, wire_get16(resolver.conns[i].in), kind,
	    resolver.conns[i].out + at + 2);
	wire_put16(resolver.conns[i].out + at, (unsigned)len);
	resolver.conns[i].out_len += 2 + len;
}

/* Of what is queued this many bytes are sent; behind the last the next query is read. */
static void
resolver_sends(unsigned i, size_t max)
{
	size_t left = resolver.conns[i].out_len - resolver.conns[i].sent;

	if (resolver.conns[i].fd < 0 || left == 0)
		return;
	ssize_t n = send(resolver.conns[i].fd, resolver.conns[i].out + resolver.conns[i].sent,
	    left < max ? left : max, MSG_NOSIGNAL);
	if (n < 0) {
		conn_end(i, true);
		return;
	}
	resolver.conns[i].sent += (size_t)n;
	if (resolver.conns[i].sent == resolver.conns[i].out_len)
		resolver.conns[i].in_len = resolver.conns[i].out_len = resolver.conns[i].sent = 0;
}

/* --- the worker's loop --- */

/* One turn: whether there was an event. */
static bool
turn(void)
{
	struct epoll_event events[16];
	int count = epoll_wait(context.epoll, events, 16, 0);

	for (int i = 0; i < count; i++) {
		uint64_t key = events[i].data.u64;
		CHECK(worker_key_part(key) == PART_RELAY_UDP ||
		      worker_key_part(key) == PART_RELAY_TCP);
		(worker_key_part(key) == PART_RELAY_UDP ? relay_udp_event : relay_tcp_event)(
		    relay, worker_key_slot(key), worker_key_tag(key), events[i].events);
	}
	inflight_turn(table);
	relay_turn(relay);
	return count > 0;
}

static void
settle(void)
{
	unsigned rounds = 0;

	while (turn())
		CHECK(++rounds < ROUNDS_MAX);
	resolver_reads();
	while (turn())
		CHECK(++rounds < ROUNDS_MAX);
	for (unsigned i = 0; i < query_count; i++)
		CHECK(queries[i].replies == 1 ||
		      context.now_ns < queries[i].start_ns + FORWARD_TIMEOUT_MS * ms_ns);
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
	OPERATIONS
};

static void
operate(unsigned operation, unsigned argument)
{
	unsigned conn = argument % CONNS;

	switch (operation % OPERATIONS) {
	case ASK:
		client_asks(argument);
		break;
	case ASK_MANY:
		for (unsigned i = 0; i < 33; i++)
			client_asks(argument + i);
		break;
	case REPLY:
		resolver_replies(argument >> 4, argument % 16 % REPLY_KINDS);
		break;
	case REPLY_ALL:
		for (unsigned i = 0; i < ASKED; i++)
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
		context.now_ns += (1 + argument) * 20 * ms_ns;
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
	const struct client_ops clients = { NULL, client_hold, client_room, client_done };
	const uint8_t local[4] = { 127, 0, 0, 1 };
	struct server server = { .addr.family = AF_INET };
	unsigned max = sizes[(options & OPTION_TABLE) >> 1];

	memset(&stats, 0, sizeof stats);
	memset(said, 0, sizeof said);
	ending = false;
	context.now_ns = 1;
	query_count = resolver.asked_count = ids_taken = 0;
	for (unsigned i = 0; i < CONNS; i++)
		resolver.conns[i].fd = -1;
	resolver.addr = (struct sockaddr_in){ .sin_family = AF_INET };
	memcpy(&resolver.addr.sin_addr, local, 4);
	while (!resolver_up()) /* of another protocol's port: another one */
		resolver.addr.sin_port = 0;
	memcpy(server.addr.bytes, local, 4);
	server.port = be16toh(resolver.addr.sin_port);
	table = inflight_new(&context, &clients, max, max);
	relay = relay_new(&context, table, &server);
}

static bool
is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct forwarded_cache *kept = NULL;
	bool open_before[FDS];

	if (cache == NULL)
		make_world();
	if (size == 0)
		return 0;
	for (int fd = 0; fd < FDS; fd++)
		open_before[fd] = is_open(fd);
	begin(data[0]);
	if ((data[0] & OPTION_CACHE) != 0) {
		kept = forwarded_cache_new(FORWARDED_CACHE_LEAST, HASH_START);
		inflight_cache(table, kept);
	}
	for (size_t i = 1; i + 1 < size && i < 2 * OPERATIONS_MAX; i += 2) {
		operate(data[i], data[i + 1]);
		settle();
	}
	ending = true;
	inflight_finish_all(table);
	CHECK(stats.forward_in_flight == 0);
	for (unsigned i = 0; i < query_count; i++)
		CHECK(queries[i].replies == 1);
	resolver_down();
	relay_free(relay);
	inflight_free(table);
	forwarded_cache_free(kept);
	for (int fd = 0; fd < FDS; fd++)
		CHECK(open_before[fd] == is_open(fd));
	return 0;
}
