/* The transport to other servers. Its server is a pair of sockets of this test, which replies late,
 * wrongly, twice or not at all. */
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

#include "kubedns/serve/upstream/transport.h"
#include "tests/unit/worker_world.h"

enum { WAIT_MS = 5000, QUESTIONS = 80 };

static struct transport *transport;
static struct remote *remote;
static struct server server; /* of `remote` */
static int udp, listener;

/* The questions, and what has happened to them. */
static struct inflight questions[QUESTIONS];
static struct exchange exchanges[QUESTIONS];
static struct {
	unsigned replies, losses;
	size_t len;
	bool truncated;
} seen[QUESTIONS];

static unsigned
index_of(const struct exchange *exchange)
{
	return (unsigned)(exchange - exchanges);
}

static void
on_reply(void *arg, struct exchange *exchange, const uint8_t *reply, size_t len, bool over_tcp)
{
	(void)arg;
	seen[index_of(exchange)].replies++;
	seen[index_of(exchange)].len = len;
	seen[index_of(exchange)].truncated = (wire_get16(reply + 2) & FLAG_TC) != 0;
	if (!over_tcp)
		exchange_end(exchange);
}

static void
on_lost(void *arg, struct exchange *exchange, bool over_tcp)
{
	(void)arg;
	seen[index_of(exchange)].losses++;
	if (!over_tcp)
		exchange_end(exchange);
}

static int
begin_with(unsigned pipelined)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof in;
	char text[32];

	memset(exchanges, 0, sizeof exchanges);
	memset(questions, 0, sizeof questions);
	memset(seen, 0, sizeof seen);
	memset(&stats, 0, sizeof stats);
	context.stats = &stats;
	context.epoll = epoll_create1(EPOLL_CLOEXEC);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&in, len), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&in, &len), 0);
	assert_int_equal(listen(listener, 16), 0);
	udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (bind(udp, (struct sockaddr *)&in, len) != 0) { /* another program has this port */
		close(udp);
		close(listener);
		close(context.epoll);
		return begin_with(pipelined);
	}
	server = (struct server){ .addr = { .family = AF_INET, .bytes = { 127, 0, 0, 1 } },
		.port = ntohs(in.sin_port) };
	table = NULL;
	transport = transport_new(&context);
	remote = remote_new(transport, &server, pipelined,
	    (struct remote_ops){ .reply = on_reply, .lost = on_lost });
	for (unsigned i = 0; i < QUESTIONS; i++) {
		snprintf(text, sizeof text, "n%u.example.com.", i);
		questions[i].chase = true; /* the name is the target */
		assert_int_equal(dname_from_text(&questions[i].info.target, text), 0);
		questions[i].type = TYPE_A;
		exchanges[i].remote = remote;
		exchanges[i].question = &questions[i];
	}
	return 0;
}

static int
begin(void **state)
{
	(void)state;
	return begin_with(1);
}

static int
end(void **state)
{
	(void)state;
	for (unsigned i = 0; i < QUESTIONS; i++)
		exchange_end(&exchanges[i]);
	remote_release(remote);
	transport_free(transport);
	close(udp);
	close(listener);
	close(context.epoll);
	return 0;
}

/* Handles all events that have arrived. */
static void
handle_events(int wait_ms)
{
	struct epoll_event event;

	while (epoll_wait(context.epoll, &event, 1, wait_ms) == 1) {
		uint32_t slot = worker_key_slot(event.data.u64),
			 tag = worker_key_tag(event.data.u64);

		if (worker_key_part(event.data.u64) == PART_TRANSPORT_UDP)
			transport_udp_event(transport, slot, tag);
		else
			transport_tcp_event(transport, slot, tag, event.events);
		transport_iteration(transport);
		wait_ms = 0;
	}
}

/* Sends the question over UDP. */
static void
send_question(unsigned i)
{
	assert_int_equal(exchange_send(&exchanges[i]), 0);
	transport_iteration(transport);
}

struct packet {
	struct sockaddr_in from;
	size_t len;
	uint8_t wire[DNS_UDP_QUERY_MAX];
};

