/* The ConfigMap key `hosts`: the names and addresses of each text, and the texts that are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lib/conf_hosts.h"
#include "lib/xalloc.h"

/* Returns the pairs as "name=address ". If the text is refused, returns '!' and the reason. */
static const char *
hosts_of(const char *text, size_t len)
{
	static char out[4096];
	struct conf_hosts hosts;
	char *why, name[DNAME_TEXT_MAX], addr[ADDR_TEXT_MAX];
	size_t n = 0;

	out[0] = '\0';
	if (conf_hosts_parse(text, len, &hosts, &why) < 0) {
		assert_int_equal(hosts.count, 0);
		snprintf(out, sizeof out, "!%s", why);
		free(why);
		return out;
	}
	assert_null(why);
	for (size_t i = 0; i < hosts.count; i++)
		n += (size_t)snprintf(out + n, sizeof out - n, "%s%s=%s", i > 0 ? " " : "",
		    dname_to_text(hosts.items[i].name.wire, name),
		    addr_format(&hosts.items[i].addr, addr));
	conf_hosts_free(&hosts);
	return out;
}

static void
each_text_is_its_pairs_or_a_reason(void **state)
{
	(void)state;
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "10.0.0.1 a.example", "a.example.=10.0.0.1" },
		{ "10.0.0.1\ta.example   b.example\r\n",
		    "a.example.=10.0.0.1 b.example.=10.0.0.1" },
		{ "# note\n\n  \n10.0.0.1 a # b.example\n", "a.=10.0.0.1" },
		{ "10.0.0.1 a#b", "a.=10.0.0.1" },
		{ "10.0.0.1 B.Example.\n10.0.0.1 b.example", "b.example.=10.0.0.1" },
		{ "10.0.0.2 a\n10.0.0.1 a\n::1 a", "a.=10.0.0.1 a.=10.0.0.2 a.=::1" },
		{ "2001:db8:0::5 a", "a.=2001:db8::5" },
		/* Blocklists use this address for blocked names. */
		{ "0.0.0.0 ads.example", "ads.example.=0.0.0.0" },
		{ "null", "" },
		{ "# nothing yet", "" },
		{ "", "" },
		{ " \n\t", "" },
		/* A hosts file from another machine is accepted, but these lines are ignored. */
		{ "10.0.0.1", "" },
		{ "10.0.0.1 # a\n10.0.0.2 b", "b.=10.0.0.2" },
		{ "fe80::1%lo0 localhost\n10.0.0.2 b", "b.=10.0.0.2" },
		{ "fe80::x%lo0 a", "!line 1: \"fe80::x%lo0\": not an address; a line is an address "
				   "and its names" },
		{ "10.0.0.1%lo0 a",
		    "!line 1: \"10.0.0.1%lo0\": not an address; a line is an address "
		    "and its names" },
		{ "::ffff:10.0.0.3 a\n10.0.0.3 a",
		    "a.=10.0.0.3" }, /* a repeated address counts once */
		{ "\n\n10.0.0 a",
		    "!line 3: \"10.0.0\": not an address; a line is an address and its names" },
		{ "a 10.0.0.1",
		    "!line 1: \"a\": not an address; a line is an address and its names" },
		{ "10.0.0.1 a_b -c", "!line 1: \"-c\": not a domain name" },
		{ "10.0.0.1 a..b", "!line 1: \"a..b\": not a domain name" },
		{ "10.0.0.1 *.a", "!line 1: \"*.a\": not a domain name" },
		{ "10.0.0.1 .", "!line 1: \".\": the root" },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		const char *got = hosts_of(rows[i].text, strlen(rows[i].text));
		bool refused = rows[i].want[0] == '!';

		if (refused ? strncmp(got, rows[i].want, strlen(rows[i].want)) != 0
			    : strcmp(got, rows[i].want) != 0)
			fail_msg("\"%s\":\n  %s\nwant\n  %s", rows[i].text, got, rows[i].want);
	}
	assert_string_equal(hosts_of("10.0.0.1 a\0b", 12), "!line 1, column 11: NUL byte");
}

/* This content would fit into a ConfigMap. But it exceeds a limit, so it is refused as a whole. */
static void
the_bounds_hold(void **state)
{
	(void)state;
	static const struct {
		unsigned lines;
		const char *want;
	} rows[] = {
		{ 10001, "!line 10001: \"n10000\": more than 10000 names" },
		{ 257, "!\"same.\": more than 256 addresses of one name" },
		{ 257, "!\"10.0.0.1\": more than 256 names of one address" },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char *text = xmalloc(64 * rows[i].lines);
		size_t len = 0;

		for (unsigned n = 0; n < rows[i].lines; n++) {
			if (i == 0)
				len += (size_t)sprintf(
				    text + len, "10.0.%u.%u n%u\n", n / 256, n % 256, n);
			else if (i == 1)
				len += (size_t)sprintf(
				    text + len, "10.0.%u.%u same\n", n / 256, n % 256);
			else
				len += (size_t)sprintf(text + len, "10.0.0.1 n%u\n", n);
		}
		const char *got = hosts_of(text, len);
		if (strncmp(got, rows[i].want, strlen(rows[i].want)) != 0)
			fail_msg("%s, not %s", got, rows[i].want);
		free(text);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_text_is_its_pairs_or_a_reason),
		cmocka_unit_test(the_bounds_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
