/* Queries in flight to another server: their limits, deadlines and retries, and which query is
 * evicted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/serve/upstream/forwarded_cache.h"
#include "lib/hash.h"
#include "tests/unit/worker_world.h"

enum { ASKED_MAX = 4096, DEADLINE_MS = FORWARD_TIMEOUT_MS };

/* The calls of a forwarder and of clients. The forwarder and the clients only record them. */
static struct {
	struct inflight *asked[ASKED_MAX]; /* NULL after the query has ended */
	unsigned count, retried;
	unsigned replies, held;
	uint32_t client; /* the client that got the last reply */
	unsigned rcode;
	uint16_t id;
	uint8_t buffer[DNS_TCP_MAX];
} seen;

static void
ask(void *arg, struct inflight *inflight)
{
	(void)arg;
	assert_true(seen.count < ASKED_MAX);
	seen.asked[seen.count++] = inflight;
}

static void
retry(void *arg, struct inflight *inflight)
{
	(void)arg;
	(void)inflight;
	seen.retried++;
}

static void
forget(void *arg, struct inflight *inflight)
{
	(void)arg;
	for (unsigned i = 0; i < seen.count; i++)
		if (seen.asked[i] == inflight)
			seen.asked[i] = NULL;
}

static void
hold(void *arg, const struct client *client)
{
	(void)arg;
	(void)client;
	seen.held++;
}

static uint8_t *
buffer(void *arg, const struct client *client, size_t *max)
{
	(void)arg;
	(void)client;
	*max = DNS_UDP_PAYLOAD;
	return seen.buffer;
}

static void
done(void *arg, const struct client *client, size_t len)
{
	(void)arg;
	assert_true(len >= DNS_HEADER);
	seen.replies++;
	seen.client = client->hash;
	seen.rcode = seen.buffer[3] & 15;
	seen.id = wire_get16(seen.buffer);
}

static void
start(unsigned max, unsigned client_max, int64_t hold_ms)
{
	const struct client_ops clients = { NULL, hold, buffer, done };

	memset(&seen, 0, sizeof seen);
	memset(&stats, 0, sizeof stats);
	context.now_ns = 1;
	context.stirred = false;
	table = inflight_new(&context, &clients, max, client_max);
	*inflight_ops(table) = (struct forward_ops){ .size = sizeof(struct inflight),
		.retry_ns = 1000 * INT64_C(1000000),
		.stored_ns = hold_ms * 1000000,
		.ask = ask,
		.retry = retry,
		.forget = forget };
}

static void
pass_ms(int64_t ms)
{
	context.now_ns += ms * 1000000;
	inflight_iteration(table);
}

static void
finish(void)
{
	inflight_finish_all(table);
	assert_int_equal(stats.forward_in_flight, 0);
	inflight_free(table);
}

/* Sends a query of the client for this external name. Returns the rcode if there was a reply, else
 * -1. */
static int
query_for(struct client client, uint16_t id, const char *text)
{
	struct answer_info info = { .below = -1 };
	struct dname name;
	struct tree_path path;
	uint8_t wire[DNS_UDP_QUERY_MAX];
	unsigned replies = seen.replies;

	assert_int_equal(dname_from_text(&name, text), 0);
	size_t len = query_write(wire, sizeof wire, id, name.wire, TYPE_A, CLASS_IN, 0);
	answer_read(&config, wire, len, &info, &path);
	info.system = SYSTEM_RECURSIVE; /* answer_found() sets this */
	inflight_start(table, &client, wire, len, ANSWER_FORWARD, &info);
	return seen.replies > replies && seen.client == client.hash && seen.id == id
		   ? (int)seen.rcode
		   : -1;
}

/* Sends a query from the client whose address has this hash. No other client looks up the name. */
static int
query_from(uint32_t hash, uint16_t id)
{
	static unsigned number;
	char text[64];

	snprintf(text, sizeof text, "n%u.example.com.", number++);
	return query_for((struct client){ .proto = PROTO_UDP, .hash = hash }, id, text);
}

/* Sends queries until one is refused. Returns how many queries are in flight at that time. */
static unsigned
greedy(uint32_t hash)
{
	unsigned count = 0;

	while (query_from(hash, (uint16_t)count) == -1)
		count++;
	assert_int_equal(seen.rcode, RCODE_REFUSED);
	return count;
}

