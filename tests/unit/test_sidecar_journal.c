/* The events of the last day on the status page. They survive a restart. */
#include <json-c/json.h>

#include "sidecar/page/journal.h"
#include "sidecar/page/journal_file.h"
#include "tests/unit/sidecar_fixture.h"

static const char *
newest(const struct journal *journal, size_t i)
{
	const struct journal_event *event = journal_get(journal, i, view.now_s);

	return event != NULL ? event->text : "";
}

static void
the_journal_tells_what_began_and_what_ended(void **state)
{
	static struct journal journal;

	(void)state;
	journal = (struct journal){ 0 };
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	journal_look(&journal, &view);
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "the sidecar started");
	assert_string_equal(newest(&journal, 1), "");
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true };
	strcpy(kubedns.error, "connection refused");
	kubedns.refused = true;
	result(KUBEDNS, CAUSE_CONNECTION_REFUSED, 1);
	journal_look(&journal, &view);
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 1), "kubedns is not running");
	assert_string_equal(newest(&journal, 0), "probe kubedns: connection refused");
	view.now_s += 35;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true, .start_s = 5 };
	result(KUBEDNS, CAUSE_OK, 1);
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 1), "kubedns: recovered after 35 seconds");
	assert_string_equal(newest(&journal, 0), "probe kubedns: answered again");
	kubedns.start_s = 50;
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "kubedns restarted");
	view.now_s += JOURNAL_S + 1;
	assert_string_equal(newest(&journal, 0), "");
}

static void
the_journal_is_bounded_and_names_no_address(void **state)
{
	static struct journal journal;

	(void)state;
	journal = (struct journal){ 0 };
	result(DNSMASQ, CAUSE_OK, 1);
	cache.upstream_count = 1;
	cache.upstreams[0] = (struct upstream){ .server = { { AF_INET, { 8, 8, 8, 8 } }, 53 } };
	buckets_add(&cache.upstreams[0].recent_queries, view.now_ns, 100);
	buckets_add(&cache.upstreams[0].recent_failed, view.now_ns, 100);
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "upstream server fails");
	for (int i = 0; i < JOURNAL_MAX; i++) {
		result(KUBEDNS, i % 2 == 0 ? CAUSE_TIMEOUT : CAUSE_OK, 1);
		journal_look(&journal, &view);
	}
	assert_int_equal(journal.count, JOURNAL_MAX);
	assert_string_equal(newest(&journal, JOURNAL_MAX), "");
	assert_string_not_equal(newest(&journal, JOURNAL_MAX - 1), "");
}

static void
a_server_more_that_fails_is_told_and_shown_beside_its_counts(void **state)
{
	static struct journal journal;
	static struct check a = { .kind = CHECK_UPSTREAM,
		.server = { { AF_INET, { 8, 8, 8, 8 } }, 53 } },
			    b = { .kind = CHECK_UPSTREAM,
				    .server = { { AF_INET, { 9, 9, 9, 9 } }, 53 } };

	(void)state;
	journal = (struct journal){ 0 };
	checks.items[0] = &a;
	checks.items[1] = &b;
	checks.count = 2;
	cache.upstream_count = 1;
	cache.upstreams[0] = (struct upstream){ .server = a.server };
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	a.cause = CAUSE_TIMEOUT;
	a.failures = CHECK_FAILURES;
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "upstream server, one of 2, does not answer");
	char *json = shown_status();
	assert_non_null(
	    strstr(json, "\"recentQueries\":0,\"recentFailed\":0,\"failure\":\"does not answer\""));
	free(json);
	b.cause = CAUSE_TIMEOUT;
	b.failures = CHECK_FAILURES;
	journal_look(&journal, &view);
	journal_look(&journal, &view);
	assert_string_equal(
	    newest(&journal, 0), "no upstream server answers: the first does not answer");
	assert_string_equal(newest(&journal, 1), "upstream server, one of 2, does not answer");
	a.failures = b.failures = 0;
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "server: recovered after less than a second");
	checks.count = 0;
}

static void
what_a_dead_process_said_is_not_well_again(void **state)
{
	static struct journal journal;

	(void)state;
	journal = (struct journal){ 0 };
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
	buckets_add(&kubedns.recent[KUBEDNS_DROPPED], view.now_ns, 50);
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "kubedns does not keep up: 50 packets dropped");
	kubedns.up = false;
	strcpy(kubedns.error, "connection refused");
	kubedns.refused = true;
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "kubedns is not running");
	kubedns.up = true;
	kubedns.recent[KUBEDNS_DROPPED] = (struct buckets){ 0 };
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "load: recovered after less than a second");
	assert_string_equal(newest(&journal, 1), "kubedns: recovered after less than a second");
}

/* Writes the journal and reads it again, like a new process. */
static void
start_again(struct journal *journal)
{
	size_t len;
	char *text = journal_text(journal, &view, &len);

	*journal = (struct journal){ 0 };
	assert_int_equal(journal_read(journal, &view, text, len), 0);
	free(text);
	view.started_ns = view.now_ns;
}

