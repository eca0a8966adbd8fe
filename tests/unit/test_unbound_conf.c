#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "nanny/engine.h"
#include "nanny/process.h"
#include "nanny/unbound/conf.h"

static struct args args;
static char **warnings;
static size_t warning_count;
static char *text;

static void
drop(void)
{
	for (size_t i = 0; i < warning_count; i++)
		free(warnings[i]);
	free(warnings);
	free(text);
	warnings = NULL;
	text = NULL;
	warning_count = 0;
	args_free(&args);
}

/* Renders unbound.conf for words separated by blanks, and for `memory` bytes. */
static const char *
conf_with(const char *words, double memory, const char *dns64, bool validate)
{
	char *copy = strdup(words), *given[64], *save = NULL, *why = NULL;
	struct unbound_conf conf = {
		.args = &args,
		.dir = "/run/nanny",
		.memory = memory,
		.threads = 2,
		.receive_buffer = 212992,
		.dns64 = dns64,
		.validate = validate,
	};
	size_t count = 0, len;

	drop();
	for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
		given[count++] = w;
	assert_int_equal(args_parse(&args, "/unbound", given, count, &why), 0);
	text = unbound_conf_render(&conf, &warnings, &warning_count, &len);
	assert_int_equal(strlen(text), len);
	free(copy);
	return text;
}

static const char *
conf_of(const char *words, double memory)
{
	return conf_with(words, memory, NULL, false);
}

static void
has(const char *line)
{
	char whole[256];

	snprintf(whole, sizeof whole, "\t%s\n", line);
	if (strstr(text, whole) == NULL)
		fail_msg("no line \"%s\" in\n%s", line, text);
}

static void
has_not(const char *words)
{
	if (strstr(text, words) != NULL)
		fail_msg("\"%s\" in\n%s", words, text);
}

static long
number(const char *option)
{
	char key[64];

	snprintf(key, sizeof key, "\t%s: ", option);
	const char *at = strstr(text, key);
	assert_non_null(at);
	return strtol(at + strlen(key), NULL, 10);
}

static void
the_arguments_of_kube_dns_are_translated(void **state)
{
	(void)state;
	conf_of(
	    "-k --cache-size=1000 --no-negcache --dns-loop-detect --log-facility=- "
	    "--server=/cluster.local/127.0.0.1#10053 --port=5353 --listen-address=10.0.0.1 -a ::1",
	    0);
	assert_int_equal(warning_count, 0);
	has("port: 5353");
	has("interface: 10.0.0.1");
	has("interface: ::1");
	has("cache-max-negative-ttl: 0");
	has_not("interface-automatic");
	has("serve-expired: yes");
	has("module-config: \"iterator\"");
	has("local-data: 'dnssec.nanny.invalid. 0 IN TXT \"off\"'");
	assert_non_null(strstr(text, "include: \"/run/nanny/servers.conf\"\n"));
	assert_non_null(strstr(text, "control-interface: \"/run/nanny/socket/control\"\n"));
	drop();
}

/* The TXT record tells kubedns not to replace a failed answer with that of an upstream server, which has
 * no such AAAA records. */
static void
with_a_prefix_it_makes_aaaa_records_and_says_so(void **state)
{
	(void)state;
	conf_with("", 0, "2001:db8:64::/96", false);
	has("module-config: \"dns64 iterator\"");
	has("dns64-prefix: 2001:db8:64::/96");
	has("local-data: 'dnssec.nanny.invalid. 0 IN TXT \"dns64\"'");
	conf_with("", 0, "64:ff9b::/96", true);
	has("module-config: \"dns64 validator iterator\"");
	has("local-data: 'dnssec.nanny.invalid. 0 IN TXT \"validate\"'");
	conf_of("", 0);
	has_not("dns64");
	drop();
}

static void
the_receive_buffer_is_what_the_kernel_permits(void **state)
{
	(void)state;
	conf_of("", 0);
	has("so-rcvbuf: 212992");
	drop();
}

