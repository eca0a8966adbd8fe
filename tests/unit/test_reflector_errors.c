/* The next request of the reflector after an abnormal end. The causes are errors, broken
 * connections, a server with older state, and silence. */
#include "kubedns/api/reflector.h"
#include "tests/unit/reflector_fixture.h"

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
	/* the server also asks for a retry in a second, which does not apply here */
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
on_every_node_a_relist_waits_by_the_size_of_the_listing(void **state)
{
	static const struct {
		size_t bytes;
		int64_t most_ms;
	} cases[] = { { 1000, 3000 }, { 22000000, 44000 }, { 1000000000, 120000 } };

	(void)state;
	for (unsigned c = 0; c < 3; c++) {
		int64_t most = 0;

		for (int i = 0; i < 400; i++) {
			reflector_set_spread(r, true);
			asks_watch_list();
			assert_true(answer_arrives());
			reflector_progress(r, now, cases[c].bytes);
			assert_true(reflector_event(r, now, REFLECTOR_BOOKMARK, "7", true));
			/* Live events are not part of the listing. */
			reflector_progress(r, now, 5000000);
			now += 300000;
			error_event(410, false);
			assert_in_range(waits(), 0, cases[c].most_ms);
			most = waits() > most ? waits() : most;
			finish(NULL);
			begin(NULL);
		}
		assert_true(most > cases[c].most_ms * 9 / 10);
	}
}

/* The watch fails several times, for example because of an object that is too large. The backoff
 * then is long, but it does not apply to the listing. */
static void
a_410_after_failures_leads_to_a_relist_after_the_same_jitter(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		sync_by_watch_list();
		for (int failure = 0; failure < 7; failure++) {
			break_off();
			asks("limit=1&resourceVersion=7");
			assert_false(page("9", NULL));
			ask();
		}
		refuse(410);
		assert_in_range(waits(), 0, 3000);
		assert_int_equal(reflector_failures(r), 7);
		asks_watch_list();
		refuse(410);
		assert_int_equal(reflector_failures(r), 8);
		finish(NULL);
		begin(NULL);
	}
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
		assert_int_equal(reflector_failures(r), i);
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
	assert_in_range(waits(), 300000, 330000); /* 300 s is the upper limit */
	ask();
	end_with((struct reflector_end){ .status = 429, .retry_after_ms = -1 });
	assert_int_equal(reflector_failures(r), 1);
}

/* Earlier, clients that were refused at the same time returned almost at the same time: within a
 * tenth of the wait that the server had requested. */
static void
on_every_node_who_is_refused_comes_back_ever_later(void **state)
{
	static const int64_t limits[] = { 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000 };
	int64_t most[8] = { 0 };

	(void)state;
	for (int i = 0; i < 400; i++) {
		reflector_set_spread(r, true);
		assert_int_equal(reflector_due_ms(r), 0); /* the first request is sent at once */
		for (unsigned refused = 0; refused < 8; refused++) {
			asks_watch_list();
			end_with((struct reflector_end){ .status = 429, .retry_after_ms = 1000 });
			int64_t more = waits() - 1000;
			assert_in_range(more, 0, limits[refused]);
			most[refused] = more > most[refused] ? more : most[refused];
		}
		finish(NULL);
		begin(NULL);
	}
	for (unsigned refused = 0; refused < 8; refused++)
		assert_true(most[refused] > limits[refused] * 9 / 10);
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
	asks_watch_list(); /* the WatchList did not cause the break */
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

/* The connection of the other resources breaks while this reflector waits and has no request. */
static void
a_connection_lost_by_others_is_a_reason_to_probe(void **state)
{
	(void)state;
	sync_by_watch_list();
	error_event(500, false);
	reflector_doubt(r);
	asks("limit=1&resourceVersion=");
}

/* The response of this reflector arrived before the connection broke. It is read afterwards. */
static void
a_connection_lost_before_the_end_is_read_is_a_reason_to_probe(void **state)
{
	(void)state;
	sync_by_watch_list();
	reflector_doubt(r);
	end_with(clean);
	asks("limit=1&resourceVersion=");
	end_with(clean);
	ask();
	reflector_doubt(r);
	refuse(429);
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

/* For an hour, the server gives the same response to each request. */
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
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
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
	const struct CMUnitTest tests[] = {
		TEST(after_a_break_the_store_is_asked_whether_it_is_as_new_as_we),
		TEST(a_store_that_went_back_is_synced_anew_with_an_empty_version),
		TEST(a_410_leads_to_a_relist_after_a_jitter),
		TEST(on_every_node_a_relist_waits_by_the_size_of_the_listing),
		TEST(a_410_after_failures_leads_to_a_relist_after_the_same_jitter),
		TEST(a_410_right_after_the_relist_backs_off),
		TEST(retry_after_is_waited_for_and_then_the_same_is_asked),
		TEST(on_every_node_who_is_refused_comes_back_ever_later),
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
		TEST(a_connection_lost_before_the_end_is_read_is_a_reason_to_probe),
		TEST(a_version_that_is_not_understood_leads_to_a_relist),
		TEST(requests_are_few_under_every_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