/* Reads a question as the server, and makes a reply with the same header and question of it. */
static struct packet
take_question(void)
{
	struct packet message;
	struct pollfd ready = { .fd = udp, .events = POLLIN };
	socklen_t len = sizeof message.from;

	assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
	ssize_t n = recvfrom(
	    udp, message.wire, sizeof message.wire, 0, (struct sockaddr *)&message.from, &len);
	assert_true(n > DNS_HEADER);
	message.len = (size_t)n;
	message.wire[2] |= 0x80;
	return message;
}

static void
reply_from(int fd, const struct packet *message)
{
	assert_int_equal(sendto(fd, message->wire, message->len, 0,
			     (const struct sockaddr *)&message->from, sizeof message->from),
	    message->len);
}

/* Sends a reply, and checks that question 0 has as many replies as `expected`. A right reply to
 * question 1 shows that the first one was handled. */
static void
expect_after(const struct packet *message, unsigned expected)
{
	reply_from(udp, message);
	exchange_end(&exchanges[1]);
	memset(&seen[1], 0, sizeof seen[1]);
	send_question(1);
	struct packet marker = take_question();
	reply_from(udp, &marker);
	for (unsigned i = 0; i < 1000 && seen[1].replies == 0; i++)
		handle_events(WAIT_MS);
	assert_int_equal(seen[1].replies, 1);
	assert_int_equal(seen[0].replies, expected);
	assert_int_equal(seen[0].losses, 0);
}

static void
what_does_not_answer_the_question_is_ignored_over_udp(void **state)
{
	(void)state;
	send_question(0);
	const struct packet right = take_question();
	struct packet wrong = right;
	wrong.len = 1;
	expect_after(&wrong, 0);
	wrong.len = DNS_HEADER - 1;
	expect_after(&wrong, 0);
	wrong.len = DNS_HEADER; /* the question is missing */
	expect_after(&wrong, 0);
	wrong = right;
	wrong.wire[1] ^= 1; /* another ID */
	expect_after(&wrong, 0);
	wrong = right;
	wrong.wire[2] &= 0x7f; /* a query */
	expect_after(&wrong, 0);
	wrong = right;
	wrong.wire[DNS_HEADER + 1] ^= 1; /* another name */
	expect_after(&wrong, 0);
	wrong = right;
	const size_t end = DNS_HEADER + dname_length(right.wire + DNS_HEADER, DNAME_MAX);
	wrong.wire[end + 1] = TYPE_AAAA;
	expect_after(&wrong, 0);
	wrong = right;
	wrong.wire[end + 3] = CLASS_IN + 2;
	expect_after(&wrong, 0);
	wrong = right;
	wrong.wire[5] = 2; /* two questions */
	expect_after(&wrong, 0);
	wrong = right;
	memset(wrong.wire + 2, 0xff, wrong.len - 2);
	expect_after(&wrong, 0);
	assert_int_equal(stats.forward_replies_ignored, 10);
	expect_after(&right, 1);
	assert_int_equal(stats.forward_replies_ignored, 10);
	assert_int_equal(seen[0].len, right.len);
}

/* The query's OPT allows 1,232 bytes. */
static void
a_reply_longer_than_the_buffer_is_a_truncated_reply(void **state)
{
	struct packet packet;
	uint8_t wire[DNS_UDP_QUERY_MAX + 1] = { 0 };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		send_question(i);
		packet = take_question();
		const size_t end =
		    DNS_HEADER + dname_length(packet.wire + DNS_HEADER, DNAME_MAX) + 4;
		const size_t len = DNS_UDP_QUERY_MAX + i;
		memcpy(wire, packet.wire, packet.len);
		wire_put16(wire + 6, 100);
		assert_int_equal(sendto(udp, wire, len, 0, (const struct sockaddr *)&packet.from,
				     sizeof packet.from),
		    len);
		handle_events(WAIT_MS);
		assert_int_equal(seen[i].replies, 1);
		assert_int_equal(seen[i].truncated, i == 1);
		assert_int_equal(seen[i].len, i == 1 ? end : len);
	}
}