static void
most_queries_go_to_the_fastest_server(void **state)
{
	(void)state;
	conf_of("", 0);
	assert_int_equal(number("fast-server-num"), 1);
	assert_int_equal(number("fast-server-permil"), 990);
	drop();
}

static void
without_an_address_it_listens_on_all_of_them(void **state)
{
	(void)state;
	conf_of("", 0);
	has("port: 53");
	has("interface-automatic: yes");
	drop();
}

static void
numbers_are_passed_on(void **state)
{
	(void)state;
	conf_of("--dns-forward-max=700 --max-tcp-connections=70 --max-cache-ttl=60", 0);
	assert_int_equal(warning_count, 0);
	has("num-queries-per-thread: 700");
	has("incoming-num-tcp: 70");
	has("cache-max-ttl: 60");
	has_not("cache-max-ttl: 86400");
	drop();
}

static void
more_queries_than_fit_the_memory_are_not_accepted(void **state)
{
	(void)state;
	conf_of("--dns-forward-max=6000", 64 * 1024 * 1024);
	has("num-queries-per-thread: 1024");
	has_not("num-queries-per-thread: 6000");
	conf_of("--dns-forward-max=700", 64 * 1024 * 1024);
	has("num-queries-per-thread: 700");
	conf_of("--dns-forward-max=many", 64 * 1024 * 1024);
	assert_int_equal(warning_count, 1);
	has("num-queries-per-thread: 1024");
	drop();
}

static void
an_argument_without_a_meaning_is_named(void **state)
{
	(void)state;
	conf_of("--auth-zone=x -E --max-cache-ttl=many -C/etc/dnsmasq.conf", 0);
	assert_int_equal(warning_count, 4);
	assert_string_equal(warnings[0],
	    "dnsmasq argument --auth-zone: ignored: unbound has no such option: remove it, or use "
	    "--engine=dnsmasq");
	assert_non_null(strstr(warnings[1], "argument -E: ignored"));
	assert_string_equal(
	    warnings[2], "dnsmasq argument --max-cache-ttl=many: ignored: not a number");
	assert_non_null(strstr(warnings[3], "argument --conf-file: ignored"));
	has_not("many");
	drop();
}

static void
the_cache_follows_the_memory(void **state)
{
	(void)state;
	conf_of("", 64 << 20);
	assert_int_equal(number("rrset-cache-size") + number("msg-cache-size"), (32 << 20));
	conf_of("", 1 << 20); /* the least */
	assert_int_equal(number("rrset-cache-size") + number("msg-cache-size"), UNBOUND_CACHE_MIN);
	assert_int_equal(number("incoming-num-tcp"), UNBOUND_TCP_MIN);
	conf_of("--cache-size=10000", 0); /* names */
	assert_true(number("rrset-cache-size") > 6 * 1000 * 1000);
	drop();
}

static void
a_cache_of_no_names_is_off(void **state)
{
	(void)state;
	conf_of("--cache-size=0", 0);
	has("cache-max-ttl: 0");
	has_not("\tserve-expired: yes");
	has_not("prefetch");
	drop();
}

/* --- servers --- */

static struct server
server(const char *at)
{
	struct server s;
	const char *why;

	assert_int_equal(server_parse(at, 53, &s, &why), 0);
	return s;
}

static void
add(struct domain_table *table, const char *domain, const char *at)
{
	struct domain_servers *entry = domain_table_add(table, domain);
	struct server s;

	if (at == NULL)
		return;
	s = server(at);
	domain_servers_add_server(entry, &s);
}

static char *
render_plan(const struct domain_table *wanted, const struct domain_table *fixed, size_t *merged)
{
	struct servers_file file = unbound_plan(wanted, fixed, merged);
	size_t len;
	char *rendered = unbound_servers_render(&file,
	    &(struct unbound_servers_conf){
		.nobody = server("127.0.1.3:4711"), .generation = 0x010203, .port = 4711 },
	    &len);

	servers_free(&file);
	return rendered;
}

