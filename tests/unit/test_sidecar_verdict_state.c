/* What the verdict says of the configuration that the nanny shows, of memory, and of refused questions. */
#include "sidecar/status.h"
#include "sidecar/verdict.h"
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
		    "A server leads back to dnsmasq and is not asked: 10.0.0.1 is dnsmasq" },
		{ "{\"hostLoop\": \"ns.corp: its address is dnsmasq\"}",
		    "is not asked: ns.corp: its address is dnsmasq" },
		{ "{\"names\": [{\"name\": \"ns.corp\", \"addresses\": [{\"address\": "
		  "\"10.0.0.1\"}]}]}",
		    "" },
		/* Not answered yet is no error. */
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
	/* To whom addresses are not shown, names of servers are not either. */
	view.may_ask = false;
	assert_string_equal(well_but_for(rows[6].config), "A stub domain's server has no address");
	assert_string_equal(
	    well_but_for(rows[2].config), "A server leads back to dnsmasq and is not asked");
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
	/* A dnsmasq that answers nothing is why, and has been named. */
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
		{ 85e6, 0, false } /* no limit */ };

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

/* dnsmasq answers REFUSED when its table is full, and when it has no server to ask. */
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
	    strstr(verdict.findings[0].what, "dnsmasq refuses questions for a name outside"));
	upstream.failures = CHECK_FAILURES;
	verdict_make(&verdict, &view);
	assert_null(strstr(verdict.findings[0].what, "refuses"));
	checks.count = 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_configuration_that_is_not_in_force_is_said),
		T(a_configuration_may_take_ten_seconds_to_be_confirmed),
		T(memory_is_said_from_85_percent_of_the_limit),
		T(refused_questions_are_a_full_table_where_there_are_servers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
