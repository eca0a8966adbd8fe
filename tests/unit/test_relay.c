/* The relay. Its resolver is a socket of this test, or is down. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/serve/observe/observe.h"
#include "kubedns/serve/upstream/forwarded_cache.h"
#include "kubedns/serve/upstream/relay.h"
#include "kubedns/serve/upstream/transport.h"
#include "kubedns/serve/upstream/validation.h"
#include "lib/clock.h"
#include "tests/unit/worker_world.h"

enum { WAIT_MS = 5000 };

static struct transport *transport;
static struct relay *relay;

/* Returns a port of 127.0.0.1 without a listener. The port is bound at another address, so no
 * program takes it. */
static struct server
closed_port(int *fd)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr = { htonl(INADDR_LOOPBACK + 1) } };
	socklen_t len = sizeof in;

	*fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(*fd >= 0);
	assert_int_equal(bind(*fd, (struct sockaddr *)&in, len), 0);
	assert_int_equal(getsockname(*fd, (struct sockaddr *)&in, &len), 0);
	return (struct server){ .addr = { .family = AF_INET, .bytes = { 127, 0, 0, 1 } },
		.port = ntohs(in.sin_port) };
}

static void
query_by(const char *text, enum stats_proto proto, uint32_t hash)
{
	struct client client = { .proto = proto, .hash = hash };
	struct answer_info info = { .below = -1 };
	struct dname name;
	struct tree_path path;
	uint8_t wire[DNS_UDP_QUERY_MAX];

	assert_int_equal(dname_from_text(&name, text), 0);
	size_t len = query_write(wire, sizeof wire, 1, name.wire, TYPE_A, CLASS_IN, 0);
	answer_read(&config, wire, len, &info, &path);
	info.system = SYSTEM_RECURSIVE;
	inflight_start(table, &client, wire, len, ANSWER_FORWARD, &info);
}

static void
query(const char *text)
{
	query_by(text, PROTO_UDP, 1);
}

/* Begins a test at the time 1 ns: a relay to this resolver, with at most `queries` queries in flight. */
static void
open_relay(const struct server *resolver, unsigned queries, unsigned unread_max)
{
	static const struct client_ops clients = { NULL, client_defer, client_reserve,
		client_done };

	memset(&stats, 0, sizeof stats);
	memset(&got, 0, sizeof got);
	context.epoll = epoll_create1(EPOLL_CLOEXEC);
	context.now_ns = 1;
	table = inflight_new(&context, &clients, queries, queries);
	transport = transport_new(&context);
	relay = relay_new(&context, table, transport, resolver, unread_max);
}

static void
close_relay(void)
{
	inflight_free(table);
	relay_free(relay);
	transport_free(transport);
	close(context.epoll);
}

static void
at_ms(int64_t ms)
{
	context.now_ns = 1 + ms * 1000000;
	relay_iteration(relay);
	transport_iteration(transport);
}

/* Handles the next event of a socket or connection of the relay. */
static uint32_t
take_event(void)
{
	struct epoll_event event;

	assert_int_equal(epoll_wait(context.epoll, &event, 1, WAIT_MS), 1);
	uint64_t key = event.data.u64;
	if (worker_key_part(key) == PART_TRANSPORT_UDP)
		transport_udp_event(transport, worker_key_slot(key), worker_key_tag(key));
	else
		transport_tcp_event(
		    transport, worker_key_slot(key), worker_key_tag(key), event.events);
	return event.events;
}

/* Handles the next event. It must be the refusal of a query by the resolver's host. */
static void
take_refusal(void)
{
	assert_true((take_event() & EPOLLERR) != 0);
}

static void
each_refused_query_waits_for_its_own_pause(void **state)
{
	(void)state;
	int fd;
	struct server server = closed_port(&fd);
	open_relay(&server, 100, 192);
	query("a.example.com.");
	at_ms(0);
	take_refusal();
	context.now_ns += 40 * INT64_C(1000000);
	query("b.example.com.");
	at_ms(40);
	take_refusal();
	at_ms(50);
	assert_int_equal(stats.forward_retries, 1);
	at_ms(89);
	assert_int_equal(stats.forward_retries, 1);
	at_ms(90);
	assert_int_equal(stats.forward_retries, 2);
	inflight_finish_all(table);
	assert_int_equal(got.replies, 2);
	close_relay();
	close(fd);
}

