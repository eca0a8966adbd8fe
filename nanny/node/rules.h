/*
 * The kernel's part of the node role. Packets to port 53 of the node's DNS addresses reach this
 * node's kubedns. The packets bypass conntrack, and therefore kube-proxy's rules for the Service.
 *
 *	probe --query--> kubedns --NOERROR--> chain reply --renews for 2 s--> @alive
 *	client's packet --> chain query: its address in @alive? notrack, else kube-proxy's rules
 *
 *	prerouting: in ---port 53---> query
 *	output:     out --to port 53--> query,  --from port 53--> reply,  ICMP errors
 *
 * Three mechanisms end this redirection when kubedns stops answering. First, the table has the flag
 * owner, so the kernel removes the table together with the process that created it. Second, an
 * address stays in @alive for only two seconds after an answer to the probe. These two mechanisms
 * need no running process. Third, the guard replaces the rules as soon as a probe fails. Packets to
 * an address whose interface was deleted also go to kube-proxy's rules.
 *
 * Between the death of kubedns and the change of the rules, the kernel would refuse queries by ICMP
 * errors and TCP resets. Resolvers treat a refusal as final, so the rules drop refusals. The
 * resolver then retries after its timeout, and kube-proxy's rules direct the retry to another pod.
 * Only refusals of new connections are dropped: the reset of an existing connection has a nonzero
 * sequence number or no ACK. Some addresses are served only by this node. If kubedns stays down,
 * the guard stops dropping refusals, so that clients of such an address fail at once.
 *
 * Traffic stays on the path on which it began. Our replies are always untracked, because a reply
 * with a conntrack entry would keep its client's next queries on this node. TCP connections that
 * began on this node's kubedns are in @here until they end. conntrack handles the packets of all
 * other connections.
 *
 * @here has a limit, and a single SYN adds an entry. A new entry therefore lasts only
 * NODE_RULES_TCP_NEW_S. The entry lasts longer once kubedns acknowledges data from the client. A
 * client with a forged address cannot achieve this. A reset from the client or a FIN from either
 * side shortens the lifetime. A client address may begin NODE_RULES_TCP_RATE connections per
 * second; further SYNs are dropped. When @here is full, the SYN-ACK is dropped and the client's TCP
 * tries again. Counters show both kinds of drops. A client that can forge the address and port of
 * another client can shorten the lifetime of that client's idle connection.
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
	NODE_RULES_TCP_S = 20,       /* longer than kubedns's idle timeout */
	NODE_RULES_TCP_NEW_S = 3,    /* time from the SYN-ACK to the client's first query */
	NODE_RULES_TCP_ENDED_S = 2,  /* time for the last packets of the other side */
	NODE_RULES_TCP_RATE = 1000,  /* new connections per second and client address */
	NODE_RULES_TCP_BURST = 1000, /* additional connections in a burst */
	/*
	 * Maximum number of connections in @here, at 100 bytes of kernel memory each. One client
	 * address can occupy 1,000 to 4,000 entries, which is its rate for 2 to 3 seconds. kubedns
	 * limits connections that stay open (tcp.h).
	 */
	NODE_RULES_TCP_MAX = 131072,
	/* maximum number of client addresses with a rate limit; further client addresses are not
	 * limited */
	NODE_RULES_CLIENTS_MAX = 65536,
	/* TTL of the guard's probes. By this TTL, the rules recognise refusals of probes and let
	 * them pass. */
	NODE_PROBE_HOPS = 1,
	DNS_PORT = 53,
};

/* Names of the sets and counters in the table. */
#define NODE_RULES_HERE(family) ((family) == AF_INET ? "here4" : "here6")
#define NODE_RULES_CROWD        "crowd" /* SYNs dropped because the client exceeded its rate */
#define NODE_RULES_FULL         "full"  /* SYN-ACKs dropped because @here was full */

/* A DNS address of the node, and the source port of the guard's probes to it, over UDP and TCP. */
struct node_address {
	struct addr addr;
	uint16_t probe_port;
};

struct node_rules {
	char table[32];
	struct node_address addresses[NODE_ADDRESSES_MAX];
	size_t count;
	/*
	 * The kernel supports the flag owner (Linux 5.12). Older kernels keep the table of a
	 * process that ended, so the rules also replace such a table. On older kernels, a rule also
	 * cannot remove elements from a set. A connection to another pod then breaks if its client
	 * used the same port for a connection to this node in the last 20 seconds.
	 */
	bool owner;
	/* the kernel supports the expression fib, which tells whether an address belongs to the
	 * node */
	bool fib;
};

/* Return transactions for nft_commit. The first creates the table without rules, the second
 * replaces the rules. If `hide` is true, the rules drop refusals. Caller frees. */
struct nft_batch *node_rules_make(const struct node_rules *rules);
struct nft_batch *node_rules_replace(const struct node_rules *rules, bool up, bool hide);

#endif