/* Delivers an upstream reply to the query: NXDOMAIN. */
static void
reply_to(struct inflight *inflight)
{
	uint8_t wire[INFLIGHT_QUESTION_MAX];
	size_t len = inflight_question(inflight, 7, true, wire);

	wire[2] |= 0x80;
	wire[3] = RCODE_NXDOMAIN;
	inflight_finish(table, inflight, wire, len);
}

static void
the_reply_is_what_the_other_server_said(void **state)
{
	(void)state;
	start(10, 10, 0);
	assert_int_equal(query_from(1, 4711), -1);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.held, 1);
	assert_int_equal(stats.forward_in_flight, 1);
	reply_to(seen.asked[0]);
	assert_int_equal(seen.replies, 1);
	assert_int_equal(seen.rcode, RCODE_NXDOMAIN);
	assert_int_equal(seen.id, 4711);
	assert_int_equal(stats.forward_failed, 0);
	finish();
	assert_int_equal(seen.replies, 1);
}

static void
without_an_answer_it_is_retried_and_then_servfail_at_the_deadline(void **state)
{
	(void)state;
	start(10, 10, 0);
	query_from(1, 1);
	pass_ms(999);
	assert_int_equal(seen.retried, 0);
	pass_ms(1);
	assert_int_equal(seen.retried, 1);
	pass_ms(1000);
	pass_ms(1000);
	assert_int_equal(seen.retried, 3);
	pass_ms(DEADLINE_MS - 3001);
	assert_int_equal(seen.replies, 0);
	pass_ms(1);
	assert_int_equal(seen.replies, 1);
	assert_int_equal(seen.rcode, RCODE_SERVFAIL);
	assert_int_equal(stats.forward_failed, 1);
	assert_null(seen.asked[0]);
	finish();
}

/* The interval depends on the number of servers, which the ConfigMap may change at any time. */
static void
a_shorter_interval_holds_for_queries_in_flight_and_new_ones(void **state)
{
	(void)state;
	start(10, 10, 0);
	query_from(1, 1);
	pass_ms(10);
	inflight_retry_every(table, 250 * INT64_C(1000000));
	pass_ms(20);
	query_from(1, 2);
	pass_ms(229);
	assert_int_equal(seen.retried, 0);
	pass_ms(1);
	assert_int_equal(seen.retried, 1);
	pass_ms(20);
	assert_int_equal(seen.retried, 2);
	finish();
}

static void
one_client_alone_gets_its_maximum_and_no_more(void **state)
{
	(void)state;
	start(2048, 512, 0);
	assert_int_equal(greedy(1), 512);
	assert_int_equal(stats.dropped[DROP_FORWARD_CLIENT], 1);
	reply_to(seen.asked[0]);
	assert_int_equal(query_from(1, 0), -1);
	finish();
}

static void
greedy_clients_leave_room_for_the_others(void **state)
{
	(void)state;
	unsigned used = 0;
	start(2048, 512, 0);
	for (uint32_t client = 1; client <= 5; client++)
		used += greedy(client);
	assert_true(used < 2048 - 2048 / 8);
	for (uint32_t client = 100; client < 200; client++)
		assert_int_equal(query_from(client, 0), -1);
	finish();
}

static void
when_full_the_oldest_query_of_who_has_most_makes_room(void **state)
{
	(void)state;
	start(16, 8, 0);
	assert_int_equal(greedy(1), 5);
	for (uint32_t client = 2; client <= 12; client++)
		assert_int_equal(query_from(client, 0), -1);
	assert_int_equal(stats.forward_in_flight, 16);
	assert_int_equal(query_from(77, 0), -1);
	assert_int_equal(stats.dropped[DROP_FORWARD_EVICTED], 1);
	assert_int_equal(stats.forward_in_flight, 16);
	assert_null(seen.asked[0]);
	assert_int_equal(seen.client, 1);
	assert_int_equal(seen.rcode, RCODE_SERVFAIL);
	for (uint32_t client = 100; client < 103; client++)
		assert_int_equal(query_from(client, 0), -1);
	/* Each client has one query, so the newest query is refused. */
	assert_int_equal(query_from(200, 0), RCODE_REFUSED);
	assert_int_equal(stats.dropped[DROP_FORWARD_TOTAL], 1);
	assert_int_equal(stats.dropped[DROP_FORWARD_EVICTED], 4);
	finish();
}

