/* The health verdict on the configuration of the nanny, on memory, and on refused queries. */
#include "sidecar/page/status.h"
#include "sidecar/verdict/verdict.h"
#include "tests/unit/sidecar_fixture.h"

static struct verdict verdict;

static const char *
well_but_for(const char *config)
{
	struct nanny_view nanny = { .seen = true, .up = true };

	if (nanny_view_read(&nanny, config, strlen(config)) < 0)
		fail_msg("%s: %s", config, nanny.error);
	nanny.unconfirmed_ns = 0;
	view.nanny = &nanny;
	verdict_make(&verdict, &view);
	view.nanny = NULL;
	nanny_view_free(&nanny);
	return verdict.count == 0 ? "" : verdict.findings[0].what;
}

static void
probes_are_answered(void)
{
	result(DNSMASQ, CAUSE_OK, 1);
	result(KUBEDNS, CAUSE_OK, 1);
}

static void
the_configuration_that_is_not_in_force_is_said(void **state)
{
	(void)state;
	static const struct {
		const char *config, *what;
	} rows[] = {
		{ "{}", "" },
		{ "{\"refused\": [{\"key\": \"stubDomains\", \"reason\": \"not JSON\"}]}",
		    "stubDomains" },
		{ "{\"upstreams\": {\"refused\": \"10.0.0.1 is dnsmasq\"}}",
		    "A server leads back to dnsmasq and is not used: 10.0.0.1 is dnsmasq" },
		{ "{\"hostLoop\": \"ns.corp: its address is dnsmasq\"}",
		    "is not used: ns.corp: its address is dnsmasq" },
		{ "{\"names\": [{\"name\": \"ns.corp\", \"addresses\": [{\"address\": "
		  "\"10.0.0.1\"}]}]}",
		    "" },
		/* If there is no answer yet, that is not an error. */
		{ "{\"names\": [{\"name\": \"ns.corp\", \"addresses\": []}]}", "" },
		{ "{\"names\": [{\"name\": \"ns.corp\", \"addresses\": [], \"A\": {\"error\": "
		  "\"NXDOMAIN\"}}]}",
		    "A stub domain's server has no address: ns.corp: NXDOMAIN" },
	};

	probes_are_answered();
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		const char *what = well_but_for(rows[i].config);

		if (rows[i].what[0] == '\0' ? what[0] != '\0' : strstr(what, rows[i].what) == NULL)
			fail_msg("%s: \"%s\", not \"%s\"", rows[i].config, what, rows[i].what);
	}
	/* Clients that may not see addresses do not see the names of servers either. */
	view.may_ask = false;
	assert_string_equal(well_but_for(rows[6].config), "A stub domain's server has no address");
	assert_string_equal(
	    well_but_for(rows[2].config), "A server leads back to dnsmasq and is not used");
}

static void
a_refused_key_without_a_good_value_before_has_no_effect(void **state)
{
	static const char *const configs[] = {
		"{\"refused\": [{\"key\": \"stubDomains\", \"reason\": \"not JSON\", "
		"\"previousInForce\": true}]}",
		"{\"refused\": [{\"key\": \"stubDomains\", \"reason\": \"not JSON\", "
		"\"previousInForce\": false}]}",
	};

	(void)state;
	probes_are_answered();
	for (int i = 0; i < 2; i++) {
		well_but_for(configs[i]);
		assert_int_equal(strstr(verdict.findings[0].meaning,
				     "last good value of this key stays") != NULL,
		    i == 0);
		assert_int_equal(
		    strstr(verdict.findings[0].meaning, "the key has no effect") != NULL, i == 1);
	}
}

static void
findings_name_the_engine_that_runs(void **state)
{
	(void)state;
	probes_are_answered();
	assert_string_equal(well_but_for("{\"dnsmasq\": {\"engine\": \"unbound\"}, \"hostLoop\": "
					 "\"ns.corp\"}"),
	    "A server leads back to unbound and is not used: ns.corp");
	assert_non_null(
	    strstr(verdict.findings[0].meaning, "unbound's table of queries is full. unbound"));
	assert_non_null(strstr(verdict.sentence, "leads back to unbound"));
}