/* Opens the socket of a resolver. */
static int
open_resolver(struct server *server)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof in;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&in, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	*server = (struct server){ .addr = { .family = AF_INET, .bytes = { 127, 0, 0, 1 } },
		.port = ntohs(in.sin_port) };
	return fd;
}

/* Reads a query, as a resolver with the socket `fd`. If it is an A query, replies to it and returns true. */
static bool
answer_at(int fd)
{
	struct sockaddr_in from;
	socklen_t from_len = sizeof from;
	uint8_t wire[DNS_UDP_QUERY_MAX];

	ssize_t len = recvfrom(fd, wire, sizeof wire, 0, (struct sockaddr *)&from, &from_len);
	assert_true(len > DNS_HEADER);
	if (wire_get16(wire + DNS_HEADER + dname_length(wire + DNS_HEADER, DNAME_MAX)) != TYPE_A)
		return false;
	wire[2] |= 0x80;
	assert_true(sendto(fd, wire, (size_t)len, 0, (struct sockaddr *)&from, from_len) == len);
	return true;
}

/* Returns the next record, which must have this kind. */
static struct ring_record
next_record(struct ring_follower *follower, enum record_kind kind)
{
	struct ring_record record;

	ring_follow_iteration(follower);
	assert_true(ring_follow_next(follower, &record, NULL));
	assert_int_equal(record.kind, kind);
	return record;
}

/* For the worker, two queries of one batch have the same time, and so have two responses that are
 * read together. Their records have different times. */
static void
each_message_to_and_from_the_resolver_has_its_own_time(void **state)
{
	(void)state;
	struct ring_follower follower;
	struct server server;
	int fd = open_resolver(&server);
	context.ring = ring_new(
	    &(struct ring_config){ .bytes = RING_WHOLE_MIN, .whole = true, .wake = -1, .seed = 1 });
	ring_follow(&follower, context.ring);
	open_relay(&server, 100, 192);
	context.now_ns = clock_mono_ns();
	query("a.example.com.");
	query("b.example.com.");
	relay_iteration(relay);
	transport_iteration(transport);
	assert_true(answer_at(fd));
	assert_true(answer_at(fd));
	take_event();
	assert_int_equal(got.replies, 2);
	int64_t sent_ns[2], before_ns = context.now_ns;
	for (int i = 0; i < 2; i++) {
		sent_ns[i] = next_record(&follower, RECORD_SERVER_QUERY).at_ns;
		assert_true(sent_ns[i] > before_ns);
		before_ns = sent_ns[i];
	}
	for (int i = 0; i < 2; i++) {
		struct ring_record said = next_record(&follower, RECORD_SERVER_RESPONSE);

		assert_true(said.at_ns > before_ns);
		assert_int_equal(said.at_ns - said.took_ns, sent_ns[i]);
		before_ns = next_record(&follower, RECORD_ANSWER).at_ns;
		assert_true(before_ns >= said.at_ns);
	}
	close_relay();
	ring_free(context.ring);
	context.ring = NULL;
	close(fd);
}

/* The resolver replies to all queries, but not to the one for its setting. */
static void
a_resolver_that_never_says_whether_it_validates_is_asked_once_a_second(void **state)
{
	(void)state;
	enum { MS_PER_QUERY = 100, QUERIES = 100 };
	struct server server;
	unsigned settings = 0;
	int fd = open_resolver(&server);
	open_relay(&server, 100, 192);
	relay_respects_validation(relay);
	for (unsigned i = 1; i <= QUERIES; i++) {
		query("a.example.com.");
		at_ms(i * MS_PER_QUERY);
		while (!answer_at(fd))
			settings++;
		take_event();
		assert_int_equal(got.replies, i);
	}
	assert_in_range(settings, MS_PER_QUERY * QUERIES / 1000, 25);
	close_relay();
	close(fd);
}

