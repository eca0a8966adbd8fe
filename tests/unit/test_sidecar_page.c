/* What the page shows, to whom, and what of foreign text can reach a browser. */
#include <math.h>

#include "sidecar/page/chart.h"
#include "sidecar/format.h"
#include "sidecar/page/html.h"
#include "sidecar/page/status.h"
#include "sidecar/verdict/verdict.h"
#include "tests/unit/sidecar_fixture.h"

static struct verdict verdict;

static void
answers_are_drawn_by_rcode_one_on_the_other(void **state)
{
	(void)state;
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
	view.started_ns = view.now_ns - HISTORY_S * NS_PER_S;
	buckets_add(&kubedns.recent[KUBEDNS_NOERROR], view.now_ns, 50);
	buckets_add(&kubedns.recent[KUBEDNS_NXDOMAIN], view.now_ns, 30);
	buckets_add(&kubedns.recent[KUBEDNS_REFUSED], view.now_ns, 20);
	char *page = shown_page();
	assert_non_null(strstr(page, "50 NOERROR, 30 NXDOMAIN, 0 SERVFAIL, 20 REFUSED"));
	assert_non_null(strstr(page, "<span>10/s</span>"));
	/* From the bottom at 100: half, then three tenths, then two, up to the top. */
	assert_non_null(strstr(page, "class=\"bar\" d=\"M591 100.0v-50.0h8v50.0z\""));
	assert_non_null(strstr(page, "class=\"softbar\" d=\"M591 50.0v-30.0h8v30.0z\""));
	assert_non_null(strstr(page, "class=\"badbar\" d=\"M591 20.0v-20.0h8v20.0z\""));
	free(page);
	view.started_ns = 0;
}

static void
what_the_memory_limit_allows_is_said(void **state)
{
	static const struct {
		double memory, limit;
		const char *says;
	} cases[] = {
		{ 25e6, 134e6,
		    "Memory: 25 of 134 MB; before the alert at 85&nbsp;% there is room for "
		    "about 74,000 more Services of 15 endpoints each.</p>" },
		{ 114e6, 134e6, "Memory: 114 of 134 MB.</p>" },
		{ 113.8e6, 134e6, "room for about 83 more Services" },
		{ 25e6, 0, "Memory: 25 MB; the container has no limit.</p>" },
	};

	(void)state;
	view.kubedns = &kubedns;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		kubedns = (struct kubedns_view){ .seen = true,
			.up = true,
			.ready = true,
			.memory = cases[i].memory,
			.memory_limit = cases[i].limit };
		char *page = shown_page();
		if (strstr(page, cases[i].says) == NULL)
			fail_msg("not said: %s", cases[i].says);
		free(page);
	}
}

static void
the_other_pods_are_linked_for_those_who_may_ask(void **state)
{
	static const char lines[] =
	    "10.0.0.9 not ready\nfd00::2 ready\n10.0.0.2 ready\n<b> ready\n10.0.0.3\n"
	    "10.0.0.4 ready, and so on and so on and so on and so on and so on\n10.0.0.5 ready";

	(void)state;
	view.kubedns = &kubedns;
	view.port = 10054;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
	kubedns_read_neighbours(&kubedns, lines, sizeof lines - 1);
	assert_int_equal(kubedns.neighbour_count, 3);
	char *page = shown_page();
	const char *first = strstr(page, "<a href=\"http://10.0.0.2:10054/\">10.0.0.2</a> ready");
	const char *second = strstr(page, ">10.0.0.9</a> <span class=\"bad\">not ready");
	assert_true(first != NULL && second != NULL && first < second);
	assert_non_null(strstr(page, "<a href=\"http://[fd00::2]:10054/\">fd00::2</a>"));
	free(page);
	view.may_ask = false;
	page = shown_page();
	assert_null(strstr(page, "10.0.0.2"));
	free(page);
	kubedns_read_neighbours(&kubedns, lines, 0);
	assert_int_equal(kubedns.neighbour_count, 0);
}

static void
who_asks_most_is_shown_to_those_who_may_ask(void **state)
{
	static const char top[] =
	    "{\"seconds\": 120, \"queries\": 9000, \"clients\": [{\"address\": \"10.0.0.9\", "
	    "\"namespace\": \"shop\", \"pod\": \"web-1\", \"node\": \"a\", \"queries\": 6000, "
	    "\"per_second\": 50.4, \"nxdomain\": 4500, "
	    "\"search_walk\": 3000, \"aaaa\": 60, \"outside\": 0}, {\"address\": \"<b>\", "
	    "\"namespace\": \"shop\", "
	    "\"queries\": 0, \"per_second\": 1e99}], \"names\": [{\"name\": "
	    "\"web.default.svc.cluster.local.\", \"per_second\": 3.25}, 7]}";

	(void)state;
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
	kubedns_read_top(&kubedns, top, sizeof top - 1, view.now_ns);
	assert_int_equal(kubedns.client_count, 2);
	char *page = shown_page();
	assert_non_null(strstr(page, "10.0.0.9<small>pod shop/web-1</small></th><td>50<svg"));
	assert_non_null(strstr(page, "<path d=\"M0 0h100.0v4H0z\"/></svg></td>"
				     "<td>75&nbsp;%</td><td>50&nbsp;%</td><td>1&nbsp;%</td>"
				     "<td>0&nbsp;%</td>"));
	assert_non_null(strstr(page, "&lt;b&gt;<small>namespace shop</small></th><td>0.0</td>"));
	assert_non_null(strstr(page, "web.default.svc.cluster.local.</th><td>3.2<svg"));
	free(page);
	buckets_add(&kubedns.recent[KUBEDNS_SHED], view.now_ns, 10);
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	verdict_make(&verdict, &view);
	assert_non_null(strstr(verdict.findings[0].what, "; the heaviest now is 10.0.0.9"));
	view.may_ask = false;
	page = shown_page();
	assert_null(strstr(page, "10.0.0.9"));
	free(page);
	kubedns_read_top(&kubedns, "[]", 2, view.now_ns);
	assert_int_equal(kubedns.client_count + kubedns.name_count, 0);
}

