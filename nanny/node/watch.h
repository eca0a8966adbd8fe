/* The guard's work (node/guard.h). The guard probes the servers, and maintains the interface, its
 * addresses and the rules. */
#ifndef NANNY_NODE_WATCH_H
#define NANNY_NODE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/sandbox.h"

struct options;
struct node_watch;

enum node_family { NODE_IPV4, NODE_IPV6, NODE_FAMILIES };

/* The guard's report to the nanny, in shared memory. */
struct node_report {
	_Atomic bool up;             /* the rules are in force */
	_Atomic int64_t seen_ms;     /* time of the guard's last report, by clock_mono_ms() */
	_Atomic uint64_t ups, downs; /* how often the rules were put in force, and taken down */
	/* number of failures to create the interface, and to create the rules */
	_Atomic uint64_t link_errors, rule_errors;
	_Atomic unsigned connections[NODE_FAMILIES]; /* connections in @here at the last count */
	_Atomic uint64_t crowd, full; /* numbers of dropped packets, see node/rules.h */
	/* rules of NodeLocal DNSCache on this node (node/cache_rules.h) */
	_Atomic int node_cache_rules;
	_Atomic uint64_t dnsmasq_answers; /* number of dnsmasq's answers to the guard's probes */
};

enum {
	NODE_HIDE_MS = 10000, /* time without kubedns during which refusals are dropped */
	/* interval between checks of the interface and its addresses if there is no netlink event */
	NODE_ENSURE_MS = 1000,
	/* minimum interval between counts of @here; longer if counting takes long */
	NODE_COUNT_MS = 5000,
	NODE_COUNT_SHARE = 20, /* counting takes at most 1/20 of the time */
};

/* Sets up the interface, its addresses and the sockets, and gives up all rights except
 * CAP_NET_ADMIN. Returns NULL after one log line. Caller frees with node_watch_free, which removes
 * the rules. */
struct node_watch *node_watch_new(
    const struct options *options, enum sandbox_mode mode, struct node_report *report);
void node_watch_free(struct node_watch *watch);

/* Runs until the pipe `words` is closed. A byte on the pipe tells the guard to direct new queries
 * to other pods. */
void node_watch_run(struct node_watch *watch, const struct server *dnsmasq, int words);

#endif
