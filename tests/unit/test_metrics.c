/* The metrics page in the two formats that Prometheus reads. In the system tests, promtool checks
 * whole pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/metrics.h"

static struct metrics *m;

static void
assert_page(const char *expected)
{
	size_t len = 0;
	char *text = metrics_finish(m, &len);

	assert_string_equal(text, expected);
	assert_int_equal(len, strlen(expected));
	free(text);
}

static void
a_counter_loses_total_only_in_openmetrics_type_lines(void **state)
{
	(void)state;
	for (int format = METRICS_TEXT; format <= METRICS_OPENMETRICS; format++) {
		m = metrics_new((enum metrics_format)format);
		metrics_family(m, "dns_queries_total", METRIC_COUNTER, "Queries.");
		metrics_value(m, 3, "proto", "udp", "family", "1", NULL);
		metrics_value(m, 0, "proto", "tcp", "family", "1", NULL);
		assert_page(format == METRICS_TEXT
				? "# HELP dns_queries_total Queries.\n"
				  "# TYPE dns_queries_total counter\n"
				  "dns_queries_total{proto=\"udp\",family=\"1\"} 3\n"
				  "dns_queries_total{proto=\"tcp\",family=\"1\"} 0\n"
				: "# HELP dns_queries Queries.\n"
				  "# TYPE dns_queries counter\n"
				  "dns_queries_total{proto=\"udp\",family=\"1\"} 3\n"
				  "dns_queries_total{proto=\"tcp\",family=\"1\"} 0\n"
				  "# EOF\n");
	}
}

/* The names of metrics from kube-dns stay the same. In OpenMetrics, a counter must end in _total. */
static void
a_counter_without_total_is_unknown_to_openmetrics(void **state)
{
	(void)state;
	m = metrics_new(METRICS_TEXT);
	metrics_family(m, "kubedns_dnsmasq_hits", METRIC_COUNTER, "Hits.");
	metrics_value(m, 1, NULL);
	assert_page("# HELP kubedns_dnsmasq_hits Hits.\n# TYPE kubedns_dnsmasq_hits "
		    "counter\nkubedns_dnsmasq_hits 1\n");
	m = metrics_new(METRICS_OPENMETRICS);
	metrics_family(m, "kubedns_dnsmasq_hits", METRIC_COUNTER, "Hits.");
	metrics_value(m, 1, NULL);
	assert_page("# HELP kubedns_dnsmasq_hits Hits.\n# TYPE kubedns_dnsmasq_hits "
		    "unknown\nkubedns_dnsmasq_hits 1\n# EOF\n");
}

static void
untyped_is_called_unknown_in_openmetrics(void **state)
{
	(void)state;
	m = metrics_new(METRICS_TEXT);
	metrics_family(m, "x", METRIC_UNTYPED, "");
	assert_page("# HELP x \n# TYPE x untyped\n");
	m = metrics_new(METRICS_OPENMETRICS);
	metrics_family(m, "x", METRIC_UNTYPED, "");
	assert_page("# HELP x \n# TYPE x unknown\n# EOF\n");
}

static void
label_values_cannot_break_the_page(void **state)
{
	(void)state;
	m = metrics_new(METRICS_TEXT);
	metrics_family(m, "x", METRIC_GAUGE, "A \"help\" with \\ and\nline feed.");
	metrics_value(m, 1, "name", "a\"} 9\nb\\ \xff\xc0\x80 z\xc3\xbcrich", NULL);
	assert_page(
	    "# HELP x A \"help\" with \\\\ and\\nline feed.\n"
	    "# TYPE x gauge\n"
	    "x{name=\"a\\\"} 9\\nb\\\\ \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd z\xc3\xbcrich\"} 1\n");
	m = metrics_new(METRICS_OPENMETRICS);
	metrics_family(m, "x", METRIC_GAUGE, "A \"help\".");
	assert_page("# HELP x A \\\"help\\\".\n# TYPE x gauge\n# EOF\n");
}

