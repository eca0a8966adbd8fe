/* When is DNS well, what is said when it is not, and what of it can reach a browser. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sidecar/chart.h"
#include "lib/clock.h"
#include "sidecar/html.h"
#include "sidecar/journal.h"
#include "sidecar/journal_file.h"
#include "sidecar/page.h"
#include "sidecar/status.h"
#include "sidecar/format.h"
#include "sidecar/verdict.h"

enum { DNSMASQ, KUBEDNS, PROBES };

static struct probe probes[PROBES];
static struct dnsmasq_stats cache;
static struct kubedns_view kubedns;
static struct server_checks checks;
static struct view view;
static struct verdict verdict;

static int
setup(void **state)
{
	static const char *const specs[] = {
		"dnsmasq,127.0.0.1:53,kubernetes.default.svc.cluster.local,5,SRV",
		"kubedns,127.0.0.1:10053,kubernetes.default.svc.cluster.local,5,SRV"
	};
	char why[SPEC_WHY_MAX];

	(void)state;
	memset(&cache, 0, sizeof cache);
	memset(&kubedns, 0, sizeof kubedns);
	memset(&checks, 0, sizeof checks);
	view = (struct view){ .now_ns = 10000 * NS_PER_S,
		.now_s = 1.7e9,
		.host = "pod",
		.probes = probes,
		.probe_count = PROBES,
		.cache = &cache,
		.checks = &checks,
		.may_ask = true,
		.metrics_path = "/metrics",
		.prometheus_namespace = "kubedns" };
	for (int i = 0; i < PROBES; i++) {
		struct probe_spec spec;
		assert_int_equal(spec_parse(&spec, specs[i], why), 0);
		probe_init(&probes[i], &spec, view.now_ns - 600 * NS_PER_S, 0);
	}
	view.dnsmasq = probes[DNSMASQ].spec.server;
	cache.up = cache.seen = true;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	for (int i = 0; i < PROBES; i++)
		probe_close(&probes[i]);
	return 0;
}

static void
result(int probe, enum cause cause, double ms)
{
	struct probe_result r = { .cause = cause,
		.sent_ns = view.now_ns,
		.latency_ns = (int64_t)(ms * 1e6),
		.error = cause == CAUSE_UNREACHABLE ? 113 : 0 };

	probe_record(&probes[probe], &r, view.now_ns, view.now_s);
}

static void
assert_verdict(enum level level, const char *part)
{
	verdict_make(&verdict, &view);
	assert_string_equal(level_name(verdict.level), level_name(level));
	if (strstr(verdict.sentence, part) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", verdict.sentence, part);
}

static void
before_the_first_answer_it_waits(void **state)
{
	(void)state;
	assert_verdict(LEVEL_STARTING, "Waiting");
	result(DNSMASQ, CAUSE_OK, 1);
	assert_verdict(LEVEL_STARTING, "Waiting");
}

static void
all_answered_is_well(void **state)
{
	(void)state;
	result(DNSMASQ, CAUSE_OK, 0.3);
	result(KUBEDNS, CAUSE_OK, 0.2);
	assert_verdict(
	    LEVEL_WELL, "DNS is well: both probes are answered, typically within 0.30 ms");
	assert_int_equal(verdict.count, 0);
}

static void
clients_get_nothing_when_dnsmasq_is_silent(void **state)
{
	(void)state;
	result(DNSMASQ, CAUSE_TIMEOUT, 2000);
	result(KUBEDNS, CAUSE_OK, 0.2);
	view.now_ns += 35 * NS_PER_S;
	assert_verdict(LEVEL_DOWN, "DNS is down: dnsmasq does not answer, for 35 seconds.");
	assert_int_equal(verdict.count, 1);
	assert_true(verdict.findings[0].meaning[0] && verdict.findings[0].todo[0]);
}

static void
kubedns_alone_away_is_degraded(void **state)
{
	(void)state;
	result(DNSMASQ, CAUSE_OK, 0.3);
	result(KUBEDNS, CAUSE_CONNECTION_REFUSED, 0.1);
	assert_verdict(LEVEL_DEGRADED, "DNS answers, but kubedns refuses connections.");
}

static void
waiting_for_the_first_sync_is_alive(void **state)
{
	(void)state;
	result(DNSMASQ, CAUSE_NOT_READY, 0.3);
	result(KUBEDNS, CAUSE_NOT_READY, 0.2);
	assert_verdict(LEVEL_DEGRADED, "first sync");
}

static void
a_name_that_does_not_exist_is_no_outage(void **state)
{
	(void)state;
	result(DNSMASQ, CAUSE_NXDOMAIN, 0.3);
	result(KUBEDNS, CAUSE_NXDOMAIN, 0.2);
	assert_verdict(LEVEL_DEGRADED, "dnsmasq says that the name does not exist; 1 more below");
}

static void
every_cause_has_words(void **state)
{
	(void)state;
	for (int cause = CAUSE_OK + 1; cause < CAUSE_COUNT; cause++) {
		result(DNSMASQ, (enum cause)cause, 1);
		result(KUBEDNS, CAUSE_OK, 1);
		verdict_make(&verdict, &view);
		assert_true(verdict.level >= LEVEL_DEGRADED);
		assert_true(strlen(verdict.findings[0].meaning) > 20);
		assert_true(strlen(verdict.findings[0].todo) > 10);
		assert_true(strlen(cause_label((enum cause)cause)) > 2);
		assert_null(strstr(verdict.sentence, "(null)"));
		assert_string_not_equal(probes[DNSMASQ].error, "");
	}
}

static void
what_failed_often_and_is_answered_now_is_a_note(void **state)
{
	(void)state;
	result(KUBEDNS, CAUSE_OK, 1);
	for (int i = 0; i < 40; i++)
		result(DNSMASQ, i < 8 ? CAUSE_TIMEOUT : CAUSE_OK, 1);
	assert_verdict(LEVEL_WELL, "DNS is well");
	assert_int_equal(verdict.count, 1);
	assert_int_equal(verdict.findings[0].level, LEVEL_NOTE);
}

static void
an_upstream_that_fails_is_named(void **state)
{
	(void)state;
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	cache.upstream_count = 1;
	cache.upstreams[0] = (struct upstream){ .server = { { AF_INET, { 8, 8, 8, 8 } }, 53 } };
	buckets_add(&cache.upstreams[0].recent_queries, view.now_ns, 100);
	buckets_add(&cache.upstreams[0].recent_failed, view.now_ns, 9);
	assert_verdict(LEVEL_WELL, "well");
	buckets_add(&cache.upstreams[0].recent_failed, view.now_ns, 1);
	assert_verdict(LEVEL_DEGRADED, "upstream 8.8.8.8:53 fails");
	view.now_ns += 700 * NS_PER_S;
	assert_verdict(LEVEL_WELL, "well");
}

static void
kubedns_says_why_it_is_not_ready(void **state)
{
	(void)state;
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	kubedns.seen = kubedns.up = true;
	strcpy(kubedns.reasons, "services: not synced");
	view.kubedns = &kubedns;
	assert_verdict(LEVEL_DEGRADED, "kubedns is not ready");
	assert_non_null(strstr(verdict.findings[0].what, "services: not synced"));
	kubedns.ready = true;
	assert_verdict(LEVEL_WELL, "well");
	kubedns.resource_count = 1;
	kubedns.resources[0] = (struct kubedns_resource){ "services", true, view.now_s - 3700 };
	assert_verdict(LEVEL_DEGRADED, "heard nothing from the API server for 61 minutes");
}

static void
kubedns_that_knows_old_things_is_not_shown_as_synced(void **state)
{
	static const struct {
		bool up;
		double age_s;
		const char *card, *now, *json;
	} cases[] = {
		{ true, 60, "well", "synced", "\"ready\":true,\"reasons\":\"\",\"synced\":true," },
		{ true, 3700, "degraded", "out of date",
		    "\"ready\":true,\"reasons\":\"\",\"synced\":true," },
		{ false, 60, "stale", "no answer",
		    "\"ready\":false,\"reasons\":\"\",\"synced\":false," },
	};
	char head[256];
	size_t len;

	(void)state;
	view.kubedns = &kubedns;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		kubedns = (struct kubedns_view){ .seen = true,
			.up = cases[i].up,
			.ready = true,
			.resource_count = 1,
			.resources = { { "services", true, view.now_s - cases[i].age_s } } };
		char *page = page_html(&view, &len), *json = status_json(&view, &len);
		snprintf(head, sizeof head,
		    "<article class=\"card %s\">\n<div class=\"top\"><h3>Kubernetes API</h3>"
		    "<p class=\"now\">%s</p>",
		    cases[i].card, cases[i].now);
		assert_non_null(strstr(page, head));
		assert_int_equal(strstr(page, "What follows is old.") == NULL, cases[i].up);
		assert_non_null(strstr(page,
		    cases[i].age_s > 60 ? "<td>61 minutes ago</td>" : "<td>60 seconds ago</td>"));
		assert_non_null(strstr(json, cases[i].json));
		free(page);
		free(json);
	}
}

static void
kubedns_that_is_dead_is_named_before_dnsmasq_that_asks_it(void **state)
{
	(void)state;
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .since_ns = view.now_ns };
	strcpy(kubedns.error, "connection refused");
	result(DNSMASQ, CAUSE_OK, 1); /* from its cache */
	result(KUBEDNS, CAUSE_CONNECTION_REFUSED, 1);
	assert_verdict(LEVEL_DEGRADED, "DNS answers, but kubedns is not running.");
	result(DNSMASQ, CAUSE_SERVFAIL, 1);
	view.now_ns += 12 * NS_PER_S;
	assert_verdict(LEVEL_DOWN, "DNS is down: kubedns is not running, for 12 seconds.");
	assert_true(verdict.holds[VERDICT_KUBEDNS] && !verdict.holds[VERDICT_DNSMASQ]);
	for (size_t i = 1; i < verdict.count; i++)
		assert_int_equal(verdict.findings[i].level, LEVEL_NOTE);
}