static void
the_journal_goes_on_after_a_restart(void **state)
{
	static struct journal journal;

	(void)state;
	journal = (struct journal){ 0 };
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true, .start_s = 5 };
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	journal_look(&journal, &view);
	kubedns.up = false;
	strcpy(kubedns.error, "connection refused");
	kubedns.refused = true;
	result(KUBEDNS, CAUSE_CONNECTION_REFUSED, 1);
	journal_look(&journal, &view);
	view.now_s += 20;
	view.now_ns += 20 * NS_PER_S;
	start_again(&journal);
	/* The problem still exists, so there is no new event. */
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "the sidecar restarted");
	assert_string_equal(newest(&journal, 1), "probe kubedns: connection refused");
	assert_string_equal(newest(&journal, 2), "kubedns is not running");
	assert_string_equal(newest(&journal, 3), "the sidecar started");
	assert_string_equal(newest(&journal, 4), "");
	view.now_s += 20;
	view.now_ns += 20 * NS_PER_S;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true, .start_s = 50 };
	result(KUBEDNS, CAUSE_OK, 1);
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 2), "kubedns restarted");
	assert_string_equal(newest(&journal, 1), "kubedns: recovered after 40 seconds");
	assert_string_equal(newest(&journal, 0), "probe kubedns: answered again");
}

static void
what_ended_while_nobody_looked_is_told_after_a_while(void **state)
{
	static struct journal journal;

	(void)state;
	journal = (struct journal){ 0 };
	view.kubedns = &kubedns;
	kubedns =
	    (struct kubedns_view){ .seen = true, .refused = true, .error = "connection refused" };
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_CONNECTION_REFUSED, 1);
	journal_look(&journal, &view);
	view.now_s += 60;
	view.now_ns += 60 * NS_PER_S;
	start_again(&journal);
	kubedns = (struct kubedns_view){ 0 }; /* kubedns has not been queried yet */
	result(KUBEDNS, CAUSE_OK, 1);
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "probe kubedns: answered again");
	assert_string_equal(newest(&journal, 1), "the sidecar restarted");
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
	view.now_s += JOURNAL_SETTLE_S;
	view.now_ns += JOURNAL_SETTLE_S * NS_PER_S;
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "kubedns: recovered after 75 seconds");
	view.started_ns = 0;
}

static void
a_foreign_journal_is_taken_as_far_as_it_makes_sense(void **state)
{
	static const char foreign[] =
	    "{\"events\": [{\"at\": 1700000000, \"level\": \"note\", \"what\": \"<b>kept</b>\"},"
	    "{\"at\": 1e300, \"level\": \"note\", \"what\": \"no time\"},"
	    "{\"at\": 1600000000, \"level\": \"note\", \"what\": \"long ago\"},"
	    "{\"at\": 1700000000, \"level\": \"loud\", \"what\": \"no level\"}, 7, null],"
	    "\"holds\": {\"server\": -1, \"nobody\": 1700000000, \"kubedns\": \"x\"},"
	    "\"failing\": [[], \"nobody\"], \"hash\": 5, \"kubednsStart\": {}}";

	static const char *const none[] = { "", "[]", "{", "{\"events\": []} x",
		"{\"events\":[[[[[[]]]]]]}", "\xff" };
	static struct journal journal;
	size_t len;

	(void)state;
	journal = (struct journal){ 0 };
	assert_int_equal(journal_read(&journal, &view, foreign, sizeof foreign - 1), 0);
	assert_string_equal(newest(&journal, 0), "<b>kept</b>");
	assert_int_equal(journal.count, 1);
	for (int cause = 0; cause < VERDICT_CAUSES; cause++)
		assert_false(journal.holds[cause]);
	assert_false(journal.failing[DNSMASQ] || journal.failing[KUBEDNS]);
	view.journal = &journal;
	char *json = status_json(&view, &len);
	assert_non_null(strstr(json, "\"what\":\"<b>kept</b>\""));
	free(json);
	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
		assert_int_equal(journal_read(&journal, &view, none[i], strlen(none[i])), -EBADMSG);
}

/* If a hash is too long or is not text, its stored form is compared. So each configuration is
 * reported once. */
static void
a_hash_is_told_once(void **state)
{
	static const char *const hashes[] = { "ab", "ab\xff",
		"0123456789012345678901234567890123456789",
		"012345678901234567890123456789012345678\xc3\xa4" };
	static struct journal journal;

	(void)state;
	journal = (struct journal){ 0 };
	struct nanny_view with = { .up = true, .config = json_object_new_object() };
	view.nanny = &with;
	for (size_t i = 0; i < sizeof hashes / sizeof *hashes; i++) {
		json_object_object_add(
		    view.nanny->config, "confirmedHash", json_object_new_string(hashes[i]));
		journal_look(&journal, &view);
		size_t count = journal.count;
		journal_look(&journal, &view);
		assert_int_equal(journal.count, count);
		start_again(&journal);
		journal_look(&journal, &view);
		assert_string_equal(newest(&journal, 0), "the sidecar restarted");
	}
	json_object_put(with.config);
	view.nanny = NULL;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_journal_tells_what_began_and_what_ended),
		T(the_journal_is_bounded_and_names_no_address),
		T(a_server_more_that_fails_is_told_and_shown_beside_its_counts),
		T(what_a_dead_process_said_is_not_well_again),
		T(the_journal_goes_on_after_a_restart),
		T(what_ended_while_nobody_looked_is_told_after_a_while),
		T(a_hash_is_told_once),
		T(a_foreign_journal_is_taken_as_far_as_it_makes_sense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