static void
each_domain_is_a_forward_zone(void **state)
{
	(void)state;
	struct domain_table wanted = { 0 }, fixed = { 0 };
	size_t merged;
	add(&wanted, "", "8.8.8.8");
	add(&wanted, "corp", "10.0.0.1");
	add(&wanted, "corp", "[fd00::1]:54");
	add(&fixed, "cluster.local", "127.0.0.1:10053");
	char *rendered = render_plan(&wanted, &fixed, &merged);
	assert_string_equal(rendered,
	    "server:\n\ttcp-auth-query-timeout: 700\n"
	    "\tunknown-server-time-limit: 20\n"
	    "forward-zone:\n\tname: \".\"\n\tforward-addr: 8.8.8.8@53\n"
	    "forward-zone:\n\tname: \"cluster.local.\"\n\tforward-addr: 127.0.0.1@10053\n"
	    "forward-zone:\n\tname: \"corp.\"\n\tforward-addr: 10.0.0.1@53\n"
	    "\tforward-addr: fd00::1@54\n"
	    "forward-zone:\n\tname: \"generation.nanny.invalid.\"\n\tforward-addr: "
	    "127.1.2.3@4711\n");
	free(rendered);
	domain_table_free(&wanted);
	domain_table_free(&fixed);
}

static void
without_upstreams_other_names_are_refused_and_local_names_do_not_exist(void **state)
{
	(void)state;
	struct domain_table wanted = { 0 }, fixed = { 0 };
	size_t merged;
	add(&wanted, "", NULL);
	add(&wanted, "empty", NULL);
	add(&wanted, "stub.test", "10.0.0.1");
	add(&fixed, "local.test", NULL);
	char *rendered = render_plan(&wanted, &fixed, &merged);
	assert_string_equal(rendered,
	    "server:\n\ttcp-auth-query-timeout: 700\n"
	    "\tunknown-server-time-limit: 20\n"
	    "\tlocal-zone: \".\" refuse\n"
	    "\tlocal-zone: \"generation.nanny.invalid.\" transparent\n"
	    "\tlocal-zone: \"local.test.\" static\n"
	    "\tlocal-zone: \"stub.test.\" transparent\n"
	    "forward-zone:\n\tname: \".\"\n\tforward-addr: 127.0.1.3@4711\n"
	    "forward-zone:\n\tname: \"local.test.\"\n\tforward-addr: 127.0.1.3@4711\n"
	    "forward-zone:\n\tname: \"stub.test.\"\n\tforward-addr: 10.0.0.1@53\n"
	    "forward-zone:\n\tname: \"generation.nanny.invalid.\"\n\tforward-addr: "
	    "127.1.2.3@4711\n");
	free(rendered);
	domain_table_free(&wanted);
	domain_table_free(&fixed);
}

static void
tls_servers_are_never_mixed_with_plain_ones(void **state)
{
	(void)state;
	struct domain_table wanted = { 0 }, fixed = { 0 };
	struct server nine = server("9.9.9.9:853"), eight = server("8.8.8.8:853");
	size_t merged, len;
	struct domain_servers *others = domain_table_add(&wanted, "");
	domain_servers_add_tls(others, &nine, "dns.quad9.net");
	domain_servers_add_tls(others, &eight, "dns.google");
	add(&fixed, "", "10.0.0.1"); /* --server=10.0.0.1 */
	struct servers_file file = unbound_plan(&wanted, &fixed, &merged);
	assert_true(unbound_has_tls(&file));
	char *rendered = unbound_servers_render(
	    &file, &(struct unbound_servers_conf){ .bundle = "/run/nanny/ca.pem" }, &len);
	assert_string_equal(rendered, "server:\n\ttls-cert-bundle: \"/run/nanny/ca.pem\"\n"
				      "\ttcp-auth-query-timeout: 376\n"
				      "\tunknown-server-time-limit: 200\n"
				      "forward-zone:\n\tname: \".\"\n\tforward-tls-upstream: yes\n"
				      "\tforward-addr: 8.8.8.8@853#dns.google\n"
				      "\tforward-addr: 9.9.9.9@853#dns.quad9.net\n");
	free(rendered);
	domain_servers_add_server(others, &nine); /* a plain one is not added */
	assert_int_equal(others->count, 2);
	struct servers_file second = unbound_plan(&wanted, &fixed, &merged);
	assert_true(servers_equal(&file, &second));
	second.items[0].tls_names[0][0] = 'x'; /* another name is another server */
	assert_false(servers_equal(&file, &second));
	assert_true(servers_hash(&file) != servers_hash(&second));
	servers_free(&file);
	servers_free(&second);
	domain_table_free(&wanted);
	domain_table_free(&fixed);
}