static void
dnsmasq_that_is_silent_is_named_before_the_servers_that_it_asks(void **state)
{
	(void)state;
	result(DNSMASQ, CAUSE_TIMEOUT, 2000);
	result(KUBEDNS, CAUSE_OK, 1);
	dnsmasq_stats_fail(&cache, "hits.bind.: timeout", view.now_ns);
	cache.upstream_count = 1;
	cache.upstreams[0] = (struct upstream){ .server = { { AF_INET, { 8, 8, 8, 8 } }, 53 } };
	buckets_add(&cache.upstreams[0].recent_queries, view.now_ns, 100);
	buckets_add(&cache.upstreams[0].recent_failed, view.now_ns, 90);
	assert_verdict(LEVEL_DOWN, "DNS is down: dnsmasq does not answer, for less than a second.");
	assert_true(verdict.holds[VERDICT_DNSMASQ]);
}

static void
clients_that_are_held_back_and_a_clock_that_was_set_are_notes(void **state)
{
	(void)state;
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
	buckets_add(&kubedns.recent[KUBEDNS_SHED], view.now_ns, 5);
	view.clock_step_s = -7200;
	assert_verdict(LEVEL_WELL, "DNS is well");
	assert_int_equal(verdict.count, 2);
	assert_true(verdict.holds[VERDICT_LOAD] && verdict.holds[VERDICT_CLOCK]);
	assert_non_null(strstr(verdict.findings[1].what, "was set back by 2 hours"));
}

