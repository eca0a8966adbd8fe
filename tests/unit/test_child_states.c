#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "lib/clock.h"
#include "nanny/child_states.h"

static struct child child;
static int64_t now;

static int
setup(void **state)
{
	(void)state;
	now = 1000000;
	child_init(&child, 5000);
	return 0;
}

static unsigned
step(enum child_event event)
{
	return child_step(&child, event, now);
}

/* Advances the time to the deadline. The deadline must be `ms` away. */
static unsigned
wait_for_deadline(int64_t ms)
{
	assert_int_equal(child.deadline_ms - now, ms);
	now = child.deadline_ms;
	return step(CHILD_TIMEOUT);
}

static void
make_ready(void)
{
	assert_int_equal(step(CHILD_ANSWERED), CHILD_DO_ASK);
	assert_int_equal(child.state, CHILD_RELOADING);
	assert_int_equal(step(CHILD_CONFIRMED), 0);
	assert_int_equal(child.state, CHILD_READY);
	assert_int_equal(child.deadline_ms, CLOCK_NEVER);
}

static void
first_answer_needs_confirmation_but_no_sighup(void **state)
{
	(void)state;
	assert_int_equal(child.state, CHILD_STARTING);
	assert_false(child_is_serving(&child));
	make_ready();
	assert_true(child_is_serving(&child));
}

static void
no_sighup_before_the_first_answer(void **state)
{
	(void)state;
	assert_int_equal(step(CHILD_CHANGED), 0);
	assert_int_equal(step(CHILD_CHANGED), 0);
	assert_int_equal(child.state, CHILD_STARTING);
	assert_int_equal(step(CHILD_ANSWERED), CHILD_DO_WRITE | CHILD_DO_APPLY | CHILD_DO_ASK);
	step(CHILD_CONFIRMED);
	assert_int_equal(child.state, CHILD_READY);
}

static void
a_change_is_written_told_and_confirmed(void **state)
{
	(void)state;
	make_ready();
	assert_int_equal(step(CHILD_CHANGED), CHILD_DO_WRITE | CHILD_DO_APPLY | CHILD_DO_ASK);
	assert_int_equal(child.state, CHILD_RELOADING);
	assert_true(child_is_serving(&child));
	assert_int_equal(step(CHILD_CONFIRMED), 0);
	assert_int_equal(child.state, CHILD_READY);
}

static void
changes_during_a_reload_become_one_more_reload(void **state)
{
	(void)state;
	make_ready();
	step(CHILD_CHANGED);
	for (int i = 0; i < 5; i++)
		assert_int_equal(step(CHILD_CHANGED), 0);
	now += 10;
	assert_int_equal(step(CHILD_CONFIRMED), 0);
	assert_int_equal(child.state, CHILD_READY);
	assert_int_equal(step(CHILD_CHANGED), 0);
	assert_int_equal(
	    wait_for_deadline(CHILD_GAP_MS - 10), CHILD_DO_WRITE | CHILD_DO_APPLY | CHILD_DO_ASK);
	assert_int_equal(step(CHILD_CONFIRMED), 0);
	assert_int_equal(child.state, CHILD_READY);
}

static void
a_change_taken_back_before_its_turn_is_none(void **state)
{
	(void)state;
	make_ready();
	step(CHILD_CHANGED);
	step(CHILD_CHANGED);
	step(CHILD_CONFIRMED);
	child.changed = false;
	assert_int_equal(wait_for_deadline(CHILD_GAP_MS), 0);
	assert_int_equal(child.deadline_ms, CLOCK_NEVER);
}

static void
what_is_not_confirmed_is_told_again_less_and_less_often(void **state)
{
	(void)state;
	static const int64_t waits[] = { 1000, 2000, 4000, 8000, 15000, 15000 };
	make_ready();
	step(CHILD_CHANGED);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(wait_for_deadline(waits[i]), CHILD_DO_APPLY | CHILD_DO_ASK);
	assert_int_equal(child.unconfirmed, 6);
	step(CHILD_CHANGED);
	assert_int_equal(wait_for_deadline(15000), CHILD_DO_WRITE | CHILD_DO_APPLY | CHILD_DO_ASK);
	assert_int_equal(child.deadline_ms - now, CHILD_CONFIRM_MS);
}

static void
the_first_restart_is_at_once_the_next_wait(void **state)
{
	(void)state;
	static const int64_t waits[] = { 250, 500, 1000 };
	make_ready();
	assert_int_equal(step(CHILD_DIED), CHILD_DO_SPAWN);
	assert_int_equal(child.state, CHILD_STARTING);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(step(CHILD_DIED), 0);
		assert_int_equal(child.state, CHILD_BACKOFF);
		assert_int_equal(wait_for_deadline(waits[i]), CHILD_DO_SPAWN);
	}
	assert_int_equal(step(CHILD_DIED), CHILD_DO_FAIL);
	assert_int_equal(child.state, CHILD_STOPPED);
}

static void
deaths_longer_than_a_minute_ago_do_not_count(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		make_ready();
		assert_int_equal(step(CHILD_DIED), CHILD_DO_SPAWN);
		now += CHILD_DEATHS_MS;
	}
	assert_int_equal(child.deaths, 50);
	for (int i = 0; i < 4; i++) {
		step(CHILD_DIED);
		now += 10000;
		if (child.state == CHILD_BACKOFF)
			step(CHILD_TIMEOUT);
	}
	assert_int_equal(child.state, CHILD_STARTING);
}