/* Returns whether the time for a reply over TCP is the short one, with these servers of "corp". */
static bool
waits_shortly(const char *corp, const char *tls_name)
{
	struct domain_table wanted = { 0 }, fixed = { 0 };
	struct server nine = server("9.9.9.9:853"), other = server(corp);
	size_t merged;

	domain_servers_add_tls(domain_table_add(&wanted, ""), &nine, "dns.quad9.net");
	domain_servers_add_tls(domain_table_add(&wanted, "corp"), &other, tls_name);
	char *rendered = render_plan(&wanted, &fixed, &merged);
	bool shortly = strstr(rendered, "tcp-auth-query-timeout: 376\n") != NULL;
	assert_true(shortly != (strstr(rendered, "tcp-auth-query-timeout: 700\n") != NULL));
	assert_non_null(strstr(rendered, "unknown-server-time-limit: 200\n"));
	free(rendered);
	domain_table_free(&wanted);
	domain_table_free(&fixed);
	return shortly;
}

/* A plain server gets one time, which must suffice for a distant server. kubedns is on this host. */
static void
a_plain_server_has_more_time_over_tcp(void **state)
{
	(void)state;
	assert_true(waits_shortly("10.0.0.1:853", "dns.corp"));
	assert_true(waits_shortly("127.0.0.1:10053", ""));
	assert_true(waits_shortly("[::1]:10053", ""));
	assert_false(waits_shortly("[::2]:10053", ""));
	assert_false(waits_shortly("10.0.0.1:53", ""));
	assert_false(waits_shortly("[::ffff:127.0.0.1]:53", ""));
}

static void
with_validation_stub_domains_are_insecure(void **state)
{
	(void)state;
	struct domain_table wanted = { 0 }, fixed = { 0 };
	size_t merged, len;
	add(&wanted, "", "8.8.8.8");
	add(&wanted, "corp", "10.0.0.1");
	struct servers_file file = unbound_plan(&wanted, &fixed, &merged);
	char *rendered = unbound_servers_render(&file,
	    &(struct unbound_servers_conf){
		.validate = true, .generation = 0x010203, .port = 4711 },
	    &len);
	assert_non_null(strstr(rendered,
	    "server:\n\ttcp-auth-query-timeout: 700\n\tunknown-server-time-limit: 20\n"
	    "\tdomain-insecure: \"corp.\"\n"
	    "\tdomain-insecure: \"generation.nanny.invalid.\"\nforward-zone:"));
	free(rendered);
	servers_free(&file);
	domain_table_free(&wanted);
	domain_table_free(&fixed);
}

static void
a_domain_wins_over_the_names_below_it(void **state)
{
	(void)state;
	struct domain_table wanted = { 0 }, fixed = { 0 };
	size_t merged;
	add(&wanted, "", "8.8.8.8");
	add(&wanted, "*.a.test", "10.0.0.1");
	add(&wanted, "a.test", "10.0.0.2");
	add(&wanted, "*.b.test", "10.0.0.3");
	char *rendered = render_plan(&wanted, &fixed, &merged);
	assert_int_equal(merged, 1);
	assert_null(strstr(rendered, "10.0.0.1@"));
	assert_non_null(strstr(rendered, "name: \"a.test.\"\n\tforward-addr: 10.0.0.2@53\n"));
	assert_non_null(strstr(rendered, "name: \"b.test.\"\n\tforward-addr: 10.0.0.3@53\n"));
	free(rendered);
	domain_table_free(&wanted);
	domain_table_free(&fixed);
}