/* An error may have no question, but an answer must have it. */
static void
without_a_question_only_an_error_is_a_reply(void **state)
{
	(void)state;
	send_question(0);
	struct packet reply = take_question();
	memset(reply.wire + 4, 0, DNS_HEADER - 4);
	reply.len = DNS_HEADER;
	expect_after(&reply, 0);
	reply.wire[3] = RCODE_NXDOMAIN;
	expect_after(&reply, 0);
	reply.wire[3] = RCODE_REFUSED;
	reply.wire[1] ^= 1; /* another ID */
	expect_after(&reply, 0);
	reply.wire[1] ^= 1;
	reply.wire[2] &= 0x7f; /* a query */
	expect_after(&reply, 0);
	reply.wire[2] |= 0x80;
	reply.wire[7] = 1; /* an answer record */
	expect_after(&reply, 0);
	reply.wire[7] = 0;
	expect_after(&reply, 1);
}

static void
a_second_reply_and_a_late_one_are_ignored(void **state)
{
	(void)state;
	send_question(0);
	struct packet reply = take_question();
	expect_after(&reply, 1);
	expect_after(&reply, 1);
	send_question(2);
	reply = take_question();
	exchange_end(&exchanges[2]);
	expect_after(&reply, 1);
	assert_int_equal(seen[2].replies, 0);
}

static void
a_reply_from_another_address_or_port_is_ignored(void **state)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int port = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
	    address = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_int_equal(bind(port, (struct sockaddr *)&in, sizeof in), 0);
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	in.sin_port = htons(server.port);
	assert_int_equal(bind(address, (struct sockaddr *)&in, sizeof in), 0);
	send_question(0);
	struct packet right = take_question();
	reply_from(port, &right);
	reply_from(address, &right);
	handle_events(100);
	assert_int_equal(seen[0].replies, 0);
	expect_after(&right, 1);
	close(port);
	close(address);
}

static void
at_most_32_questions_have_the_same_port_and_all_have_other_ids(void **state)
{
	struct packet messages[65];
	unsigned ports[65] = { 0 }, distinct = 0;

	(void)state;
	for (unsigned i = 0; i < 65; i++)
		assert_int_equal(exchange_send(&exchanges[i]), 0);
	transport_iteration(transport);
	for (unsigned i = 0; i < 65; i++) {
		unsigned at = 0;

		messages[i] = take_question();
		while (at < distinct && ports[at] != messages[i].from.sin_port)
			at++;
		if (at == distinct)
			ports[distinct++] = messages[i].from.sin_port;
		for (unsigned other = 0; other < i; other++)
			assert_false(
			    messages[other].from.sin_port == messages[i].from.sin_port &&
			    wire_get16(messages[other].wire) == wire_get16(messages[i].wire));
	}
	assert_int_equal(distinct, 3);
	for (unsigned i = 0; i < 65; i++)
		reply_from(udp, &messages[i]);
	handle_events(WAIT_MS);
	for (unsigned i = 0; i < 65; i++)
		assert_int_equal(seen[i].replies, 1);
}

/* The route to the server may have changed, and with it the source address. */
static void
after_a_question_without_a_reply_the_next_has_another_port(void **state)
{
	(void)state;
	send_question(0);
	struct packet first = take_question();
	exchange_end(&exchanges[0]);
	send_question(2);
	assert_int_not_equal(take_question().from.sin_port, first.from.sin_port);
}

/* Any question of the port may be the refused one. */
static void
a_refusal_is_a_loss_for_each_question_of_the_port(void **state)
{
	(void)state;
	close(udp);
	udp = -1;
	send_question(0);
	handle_events(WAIT_MS);
	assert_int_equal(seen[0].losses, 1);
	assert_int_equal(seen[0].replies, 0);
}

