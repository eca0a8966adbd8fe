/*
 * TCP clients of a worker. The clients split queries anywhere, send many queries at once, read
 * replies late or never, and close one side or both sides of a connection. The clients have several
 * addresses. The worker has few connections and little memory. Each complete query must have
 * exactly one reply while its connection exists. The memory of connections must match the totals
 * and be within the limits. No event may repeat forever, and no data may remain after the clients
 * have ended. Honest clients that are accepted must get all replies.
 *
 * input: options, then operations. An operation is one byte, then one byte for its argument. An
 * operation with AT_ONCE is handled in the same iteration as the next operation.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kubedns/cluster/store.h"
#include "kubedns/serve/upstream/inflight.h"
#include "kubedns/serve/net/tcp.c" /* NOLINT(bugprone-suspicious-include): for its static state */
#include "lib/rcu.h"
#include "kubedns/answer/stage.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	CLIENTS = 12,
	ADDRESSES = 3,
	QUERIES = 400,
	OPERATIONS_MAX = 150,
	ROUNDS_MAX = 10000,
	FAILSAFE_MS = 5000,
	ENDPOINTS = 1500,
	OUT = 8192,
	HELD_MAX = 64,
	AT_ONCE = 128,
};
enum {
	OPTION_CONNECTIONS = 3, /* number of connections */
	OPTION_MEMORY = 12,     /* amount of memory */
	OPTION_CLOCK = 48,      /* duration of each step */
	OPTION_HONEST = 64,
	OPTION_LOADED = 128,
};

#define CHECK(truth) ((truth) ? (void)0 : broken(__LINE__, #truth))

static void
broken(int line, const char *what)
{
	fprintf(stderr, "fuzz_tcp.c:%d: not so: %s\n", line, what);
	abort();
}

/* --- the clock --- */

static int64_t mono_ns, step_ns;

/* Replaces the C library's function, so that the input determines how time passes. */
int
clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, id, ts);
	mono_ns += step_ns;
	*ts = (struct timespec){ mono_ns / NS_PER_S, mono_ns % NS_PER_S };
	return 0;
}

/* --- the constant environment --- */

static struct treecache *cache;
static struct store *volatile store; /* reachable for the leak checker */
static struct answer_config config;
static struct stats stats;
static struct worker_context context;

static void
tell(enum object_kind kind, struct object *object, const char *name)
{
	object->kind = kind;
	object->namespace = "default";
	object->name = name;
	object->resource_version = "1";
	store_event(store, kind, EVENT_ADDED, object);
}

static void
make_world(void)
{
	static struct object_endpoint endpoints[ENDPOINTS];
	struct answer_context *forwarding = calloc(1, sizeof *forwarding);
	struct object namespace = { 0 };
	struct object small = { .service = { .type = SERVICE_CLUSTERIP,
				    .addrs = { { AF_INET, { 10, 96, 0, 1 } } },
				    .addr_count = 1 } };
	struct object large = { .service = { .type = SERVICE_HEADLESS } };
	struct object_slice slice = { .name = "large-1",
		.service = "large",
		.family = AF_INET,
		.endpoints = endpoints,
		.endpoint_count = ENDPOINTS };
	struct object slices = { .slices = &slice, .slice_count = 1 };

	rcu_join();
	CHECK(forwarding != NULL && dname_from_text(&config.zone, "cluster.local.") == 0);
	forwarding->forwarding = true;
	config.ttl_s = 30;
	config.negative_ttl_s = 5;
	stages_build(&config);
	cache = treecache_new(1);
	treecache_context(cache, forwarding);
	struct store_config store_config = { .records = { .zone = config.zone, .ttl_s = 30 } };
	store = store_new(cache, &store_config);
	for (unsigned i = 0; i < ENDPOINTS; i++)
		endpoints[i] = (struct object_endpoint){
			.addr = { AF_INET, { 10, 7, (uint8_t)(i / 250), (uint8_t)(i % 250) } },
			.ready = true
		};
	tell(OBJECT_NAMESPACE, &namespace, "default");
	tell(OBJECT_SERVICE, &small, "small");
	tell(OBJECT_SERVICE, &large, "large");
	tell(OBJECT_SLICES, &slices, "large-1");
	treecache_publish(cache, 1, true);
	context.epoll = epoll_create1(EPOLL_CLOEXEC);
	CHECK(context.epoll >= 0);
	context.stats = &stats;
	context.tree = cache;
	context.answers = &config;
	worker_thread_init(&context);
}

