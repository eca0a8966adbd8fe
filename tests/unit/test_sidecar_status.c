/* The JSON document (/status.json) and the text (/status.txt) of the status page. The tests check
 * the facts in them, which clients may see each fact, and how texts from other programs are
 * escaped. */
#include <math.h>

#include <json-c/json.h>

#include "lib/utf8.h"
#include "sidecar/format.h"
#include "sidecar/containers/nanny_config.h"
#include "tests/unit/sidecar_fixture.h"

static struct verdict verdict;

/* Returns whether the document contains this text. */
static bool
says(const char *text)
{
	char *json = shown_status();
	bool found = strstr(json, text) != NULL;

	free(json);
	return found;
}

static void
answers_over_time_have_the_oldest_first(void **state)
{
	(void)state;
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
	buckets_add(
	    &kubedns.recent[KUBEDNS_NOERROR], view.now_ns - (BUCKETS - 1) * BUCKET_S * NS_PER_S, 7);
	buckets_add(&kubedns.recent[KUBEDNS_NOERROR], view.now_ns, UINT32_MAX);
	char *json = shown_status();
	const char *series = strstr(json, "\"NOERROR\":[7,0,0,");
	assert_non_null(series);
	const char *end = strchr(series, ']');
	assert_memory_equal(
	    end - strlen(",0,4294967295"), ",0,4294967295", strlen(",0,4294967295"));
	int commas = 0;
	for (const char *p = series + strlen("\"NOERROR\":["); p < end; p++)
		commas += *p == ',';
	assert_int_equal(commas, BUCKETS - 1);
	free(json);
}

static void
memory_that_is_not_known_is_null(void **state)
{
	(void)state;
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .memory = 25e6, .memory_limit = 134e6 };
	assert_true(says("\"memoryBytes\":25000000.0,\"memoryLimitBytes\":134000000.0"));
	kubedns.memory_limit = 0;
	assert_true(says("\"memoryBytes\":25000000.0,\"memoryLimitBytes\":null"));
}

static void
the_other_pods_are_named_to_those_who_may_ask(void **state)
{
	static const char json[] = "{\"neighbours\":[{\"address\":\"10.0.0.9\",\"ready\":false},"
				   "{\"address\":\"fd00::2\",\"ready\":true},"
				   "{\"address\":\"10.0.0.2\",\"ready\":true},"
				   "{\"address\":\"<b>\",\"ready\":true},7,{\"ready\":true}]}";
	static const char lines[] = "10.0.0.9 not ready\nfd00::2 ready\n";

	(void)state;
	view.kubedns = &kubedns;
	view.port = 10054;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
	kubedns_read_neighbours(&kubedns, json, sizeof json - 1);
	assert_int_equal(kubedns.neighbour_count, 3);
	assert_true(says("\"neighbourCount\":3,\"neighbours\":["
			 "{\"address\":\"10.0.0.2\",\"ready\":true},"
			 "{\"address\":\"10.0.0.9\",\"ready\":false},"
			 "{\"address\":\"fd00::2\",\"ready\":true}]"));
	assert_true(says("\"port\":10054"));
	view.may_ask = false;
	assert_false(says("10.0.0.2"));
	assert_true(says("\"neighbourCount\":3,\"neighbours\":[]"));
	kubedns_read_neighbours(&kubedns, json, 0);
	assert_int_equal(kubedns.neighbour_count, 0);
	/* An older kubedns sends lines of text. This sidecar does not read them. */
	kubedns_read_neighbours(&kubedns, lines, sizeof lines - 1);
	assert_int_equal(kubedns.neighbour_count, 0);
}

