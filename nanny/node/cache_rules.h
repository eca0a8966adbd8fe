/*
 * Counts the NOTRACK rules of NodeLocal DNSCache (node-cache) on this node. A node-cache that was
 * killed, or that ran with -skipteardown, does not remove its rules. These rules make packets to
 * the Service's address bypass kube-proxy. If this node's kubedns is down, no other pod answers
 * such packets.
 *
 *	iptables-nft:    netlink, a dump of chains PREROUTING and OUTPUT of table raw, for ip and ip6
 *	iptables-legacy: getsockopt, the whole table raw; only if /proc/net/ip_tables_names lists it,
 *	                 because reading it would create it
 *
 * A rule counts if it has node-cache's comment. Other tables and chains are not read, because
 * kube-proxy may have tens of thousands of rules in them.
 */
#ifndef NANNY_NODE_CACHE_RULES_H
#define NANNY_NODE_CACHE_RULES_H

enum { NODE_CACHE_LOOK_MS = 10 * 1000 };

struct node_cache_rules;

/*
 * Opens the files and sockets that are needed to count the rules. Must run as root, because only
 * root may read the lists of legacy tables. If the kernel module ip_tables is not loaded at this
 * time, legacy rules are never counted. Returns NULL after one log line. Caller frees with
 * node_cache_rules_close.
 */
struct node_cache_rules *node_cache_rules_open(void);
void node_cache_rules_close(struct node_cache_rules *rules);

/* Returns the current number of node-cache's rules, or -errno. Needs CAP_NET_ADMIN. */
int node_cache_rules_count(struct node_cache_rules *rules);

#endif