static void
only_domains_with_other_servers_have_changed(void **state)
{
	(void)state;
	struct domain_table first = { 0 }, second = { 0 }, fixed = { 0 };
	size_t merged, count;
	add(&first, "", "8.8.8.8");
	add(&first, "gone", "10.0.0.1");
	add(&first, "other", "10.0.0.1");
	add(&first, "same", "10.0.0.1");
	add(&second, "", "8.8.8.8");
	add(&second, "new", "10.0.0.1");
	add(&second, "other", "10.0.0.2");
	add(&second, "same", "10.0.0.1");
	struct servers_file before = unbound_plan(&first, &fixed, &merged),
			    after = unbound_plan(&second, &fixed, &merged);
	const char **domains = unbound_changed(&before, &after, &count);
	assert_int_equal(count, 3);
	assert_string_equal(domains[0], "gone");
	assert_string_equal(domains[1], "new");
	assert_string_equal(domains[2], "other");
	free(domains);
	servers_free(&before);
	servers_free(&after);
	domain_table_free(&first);
	domain_table_free(&second);
}

static void
the_version_is_in_the_first_line(void **state)
{
	(void)state;
	assert_int_equal(unbound_version_parse("Version 1.26.2\n\nConfigure line"), 12602);
	assert_int_equal(unbound_version_parse("Version 1.17.1\n"), 11701);
	assert_int_equal(unbound_version_parse("usage: unbound"), 0);
	assert_int_equal(unbound_version_parse(""), 0);
}

static void
a_line_of_the_log_keeps_its_level(void **state)
{
	(void)state;
	struct process process;
	enum log_level level;
	process_init(&process, &unbound_engine);
	assert_string_equal(
	    unbound_engine.log_line(&process,
		"[1795624329] unbound[2504:0] info: start of service (unbound 1.26.2).", &level),
	    "start of service (unbound 1.26.2).");
	assert_int_equal(level, LOG_LEVEL_INFO);
	assert_string_equal(process.version, "1.26.2");
	assert_string_equal(unbound_engine.log_line(
				&process, "[1795624329] unbound[2504:0] error: no memory", &level),
	    "error: no memory");
	assert_int_equal(level, LOG_LEVEL_WARN);
	unbound_engine.log_line(&process, "[1] unbound[1:0] notice: init module 0", &level);
	assert_int_equal(level, LOG_LEVEL_DEBUG);
	unbound_engine.log_line(&process, "[", &level);
	unbound_engine.log_line(&process, "", &level);
	assert_int_equal(level, LOG_LEVEL_INFO);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_arguments_of_kube_dns_are_translated),
		cmocka_unit_test(with_a_prefix_it_makes_aaaa_records_and_says_so),
		cmocka_unit_test(the_receive_buffer_is_what_the_kernel_permits),
		cmocka_unit_test(most_queries_go_to_the_fastest_server),
		cmocka_unit_test(without_an_address_it_listens_on_all_of_them),
		cmocka_unit_test(numbers_are_passed_on),
		cmocka_unit_test(more_queries_than_fit_the_memory_are_not_accepted),
		cmocka_unit_test(an_argument_without_a_meaning_is_named),
		cmocka_unit_test(the_cache_follows_the_memory),
		cmocka_unit_test(a_cache_of_no_names_is_off),
		cmocka_unit_test(each_domain_is_a_forward_zone),
		cmocka_unit_test(
		    without_upstreams_other_names_are_refused_and_local_names_do_not_exist),
		cmocka_unit_test(tls_servers_are_never_mixed_with_plain_ones),
		cmocka_unit_test(a_plain_server_has_more_time_over_tcp),
		cmocka_unit_test(with_validation_stub_domains_are_insecure),
		cmocka_unit_test(a_domain_wins_over_the_names_below_it),
		cmocka_unit_test(only_domains_with_other_servers_have_changed),
		cmocka_unit_test(the_version_is_in_the_first_line),
		cmocka_unit_test(a_line_of_the_log_keeps_its_level),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