static void
who_asks_most_is_told_to_those_who_may_ask(void **state)
{
	static const char top[] =
	    "{\"seconds\": 120, \"queries\": 9000, \"clients\": [{\"address\": \"10.0.0.9\", "
	    "\"namespace\": \"shop\", \"pod\": \"web-1\", \"node\": \"a\", \"queries\": 6000, "
	    "\"per_second\": 50.5, \"nxdomain\": 4500, "
	    "\"search_walk\": 3000, \"aaaa\": 60, \"outside\": 0}, {\"address\": \"<b>\", "
	    "\"namespace\": \"shop\", "
	    "\"queries\": 0, \"per_second\": 1e99}], \"names\": [{\"name\": "
	    "\"web.default.svc.cluster.local.\", \"per_second\": 3.25}, 7]}";

	(void)state;
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
	kubedns_read_top(&kubedns, top, sizeof top - 1, view.now_ns);
	assert_int_equal(kubedns.client_count, 2);
	strcpy(kubedns.rates.clients[0].name, "10.0.0.9");
	buckets_add(&kubedns.rates.clients[0].answers, view.now_ns, 1000);
	assert_true(
	    says("{\"name\":\"10.0.0.9\",\"pod\":\"pod "
		 "shop/web-1\",\"perSecond\":50.5,\"queries\":6000.0,"
		 "\"nxdomain\":4500.0,\"searchWalk\":3000.0,\"aaaa\":60.0,\"outside\":0.0}"));
	assert_true(says("{\"name\":\"<b>\",\"pod\":\"namespace shop\",\"perSecond\":0.0,"));
	assert_true(
	    says("{\"name\":\"web.default.svc.cluster.local.\",\"pod\":\"\",\"perSecond\":3.25,"));
	assert_true(says(",1000]}]"));
	buckets_add(&kubedns.recent[KUBEDNS_SHED], view.now_ns, 10);
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	verdict_make(&verdict, &view);
	assert_non_null(strstr(verdict.findings[0].what, "; the top client now is 10.0.0.9"));
	view.may_ask = false;
	assert_false(says("10.0.0.9"));
	assert_true(says("\"topKnown\":true,\"topClients\":[],\"topNames\":[],\"topRates\":[]"));
	kubedns_read_top(&kubedns, "[]", 2, view.now_ns);
	assert_int_equal(kubedns.client_count + kubedns.name_count, 0);
}

/* json-c does not escape these strings, and a terminal executes control characters. */
static void
foreign_text_is_text_in_valid_utf8(void **state)
{
	size_t len;

	(void)state;
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	view.host = "pod\x1b[2J\xff";
	view.metrics_path = "/\xe2\x80\xae\"";
	kubedns = (struct kubedns_view){ .seen = true, .up = true };
	strcpy(kubedns.reasons, "\"><img src=x onerror='alert(1)'>\xff\x1b[2J\xe2\x80\xae\n");
	kubedns.resource_count = kubedns.kind_count = 1;
	strcpy(kubedns.resources[0].name, "<b>&\"'\xc3");
	strcpy(kubedns.kinds[0].name, "</dl>\xed\xa0\x80<script>");
	view.kubedns = &kubedns;
	char *json = shown_status();
	struct json_object *parsed = json_tokener_parse(json);
	assert_int_equal(utf8_whole(json, strlen(json)), strlen(json));
	struct json_object *shown = config_member(parsed, "kubedns", json_type_object);
	assert_string_equal(config_string(shown, "reasons"),
	    "\"><img src=x onerror='alert(1)'>\xef\xbf\xbd\x1b[2J\xe2\x80\xae\n");
	assert_string_equal(config_string(parsed, "host"), "pod\x1b[2J\xef\xbf\xbd");
	json_object_put(parsed);
	free(json);
	char *text = status_text(&view, &len);
	assert_int_equal(utf8_whole(text, len), strlen(text));
	assert_null(strchr(text, '\x1b'));
	assert_null(strstr(text, "\xe2\x80\xae"));
	assert_non_null(
	    strstr(text, "pod\xef\xbf\xbd[2J\xef\xbf\xbd, as of 2023-11-14 22:13:20 UTC\n"));
	free(text);
}

