/*
 * The kernel's part of the node role: packets for these addresses' port 53 pass by conntrack, and with
 * it by kube-proxy's rules for the Service, so that they reach the kubedns of this node.
 *
 *	probe --question--> kubedns --NOERROR--> output chain --renews for 2 s--> @alive
 *	client's packet --> prerouting chain: its address in @alive? notrack, else kube-proxy's rules
 *
 * Three things take that away when nobody answers, none of which needs anybody alive: the table has the
 * flag owner, and is gone with the process that made it; an address is only in @alive for two seconds
 * after an answer to the probe; and the rules are replaced as soon as a probe fails.
 *
 * Whatever began on one way ends on it. Replies of ours are always untracked: one that made an entry in
 * conntrack would keep its client's next questions here. TCP connections that began here are in @here;
 * of the others no packet but the first is ours, and conntrack knows where those belong.
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

/* Commands of nft(8), each a transaction; caller frees. `owner`: with that flag, else without, in
 * place of what an earlier process may have left. */
char *node_rules_make(const char *table, bool owner);
char *node_rules_up(const char *table, const struct node_address *addresses, size_t count);
char *node_rules_down(const char *table, const struct node_address *addresses, size_t count);

#endif
