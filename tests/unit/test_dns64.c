#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <cmocka.h>

#include "lib/dns64.h"

static void
prefixes_of_rfc_6052_are_read(void **state)
{
	(void)state;
	static const char *const texts[][2] = {
		{ "64:ff9b::/96", "64:ff9b::/96" },
		{ "0064:FF9B:0::/96", "64:ff9b::/96" },
		{ "2001:db8::/32", "2001:db8::/32" },
		{ "2001:db8:100::/40", "2001:db8:100::/40" },
		{ "2001:db8:122::/48", "2001:db8:122::/48" },
		{ "2001:db8:122:300::/56", "2001:db8:122:300::/56" },
		{ "2001:db8:122:344::/64", "2001:db8:122:344::/64" },
		{ "2001:db8:122:344:0:a:b:0/96", NULL },
		{ "2001:db8:122:344:a:b::/96", "2001:db8:122:344:a:b::/96" },
		{ "2001:db8:122:344:a00:b::/96", NULL },
		{ "64:ff9b::1/96", NULL },
		{ "2001:db8:1::/32", NULL },
		{ "64:ff9b::/95", NULL },
		{ "64:ff9b::/72", NULL },
		{ "64:ff9b::/24", NULL },
		{ "64:ff9b::/128", NULL },
		{ "64:ff9b::/96x", NULL },
		{ "64:ff9b::/-96", NULL },
		{ "64:ff9b::/18446744073709551712", NULL },
		{ "64:ff9b::/", NULL },
		{ "64:ff9b::", NULL },
		{ "/96", NULL },
		{ "", NULL },
		{ "192.0.2.0/32", NULL },
		{ "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000/96", NULL },
	};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		char prefix[DNS64_TEXT_MAX] = "";
		const char *why = NULL;
		int rc = dns64_parse(texts[i][0], prefix, &why);

		if (texts[i][1] != NULL && (rc != 0 || strcmp(prefix, texts[i][1]) != 0))
			fail_msg("\"%s\": %s", texts[i][0], why != NULL ? why : prefix);
		if (texts[i][1] == NULL && (rc != -EINVAL || why == NULL))
			fail_msg("\"%s\" is accepted", texts[i][0]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(prefixes_of_rfc_6052_are_read) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
