#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "nanny/engine.h"
#include "nanny/process.h"
#include "lib/forwarding_loop.h"

static enum log_level
level_of(const char *line)
{
	struct process process;
	enum log_level level;

	process_init(&process, &dnsmasq_engine);
	dnsmasq_engine.log_line(&process, line, &level);
	return level;
}

static struct addr
addr(const char *text)
{
	struct addr a;

	assert_int_equal(addr_parse(text, &a), 0);
	return a;
}

static bool
is_self(const struct forwarding_loop *guard, const char *text)
{
	struct server server;
	const char *why;

	assert_int_equal(server_parse(text, 53, &server, NULL), 0);
	return forwarding_loop_is(guard, &server, &why);
}

static struct forwarding_loop
pod(void)
{
	struct forwarding_loop guard = { .port = 53, .local_count = 3 };

	guard.local[0] = addr("127.0.0.1");
	guard.local[1] = addr("10.1.2.3");
	guard.local[2] = addr("fd00::3");
	return guard;
}

static void
everywhere_means_every_local_address_and_all_of_loopback(void **state)
{
	(void)state;
	struct forwarding_loop guard = pod();
	assert_true(is_self(&guard, "127.0.0.1"));
	assert_true(is_self(&guard, "127.0.0.53"));
	assert_true(is_self(&guard, "10.1.2.3"));
	assert_true(is_self(&guard, "fd00::3"));
	assert_false(is_self(&guard, "10.1.2.4"));
	assert_false(is_self(&guard, "127.0.0.1:10053"));
	struct addr any[] = { addr("0.0.0.0") };
	guard.listen = any;
	guard.listen_count = 1;
	assert_true(is_self(&guard, "127.0.0.53"));
}

static void
what_sends_its_queries_here_gets_none_back(void **state)
{
	(void)state;
	struct forwarding_loop guard = pod();
	struct server kubedns = { .addr = addr("127.0.0.1"), .port = 53 };
	guard.port = 10153;
	assert_false(is_self(&guard, "127.0.0.1"));
	forwarding_loop_set_asker(&guard, &kubedns);
	assert_true(is_self(&guard, "127.0.0.1"));
	assert_false(is_self(&guard, "127.0.0.1:5353"));
	assert_false(is_self(&guard, "127.0.0.53"));
}

static void
an_address_where_something_else_listens_is_not_ours(void **state)
{
	(void)state;
	struct forwarding_loop guard = pod();
	forwarding_loop_read_udp_line(&guard,
	    "  375: 3500007F:0035 00000000:0000 07 00000000:00000000 "
	    "00:00000000 00000000   101        0 18266 2 0000000000000000 0");
	assert_false(is_self(&guard, "127.0.0.53"));
	assert_true(is_self(&guard, "127.0.0.54"));
	forwarding_loop_read_udp_line(&guard,
	    "  375: 0100007F:0035 00000000:0000 07 00000000:00000000 "
	    "00:00000000 00000000   101        0 18266 2 0000000000000000 0");
	assert_true(is_self(&guard, "127.0.0.1"));
	forwarding_loop_read_udp_line(&guard,
	    "  sl  local_address rem_address   st tx_queue rx_queue tr "
	    "tm->when retrnsmt   uid  timeout inode ref pointer drops");
	forwarding_loop_read_udp_line(&guard, "  375: 3600007F:1389 00000000:0000 07");
	assert_true(is_self(&guard, "127.0.0.54"));
}

static void
told_addresses_are_all_that_is_ours(void **state)
{
	(void)state;
	struct forwarding_loop guard = pod();
	struct addr listen[] = { addr("127.0.0.1"), addr("10.1.2.3") };
	guard.listen = listen;
	guard.listen_count = 2;
	assert_true(is_self(&guard, "10.1.2.3"));
	assert_false(is_self(&guard, "127.0.0.53"));
	assert_false(is_self(&guard, "fd00::3"));
}

static void
dnsmasq_log_lines_have_levels(void **state)
{
	(void)state;
	assert_int_equal(level_of("started, version 2.90 cachesize 150"), LOG_LEVEL_INFO);
	assert_int_equal(level_of("using nameserver 8.8.8.8#53"), LOG_LEVEL_DEBUG);
	assert_int_equal(level_of("query[A] failed.example from 127.0.0.1"), LOG_LEVEL_DEBUG);
	assert_int_equal(
	    level_of("failed to create listening socket for port 53: Address already in use"),
	    LOG_LEVEL_WARN);
	assert_int_equal(level_of("Maximum number of concurrent DNS queries reached (max: 150)"),
	    LOG_LEVEL_WARN);
	assert_int_equal(
	    level_of("ignoring nameserver 127.0.0.1 - local interface"), LOG_LEVEL_WARN);
}

static void
the_service_that_leads_here_is_a_loop_at_its_own_port(void **state)
{
	(void)state;
	struct addr loopback = { .family = AF_INET, .bytes = { 127, 0, 0, 1 } };
	struct forwarding_loop guard = { .port = 10153, .listen = &loopback, .listen_count = 1 };
	struct server service = { .addr = { AF_INET, { 10, 96, 0, 10 } }, .port = 53 };
	const char *why;
	assert_false(forwarding_loop_is(&guard, &service, &why));
	forwarding_loop_set_service(&guard, "10.96.0.10", "53");
	assert_true(forwarding_loop_is(&guard, &service, &why));
	service.port = 5353;
	assert_false(forwarding_loop_is(&guard, &service, &why));
	static const char *const unknown[][2] = { { NULL, NULL }, { "", "53" },
		{ "10.96.0.10", "0" }, { "10.96.0.10", "5x" }, { "10.96.0.10", "65536" } };
	for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
		forwarding_loop_set_service(&guard, unknown[i][0], unknown[i][1]);
		assert_int_equal(guard.service.port, 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everywhere_means_every_local_address_and_all_of_loopback),
		cmocka_unit_test(what_sends_its_queries_here_gets_none_back),
		cmocka_unit_test(an_address_where_something_else_listens_is_not_ours),
		cmocka_unit_test(told_addresses_are_all_that_is_ours),
		cmocka_unit_test(dnsmasq_log_lines_have_levels),
		cmocka_unit_test(the_service_that_leads_here_is_a_loop_at_its_own_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
