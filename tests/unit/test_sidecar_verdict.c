/* When DNS counts as healthy, and the sentence that the page shows when DNS is not healthy. */
#include "sidecar/page/status.h"
#include "sidecar/verdict/verdict.h"
#include "tests/unit/sidecar_fixture.h"

static struct verdict verdict;

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
	    LEVEL_WELL, "DNS is healthy: both probes are answered, typically within 0.30 ms");
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
	assert_verdict(
	    LEVEL_DEGRADED, "dnsmasq answers that the name does not exist; 1 more below");
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
	assert_verdict(LEVEL_WELL, "DNS is healthy");
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
	assert_verdict(LEVEL_WELL, "healthy");
	buckets_add(&cache.upstreams[0].recent_failed, view.now_ns, 1);
	assert_verdict(LEVEL_DEGRADED, "upstream 8.8.8.8:53 fails");
	view.now_ns += 700 * NS_PER_S;
	assert_verdict(LEVEL_WELL, "healthy");
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
	strcpy(kubedns.reasons, "not synced yet\nservices: no list\npods: no list");
	assert_verdict(LEVEL_DEGRADED, "kubedns is not ready");
	assert_string_equal(
	    verdict.findings[0].what, "kubedns is not ready: not synced yet; services: no list");
	/* A long reason is cut between two words. */
	for (size_t word = 0; word < 40; word++)
		memcpy(kubedns.reasons + 8 * word, "letters ", 9);
	assert_verdict(LEVEL_DEGRADED, "kubedns is not ready");
	const char *what = verdict.findings[0].what;
	assert_string_equal(what + strlen(what) - strlen(" letters ..."), " letters ...");
	memset(kubedns.reasons, 'x', sizeof kubedns.reasons - 1);
	assert_verdict(LEVEL_DEGRADED, "kubedns is not ready");
	kubedns.says_synced = true;
	assert_verdict(LEVEL_DEGRADED,
	    "DNS is running, but cluster names get SERVFAIL, because kubedns is not ready");
	kubedns.ready = kubedns.synced = true;
	assert_verdict(LEVEL_WELL, "healthy");
	kubedns.resource_count = 1;
	kubedns.resources[0] = (struct kubedns_resource){ "services", true, view.now_s - 3700 };
	assert_verdict(LEVEL_DEGRADED, "received nothing from the API server for 61 minutes");
}

/* unbound has no statistics for the sidecar, so their absence is no problem, and a failing external name is one. */
static void
unbound_is_judged_without_statistics(void **state)
{
	static const char dnsmasq[] = "{\"dnsmasq\": {\"engine\": \"dnsmasq\"}}",
			  unbound[] = "{\"dnsmasq\": {\"engine\": \"unbound\"}}";
	static struct check check = {
		.kind = CHECK_OUTSIDE, .asked = true, .failures = 9, .cause = CAUSE_SERVFAIL
	};
	struct nanny_view nanny = { .seen = false };

	(void)state;
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	cache.up = cache.seen = false;
	cache.errors = 9;
	view.nanny = &nanny;
	assert_verdict(LEVEL_WELL, "healthy");
	assert_int_equal(verdict.count, 0);
	nanny.seen = nanny.up = true;
	assert_int_equal(nanny_view_read(&nanny, dnsmasq, sizeof dnsmasq - 1), 0);
	assert_verdict(LEVEL_WELL, "healthy");
	assert_true(verdict.holds[VERDICT_STATISTICS]);
	assert_int_equal(nanny_view_read(&nanny, unbound, sizeof unbound - 1), 0);
	assert_verdict(LEVEL_WELL, "healthy");
	assert_int_equal(verdict.count, 0);
	checks.count = 1;
	checks.items[0] = &check;
	assert_verdict(LEVEL_DEGRADED, "external names fail");
	nanny_view_free(&nanny);
}

