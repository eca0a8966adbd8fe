/* The forwarder. The upstream servers are sockets of this test. The tests show which server gets a
 * query, and what the client gets. */
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/serve/upstream/forward.h"
#include "kubedns/serve/upstream/transport.h"
#include "tests/unit/worker_world.h"

enum { WAIT_MS = 5000 };

/* An upstream server. */
struct peer {
	int fd;
	struct server server;
	uint8_t query[DNS_UDP_QUERY_MAX]; /* the last query that the server received */
	size_t len;
	struct sockaddr_in from;
};

static struct transport *transport;
static struct forward *forward;

static struct peer
peer_open(void)
{
	struct peer peer = { .fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof in;

	assert_true(peer.fd >= 0);
	assert_int_equal(bind(peer.fd, (struct sockaddr *)&in, len), 0);
	assert_int_equal(getsockname(peer.fd, (struct sockaddr *)&in, &len), 0);
	peer.server = (struct server){ .addr = { .family = AF_INET, .bytes = { 127, 0, 0, 1 } },
		.port = ntohs(in.sin_port) };
	return peer;
}

/* Reads the next query. */
static void
peer_read(struct peer *peer)
{
	struct pollfd ready = { .fd = peer->fd, .events = POLLIN };
	socklen_t len = sizeof peer->from;

	assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
	ssize_t n = recvfrom(
	    peer->fd, peer->query, sizeof peer->query, 0, (struct sockaddr *)&peer->from, &len);
	assert_true(n >= DNS_HEADER);
	peer->len = (size_t)n;
}

static bool
peer_was_asked(const struct peer *peer)
{
	struct pollfd ready = { .fd = peer->fd, .events = POLLIN };

	return poll(&ready, 1, 0) == 1;
}

static bool
peer_got_opt(const struct peer *peer)
{
	return wire_get16(peer->query + 10) == 1;
}

/* Removes the OPT record, which is all after the question, from the last query, and so from the reply. */
static void
peer_drops_opt(struct peer *peer)
{
	struct dname name;
	size_t at = DNS_HEADER;

	assert_int_equal(wire_read_name(peer->query, peer->len, &at, &name), 0);
	wire_put16(peer->query + 10, 0);
	peer->len = at + 4;
}

/* Leaves only the header of the last query, and so of the reply. */
static void
peer_drops_question(struct peer *peer)
{
	memset(peer->query + 4, 0, DNS_HEADER - 4);
	peer->len = DNS_HEADER;
}

/* Replies to the last query, and lets the forwarder read the reply. */
static void
peer_reply(struct peer *peer, unsigned rcode)
{
	struct epoll_event event;

	peer->query[2] |= 0x80;
	peer->query[3] = (uint8_t)rcode;
	assert_true(sendto(peer->fd, peer->query, peer->len, 0, (struct sockaddr *)&peer->from,
			sizeof peer->from) == (ssize_t)peer->len);
	assert_int_equal(epoll_wait(context.epoll, &event, 1, WAIT_MS), 1);
	uint64_t key = event.data.u64;
	transport_udp_event(transport, worker_key_slot(key), worker_key_tag(key));
	forward_iteration(forward);
	transport_iteration(transport);
}

static void
query(const char *text)
{
	struct client client = { .proto = PROTO_UDP, .hash = 1 };
	struct answer_info info = { .below = -1 };
	struct dname name;
	struct tree_path path;
	uint8_t wire[DNS_UDP_QUERY_MAX];

	assert_int_equal(dname_from_text(&name, text), 0);
	size_t len =
	    query_write(wire, sizeof wire, 1, name.wire, TYPE_A, CLASS_IN, DNS_UDP_PAYLOAD);
	answer_read(&config, wire, len, &info, &path);
	info.system = SYSTEM_RECURSIVE;
	inflight_start(table, &client, wire, len, ANSWER_FORWARD, &info);
	forward_iteration(forward);
	transport_iteration(transport);
}

static void
start(const struct peer *peers, size_t count)
{
	const struct client_ops clients = { NULL, client_defer, client_reserve, client_done };
	struct server servers[UPSTREAMS_MAX];

	memset(&got, 0, sizeof got);
	memset(&stats, 0, sizeof stats);
	context.stats = &stats;
	context.now_ns = 1;
	context.epoll = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < count; i++)
		servers[i] = peers[i].server;
	table = inflight_new(&context, &clients, 100, 100);
	transport = transport_new(&context);
	forward =
	    forward_new(&context, table, transport, (struct forward_way){ 0 }, servers, count);
}

