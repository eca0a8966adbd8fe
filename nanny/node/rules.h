/*
 * The kernel's part of the node role: packets to port 53 of these addresses bypass conntrack, and
 * so kube-proxy's rules for the Service, and reach the kubedns of this node.
 *
 *	probe --question--> kubedns --NOERROR--> chain reply --renews for 2 s--> @alive
 *	client's packet --> chain query: its address in @alive? notrack, else kube-proxy's rules
 *
 *	prerouting: in ---port 53---> query
 *	output:     out --to port 53--> query,  --from port 53--> reply,  ICMP errors
 *
 * Three things end that when no server answers: the table has the flag owner, so the kernel removes
 * it with the process that made it; an address is in @alive only for two seconds after an answer to
 * the probe; and the guard replaces the rules as soon as a probe fails. The first two need no
 * process. A packet to an address that the node does not have (its interface was deleted) is left
 * to kube-proxy's rules as well.
 *
 * Between kubedns's death and the change of the rules the kernel would refuse queries by ICMP and
 * by TCP reset. Resolvers take a refusal as final, so it is dropped: they ask again after their
 * timeout, and kube-proxy's rules have that packet. Only refusals of new connections are dropped.
 * A reset of a connection that exists passes; it has another sequence number than 0, or no ACK.
 * An address that nobody else serves stays without a server as long as kubedns is away. So the guard
 * ends the hiding when that lasts, and clients learn at once that nobody answers there.
 *
 * Traffic stays on the path on which it began. Our replies are always untracked: one with a
 * conntrack entry would keep its client's next queries here. TCP connections that began here are in
 * @here until they have ended; the packets of all others are left to conntrack.
 *
 * @here has a bound, and it takes little to be put into it. So a connection has its place for
 * NODE_RULES_TCP_NEW_S until kubedns acknowledges data of its client, which a client with a made-up
 * address cannot bring about. The client's reset and either side's end shorten it. A client address
 * may begin NODE_RULES_TCP_RATE connections a second; the SYNs beyond that are dropped. When @here
 * is full the SYN-ACK is dropped, and the client's TCP tries again. Counters have what was dropped.
 * A client that may send packets with another's address and port can shorten the time of that one's
 * idle connection.
 */
#ifndef NANNY_NODE_RULES_H
#define NANNY_NODE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

struct nft_batch;

enum {
	NODE_ADDRESSES_MAX = 4,
	NODE_RULES_ALIVE_S = 2,
	NODE_RULES_TCP_S = 20,       /* longer than kubedns keeps an idle connection */
	NODE_RULES_TCP_NEW_S = 3,    /* from the SYN-ACK to the first query */
	NODE_RULES_TCP_ENDED_S = 2,  /* for the other end's last packets */
	NODE_RULES_TCP_RATE = 1000,  /* connections a second of one client address */
	NODE_RULES_TCP_BURST = 1000, /* beyond that, at once */
	/*
	 * Connections in @here, at 100 bytes of kernel memory. One client address can hold 2 to 3
	 * seconds of its rate, 1,000 to 4,000 places; connections that stay open are bounded by
	 * kubedns (tcp.h).
	 */
	NODE_RULES_TCP_MAX = 131072,
	NODE_RULES_CLIENTS_MAX = 65536, /* addresses whose rate is kept; others are not limited */
	NODE_PROBE_HOPS = 1,            /* TTL of the guard's probes: their refusals pass */
	DNS_PORT = 53,
};

/* Names of the table's sets and counters. */
#define NODE_RULES_HERE(family) ((family) == AF_INET ? "here4" : "here6")
#define NODE_RULES_CROWD        "crowd" /* SYNs beyond a client's rate */
#define NODE_RULES_FULL         "full"  /* SYN-ACKs that found no room in @here */

/* An address that is served, and the port from which the guard asks at it, over UDP and TCP. */
struct node_address {
	struct addr addr;
	uint16_t probe_port;
};

struct node_rules {
	char table[32];
	struct node_address addresses[NODE_ADDRESSES_MAX];
	size_t count;
	/*
	 * The kernel has tables that end with their process: Linux 5.12. Without it the rules also
	 * replace the table that an earlier process may have left, and a connection to another pod
	 * breaks whose client had one from the same port here in the last 20 seconds, since rules
	 * that remove from a set are as new.
	 */
	bool owner;
	bool fib; /* the kernel has the expression fib, to tell whether an address is the node's */
};

/* Transactions for nft_commit: the table without rules, and its rules replaced by others. Caller
 * frees. `hide`: drop refusals. */
struct nft_batch *node_rules_make(const struct node_rules *rules);
struct nft_batch *node_rules_replace(const struct node_rules *rules, bool up, bool hide);

#endif