static void
a_resolver_that_was_never_asked_may_validate(void **state)
{
	struct server server = { .addr = { .family = AF_INET, .bytes = { 127, 0, 0, 1 } },
		.port = 1 };
	const struct inflight question = { .type = TYPE_TXT };

	(void)state;
	context.epoll = -1; /* the query's socket cannot be opened */
	context.now_ns = 1;
	transport = transport_new(&context);
	struct remote *resolver = remote_new(transport, &server, 1, (struct remote_ops){ 0 });
	struct validation *v = validation_new(&context, resolver, &question);
	for (unsigned i = 0; i < 3; i++) {
		validation_ask(v);
		validation_replied(v);
		assert_true(validation_checks(v));
		context.now_ns += NS_PER_S;
	}
	validation_free(v);
	remote_release(resolver);
	transport_free(transport);
}

enum { UNREAD_MAX = 64, FLOOD = 500 };

/* Starts a relay, to whose resolver client 1 sends FLOOD queries at once, and then client 2 one query. Returns the
 * resolver's socket. */
static int
start_flood(void)
{
	struct server server;
	int fd = open_resolver(&server);

	open_relay(&server, 2048, UNREAD_MAX);
	for (unsigned i = 0; i < FLOOD; i++) {
		char text[32];

		snprintf(text, sizeof text, "n%u.example.com.", i);
		query(text);
	}
	query_by("other.example.com.", PROTO_UDP, 2);
	at_ms(0);
	return fd;
}

static void
end_flood(int fd)
{
	inflight_finish_all(table);
	assert_int_equal(got.replies, FLOOD + 1);
	close_relay();
	close(fd);
}

static bool truncates; /* the resolver truncates the replies for names that begin with "long" */

/* Reads all queries that the resolver has received, and replies to each if `replies` is set. Returns their number. Sets
 * `*other` if client 2's query is among them. */
static unsigned
read_all(int fd, bool replies, bool *other)
{
	static const uint8_t name[] = "\5other";
	struct sockaddr_in from;
	socklen_t from_len = sizeof from;
	uint8_t wire[DNS_UDP_QUERY_MAX];
	unsigned count = 0;
	ssize_t len;

	while ((len = recvfrom(fd, wire, sizeof wire, MSG_DONTWAIT, (struct sockaddr *)&from,
		    &from_len)) > DNS_HEADER) {
		*other = *other || memcmp(wire + DNS_HEADER, name, sizeof name - 1) == 0;
		bool is_long = memcmp(wire + DNS_HEADER, "\4long", 5) == 0;
		wire[2] |= truncates && is_long ? 0x82 : 0x80;
		if (replies)
			assert_true(sendto(fd, wire, (size_t)len, 0, (struct sockaddr *)&from,
					from_len) == len);
		count++;
	}
	return count;
}

/* Client 1 to 10 send a query each, and there are eight places. The first two queries are in one batch, which sends the longer one first.
 * The resolver has read only that one. */
static void
a_reply_gives_back_no_place_of_the_same_batch(void **state)
{
	struct server server;
	unsigned count = 1;
	bool other = false;

	(void)state;
	int fd = open_resolver(&server);
	open_relay(&server, 100, 8);
	query_by("a.example.com.", PROTO_UDP, 1);
	query_by("longer.example.com.", PROTO_UDP, 2);
	for (uint32_t hash = 3; hash <= 10; hash++) {
		char text[32];

		snprintf(text, sizeof text, "n%u.example.com.", (unsigned)hash);
		query_by(text, PROTO_UDP, hash);
	}
	at_ms(0);
	while (!answer_at(fd)) /* the marker */
		count++;
	take_event();
	assert_int_equal(got.replies, 1);
	at_ms(0);
	/* the first eight, the marker, and one of the other two */
	assert_int_equal(count + read_all(fd, false, &other), 8 + 1 + 1);
	inflight_finish_all(table);
	close_relay();
	close(fd);
}

/* The kernel would drop the queries that the resolver's receive buffer has no space for. */
static void
a_flood_leaves_space_in_the_receive_buffer_of_a_resolver_that_pauses(void **state)
{
	bool other = false;

	(void)state;
	int fd = start_flood();
	unsigned count = read_all(fd, true, &other);
	assert_in_range(count, UNREAD_MAX / 4, UNREAD_MAX + 1); /* 1 is for the marker */
	assert_true(other);
	while (got.replies < FLOOD + 1) {
		take_event();
		at_ms(0);
		assert_in_range(read_all(fd, true, &other), 0, UNREAD_MAX + 1);
	}
	assert_int_equal(stats.forward_retries, 0);
	end_flood(fd);
}