static void
finish(struct peer *peers, size_t count)
{
	inflight_finish_all(table);
	forward_free(forward);
	transport_free(transport);
	inflight_free(table);
	close(context.epoll);
	for (size_t i = 0; i < count; i++)
		close(peers[i].fd);
}

/* The first of two servers refuses the query. Then the list of servers changes. The second server
 * is no longer in the list, and fails too. */
static void
a_new_server_is_asked_by_a_query_that_the_old_ones_have_failed(void **state)
{
	(void)state;
	struct peer peers[] = { peer_open(), peer_open(), peer_open() };
	start(peers, 2);
	query("www.example.com.");
	peer_read(&peers[0]);
	peer_reply(&peers[0], RCODE_REFUSED);
	peer_read(&peers[1]);
	forward_servers(forward, &peers[2].server, 1);
	peer_reply(&peers[1], RCODE_SERVFAIL);
	assert_int_equal(got.replies, 0);
	peer_read(&peers[2]);
	peer_reply(&peers[2], RCODE_NXDOMAIN);
	assert_int_equal(got.replies, 1);
	assert_int_equal(got.buffer[3] & 15, RCODE_NXDOMAIN);
	finish(peers, 3);
}

static void
refused_is_said_only_of_servers_that_have_refused(void **state)
{
	(void)state;
	struct peer peers[] = { peer_open(), peer_open(), peer_open() };
	start(peers, 2);
	query("www.example.com.");
	peer_read(&peers[0]);
	peer_reply(&peers[0], RCODE_REFUSED);
	peer_read(&peers[1]);
	forward_servers(forward, &peers[2].server, 1);
	peer_reply(&peers[1], RCODE_REFUSED);
	peer_read(&peers[2]);
	peer_reply(&peers[2], RCODE_SERVFAIL);
	assert_int_equal(got.replies, 1);
	assert_int_equal(got.buffer[3] & 15, RCODE_SERVFAIL);
	finish(peers, 3);
}

/* --until-synced lists an address three times. */
static void
a_server_that_is_listed_twice_has_refused_after_both_attempts(void **state)
{
	char text[64];

	(void)state;
	struct peer peers[] = { peer_open(), peer_open() };
	peers[1].server = peers[0].server;
	start(peers, 2);
	query("www.example.com.");
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(got.replies, 0);
		peer_read(&peers[0]);
		peer_reply(&peers[0], RCODE_REFUSED);
	}
	assert_int_equal(got.replies, 1);
	assert_int_equal(got.buffer[3] & 15, RCODE_REFUSED);
	snprintf(text, sizeof text, "refused by 127.0.0.1:%u", (unsigned)peers[0].server.port);
	assert_non_null(memmem(got.buffer, sizeof got.buffer, text, strlen(text)));
	assert_null(memmem(got.buffer, sizeof got.buffer, " and ", 5));
	finish(peers, 2);
}

static void
an_answer_of_a_server_that_left_the_list_is_taken(void **state)
{
	(void)state;
	struct peer peers[] = { peer_open(), peer_open() };
	start(peers, 1);
	query("www.example.com.");
	peer_read(&peers[0]);
	forward_servers(forward, &peers[1].server, 1);
	peer_reply(&peers[0], RCODE_NXDOMAIN);
	assert_int_equal(got.replies, 1);
	assert_int_equal(got.buffer[3] & 15, RCODE_NXDOMAIN);
	assert_false(peer_was_asked(&peers[1]));
	finish(peers, 2);
}

/* Opens a server that accepts TCP connections too. */
static struct peer
peer_open_with_tcp(int *listener)
{
	for (;;) {
		struct peer peer = peer_open();

		*listener = listen_beside(peer.fd);
		if (*listener >= 0)
			return peer;
		close(peer.fd);
	}
}

static void
a_truncated_reply_of_a_server_that_left_the_list_makes_the_query_go_over_tcp(void **state)
{
	(void)state;
	int listener;
	struct peer peers[] = { peer_open_with_tcp(&listener), peer_open() };
	struct pollfd ready = { .fd = listener, .events = POLLIN };

	start(peers, 1);
	query("www.example.com.");
	peer_read(&peers[0]);
	forward_servers(forward, &peers[1].server, 1);
	peers[0].query[2] |= 2; /* TC */
	peer_reply(&peers[0], 0);
	assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
	assert_int_equal(got.replies, 0);
	finish(peers, 2);
	close(listener);
}

