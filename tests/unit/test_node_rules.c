/* The rules that send the DNS packets of a node to the kubedns on that node. The kernel accepts the
 * rules in a network namespace of the test, and nft prints them.
 * tests/system/node/test_node_rules.py sends packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <errno.h>

#include <cmocka.h>

#include "nanny/node/nft.h"
#include "nanny/node/rules.h"
#include "tests/unit/emulator.h"

static struct node_rules rules;
static struct nft *nft;
static bool may; /* whether the test may create a namespace */

static int
setup(void **state)
{
	(void)state;
	rules = (struct node_rules){ .table = "t", .count = 2, .owner = true, .fib = true };
	assert_int_equal(addr_parse("10.96.0.10", &rules.addresses[0].addr), 0);
	assert_int_equal(addr_parse("fd00:10:96::a", &rules.addresses[1].addr), 0);
	rules.addresses[0].probe_port = 40001;
	rules.addresses[1].probe_port = 40002;
	may = unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
	nft = may ? nft_open() : NULL;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	nft_close(nft);
	return 0;
}

/* Replaces each `from` in the text with `to`. `to` is not longer than `from`. */
static void
replace_all(char *text, const char *from, const char *to)
{
	for (char *at = text; (at = strstr(at, from)) != NULL; at += strlen(to)) {
		char *rest = at + strlen(from);

		memcpy(at, to, strlen(to));
		memmove(at + strlen(to), rest, strlen(rest) + 1);
	}
}

/* nft 1.0 and 1.1 print some matches in different forms. The tests expect the shorter form of each
 * match. */
static void
as_printed(char *text)
{
	replace_all(text, "tcp flags & (syn | ack) == syn ", "tcp flags syn / syn,ack ");
	replace_all(text, "tcp flags & (rst | ack) == rst | ack ", "tcp flags rst,ack / rst,ack ");
	replace_all(text, "icmp code port-unreachable ", "icmp code 3 ");
	replace_all(text, "icmpv6 code port-unreachable ", "icmpv6 code 4 ");
	replace_all(text, "@th,88,8 & 0xf == 0x0 ", "@th,92,4 0x0 ");
}

/* Returns the output of nft, or "" if the table does not exist. */
static const char *
listed(void)
{
	static char text[65536];
	FILE *out = popen("nft list table inet t 2>/dev/null", "r");

	assert_non_null(out);
	size_t len = fread(text, 1, sizeof text - 1, out);
	pclose(out);
	text[len] = '\0';
	as_printed(text);
	return text;
}

/* Commits the rules with this value of `up`. Returns them as nft prints them. Skips the test if it
 * may not create a namespace. */
static const char *
commit(bool up)
{
	skip_under_emulator("netlink messages of nftables");
	if (!may)
		skip();
	assert_int_equal(nft_commit(nft, node_rules_make(&rules)), 0);
	assert_int_equal(nft_commit(nft, node_rules_replace(&rules, up, true)), 0);
	return listed();
}

static unsigned
times(const char *text, const char *part)
{
	unsigned n = 0;

	for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
		n++;
	return n;
}

static void
the_table_ends_with_its_process_where_the_kernel_can_do_that(void **state)
{
	(void)state;
	assert_non_null(strstr(commit(true), "flags owner"));
	struct nft *other = nft_open();
	assert_int_equal(nft_commit(other, node_rules_replace(&rules, false, true)), -EPERM);
	nft_close(other);
	nft_close(nft);
	nft = NULL;
	assert_string_equal(listed(), "");
}

static void
a_table_without_owner_is_replaced(void **state)
{
	(void)state;
	rules.owner = false;
	assert_null(strstr(commit(true), "owner"));
	assert_true(times(listed(), "@alive4") > 0);
	assert_int_equal(nft_commit(nft, node_rules_make(&rules)), 0);
	assert_int_equal(times(listed(), "@alive4"), 0);
	assert_int_equal(times(commit(true), "delete @here"), 0);
}