static void
the_text_begins_with_the_sentence_and_has_the_command(void **state)
{
	size_t len;

	(void)state;
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .since_ns = view.now_ns };
	strcpy(kubedns.error, "connection refused");
	kubedns.refused = true;
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_CONNECTION_REFUSED, 1);
	char *text = status_text(&view, &len);
	const char *sentence = "DNS answers, but kubedns is not running.\n";
	assert_memory_equal(text, sentence, strlen(sentence));
	assert_non_null(strstr(text, "\nkubedns is not running: connection refused"));
	assert_non_null(strstr(text, "\n  $ kubectl -n kube-system "));
	free(text);
}

/* Clients without permission see which key of the ConfigMap was refused, but not the content of the
 * key. */
static void
who_may_not_ask_is_not_told_what_the_configuration_says(void **state)
{
	static const char config[] =
	    "{\"refused\":[{\"key\":\"stubDomains\",\"reason\":\"corp.internal: no address\"}],"
	    "\"names\":[{\"name\":\"ns.corp.internal\",\"A\":{\"error\":\"timeout\"}}],"
	    "\"keys\":{\"stubDomains\":{\"inForce\":{\"a.test\":[]}},\"hosts\":{\"inForce\":"
	    "\"own\"}}}";
	struct nanny_view nanny = { .seen = true, .up = true };
	size_t len;

	(void)state;
	assert_int_equal(nanny_view_read(&nanny, config, sizeof config - 1), 0);
	view.nanny = &nanny;
	view.may_ask = false;
	for (int i = 0; i < 2; i++, view.may_ask = true) {
		char *text = status_text(&view, &len), *json = status_json(&view, &len);

		assert_non_null(strstr(text, "stubDomains was refused"));
		assert_non_null(strstr(json, "stubDomains was refused"));
		assert_non_null(strstr(json, "\"refusedKeys\":[\"stubDomains\"]"));
		assert_int_equal(strstr(text, "corp.internal") != NULL, view.may_ask);
		assert_int_equal(strstr(json, "corp.internal") != NULL, view.may_ask);
		assert_int_equal(
		    strstr(json, "\"stubDomains\":{\"inForce\":{\"a.test\":[]}}") != NULL,
		    view.may_ask);
		assert_null(strstr(json, "own")); /* the document has only facts for the page */
		free(text);
		free(json);
	}
	nanny_view_free(&nanny);
}

/* The history of a probe. A point is the age, and then the latency or the failure. */
static void
a_history_has_latencies_and_failures(void **state)
{
	struct history_point points[] = {
		{ view.now_ns - 601 * NS_PER_S, 9, CAUSE_OK },
		{ view.now_ns - 3 * NS_PER_S, 0.25, CAUSE_OK },
		{ view.now_ns - 2 * NS_PER_S, 0, CAUSE_TIMEOUT },
		{ view.now_ns - NS_PER_S / 2, 0, CAUSE_NOT_READY },
	};

	(void)state;
	for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
		history_add(&probes[KUBEDNS].history, &points[i]);
	assert_true(says("\"history\":[[3000,250],[2000,\"timeout\"],[500,\"not_ready\"]]"));
}

/* The reasons quote the API server, with namespaces and addresses. */
static void
why_kubedns_is_not_ready_is_told_to_those_who_may_ask(void **state)
{
	(void)state;
	kubedns = (struct kubedns_view){ .seen = true, .up = true };
	snprintf(kubedns.reasons, sizeof kubedns.reasons, "https://10.96.0.1: forbidden");
	view.kubedns = &kubedns;
	view.may_ask = true;
	assert_true(says("\"reasons\":\"https://10.96.0.1: forbidden\""));
	view.may_ask = false;
	assert_true(says("\"reasons\":\"\""));
	assert_false(says("10.96.0.1"));
}

/* Returns the number of points of all histories in the document. */
static size_t
history_points(const char *json)
{
	size_t points = 0;

	for (const char *at = json; (at = strstr(at, "\"history\":[[")) != NULL;) {
		const char *end = strstr(at, "]]");

		for (; at < end; at++)
			points += at[0] == '[' && at[1] != '[';
	}
	return points;
}

/* 41 histories have 585 points each. In each history, the last point stands for fewer values than
 * the other points. */