static void
counts_of_kubedns_that_fell_are_those_of_a_new_process(void **state)
{
	static const char first[] = "kubedns_dns_responses_total{rcode=\"NOERROR\"} 100\n";
	static const char second[] = "kubedns_dns_responses_total{rcode=\"NOERROR\"} 103\n"
				     "kubedns_dns_responses_total{rcode=\"YXDOMAIN\"} 2\n";
	static const char restarted[] = "kubedns_dns_responses_total{rcode=\"NOERROR\"} 4\n";

	(void)state;
	kubedns_read_metrics(&kubedns, first, sizeof first - 1, view.now_ns);
	kubedns.seen = true;
	assert_int_equal(buckets_sum(&kubedns.recent[KUBEDNS_NOERROR], view.now_ns), 0);
	kubedns_read_metrics(&kubedns, second, sizeof second - 1, view.now_ns);
	assert_int_equal(buckets_sum(&kubedns.recent[KUBEDNS_NOERROR], view.now_ns), 3);
	assert_int_equal(buckets_sum(&kubedns.recent[KUBEDNS_OTHER], view.now_ns), 2);
	kubedns_read_metrics(&kubedns, restarted, sizeof restarted - 1, view.now_ns);
	assert_int_equal(buckets_sum(&kubedns.recent[KUBEDNS_NOERROR], view.now_ns), 7);
}

