/* NOTIFY messages to a secondary, which is a socket of the test. Time is a plain number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/answer/zones.h"
#include "kubedns/modules/transfer/notify.h"
#include "lib/clock.h"
#include "lib/wire.h"

static int secondary;
static struct server server;
static struct answer_config answers;
static struct reverse_config reverse;
static struct notify_counts counts;
static struct notify *notify;
static int64_t now_ms;

/* A received message */
static uint8_t message[1500];
static size_t message_len;
static struct sockaddr_in sender;

static int
begin(void **state)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001) };
	socklen_t len = sizeof sin;

	(void)state;
	secondary = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(secondary, (struct sockaddr *)&sin, len), 0);
	assert_int_equal(getsockname(secondary, (struct sockaddr *)&sin, &len), 0);
	assert_int_equal(server_from_sockaddr((struct sockaddr *)&sin, &server), 0);
	dname_from_text(&answers.zone, "cluster.local");
	answers.stage_config[STAGE_reverse] = &reverse;
	memset(&counts, 0, sizeof counts);
	const struct notify_config config = {
		.servers = &server, .count = 1, .answers = &answers, .counts = &counts
	};
	notify = notify_new(&config);
	now_ms = 1000;
	return 0;
}

static int
finish(void **state)
{
	(void)state;
	notify_free(notify);
	close(secondary);
	return 0;
}

/* Receives a NOTIFY. Returns the serial of its SOA, or 0 if no message came. */
static uint32_t
heard(void)
{
	socklen_t len = sizeof sender;
	ssize_t got = recvfrom(
	    secondary, message, sizeof message, MSG_DONTWAIT, (struct sockaddr *)&sender, &len);

	if (got < 0)
		return 0;
	message_len = (size_t)got;
	return wire_get32(message + message_len - 20);
}

static void
confirm(void)
{
	uint8_t reply[sizeof message];

	memcpy(reply, message, message_len);
	reply[2] |= 0x80;
	assert_int_equal(
	    sendto(secondary, reply, message_len, 0, (struct sockaddr *)&sender, sizeof sender),
	    message_len);
}

/* Moves to the time of the next send, and sends. */
static void
next_try(void)
{
	int64_t due_ms = notify_iteration(notify, now_ms);

	assert_true(due_ms != CLOCK_NEVER);
	now_ms = due_ms;
	notify_iteration(notify, now_ms);
}

/* A bug: each retry had a new ID, so an answer that took more than a second was ignored. */
static void
a_late_answer_to_the_first_message_counts(void **state)
{
	(void)state;
	notify_changed(notify, 0, 5);
	notify_iteration(notify, now_ms);
	assert_int_equal(heard(), 5);
	next_try();
	confirm();
	assert_true(notify_iteration(notify, now_ms) == CLOCK_NEVER);
	assert_int_equal(counts.answered, 1);
}

static void
an_answer_to_an_older_serial_does_not_end_the_tries_of_a_newer_one(void **state)
{
	(void)state;
	notify_changed(notify, 0, 5);
	notify_iteration(notify, now_ms);
	assert_int_equal(heard(), 5);
	notify_changed(notify, 0, 6);
	next_try();
	confirm();
	assert_true(notify_iteration(notify, now_ms) != CLOCK_NEVER);
	assert_int_equal(heard(), 6);
	confirm();
	assert_true(notify_iteration(notify, now_ms) == CLOCK_NEVER);
}

/* A bug: the newer serial had used up the tries of the older one, and was never sent. */
static void
a_change_after_the_last_try_is_sent(void **state)
{
	(void)state;
	notify_changed(notify, 0, 5);
	notify_iteration(notify, now_ms);
	assert_int_equal(heard(), 5);
	for (int tries = 1; tries < NOTIFY_TRIES; tries++) {
		next_try();
		assert_int_equal(heard(), 5);
	}
	notify_changed(notify, 0, 6);
	assert_int_equal(heard(), 0);
	next_try();
	next_try();
	assert_int_equal(heard(), 6);
	for (int tries = 1; tries < NOTIFY_TRIES; tries++) {
		next_try();
		assert_int_equal(heard(), 6);
	}
	now_ms = notify_iteration(notify, now_ms);
	assert_true(notify_iteration(notify, now_ms) == CLOCK_NEVER);
	assert_int_equal(counts.failed, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_late_answer_to_the_first_message_counts),
		TEST(an_answer_to_an_older_serial_does_not_end_the_tries_of_a_newer_one),
		TEST(a_change_after_the_last_try_is_sent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
