/* Strict parsing of addresses and servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "lib/addr.h"

static void
addresses_have_one_canonical_text(void **state)
{
	static const struct {
		const char *typed, *canonical;
	} cases[] = {
		{ "10.0.0.1", "10.0.0.1" },
		{ "255.255.255.255", "255.255.255.255" },
		{ "0.0.0.0", "0.0.0.0" },
		{ "::", "::" },
		{ "::1", "::1" },
		{ "2001:DB8:0:0:1:0:0:1",
		    "2001:db8::1:0:0:1" }, /* RFC 5952 section 4.2.3: the first of two runs is
					    * shortened */
		{ "2001:db8:0:1:1:1:1:1",
		    "2001:db8:0:1:1:1:1:1" }, /* section 4.2.2: one zero field is not shortened */
		{ "2001:0db8::0001", "2001:db8::1" },
	};
	char text[ADDR_TEXT_MAX];
	struct addr addr;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(addr_parse(cases[i].typed, &addr), 0);
		assert_string_equal(addr_format(&addr, text), cases[i].canonical);
	}
}

static void
what_is_not_a_literal_address_is_refused(void **state)
{
	static const char *const cases[] = { "", " ", "10.0.0", "10.1", "10.0.0.1.", "10.0.0.256",
		"010.1.1.1", "10.0.0.01", "0x7f.0.0.1", "2130706433", " 10.0.0.1", "10.0.0.1 ",
		"10.0.0.1/8", "[::1]", "fe80::1%eth0", ":::", "1:2:3:4:5:6:7", "::ffff:010.1.1.1",
		"1::2::3", "12345::", "localhost", "-1.2.3.4", "+1.2.3.4", "1.2.3.4\n" };
	struct addr addr = { .family = 77 };

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_int_equal(addr_parse(cases[i], &addr), -EINVAL);
	/* If parsing fails, the caller's value does not change. */
	assert_int_equal(addr.family, 77);
}

static void
servers_are_read_with_and_without_a_port(void **state)
{
	static const struct {
		const char *typed, *canonical;
	} cases[] = {
		{ "8.8.8.8", "8.8.8.8:53" },
		{ "8.8.8.8:1", "8.8.8.8:1" },
		{ "8.8.8.8:65535", "8.8.8.8:65535" },
		{ "2001:db8::1", "[2001:db8::1]:53" },
		{ "[2001:db8::1]", "[2001:db8::1]:53" },
		{ "[2001:db8::1]:5353", "[2001:db8::1]:5353" },
		{ "::1", "[::1]:53" },
		/* Without brackets, every colon is part of the address. */
		{ "1::2:53", "[1::2:53]:53" },
	};
	char text[SERVER_TEXT_MAX];
	struct server server;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(server_parse(cases[i].typed, 53, &server, NULL), 0);
		assert_string_equal(server_format(&server, text), cases[i].canonical);
	}
}

static void
a_refused_server_says_why(void **state)
{
	static const struct {
		const char *typed, *why;
	} cases[] = {
		{ "", "not an address, such as 10.0.0.10, 10.0.0.10:53 or [fd00::10]:53" },
		{ ":53", "not an address, such as 10.0.0.10, 10.0.0.10:53 or [fd00::10]:53" },
		{ "dns.example",
		    "not an address, but a name; an address such as 10.0.0.10 is needed" },
		{ "010.1.1.1", "not an address: a number with a leading zero, which some programs "
			       "read as octal; write it without" },
		{ "10.0.0.1:53:53",
		    "not an address, such as 10.0.0.10, 10.0.0.10:53 or [fd00::10]:53" },
		{ "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb", "not an address" },
		{ "10.0.0.1:", "port out of range, 1 to 65535" },
		{ "10.0.0.1:0", "port out of range, 1 to 65535" },
		{ "10.0.0.1:65536", "port out of range, 1 to 65535" },
		{ "10.0.0.1:18446744073709551669",
		    "port out of range, 1 to 65535" }, /* 2^64 + 53 */
		{ "10.0.0.1:053", "port out of range, 1 to 65535" },
		{ "10.0.0.1:+53", "port out of range, 1 to 65535" },
		{ "10.0.0.1: 53", "port out of range, 1 to 65535" },
		{ "10.0.0.1#53", "the port must follow ':', as in 10.0.0.1:5353" },
		{ "[::1", "missing ']'" },
		{ "[::1]53", "unexpected text after ']'" },
		{ "[::1]:", "port out of range, 1 to 65535" },
		{ "[10.0.0.1]", "brackets are for IPv6 addresses" },
		{ "[]", "not an address, such as 10.0.0.10, 10.0.0.10:53 or [fd00::10]:53" },
	};
	struct server server;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const char *why = NULL;

		assert_int_equal(server_parse(cases[i].typed, 53, &server, &why), -EINVAL);
		assert_string_equal(why, cases[i].why);
	}
}

static void
a_server_survives_the_socket_address(void **state)
{
	static const char *const cases[] = { "10.0.0.1:53", "[2001:db8::1]:10053", "[::]:1" };

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct server before, after;
		struct sockaddr_storage ss;

		assert_int_equal(server_parse(cases[i], 53, &before, NULL), 0);
		socklen_t len = server_sockaddr(&before, &ss);
		assert_int_equal(len, before.addr.family == AF_INET ? sizeof(struct sockaddr_in)
								    : sizeof(struct sockaddr_in6));
		assert_int_equal(server_from_sockaddr((const struct sockaddr *)&ss, &after), 0);
		assert_true(server_equal(&before, &after));
	}
}

static void
a_v4_mapped_peer_is_an_ipv4_peer(void **state)
{
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6, .sin6_port = htons(4242) };
	struct server server, expected;

	(void)state;
	inet_pton(AF_INET6, "::ffff:192.0.2.7", &sin6.sin6_addr);
	assert_int_equal(server_from_sockaddr((const struct sockaddr *)&sin6, &server), 0);
	server_parse("192.0.2.7:4242", 53, &expected, NULL);
	assert_true(server_equal(&server, &expected));
}

static void
an_unknown_family_is_refused(void **state)
{
	struct sockaddr sa = { .sa_family = AF_UNIX };
	struct server server;

	(void)state;
	assert_int_equal(server_from_sockaddr(&sa, &server), -EAFNOSUPPORT);
}

static void
equality_looks_at_family_bytes_and_port(void **state)
{
	struct server a, b;

	(void)state;
	server_parse("1.2.3.4:53", 53, &a, NULL);
	server_parse("1.2.3.4:54", 53, &b, NULL);
	assert_true(addr_equal(&a.addr, &b.addr));
	assert_false(server_equal(&a, &b));
	/* the first four bytes equal those of an address of the other family */
	server_parse("[102:304::]:53", 53, &b, NULL);
	assert_memory_equal(a.addr.bytes, b.addr.bytes, 4);
	assert_false(addr_equal(&a.addr, &b.addr));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_have_one_canonical_text),
		cmocka_unit_test(what_is_not_a_literal_address_is_refused),
		cmocka_unit_test(servers_are_read_with_and_without_a_port),
		cmocka_unit_test(a_refused_server_says_why),
		cmocka_unit_test(a_server_survives_the_socket_address),
		cmocka_unit_test(a_v4_mapped_peer_is_an_ipv4_peer),
		cmocka_unit_test(an_unknown_family_is_refused),
		cmocka_unit_test(equality_looks_at_family_bytes_and_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