/* A server that refuses has as many ports as the transport keeps idle, and more. */
static void
after_a_refusal_the_port_that_is_not_kept_for_reuse_is_not_used(void **state)
{
	enum { REMOTES = 40 };
	struct remote *remotes[REMOTES];

	(void)state;
	close(udp);
	udp = -1;
	for (unsigned i = 0; i < REMOTES; i++) {
		remotes[i] = remote_new(transport, &server, 1,
		    (struct remote_ops){ .reply = on_reply, .lost = on_lost });
		exchanges[i].remote = remotes[i];
		send_question(i);
	}
	handle_events(WAIT_MS);
	for (unsigned i = 0; i < REMOTES; i++) {
		assert_int_equal(seen[i].losses, 1);
		remote_release(remotes[i]);
		exchanges[i].remote = remote;
	}
}

/* The socket of a question that one server has refused is reused for the next server. */
static void
a_refusal_is_not_reported_for_another_server(void **state)
{
	(void)state;
	int down = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof in;
	assert_int_equal(bind(down, (struct sockaddr *)&in, len), 0);
	assert_int_equal(getsockname(down, (struct sockaddr *)&in, &len), 0);
	close(down);
	struct server refusing = server;
	refusing.port = ntohs(in.sin_port);
	struct remote *other =
	    remote_new(transport, &refusing, 1, (struct remote_ops){ .lost = on_lost });
	exchanges[0].remote = other;
	send_question(0);
	exchange_end(&exchanges[0]);
	exchanges[0].remote = remote;
	remote_release(other);
	send_question(1);
	struct packet reply = take_question();
	assert_int_equal(seen[1].losses, 0);
	reply_from(udp, &reply);
	handle_events(WAIT_MS);
	assert_int_equal(seen[1].replies, 1);
}

/* --- TCP --- */

struct conn {
	size_t len;
	int fd;
	uint8_t wire[2 + DNS_UDP_QUERY_MAX]; /* the last question, as a reply */
};

static struct conn
accept_conn(void)
{
	struct pollfd ready = { .fd = listener, .events = POLLIN };

	handle_events(0);
	assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
	return (struct conn){ .fd = accept(listener, NULL, NULL) };
}

static void
conn_take(struct conn *conn)
{
	struct pollfd ready = { .fd = conn->fd, .events = POLLIN };

	handle_events(0);
	assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
	assert_int_equal(recv(conn->fd, conn->wire, 2, MSG_WAITALL), 2);
	conn->len = 2u + wire_get16(conn->wire);
	assert_int_equal(recv(conn->fd, conn->wire + 2, conn->len - 2, MSG_WAITALL), conn->len - 2);
	conn->wire[4] |= 0x80;
}

/* Sends the bytes of the reply from `from` to `to`. */
static void
conn_send(const struct conn *conn, size_t from, size_t to)
{
	assert_int_equal(send(conn->fd, conn->wire + from, to - from, MSG_NOSIGNAL), to - from);
	handle_events(WAIT_MS);
}

static void
conn_close(struct conn *conn)
{
	close(conn->fd);
	handle_events(WAIT_MS);
}

static void
over_tcp_a_reply_in_pieces_is_taken_and_an_idle_connection_is_closed(void **state)
{
	struct pollfd closed = { .events = POLLIN };
	uint8_t byte;

	(void)state;
	exchange_over_tcp(&exchanges[0]);
	struct conn conn = accept_conn();
	conn_take(&conn);
	conn_send(&conn, 0, 1);
	conn_send(&conn, 1, 7);
	assert_int_equal(seen[0].replies, 0);
	conn_send(&conn, 7, conn.len);
	assert_int_equal(seen[0].replies, 1);
	closed.fd = conn.fd;
	assert_int_equal(poll(&closed, 1, WAIT_MS), 1);
	assert_int_equal(recv(conn.fd, &byte, 1, 0), 0);
	close(conn.fd);
}

