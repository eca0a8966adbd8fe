/*
 * The kernel's part of the node role: packets to port 53 of these addresses bypass conntrack, and
 * so kube-proxy's rules for the Service, and reach the kubedns of this node.
 *
 *	probe --question--> kubedns --NOERROR--> output chain --renews for 2 s--> @alive
 *	client's packet --> prerouting chain: its address in @alive? notrack, else kube-proxy's rules
 *
 * Three things end that when no server answers: the table has the flag owner, so the kernel removes
 * it with the process that made it; an address is in @alive only for two seconds after an answer to
 * the probe; and the guard replaces the rules as soon as a probe fails. The first two need no
 * process.
 *
 * Traffic stays on the path on which it began. Our replies are always untracked: one with a
 * conntrack entry would keep its client's next queries here. TCP connections that began here are in
 * @here; the packets of all others are left to conntrack.
 */
#ifndef NANNY_NODE_RULES_H
#define NANNY_NODE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

enum {
	NODE_ADDRESSES_MAX = 4,
	NODE_RULES_ALIVE_S = 2,
	NODE_RULES_TCP_S = 20, /* longer than kubedns keeps an idle connection */
	NODE_RULES_TCP_MAX = 16384,
	DNS_PORT = 53,
};

/* An address that is served, and the port from which the probe asks at it. */
struct node_address {
	struct addr addr;
	uint16_t probe_port;
};

/* Commands for nft(8), each a transaction; caller frees. `owner`: with that flag; without it the
 * commands also replace the table that an earlier process may have left. */
char *node_rules_make(const char *table, bool owner);
char *node_rules_up(const char *table, const struct node_address *addresses, size_t count);
char *node_rules_down(const char *table, const struct node_address *addresses, size_t count);

#endif