static char *
shown_page(void)
{
	size_t len;
	char *page = page_html(&view, &len);

	assert_int_equal(strlen(page), len);
	return page;
}

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
	    "\"namespace\": \"shop\", \"queries\": 6000, \"per_second\": 50.4, \"nxdomain\": 4500, "
	    "\"search_walk\": 3000, \"aaaa\": 60, \"outside\": 0}, {\"address\": \"<b>\", "
	    "\"queries\": 0, \"per_second\": 1e99}], \"names\": [{\"name\": "
	    "\"web.default.svc.cluster.local.\", \"per_second\": 3.25}, 7]}";

	(void)state;
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
	kubedns_read_top(&kubedns, top, sizeof top - 1);
	assert_int_equal(kubedns.client_count, 2);
	char *page = shown_page();
	assert_non_null(strstr(page, "10.0.0.9<small>namespace shop</small></th><td>50<svg"));
	assert_non_null(strstr(page, "<path d=\"M0 0h100.0v4H0z\"/></svg></td>"
				     "<td>75&nbsp;%</td><td>50&nbsp;%</td><td>1&nbsp;%</td>"
				     "<td>0&nbsp;%</td>"));
	assert_non_null(strstr(page, "&lt;b&gt;</th><td>0.0</td>"));
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
	kubedns_read_top(&kubedns, "[]", 2);
	assert_int_equal(kubedns.client_count + kubedns.name_count, 0);
}

static const char *
newest(const struct journal *journal, size_t i)
{
	const struct journal_event *event = journal_get(journal, i, view.now_s);

	return event != NULL ? event->text : "";
}

static void
kubedns_is_no_upstream_though_dnsmasq_counts_it_as_one(void **state)
{
	(void)state;
	result(DNSMASQ, CAUSE_NOT_READY, 1);
	result(KUBEDNS, CAUSE_NOT_READY, 1);
	cache.upstream_count = 1;
	cache.upstreams[0] = (struct upstream){ .server = probes[KUBEDNS].spec.server };
	buckets_add(&cache.upstreams[0].recent_queries, view.now_ns, 100);
	buckets_add(&cache.upstreams[0].recent_failed, view.now_ns, 100);
	verdict_make(&verdict, &view);
	assert_false(verdict.holds[VERDICT_UPSTREAM]);
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
	assert_string_equal(newest(&journal, 0), "the sidecar was started");
	assert_string_equal(newest(&journal, 1), "");
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true };
	strcpy(kubedns.error, "connection refused");
	result(KUBEDNS, CAUSE_CONNECTION_REFUSED, 1);
	journal_look(&journal, &view);
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 1), "kubedns is not running");
	assert_string_equal(newest(&journal, 0), "probe kubedns: connection refused");
	view.now_s += 35;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true, .start_s = 5 };
	result(KUBEDNS, CAUSE_OK, 1);
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 1), "kubedns: well again after 35 seconds");
	assert_string_equal(newest(&journal, 0), "probe kubedns: answered again");
	kubedns.start_s = 50;
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "kubedns was started again");
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
	char *page = shown_page();
	assert_non_null(strstr(page, "<span class=\"bad\">does not answer</span> <span>0 queries"));
	free(page);
	b.cause = CAUSE_TIMEOUT;
	b.failures = CHECK_FAILURES;
	journal_look(&journal, &view);
	journal_look(&journal, &view);
	assert_string_equal(
	    newest(&journal, 0), "no upstream server answers: the first does not answer");
	assert_string_equal(newest(&journal, 1), "upstream server, one of 2, does not answer");
	a.failures = b.failures = 0;
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "server: well again after less than a second");
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
	assert_string_equal(newest(&journal, 0), "kubedns did not keep up: 50 packets dropped");
	kubedns.up = false;
	strcpy(kubedns.error, "connection refused");
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "kubedns is not running");
	kubedns.up = true;
	kubedns.recent[KUBEDNS_DROPPED] = (struct buckets){ 0 };
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "load: well again after less than a second");
	assert_string_equal(newest(&journal, 1), "kubedns: well again after less than a second");
}

/* The journal as the next process reads it. */
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
	result(KUBEDNS, CAUSE_CONNECTION_REFUSED, 1);
	journal_look(&journal, &view);
	view.now_s += 20;
	view.now_ns += 20 * NS_PER_S;
	start_again(&journal);
	/* It still holds: the same trouble, and no news. */
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "the sidecar was started again");
	assert_string_equal(newest(&journal, 1), "probe kubedns: connection refused");
	assert_string_equal(newest(&journal, 2), "kubedns is not running");
	assert_string_equal(newest(&journal, 3), "the sidecar was started");
	assert_string_equal(newest(&journal, 4), "");
	view.now_s += 20;
	view.now_ns += 20 * NS_PER_S;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true, .start_s = 50 };
	result(KUBEDNS, CAUSE_OK, 1);
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 2), "kubedns was started again");
	assert_string_equal(newest(&journal, 1), "kubedns: well again after 40 seconds");
	assert_string_equal(newest(&journal, 0), "probe kubedns: answered again");
}