static void
what_the_resolver_holds_counts_until_it_lets_go(void **state)
{
	(void)state;
	start(1400, 512, 11000);
	unsigned first = greedy(1), second = greedy(2);
	assert_true(first + second < 1400);
	pass_ms(DEADLINE_MS);
	assert_int_equal(stats.forward_in_flight, 0);
	assert_int_equal(query_from(1, 0), RCODE_SERVFAIL);
	assert_int_equal(query_from(2, 0), RCODE_SERVFAIL);
	for (uint32_t client = 100; client < 200; client++)
		assert_int_equal(query_from(client, 0), -1);
	pass_ms(11000 - DEADLINE_MS - 1);
	assert_int_equal(query_from(1, 0), RCODE_SERVFAIL);
	pass_ms(1);
	assert_int_equal(query_from(1, 0), -1);
	finish();
}

static void
an_answered_query_is_not_stored(void **state)
{
	(void)state;
	start(1400, 512, 11000);
	unsigned most = greedy(1);
	for (unsigned i = 0; i < seen.count; i++)
		reply_to(seen.asked[i]);
	assert_int_equal(greedy(1), most);
	finish();
}

/* The resolver never gets more queries than it accepts, however many clients there are. */
static void
a_holding_resolver_is_never_given_more_than_it_takes(void **state)
{
	(void)state;
	start(160, 64, 11000);
	for (uint32_t client = 0; client < 1000; client++) {
		query_from(client, 0);
		query_from(client, 1);
		if (client % 100 == 0)
			pass_ms(DEADLINE_MS / 2);
	}
	assert_in_range(seen.count, 160, 2 * (160 + 10));
	assert_true(stats.dropped[DROP_FORWARD_TOTAL] > 0);
	for (int i = 0; i < 4; i++)
		pass_ms(DEADLINE_MS);
	assert_int_equal(query_from(1, 0), -1);
	finish();
}

static void
a_query_longer_than_another_server_reads_is_refused(void **state)
{
	(void)state;
	struct client client = { .proto = PROTO_TCP, .hash = 1 };
	struct answer_info info = { .query = { .has_question = false } };
	static uint8_t wire[DNS_UDP_QUERY_MAX + 1];
	start(10, 10, 0);
	inflight_start(table, &client, wire, sizeof wire, ANSWER_FORWARD, &info);
	assert_int_equal(seen.count, 0);
	assert_int_equal(seen.rcode, RCODE_REFUSED);
	assert_int_equal(stats.dropped[DROP_FORWARD_SIZE], 1);
	finish();
}

/* Delivers an answer with a TTL of a minute. */
static void
answer_to(struct inflight *inflight)
{
	static const uint8_t record[] = { 0xc0, DNS_HEADER, 0, TYPE_A, 0, CLASS_IN, 0, 0, 0, 60, 0,
		4, 192, 0, 2, 1 };
	uint8_t wire[INFLIGHT_QUESTION_MAX];
	size_t len =
	    query_write(wire, sizeof wire, 7, inflight_name(inflight), inflight->type, CLASS_IN, 0);

	wire[2] |= 0x80;
	wire[7] = 1;
	memcpy(wire + len, record, sizeof record);
	inflight_finish(table, inflight, wire, len + sizeof record);
}

static void
what_is_kept_is_answered_at_once_and_takes_no_place(void **state)
{
	(void)state;
	start(10, 10, 0);
	struct forwarded_cache *cache = forwarded_cache_new(FORWARDED_CACHE_LEAST, HASH_START);
	inflight_cache(table, cache);
	assert_int_equal(
	    query_for((struct client){ .proto = PROTO_UDP, .hash = 1 }, 1, "www.example.com."), -1);
	unsigned asked = greedy(1) + 1; /* none has an answer yet, so all are sent */
	assert_int_equal(stats.cache_misses, asked + 1);
	assert_true(context.stirred); /* the timers of the queries are running */
	answer_to(seen.asked[0]);
	context.stirred = false;
	for (uint16_t id = 0; id < 100; id++)
		assert_int_equal(query_for((struct client){ .proto = PROTO_UDP, .hash = 1 }, id,
				     "www.example.com."),
		    RCODE_NOERROR);
	assert_false(context.stirred);
	assert_int_equal(seen.count, asked);
	assert_int_equal(stats.forward_in_flight, asked - 1);
	assert_int_equal(stats.cache_hits, 100);
	assert_int_equal(seen.held, 1 + asked + 100);
	pass_ms(DEADLINE_MS);
	pass_ms(FORWARDED_CACHE_MAX_S * 1000 - DEADLINE_MS);
	assert_int_equal(
	    query_for((struct client){ .proto = PROTO_UDP, .hash = 1 }, 0, "www.example.com."), -1);
	finish();
	forwarded_cache_free(cache);
}