/* The truncated reply arrives shortly before the end of the retry interval. */
static void
a_server_that_has_truncated_its_reply_has_a_retry_interval_for_tcp(void **state)
{
	(void)state;
	int listener;
	struct peer peers[] = { peer_open_with_tcp(&listener), peer_open() };

	start(peers, 2);
	query("www.example.com.");
	peer_read(&peers[0]);
	context.now_ns += 900 * INT64_C(1000000);
	peers[0].query[2] |= 2; /* TC */
	peer_reply(&peers[0], 0);
	context.now_ns += 900 * INT64_C(1000000);
	inflight_iteration(table);
	transport_iteration(transport);
	assert_int_equal(stats.forward_server_failures, 0);
	assert_false(peer_was_asked(&peers[1]));
	context.now_ns += 200 * INT64_C(1000000);
	inflight_iteration(table);
	transport_iteration(transport);
	assert_int_equal(stats.forward_server_failures, 1);
	peer_read(&peers[1]);
	finish(peers, 2);
	close(listener);
}

/* The forwarder has no cache. Its answers would be older than --answer-cache allows, or of another --until-synced server. */
static void
the_same_query_is_sent_again(void **state)
{
	static const uint8_t record[] = { 0xc0, DNS_HEADER, 0, TYPE_A, 0, CLASS_IN, 0, 0, 1, 44, 0,
		4, 192, 0, 2, 1 };

	(void)state;
	struct peer peers[] = { peer_open() };
	start(peers, 1);
	for (unsigned i = 1; i <= 2; i++) {
		query("www.example.com.");
		assert_int_equal(got.replies, i - 1);
		peer_read(&peers[0]);
		peer_drops_opt(&peers[0]);
		wire_put16(peers[0].query + 6, 1);
		memcpy(peers[0].query + peers[0].len, record, sizeof record);
		peers[0].len += sizeof record;
		peer_reply(&peers[0], 0);
		assert_int_equal(got.replies, i);
	}
	finish(peers, 1);
}

/* Each query of a channel is repeated, not only the first one. */
static void
after_formerr_a_query_is_repeated_without_opt(void **state)
{
	(void)state;
	struct peer peers[] = { peer_open() };
	start(peers, 1);
	for (unsigned i = 1; i <= 2; i++) {
		query("www.example.com.");
		peer_read(&peers[0]);
		assert_true(peer_got_opt(&peers[0]));
		peer_drops_opt(&peers[0]);
		peer_reply(&peers[0], RCODE_FORMERR);
		assert_int_equal(got.replies, i - 1);
		peer_read(&peers[0]);
		assert_false(peer_got_opt(&peers[0]));
		peer_reply(&peers[0], RCODE_NXDOMAIN);
		assert_int_equal(got.replies, i);
		assert_int_equal(got.buffer[3] & 15, RCODE_NXDOMAIN);
	}
	finish(peers, 1);
}

/* Some servers reply to a message that they cannot read with its header alone. */
static void
after_formerr_without_a_question_a_query_is_repeated_without_opt(void **state)
{
	(void)state;
	struct peer peers[] = { peer_open() };
	start(peers, 1);
	query("www.example.com.");
	peer_read(&peers[0]);
	peer_drops_question(&peers[0]);
	peer_reply(&peers[0], RCODE_FORMERR);
	assert_int_equal(got.replies, 0);
	peer_read(&peers[0]);
	assert_false(peer_got_opt(&peers[0]));
	peer_reply(&peers[0], RCODE_NXDOMAIN);
	assert_int_equal(got.replies, 1);
	assert_int_equal(got.buffer[3] & 15, RCODE_NXDOMAIN);
	finish(peers, 1);
}

static void
after_an_error_without_a_question_the_next_server_is_asked(void **state)
{
	static const unsigned rcodes[] = { RCODE_SERVFAIL, RCODE_NOTIMP, RCODE_REFUSED };

	(void)state;
	for (size_t i = 0; i < sizeof rcodes / sizeof *rcodes; i++) {
		struct peer peers[] = { peer_open(), peer_open() };

		start(peers, 2);
		query("www.example.com.");
		peer_read(&peers[0]);
		peer_drops_question(&peers[0]);
		peer_reply(&peers[0], rcodes[i]);
		peer_read(&peers[1]);
		peer_drops_question(&peers[1]);
		peer_reply(&peers[1], RCODE_REFUSED);
		assert_int_equal(got.replies, 1);
		assert_int_equal(got.buffer[3] & 15,
		    rcodes[i] == RCODE_REFUSED ? RCODE_REFUSED : RCODE_SERVFAIL);
		finish(peers, 2);
	}
}

