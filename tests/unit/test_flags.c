/* Parsing command lines as operators of kube-dns write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/addr.h"
#include "lib/duration.h"
#include "lib/flags.h"

enum mode { MODE_OFF, MODE_ON, MODE_AUTO };

struct options {
	enum mode mode;
	bool share;
	size_t cache, journal;
	struct server resolver;
	char *key;
	struct flag_list to;
	long ttl;
	int64_t silence;
	char *domain, *dir;
	bool profiling;
	long threads, port;
	int64_t period, wait;
	struct flag_list nameservers, probes;
};

static const struct flag table[] = {
	{ "domain", FLAG_STRING, offsetof(struct options, domain), "cluster.local.", "NAME",
	    .help = "the cluster's zone" },
	{ "config-dir", FLAG_STRING, offsetof(struct options, dir), NULL, "DIR",
	    .help = "where the ConfigMap is mounted" },
	{ "profiling", FLAG_BOOL, offsetof(struct options, profiling), NULL, NULL,
	    .help = "tell more" },
	{ "threads", FLAG_INT, offsetof(struct options, threads), "2", "N", .help = "workers" },
	{ "dns-port", FLAG_PORT, offsetof(struct options, port), "53", "PORT",
	    .help = "where to listen" },
	{ "config-period", FLAG_DURATION, offsetof(struct options, period), "10s", "DURATION",
	    .help = "how often to look" },
	{ "wait", FLAG_DURATION, offsetof(struct options, wait), "-1s", "DURATION",
	    .help = "negative: forever" },
	{ "nameservers", FLAG_LIST, offsetof(struct options, nameservers), "8.8.8.8,8.8.4.4",
	    "IP,...", .help = "upstreams" },
	{ "probe", FLAG_REPEAT, offsetof(struct options, probes), NULL, "SPEC",
	    .help = "what to ask" },
	{ "filter", FLAG_CHOICE, offsetof(struct options, mode), "off", "auto|on|off",
	    .help = "words in another order than the enum", .words = "off|on|auto" },
	{ "share", FLAG_SWITCH, offsetof(struct options, share), "on", "on|off",
	    .help = "a switch" },
	{ "cache", FLAG_SIZE, offsetof(struct options, cache), "off", "SIZE|off", .help = "a size",
	    .min = 64 * 1024, .max = 1024 * 1024 * 1024 },
	{ "journal", FLAG_SIZE, offsetof(struct options, journal), "", "SIZE", .help = "a size",
	    .min = 64 * 1024, .max = 4 * 1024 * 1024 },
	{ "resolver", FLAG_SERVER, offsetof(struct options, resolver), "", "IP:PORT",
	    .help = "a server", RULES(EXCLUDES_ALL("public")) },
	{ "to", FLAG_LIST, offsetof(struct options, to), NULL, "CIDR", .help = "who gets the zone",
	    RULES(HAS("public", "everyone gets the zone")) },
	{ "key", FLAG_STRING, offsetof(struct options, key), "", "FILE", .help = "its key",
	    RULES(
		NEEDS("to|domain", "nobody gets a zone"), EXCLUDES("profiling", "leave it out")) },
	{ "ttl", FLAG_INT, offsetof(struct options, ttl), "30", "SECONDS", .help = "bounded",
	    .min = 0, .max = 3600 },
	{ "silence", FLAG_DURATION, offsetof(struct options, silence), "30s", "TIME",
	    .help = "bounded", .min = 1000 },
	{ "old-dir", FLAG_IGNORED, 0, NULL, "DIR", .help = "of kube-dns, no longer used" },
	{ "old-switch", FLAG_IGNORED, 0, NULL, NULL, .help = "of kube-dns, no longer used" },
	{ .name = NULL },
};

static struct options o;
static struct flags_common common;
static char said[16384]; /* the output on stdout and stderr */

/* Runs flags_parse() on a command line of words separated by blanks. Its output is in `said`. */
static int
parse(const char *words)
{
	char buffer[1024], *argv[64] = { NULL };
	int argc = 0;
	FILE *out = tmpfile();
	int err = dup(STDERR_FILENO);

	argv[argc++] = (char[]){ "kubedns" };
	snprintf(buffer, sizeof buffer, "%s", words);
	for (char *word = strtok(buffer, " "); word != NULL; word = strtok(NULL, " "))
		argv[argc++] = word;
	common = (struct flags_common){ .program = "kubedns", .summary = "cluster DNS" };
	dup2(fileno(out), STDERR_FILENO);
	int rc = flags_parse(table, &o, &common, argc, argv);
	dup2(err, STDERR_FILENO);
	close(err);
	rewind(out);
	said[fread(said, 1, sizeof said - 1, out)] = '\0';
	fclose(out);
	return rc;
}

