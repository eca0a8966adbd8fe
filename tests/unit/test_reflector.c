/*
 * The list/watch protocol as its document says it, rule by rule, without a server: each test is
 * told as what was asked, what came back, and what is asked next.
 */
#include "kubedns/api/reflector.h"
#include "tests/unit/reflector_fixture.h"

static void
a_watch_list_comes_first_and_its_mark_is_the_sync(void **state)
{
	(void)state;
	asks_watch_list();
	assert_true(answer_arrives()); /* LISTING */
	assert_false(reflector_event(r, now, REFLECTOR_ADDED, "5", false));
	assert_false(reflector_synced(r));
	assert_true(reflector_event(r, now, REFLECTOR_BOOKMARK, "6", true));
	assert_true(reflector_synced(r));
	assert_false(reflector_event(r, now, REFLECTOR_BOOKMARK, "8", true)); /* only once */
}

static void
timeouts_are_drawn_from_300_to_600(void **state)
{
	unsigned least = 1000, most = 0;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		ask();
		least = timeout_s() < least ? timeout_s() : least;
		most = timeout_s() > most ? timeout_s() : most;
	}
	assert_in_range(least, 300, 310);
	assert_in_range(most, 590, 600);
}

static void
a_server_without_watch_list_is_listed_in_pages_at_once(void **state)
{
	static const int statuses[] = { 400, 422 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		asks_watch_list();
		refuse(statuses[i]);
		assert_int_equal(waits(), 0);
		assert_string_equal(ask(), "limit=500");
		assert_false(page("10", "a+b/c="));
		assert_int_equal(waits(), 0);
		assert_string_equal(ask(), "limit=500&continue=a%2Bb%2Fc%3D");
		assert_true(page("10", NULL));
		asks("watch=1&allowWatchBookmarks=true&resourceVersion=10&timeoutSeconds=");
		finish(NULL);
		begin(NULL);
	}
}

static void
sixty_seconds_without_progress_lead_to_a_list(void **state)
{
	const char *why;

	(void)state;
	asks_watch_list();
	answer_arrives();
	now += 50000;
	reflector_progress(r, now, 1); /* slow, but it comes */
	reflector_event(r, now, REFLECTOR_ADDED, "5", false);
	assert_int_equal(reflector_deadline_ms(r, &why), now + 60000);
	now += 60000;
	break_off();
	asks("limit=500");
}

static void
a_server_that_sends_only_live_events_makes_no_progress(void **state)
{
	const char *why;

	(void)state;
	asks_watch_list();
	answer_arrives();
	int64_t frozen = now;
	reflector_event(r, now, REFLECTOR_CHANGED, "5", false);
	for (int i = 0; i < 6; i++) {
		now += 10000;
		reflector_progress(r, now, 1);
	}
	assert_int_equal(reflector_deadline_ms(r, &why), frozen + 60000);
	break_off();
	asks("limit=500");
}

static void
a_watch_list_that_breaks_twice_leads_to_a_list(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		asks_watch_list();
		assert_true(answer_arrives());
		reflector_event(r, now, REFLECTOR_ADDED, "5", false);
		break_off();
	}
	assert_string_equal(ask(), "limit=500");
}

static void
a_clean_end_before_the_mark_is_a_break_too(void **state)
{
	(void)state;
	asks_watch_list();
	end_with(clean);
	assert_false(reflector_synced(r));
	asks_watch_list();
	end_with(clean);
	asks("limit=500");
}

static void
a_page_that_breaks_is_asked_again_not_the_list(void **state)
{
	(void)state;
	asks_watch_list();
	refuse(422);
	ask();
	page("10", "next");
	asks("continue=next");
	assert_false(answer_arrives()); /* no new LISTING */
	break_off();
	asks("continue=next");
	assert_true(page("11", NULL));
	asks("resourceVersion=10&"); /* of the first page: what changed between is in the watch */
}

static void
a_page_that_breaks_behind_its_metadata_is_asked_again_too(void **state)
{
	(void)state;
	asks_watch_list();
	refuse(422);
	asks("limit=500");
	assert_true(answer_arrives());
	reflector_page(r, "10", "next");
	break_off();
	assert_string_equal(ask(), "limit=500"); /* the rest of its items did not come */
	assert_true(answer_arrives());
	reflector_page(r, "11", "next");
	end_with(clean);
	asks("continue=next");
	assert_false(answer_arrives());
	reflector_page(r, "11", NULL);
	break_off();
	asks("continue=next");
	assert_true(page("11", NULL));
}

