/*
 * The list/watch protocol as its document says it, rule by rule, without a server: each test is
 * told as what was asked, what came back, and what is asked next.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/api/reflector.h"

static struct reflector *r;
static bool answered; /* the request in flight has its status line */
static int64_t asked_ms;
static int64_t now;
static char *asked;

static const struct reflector_end clean = { .status = 200, .retry_after_ms = -1 };

/* Waits until the next request may go, and sends it; returns the query. */
static const char *
ask(void)
{
	const char *verb;
	if (reflector_due_ms(r) > now)
		now = reflector_due_ms(r);
	answered = false;
	asked_ms = now;
	free(asked);
	asked = reflector_query(r, now, &verb);
	assert_string_equal(verb, strncmp(asked, "watch=1", 7) == 0 ? "watch" : "list");
	return asked;
}

/* A 200 came. */
static bool
answer_arrives(void)
{
	answered = true;
	return reflector_answered(r, now);
}

/* Of the request in flight. */
static unsigned
timeout_s(void)
{
	return (unsigned)strtoul(strstr(asked, "timeoutSeconds=") + 15, NULL, 10);
}

static void
asks(const char *part)
{
	if (!strstr(ask(), part))
		fail_msg("asked %s, not %s", asked, part);
}

static void
asks_watch_list(void)
{
	asks("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks="
	     "true&resourceVersion=&timeoutSeconds=");
}

static int64_t
waits(void)
{
	return reflector_due_ms(r) > now ? reflector_due_ms(r) - now : 0;
}

static void
end_with(struct reflector_end end)
{
	if (end.status == 200 && !answered)
		answer_arrives();
	assert_false(reflector_ended(r, now, &end));
}

static void
refuse(int status)
{
	end_with((struct reflector_end){ .status = status, .retry_after_ms = -1 });
}

static void
break_off(void)
{
	end_with((struct reflector_end){
	    .status = answered ? 200 : 0, .broken = true, .retry_after_ms = -1 });
}

static void
error_event(int code, bool too_large)
{
	end_with((struct reflector_end){
	    .status = 200, .error_code = code, .too_large = too_large, .retry_after_ms = -1 });
}

/* Up to a live watch whose last event had version 7. */
static void
sync_by_watch_list(void)
{
	asks_watch_list();
	assert_true(answer_arrives());
	assert_false(reflector_event(r, now, REFLECTOR_ADDED, "5", false));
	assert_true(reflector_event(r, now, REFLECTOR_BOOKMARK, "6", true));
	assert_false(reflector_event(r, now, REFLECTOR_CHANGED, "7", false));
}

static bool
page(const char *version, const char *token)
{
	answer_arrives();
	reflector_page(r, version, token);
	return reflector_ended(r, now, &clean);
}

static int
begin(void **state)
{
	(void)state;
	r = reflector_new(false);
	now = 1000000;
	return 0;
}

static int
finish(void **state)
{
	(void)state;
	reflector_free(r);
	free(asked);
	asked = NULL;
	return 0;
}

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
	reflector_progress(r, now); /* slow, but it comes */
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
		reflector_progress(r, now);
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
		snprintf(version, sizeof(version), "v/%d", i);
		reflector_event(r, now, events[i], version, false);
		now += 300000;
		end_with(clean);
		assert_int_equal(waits(), 0);
		snprintf(part, sizeof(part),
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

/* When to try again is then decided for all resources at once (watch.c). */
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

static void
after_a_break_the_store_is_asked_whether_it_is_as_new_as_we(void **state)
{
	(void)state;
	sync_by_watch_list();
	break_off();
	assert_in_range(waits(), 0, 800);
	assert_string_equal(ask(), "limit=1&resourceVersion=7&resourceVersionMatch=NotOlderThan");
	assert_false(page("9", "more"));
	assert_int_equal(waits(), 0);
	asks("watch=1&allowWatchBookmarks=true&resourceVersion=7&");
}

static void
a_store_that_went_back_is_synced_anew_with_an_empty_version(void **state)
{
	(void)state;
	sync_by_watch_list();
	now += 300000;
	break_off();
	ask();
	/* the server says too that it may be asked again in a second: that is not for us */
	end_with(
	    (struct reflector_end){ .status = 504, .too_large = true, .retry_after_ms = 1000 });
	assert_in_range(waits(), 0, 3000);
	asks_watch_list();
	assert_true(answer_arrives());
	assert_int_equal(reflector_relists(r, RELIST_WENT_BACK), 1);
}

static void
a_410_leads_to_a_relist_after_a_jitter(void **state)
{
	int64_t most = 0;
	(void)state;
	for (int i = 0; i < 400; i++) {
		bool event = i % 2;
		sync_by_watch_list();
		now += 300000;
		if (event) {
			error_event(410, false);
		} else {
			end_with(clean);
			ask();
			refuse(410);
		}
		assert_in_range(waits(), 0, 3000);
		most = waits() > most ? waits() : most;
		assert_int_equal(reflector_failures(r), 0);
		asks_watch_list();
		answer_arrives();
		assert_int_equal(reflector_relists(r, RELIST_EXPIRED), 1);
		finish(NULL);
		begin(NULL);
	}
	assert_true(most > 2700);
}

static void
a_410_right_after_the_relist_backs_off(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		asks_watch_list();
		answer_arrives();
		assert_true(reflector_event(r, now, REFLECTOR_BOOKMARK, "6", true));
		end_with(clean);
		ask();
		refuse(410);
		assert_int_equal(reflector_failures(r), i + 1);
	}
}