static void
over_tcp_a_reply_that_ends_in_the_middle_or_answers_nothing_is_a_loss(void **state)
{
	enum { ENDS, OTHER_ID, OTHER_NAME, EMPTY, SHORT, KINDS };

	(void)state;
	for (unsigned i = 0; i < KINDS; i++) {
		exchange_over_tcp(&exchanges[i]);
		struct conn conn = accept_conn();
		conn_take(&conn);
		if (i == ENDS) {
			conn_send(&conn, 0, conn.len - 1);
			conn_close(&conn);
		} else if (i == EMPTY || i == SHORT) {
			wire_put16(conn.wire, i == EMPTY ? 0 : DNS_HEADER - 1);
			conn_send(&conn, 0, i == EMPTY ? 2 : 2 + DNS_HEADER - 1);
			close(conn.fd);
		} else {
			conn.wire[i == OTHER_ID ? 3 : 2 + DNS_HEADER + 1] ^= 1;
			conn_send(&conn, 0, conn.len);
			close(conn.fd);
		}
		assert_int_equal(seen[i].losses, 1);
		assert_int_equal(seen[i].replies, 0);
		assert_int_equal(stats.forward_replies_ignored, i);
	}
}

/* After a second reply to a question, no further message on the connection is used. */
static void
over_tcp_a_second_reply_is_ignored_and_ends_the_connection(void **state)
{
	(void)state;
	end(NULL);
	begin_with(TRANSPORT_PIPELINED);
	exchange_over_tcp(&exchanges[0]);
	exchange_over_tcp(&exchanges[1]);
	struct conn conn = accept_conn();
	conn_take(&conn);
	conn_send(&conn, 0, conn.len);
	assert_int_equal(seen[0].replies + seen[1].replies, 1);
	conn_send(&conn, 0, conn.len);
	assert_int_equal(seen[0].replies + seen[1].replies, 1);
	assert_int_equal(seen[0].losses + seen[1].losses, 1);
	assert_int_equal(seen[0].losses + seen[0].replies, 1);
	close(conn.fd);
}

/* dnsmasq closes a connection after 100 questions. */
static void
a_question_on_a_connection_that_the_server_has_used_and_closed_is_sent_once_more(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 9; i++)
		exchange_over_tcp(
		    &exchanges[i]); /* client 0 has half of the 8 connections; the others wait */
	struct conn first = accept_conn();
	conn_take(&first);
	conn_send(&first, 0, first.len);
	conn_take(&first); /* a question that has waited */
	conn_close(&first);
	struct conn again;
	do { /* the other three connections come first */
		again = accept_conn();
		conn_take(&again);
	} while (memcmp(again.wire + 4 + 2, first.wire + 4 + 2, first.len - 6) != 0);
	conn_close(&again);
	unsigned losses = 0;
	for (unsigned i = 0; i < 9; i++)
		losses += seen[i].losses;
	assert_int_equal(losses, 1);
}

/* The connection has answered its question, and the next one cannot be sent on it. */
static void
a_question_that_its_connection_cannot_take_is_lost_once(void **state)
{
	struct conn conns[4];
	struct epoll_event event;

	(void)state;
	for (unsigned i = 0; i < 5; i++)
		exchange_over_tcp(&exchanges[i]); /* the last one waits */
	for (unsigned i = 0; i < 4; i++) {
		conns[i] = accept_conn();
		conn_take(&conns[i]);
	}
	assert_int_equal(
	    send(conns[0].fd, conns[0].wire, conns[0].len, MSG_NOSIGNAL), conns[0].len);
	assert_int_equal(epoll_wait(context.epoll, &event, 1, WAIT_MS), 1);
	int epoll = context.epoll;
	context.epoll = -1; /* epoll_ctl() fails */
	transport_tcp_event(transport, worker_key_slot(event.data.u64),
	    worker_key_tag(event.data.u64), event.events);
	context.epoll = epoll;
	assert_int_equal(seen[4].losses, 1);
	for (unsigned i = 0; i < 4; i++)
		close(conns[i].fd);
}

