/* The options that the --help of dnsmasq lists, and options that it does not list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "nanny/dnsmasq/version.h"

static const char help[] =
    "Usage: dnsmasq [options]\n\nValid options are:\n"
    "-a, --listen-address=<ipaddr>                          Specify local address(es).\n"
    "-b, --bogus-priv                                       Fake reverse lookups.\n"
    "    --filter-A                                         Don't include IPv4 addresses.\n"
    "    --filter-AAAA                                      See --no-such-word elsewhere.\n";

static void
an_option_is_listed_with_or_without_its_value_and_by_its_beginning(void **state)
{
	(void)state;
	assert_true(dnsmasq_unknown_args_lists(help, "--listen-address=127.0.0.1"));
	assert_true(dnsmasq_unknown_args_lists(help, "--bogus-priv"));
	assert_true(dnsmasq_unknown_args_lists(help, "--listen=127.0.0.1"));
	assert_true(dnsmasq_unknown_args_lists(help, "--filter-A"));
	assert_false(dnsmasq_unknown_args_lists(help, "--filter-AAAAA"));
	assert_false(dnsmasq_unknown_args_lists(help, "--bogus-private"));
	assert_false(dnsmasq_unknown_args_lists(help, "--fast-dns-retry=200"));
	assert_false(dnsmasq_unknown_args_lists("", "--bogus-priv"));
}

static void
the_version_of_a_newer_option_is_known(void **state)
{
	(void)state;
	assert_int_equal(dnsmasq_unknown_args_since("--fast-dns-retry=200"), 288);
	assert_int_equal(dnsmasq_unknown_args_since("--filter-A"), 287);
	assert_int_equal(dnsmasq_unknown_args_since("--filter-rr=ANY"), 290);
	assert_int_equal(dnsmasq_unknown_args_since("--filter"), 0);
	assert_int_equal(dnsmasq_unknown_args_since("--no-such-option"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    an_option_is_listed_with_or_without_its_value_and_by_its_beginning),
		cmocka_unit_test(the_version_of_a_newer_option_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