static void
retry_after_is_waited_for_and_then_the_same_is_asked(void **state)
{
	(void)state;
	sync_by_watch_list();
	now += 300000;
	end_with(clean);
	ask();
	end_with((struct reflector_end){ .status = 429, .retry_after_ms = 7000 });
	assert_in_range(waits(), 7000, 7700);
	asks("watch=1&allowWatchBookmarks=true&resourceVersion=7&");
	end_with((struct reflector_end){ .status = 429, .retry_after_ms = 1000000000 });
	assert_in_range(waits(), 300000, 330000); /* not for ever */
	ask();
	end_with((struct reflector_end){ .status = 429, .retry_after_ms = -1 });
	assert_int_equal(reflector_failures(r), 1);
}

static void
a_new_token_is_tried_at_once_but_once(void **state)
{
	const struct reflector_end unauthorized = {
		.status = 401, .new_token = true, .retry_after_ms = -1
	};
	(void)state;
	asks_watch_list();
	end_with(unauthorized);
	assert_int_equal(waits(), 0);
	assert_int_equal(reflector_failures(r), 0);
	asks_watch_list();
	end_with(unauthorized);
	assert_int_equal(reflector_failures(r), 1);
}

static void
a_403_is_believed_after_ten_seconds_of_nothing_else(void **state)
{
	int64_t begun = now;
	(void)state;
	while (!reflector_denied(r)) {
		asks_watch_list();
		refuse(403);
		assert_true(now - begun <= REFLECTOR_DENIED_MS);
	}
	assert_int_equal(now - begun, REFLECTOR_DENIED_MS);
	asks_watch_list();
	answer_arrives();
	assert_false(reflector_denied(r));
}

static void
a_403_right_after_a_reconnect_is_not_final(void **state)
{
	(void)state;
	asks_watch_list();
	refuse(403);
	ask();
	break_off();
	now += REFLECTOR_DENIED_MS;
	ask();
	refuse(403);
	assert_false(reflector_denied(r));
}

static void
an_optional_one_that_is_denied_is_asked_every_five_minutes(void **state)
{
	(void)state;
	reflector_set_optional(r, true);
	while (!reflector_denied(r)) {
		ask();
		refuse(404);
	}
	for (int i = 0; i < 3; i++) {
		assert_int_equal(waits(), 300000);
		asks_watch_list();
		refuse(404);
	}
}

static void
a_required_one_that_is_denied_is_asked_within_thirty_seconds(void **state)
{
	(void)state;
	for (int i = 0; i < 30; i++) {
		ask();
		refuse(403);
		assert_in_range(waits(), 0, 30000);
	}
}

static void
no_answer_for_sixty_seconds_is_a_break(void **state)
{
	const char *why = NULL;
	(void)state;
	asks_watch_list();
	assert_int_equal(reflector_deadline_ms(r, &why), now + 60000);
	assert_non_null(strstr(why, "no answer"));
	break_off();
	asks_watch_list(); /* it was not the WatchList's fault */
	assert_int_equal(reflector_deadline_ms(r, &why), now + 60000);
}

static void
a_watch_that_outlives_its_timeout_by_thirty_seconds_is_a_break(void **state)
{
	const char *why;
	(void)state;
	sync_by_watch_list();
	assert_int_equal(reflector_deadline_ms(r, &why), asked_ms + (timeout_s() + 30) * 1000);
	now = reflector_deadline_ms(r, &why);
	break_off();
	asks("limit=1&");
	assert_int_equal(reflector_deadline_ms(r, &why), now + 60000);
}

static void
garbage_leads_to_the_last_good_version(void **state)
{
	(void)state;
	sync_by_watch_list();
	end_with((struct reflector_end){ .status = 200, .malformed = true, .retry_after_ms = -1 });
	assert_int_equal(reflector_failures(r), 1);
	asks("limit=1&resourceVersion=7&");
}

static void
an_error_event_that_is_no_410_is_watched_again_after_a_while(void **state)
{
	(void)state;
	sync_by_watch_list();
	error_event(500, false);
	assert_int_equal(reflector_failures(r), 1);
	asks("watch=1&allowWatchBookmarks=true&resourceVersion=7&");
}