static void
names_that_get_servfail_because_of_a_refused_key_are_said(void **state)
{
	(void)state;
	probes_are_answered();
	assert_string_equal(well_but_for("{\"refused\": [{\"key\": \"upstreamNameservers\", "
					 "\"reason\": \"not JSON\", \"previousInForce\": false, "
					 "\"closed\": true}]}"),
	    "The ConfigMap's upstreamNameservers was refused, and its names get SERVFAIL: not "
	    "JSON");
	assert_string_equal(verdict.findings[0].scope, "Cluster names are answered");
	assert_non_null(strstr(verdict.findings[0].meaning, "not sent in plain text"));
}

static void
refused_ca_certificates_are_not_a_key_of_the_configmap_kube_dns(void **state)
{
	(void)state;
	probes_are_answered();
	assert_string_equal(well_but_for("{\"refused\": [{\"key\": \"upstream-ca\", \"reason\": "
					 "\"has no certificate\", \"previousInForce\": false}]}"),
	    "The ConfigMap upstream-ca was refused: has no certificate");
	assert_non_null(strstr(verdict.findings[0].meaning, "all queries to tls:// servers fail"));
	assert_null(strstr(verdict.findings[0].todo, "kube-dns"));
}

static void
a_configuration_may_take_ten_seconds_to_be_confirmed(void **state)
{
	(void)state;
	struct nanny_view nanny = { .seen = true, .up = true };

	probes_are_answered();
	view.nanny = &nanny;
	nanny.unconfirmed_ns = view.now_ns - 9 * NS_PER_S;
	verdict_make(&verdict, &view);
	assert_int_equal(verdict.count, 0);
	nanny.unconfirmed_ns = view.now_ns - 10 * NS_PER_S;
	verdict_make(&verdict, &view);
	assert_string_equal(
	    verdict.findings[0].what, "dnsmasq has not confirmed the newest configuration");
	assert_int_equal(verdict.level, LEVEL_DEGRADED);
	/* dnsmasq has not confirmed the configuration because it does not answer. That problem is
	 * already reported. */
	cache.up = false;
	cache.errors = 1;
	for (int i = 0; i < 3; i++)
		result(DNSMASQ, CAUSE_TIMEOUT, 1);
	verdict_make(&verdict, &view);
	assert_non_null(strstr(verdict.findings[0].what, "does not answer"));
	for (size_t i = 0; i < verdict.count; i++)
		assert_null(strstr(verdict.findings[i].what, "not confirmed"));
	view.nanny = NULL;
}

static void
memory_is_said_from_85_percent_of_the_limit(void **state)
{
	(void)state;
	static const struct {
		double used, limit;
		bool said;
	} rows[] = { { 84.9e6, 100e6, false }, { 85e6, 100e6, true }, { 100e6, 100e6, true },
		{ 85e6, 0, false } /* there is no limit */ };

	probes_are_answered();
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		view.memory = rows[i].used;
		view.memory_limit = rows[i].limit;
		verdict_make(&verdict, &view);
		if ((verdict.count > 0) != rows[i].said)
			fail_msg("%.1f of %.1f MB: %s", rows[i].used / 1e6, rows[i].limit / 1e6,
			    verdict.sentence);
	}
	view.memory = 85e6;
	view.memory_limit = 100e6;
	verdict_make(&verdict, &view);
	assert_string_equal(
	    verdict.findings[0].what, "Container sidecar uses 85 of 100 MB of its memory");
}

static struct check
failing_check(enum check_kind kind, enum cause cause)
{
	return (struct check){ .kind = kind,
		.server = { { AF_INET, { 9, 9, 9, 9 } }, 53 },
		.cause = cause,
		.asked = true,
		.failures = CHECK_FAILURES,
		.since_ns = view.now_ns - 60 * NS_PER_S };
}