static void
histories_of_any_length_have_six_thousand_points_at_most(void **state)
{
	enum { MANY = 41, POINTS = 585 };
	static struct probe many[MANY];

	(void)state;
	for (int i = 0; i < MANY; i++) {
		many[i].spec = probes[0].spec;
		history_init(&many[i].history, 1);
		for (int at = POINTS; at > 0; at--)
			history_add(&many[i].history,
			    &(struct history_point){ view.now_ns - at * NS_PER_S, 1, CAUSE_OK });
	}
	view.probes = many;
	view.probe_count = MANY;
	char *json = shown_status();
	assert_in_range(history_points(json), 4000, 6000);
	assert_non_null(strstr(json, "\"historyStep\":5,"));
	free(json);
	view.probe_count = 1;
	assert_true(says("\"historyStep\":1,"));
	for (int i = 0; i < MANY; i++)
		history_free(&many[i].history);
}

/* A page that is open fetches the document again and again. With 100 probes per second, the
 * document is smaller than 200 KB. Failures are never left out. */
static void
the_history_of_many_probes_is_thinned(void **state)
{
	enum { MANY = 100 };
	static struct probe many[MANY];
	size_t points = 0;

	(void)state;
	for (int i = 0; i < MANY; i++) {
		many[i].spec = probes[0].spec;
		history_init(&many[i].history, 1);
		for (int at = HISTORY_S; at > 0; at--)
			history_add(&many[i].history,
			    &(struct history_point){ view.now_ns - at * NS_PER_S, (float)at,
				(uint8_t)(at == 333 ? CAUSE_SERVFAIL : CAUSE_OK) });
	}
	view.probes = many;
	view.probe_count = MANY;
	char *json = shown_status();
	size_t len = strlen(json);
	const char *at = json;
	for (int i = 0; i < MANY; i++) {
		at = strstr(at, "\"history\":[[");
		assert_non_null(at);
		const char *end = strstr(at, "]]");
		const char *failed = strstr(at, "[333000,\"servfail\"]");
		assert_true(failed != NULL && failed < end);
		for (; at < end; at++)
			points += at[0] == '[' && at[1] != '[';
	}
	print_message("%d probes: %zu bytes, %zu points\n", MANY, len, points);
	assert_in_range(points, 5000, 6000);
	assert_in_range(len, 1, 200000);
	free(json);
	for (int i = 0; i < MANY; i++)
		history_free(&many[i].history);
}

static void
numbers_read_as_people_read_them(void **state)
{
	char text[FORMAT_MAX];

	(void)state;
	assert_string_equal(format_ms(0.314, text), "0.31 ms");
	assert_string_equal(format_ms(12.4, text), "12 ms");
	assert_string_equal(format_ms(1999, text), "2.0 s");
	assert_string_equal(format_ms(NAN, text), "-");
	assert_string_equal(format_duration(0.2, text), "less than a second");
	assert_string_equal(format_duration(1, text), "1 second");
	assert_string_equal(format_duration(119, text), "119 seconds");
	assert_string_equal(format_duration(120, text), "2 minutes");
	assert_string_equal(format_duration(86400 * 3, text), "3 days");
	assert_string_equal(format_count(1234567, text), "1,234,567");
	assert_string_equal(format_count(UINT64_MAX, text), "18,446,744,073,709,551,615");
	assert_string_equal(format_time(0, text), "never");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(answers_over_time_have_the_oldest_first),
		T(memory_that_is_not_known_is_null),
		T(the_other_pods_are_named_to_those_who_may_ask),
		T(who_asks_most_is_told_to_those_who_may_ask),
		T(foreign_text_is_text_in_valid_utf8),
		T(the_text_begins_with_the_sentence_and_has_the_command),
		T(who_may_not_ask_is_not_told_what_the_configuration_says),
		T(a_history_has_latencies_and_failures),
		T(the_history_of_many_probes_is_thinned),
		T(histories_of_any_length_have_six_thousand_points_at_most),
		T(why_kubedns_is_not_ready_is_told_to_those_who_may_ask),
		T(numbers_read_as_people_read_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