/* It waits with no request of its own when the connection of the others breaks. */
static void
a_connection_lost_by_others_is_a_reason_to_probe(void **state)
{
	(void)state;
	sync_by_watch_list();
	error_event(500, false);
	reflector_doubt(r);
	asks("limit=1&resourceVersion=");
}

static void
a_version_that_is_not_understood_leads_to_a_relist(void **state)
{
	(void)state;
	sync_by_watch_list();
	now += 300000;
	end_with(clean);
	ask();
	refuse(400);
	assert_int_equal(reflector_failures(r), 1);
	asks_watch_list();
}

/* Whatever one server does for an hour, always the same. */
static void
requests_are_few_under_every_answer(void **state)
{
	static const struct reflector_end ends[] = {
		{ .status = 0, .broken = true, .retry_after_ms = -1 },
		{ .status = 200, .retry_after_ms = -1 },
		{ .status = 200, .broken = true, .retry_after_ms = -1 },
		{ .status = 200, .malformed = true, .retry_after_ms = -1 },
		{ .status = 200, .error_code = 410, .retry_after_ms = -1 },
		{ .status = 200, .error_code = 500, .retry_after_ms = -1 },
		{ .status = 200, .error_code = 504, .too_large = true, .retry_after_ms = -1 },
		{ .status = 301, .retry_after_ms = -1 },
		{ .status = 400, .retry_after_ms = -1 },
		{ .status = 401, .new_token = true, .retry_after_ms = -1 },
		{ .status = 403, .retry_after_ms = -1 },
		{ .status = 404, .retry_after_ms = -1 },
		{ .status = 410, .retry_after_ms = -1 },
		{ .status = 410, .token = "again", .retry_after_ms = -1 },
		{ .status = 422, .retry_after_ms = -1 },
		{ .status = 429, .retry_after_ms = 1000 },
		{ .status = 500, .retry_after_ms = -1 },
		{ .status = 503, .retry_after_ms = 1 },
		{ .status = 504, .too_large = true, .retry_after_ms = -1 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		for (int synced = 0; synced < 2; synced++) {
			unsigned requests = 0;
			finish(NULL);
			begin(NULL);
			if (synced)
				sync_by_watch_list();
			else
				ask();
			for (int64_t until = now + 3600000; now < until; requests++) {
				if (ends[i].status == 200 && !answered)
					answer_arrives();
				reflector_ended(r, now, &ends[i]);
				now++;
				ask();
			}
			if (requests > 60 * 61)
				fail_msg("case %zu: %u requests in an hour", i, requests);
		}
	}
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)
	const struct CMUnitTest tests[] = {
		TEST(a_watch_list_comes_first_and_its_mark_is_the_sync),
		TEST(timeouts_are_drawn_from_300_to_600),
		TEST(a_server_without_watch_list_is_listed_in_pages_at_once),
		TEST(sixty_seconds_without_progress_lead_to_a_list),
		TEST(a_server_that_sends_only_live_events_makes_no_progress),
		TEST(a_watch_list_that_breaks_twice_leads_to_a_list),
		TEST(a_clean_end_before_the_mark_is_a_break_too),
		TEST(a_page_that_breaks_is_asked_again_not_the_list),
		TEST(an_expired_continue_goes_on_with_the_token_of_the_410),
		TEST(a_list_that_never_ends_is_given_up),
		TEST(a_watch_that_ends_is_watched_again_from_the_last_event_of_any_type),
		TEST(watches_that_end_at_once_without_an_event_back_off_at_the_second),
		TEST(a_slow_answer_does_not_make_a_watch_that_ends_at_once_a_good_one),
		TEST(a_server_that_nobody_reached_has_not_failed_this_resource),
		TEST(watches_that_end_at_once_with_an_event_are_one_a_second_at_most),
		TEST(after_a_break_the_store_is_asked_whether_it_is_as_new_as_we),
		TEST(a_store_that_went_back_is_synced_anew_with_an_empty_version),
		TEST(a_410_leads_to_a_relist_after_a_jitter),
		TEST(a_410_right_after_the_relist_backs_off),
		TEST(retry_after_is_waited_for_and_then_the_same_is_asked),
		TEST(a_new_token_is_tried_at_once_but_once),
		TEST(a_403_is_believed_after_ten_seconds_of_nothing_else),
		TEST(a_403_right_after_a_reconnect_is_not_final),
		TEST(an_optional_one_that_is_denied_is_asked_every_five_minutes),
		TEST(a_required_one_that_is_denied_is_asked_within_thirty_seconds),
		TEST(no_answer_for_sixty_seconds_is_a_break),
		TEST(a_watch_that_outlives_its_timeout_by_thirty_seconds_is_a_break),
		TEST(garbage_leads_to_the_last_good_version),
		TEST(an_error_event_that_is_no_410_is_watched_again_after_a_while),
		TEST(a_connection_lost_by_others_is_a_reason_to_probe),
		TEST(a_version_that_is_not_understood_leads_to_a_relist),
		TEST(requests_are_few_under_every_answer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
