/* The name servers of a resolv.conf, and the lines that are not name servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "lib/resolv.h"

/* Returns the servers of `text` as one line, and the number of skipped lines in brackets. */
static const char *
parse(const char *text)
{
	static char line[2048];
	char server[SERVER_TEXT_MAX];
	struct resolv resolv;
	size_t len = 0;

	resolv_parse(text, strlen(text), &resolv);
	for (size_t i = 0; i < resolv.count; i++)
		len += (size_t)snprintf(line + len, sizeof line - len, "%s ",
		    server_format(&resolv.servers[i], server));
	snprintf(line + len, sizeof line - len, "(%zu)", resolv.skipped);
	return line;
}

static void
servers_come_in_order_and_once(void **state)
{
	(void)state;
	assert_string_equal(parse("nameserver 192.0.2.2\nnameserver\t2001:db8::1\n"
				  "nameserver 192.0.2.1 \r\nnameserver 192.0.2.2"),
	    "192.0.2.2:53 [2001:db8::1]:53 192.0.2.1:53 (0)");
}

static void
what_follows_the_address_is_a_comment(void **state)
{
	(void)state;
	assert_string_equal(parse("nameserver 192.0.2.1#5353\nnameserver 192.0.2.2;x\n"
				  "nameserver 192.0.2.3 192.0.2.4\n"),
	    "192.0.2.1:53 192.0.2.2:53 192.0.2.3:53 (0)");
}

static void
other_lines_say_nothing(void **state)
{
	(void)state;
	assert_string_equal(parse(""), "(0)");
	assert_string_equal(parse("search a.example\noptions ndots:5\n#nameserver 192.0.2.1\n"
				  "nameservers 192.0.2.3\n"
				  "nameserver192.0.2.4\nnameserver\nnameserver \n"),
	    "(0)");
}

static void
what_is_no_server_is_counted(void **state)
{
	(void)state;
	assert_string_equal(parse("nameserver dns.example\nnameserver 192.0.2\n"
				  "nameserver fe80::1%eth0\nnameserver 0.0.0.0\n"
				  "nameserver 1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:"
				  "bbbb:cccc\nnameserver 192.0.2.1\n"),
	    "192.0.2.1:53 (5)");
}

static void
there_is_room_for_fifteen(void **state)
{
	char text[1024] = "";
	struct resolv resolv;

	(void)state;
	for (unsigned i = 1; i <= RESOLV_SERVERS_MAX + 2; i++)
		snprintf(
		    text + strlen(text), sizeof text - strlen(text), "nameserver 192.0.2.%u\n", i);
	resolv_parse(text, strlen(text), &resolv);
	assert_int_equal(resolv.count, RESOLV_SERVERS_MAX);
	assert_int_equal(resolv.skipped, 2);
	assert_string_equal(resolv.first_why, "15 other servers come before it");
}

static void
the_first_skipped_line_is_kept_for_the_log(void **state)
{
	static const char *const rows[][3] = { { "nameserver 1.1.1.1\n", "", NULL },
		{ "nameserver fe80::1%eth0\nnameserver x\n", "fe80::1%eth0",
		    "an address with a zone cannot be used" },
		{ "nameserver 127.0.0.1:53", "127.0.0.1:53", "not an address" },
		{ "nameserver 0.0.0.0", "0.0.0.0", "the unspecified address" },
		{ " nameserver 1.1.1.1", "1.1.1.1", "the line begins with a blank" } };
	struct resolv resolv;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		resolv_parse(rows[i][0], strlen(rows[i][0]), &resolv);
		assert_string_equal(resolv.first_skipped, rows[i][1]);
		if (rows[i][2] != NULL)
			assert_string_equal(resolv.first_why, rows[i][2]);
		else
			assert_null(resolv.first_why);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_skipped_line_is_kept_for_the_log),
		cmocka_unit_test(servers_come_in_order_and_once),
		cmocka_unit_test(what_follows_the_address_is_a_comment),
		cmocka_unit_test(other_lines_say_nothing),
		cmocka_unit_test(what_is_no_server_is_counted),
		cmocka_unit_test(there_is_room_for_fifteen),
	};

	return cmocka_run_group_tests_name("resolv", tests, NULL, NULL);
}