static void
a_server_that_always_replies_formerr_is_not_asked_forever(void **state)
{
	unsigned queries = 0;

	(void)state;
	struct peer peers[] = { peer_open() };
	start(peers, 1);
	for (query("www.example.com."); got.replies == 0; queries++) {
		peer_read(&peers[0]);
		peer_drops_opt(&peers[0]);
		peer_reply(&peers[0], RCODE_FORMERR);
	}
	assert_int_equal(got.buffer[3] & 15, RCODE_SERVFAIL);
	assert_int_equal(queries, 2);
	assert_false(peer_was_asked(&peers[0]));
	finish(peers, 1);
}

/* Lets the retry timer run at this time. */
static void
at_ms(int64_t ms)
{
	context.now_ns = 1 + ms * 1000000;
	inflight_iteration(table);
	forward_iteration(forward);
	transport_iteration(transport);
}

/* The first server refuses shortly before the retry time. The second server has not failed yet at that time. */
static void
a_server_that_got_a_query_after_another_has_failed_has_its_own_time(void **state)
{
	(void)state;
	struct peer peers[] = { peer_open(), peer_open() };
	start(peers, 2);
	query("www.example.com.");
	peer_read(&peers[0]);
	context.now_ns = 1 + 990 * INT64_C(1000000);
	peer_reply(&peers[0], RCODE_REFUSED);
	peer_read(&peers[1]);
	at_ms(1000);
	assert_int_equal(stats.forward_server_failures, 0);
	at_ms(1990);
	assert_int_equal(stats.forward_server_failures, 1);
	finish(peers, 2);
}

/* Sends a query, to which this server replies. */
static void
query_and_reply(const char *text, struct peer *peer)
{
	unsigned before = got.replies;

	query(text);
	peer_read(peer);
	peer_reply(peer, RCODE_NXDOMAIN);
	assert_int_equal(got.replies, before + 1);
}

/* The first server answers other queries. The second one is dead. */
static void
a_name_that_nobody_answers_does_not_change_the_order_of_the_servers(void **state)
{
	(void)state;
	struct peer peers[] = { peer_open(), peer_open() };
	start(peers, 2);
	query("lost.example.com.");
	peer_read(&peers[0]);
	at_ms(500);
	query_and_reply("a.example.com.", &peers[0]);
	at_ms(1000);
	peer_read(&peers[1]);
	query_and_reply("b.example.com.", &peers[0]);
	at_ms(2000);
	peer_read(&peers[0]); /* the first server gets that query again */
	query_and_reply("c.example.com.", &peers[0]);
	assert_int_equal(stats.forward_server_failures, 2);
	finish(peers, 2);
}

/* For example, it loses long replies. */
static void
a_server_that_does_not_answer_what_another_answers_is_tried_last(void **state)
{
	(void)state;
	struct peer peers[] = { peer_open(), peer_open() };
	start(peers, 2);
	query("long.example.com.");
	peer_read(&peers[0]);
	at_ms(500);
	query_and_reply("a.example.com.", &peers[0]);
	at_ms(1000);
	peer_read(&peers[1]);
	peer_reply(&peers[1], RCODE_NXDOMAIN);
	assert_int_equal(got.replies, 2);
	query_and_reply("b.example.com.", &peers[1]);
	finish(peers, 2);
}

/* Both servers have failed, the first one last. */
static void
among_failed_servers_the_one_that_replied_last_is_tried_first(void **state)
{
	(void)state;
	struct peer peers[] = { peer_open(), peer_open() };
	start(peers, 2);
	query_and_reply("a.example.com.", &peers[0]);
	at_ms(1);
	query("lost.example.com.");
	peer_read(&peers[0]);
	at_ms(1001);
	peer_read(&peers[1]);
	at_ms(2001);
	peer_read(&peers[0]);
	at_ms(3001);
	assert_int_equal(stats.forward_server_failures, 3);
	query_and_reply("b.example.com.", &peers[0]);
	finish(peers, 2);
}

/* Handles the next event of a connection. */
static void
take_tcp_event(void)
{
	struct epoll_event event;

	assert_int_equal(epoll_wait(context.epoll, &event, 1, WAIT_MS), 1);
	uint64_t key = event.data.u64;
	assert_int_equal(worker_key_part(key), PART_TRANSPORT_TCP);
	transport_tcp_event(transport, worker_key_slot(key), worker_key_tag(key), event.events);
	forward_iteration(forward);
	transport_iteration(transport);
}