/* dnsmasq answers REFUSED in two cases: its table is full, or it has no server for the query. */
static void
refused_questions_are_a_full_table_where_there_are_servers(void **state)
{
	(void)state;
	struct check outside = failing_check(CHECK_OUTSIDE, CAUSE_REFUSED),
		     upstream = failing_check(CHECK_UPSTREAM, CAUSE_TIMEOUT);

	probes_are_answered();
	checks.items[0] = &outside;
	checks.count = 1;
	verdict_make(&verdict, &view);
	assert_int_equal(verdict.count, 0);
	checks.items[1] = &upstream;
	checks.count = 2;
	upstream.failures = 0;
	verdict_make(&verdict, &view);
	assert_non_null(
	    strstr(verdict.findings[0].what, "dnsmasq refuses queries for an external name"));
	upstream.failures = CHECK_FAILURES;
	verdict_make(&verdict, &view);
	assert_null(strstr(verdict.findings[0].what, "refuses"));
	checks.count = 0;
}

static void
without_any_upstream_server_another_one_is_the_remedy(void **state)
{
	(void)state;
	struct check dead = failing_check(CHECK_UPSTREAM, CAUSE_TIMEOUT),
		     good = failing_check(CHECK_UPSTREAM, CAUSE_OK);

	good.failures = 0;
	probes_are_answered();
	checks.items[0] = &dead;
	checks.items[1] = &good;
	for (checks.count = 1; checks.count <= 2; checks.count++) {
		verdict_make(&verdict, &view);
		assert_int_equal(strstr(verdict.findings[0].todo, "name another server") != NULL,
		    checks.count == 1);
		assert_int_equal(
		    strstr(verdict.findings[0].todo, "remove it") != NULL, checks.count == 2);
	}
	checks.count = 0;
}

/* One of two upstream servers is down. That is not the reason why dnsmasq gets no answer from
 * kubedns. */
static void
down_is_said_of_what_is_down(void **state)
{
	(void)state;
	struct check dead = failing_check(CHECK_UPSTREAM, CAUSE_TIMEOUT),
		     good = failing_check(CHECK_UPSTREAM, CAUSE_OK);

	good.failures = 0;
	checks.items[0] = &dead;
	checks.items[1] = &good;
	checks.count = 2;
	result(DNSMASQ, CAUSE_SERVFAIL, 1);
	result(KUBEDNS, CAUSE_OK, 1);
	verdict_make(&verdict, &view);
	checks.count = 0;
	assert_int_equal(verdict.level, LEVEL_DOWN);
	assert_non_null(strstr(verdict.sentence, "DNS is down: dnsmasq answers with SERVFAIL"));
	assert_non_null(strstr(verdict.findings[0].what, "Upstream server 9.9.9.9:53"));
}

/* The page names a client that got most of the answers of kubedns in the seconds in which packets
 * were dropped. Other times do not count, and dnsmasq is never named. Only clients with permission
 * see the name. */
static void
who_asked_while_packets_were_dropped_is_named(void **state)
{
	(void)state;
	static const struct {
		const char *client, *pod;
		unsigned drops_ago_s, of_1000;
		bool named;
	} rows[] = {
		{ "10.0.0.9", "pod shop/web-1", 0, 920, true },
		{ "fd00::9", "", 0, 500, true },
		{ "10.0.0.9", "", 10, 920, true }, /* answers were counted a little later */
		{ "10.0.0.9", "", 0, 499, false },
		{ "127.0.0.1", "", 0, 920, false },
		{ "; rm -rf /", "", 0, 920, false },
	};

	probes_are_answered();
	view.kubedns = &kubedns;
	for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
		size_t row = i / 2;
		char named[80];

		kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
		struct client_rate *rate = &kubedns.rates.clients[3];
		strcpy(rate->name, rows[row].client);
		strcpy(rate->pod, rows[row].pod);
		buckets_add(&kubedns.recent[KUBEDNS_NOERROR], view.now_ns - 60 * NS_PER_S, 9000);
		buckets_add(&rate->answers, view.now_ns, rows[row].of_1000);
		buckets_add(&kubedns.recent[KUBEDNS_NXDOMAIN], view.now_ns, 1000);
		buckets_add(&kubedns.recent[KUBEDNS_DROPPED],
		    view.now_ns - rows[row].drops_ago_s * NS_PER_S, 4321);
		view.may_ask = i % 2 == 0;
		verdict_make(&verdict, &view);
		snprintf(named, sizeof named, "packets dropped, while %s got %u %% of the answers",
		    rows[row].client, rows[row].of_1000 / 10);
		assert_int_equal(
		    strstr(verdict.sentence, named) != NULL, rows[row].named && view.may_ask);
		assert_non_null(
		    strstr(verdict.sentence, "kubedns does not keep up: 4,321 packets"));
		assert_int_equal(strstr(verdict.findings[0].command, "grep -wF") != NULL,
		    rows[row].named && view.may_ask);
		assert_int_equal(strstr(verdict.findings[0].what, "(pod shop/web-1)") != NULL,
		    row == 0 && view.may_ask);
	}
}