static int
reset(void **state)
{
	(void)state;
	flags_free(table, &o, &common);
	return 0;
}

static void
without_flags_the_table_gives_the_values(void **state)
{
	(void)state;
	assert_int_equal(parse(""), 0);
	assert_string_equal(o.domain, "cluster.local.");
	assert_string_equal(o.dir, "");
	assert_false(o.profiling);
	assert_int_equal(o.threads, 2);
	assert_int_equal(o.port, 53);
	assert_int_equal(o.period, 10000);
	assert_int_equal(o.wait, -1000);
	assert_int_equal(o.nameservers.count, 2);
	assert_string_equal(o.nameservers.items[1], "8.8.4.4");
	assert_int_equal(o.probes.count, 0);
	assert_int_equal(common.rest, 1);
	assert_false(flags_given(&common, "domain"));
	assert_string_equal(said, "");
}

static void
every_spelling_of_go_is_read(void **state)
{
	static const char *const spellings[] = { "--dns-port=10053", "-dns-port=10053",
		"--dns-port 10053", "-dns-port 10053", "--dns_port=10053", "-dns_port 10053",
		"--dns-port=1 --dns-port=10053" };

	(void)state;
	for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
		assert_int_equal(parse(spellings[i]), 0);
		assert_int_equal(o.port, 10053);
		assert_true(flags_given(&common, "dns-port"));
		assert_int_equal(common.set.count, 1);
		reset(NULL);
	}
}

static void
a_boolean_takes_a_value_only_after_an_equals_sign(void **state)
{
	(void)state;
	assert_int_equal(parse("--profiling false"), 0);
	assert_true(o.profiling);
	assert_int_equal(common.rest, 2);
	reset(NULL);
	assert_int_equal(parse("--profiling=T --profiling=False"), 0);
	assert_false(o.profiling);
	reset(NULL);
	assert_int_equal(parse("--profiling=yes"), -EINVAL);
	assert_non_null(strstr(said, "kubedns: --profiling: \"yes\" is not true or false\n"));
}

static void
a_value_may_begin_with_a_dash_or_be_empty(void **state)
{
	(void)state;
	assert_int_equal(parse("--config-dir --x --domain= --wait -2s"), 0);
	assert_string_equal(o.dir, "--x");
	assert_string_equal(o.domain, "");
	assert_int_equal(o.wait, -2000);
}

static void
lists_append_and_replace_their_default(void **state)
{
	(void)state;
	assert_int_equal(parse("--nameservers=1.1.1.1,2.2.2.2 --nameservers 3.3.3.3,"), 0);
	assert_int_equal(o.nameservers.count, 3);
	assert_string_equal(o.nameservers.items[0], "1.1.1.1");
	assert_string_equal(o.nameservers.items[2], "3.3.3.3");
	reset(NULL);
	assert_int_equal(parse("--nameservers="), 0);
	assert_int_equal(o.nameservers.count, 0);
	reset(NULL);
	assert_int_equal(parse("--probe=a,127.0.0.1,b.,5,SRV --probe=c,127.0.0.1,d.,5"), 0);
	assert_int_equal(o.probes.count, 2); /* values of a repeated flag are not split at commas */
	assert_string_equal(o.probes.items[0], "a,127.0.0.1,b.,5,SRV");
}

static void
arguments_after_dashes_are_the_callers(void **state)
{
	(void)state;
	assert_int_equal(parse("--profiling -- -k --cache-size=1000"), 0);
	assert_true(common.rest_after_dashes);
	assert_int_equal(common.rest, 3);
	reset(NULL);
	assert_int_equal(parse("--profiling name --unknown"), 0);
	assert_false(common.rest_after_dashes);
	assert_int_equal(common.rest, 2);
	reset(NULL);
	assert_int_equal(parse("- --unknown"), 0);
	assert_int_equal(common.rest, 1);
}