static void
changes_while_it_is_dead_wait_for_the_spawn(void **state)
{
	(void)state;
	step(CHILD_DIED);
	step(CHILD_DIED);
	assert_int_equal(child.state, CHILD_BACKOFF);
	assert_int_equal(step(CHILD_CHANGED), 0);
	wait_for_deadline(250);
	assert_false(child.changed);
	make_ready();
}

static void
silence_kills_in_every_state_that_has_a_child(void **state)
{
	(void)state;
	assert_int_equal(step(CHILD_SILENT), CHILD_DO_KILL);
	step(CHILD_ANSWERED);
	assert_int_equal(step(CHILD_SILENT), CHILD_DO_KILL);
	step(CHILD_CONFIRMED);
	assert_int_equal(step(CHILD_SILENT), CHILD_DO_KILL);
	step(CHILD_TERM);
	assert_int_equal(step(CHILD_SILENT), CHILD_DO_KILL);
}

static void
sigterm_drains_then_stops_then_ends(void **state)
{
	(void)state;
	make_ready();
	assert_int_equal(step(CHILD_TERM), 0);
	assert_int_equal(child.state, CHILD_DRAINING);
	assert_false(child_is_serving(&child));
	assert_int_equal(step(CHILD_CHANGED), 0);
	assert_int_equal(wait_for_deadline(5000), CHILD_DO_TERM);
	assert_int_equal(child.state, CHILD_STOPPING);
	assert_int_equal(step(CHILD_DIED), CHILD_DO_END);
	assert_int_equal(child.state, CHILD_STOPPED);
}

static void
a_second_sigterm_does_not_wait_and_a_third_kills(void **state)
{
	(void)state;
	make_ready();
	step(CHILD_TERM);
	assert_int_equal(step(CHILD_TERM), CHILD_DO_TERM);
	assert_int_equal(child.state, CHILD_STOPPING);
	assert_int_equal(step(CHILD_TERM), CHILD_DO_KILL);
	assert_int_equal(step(CHILD_DIED), CHILD_DO_END);
}

static void
a_child_that_ignores_sigterm_is_killed(void **state)
{
	(void)state;
	make_ready();
	step(CHILD_TERM);
	wait_for_deadline(5000);
	assert_int_equal(wait_for_deadline(CHILD_STOP_MS), CHILD_DO_KILL);
}

static void
death_while_draining_is_answered_by_a_new_child(void **state)
{
	(void)state;
	make_ready();
	step(CHILD_TERM);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(step(CHILD_DIED), CHILD_DO_SPAWN);
		assert_int_equal(child.state, CHILD_DRAINING);
	}
	assert_int_equal(step(CHILD_DIED), CHILD_DO_FAIL);
}

static void
sigterm_while_backing_off_ends_at_once(void **state)
{
	(void)state;
	step(CHILD_DIED);
	step(CHILD_DIED);
	assert_int_equal(step(CHILD_TERM), CHILD_DO_END);
	assert_int_equal(child.state, CHILD_STOPPED);
}

/* Three rules hold for any order of events. The nanny spawns dnsmasq only if it has no child. It
 * sends SIGHUP only to a child that has answered. It does nothing after the end. */
static void
no_order_of_events_breaks_the_rules(void **state)
{
	(void)state;
	uint32_t seed = 1;
	for (int run = 0; run < 2000; run++) {
		setup(NULL);
		bool alive = true, answered = false;
		for (int i = 0; i < 200 && child.state != CHILD_STOPPED; i++) {
			seed = seed * 1664525 + 1013904223;
			enum child_event event =
			    (enum child_event)((seed >> 16) % CHILD_EVENT_COUNT);
			bool possible = alive || event == CHILD_CHANGED || event == CHILD_TIMEOUT ||
					event == CHILD_TERM;
			if (!possible ||
			    (event == CHILD_TIMEOUT && child.deadline_ms == CLOCK_NEVER))
				continue;
			now += (seed >> 8) % 20000;
			unsigned actions = step(event);
			alive = event == CHILD_DIED ? false : alive;
			answered = event == CHILD_ANSWERED || (answered && alive);
			if (actions & CHILD_DO_SPAWN) {
				assert_false(alive);
				alive = true;
				answered = false;
			}
			if (actions & CHILD_DO_APPLY)
				assert_true(alive && answered);
			if (actions & (CHILD_DO_END | CHILD_DO_FAIL))
				assert_false(alive);
			if (child.state == CHILD_READY || child.state == CHILD_RELOADING)
				assert_true(alive);
		}
		if (child.state == CHILD_STOPPED)
			for (int event = 0; event < CHILD_EVENT_COUNT; event++)
				assert_int_equal(step((enum child_event)event), 0);
	}
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(first_answer_needs_confirmation_but_no_sighup),
		TEST(no_sighup_before_the_first_answer),
		TEST(a_change_is_written_told_and_confirmed),
		TEST(changes_during_a_reload_become_one_more_reload),
		TEST(a_change_taken_back_before_its_turn_is_none),
		TEST(what_is_not_confirmed_is_told_again_less_and_less_often),
		TEST(the_first_restart_is_at_once_the_next_wait),
		TEST(deaths_longer_than_a_minute_ago_do_not_count),
		TEST(changes_while_it_is_dead_wait_for_the_spawn),
		TEST(silence_kills_in_every_state_that_has_a_child),
		TEST(sigterm_drains_then_stops_then_ends),
		TEST(a_second_sigterm_does_not_wait_and_a_third_kills),
		TEST(a_child_that_ignores_sigterm_is_killed),
		TEST(death_while_draining_is_answered_by_a_new_child),
		TEST(sigterm_while_backing_off_ends_at_once),
		TEST(no_order_of_events_breaks_the_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