static void
foreign_text_is_text_in_the_page(void **state)
{
	size_t len;

	(void)state;
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	view.host = "<script>alert(1)</script>";
	kubedns.seen = kubedns.up = true;
	strcpy(kubedns.reasons, "\"><img src=x onerror='alert(1)'>\xff\x1b[2J\xe2\x80\xae");
	kubedns.resource_count = kubedns.kind_count = 1;
	strcpy(kubedns.resources[0].name, "<b>&\"'");
	strcpy(kubedns.kinds[0].name, "</dl><script>");
	view.kubedns = &kubedns;
	view.may_ask = true;
	view.ask_text = "\"><script>alert(2)</script>";
	view.ask_error = "<i>";
	char *page = page_html(&view, &len);
	assert_int_equal(strlen(page), len);
	assert_null(strstr(page, "<script>"));
	assert_null(strstr(page, "<img"));
	assert_null(strstr(page, "<b>"));
	assert_null(strstr(page, "<i>"));
	assert_null(strchr(page, '\x1b'));
	assert_null(strstr(page, "\xe2\x80\xae"));
	assert_non_null(strstr(page, "value=\"&quot;&gt;&lt;script&gt;alert(2)"));
	assert_non_null(strstr(page, "&lt;b&gt;&amp;&quot;&#39;"));
	free(page);
}

static void
who_may_not_ask_sees_no_box(void **state)
{
	size_t len;

	(void)state;
	view.may_ask = false;
	char *page = page_html(&view, &len);
	assert_null(strstr(page, "<form"));
	assert_non_null(strstr(page, "port-forward"));
	free(page);
}

/* Of the ConfigMap, others learn the key that was refused, not what it holds. */
static void
who_may_not_ask_is_not_told_what_the_configuration_says(void **state)
{
	static const char config[] =
	    "{\"refused\":[{\"key\":\"stubDomains\",\"reason\":\"corp.internal: no address\"}],"
	    "\"names\":[{\"name\":\"ns.corp.internal\",\"A\":{\"error\":\"timeout\"}}]}";
	struct nanny_view nanny = { .seen = true, .up = true };
	size_t len;

	(void)state;
	assert_int_equal(nanny_view_read(&nanny, config, sizeof config - 1), 0);
	view.nanny = &nanny;
	view.may_ask = false;
	for (int i = 0; i < 2; i++, view.may_ask = true) {
		char *page = page_html(&view, &len), *json = status_json(&view, &len);
		assert_non_null(strstr(page, "stubDomains was refused"));
		assert_non_null(strstr(json, "stubDomains was refused"));
		assert_non_null(strstr(json, "\"refusedKeys\":[\"stubDomains\"]"));
		assert_int_equal(strstr(page, "corp.internal") != NULL, view.may_ask);
		assert_int_equal(strstr(json, "corp.internal") != NULL, view.may_ask);
		free(page);
		free(json);
	}
	nanny_view_free(&nanny);
}

static void
decades_hold_what_is_between(void **state)
{
	int low, high;

	(void)state;
	chart_decades(0.05, 0.4, &low, &high);
	assert_int_equal(low, -2);
	assert_int_equal(high, 0);
	chart_decades(3, 3, &low, &high);
	assert_int_equal(low, 0);
	assert_int_equal(high, 2);
	chart_decades(0.02, 1999, &low, &high);
	assert_int_equal(low, -2);
	assert_int_equal(high, 4);
	chart_decades(0, 1e9, &low, &high);
	assert_int_equal(low, -2);
	assert_int_equal(high, 4);
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
	assert_string_equal(format_percent(0.99999, text), "99.9 %");
	assert_string_equal(format_time(0, text), "never");
}

/* After a flood the rates are still drawn, while nobody asks enough to be ranked. */
static void
a_table_of_top_clients_without_a_row_is_left_out(void **state)
{
	(void)state;
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
	strcpy(kubedns.rates.clients[0].name, "10.0.0.9");
	buckets_add(&kubedns.rates.clients[0].answers, view.now_ns - 300 * NS_PER_S, 1000);
	char *page = shown_page();
	assert_non_null(strstr(page, "Too few queries in the last two minutes to rank."));
	assert_null(strstr(page, "top-table"));
	free(page);
	kubedns.client_count = 1;
	strcpy(kubedns.clients[0].name, "10.0.0.9");
	page = shown_page();
	assert_null(strstr(page, "Too few queries"));
	assert_non_null(strstr(page, "<caption>Clients</caption>"));
	assert_null(strstr(page, "<caption>Names</caption>"));
	free(page);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_table_of_top_clients_without_a_row_is_left_out),
		T(answers_are_drawn_by_rcode_one_on_the_other),
		T(what_the_memory_limit_allows_is_said),
		T(the_other_pods_are_linked_for_those_who_may_ask),
		T(who_asks_most_is_shown_to_those_who_may_ask),
		T(foreign_text_is_text_in_the_page),
		T(who_may_not_ask_sees_no_box),
		T(who_may_not_ask_is_not_told_what_the_configuration_says),
		T(decades_hold_what_is_between),
		T(numbers_read_as_people_read_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
