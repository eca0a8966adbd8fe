/* The queries of the status page. A few can run at a time. An answer is kept for clients that send
 * the same query, and then dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sidecar/page/question_box.h"
#include "lib/clock.h"

static const struct server nobody = { .addr = { AF_INET, { 127, 0, 0, 1 } }, .port = 1 };

/* Runs until each query has ended. Port 1 refuses a query at once. */
static void
run_to_the_end(struct question_box *box)
{
	for (bool busy = true; busy;) {
		struct pollfd fds[QUESTION_BOX_SLOTS];
		short revents[QUESTION_BOX_SLOTS] = { 0 };

		for (int i = 0; i < QUESTION_BOX_MAX; i++) {
			fds[2 * i] = (struct pollfd){ .fd = box->entries[i].exchange.fd,
				.events = box->entries[i].exchange.events };
			fds[2 * i + 1] = (struct pollfd){ .fd = -1 };
		}
		poll(fds, QUESTION_BOX_SLOTS, 100);
		for (int i = 0; i < QUESTION_BOX_SLOTS; i++)
			revents[i] = fds[i].revents;
		question_box_run(box, revents, clock_mono_ns());
		busy = false;
		for (int i = 0; i < QUESTION_BOX_MAX; i++)
			busy = busy || (box->entries[i].used && !box->entries[i].done);
	}
}

static void
answers_are_kept_a_while_and_make_room_then(void **state)
{
	static const short nothing[QUESTION_BOX_SLOTS];
	struct question_box box;
	struct boxed_question *entry, *same;
	char name[24];

	(void)state;
	question_box_init(&box, &nobody, NULL);
	for (int i = 0; i < QUESTION_BOX_MAX; i++) {
		snprintf(name, sizeof name, "n%d.test", i);
		assert_int_equal(question_box_ask(&box, name, "A", &entry), QUESTION_BOX_STARTED);
	}
	assert_int_equal(question_box_ask(&box, "one-more.test", "A", &entry), QUESTION_BOX_BUSY);
	run_to_the_end(&box);
	int64_t done_ns = box.entries[0].done_ns;
	for (int i = 1; i < QUESTION_BOX_MAX; i++)
		done_ns = box.entries[i].done_ns > done_ns ? box.entries[i].done_ns : done_ns;

	/* While the answers are kept, a client with the same query gets the same answer. There is
	 * no room for other queries. */
	question_box_run(&box, nothing, box.entries[0].done_ns + 1);
	assert_int_equal(question_box_ask(&box, "n0.test", "A", &same), QUESTION_BOX_SAME);
	assert_true(same->done);
	assert_int_equal(question_box_ask(&box, "one-more.test", "A", &entry), QUESTION_BOX_BUSY);
	assert_true(
	    question_box_deadline(&box) <= done_ns + (QUESTION_BOX_KEEP_MS + 1) * NS_PER_MS);

	question_box_run(&box, nothing, done_ns + (QUESTION_BOX_KEEP_MS + 1) * NS_PER_MS);
	for (int i = 0; i < QUESTION_BOX_MAX; i++)
		assert_false(box.entries[i].used);
	assert_int_equal(
	    question_box_ask(&box, "one-more.test", "A", &entry), QUESTION_BOX_STARTED);
	question_box_close(&box);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_are_kept_a_while_and_make_room_then),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
