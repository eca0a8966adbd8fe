/* How the nanny applies the keys of the ConfigMap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* Applies stubDomains. Returns what is logged. */
static char *
log_of(char *stubs)
{
	static const struct engine engine = { .name = "engine" };
	static const struct args args;
	static const struct forwarding_loop guard;
	static char text[4096], name[] = "stubDomains";
	const struct config_rules rules = { .path = "path",
		.domain = "cluster.local",
		.engine = &engine,
		.args = &args,
		.guard = &guard };
	struct confdir_key key = { .name = name, .value = stubs, .len = strlen(stubs) };
	const struct confdir_set set = { .keys = &key, .count = 1, .exists = true };
	struct config config = { .patterns = 0 };
	int saved = dup(STDERR_FILENO);
	FILE *log = tmpfile();

	assert_non_null(log);
	dup2(fileno(log), STDERR_FILENO);
	assert_true(config_apply(&config, &set, &rules));
	dup2(saved, STDERR_FILENO);
	close(saved);
	config_free(&config);
	rewind(log);
	text[fread(text, 1, sizeof text - 1, log)] = '\0';
	fclose(log);
	return text;
}

static void
plain_servers_at_the_port_of_tls_are_one_warning(void **state)
{
	char stubs[] = "{\"a\": [\"1.1.1.1:853\"], \"b\": [\"1.1.1.2:853\"]}";
	const char *text = log_of(stubs), *first = strstr(text, "are not encrypted");

	(void)state;
	assert_non_null(first);
	assert_null(strstr(first + 1, "are not encrypted"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_servers_at_the_port_of_tls_are_one_warning),
		cmocka_unit_test(a_host_in_an_encrypted_stub_domain_is_encrypted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
