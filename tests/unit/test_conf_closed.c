/* What is left of a refused key that asks for TLS: which names get SERVFAIL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "lib/conf_closed.h"
#include "lib/xalloc.h"

static void
what_looks_like_a_tls_server_asks_for_tls(void **state)
{
	static const struct {
		const char *text;
		bool asks;
	} rows[] = { { "[\"tls://9.9.9.9\"]", true }, { "TLS://9.9.9.9", true },
		{ "[\"tls:/9.9.9.9#x\"]", true }, { "[\"tls//9.9.9.9\"]", true },
		{ "[\"tls:\\/\\/9.9.9.9\"]", true }, { "[\"8.8.8\"]", false },
		{ "[\"ns.tls:53\"]", false }, { "{\"tls.example\": [\"8.8.8\"]}", false },
		{ "tls", false }, { "", false },
		/* near misses of tls:// */
		{ "[\"tls ://9.9.9.9\"]", true }, { "[\"tls;//9.9.9.9\"]", true },
		{ "[\"tls.//9.9.9.9\"]", true }, { "[\"tsl://9.9.9.9\"]", true },
		{ "[\"t1s://9.9.9.9\"]", true }, { "[\"xtls://9.9.9.9\"]", true },
		{ "[\"dot://9.9.9.9\"]", true }, { "[\"https:\\/\\/dns.example\"]", true },
		{ "[\"\\u0074\\u006Cs\\u003a9.9.9.9\"]", true },
		/* near misses of #SERVER-NAME */
		{ "[\"9.9.9.9#dns.quad9.net\"]", true },
		{ "[\"9.9.9.9:853#dns.quad9.net\"]", true },
		{ "[\"9.9.9.9@853#dns.quad9.net\"]", true }, { "[\"[2620:fe::fe]#dns\"]", true },
		{ "[2620:fe::fe@853]", true }, { "9.9.9.9 \\u0023 dns.quad9.net", true },
		/* no address, so not a server */
		{ "{\"a.test\": [\"ns.test#853\"]}", false }, { "# 9.9.9.9", false },
		{ "admin@9.9.9", false }, { "[\"10.0.0.1/8\"]", false }, { "\\u00", false },
		{ "\\", false }, { "@", false } };

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (conf_asks_tls(rows[i].text, strlen(rows[i].text)) != rows[i].asks)
			fail_msg("%s", rows[i].text);
}

/* Returns the closed domains in one text. "*" stands for all external names, "-" for an open key. */
static char *
domains_of(const char *text)
{
	struct conf_stubs stubs;

	if (!conf_stubs_close(text, strlen(text), &stubs))
		return xstrdup("-");
	char *all = xstrdup(stubs.closed_all ? "*" : "");
	for (size_t i = 0; i < stubs.count; i++) {
		char *more = xasprintf("%s%s%s", all, i > 0 ? " " : "", stubs.items[i].domain);

		assert_true(stubs.items[i].closed);
		free(all);
		all = more;
	}
	conf_stubs_free(&stubs);
	return all;
}

static void
the_domains_with_a_tls_server_are_closed(void **state)
{
	static const char *const rows[][2] = {
		{ "{\"b.test\": [\"tls://1.2.3.4\"], \"a.test\": \"tls://x\", \"c.test\": "
		  "[\"8.8.8\"]}",
		    "a.test b.test" },
		{ "{\"B.Test.\": [\"tls:\\/\\/1.2.3.4\"], \"b.test\": [\"tls://x\"]}", "b.test" },
		{ "{\"b.test\": [\"8.8.8\"]}", "-" },
		/* a domain that cannot be read */
		{ "{\"b..test\": [\"tls://1.2.3.4\"]}", "*" },
		{ "{\"\": [\"tls://1.2.3.4\"]}", "*" },
		{ "{\"tls://1.2.3.4\": [\"8.8.8.8\"]}", "*" },
		/* no JSON object: all words that can be domains */
		{ "{\"b.test\": [\"tls://1.2.3.4:853#ns.b.test\"", "b.test" },
		{ "{b.test: [tls://[fd00::1]#ns.x], c.test: [10.0.0.1:53]}", "b.test c.test fd00" },
		{ "{b..test: [tls://1.2.3.4]}", "*" },
		{ "[\"tls://1.2.3.4#dns.test\"]", "*" },
		{ "tls://", "*" },
		/* json-c keeps one of two members with the same name */
		{ "{\"b.test\": [\"tls://1.2.3.4\"], \"b.test\": [\"10.0.0.1\"]}", "b.test" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char *domains = domains_of(rows[i][0]);

		if (strcmp(domains, rows[i][1]) != 0)
			fail_msg("%s: %s, not %s", rows[i][0], domains, rows[i][1]);
		free(domains);
	}
}

static void
messages_say_which_names_get_servfail(void **state)
{
	static const char *const rows[][2] = {
		{ "{\"b.test\": \"tls://x\"}", "names of b.test" },
		{ "{\"b.test\": \"tls://x\", \"a.test\": \"tls://x\", \"c.test\": \"tls://x\"}",
		    "names of a.test and 2 more domains" },
		{ "tls://", "all external names (a domain cannot be read)" },
	};
	struct conf_stubs stubs;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		assert_true(conf_stubs_close(rows[i][0], strlen(rows[i][0]), &stubs));
		char *names = conf_stubs_closed_names(&stubs);
		assert_string_equal(names, rows[i][1]);
		free(names);
		conf_stubs_free(&stubs);
	}
}

static void
a_text_of_many_words_needs_little_memory(void **state)
{
	static char text[1024 * 1024];
	struct conf_stubs stubs;
	struct rusage before, after;

	(void)state;
	memset(text, ' ', sizeof text);
	for (size_t i = 0; i < sizeof text; i += 2)
		text[i] = 'a';
	memcpy(text, "tls://", 6);
	getrusage(RUSAGE_SELF, &before);
	assert_true(conf_stubs_close(text, sizeof text, &stubs));
	getrusage(RUSAGE_SELF, &after);
	assert_true(stubs.closed_all);
	assert_int_equal(stubs.count, 0);
	assert_in_range(after.ru_maxrss - before.ru_maxrss, 0, 128 * 1024); /* KiB */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_looks_like_a_tls_server_asks_for_tls),
		cmocka_unit_test(the_domains_with_a_tls_server_are_closed),
		cmocka_unit_test(a_text_of_many_words_needs_little_memory),
		cmocka_unit_test(messages_say_which_names_get_servfail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
