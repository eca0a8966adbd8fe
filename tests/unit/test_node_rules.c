/* The rules that lead a node's DNS packets to its own kubedns, as text for nft; tests/system/test_node_local.py
 * has the kernel read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nanny/node_rules.h"

static struct node_address both[2];

static int
setup(void **state)
{
	(void)state;
	assert_int_equal(addr_parse("10.96.0.10", &both[0].addr), 0);
	assert_int_equal(addr_parse("fd00:10:96::a", &both[1].addr), 0);
	both[0].probe_port = 40001;
	both[1].probe_port = 40002;
	return 0;
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
the_table_belongs_to_its_process_where_the_kernel_can_do_that(void **state)
{
	(void)state;
	char *owned = node_rules_make("t", true), *plain = node_rules_make("t", false);
	assert_non_null(strstr(owned, "flags owner;"));
	assert_null(strstr(owned, "delete table"));
	assert_null(strstr(plain, "owner"));
	/* what an earlier process has left is replaced, and its absence is no error */
	assert_ptr_equal(strstr(plain, "add table inet t\ndelete table inet t\n"), plain);
	free(owned);
	free(plain);
}

static void
only_rules_in_force_lead_anything_new_here(void **state)
{
	(void)state;
	char *up = node_rules_up("t", both, 2, true), *down = node_rules_down("t", both, 2, true);
	assert_int_equal(
	    times(up, "@alive4 notrack"), 4); /* UDP and TCP, from pods and from the node */
	assert_int_equal(times(up, "@alive6 notrack"), 4);
	assert_null(strstr(down, "@alive"));
	/* TCP that comes to an address without being here is led here only by its first packet. */
	assert_int_equal(times(up, "tcp flags syn / syn,ack ip"), 4 + 4);
	for (int i = 0; i < 2; i++) {
		const char *text = i ? up : down;
		assert_ptr_equal(
		    strstr(text, "flush chain inet t in\nflush chain inet t out\n"), text);
		assert_int_equal(times(text, "udp sport 53 notrack"), 2);
		assert_int_equal(times(text, "tcp sport 53 notrack"), 2);
		assert_int_equal(times(text, "@here4 notrack") + times(text, "@here6 notrack"), 4);
	}
	free(up);
	free(down);
}

static void
an_address_is_alive_by_the_answer_to_its_own_probe(void **state)
{
	(void)state;
	char *up = node_rules_up("t", both, 2, true);
	assert_int_equal(times(up, "update @alive"), 2);
	assert_non_null(
	    strstr(up, "ip saddr 10.96.0.10 ip daddr 10.96.0.10 udp sport 53 udp dport 40001 "
		       "@th,92,4 0 update @alive4 { ip saddr timeout 2s }"));
	assert_non_null(
	    strstr(up, "ip6 saddr fd00:10:96::a ip6 daddr fd00:10:96::a udp sport 53 udp dport "
		       "40002 @th,92,4 0 update @alive6 { ip6 saddr timeout 2s }"));
	free(up);
}

/* A connection took its place for 20 seconds after its end: with 820 a second the set was full, and
 * every connection broke. */
static void
a_connection_that_has_ended_leaves_room(void **state)
{
	(void)state;
	char *down = node_rules_down("t", both, 2, true);
	assert_non_null(
	    strstr(down, "ip saddr 10.96.0.10 tcp sport 53 tcp flags & (fin | rst) == 0 update "
			 "@here4 { ip daddr . tcp dport timeout 20s }"));
	assert_non_null(
	    strstr(down, "ip saddr 10.96.0.10 tcp sport 53 tcp flags & (fin | rst) != 0 update "
			 "@here4 { ip daddr . tcp dport timeout 2s }"));
	assert_int_equal(times(down, "update @here"), 4);
	free(down);
}

/* Its client waited in vain: the second packet of a new connection from a port that had one here
 * in the last 20 seconds came here, whoever the first had gone to. */
static void
a_port_is_led_where_its_newest_connection_began(void **state)
{
	(void)state;
	char *up = node_rules_up("t", both, 2, true), *down = node_rules_down("t", both, 2, true);
	char *old = node_rules_up("t", both, 2, false);
	assert_int_equal(times(up, "tcp flags syn / syn,ack ip daddr != @alive4 delete @here4 { ip "
				   "saddr . tcp sport }"),
	    2);
	assert_int_equal(
	    times(down, "tcp flags syn / syn,ack delete @here6 { ip6 saddr . tcp sport }"), 2);
	assert_null(strstr(old, "delete"));
	free(up);
	free(down);
	free(old);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
		    the_table_belongs_to_its_process_where_the_kernel_can_do_that, setup),
		cmocka_unit_test_setup(only_rules_in_force_lead_anything_new_here, setup),
		cmocka_unit_test_setup(a_connection_that_has_ended_leaves_room, setup),
		cmocka_unit_test_setup(a_port_is_led_where_its_newest_connection_began, setup),
		cmocka_unit_test_setup(an_address_is_alive_by_the_answer_to_its_own_probe, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
