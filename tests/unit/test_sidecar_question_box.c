/* The box of the status page: a few questions at a time,
 * kept for whoever asks the same, then gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sidecar/question_box.h"
#include "lib/clock.h"

static const struct server nobody = { .addr = { AF_INET, { 127, 0, 0, 1 } }, .port = 1 };

/* Runs until every question is done: port 1 says at once that nobody is there. */
static void
run_to_the_end(struct ask *ask)
{
	for (bool busy = true; busy;) {
		struct pollfd fds[ASK_SLOTS];
		short revents[ASK_SLOTS] = { 0 };
		for (int i = 0; i < ASK_MAX; i++) {
			fds[2 * i] = (struct pollfd){ .fd = ask->entries[i].net.fd,
				.events = ask->entries[i].net.events };
			fds[2 * i + 1] = (struct pollfd){ .fd = -1 };
		}
		poll(fds, ASK_SLOTS, 100);
		for (int i = 0; i < ASK_SLOTS; i++)
			revents[i] = fds[i].revents;
		ask_run(ask, revents, clock_mono_ns());
		busy = false;
		for (int i = 0; i < ASK_MAX; i++)
			busy = busy || (ask->entries[i].used && !ask->entries[i].done);
	}
}

static void
answers_are_kept_a_while_and_make_room_then(void **state)
{
	static const short nothing[ASK_SLOTS];
	struct ask ask;
	struct ask_entry *entry, *same;
	char name[24];

	(void)state;
	ask_init(&ask, &nobody, NULL);
	for (int i = 0; i < ASK_MAX; i++) {
		snprintf(name, sizeof name, "n%d.test", i);
		assert_int_equal(ask_question(&ask, name, "A", &entry), ASK_STARTED);
	}
	assert_int_equal(ask_question(&ask, "one-more.test", "A", &entry), ASK_BUSY);
	run_to_the_end(&ask);
	int64_t done_ns = ask.entries[0].done_ns;
	for (int i = 1; i < ASK_MAX; i++)
		done_ns = ask.entries[i].done_ns > done_ns ? ask.entries[i].done_ns : done_ns;

	/* Within the time: whoever asks the same sees the same, and nothing else has room. */
	ask_run(&ask, nothing, ask.entries[0].done_ns + 1);
	assert_int_equal(ask_question(&ask, "n0.test", "A", &same), ASK_SAME);
	assert_true(same->done);
	assert_int_equal(ask_question(&ask, "one-more.test", "A", &entry), ASK_BUSY);
	assert_true(ask_deadline(&ask) <= done_ns + (ASK_KEEP_MS + 1) * NS_PER_MS);

	ask_run(&ask, nothing, done_ns + (ASK_KEEP_MS + 1) * NS_PER_MS);
	for (int i = 0; i < ASK_MAX; i++)
		assert_false(ask.entries[i].used);
	assert_int_equal(ask_question(&ask, "one-more.test", "A", &entry), ASK_STARTED);
	ask_close(&ask);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_are_kept_a_while_and_make_room_then),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