static void
a_resolver_that_never_reads_gets_a_few_more_queries_at_each_retry(void **state)
{
	bool other = false;
	unsigned before = 0;

	(void)state;
	int fd = start_flood();
	for (int64_t ms = 0; ms <= 1000; ms += 250) {
		at_ms(ms);
		unsigned count = read_all(fd, false, &other);
		assert_in_range(count, before > 0 ? 1 : UNREAD_MAX / 4, UNREAD_MAX + 1);
		before = count;
	}
	end_flood(fd);
}

/* dnsmasq may have sent the query to a server that loses long replies. */
static void
a_query_whose_reply_was_truncated_lately_is_soon_sent_again_for_a_tcp_client(void **state)
{
	struct forwarded_cache *cache = forwarded_cache_new(FORWARDED_CACHE_LEAST, 1);
	struct server server;
	bool other = false;

	(void)state;
	int fd = open_resolver(&server);
	open_relay(&server, 100, 192);
	inflight_cache(table, cache);
	relay_cache(relay, cache);
	query("long.example.com.");
	query("short.example.com.");
	at_ms(0);
	truncates = true;
	assert_int_equal(read_all(fd, true, &other), 2);
	truncates = false;
	while (got.replies < 2)
		take_event();
	query_by("long.example.com.", PROTO_UDP, 1);
	query_by("long.example.com.", PROTO_TCP, 1);
	query_by("short.example.com.", PROTO_TCP, 1);
	at_ms(0);
	assert_int_equal(read_all(fd, false, &other), 3);
	at_ms(49);
	assert_int_equal(read_all(fd, false, &other), 0);
	at_ms(50);
	assert_int_equal(read_all(fd, false, &other), 1);
	at_ms(5000); /* all queries have ended, and the truncated reply is too old */
	inflight_iteration(table);
	query_by("long.example.com.", PROTO_TCP, 1);
	at_ms(5000);
	assert_int_equal(read_all(fd, false, &other), 1);
	at_ms(5050);
	assert_int_equal(read_all(fd, false, &other), 0);
	inflight_finish_all(table);
	close_relay();
	forwarded_cache_free(cache);
	close(fd);
}

/* The client gets the truncated reply, and the query is sent no third time. */
static void
a_resolver_that_always_truncates_gets_the_query_once_over_udp_and_once_over_tcp(void **state)
{
	struct server server;
	bool other = false;
	int fd, listener;

	(void)state;
	while (fd = open_resolver(&server), (listener = listen_beside(fd)) < 0)
		close(fd);
	open_relay(&server, 100, 192);
	query_by("long.example.com.", PROTO_TCP, 1);
	at_ms(0);
	truncates = true;
	assert_int_equal(read_all(fd, true, &other), 1);
	truncates = false;
	take_event(); /* the truncated reply */
	take_event(); /* sends the question over TCP */
	int conn = truncate_over_tcp(listener);
	take_event();
	at_ms(0);
	assert_int_equal(got.replies, 1);
	assert_true((got.buffer[2] & FLAG_TC >> 8) != 0);
	struct pollfd again[] = { { fd, POLLIN, 0 }, { listener, POLLIN, 0 } };
	assert_int_equal(poll(again, 2, 0), 0);
	close(conn);
	close(listener);
	close_relay();
	close(fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_refused_query_waits_for_its_own_pause),
		cmocka_unit_test(each_message_to_and_from_the_resolver_has_its_own_time),
		cmocka_unit_test(
		    a_resolver_that_never_says_whether_it_validates_is_asked_once_a_second),
		cmocka_unit_test(a_resolver_that_was_never_asked_may_validate),
		cmocka_unit_test(a_reply_gives_back_no_place_of_the_same_batch),
		cmocka_unit_test(
		    a_flood_leaves_space_in_the_receive_buffer_of_a_resolver_that_pauses),
		cmocka_unit_test(a_resolver_that_never_reads_gets_a_few_more_queries_at_each_retry),
		cmocka_unit_test(
		    a_query_whose_reply_was_truncated_lately_is_soon_sent_again_for_a_tcp_client),
		cmocka_unit_test(
		    a_resolver_that_always_truncates_gets_the_query_once_over_udp_and_once_over_tcp),
	};

	return cmocka_run_group_tests(tests, make_world, end_world);
}
