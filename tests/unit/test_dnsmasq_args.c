#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "nanny/dnsmasq/own_args.h"
#include "nanny/dnsmasq/version.h"

static struct args args;
static char line[4096];

/* Parses the operator's arguments and adds those that supervision needs. */
static int
build_args(struct args *to, const char *exec, char **given, size_t count, const char *file,
    bool as_root, char **why)
{
	int rc = args_parse(to, exec, given, count, why);

	if (rc == 0)
		own_args_add(to, file, as_root);
	return rc;
}

/* Builds argv from words separated by blanks. Returns the words of argv, without the program and
 * the servers file. */
static const char *
build(const char *words, bool as_root)
{
	char *copy = strdup(words), *given[64], *save = NULL, *why = NULL;
	size_t count = 0;

	for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
		given[count++] = w;
	args_free(&args);
	int rc = build_args(&args, "/dnsmasq", given, count, "F", as_root, &why);
	free(copy);
	if (rc < 0) {
		snprintf(line, sizeof line, "!%s", why);
		free(why);
		return line;
	}
	assert_string_equal(args.argv[0], "/dnsmasq");
	assert_string_equal(args.argv[args.argc - 1], "--servers-file=F");
	assert_null(args.argv[args.argc]);
	line[0] = '\0';
	for (size_t i = 1; i + 1 < args.argc; i++) {
		strcat(line, i > 1 ? " " : "");
		strcat(line, args.argv[i]);
	}
	return line;
}

static void
what_is_lacking_is_added_after_theirs(void **state)
{
	(void)state;
	assert_string_equal(build("--cache-size=1000", false),
	    "--cache-size=1000 -k --conf-file=/dev/null --pid-file= --log-facility=- --no-resolv "
	    "--fast-dns-retry=200");
	assert_int_equal(args.warning_count, 0);
	assert_int_equal(args.port, 53);
}

static void
what_is_there_is_not_added(void **state)
{
	(void)state;
	const char *all = "-k -C /etc/d.conf -x /run/pid -8 - -R --fast-dns-retry=100";
	assert_string_equal(build(all, false), all);
	all = "--keep-in-foreground --conf-file=x --pid-file --log-facility=- --no-resolv "
	      "--fast-dns-retry";
	assert_string_equal(build(all, false), all);
}

static void
kube_dns_arguments_pass_unchanged(void **state)
{
	(void)state;
	const char *theirs =
	    "-k --cache-size=1000 --no-negcache --dns-loop-detect --log-facility=- "
	    "--server=/cluster.local/127.0.0.1#10053 "
	    "--server=/in-addr.arpa/127.0.0.1#10053 --server=/ip6.arpa/127.0.0.1#10053";
	char want[1024];
	snprintf(want, sizeof want,
	    "%s --conf-file=/dev/null --pid-file= --no-resolv --fast-dns-retry=200", theirs);
	assert_string_equal(build(theirs, false), want);
	const struct domain_servers *entry = domain_table_get(&args.fixed, "cluster.local");
	assert_non_null(entry);
	assert_int_equal(entry->count, 1);
	assert_int_equal(entry->servers[0].port, 10053);
	assert_non_null(domain_table_get(&args.fixed, "ip6.arpa"));
	assert_null(domain_table_get(&args.fixed, ""));
}

static void
what_breaks_supervision_is_left_out_with_a_warning(void **state)
{
	(void)state;
	const char *rest = "-k --conf-file=/dev/null --pid-file= --log-facility=- --no-resolv "
			   "--fast-dns-retry=200";
	static const char *const bad[] = { "-d", "--no-daemon", "--servers-file=/x",
		"--servers-file /x", "--log-facility=/var/log/x", "-8 /var/log/x", "-8/var/log/x",
		"--log-facility daemon" };
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_string_equal(build(bad[i], false), rest);
		assert_int_equal(args.warning_count, 1);
	}
	assert_string_equal(build("-kdR", false),
	    "-kR --conf-file=/dev/null --pid-file= --log-facility=- --fast-dns-retry=200");
	assert_int_equal(args.warning_count, 1);
}

