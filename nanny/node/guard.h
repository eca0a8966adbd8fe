/*
 * The node role of a pod in the host's network: the rules that direct clients' packets to the
 * node's DNS addresses are in force only while kubedns and dnsmasq answer.
 *
 *	nanny --pipe: dnsmasq's address, later "draining"--> guard --probes--> kubedns at each address
 *	  |                                                   |  \--probes--> dnsmasq
 *	  +--- the pipe's end, however the nanny ended -----> gone, and the kernel's rules with it
 *
 * The guard is a process of its own, a child of the nanny. Only it keeps NET_ADMIN. Its only
 * untrusted input is replies from this node's own addresses, and it can be killed or stopped
 * without harm: see node/rules.h for what takes the rules down then.
 */
#ifndef NANNY_NODE_GUARD_H
#define NANNY_NODE_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/addr.h"
#include "lib/sandbox.h"

struct metrics;
struct node_report;
struct options;

struct node_guard {
	pid_t pid; /* 0: none */
	int pidfd, pipe;
	struct node_report *report; /* shared with it; NULL: no node role */
};

/* Starts the guard, while this process still has its capabilities; it waits for node_guard_begin.
 * 0, or -errno after one log line. */
int node_guard_start(
    struct node_guard *guard, const struct options *options, enum sandbox_mode mode);

/* Lets the guard begin: it makes the rules once kubedns and this dnsmasq answer. */
void node_guard_begin(struct node_guard *guard, const struct server *dnsmasq);

/* Directs new queries elsewhere from now on; queries in flight are still answered. */
void node_guard_drain(struct node_guard *guard);

/* Ends it and waits for its end, a second; then kills it: it may be stopped. */
void node_guard_stop(struct node_guard *guard);

/* Whether the rules are in force, and how often that has changed; nothing without a node role. */
void node_guard_metrics(const struct node_guard *guard, struct metrics *m);

/* How many rules of NodeLocal DNSCache the node has; 0 without a node role. */
int node_guard_node_cache_rules(const struct node_guard *guard);

/* Whether the rules are in force; true without a node role. False once the guard has been silent for
 * as long as the kernel keeps them without it. */
bool node_guard_is_up(const struct node_guard *guard);

/* Reaps the guard if it has ended: true once, after a log line. The rules are then gone. */
bool node_guard_ended(struct node_guard *guard);

#endif