static void
questions_on_one_connection_are_answered_in_any_order(void **state)
{
	struct conn replies[3];

	(void)state;
	end(NULL);
	begin_with(TRANSPORT_PIPELINED);
	for (unsigned i = 0; i < 3; i++)
		exchange_over_tcp(&exchanges[i]);
	struct conn conn = accept_conn();
	for (unsigned i = 0; i < 3; i++) {
		conn_take(&conn);
		replies[i] = conn;
	}
	conn_send(&replies[2], 0, replies[2].len);
	assert_int_equal(seen[2].replies, 1);
	exchange_end(&exchanges[1]); /* its reply is ignored */
	conn_send(&replies[1], 0, replies[1].len);
	assert_int_equal(seen[1].replies, 0);
	conn_send(&replies[0], 0, replies[0].len);
	assert_int_equal(seen[0].replies, 1);
	assert_int_equal(seen[0].losses + seen[1].losses + seen[2].losses, 0);
	close(conn.fd);
}

static void
a_silent_connection_is_given_up_with_all_its_questions(void **state)
{
	(void)state;
	end(NULL);
	begin_with(TRANSPORT_PIPELINED);
	exchange_over_tcp(&exchanges[0]);
	exchange_over_tcp(&exchanges[1]);
	struct conn conn = accept_conn();
	conn_take(&conn);
	context.now_ns += NS_PER_S;
	exchange_end(&exchanges[0]);
	handle_events(WAIT_MS);
	assert_int_equal(seen[1].losses, 1);
	assert_int_equal(seen[0].losses, 0);
	close(conn.fd);
}

/* Another server has answered the question that ends. */
static void
a_connection_is_not_silent_because_a_question_ends_at_once(void **state)
{
	(void)state;
	end(NULL);
	begin_with(TRANSPORT_PIPELINED);
	exchange_over_tcp(&exchanges[0]);
	exchange_over_tcp(&exchanges[1]);
	struct conn conn = accept_conn();
	conn_take(&conn);
	exchange_end(&exchanges[0]);
	conn_take(&conn);
	conn_send(&conn, 0, conn.len);
	assert_int_equal(seen[1].losses, 0);
	assert_int_equal(seen[1].replies, 1);
	close(conn.fd);
}

static void
a_released_server_stays_until_its_last_question_has_ended(void **state)
{
	(void)state;
	send_question(0);
	struct packet reply = take_question();
	remote_release(remote);
	reply_from(udp, &reply);
	handle_events(WAIT_MS);
	assert_int_equal(seen[0].replies, 1);
	remote = remote_new(transport, &server, 1, (struct remote_ops){ .lost = on_lost });
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(what_does_not_answer_the_question_is_ignored_over_udp),
		TEST(without_a_question_only_an_error_is_a_reply),
		TEST(a_reply_longer_than_the_buffer_is_a_truncated_reply),
		TEST(a_second_reply_and_a_late_one_are_ignored),
		TEST(a_reply_from_another_address_or_port_is_ignored),
		TEST(at_most_32_questions_have_the_same_port_and_all_have_other_ids),
		TEST(after_a_question_without_a_reply_the_next_has_another_port),
		TEST(a_refusal_is_a_loss_for_each_question_of_the_port),
		TEST(after_a_refusal_the_port_that_is_not_kept_for_reuse_is_not_used),
		TEST(a_refusal_is_not_reported_for_another_server),
		TEST(over_tcp_a_reply_in_pieces_is_taken_and_an_idle_connection_is_closed),
		TEST(over_tcp_a_reply_that_ends_in_the_middle_or_answers_nothing_is_a_loss),
		TEST(over_tcp_a_second_reply_is_ignored_and_ends_the_connection),
		TEST(
		    a_question_on_a_connection_that_the_server_has_used_and_closed_is_sent_once_more),
		TEST(a_question_that_its_connection_cannot_take_is_lost_once),
		TEST(questions_on_one_connection_are_answered_in_any_order),
		TEST(a_silent_connection_is_given_up_with_all_its_questions),
		TEST(a_connection_is_not_silent_because_a_question_ends_at_once),
		TEST(a_released_server_stays_until_its_last_question_has_ended),
	};
#undef TEST

	return cmocka_run_group_tests(tests, make_world, end_world);
}