/* "14030 objects so far" contains the digits 403, but no response had the status 403. */
static void
advice_comes_from_the_named_problem_and_not_from_digits_in_the_text(void **state)
{
	static const char *const counts[] = { "14030", "24017", "401", "403" };
	static const struct {
		const char *name, *brief, *todo;
	} rows[] = { { "unauthorized", "refuses kubedns's token", "token" },
		{ "forbidden", "does not allow kubedns to list", "rbac.yaml" },
		{ "silent", "does not answer them", "overloaded" },
		{ "certificate_expired", "certificate has expired", "Renew" },
		{ "certificate_not_yet_valid", "is not valid yet", "clock" },
		{ "from a newer kubedns", "kubedns is not ready", "Can kubedns reach" } };
	char text[256];

	(void)state;
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	kubedns.seen = kubedns.up = true;
	view.kubedns = &kubedns;
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		int len = snprintf(text, sizeof text,
		    "{\"ready\":false,\"reason\":\"not_synced\",\"text\":\"not synced yet\\n"
		    "services: listing, %s objects so far\\n\",\"problems\":[]}\n",
		    counts[i]);

		kubedns_read_readiness(&kubedns, 503, text, (size_t)len);
		assert_verdict(LEVEL_DEGRADED, "kubedns is not ready.");
		assert_null(strstr(verdict.findings[0].todo, "rbac.yaml"));
		assert_non_null(strstr(verdict.findings[0].what, counts[i]));
	}
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		int len = snprintf(text, sizeof text,
		    "{\"text\":\"x\",\"problems\":[{\"resource\":\"services\",\"problem\":\"%s\"}]}"
		    "\n",
		    rows[i].name);

		kubedns_read_readiness(&kubedns, 503, text, (size_t)len);
		assert_verdict(LEVEL_DEGRADED, rows[i].brief);
		assert_non_null(strstr(verdict.findings[0].todo, rows[i].todo));
	}
}

static void
kubedns_that_knows_old_things_is_not_shown_as_synced(void **state)
{
	static const struct {
		bool up;
		double age_s, failing_s;
		const char *json;
	} cases[] = {
		{ true, 60, 0, "\"ready\":true,\"reasons\":\"\",\"synced\":true,\"silent\":false" },
		{ true, 3700, 0,
		    "\"ready\":true,\"reasons\":\"\",\"synced\":true,\"silent\":true" },
		{ true, 60, 10, "\"silent\":true" },
		{ false, 60, 0, "\"ready\":false,\"reasons\":\"\",\"synced\":false," },
	};

	(void)state;
	view.kubedns = &kubedns;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		kubedns = (struct kubedns_view){ .seen = true,
			.up = cases[i].up,
			.ready = true,
			.api_failing = cases[i].failing_s > 0,
			.api_failing_ns = view.now_ns - (int64_t)(cases[i].failing_s * 1e9),
			.resource_count = 1,
			.resources = { { "services", true, view.now_s - cases[i].age_s } } };
		char *json = shown_status();
		assert_non_null(strstr(json, cases[i].json));
		assert_non_null(strstr(json, "\"source\":\"api\""));
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
	kubedns.refused = true;
	result(DNSMASQ, CAUSE_OK, 1); /* the answer is from the cache of dnsmasq */
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
	assert_verdict(LEVEL_WELL, "DNS is healthy");
	assert_int_equal(verdict.count, 2);
	assert_true(verdict.holds[VERDICT_LOAD] && verdict.holds[VERDICT_CLOCK]);
	assert_non_null(strstr(verdict.findings[1].what, "was set back by 2 hours"));
}

