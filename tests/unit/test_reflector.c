/*
 * The documented list/watch protocol, rule by rule, without a server. Each test describes the
 * request, the response, and the next request.
 */
#include "kubedns/api/reflector.h"
#include "lib/clock.h"
#include "tests/unit/reflector_fixture.h"

static void
a_watch_list_comes_first_and_its_mark_is_the_sync(void **state)
{
	(void)state;
	asks_watch_list();
	assert_true(answer_arrives()); /* the event LISTING */
	assert_false(reflector_event(r, now, REFLECTOR_ADDED, "5", false));
	assert_false(reflector_synced(r));
	assert_true(reflector_event(r, now, REFLECTOR_BOOKMARK, "6", true));
	assert_true(reflector_synced(r));
	/* The sync is reported only once. */
	assert_false(reflector_event(r, now, REFLECTOR_BOOKMARK, "8", true));
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
	reflector_progress(r, now, 1); /* the response is slow, but there is progress */
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
	assert_false(answer_arrives()); /* no second LISTING */
	break_off();
	asks("continue=next");
	assert_true(page("11", NULL));
	/* The watch starts at the version of the first page, so it has the changes since then. */
	asks("resourceVersion=10&");
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
	assert_string_equal(ask(), "limit=500"); /* the other items of the page did not arrive */
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
	assert_string_equal(ask(), "limit=500"); /* without a new token, the list starts again */
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
		assert_false(answer_arrives()); /* no event LISTING */
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

/* The duration of the watch counts, not the time until the server responds. */
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

/* If nobody reached the server, api_source.c decides when to try again, for all resources together. */
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
	/* The next request may reach another server. */
	asks("limit=1&resourceVersion=7&resourceVersionMatch=NotOlderThan");
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

static void
holds(uint64_t first, uint64_t last)
{
	struct reflector_versions held = reflector_versions(r);

	if (held.first != first || held.last != last)
		fail_msg("holds %llu-%llu", (unsigned long long)held.first,
		    (unsigned long long)held.last);
}

static void
a_change_begins_the_held_versions_and_a_bookmark_extends_them(void **state)
{
	(void)state;
	asks_watch_list();
	holds(0, 0);
	answer_arrives();
	reflector_event(r, now, REFLECTOR_ADDED, "5", false);
	holds(0, 0);
	reflector_event(r, now, REFLECTOR_BOOKMARK, "6", true);
	holds(6, 6);
	reflector_event(r, now, REFLECTOR_BOOKMARK, "9", false);
	holds(6, 9);
	reflector_event(r, now, REFLECTOR_CHANGED, "12", false);
	holds(12, 12);
	reflector_event(r, now, REFLECTOR_ADDED, "13", false);
	reflector_event(r, now, REFLECTOR_BOOKMARK, "20", false);
	reflector_event(r, now, REFLECTOR_BOOKMARK, "19", false);
	holds(13, 20);
	break_off(); /* the data stays */
	holds(13, 20);
	reflector_event(r, now, REFLECTOR_CHANGED, "not-a-number", false);
	holds(0, 0);
	reflector_event(r, now, REFLECTOR_BOOKMARK, "30", false);
	holds(0, 0);
	reflector_event(r, now, REFLECTOR_CHANGED, "31", false);
	holds(31, 31);
}

static void
during_a_relist_no_version_is_held(void **state)
{
	(void)state;
	sync_by_watch_list();
	holds(7, 7);
	error_event(410, false);
	holds(7, 7); /* no object of the new listing has arrived */
	asks_watch_list();
	answer_arrives();
	holds(0, 0);
	break_off(); /* some objects of the listing may have been passed to the sink */
	holds(0, 0);
	asks_watch_list();
	answer_arrives();
	reflector_event(r, now, REFLECTOR_BOOKMARK, "40", true);
	holds(40, 40);
}

static void
pages_of_several_versions_are_no_version_until_the_watch_has_caught_up(void **state)
{
	(void)state;
	asks_watch_list();
	refuse(400);
	ask();
	page("10", "token");
	ask();
	end_with((struct reflector_end){ .status = 410, .token = "fresh", .retry_after_ms = -1 });
	ask();
	assert_true(page("14", NULL));
	holds(0, 0);
	asks("watch=1");
	answer_arrives();
	reflector_event(r, now, REFLECTOR_CHANGED, "12", false);
	reflector_event(r, now, REFLECTOR_BOOKMARK, "13", false);
	holds(0, 0);
	reflector_event(r, now, REFLECTOR_BOOKMARK, "17", false);
	holds(14, 17);
	reflector_event(r, now, REFLECTOR_CHANGED, "18", false);
	holds(18, 18);
}

static void
a_list_at_a_version_is_listed_once(void **state)
{
	(void)state;
	sync_by_watch_list();
	struct reflector *watch = r;
	assert_string_equal(reflector_live_version(watch), "7");
	r = reflector_new(true);
	reflector_list_at(r, now, reflector_live_version(watch));
	assert_string_equal(ask(), "limit=500&resourceVersion=7&resourceVersionMatch=Exact");
	assert_false(page("7", "more"));
	assert_true(reflector_at_version(r));
	assert_string_equal(ask(), "limit=500&continue=more");
	assert_true(page("7", NULL));
	assert_true(reflector_synced(r));
	assert_true(reflector_due_ms(r) == CLOCK_NEVER);
	/* An empty list at another version is not the list that was requested. */
	reflector_list_at(r, now, "7");
	ask();
	assert_false(page("8", NULL));
	assert_false(reflector_at_version(r));
	assert_false(reflector_synced(r));
	reflector_list_at(r, now, "7");
	ask();
	refuse(410);
	assert_false(reflector_synced(r));
	assert_true(reflector_due_ms(r) == CLOCK_NEVER);
	reflector_free(r);
	r = watch;
}

static void
versions_that_go_back_are_noticed(void **state)
{
	(void)state;
	sync_by_watch_list();
	assert_false(reflector_goes_back(r, "7", false));
	assert_false(reflector_goes_back(r, "10", false));
	assert_false(reflector_goes_back(r, "opaque", false));
	assert_false(reflector_goes_back(r, "6x", false));
	assert_true(reflector_goes_back(r, "6", false));
	end_with((struct reflector_end){ .status = 200, .went_back = true, .retry_after_ms = -1 });
	assert_true(reflector_take_back(r));
	assert_false(reflector_take_back(r));
	asks_watch_list();
	answer_arrives();
	assert_true(reflector_new_epoch(r));
	/* This listing may be older, because its objects are taken whatever their version. */
	assert_false(reflector_goes_back(r, "3", true));
	assert_true(reflector_event(r, now, REFLECTOR_BOOKMARK, "3", true));
	assert_false(reflector_new_epoch(r));
	assert_true(reflector_goes_back(r, "2", false));
}

static void
an_expired_version_and_an_older_list_are_a_new_epoch(void **state)
{
	(void)state;
	sync_by_watch_list();
	error_event(410, false);
	asks_watch_list();
	answer_arrives();
	assert_false(reflector_new_epoch(r));
	assert_true(reflector_goes_back(r, "6", true));
	assert_false(reflector_goes_back(r, "7", true));
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
		TEST(a_change_begins_the_held_versions_and_a_bookmark_extends_them),
		TEST(during_a_relist_no_version_is_held),
		TEST(pages_of_several_versions_are_no_version_until_the_watch_has_caught_up),
		TEST(a_list_at_a_version_is_listed_once),
		TEST(versions_that_go_back_are_noticed),
		TEST(an_expired_version_and_an_older_list_are_a_new_epoch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