static void
root_is_told_to_stay_root_unless_they_say_otherwise(void **state)
{
	(void)state;
	assert_non_null(strstr(build("", true), "--user=root --group=root"));
	assert_null(strstr(build("--user=nobody", true), "--user=root"));
	assert_null(strstr(build("-u nobody", true), "root"));
	assert_null(strstr(build("", false), "root"));
}

static void
ports_are_found_however_they_are_spelled(void **state)
{
	(void)state;
	static const char *const spellings[] = { "--port=5353", "--port 5353", "-p5353", "-p 5353",
		"-kp5353", "-kp 5353" };
	for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
		build(spellings[i], false);
		assert_int_equal(args.port, 5353);
	}
	assert_string_equal(
	    build("--port=0", false), "!dnsmasq argument --port=0: must be 1 to 65535");
	assert_string_equal(build("-p x", false), "!dnsmasq argument --port=x: must be 1 to 65535");
	assert_int_equal(build("--port=65536", false)[0], '!');
}

static void
a_value_in_the_next_word_stays_with_its_option(void **state)
{
	(void)state;
	assert_memory_equal(build("-c 1000 -S /a/1.1.1.1 --server /b/1.1.1.2", false),
	    "-c 1000 -S /a/1.1.1.1 --server /b/1.1.1.2 ", 42);
	assert_non_null(domain_table_get(&args.fixed, "a"));
	assert_non_null(domain_table_get(&args.fixed, "b"));
}

static void
servers_on_the_command_line_are_known(void **state)
{
	(void)state;
	build("--server=8.8.8.8 --server=/A/b.c/::1#54 --local=/d/ --server=/e/# "
	      "--server=1.2.3.4@eth0 --server=/f/host",
	    false);
	assert_int_equal(domain_table_get(&args.fixed, "")->count, 2);
	assert_int_equal(domain_table_get(&args.fixed, "a")->servers[0].port, 54);
	assert_int_equal(domain_table_get(&args.fixed, "b.c")->count, 1);
	assert_int_equal(domain_table_get(&args.fixed, "d")->count, 0);
	assert_int_equal(domain_table_get(&args.fixed, "e")->count, 0);
	assert_int_equal(domain_table_get(&args.fixed, "f")->count, 0);
}

static void
dnsmasq_is_asked_where_it_listens(void **state)
{
	(void)state;
	char text[SERVER_TEXT_MAX];
	build("--port=5353", false);
	struct server s = args_probe_server(&args);
	assert_string_equal(server_format(&s, text), "127.0.0.1:5353");
	build("--listen-address=10.0.0.1,fd00::1", false);
	s = args_probe_server(&args);
	assert_string_equal(server_format(&s, text), "10.0.0.1:53");
	build("-a fd00::1 --listen-address=127.0.0.1", false);
	s = args_probe_server(&args);
	assert_string_equal(server_format(&s, text), "127.0.0.1:53");
}

static bool
has(const char *text)
{
	for (size_t i = 0; i < args.argc; i++)
		if (strcmp(args.argv[i], text) == 0)
			return true;
	return false;
}

static void
limits_fit_the_memory_and_what_dnsmasq_knows(void **state)
{
	static const struct {
		unsigned version;
		double limit;
		const char *forward, *tcp;
		unsigned tcp_max;
	} cases[] = {
		{ 290, 0, "--dns-forward-max=8000", "--max-tcp-connections=200", 200 },
		{ 290, 64 << 20, "--dns-forward-max=6553", "--max-tcp-connections=128", 128 },
		{ 290, 1 << 20, "--dns-forward-max=150", "--max-tcp-connections=20", 20 },
		{ 289, 64 << 20, "--dns-forward-max=6553", NULL, 20 },
		{ 0, 0, "--dns-forward-max=8000", NULL, 20 },
	};

	(void)state;
	args_free(&args); /* from the previous test */
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *why;

		assert_int_equal(build_args(&args, "/dnsmasq", NULL, 0, "F", false, &why), 0);
		size_t before = args.argc;
		own_args_add_limits(&args, cases[i].version, cases[i].limit);
		assert_true(has(cases[i].forward));
		assert_int_equal(args.argc, before + 1 + (cases[i].tcp != NULL));
		assert_true(cases[i].tcp == NULL || has(cases[i].tcp));
		assert_int_equal(args.tcp_max, cases[i].tcp_max);
		assert_null(args.argv[args.argc]);
		args_free(&args);
	}
}

