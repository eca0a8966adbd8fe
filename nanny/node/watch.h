/* The guard's work (node/guard.h): probes the servers, and keeps up interface, addresses and
 * rules. */
#ifndef NANNY_NODE_WATCH_H
#define NANNY_NODE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/sandbox.h"

struct options;
struct node_watch;

enum node_family { NODE_IPV4, NODE_IPV6, NODE_FAMILIES };

/* What the guard reports to the nanny, in shared memory. */
struct node_report {
	_Atomic bool up;             /* the rules are in force */
	_Atomic int64_t seen_ms;     /* when the guard last said so, by clock_mono_ms() */
	_Atomic uint64_t ups, downs; /* times they were put in force, and taken down */
	_Atomic uint64_t link_errors, rule_errors;   /* failures to make interface and rules */
	_Atomic unsigned connections[NODE_FAMILIES]; /* in @here, when they were last counted */
	_Atomic uint64_t crowd, full;                /* dropped: see node/rules.h */
	_Atomic int node_cache_rules; /* of NodeLocal DNSCache on this node (node/cache_rules.h) */
};

enum {
	NODE_PROBE_MS = 200,     /* between two questions to each */
	NODE_DOUBT_MS = 2,       /* the same after an alarm, until kubedns answers or refuses */
	NODE_DOUBTS_MAX = 50,    /* such questions */
	NODE_PATIENCE_MS = 1000, /* without an answer a server counts as dead */
	NODE_HIDE_MS = 10000,    /* of kubedns's absence in which refusals are dropped */
	NODE_ENSURE_MS =
	    1000, /* between checks of interface and addresses without a netlink event */
	NODE_COUNT_MS = 5000,  /* between counts of @here; more if a count takes long */
	NODE_COUNT_SHARE = 20, /* counting takes at most a part in so many of the time */
};

/* Sets up interface, addresses and sockets, and gives up all rights except NET_ADMIN.
 * NULL after one log line. Caller frees with node_watch_free, which removes the rules. */
struct node_watch *node_watch_new(
    const struct options *options, enum sandbox_mode mode, struct node_report *report);
void node_watch_free(struct node_watch *watch);

/* Runs until the pipe `words` is closed; a byte from it means to direct new queries elsewhere. */
void node_watch_run(struct node_watch *watch, const struct server *dnsmasq, int words);

#endif