static void
numbers_are_short_and_exact(void **state)
{
	static const struct {
		double value;
		const char *text;
	} cases[] = {
		{ 0, "g 0\n" },
		{ -1, "g -1\n" },
		{ 0.1, "g 0.1\n" },
		{ 0.00025, "g 0.00025\n" },
		{ 1.0 / 3, "g 0.3333333333333333\n" },
		{ 0.1 + 0.2, "g 0.30000000000000004\n" },
		{ 1789000000.123, "g 1789000000.123\n" },
		{ 9007199254740992.0, "g 9007199254740992\n" },
		{ 999999999999999.0, "g 999999999999999\n" },
		{ 1e300, "g 1e+300\n" },
		{ NAN, "g NaN\n" },
		{ INFINITY, "g +Inf\n" },
		{ -INFINITY, "g -Inf\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		size_t len = 0;

		m = metrics_new(METRICS_TEXT);
		metrics_family(m, "g", METRIC_GAUGE, "G.");
		metrics_value(m, cases[i].value, NULL);
		char *text = metrics_finish(m, &len);
		assert_string_equal(text + strlen("# HELP g G.\n# TYPE g gauge\n"), cases[i].text);
		free(text);
	}
}

static const double bounds[] = { 0.25, 1, 2 };

static void
a_histogram_counts_up_to_and_including_each_bound(void **state)
{
	struct histogram h = { .bounds = bounds, .count = 3 };

	(void)state;
	histogram_observe(&h, 0.25);
	histogram_observe(&h, 0.5);
	histogram_observe(&h, 1.25);
	histogram_observe(&h, 100);
	m = metrics_new(METRICS_TEXT);
	metrics_family(m, "h", METRIC_HISTOGRAM, "H.");
	metrics_histogram(m, &h, "l", "v", NULL);
	assert_page("# HELP h H.\n# TYPE h histogram\n"
		    "h_bucket{l=\"v\",le=\"0.25\"} 1\n"
		    "h_bucket{l=\"v\",le=\"1\"} 2\n"
		    "h_bucket{l=\"v\",le=\"2\"} 3\n"
		    "h_bucket{l=\"v\",le=\"+Inf\"} 4\n"
		    "h_sum{l=\"v\"} 102\n"
		    "h_count{l=\"v\"} 4\n");
	m = metrics_new(METRICS_OPENMETRICS);
	metrics_family(m, "h", METRIC_HISTOGRAM, "H.");
	metrics_histogram(m, &h, NULL);
	assert_page("# HELP h H.\n# TYPE h histogram\n"
		    "h_bucket{le=\"0.25\"} 1\n"
		    "h_bucket{le=\"1.0\"} 2\n"
		    "h_bucket{le=\"2.0\"} 3\n"
		    "h_bucket{le=\"+Inf\"} 4\n"
		    "h_sum 102\n"
		    "h_count 4\n# EOF\n");
}

static void
histograms_of_several_threads_add_up(void **state)
{
	struct histogram a = { .bounds = bounds, .count = 3 }, b = { .bounds = bounds, .count = 3 };

	(void)state;
	histogram_observe(&a, 0.1);
	histogram_observe(&b, 0.1);
	histogram_observe(&b, 3);
	histogram_add(&a, &b);
	assert_int_equal(a.buckets[0], 2);
	assert_int_equal(a.buckets[3], 1);
	assert_true(fabs(a.sum - 3.2) < 1e-9);
}

static void
a_page_may_be_large(void **state)
{
	size_t len = 0;

	(void)state;
	m = metrics_new(METRICS_TEXT);
	metrics_family(m, "x", METRIC_GAUGE, "X.");
	for (int i = 0; i < 20000; i++)
		metrics_value(m, i, "server", "192.0.2.1:53", NULL);
	char *text = metrics_finish(m, &len);
	assert_int_equal(strlen(text), len);
	assert_non_null(strstr(text, "x{server=\"192.0.2.1:53\"} 19999\n"));
	free(text);
}

static void
the_accept_header_decides(void **state)
{
	static const struct {
		const char *accept;
		enum metrics_format format;
	} cases[] = {
		{ NULL, METRICS_TEXT },
		{ "", METRICS_TEXT },
		{ "*/*", METRICS_TEXT },
		{ "text/html,application/xhtml+xml,*/*;q=0.8", METRICS_TEXT },
		/* the header of Prometheus 2.42 */
		{ "application/openmetrics-text;version=1.0.0,application/"
		  "openmetrics-text;version=0.0.1;q=0.75,"
		  "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		    METRICS_OPENMETRICS },
		{ "application/openmetrics-text; version=1.0.0; charset=utf-8",
		    METRICS_OPENMETRICS },
		{ "Application/OpenMetrics-Text", METRICS_OPENMETRICS },
		{ "application/openmetrics-text;version=0.0.1,text/plain;q=0.5", METRICS_TEXT },
		{ "application/openmetrics-text;version=1.0.0;q=0.2,text/plain;q=0.5",
		    METRICS_TEXT },
		{ "application/openmetrics-text;q=0", METRICS_TEXT },
		{ ",,;q=1,application/openmetrics-text;", METRICS_OPENMETRICS },
		{ "application/openmetrics-textual", METRICS_TEXT },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_int_equal(metrics_negotiate(cases[i].accept), cases[i].format);
	assert_string_equal(
	    metrics_content_type(METRICS_TEXT), "text/plain; version=0.0.4; charset=utf-8");
	assert_string_equal(metrics_content_type(METRICS_OPENMETRICS),
	    "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

/* Returns the value in the sample line that begins with `name`. */
static double
sample(const char *page, const char *name)
{
	const char *p = page;

	while (
	    (p = strstr(p, name)) != NULL && (p == page || p[-1] != '\n' || p[strlen(name)] != ' '))
		p++;
	assert_non_null(p);
	return strtod(p + strlen(name), NULL);
}

static char *
process_page(void)
{
	size_t len = 0;

	m = metrics_new(METRICS_TEXT);
	metrics_process(m, "kubedns_build_info");
	return metrics_finish(m, &len);
}

static void
the_process_reports_itself(void **state)
{
	(void)state;
	char *page = process_page();
	double files = sample(page, "process_open_fds");
	assert_in_range((long)sample(page, "process_resident_memory_bytes"), 1 << 19, 1L << 40);
	assert_true(sample(page, "process_virtual_memory_bytes") >=
		    sample(page, "process_resident_memory_bytes"));
	assert_true(sample(page, "process_max_fds") >= files);
	assert_true(fabs(sample(page, "process_start_time_seconds") - (double)time(NULL)) < 60);
	assert_int_equal((long)sample(page, "kubedns_build_info{version=\"unversioned\"}"), 1);
	double cpu = sample(page, "process_cpu_seconds_total");
	free(page);

	int fd = open("/dev/null", O_RDONLY);
	while (clock() < (clock_t)((cpu + 0.02) * CLOCKS_PER_SEC)) {
	}
	page = process_page();
	assert_int_equal((long)sample(page, "process_open_fds"), (long)files + 1);
	assert_true(sample(page, "process_cpu_seconds_total") > cpu);
	free(page);
	close(fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_counter_loses_total_only_in_openmetrics_type_lines),
		cmocka_unit_test(a_counter_without_total_is_unknown_to_openmetrics),
		cmocka_unit_test(untyped_is_called_unknown_in_openmetrics),
		cmocka_unit_test(label_values_cannot_break_the_page),
		cmocka_unit_test(numbers_are_short_and_exact),
		cmocka_unit_test(a_histogram_counts_up_to_and_including_each_bound),
		cmocka_unit_test(histograms_of_several_threads_add_up),
		cmocka_unit_test(a_page_may_be_large),
		cmocka_unit_test(the_accept_header_decides),
		cmocka_unit_test(the_process_reports_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