static void
corrected_differences_are_a_note(void **state)
{
	(void)state;
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .up = true, .ready = true };
	static const char before[] =
	    "kubedns_audit_differences_total{resource=\"services\",difference=\"stale\"} 1\n";
	static const char after[] =
	    "kubedns_audit_differences_total{resource=\"services\",difference=\"stale\"} 2\n"
	    "kubedns_audit_differences_total{resource=\"namespaces\",difference=\"extra\"} 2\n";
	kubedns_read_metrics(&kubedns, before, sizeof before - 1, view.now_ns);
	assert_verdict(LEVEL_WELL, "DNS is healthy");
	assert_false(verdict.holds[VERDICT_DRIFT]);
	kubedns.seen = true;
	kubedns_read_metrics(&kubedns, after, sizeof after - 1, view.now_ns);
	assert_verdict(LEVEL_WELL, "DNS is healthy");
	assert_true(verdict.holds[VERDICT_DRIFT]);
	assert_non_null(
	    strstr(verdict.findings[0].what, "kubedns corrected 3 objects that differed"));
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

/* In the front topology, kubedns answers the clients. dnsmasq only gets queries for external names. */
static void
dnsmasq_that_is_silent_takes_what_the_topology_gives_it(void **state)
{
	static const char front[] = "kubedns_resolver_info{resolver=\"127.0.0.1:10153\"} 1\n";
	struct check outside = { .kind = CHECK_OUTSIDE,
		.asked = true,
		.failures = CHECK_FAILURES,
		.cause = CAUSE_TIMEOUT };

	(void)state;
	checks.count = 1;
	checks.items[0] = &outside;
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
	kubedns_read_metrics(&kubedns, front, sizeof front - 1, view.now_ns);
	view.dnsmasq.port = 10153;
	outside.server = view.dnsmasq;
	result(DNSMASQ, CAUSE_OK, 1); /* in this topology, port 53 is kubedns */
	result(KUBEDNS, CAUSE_OK, 1);
	dnsmasq_stats_fail(&cache, "hits.bind.: timeout", view.now_ns);
	assert_verdict(LEVEL_DEGRADED,
	    "Cluster names are answered, but external names fail: dnsmasq does not answer.");
	assert_non_null(strstr(verdict.findings[0].meaning, "forwards every external name"));

	view.dnsmasq.port = 53;
	outside.server = view.dnsmasq;
	kubedns_read_metrics(&kubedns, "", 0, view.now_ns);
	result(DNSMASQ, CAUSE_TIMEOUT, 2000);
	assert_verdict(LEVEL_DOWN, "DNS is down: dnsmasq does not answer, for ");
	assert_non_null(strstr(verdict.findings[0].meaning, "every name fails"));
	checks.count = 0;
}

/* Until kubedns has reported its topology, the probes decide. In the front topology, no probe
 * queries dnsmasq. */
static void
the_probes_tell_the_topology_while_kubedns_is_silent(void **state)
{
	(void)state;
	view.kubedns = &kubedns;
	kubedns.since_ns = view.now_ns;
	strcpy(kubedns.error, "connection refused");
	kubedns.refused = true;
	result(DNSMASQ, CAUSE_CONNECTION_REFUSED, 1);
	result(KUBEDNS, CAUSE_CONNECTION_REFUSED, 1);
	view.dnsmasq.port = 10153;
	assert_verdict(LEVEL_DOWN, "kubedns is not running");
	assert_non_null(strstr(verdict.findings[0].meaning, "every name fails"));
	view.dnsmasq.port = 53;
	assert_verdict(LEVEL_DOWN, "kubedns is not running");
	assert_non_null(strstr(verdict.findings[0].meaning, "once they expire in dnsmasq's cache"));
}

static void
a_broken_manifest_is_named_until_it_is_corrected(void **state)
{
	static const char one[] = "kubedns_manifest_files 3\nkubedns_manifest_files_broken 1\n";
	static const char none[] = "kubedns_manifest_files 3\nkubedns_manifest_files_broken 0\n";

	(void)state;
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
	kubedns_read_metrics(&kubedns, one, sizeof one - 1, view.now_ns);
	assert_verdict(LEVEL_DEGRADED, "DNS answers, but 1 manifest has a mistake.");
	assert_true(verdict.holds[VERDICT_MANIFESTS]);
	kubedns_read_metrics(&kubedns, none, sizeof none - 1, view.now_ns);
	assert_verdict(LEVEL_WELL, "healthy");
}