/* --- other servers --- */

struct asked {
	struct inflight base;
	unsigned place; /* index in `held` */
};

static struct inflight_table *table;
static struct asked *held[HELD_MAX];
static unsigned held_count;

static void
others_ask(void *arg, struct inflight *inflight)
{
	struct asked *asked = (struct asked *)(void *)inflight;

	(void)arg;
	CHECK(held_count < HELD_MAX);
	asked->place = held_count;
	held[held_count++] = asked;
}

static void
others_retry(void *arg, struct inflight *inflight)
{
	(void)arg;
	(void)inflight;
}

static void
others_forget(void *arg, struct inflight *inflight)
{
	struct asked *asked = (struct asked *)(void *)inflight;

	(void)arg;
	held[asked->place] = held[--held_count];
	held[asked->place]->place = asked->place;
}

/* Delivers the result of a forwarded query: a reply without a record, or a failure. */
static void
others_reply(unsigned which, bool knows)
{
	uint8_t reply[DNS_UDP_QUERY_MAX];

	if (held_count == 0)
		return;
	struct inflight *inflight = &held[which % held_count]->base;
	memcpy(reply, inflight->query, inflight->query_len);
	wire_put16(reply + 2, 0x8180);
	inflight_finish(table, inflight, knows ? reply : NULL, knows ? inflight->query_len : 0);
}

/* --- the worker --- */

static struct tcp *tcp;
static bool honest;

static void
client_defer(void *arg, const struct client *client)
{
	(void)arg;
	tcp_defer(tcp, &client->peer.tcp);
}

static uint8_t *
client_reserve(void *arg, const struct client *client, size_t *max)
{
	(void)arg;
	(void)client;
	*max = DNS_TCP_MAX;
	return tcp_reply_reserve(tcp);
}

static void
client_done(void *arg, const struct client *client, size_t len)
{
	(void)arg;
	tcp_reply_done(tcp, &client->peer.tcp, len);
}

/* Runs one iteration of the loop. Returns whether there was an event. */
static bool
iterate(void)
{
	struct epoll_event events[16];
	int count = epoll_wait(context.epoll, events, 16, 0);

	worker_time(&context);
	context.iteration++;
	for (int i = 0; i < count; i++) {
		uint64_t key = events[i].data.u64;

		if (worker_key_part(key) == PART_TCP_LISTENER)
			tcp_accept(tcp, worker_key_slot(key));
		else
			tcp_event(tcp, worker_key_slot(key), worker_key_tag(key), events[i].events);
	}
	inflight_iteration(table);
	int64_t due_ns = tcp_iteration(tcp);
	CHECK(
	    tcp->pool.count == 0 || (due_ns > 0 && due_ns <= context.now_ns + tcp->config.idle_ns));
	return count > 0;
}

/* Checks the properties that tcp_pool.h guarantees for an idle connection. */
static void
check_conn(const struct conn *conn)
{
	bool whole = conn->in_len >= PREFIX && conn->in_len - PREFIX >= wire_get16(conn->in);

	CHECK(conn->in_len <= conn->in_size && conn->out_len <= conn->out_size);
	CHECK(conn->out_sent <= conn->out_len && conn->out_size <= KEPT_MAX);
	CHECK(conn->blocked == (conn->out_len > 0));
	CHECK(conn->blocked || conn->closing || !whole);
	CHECK(conn->blocked || conn->closing || !conn->finished || conn->in_flight > 0);
	CHECK(!conn->closing || conn->in == NULL);
}

static void
settle(void)
{
	unsigned rounds = 0, count = 0, waiting = 0;
	size_t memory = 0;

	while (iterate())
		CHECK(++rounds < ROUNDS_MAX);
	for (unsigned i = 0; i < tcp->config.connections; i++) {
		const struct conn *conn = &tcp->pool.conns[i];

		if (conn->fd < 0)
			continue;
		check_conn(conn);
		count++;
		waiting += conn->in_flight;
		memory += conn->in_size + conn->out_size;
	}
	CHECK(count == tcp->pool.count && count == stats.tcp_connections);
	CHECK(count + tcp->pool.free_count == tcp->config.connections);
	CHECK(memory == tcp->pool.memory && memory <= tcp->config.memory);
	/* each waiting query was sent, or joined a query that was sent */
	CHECK(waiting <= stats.forward_in_flight);
}

