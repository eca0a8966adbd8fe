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
 * @here until they have ended; the packets of all others are left to conntrack.
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
	NODE_RULES_TCP_S = 20,      /* longer than kubedns keeps an idle connection */
	NODE_RULES_TCP_ENDED_S = 2, /* for the other end's last packets */
	/*
	 * Connections in @here, at 100 bytes of kernel memory: when it is full, new connections
	 * break at their second packet. One that ends takes its place for 2 seconds more, so that
	 * 60,000 a second fit; one client address that opens as many as it has ports for, and ends
	 * none, takes half.
	 */
	NODE_RULES_TCP_MAX = 131072,
	DNS_PORT = 53,
};

/* An address that is served, and the port from which the probe asks at it. */
struct node_address {
	struct addr addr;
	uint16_t probe_port;
};

/*
 * Commands for nft(8), each a transaction; caller frees. `owner`: for a kernel that knows that flag,
 * Linux 5.12. Without it the commands also replace the table that an earlier process may have left,
 * and a connection to another pod breaks whose client had one from the same port here in the last
 * 20 seconds, since rules that remove from a set are as new.
 */
char *node_rules_make(const char *table, bool owner);
char *node_rules_up(
    const char *table, const struct node_address *addresses, size_t count, bool owner);
char *node_rules_down(
    const char *table, const struct node_address *addresses, size_t count, bool owner);

#endif
