/* Percent-encoding. The unreserved characters of RFC 3986 stay, and all other bytes are encoded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "lib/percent.h"

static void
encodes_as(const char *text, const char *expected)
{
	char *encoded = percent_encode(text);

	assert_string_equal(encoded, expected);
	free(encoded);
}

static void
every_byte_outside_the_unreserved_set_is_encoded(void **state)
{
	(void)state;
	encodes_as("a-b.c_d~ &=%+\r\n/?#\xff", "a-b.c_d~%20%26%3D%25%2B%0D%0A%2F%3F%23%FF");
	encodes_as("AZ09", "AZ09");
	encodes_as("", "");
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_outside_the_unreserved_set_is_encoded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