/* --- the clients --- */

enum query_kind {
	ASK_SMALL,
	ASK_LARGE,
	ASK_OUTSIDE,
	ASK_MISSING,
	ASK_TRANSFER,
	ASK_NOTIFY, /* a query with another opcode */
	ASK_LONG,   /* a query with trailing bytes */
	NO_QUERY,   /* a response instead of a query */
	NO_MESSAGE, /* an invalid length instead of a query */
	QUERY_KINDS
};

static struct {
	enum query_kind kind;
	unsigned connection;
	bool whole, replied;
} queries[QUERIES];
static unsigned query_count, connection_count;

static struct {
	size_t out_len, out_sent, out_known, in_len;
	int fd; /* -1: not connected */
	unsigned connection;
	bool at_end; /* the worker has closed its side */
	bool rude;   /* the client has sent an invalid message */
	uint8_t out[OUT], in[PREFIX + DNS_TCP_MAX];
} clients[CLIENTS];

static void
client_reset(unsigned i)
{
	const struct linger none = { .l_onoff = 1, .l_linger = 0 };

	if (clients[i].fd < 0)
		return;
	setsockopt(clients[i].fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	close(clients[i].fd);
	clients[i].fd = -1;
}

static void
client_connect(unsigned i, unsigned address)
{
	struct sockaddr_in from = { .sin_family = AF_INET }, to;
	socklen_t len = sizeof to;
	const int buffer = 65536; /* with a smaller buffer, the loopback device drops segments */
	const int on = 1;

	client_reset(i);
	from.sin_addr.s_addr = htobe32(0x7f000002 + address % ADDRESSES);
	CHECK(getsockname(tcp->listeners[0], (struct sockaddr *)&to, &len) == 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	CHECK(bind(fd, (struct sockaddr *)&from, sizeof from) == 0);
	if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS) {
		close(fd);
		return;
	}
	clients[i].fd = fd;
	clients[i].connection = ++connection_count;
	clients[i].at_end = clients[i].rude = false;
	clients[i].out_len = clients[i].out_sent = clients[i].out_known = clients[i].in_len = 0;
}

/* Prepares the bytes that client_sends() will send. */
static void
client_asks(unsigned i, enum query_kind kind)
{
	static const char *const names[QUERY_KINDS] = { [ASK_SMALL] =
							    "small.default.svc.cluster.local.",
		[ASK_LARGE] = "large.default.svc.cluster.local.",
		[ASK_OUTSIDE] = "www.example.org.",
		[ASK_MISSING] = "none.default.svc.cluster.local." };
	uint8_t *message = clients[i].out + clients[i].out_len + PREFIX;
	struct dname name;

	if (query_count == QUERIES || clients[i].out_len + 1024 > OUT || clients[i].fd < 0 ||
	    (honest && kind == NO_MESSAGE))
		return;
	CHECK(dname_from_text(&name, names[kind] != NULL ? names[kind] : "cluster.local.") == 0);
	queries[query_count].kind = kind;
	queries[query_count].connection = clients[i].connection;
	queries[query_count].whole = queries[query_count].replied = false;
	size_t len = query_write(message, 512, (uint16_t)query_count, name.wire,
	    kind == ASK_TRANSFER ? TYPE_AXFR : TYPE_A, CLASS_IN, query_count % 2 * DNS_UDP_PAYLOAD);
	query_count++;
	if (kind == ASK_NOTIFY || kind == NO_QUERY)
		message[2] = kind == NO_QUERY ? 0x80 : 0x20;
	if (kind == ASK_LONG)
		memset(message + len, 0, 400);
	if (kind == ASK_LONG)
		len += 400;
	wire_put16(message - PREFIX, kind == NO_MESSAGE ? DNS_HEADER - 1u : (unsigned)len);
	clients[i].out_len += PREFIX + len;
}

/* Sends at most `max` of the prepared bytes. */
static void
client_sends(unsigned i, size_t max)
{
	size_t left = clients[i].out_len - clients[i].out_sent;

	if (clients[i].fd < 0 || left == 0)
		return;
	ssize_t n = send(clients[i].fd, clients[i].out + clients[i].out_sent,
	    left < max ? left : max, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0) {
		if (errno != EAGAIN)
			client_reset(i);
		return;
	}
	clients[i].out_sent += (size_t)n;
	while (!clients[i].rude && clients[i].out_sent - clients[i].out_known >= PREFIX) {
		const uint8_t *next = clients[i].out + clients[i].out_known;
		size_t len = wire_get16(next);

		clients[i].rude = len < DNS_HEADER;
		if (clients[i].rude || clients[i].out_sent - clients[i].out_known < PREFIX + len)
			break;
		queries[wire_get16(next + PREFIX)].whole = true;
		clients[i].out_known += PREFIX + len;
	}
	if (clients[i].out_sent == clients[i].out_len)
		clients[i].out_len = clients[i].out_sent = clients[i].out_known = 0;
}

static void
check_reply(unsigned i, const uint8_t *reply, size_t len)
{
	CHECK(len >= DNS_HEADER && (reply[2] & 0x80) != 0);
	unsigned id = wire_get16(reply), rcode = reply[3] & 15;
	CHECK(id < query_count && queries[id].connection == clients[i].connection);
	CHECK(queries[id].whole && !queries[id].replied && queries[id].kind < NO_QUERY);
	queries[id].replied = true;
	switch (queries[id].kind) {
	case ASK_SMALL:
		CHECK(rcode == RCODE_NOERROR && wire_get16(reply + 6) == 1);
		break;
	case ASK_LARGE:
		CHECK(rcode == RCODE_NOERROR && wire_get16(reply + 6) == ENDPOINTS);
		break;
	case ASK_OUTSIDE:
		CHECK(rcode != RCODE_NXDOMAIN);
		break;
	case ASK_MISSING:
		CHECK(rcode == RCODE_NXDOMAIN);
		break;
	default:
		CHECK(rcode != RCODE_NOERROR);
	}
}

/* Whether a query on the client's connection has no reply yet. */
static bool
client_waits(unsigned i)
{
	for (unsigned q = 0; q < query_count; q++)
		if (queries[q].connection == clients[i].connection && queries[q].whole &&
		    !queries[q].replied && queries[q].kind < NO_QUERY)
			return true;
	return false;
}

/* Reads at most `max` bytes. Returns whether it read any bytes, or the end of the connection. */
static bool
client_reads(unsigned i, size_t max)
{
	size_t capacity = sizeof clients[i].in - clients[i].in_len, used = 0;

	if (clients[i].fd < 0 || clients[i].at_end)
		return false;
	ssize_t n = recv(clients[i].fd, clients[i].in + clients[i].in_len,
	    max < capacity ? max : capacity, MSG_DONTWAIT);
	if (n < 0) {
		if (errno != EAGAIN)
			client_reset(i);
		return false;
	}
	clients[i].at_end = n == 0;
	clients[i].in_len += (size_t)n;
	while (clients[i].in_len - used >= PREFIX) {
		size_t len = wire_get16(clients[i].in + used);

		if (clients[i].in_len - used < PREFIX + len)
			break;
		check_reply(i, clients[i].in + used + PREFIX, len);
		used += PREFIX + len;
	}
	clients[i].in_len -= used;
	memmove(clients[i].in, clients[i].in + used, clients[i].in_len);
	if (honest && clients[i].at_end)
		CHECK(clients[i].in_len == 0 &&
		      (!client_waits(i) || stats.dropped[DROP_TCP_CLIENT] > 0));
	return true;
}

/* --- operations --- */

enum {
	CONNECT,
	ASK,
	ASK_AND_SEND,
	SEND,
	READ,
	READ_ALL,
	END,
	RESET,
	OTHERS,
	TIME,
	LISTEN,
	LOAD,
	OPERATIONS
};

static void
operate(unsigned operation, unsigned argument)
{
	unsigned i = argument % CLIENTS, more = argument / CLIENTS;

	switch (operation % AT_ONCE % OPERATIONS) {
	case CONNECT:
		client_connect(i, more);
		break;
	case ASK:
		client_asks(i, more % QUERY_KINDS);
		break;
	case ASK_AND_SEND:
		client_asks(i, more % QUERY_KINDS);
		client_sends(i, SIZE_MAX);
		break;
	case SEND:
		client_sends(i, more < 20 ? 1 + more * more : SIZE_MAX);
		break;
	case READ:
		client_reads(i, 1 + more * 300);
		break;
	case READ_ALL:
		while (client_reads(i, SIZE_MAX))
			settle();
		break;
	case END:
		if (clients[i].fd >= 0)
			shutdown(clients[i].fd, more % 3 == 0 && !honest ? SHUT_RDWR : SHUT_WR);
		break;
	case RESET:
		client_reset(i);
		break;
	case OTHERS:
		others_reply(argument / 2, argument % 2 == 0);
		break;
	case TIME:
		if (!honest)
			mono_ns += argument * 50 * NS_PER_MS;
		break;
	case LISTEN:
		(tcp->listening ? tcp_leave : tcp_listen)(tcp);
		break;
	default: /* LOAD */
		context.loaded = !context.loaded;
	}
}

static void
begin(unsigned options)
{
	static const unsigned connections[] = { 2, 5, 16, 64 };
	static const unsigned memory[] = { 3000, 20000, 200000, 4000000 };
	static const unsigned steps_ns[] = { 0, 1000, 50000, 300000 };
	const struct client_ops ops = { NULL, client_defer, client_reserve, client_done };
	const struct sockaddr_in any = { .sin_family = AF_INET,
		.sin_addr.s_addr = htobe32(0x7f000001) };
	const int buffer = 16384, on = 1;

	memset(&stats, 0, sizeof stats);
	query_count = connection_count = held_count = 0;
	for (unsigned i = 0; i < CLIENTS; i++)
		clients[i].fd = -1;
	honest = (options & OPTION_HONEST) != 0;
	context.loaded = (options & OPTION_LOADED) != 0;
	mono_ns = NS_PER_S;
	step_ns = steps_ns[(options & OPTION_CLOCK) / 16];
	worker_time(&context);
	table = inflight_new(&context, &ops, HELD_MAX, HELD_MAX);
	*inflight_ops(table) = (struct forward_ops){ .size = sizeof(struct asked),
		.retry_ns = NS_PER_S,
		.made = MADE_FORWARDED,
		.ask = others_ask,
		.retry = others_retry,
		.forget = others_forget };
	const struct tcp_config limits = {
		.connections = honest ? 64 : connections[options & OPTION_CONNECTIONS],
		.memory = honest ? 8000000 : memory[(options & OPTION_MEMORY) / 4],
		.idle_ns = 10 * NS_PER_S,
	};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	CHECK(listener >= 0);
	setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
	setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
	setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	CHECK(bind(listener, (const struct sockaddr *)&any, sizeof any) == 0);
	tcp = tcp_new(&context, table, &listener, 1, &limits);
	tcp_listen(tcp);
}

/* Waits for data that the kernel delivers late. Returns whether any data arrived. */
static bool
comes_late(void)
{
	struct pollfd fds[CLIENTS + 1] = { { context.epoll, POLLIN, 0 } };

	for (unsigned i = 0; i < CLIENTS; i++)
		fds[1 + i] = (struct pollfd){ clients[i].at_end ? -1 : clients[i].fd, POLLIN, 0 };
	int ready;
	do
		ready = poll(fds, CLIENTS + 1, FAILSAFE_MS);
	while (ready < 0 && errno == EINTR); /* the fuzzer's alarm interrupts the call */
	return ready > 0;
}

/* Reads all replies of each client. A client that reads must get all its replies. */
static void
read_everything(void)
{
	for (;;) {
		bool any = false, all = true;

		while (held_count > 0)
			others_reply(0, true);
		for (unsigned i = 0; i < CLIENTS; i++) {
			client_sends(i, SIZE_MAX);
			while (client_reads(i, SIZE_MAX))
				any = true;
		}
		settle();
		for (unsigned i = 0; i < CLIENTS; i++)
			all = all && (clients[i].fd < 0 || clients[i].at_end || !client_waits(i));
		if (all)
			return;
		CHECK(any || held_count > 0 || comes_late());
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (cache == NULL)
		make_world();
	if (size == 0)
		return 0;
	begin(data[0]);
	for (size_t i = 1; i + 1 < size && i < 2 * OPERATIONS_MAX; i += 2) {
		operate(data[i], data[i + 1]);
		if (data[i] < AT_ONCE)
			settle();
	}
	settle();
	if (!tcp->listening)
		tcp_listen(tcp);
	if (honest)
		read_everything();
	for (unsigned i = 0; i < CLIENTS; i++)
		client_reset(i);
	settle();
	inflight_finish_all(table);
	settle();
	CHECK(tcp->pool.count == 0 && tcp->pool.memory == 0);
	tcp_free(tcp);
	inflight_free(table);
	return 0;
}