/* For every problem: without Kubernetes, the text does not mention kubectl, containers, pods and
 * ConfigMaps. */
static void
without_kubernetes_no_word_of_it_is_said(void **state)
{
	static const char *const words[] = { "kubectl", "ConfigMap", "ontainer", "kubelet",
		"replica", "this pod", "DNS pods", "port-forward" };
	static const char refused[] =
	    "{\"refused\": [{\"key\": \"stubDomains\", \"reason\": "
	    "\"not JSON\"}], \"hostLoop\": \"a\", \"memory\": {\"bytes\": 9, "
	    "\"limit\": 10}, \"names\": [{\"name\": \"ns.corp\", "
	    "\"addresses\": [], \"A\": {\"error\": \"NXDOMAIN\"}}]}";
	static struct check check = {
		.kind = CHECK_UPSTREAM, .asked = true, .failures = 9, .cause = CAUSE_TIMEOUT
	};
	struct nanny_view nanny = { .seen = true, .up = true };

	(void)state;
	assert_int_equal(nanny_view_read(&nanny, refused, sizeof refused - 1), 0);
	view.nanny = &nanny;
	view.kubedns = &kubedns;
	checks.count = 1;
	checks.items[0] = &check;
	for (int where = SURROUNDINGS_PLAIN; where < SURROUNDINGS_COUNT; where++)
		for (int cause = 0; cause < 2 * CAUSE_COUNT; cause++) {
			kubedns = (struct kubedns_view){ .seen = true,
				.up = cause % 2 == 0,
				.ready = true,
				.memory = 9,
				.memory_limit = 10,
				.has_manifests = true,
				.manifests_broken = 2,
				.neighbour_count = 0 };
			kubedns.refused = cause % 3 == 0;
			strcpy(kubedns.error, kubedns.refused ? "connection refused" : "timeout");
			buckets_add(&kubedns.recent[KUBEDNS_DROPPED], view.now_ns, 50);
			buckets_add(&kubedns.recent[KUBEDNS_SHED], view.now_ns, 50);
			result(DNSMASQ, (enum cause)(cause / 2), 1);
			result(KUBEDNS, (enum cause)(cause / 2), 1);
			view.surroundings = (enum surroundings)where;
			view.may_ask = cause % 4 == 0;
			size_t len;
			char *page = status_text(&view, &len);
			for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
				if (where != SURROUNDINGS_POD && strstr(page, words[i]) != NULL)
					fail_msg("surroundings %d: \"%.300s\"", where,
					    strstr(page, words[i]) - 100);
			assert_int_equal(strstr(page, "journalctl -u kubedns") != NULL ||
					     strstr(page, "systemctl status") != NULL,
			    where == SURROUNDINGS_SYSTEMD);
			free(page);
		}
	checks.count = 0;
	nanny_view_free(&nanny);
}

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
		T(unbound_is_judged_without_statistics),
		T(kubedns_that_knows_old_things_is_not_shown_as_synced),
		T(kubedns_that_is_dead_is_named_before_dnsmasq_that_asks_it),
		T(dnsmasq_that_is_silent_is_named_before_the_servers_that_it_asks),
		T(advice_comes_from_the_named_problem_and_not_from_digits_in_the_text),
		T(clients_that_are_held_back_and_a_clock_that_was_set_are_notes),
		T(corrected_differences_are_a_note),
		T(counts_of_kubedns_that_fell_are_those_of_a_new_process),
		T(kubedns_is_no_upstream_though_dnsmasq_counts_it_as_one),
		T(there_are_never_more_findings_than_room),
		T(dnsmasq_that_is_silent_takes_what_the_topology_gives_it),
		T(the_probes_tell_the_topology_while_kubedns_is_silent),
		T(a_broken_manifest_is_named_until_it_is_corrected),
		T(without_kubernetes_no_word_of_it_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