static const struct client udp_1 = { .proto = PROTO_UDP, .hash = 1 },
			   udp_2 = { .proto = PROTO_UDP, .hash = 2 },
			   tcp_2 = { .proto = PROTO_TCP, .hash = 2 };

static void
identical_questions_are_asked_once_and_all_answered(void **state)
{
	(void)state;
	start(2048, 512, 0);
	for (uint16_t i = 0; i < 200; i++) {
		assert_int_equal(query_for(udp_1, i, "www.example.com."), -1);
		assert_int_equal(query_for(udp_2, i, "WWW.example.com."), -1);
	}
	assert_int_equal(seen.count, 1);
	assert_int_equal(stats.forward_joined, 399);
	assert_int_equal(stats.forward_in_flight, 400);
	reply_to(seen.asked[0]);
	assert_int_equal(seen.replies, 400);
	assert_int_equal(seen.rcode, RCODE_NXDOMAIN);
	assert_int_equal(stats.forward_in_flight, 0);
	assert_int_equal(query_for(udp_1, 1, "www.example.com."), -1);
	assert_int_equal(seen.count, 2);
	finish();
}

/* Each query needs its own answer. Its name is different, or its client uses TCP and needs the
 * whole of a long answer. */
static void
other_questions_are_not_joined(void **state)
{
	(void)state;
	start(2048, 512, 0);
	query_for(udp_1, 1, "www.example.com.");
	query_for(udp_1, 2, "www.example.org.");
	query_for(tcp_2, 3, "www.example.com.");
	assert_int_equal(seen.count, 3);
	assert_int_equal(stats.forward_joined, 0);
	finish();
}

static void
who_joins_counts_as_every_query(void **state)
{
	(void)state;
	start(100, 10, 0);
	for (uint16_t i = 0; i < 10; i++)
		assert_int_equal(query_for(udp_1, i, "www.example.com."), -1);
	assert_int_equal(query_for(udp_1, 10, "www.example.com."), RCODE_REFUSED);
	finish();
}

/* No server responds. Each client gets SERVFAIL at its own deadline. Several clients may wait for
 * one query. When it ends, it is sent again for the client with the latest deadline. */
static void
a_query_that_ends_hands_its_question_on(void **state)
{
	(void)state;
	start(2048, 512, 11000);
	for (uint16_t i = 0; i < 100; i++) {
		query_for(udp_1, i, "www.example.com.");
		pass_ms(20);
	}
	assert_int_equal(seen.count, 1);
	pass_ms(DEADLINE_MS - 2000);
	assert_int_equal(seen.replies, 1);
	assert_int_equal(seen.rcode, RCODE_SERVFAIL);
	assert_int_equal(seen.count, 2);
	pass_ms(1960);
	assert_int_equal(seen.replies, 99);
	assert_int_equal(seen.count, 2);
	reply_to(seen.asked[1]);
	assert_int_equal(seen.rcode, RCODE_NXDOMAIN);
	assert_int_equal(seen.replies, 100);
	assert_int_equal(stats.forward_failed, 99);
	finish();
}