static void
what_ended_while_nobody_looked_is_told_after_a_while(void **state)
{
	static struct journal journal;

	(void)state;
	journal = (struct journal){ 0 };
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .error = "connection refused" };
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_CONNECTION_REFUSED, 1);
	journal_look(&journal, &view);
	view.now_s += 60;
	view.now_ns += 60 * NS_PER_S;
	start_again(&journal);
	kubedns = (struct kubedns_view){ 0 }; /* not asked yet */
	result(KUBEDNS, CAUSE_OK, 1);
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "probe kubedns: answered again");
	assert_string_equal(newest(&journal, 1), "the sidecar was started again");
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
	view.now_s += JOURNAL_SETTLE_S;
	view.now_ns += JOURNAL_SETTLE_S * NS_PER_S;
	journal_look(&journal, &view);
	assert_string_equal(newest(&journal, 0), "kubedns: well again after 75 seconds");
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
	char *page = page_html(&view, &len);
	assert_non_null(strstr(page, "&lt;b&gt;kept"));
	free(page);
	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
		assert_int_equal(journal_read(&journal, &view, none[i], strlen(none[i])), -EBADMSG);
}

static void
there_are_never_more_findings_than_room(void **state)
{
	(void)state;
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	cache.upstream_count = UPSTREAMS_MAX;
	for (int i = 0; i < UPSTREAMS_MAX; i++) {
		cache.upstreams[i] =
		    (struct upstream){ .server = { { AF_INET, { 8, 8, 8, (uint8_t)i } }, 53 } };
		buckets_add(&cache.upstreams[i].recent_queries, view.now_ns, 100);
		buckets_add(&cache.upstreams[i].recent_failed, view.now_ns, 100);
	}
	verdict_make(&verdict, &view);
	assert_int_equal(verdict.count, FINDINGS_MAX);
	assert_int_equal(verdict.count + verdict.more, UPSTREAMS_MAX);
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

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(before_the_first_answer_it_waits),
		T(all_answered_is_well),
		T(clients_get_nothing_when_dnsmasq_is_silent),
		T(kubedns_alone_away_is_degraded),
		T(waiting_for_the_first_sync_is_alive),
		T(a_name_that_does_not_exist_is_no_outage),
		T(every_cause_has_words),
		T(what_failed_often_and_is_answered_now_is_a_note),
		T(an_upstream_that_fails_is_named),
		T(kubedns_says_why_it_is_not_ready),
		T(kubedns_that_knows_old_things_is_not_shown_as_synced),
		T(kubedns_that_is_dead_is_named_before_dnsmasq_that_asks_it),
		T(dnsmasq_that_is_silent_is_named_before_the_servers_that_it_asks),
		T(clients_that_are_held_back_and_a_clock_that_was_set_are_notes),
		T(counts_of_kubedns_that_fell_are_those_of_a_new_process),
		T(kubedns_is_no_upstream_though_dnsmasq_counts_it_as_one),
		T(answers_are_drawn_by_rcode_one_on_the_other),
		T(what_the_memory_limit_allows_is_said),
		T(the_other_pods_are_linked_for_those_who_may_ask),
		T(who_asks_most_is_shown_to_those_who_may_ask),
		T(the_journal_tells_what_began_and_what_ended),
		T(the_journal_is_bounded_and_names_no_address),
		T(a_server_more_that_fails_is_told_and_shown_beside_its_counts),
		T(what_a_dead_process_said_is_not_well_again),
		T(the_journal_goes_on_after_a_restart),
		T(what_ended_while_nobody_looked_is_told_after_a_while),
		T(a_foreign_journal_is_taken_as_far_as_it_makes_sense),
		T(there_are_never_more_findings_than_room),
		T(foreign_text_is_text_in_the_page),
		T(who_may_not_ask_sees_no_box),
		T(who_may_not_ask_is_not_told_what_the_configuration_says),
		T(decades_hold_what_is_between),
		T(numbers_read_as_people_read_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