static void
only_rules_in_force_lead_anything_new_here(void **state)
{
	(void)state;
	const char *up = commit(true);
	assert_int_equal(
	    times(up, "meta l4proto udp ip daddr @alive4 fib daddr type local notrack"), 1);
	assert_int_equal(
	    times(up, "tcp flags syn / syn,ack ip daddr @alive4 fib daddr type local notrack"), 1);
	assert_int_equal(times(up, "ip6 daddr @alive6 fib daddr type local notrack"), 2);
	assert_int_equal(nft_commit(nft, node_rules_replace(&rules, false, true)), 0);
	const char *down = listed();
	assert_int_equal(times(down, "@alive"), 0);
	/* Connections that began on this node stay on this node. Replies are never tracked. */
	assert_int_equal(times(down, "ip daddr 10.96.0.10 ip saddr . tcp sport @here4 notrack"), 1);
	assert_int_equal(times(down, "ip saddr 10.96.0.10 notrack\n"), 1);
	assert_int_equal(times(down, "ip6 saddr fd00:10:96::a notrack\n"), 1);
}

static void
a_kernel_without_fib_gets_rules_without_it(void **state)
{
	(void)state;
	rules.fib = false;
	const char *up = commit(true);
	assert_int_equal(times(up, "fib"), 0);
	assert_int_equal(times(up, "meta l4proto udp ip daddr @alive4 notrack"), 1);
}

/* All traffic of the node passes through the base chains. */
static void
other_ports_pass_by_few_rules(void **state)
{
	(void)state;
	const char *in = strstr(commit(true), "chain in {");
	assert_non_null(in);
	const char *end = strchr(in, '}');
	char chain[512];
	snprintf(chain, sizeof chain, "%.*s", (int)(end - in), in);
	assert_non_null(strstr(chain, "type filter hook prerouting priority raw; policy accept;\n"
				      "\t\tth dport 53 jump query\n"));
	assert_int_equal(times(chain, "\n"), 3);
}

static void
an_address_is_alive_by_the_answer_to_its_own_probe(void **state)
{
	(void)state;
	const char *up = commit(true);
	assert_int_equal(times(up, "update @alive"), 2);
	assert_non_null(
	    strstr(up, "ip saddr 10.96.0.10 ip daddr 10.96.0.10 udp dport 40001 @th,92,4 0x0 "
		       "update @alive4 { ip saddr timeout 2s }"));
	assert_non_null(
	    strstr(up, "ip6 saddr fd00:10:96::a ip6 daddr fd00:10:96::a udp dport 40002 "
		       "@th,92,4 0x0 update @alive6 { ip6 saddr timeout 2s }"));
}

/* Earlier, a connection kept its entry for 20 seconds after its end. With 820 connections per
 * second, the set was full, and every connection broke. */
static void
a_connection_that_has_ended_or_sent_nothing_leaves_room(void **state)
{
	(void)state;
	const char *down = commit(false);
	assert_non_null(strstr(down, "tcp flags & syn == syn update @here4 { ip daddr . tcp dport "
				     "timeout 3s }"));
	assert_non_null(strstr(down, "update @here4 { ip daddr . tcp dport timeout 20s }"));
	assert_non_null(
	    strstr(down, "tcp flags fin,rst update @here4 { ip daddr . tcp dport timeout 2s }"));
	assert_non_null(strstr(down, "tcp flags rst ip saddr . tcp sport @here4 update @here4 { ip "
				     "saddr . tcp sport timeout 2s }"));
}

/* The client timed out and opened a new connection. Its first packet went to another pod. Its
 * second packet reached this node, because the same port had a connection to this node in the last
 * 20 seconds. */
static void
a_port_is_led_where_its_newest_connection_began(void **state)
{
	(void)state;
	assert_int_equal(
	    times(commit(true), "tcp flags syn / syn,ack ip daddr != @alive4 delete @here4 { ip "
				"saddr . tcp sport }"),
	    1);
	assert_int_equal(nft_commit(nft, node_rules_replace(&rules, false, true)), 0);
	assert_int_equal(
	    times(listed(), "tcp flags syn / syn,ack delete @here6 { ip6 saddr . tcp sport }"), 1);
}

