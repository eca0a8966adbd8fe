/* Which host names of stub servers the nanny must not look up in plain text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "nanny/config.h"

static void
a_host_in_an_encrypted_stub_domain_is_encrypted(void **state)
{
	static const struct {
		const char *host;
		bool encrypted;
	} rows[] = { { "ns.corp.test", true }, { "corp.test", true }, { "a.plain.corp.test", true },
		{ "ns.closed.test", true }, { "ns.xcorp.test", false }, { "xcorp.test", false },
		{ "test", false }, { "ns.plain.test", false } };

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct conf_server tls = { .tls_name = "dns.test" }, named = { .host = "" };
		struct conf_stub items[] = { { .domain = "closed.test", .closed = true },
			{ .domain = "corp.test", .servers = &tls, .count = 1 },
			{ .domain = "plain.corp.test", .servers = &named, .count = 1 },
			{ .domain = "plain.test", .servers = &named, .count = 1 } };
		const struct config config = { .stubs = { .items = items, .count = 4 } };

		strcpy(named.host, rows[i].host);
		if (config_encrypts_hosts(&config) != rows[i].encrypted)
			fail_msg("%s", rows[i].host);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_in_an_encrypted_stub_domain_is_encrypted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