/* The arguments of the Deployment of kube-dns. */
static void
klog_flags_are_accepted_with_one_warning(void **state)
{
	(void)state;
	assert_int_equal(parse("--v=2 --logtostderr --domain=cluster.local. --dns-port=10053"), 0);
	assert_int_equal(common.verbosity, 2);
	assert_non_null(strstr(said, "flags: accepted without effect: --logtostderr\n"));
	reset(NULL);
	assert_int_equal(parse("-v 4 --vmodule=a=1 --logtostderr=true --alsologtostderr "
			       "--stderrthreshold 2 --log_dir /x "
			       "--log_file=/y --log_file_max_size=1 --log_backtrace_at f:1 "
			       "--log-flush-frequency=5s "
			       "--skip_headers --skip_log_headers --add_dir_header=false "
			       "--one_output --old-dir /z --old-switch "
			       "--old_switch --vmodule b=2"),
	    0);
	assert_int_equal(common.verbosity, 4);
	const char *warning = strstr(said, "warning: ");
	assert_non_null(warning);
	/* One line warns about all flags. It has each name once. */
	assert_null(strstr(warning + 1, "warning: "));
	assert_non_null(strstr(warning, "--vmodule, --logtostderr, "));
	assert_non_null(strstr(warning, "--old-dir, --old-switch\n"));
	reset(NULL);
	assert_int_equal(parse("-v4"), 0);
	assert_int_equal(common.verbosity, 4);
	assert_string_equal(said, "");
}