/* With -memory=32Mi, dnsmasq gets a quarter of the memory. Its cache gets an eighth of that
 * quarter. */
static void
the_cache_is_a_part_of_dnsmasqs_memory(void **state)
{
	static const struct {
		double memory;
		const char *cache;
	} cases[] = {
		{ 8 << 20, "--cache-size=4096" },
		{ 4 << 20, "--cache-size=2048" },
		{ 1 << 10, "--cache-size=150" },
		{ 256 << 20, "--cache-size=10000" },
	};
	char *why;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(build_args(&args, "/dnsmasq", NULL, 0, "F", false, &why), 0);
		own_args_add_cache(&args, cases[i].memory);
		assert_true(has(cases[i].cache));
		args_free(&args);
	}
}

static void
limits_that_are_given_stay(void **state)
{
	char a[] = "-0", b[] = "300", c[] = "--max-tcp-connections=7", d[] = "-c", e[] = "77";
	char *given[] = { a, b, c, d, e };
	char *why;

	(void)state;
	assert_int_equal(build_args(&args, "/dnsmasq", given, 5, "F", false, &why), 0);
	size_t before = args.argc;
	own_args_add_limits(&args, 290, 0);
	own_args_add_cache(&args, 8 << 20);
	assert_int_equal(args.argc, before);
	assert_int_equal(args.tcp_max, 7);
	args_free(&args);
}

static const struct server kubedns = { .addr = { AF_INET, { 127, 0, 0, 1 } }, .port = 10053 };

static void
the_dnsmasq_that_clients_ask_asks_all_servers(void **state)
{
	char cluster[] = "--server=/cluster.local/127.0.0.1#10053",
	     upstream[] = "--server=127.0.0.1#10053", stub[] = "--server=/acme.local/10.0.0.1";
	char *given[] = { upstream, stub, cluster };
	char *why;

	(void)state;
	assert_int_equal(build_args(&args, "/dnsmasq", given, 3, "F", false, &why), 0);
	own_args_add_upstream(&args, 290, "cluster.local", &kubedns);
	assert_true(has("--all-servers"));
	assert_true(has("--strip-subnet"));
	assert_false(has("--use-stale-cache=120"));
	assert_false(has("--use-stale-cache=3600"));
	assert_false(has("--neg-ttl=1"));
	args_free(&args);
	assert_int_equal(build_args(&args, "/dnsmasq", given, 3, "F", false, &why), 0);
	own_args_add_upstream(&args, 290, "other.example", &kubedns);
	assert_true(has("--all-servers"));
	args_free(&args);
	assert_int_equal(build_args(&args, "/dnsmasq", given, 2, "F", false, &why), 0);
	own_args_add_upstream(&args, 290, "cluster.local", &kubedns);
	assert_false(has("--all-servers"));
	assert_true(has("--use-stale-cache=3600"));
	assert_true(has("--neg-ttl=1"));
	assert_true(has("--txt-record=dnssec.nanny.invalid,off"));
	assert_true(has("--strip-subnet"));
	assert_true(has("--strip-mac"));
	args_free(&args);
}

/* kubedns must not replace a SERVFAIL of a dnsmasq that checks signatures. */
static void
kubedns_can_see_whether_dnsmasq_checks_signatures(void **state)
{
	char dnssec[] = "--dnssec";
	char *given[] = { dnssec };
	char *why;

	(void)state;
	assert_int_equal(build_args(&args, "/dnsmasq", given, 1, "F", false, &why), 0);
	own_args_add_upstream(&args, 290, "cluster.local", &kubedns);
	assert_true(has("--txt-record=dnssec.nanny.invalid,validate"));
	args_free(&args);
}

static void
an_older_dnsmasq_gets_only_what_it_knows(void **state)
{
	char cluster[] = "--server=/cluster.local/127.0.0.1#10053";
	char *given[] = { cluster };
	char *why;

	(void)state;
	assert_int_equal(build_args(&args, "/dnsmasq", given, 1, "F", false, &why), 0);
	size_t before = args.argc;
	own_args_add_upstream(&args, 287, "cluster.local", &kubedns);
	assert_true(has("--all-servers"));
	assert_int_equal(args.argc, before + 1);
	args_free(&args);
}

