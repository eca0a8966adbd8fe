/* nanny/dnsmasq/version.c reads the version of dnsmasq from the dpkg status in the image. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "nanny/dnsmasq/version.h"

static void
reads(const char *record, const char *expected)
{
	char copy[512], version[PACKAGE_VERSION_MAX];

	strcpy(copy, record);
	FILE *f = fmemopen(copy, strlen(copy), "r");
	assert_non_null(f);
	dnsmasq_package_read(f, version);
	fclose(f);
	assert_string_equal(version, expected);
}

static void
the_version_has_the_patch_level(void **state)
{
	(void)state;
	reads("Package: dnsmasq-base\nSource: dnsmasq\nVersion: 2.90-4~deb12u2\nDescription: x\n",
	    "2.90-4~deb12u2");
}

static void
a_line_that_only_contains_the_word_is_another_field(void **state)
{
	(void)state;
	reads("Config-Version: 1\n Version: 2\nVersion: 3\n", "3");
}

static void
without_one_or_with_one_too_long_it_is_empty(void **state)
{
	(void)state;
	reads("Package: dnsmasq-base\n", "");
	reads("Version: 1111111111111111111111111111111111111111111111111111111111111111\n", "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_version_has_the_patch_level),
		cmocka_unit_test(a_line_that_only_contains_the_word_is_another_field),
		cmocka_unit_test(without_one_or_with_one_too_long_it_is_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