static void
mistakes_name_the_flag_the_value_and_what_is_accepted(void **state)
{
	static const struct {
		const char *words, *message;
	} cases[] = {
		{ "--dns-port=70000",
		    "kubedns: --dns-port: \"70000\" is not a port, 0 to 65535\n" },
		{ "--dns_port 53x", "kubedns: --dns_port: \"53x\" is not a port, 0 to 65535\n" },
		{ "-dns-port=", "kubedns: -dns-port: \"\" is not a port, 0 to 65535\n" },
		{ "--threads=1e3", "kubedns: --threads: \"1e3\" is not a whole number\n" },
		{ "--threads=99999999999999999999",
		    "kubedns: --threads: \"99999999999999999999\" is not a whole number\n" },
		{ "--config-period=10", "kubedns: --config-period: \"10\" is not a duration such "
					"as 10s, 1m30s or 500ms\n" },
		{ "--config-period=-1s",
		    "kubedns: --config-period: \"-1s\" is not a duration of 0 or more\n" },
		{ "--log-format=xml", "kubedns: --log-format: \"xml\" is not text or json\n" },
		{ "--domain", "kubedns: --domain needs a value: NAME\n" },
		{ "--domian=x", "kubedns: unknown flag --domian (did you mean --domain?)\n" },
		{ "--dnsport 1", "kubedns: unknown flag --dnsport (did you mean --dns-port?)\n" },
		{ "--Nameserver=1",
		    "kubedns: unknown flag --Nameserver (did you mean --nameservers?)\n" },
		{ "--helo", "kubedns: unknown flag --helo (did you mean --help?)\n" },
		{ "--entirely-something-else",
		    "kubedns: unknown flag --entirely-something-else\n" },
		{ "-x", "kubedns: unknown flag -x\n" },
		{ "--=x", "kubedns: unknown flag --\n" },
		{ "---", "kubedns: unknown flag ---\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(parse(cases[i].words), -EINVAL);
		assert_memory_equal(said, cases[i].message, strlen(cases[i].message));
		assert_non_null(strstr(said, "\nusage: kubedns "));
		reset(NULL);
	}
}

static void
durations_are_those_of_go(void **state)
{
	static const struct {
		const char *text;
		long long ms;
	} good[] = {
		{ "0", 0 },
		{ "10s", 10000 },
		{ "1m30s", 90000 },
		{ "500ms", 500 },
		{ "1.5h", 5400000 },
		{ "1h0m0.25s", 3600250 },
		{ "+2s", 2000 },
		{ "-2s", -2000 },
		{ ".5s", 500 },
		{ "1.s", 1000 },
		{ "1ns", 1 },
		{ "1us", 1 },
		{ "1\xc2\xb5s", 1 },
		{ "1500us", 2 },
		{ "1001\xce\xbcs", 2 },
		{ "2540400h", 9145440000000LL },
		{ "-0", 0 },
		{ "0.3333333333333333333h", 1200000 },
	};

	static const char *const bad[] = { "", "-", "+", "1", "s", ".s", "1x", "1s ", " 1s", "1 s",
		"1s2", "--1s", "1e3s", "1d", "9999999999h", "2562048h", "99999999999999999999s",
		"1.2.3s", "10S" };
	long long ms = 0;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		assert_int_equal(duration_parse(good[i].text, &ms), 0);
		assert_int_equal(ms, good[i].ms);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_int_equal(duration_parse(bad[i], &ms), -EINVAL);
}

/* The table for parse_exiting(). */
static const struct flag *table_in_use = table;
enum { COUNT_OF_GROUPED = 1 + sizeof table / sizeof table[0] };

/* Runs the parser in a child process, because --help and --version exit. The child's stdout is in
 * `said`. */
static int
parse_exiting(const char *flag)
{
	int fds[2], status = 0;
	size_t len = 0;
	ssize_t n = 0;

	assert_int_equal(pipe(fds), 0);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		char *argv[] = { (char[]){ "kubedns" }, strdup(flag), NULL };

		dup2(fds[1], STDOUT_FILENO);
		common = (struct flags_common){ .program = "kubedns", .summary = "cluster DNS" };
		flags_parse(table_in_use, &o, &common, 2, argv);
		_exit(99);
	}
	close(fds[1]);
	while ((n = read(fds[0], said + len, sizeof said - 1 - len)) > 0)
		len += (size_t)n;
	said[len] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
help_lists_every_flag_with_its_default(void **state)
{
	(void)state;
	assert_int_equal(parse_exiting("--help"), 0);
	for (const struct flag *f = table; f->name != NULL; f++)
		assert_non_null(strstr(said, f->name));
	assert_non_null(strstr(said, "kubedns: cluster DNS\n"));
	assert_non_null(strstr(said, "--domain=NAME"));
	assert_non_null(strstr(said, "the cluster's zone (cluster.local.)\n"));
	assert_non_null(strstr(said, "--log-format=text|json"));
	assert_int_equal(parse_exiting("-h"), 0);
}

/* In --help, a heading comes before its flags. A heading is not a flag. It is not suggested for a
 * misspelt flag. */
static void
groups_are_headings_and_no_flags(void **state)
{
	struct flag grouped[COUNT_OF_GROUPED] = { { "Basics", .type = FLAG_GROUP_FIRST } };
	char program[] = "kubedns", heading[] = "--Basics=x";
	char *argv[] = { program, heading, NULL };
	struct options read = { 0 };
	struct flags_common names = { .program = "kubedns", .summary = "cluster DNS" };

	(void)state;

	memcpy(grouped + 1, table, sizeof table);
	table_in_use = grouped;
	assert_int_equal(parse_exiting("--help"), 0);
	table_in_use = table;
	assert_non_null(strstr(said, "\nBasics:\n  --domain=NAME"));
	assert_int_equal(flags_parse(grouped, &read, &names, 2, argv), -EINVAL);
	flags_free(grouped, &read, &names);
}

static void
version_is_program_and_version(void **state)
{
	(void)state;
	assert_int_equal(parse_exiting("--version"), 0);
	assert_string_equal(said, "kubedns unversioned\n");
	assert_int_equal(parse_exiting("--version=true"), 0);
	assert_int_equal(parse_exiting("--version=raw"), 0);
	assert_int_equal(parse_exiting("--version=false"), 99);
}

static void
json_lines_when_asked_for(void **state)
{
	(void)state;
	assert_int_equal(parse("--log-format json --old-switch --check"), 0);
	assert_int_equal(common.log_format, LOG_FORMAT_JSON);
	assert_true(common.check);
	assert_int_equal(said[0], '{');
}

/* --- the values and rules that flags_check() checks --- */

/* Calls parse(), then flags_check(). */
static int
check(const char *words)
{
	FILE *out;
	int err = dup(STDERR_FILENO), rc = parse(words);

	assert_int_equal(rc, 0);
	out = tmpfile();
	dup2(fileno(out), STDERR_FILENO);
	rc = flags_check(table, &o, &common);
	dup2(err, STDERR_FILENO);
	close(err);
	rewind(out);
	said[fread(said, 1, sizeof said - 1, out)] = '\0';
	fclose(out);
	return rc;
}

static void
defaults_of_checked_types_hold_without_flags(void **state)
{
	(void)state;
	assert_int_equal(check(""), 0);
	assert_int_equal(o.mode, MODE_OFF);
	assert_true(o.share);
	assert_int_equal(o.cache, 0);
	assert_int_equal(o.resolver.addr.family, 0);
}

static void
checked_types_become_values(void **state)
{
	(void)state;
	assert_int_equal(check("--filter=auto --share=off --cache=1Mi --journal 64k "
			       "--resolver=127.0.0.1:253 --ttl=3600 --silence=1s"),
	    0);
	assert_int_equal(o.mode, MODE_AUTO);
	assert_false(o.share);
	assert_int_equal(o.cache, 1024 * 1024);
	assert_int_equal(o.journal, 64 * 1024);
	assert_int_equal(o.resolver.port, 253);
}

static void
the_last_use_of_a_checked_flag_counts(void **state)
{
	(void)state;
	assert_int_equal(check("--filter=bad --filter=on"), 0);
	assert_int_equal(o.mode, MODE_ON);
}

static void
each_wrong_value_is_reported_in_one_run(void **state)
{
	static const char *const lines[] = { "--filter: \"yes\": must be off, on or auto",
		"--share: \"1\": must be on or off",
		"--cache: \"1k\": must be off, or a size from 64k to 1G",
		"--journal: \"off\": must be a size from 64k to 4M",
		"--resolver: \"dns.example\": not an address",
		"--ttl: \"-1\": must be a number from 0 to 3600",
		"--silence: \"999ms\": must be at least 1000 ms" };

	(void)state;
	assert_int_equal(check("--filter=yes --share=1 --cache=1k --journal=off "
			       "--resolver=dns.example --ttl=-1 --silence=999ms"),
	    -EINVAL);
	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
		if (strstr(said, lines[i]) == NULL)
			fail_msg("\"%s\" is not in: %s", lines[i], said);
}

static void
a_flag_that_needs_another_is_refused_without_it(void **state)
{
	(void)state;
	assert_int_equal(check("--key=/k"), -EINVAL);
	assert_non_null(strstr(said, "--key: \"/k\": needs --to or --domain: nobody gets a zone"));
	flags_free(table, &o, &common);
	assert_int_equal(check("--key=/k --to=10.0.0.0/8"), 0);
	flags_free(table, &o, &common);
	assert_int_equal(check("--key=/k --domain=x"), 0);
	flags_free(table, &o, &common);
	/* If a list flag has an empty value, the earlier values stay. */
	assert_int_equal(check("--key=/k --to=10.0.0.0/8 --to="), 0);
	flags_free(table, &o, &common);
	assert_int_equal(check("--key=/k --to="), -EINVAL);
}

static void
a_flag_with_its_default_is_not_in_use(void **state)
{
	(void)state;
	assert_int_equal(check("--key=/k --domain=cluster.local."), -EINVAL);
	flags_free(table, &o, &common);
	assert_int_equal(check("--key= "), 0);
	flags_free(table, &o, &common);
	assert_int_equal(check("--key=/k --to=x --profiling=false"), 0);
}

static void
a_flag_is_refused_beside_one_that_it_excludes(void **state)
{
	(void)state;
	assert_int_equal(check("--key=/k --to=x --profiling"), -EINVAL);
	assert_non_null(strstr(said, "not with --profiling: leave it out"));
}

static void
a_flag_is_refused_beside_any_that_has_the_property_it_excludes(void **state)
{
	(void)state;
	assert_int_equal(check("--resolver=192.0.2.1 --to=10.0.0.0/8"), -EINVAL);
	assert_non_null(
	    strstr(said, "--resolver: \"192.0.2.1\": not with --to: everyone gets the zone\n"));
	flags_free(table, &o, &common);
	assert_int_equal(check("--resolver=192.0.2.1 --to="), 0);
	flags_free(table, &o, &common);
	assert_int_equal(check("--to=10.0.0.0/8"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(defaults_of_checked_types_hold_without_flags, reset),
		cmocka_unit_test_teardown(checked_types_become_values, reset),
		cmocka_unit_test_teardown(the_last_use_of_a_checked_flag_counts, reset),
		cmocka_unit_test_teardown(each_wrong_value_is_reported_in_one_run, reset),
		cmocka_unit_test_teardown(a_flag_that_needs_another_is_refused_without_it, reset),
		cmocka_unit_test_teardown(a_flag_with_its_default_is_not_in_use, reset),
		cmocka_unit_test_teardown(a_flag_is_refused_beside_one_that_it_excludes, reset),
		cmocka_unit_test_teardown(
		    a_flag_is_refused_beside_any_that_has_the_property_it_excludes, reset),
		cmocka_unit_test_teardown(without_flags_the_table_gives_the_values, reset),
		cmocka_unit_test_teardown(every_spelling_of_go_is_read, reset),
		cmocka_unit_test_teardown(a_boolean_takes_a_value_only_after_an_equals_sign, reset),
		cmocka_unit_test_teardown(a_value_may_begin_with_a_dash_or_be_empty, reset),
		cmocka_unit_test_teardown(lists_append_and_replace_their_default, reset),
		cmocka_unit_test_teardown(arguments_after_dashes_are_the_callers, reset),
		cmocka_unit_test_teardown(klog_flags_are_accepted_with_one_warning, reset),
		cmocka_unit_test_teardown(
		    mistakes_name_the_flag_the_value_and_what_is_accepted, reset),
		cmocka_unit_test(durations_are_those_of_go),
		cmocka_unit_test(help_lists_every_flag_with_its_default),
		cmocka_unit_test(groups_are_headings_and_no_flags),
		cmocka_unit_test(version_is_program_and_version),
		cmocka_unit_test_teardown(json_lines_when_asked_for, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
