/* The loopback address of a pod. Another pod of the same kind may share the pod's network. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/own_loopback.h"

static void
expands(const char *from, const char *to)
{
	char *got = own_loopback_expand(from);

	assert_string_equal(got, to);
	free(got);
}

static void
without_a_uid_it_is_127_0_0_1(void **state)
{
	struct addr addr;
	char text[ADDR_TEXT_MAX];

	(void)state;
	unsetenv("OWN_LOOPBACK");
	assert_false(own_loopback(&addr));
	assert_string_equal(addr_format(&addr, text), "127.0.0.1");
	assert_false(own_loopback_is_one(&addr));
	setenv("OWN_LOOPBACK", "", 1);
	assert_false(own_loopback(&addr));
	expands("--resolver=own-loopback:10153", "--resolver=127.0.0.1:10153");
}

static void
pods_have_addresses_of_their_own(void **state)
{
	enum { PODS = 500 };
	struct addr addrs[PODS], again;

	(void)state;
	for (unsigned i = 0; i < PODS; i++) {
		char uid[] = "3f0c8a52-0000-4c1e-9c7e-b7d5c1a0e000";

		snprintf(uid + 9, 5, "%04u", i);
		uid[13] = '-';
		setenv("OWN_LOOPBACK", uid, 1);
		assert_true(own_loopback(&addrs[i]));
		assert_true(own_loopback_is_one(&addrs[i]));
		assert_int_not_equal(addrs[i].bytes[3], 0);
		assert_int_not_equal(addrs[i].bytes[3], 255);
		own_loopback(&again);
		assert_true(addr_equal(&again, &addrs[i]));
		for (unsigned k = 0; k < i; k++)
			assert_false(addr_equal(&addrs[k], &addrs[i]));
	}
}

static void
the_word_stands_for_it_wherever_an_address_can(void **state)
{
	struct addr addr;
	char text[ADDR_TEXT_MAX], wanted[256];
	static const struct {
		const char *from, *to; /* %s stands for the address */
	} cases[] = {
		{ "own-loopback", "%s" },
		{ "--listen-address=own-loopback", "--listen-address=%s" },
		{ "--kubedns-url=http://own-loopback:8081", "--kubedns-url=http://%s:8081" },
		{ "10.0.0.1,own-loopback#53", "10.0.0.1,%s#53" },
		{ "--domain=own-loopback.example", "--domain=own-loopback.example" },
		{ "--domain=my-own-loopback", "--domain=my-own-loopback" },
		{ "--domain=own-loopback-2,own-loopback", "--domain=own-loopback-2,%s" },
		{ "", "" },
	};

	(void)state;
	setenv("OWN_LOOPBACK", "3f0c8a52-0000-4c1e-9c7e-b7d5c1a0e000", 1);
	own_loopback(&addr);
	addr_format(&addr, text);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const char *p = strstr(cases[i].to, "%s");

		if (p != NULL)
			snprintf(wanted, sizeof wanted, "%.*s%s%s", (int)(p - cases[i].to),
			    cases[i].to, text, p + 2);
		else
			snprintf(wanted, sizeof wanted, "%s", cases[i].to);
		expands(cases[i].from, wanted);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_uid_it_is_127_0_0_1),
		cmocka_unit_test(pods_have_addresses_of_their_own),
		cmocka_unit_test(the_word_stands_for_it_wherever_an_address_can),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