/* The first of `count` servers sets TC in each reply. */
static void
a_server_that_always_truncates_gets_the_query_once_over_udp_and_once_over_tcp(void **state)
{
	(void)state;
	for (size_t count = 1; count <= 2; count++) {
		int listener;
		struct peer peers[] = { peer_open_with_tcp(&listener), peer_open() };
		struct pollfd again = { .fd = listener, .events = POLLIN };

		start(peers, count);
		query("www.example.com.");
		peer_read(&peers[0]);
		peers[0].query[2] |= 2; /* TC */
		peer_reply(&peers[0], RCODE_NOERROR);
		take_tcp_event(); /* sends the question */
		int conn = truncate_over_tcp(listener);
		take_tcp_event();
		if (count == 2) {
			peer_read(&peers[1]);
			peer_reply(&peers[1], RCODE_NOERROR);
		}
		assert_int_equal(got.replies, 1);
		assert_int_equal(got.buffer[3] & 15, count == 1 ? RCODE_SERVFAIL : RCODE_NOERROR);
		assert_false(peer_was_asked(&peers[0]));
		assert_int_equal(poll(&again, 1, 0), 0);
		close(conn);
		close(listener);
		finish(peers, 2);
	}
}

/* A reply is truncated, but the process has no descriptor for a connection. */
static void
a_lack_of_local_descriptors_is_no_failure_of_a_server(void **state)
{
	struct rlimit before, none;

	(void)state;
	struct peer peers[] = { peer_open() };
	start(peers, 1);
	query("www.example.com.");
	peer_read(&peers[0]);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	peers[0].query[2] |= 2; /* TC */
	peer_reply(&peers[0], RCODE_NOERROR);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(stats.forward_server_failures, 0);
	finish(peers, 1);
}

/* A query that is already late must not wait for a silent server as long as a new one. */
static void
a_late_query_is_sent_to_the_next_server_sooner(void **state)
{
	struct peer peers[2] = { peer_open(), peer_open() };

	(void)state;
	start(peers, 2);
	forward_free(forward);
	forward = forward_new(&context, table, transport,
	    (struct forward_way){ .timeout_ms = 1800, .again_ms = 250 },
	    (struct server[]){ peers[0].server, peers[1].server }, 2);
	query("a.example.");
	transport_iteration(transport);
	peer_read(&peers[0]);
	context.now_ns += 249 * INT64_C(1000000);
	inflight_iteration(table);
	transport_iteration(transport);
	assert_false(peer_was_asked(&peers[1]));
	context.now_ns += INT64_C(1000000);
	inflight_iteration(table);
	transport_iteration(transport);
	peer_read(&peers[1]);
	peer_reply(&peers[1], RCODE_NOERROR);
	assert_int_equal(got.replies, 1);
	finish(peers, 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_server_is_asked_by_a_query_that_the_old_ones_have_failed),
		cmocka_unit_test(refused_is_said_only_of_servers_that_have_refused),
		cmocka_unit_test(a_server_that_is_listed_twice_has_refused_after_both_attempts),
		cmocka_unit_test(an_answer_of_a_server_that_left_the_list_is_taken),
		cmocka_unit_test(
		    a_truncated_reply_of_a_server_that_left_the_list_makes_the_query_go_over_tcp),
		cmocka_unit_test(
		    a_server_that_has_truncated_its_reply_has_a_retry_interval_for_tcp),
		cmocka_unit_test(
		    a_server_that_always_truncates_gets_the_query_once_over_udp_and_once_over_tcp),
		cmocka_unit_test(the_same_query_is_sent_again),
		cmocka_unit_test(after_formerr_a_query_is_repeated_without_opt),
		cmocka_unit_test(after_formerr_without_a_question_a_query_is_repeated_without_opt),
		cmocka_unit_test(after_an_error_without_a_question_the_next_server_is_asked),
		cmocka_unit_test(a_server_that_always_replies_formerr_is_not_asked_forever),
		cmocka_unit_test(a_late_query_is_sent_to_the_next_server_sooner),
		cmocka_unit_test(
		    a_server_that_got_a_query_after_another_has_failed_has_its_own_time),
		cmocka_unit_test(
		    a_name_that_nobody_answers_does_not_change_the_order_of_the_servers),
		cmocka_unit_test(a_server_that_does_not_answer_what_another_answers_is_tried_last),
		cmocka_unit_test(among_failed_servers_the_one_that_replied_last_is_tried_first),
		cmocka_unit_test(a_lack_of_local_descriptors_is_no_failure_of_a_server),
	};

	return cmocka_run_group_tests(tests, make_world, end_world);
}
