/*
 * Finds the NOTRACK rules of NodeLocal DNSCache (node-cache) on this node. A node-cache that was killed,
 * or ran with -skipteardown, leaves them. They keep the packets to the Service's address from
 * kube-proxy, so while our kubedns is dead nobody answers these packets.
 *
 *	iptables-nft:    netlink, a dump of chains PREROUTING and OUTPUT of table raw, for ip and ip6
 *	iptables-legacy: getsockopt, the whole table raw; only if /proc/net/ip_tables_names lists it,
 *	                 because asking for it would create it
 *
 * A rule counts if it has node-cache's comment. Nothing else of the node's rules is read: kube-proxy
 * may have tens of thousands.
 */
#ifndef NANNY_NODE_CACHE_RULES_H
#define NANNY_NODE_CACHE_RULES_H

enum { NODE_CACHE_LOOK_MS = 10 * 1000 };

struct node_cache_rules;

/* Opens what it reads, as root: the lists of legacy tables are root's. Without the kernel's module
 * ip_tables at this moment, legacy rules are never seen. NULL after one log line. Caller frees with
 * node_cache_rules_close. */
struct node_cache_rules *node_cache_rules_open(void);
void node_cache_rules_close(struct node_cache_rules *rules);

/* How many rules there are now, or -errno. Needs NET_ADMIN. */
int node_cache_rules_count(struct node_cache_rules *rules);

#endif