static void
refusals_are_dropped_unless_they_shall_be_seen(void **state)
{
	(void)state;
	static const char *const parts[] = { "tcp flags rst,ack / rst,ack tcp sequence 0 drop",
		"icmp type destination-unreachable icmp code 3 @th,128,8 != 0x1 "
		"@th,240,16 0x35 drop",
		"icmpv6 type destination-unreachable icmpv6 code 4 @th,120,8 != 0x1 "
		"@th,400,16 0x35 drop" };
	const char *hidden = commit(false);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		assert_non_null(strstr(hidden, parts[i]));
	assert_int_equal(nft_commit(nft, node_rules_replace(&rules, false, false)), 0);
	assert_null(strstr(listed(), "tcp sequence"));
	assert_null(strstr(listed(), "unreachable"));
}

static void
a_refused_transaction_changes_nothing(void **state)
{
	(void)state;
	commit(true);
	struct node_rules missing = rules;
	strcpy(missing.table, "missing");
	assert_int_equal(nft_commit(nft, node_rules_replace(&missing, true, true)), -ENOENT);
	assert_true(times(listed(), "@alive4") > 0);
	/* The next batch gets its own result. */
	assert_int_equal(nft_commit(nft, node_rules_replace(&rules, false, true)), 0);
	assert_int_equal(times(listed(), "@alive4"), 0);
}

static unsigned
count(const char *set)
{
	unsigned elements = 0;
	int rc = nft_count_begin(nft, "t", set);

	while (rc == 0)
		rc = nft_count_read(nft, &elements);
	assert_int_equal(rc, 1);
	return elements;
}

static void
elements_and_counters_are_read(void **state)
{
	(void)state;
	uint64_t packets = 7;
	commit(true);
	assert_int_equal(count("here4"), 0);
	/* The elements are in a table of another process, because only its owner may add elements
	 * to the table of the test. */
	FILE *in = popen("nft -f -", "w");
	assert_non_null(in);
	fprintf(in, "table inet many {\nset s { type ipv4_addr . inet_service; elements = {");
	for (unsigned i = 0; i < 5000; i++)
		fprintf(in, "%s10.0.0.1 . %u", i ? "," : "", i + 1);
	fprintf(in, "}\n}\ncounter c { packets 12345 bytes 0 }\n}\n");
	assert_int_equal(pclose(in), 0);
	unsigned elements = 0;
	int rc = nft_count_begin(nft, "many", "s");
	while (rc == 0)
		rc = nft_count_read(nft, &elements);
	assert_int_equal(rc, 1);
	assert_int_equal(elements, 5000);
	assert_int_equal(nft_read_counter(nft, "many", "c", &packets), 0);
	assert_int_equal(packets, 12345);
	assert_int_equal(nft_read_counter(nft, "t", NODE_RULES_FULL, &packets), 0);
	assert_int_equal(packets, 0);
	assert_int_equal(nft_read_counter(nft, "t", "missing", &packets), -ENOENT);
	assert_int_equal(nft_count_begin(nft, "t", "missing"), 0);
	assert_true((rc = nft_count_read(nft, &elements)) < 0);
	assert_int_equal(count("here6"), 0);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_table_ends_with_its_process_where_the_kernel_can_do_that),
		TEST(a_table_without_owner_is_replaced),
		TEST(only_rules_in_force_lead_anything_new_here),
		TEST(a_kernel_without_fib_gets_rules_without_it),
		TEST(other_ports_pass_by_few_rules),
		TEST(an_address_is_alive_by_the_answer_to_its_own_probe),
		TEST(a_connection_that_has_ended_or_sent_nothing_leaves_room),
		TEST(a_port_is_led_where_its_newest_connection_began),
		TEST(refusals_are_dropped_unless_they_shall_be_seen),
		TEST(a_refused_transaction_changes_nothing),
		TEST(elements_and_counters_are_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