static void
an_expired_continue_goes_on_with_the_token_of_the_410(void **state)
{
	(void)state;
	asks_watch_list();
	refuse(422);
	ask();
	page("10", "old");
	ask();
	end_with((struct reflector_end){ .status = 410, .token = "fresh", .retry_after_ms = -1 });
	assert_string_equal(ask(), "limit=500&continue=fresh");
	assert_false(answer_arrives());
	page("20", "more");
	assert_string_equal(ask(), "limit=500&continue=more");
	end_with((struct reflector_end){ .status = 410, .retry_after_ms = -1 });
	assert_string_equal(ask(), "limit=500"); /* none given: from the start */
	assert_true(answer_arrives());
}

static void
a_list_that_never_ends_is_given_up(void **state)
{
	(void)state;
	asks_watch_list();
	refuse(422);
	for (int i = 0; i < REFLECTOR_PAGES_MAX; i++) {
		ask();
		assert_false(page("10", "more"));
	}
	assert_string_equal(ask(), "limit=500");
	assert_int_equal(reflector_failures(r), 1);
}

static void
a_watch_that_ends_is_watched_again_from_the_last_event_of_any_type(void **state)
{
	static const enum reflector_event events[] = { REFLECTOR_ADDED, REFLECTOR_CHANGED,
		REFLECTOR_BOOKMARK };
	char part[128];

	(void)state;
	sync_by_watch_list();
	for (int i = 0; i < 3; i++) {
		char version[16];

		snprintf(version, sizeof version, "v/%d", i);
		reflector_event(r, now, events[i], version, false);
		now += 300000;
		end_with(clean);
		assert_int_equal(waits(), 0);
		snprintf(part, sizeof part,
		    "watch=1&allowWatchBookmarks=true&resourceVersion=v%%2F%d&timeoutSeconds=", i);
		asks(part);
		assert_false(answer_arrives()); /* no LISTING */
	}
	assert_int_equal(reflector_failures(r), 0);
}

static void
watches_that_end_at_once_without_an_event_back_off_at_the_second(void **state)
{
	(void)state;
	sync_by_watch_list();
	now += 300000;
	end_with(clean);
	ask();
	now += 10;
	end_with(clean);
	assert_int_equal(reflector_failures(r), 0);
	ask();
	now += 10;
	end_with(clean);
	assert_int_equal(reflector_failures(r), 1);
}

/* However long the server took to answer: its life counts. */
static void
a_slow_answer_does_not_make_a_watch_that_ends_at_once_a_good_one(void **state)
{
	(void)state;
	sync_by_watch_list();
	now += 300000;
	end_with(clean);
	for (unsigned i = 0; i < 2; i++) {
		ask();
		now += 5000;
		end_with(clean);
	}
	assert_int_equal(reflector_failures(r), 1);
}

/* When to try again is then decided for all resources at once (api_source.c). */
static void
a_server_that_nobody_reached_has_not_failed_this_resource(void **state)
{
	(void)state;
	sync_by_watch_list();
	now += 300000;
	end_with(clean);
	for (unsigned i = 0; i < 100; i++) {
		ask();
		now += 10;
		end_with((struct reflector_end){
		    .unreached = true, .broken = true, .retry_after_ms = -1 });
		assert_int_equal(waits(), 0);
	}
	assert_int_equal(reflector_failures(r), 0);
	asks("limit=1&resourceVersion=7&resourceVersionMatch=NotOlderThan"); /* who answers next? */
}

static void
watches_that_end_at_once_with_an_event_are_one_a_second_at_most(void **state)
{
	int64_t begun;

	(void)state;
	sync_by_watch_list();
	begun = now;
	for (int i = 0; i < 60; i++) {
		reflector_event(r, now, REFLECTOR_BOOKMARK, "9", false);
		end_with(clean);
		ask();
	}
	assert_true(now - begun >= 58000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_watch_list_comes_first_and_its_mark_is_the_sync),
		TEST(timeouts_are_drawn_from_300_to_600),
		TEST(a_server_without_watch_list_is_listed_in_pages_at_once),
		TEST(sixty_seconds_without_progress_lead_to_a_list),
		TEST(a_server_that_sends_only_live_events_makes_no_progress),
		TEST(a_watch_list_that_breaks_twice_leads_to_a_list),
		TEST(a_clean_end_before_the_mark_is_a_break_too),
		TEST(a_page_that_breaks_is_asked_again_not_the_list),
		TEST(a_page_that_breaks_behind_its_metadata_is_asked_again_too),
		TEST(an_expired_continue_goes_on_with_the_token_of_the_410),
		TEST(a_list_that_never_ends_is_given_up),
		TEST(a_watch_that_ends_is_watched_again_from_the_last_event_of_any_type),
		TEST(watches_that_end_at_once_without_an_event_back_off_at_the_second),
		TEST(a_slow_answer_does_not_make_a_watch_that_ends_at_once_a_good_one),
		TEST(a_server_that_nobody_reached_has_not_failed_this_resource),
		TEST(watches_that_end_at_once_with_an_event_are_one_a_second_at_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
