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

/* Applies stubDomains for an engine without TLS. */
static bool
apply_stubs(struct config *config, char *stubs)
{
	static const struct engine engine = { .name = "engine" };
	static const struct args args;
	static const struct forwarding_loop guard;
	static char name[] = "stubDomains";
	const struct config_rules rules = { .path = "path",
		.domain = "cluster.local",
		.engine = &engine,
		.args = &args,
		.guard = &guard };
	struct confdir_key key = { .name = name, .value = stubs, .len = strlen(stubs) };
	const struct confdir_set set = { .keys = &key, .count = 1, .exists = true };

	return config_apply(config, &set, &rules);
}

/* Applies stubDomains. Returns what is logged. */
static char *
log_of(char *stubs)
{
	static char text[4096];
	struct config config = { .patterns = 0 };
	int saved = dup(STDERR_FILENO);
	FILE *log = tmpfile();

	assert_non_null(log);
	dup2(fileno(log), STDERR_FILENO);
	assert_true(apply_stubs(&config, stubs));
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

/* Servers that the engine cannot use are no earlier good value. */
static void
a_refused_text_closes_its_domains_if_no_server_before_was_usable(void **state)
{
	char tls
	    [] = "{\"a.test\": [\"tls://1.1.1.1#dns.test\"]}",
	 bad[] =
	     "{\"a.test\": [\"tls://1.1.1.1#dns.test\"], \"b.test\": [\"tls://1.1.1.1#dns.test\"";
	char plain[] = "{\"a.test\": [\"1.1.1.1\"]}";
	struct config config = { .patterns = 0 };

	(void)state;
	apply_stubs(&config, tls);
	apply_stubs(&config, bad);
	const struct conf_stub *stub = conf_stubs_find(&config.stubs, "b.test");
	assert_non_null(stub);
	assert_true(stub->closed);
	apply_stubs(&config, plain);
	apply_stubs(&config, bad);
	assert_null(conf_stubs_find(&config.stubs, "b.test"));
	assert_int_equal(conf_stubs_find(&config.stubs, "a.test")->count, 1);
	config_free(&config);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_servers_at_the_port_of_tls_are_one_warning),
		cmocka_unit_test(a_host_in_an_encrypted_stub_domain_is_encrypted),
		cmocka_unit_test(a_refused_text_closes_its_domains_if_no_server_before_was_usable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