static void
what_was_never_asked_is_not_stored(void **state)
{
	(void)state;
	start(16, 16, 11000);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(query_for(udp_1, 1, "www.example.com."), -1);
	pass_ms(DEADLINE_MS);
	assert_int_equal(seen.replies, 5);
	assert_int_equal(stats.forward_in_flight, 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(query_for(udp_1, 1, "www.example.com."), -1);
	finish();
}

/* The server does not answer new names of the client. The client can still query names that had an
 * answer before. */
static void
known_names_are_asked_when_the_resolver_holds_too_many(void **state)
{
	(void)state;
	start(64, 64, 11000);
	assert_int_equal(query_for(udp_1, 1, "www.example.com."), -1);
	reply_to(seen.asked[0]);
	unsigned asked = greedy(1) + 1;
	pass_ms(DEADLINE_MS);
	assert_int_equal(query_from(1, 1), RCODE_SERVFAIL);
	assert_int_equal(query_for(udp_1, 1, "WWW.example.com."), -1);
	assert_int_equal(seen.count, asked + 1);
	for (unsigned i = 0; i < 200; i++) { /* these are unanswered too */
		pass_ms(DEADLINE_MS / 20);
		query_for(udp_1, 1, "www.example.com.");
		query_from(1, 1);
	}
	finish();
}

/* A server answers many names once, and then no more. The client that looks them up again takes only
 * extra places. Other clients can look up new names. */
static void
known_names_without_an_answer_leave_places_for_others(void **state)
{
	(void)state;
	enum { NAMES = 2000 };
	char text[64];
	unsigned sent = 0;
	start(4096, 512, 11000);
	inflight_ops(table)->stored_max = 512;
	for (unsigned i = 0; i < NAMES; i++) {
		snprintf(text, sizeof text, "known%u.example.com.", i);
		assert_int_equal(query_for(udp_1, 1, text), -1);
		reply_to(seen.asked[seen.count - 1]);
		if (seen.count == ASKED_MAX / 2)
			seen.count = 0;
	}
	seen.count = 0;
	for (unsigned i = 0; i < NAMES; i++) {
		snprintf(text, sizeof text, "known%u.example.com.", i);
		sent += query_for(udp_1, 1, text) == -1;
		pass_ms(4);
	}
	assert_in_range(sent, 512 / 3, 512 / 2 + 512 / 8);
	for (uint32_t client = 100; client < 200; client++)
		assert_int_equal(query_from(client, 1), -1);
	assert_int_equal(stats.dropped[DROP_FORWARD_TOTAL], 0);
	finish();
}

/* A client may have one query in the fallback table. */
static void
a_query_without_a_place_at_the_fallback_waits_for_the_late_server(void **state)
{
	const struct client_ops clients = { NULL, hold, buffer, done };

	(void)state;
	start(100, 100, 0);
	struct inflight_table *fallback = inflight_new(&context, &clients, 100, 1);
	*inflight_ops(fallback) = *inflight_ops(table);
	inflight_ops(fallback)->has_servers = true;
	inflight_fallback(table, fallback);
	query_for(udp_2, 1, "n1.example.com.");
	inflight_no_reply(table, seen.asked[0]);
	assert_int_equal(stats.forward_fallback, 1);
	/* client 2 has no place, and waits for client 1's answer */
	query_for(udp_1, 2, "n2.example.com.");
	query_for(udp_2, 3, "n2.example.com.");
	inflight_no_reply(table, seen.asked[2]);
	assert_int_equal(stats.forward_fallback, 2);
	assert_int_equal(seen.replies, 0);
	reply_to(seen.asked[3]);
	assert_int_equal(seen.id, 3);
	assert_int_equal(seen.rcode, RCODE_NXDOMAIN);
	/* client 3 has a place, and waits for client 2's answer */
	query_for(udp_2, 4, "n3.example.com.");
	query_for((struct client){ .proto = PROTO_UDP, .hash = 3 }, 5, "n3.example.com.");
	inflight_no_reply(table, seen.asked[5]);
	assert_int_equal(stats.forward_fallback, 3);
	assert_int_equal(seen.replies, 1);
	reply_to(seen.asked[5]);
	assert_int_equal(seen.id, 4);
	inflight_finish_all(fallback);
	assert_int_equal(seen.replies, 5);
	inflight_free(fallback);
	finish();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_reply_is_what_the_other_server_said),
		cmocka_unit_test(without_an_answer_it_is_retried_and_then_servfail_at_the_deadline),
		cmocka_unit_test(a_shorter_interval_holds_for_queries_in_flight_and_new_ones),
		cmocka_unit_test(one_client_alone_gets_its_maximum_and_no_more),
		cmocka_unit_test(greedy_clients_leave_room_for_the_others),
		cmocka_unit_test(when_full_the_oldest_query_of_who_has_most_makes_room),
		cmocka_unit_test(what_the_resolver_holds_counts_until_it_lets_go),
		cmocka_unit_test(an_answered_query_is_not_stored),
		cmocka_unit_test(a_holding_resolver_is_never_given_more_than_it_takes),
		cmocka_unit_test(a_query_longer_than_another_server_reads_is_refused),
		cmocka_unit_test(what_is_kept_is_answered_at_once_and_takes_no_place),
		cmocka_unit_test(identical_questions_are_asked_once_and_all_answered),
		cmocka_unit_test(other_questions_are_not_joined),
		cmocka_unit_test(who_joins_counts_as_every_query),
		cmocka_unit_test(a_query_that_ends_hands_its_question_on),
		cmocka_unit_test(what_was_never_asked_is_not_stored),
		cmocka_unit_test(known_names_are_asked_when_the_resolver_holds_too_many),
		cmocka_unit_test(known_names_without_an_answer_leave_places_for_others),
		cmocka_unit_test(a_query_without_a_place_at_the_fallback_waits_for_the_late_server),
	};

	return cmocka_run_group_tests(tests, make_world, end_world);
}