/* With expired answers, dnsmasq also stores negative answers without a TTL, and does not set their type. An
 * SRV query then also answered the next A query. --neg-ttl gives these answers a TTL. */
static void
with_expired_answers_each_negative_answer_has_a_ttl(void **state)
{
	char cluster[] = "--server=/cluster.local/127.0.0.1#10053",
	     stale[] = "--use-stale-cache=120", ttl[] = "--neg-ttl=30";
	char *given[] = { stale, cluster, ttl };
	char *why;

	(void)state;
	assert_int_equal(build_args(&args, "/dnsmasq", given, 1, "F", false, &why), 0);
	own_args_add_upstream(&args, 290, "cluster.local", &kubedns);
	assert_true(has("--neg-ttl=1"));
	args_free(&args);
	assert_int_equal(build_args(&args, "/dnsmasq", given, 2, "F", false, &why), 0);
	own_args_add_upstream(&args, 290, "cluster.local", &kubedns);
	assert_true(has("--neg-ttl=1")); /* also in the classic topology */
	args_free(&args);
	assert_int_equal(build_args(&args, "/dnsmasq", given, 3, "F", false, &why), 0);
	own_args_add_upstream(&args, 290, "cluster.local", &kubedns);
	assert_false(has("--neg-ttl=1"));
	args_free(&args);
}

static void
what_the_operator_says_of_upstreams_stays(void **state)
{
	char cluster[] = "--server=/cluster.local/127.0.0.1#10053", order[] = "-o",
	     stale[] = "--use-stale-cache", subnet[] = "--strip-subnet", mac[] = "--strip-mac",
	     all[] = "--all-servers";
	char negative[] = "--neg-ttl=60";
	char *given[] = { cluster, stale, subnet, mac, negative, order, all };
	char *why;

	(void)state;
	for (size_t which = 0; which < 2; which++) {
		char *six[] = { given[0], given[1], given[2], given[3], given[4],
			given[5 + which] };

		assert_int_equal(build_args(&args, "/dnsmasq", six, 6, "F", false, &why), 0);
		size_t before = args.argc;
		own_args_add_upstream(&args, 290, "cluster.local", &kubedns);
		assert_int_equal(args.argc, before);
		args_free(&args);
	}
}

static void
the_version_is_read_from_its_first_line(void **state)
{
	(void)state;
	assert_int_equal(
	    dnsmasq_version_parse("Dnsmasq version 2.90  Copyright (c) 2000-2024"), 290);
	assert_int_equal(dnsmasq_version_parse("Dnsmasq version 2.9"), 209);
	assert_int_equal(dnsmasq_version_parse("Dnsmasq version UNKNOWN"), 0);
	assert_int_equal(dnsmasq_version_parse(""), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_lacking_is_added_after_theirs),
		cmocka_unit_test(what_is_there_is_not_added),
		cmocka_unit_test(kube_dns_arguments_pass_unchanged),
		cmocka_unit_test(what_breaks_supervision_is_left_out_with_a_warning),
		cmocka_unit_test(root_is_told_to_stay_root_unless_they_say_otherwise),
		cmocka_unit_test(ports_are_found_however_they_are_spelled),
		cmocka_unit_test(a_value_in_the_next_word_stays_with_its_option),
		cmocka_unit_test(servers_on_the_command_line_are_known),
		cmocka_unit_test(dnsmasq_is_asked_where_it_listens),
		cmocka_unit_test(limits_fit_the_memory_and_what_dnsmasq_knows),
		cmocka_unit_test(the_cache_is_a_part_of_dnsmasqs_memory),
		cmocka_unit_test(limits_that_are_given_stay),
		cmocka_unit_test(the_dnsmasq_that_clients_ask_asks_all_servers),
		cmocka_unit_test(kubedns_can_see_whether_dnsmasq_checks_signatures),
		cmocka_unit_test(an_older_dnsmasq_gets_only_what_it_knows),
		cmocka_unit_test(with_expired_answers_each_negative_answer_has_a_ttl),
		cmocka_unit_test(what_the_operator_says_of_upstreams_stays),
		cmocka_unit_test(the_version_is_read_from_its_first_line),
	};
	int rc = cmocka_run_group_tests(tests, NULL, NULL);

	args_free(&args);
	return rc;
}