/* If a client sent its queries when no packets were dropped, the page does not name it. A flood
 * that has ended is a note. */
static void
a_flood_that_is_over_is_a_note_and_fires_no_alert(void **state)
{
	static const struct {
		unsigned drops_ago_s, answers_ago_s;
		bool holds, named;
	} rows[] = { { 0, 0, true, true }, { 10, 10, true, true }, { 20, 20, false, true },
		{ 590, 590, false, true }, { 60, 40, false, false }, { 0, 20, true, false } };

	(void)state;
	probes_are_answered();
	view.kubedns = &kubedns;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
		struct client_rate *rate = &kubedns.rates.clients[0];
		strcpy(rate->name, "10.0.0.9");
		buckets_add(&kubedns.recent[KUBEDNS_DROPPED],
		    view.now_ns - rows[i].drops_ago_s * NS_PER_S, 4321);
		buckets_add(&rate->answers, view.now_ns - rows[i].answers_ago_s * NS_PER_S, 1000);
		buckets_add(&kubedns.recent[KUBEDNS_NOERROR],
		    view.now_ns - rows[i].answers_ago_s * NS_PER_S, 1000);
		verdict_make(&verdict, &view);
		assert_int_equal(verdict.count, 1);
		assert_int_equal(verdict.holds[VERDICT_LOAD], rows[i].holds);
		assert_int_equal(verdict.level, rows[i].holds ? LEVEL_DEGRADED : LEVEL_WELL);
		assert_int_equal(
		    strstr(verdict.findings[0].what, "10.0.0.9") != NULL, rows[i].named);
	}
	assert_non_null(strstr(verdict.sentence, "does not keep up"));
}

static void
what_to_do_about_memory_depends_on_whose_it_is(void **state)
{
	(void)state;
	probes_are_answered();
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){
		.seen = true, .up = true, .ready = true, .memory = 9, .memory_limit = 10
	};
	verdict_make(&verdict, &view);
	assert_non_null(strstr(verdict.findings[0].todo, "grows with Services and endpoints"));
	view.kubedns = NULL;
	assert_non_null(strstr(
	    well_but_for("{\"memory\": {\"bytes\": 9, \"limit\": 10}}"), "Container dnsmasq uses"));
	assert_non_null(strstr(verdict.findings[0].todo, "do its upstream servers answer?"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(down_is_said_of_what_is_down),
		T(without_any_upstream_server_another_one_is_the_remedy),
		T(who_asked_while_packets_were_dropped_is_named),
		T(a_flood_that_is_over_is_a_note_and_fires_no_alert),
		T(a_refused_key_without_a_good_value_before_has_no_effect),
		T(what_to_do_about_memory_depends_on_whose_it_is),
		T(the_configuration_that_is_not_in_force_is_said),
		T(findings_name_the_engine_that_runs),
		T(names_that_get_servfail_because_of_a_refused_key_are_said),
		T(refused_ca_certificates_are_not_a_key_of_the_configmap_kube_dns),
		T(a_configuration_may_take_ten_seconds_to_be_confirmed),
		T(memory_is_said_from_85_percent_of_the_limit),
		T(refused_questions_are_a_full_table_where_there_are_servers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
