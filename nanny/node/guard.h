/*
 * The node role of a pod in the host's network. Rules direct clients' packets to the kubedns of
 * this node. The rules are in force only while kubedns and dnsmasq answer.
 *
 *	nanny --pipe: dnsmasq's address, WORD_DRAIN -> guard --probes--> kubedns at each address
 *	  |                                           |  \--probes--> dnsmasq
 *	  +--- the nanny ends, the pipe closes --> guard exits, and the rules are removed
 *
 * The guard is a child process of the nanny. The guard is the only process that keeps
 * CAP_NET_ADMIN. The only untrusted input of the guard is replies from this node's own addresses.
 * If the guard is killed or stopped, the kernel removes or expires the rules (node/rules.h).
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
	pid_t pid; /* 0 if not running */
	int pidfd, pipe;
	struct node_report *report; /* memory shared with the guard; NULL without the node role */
};

/* Starts the guard while this process still has its capabilities. The guard then waits for
 * node_guard_begin. Returns 0, or -errno after one log line. */
int node_guard_start(
    struct node_guard *guard, const struct options *options, enum sandbox_mode mode);

/* Tells the guard to begin. The guard creates the rules once kubedns and this dnsmasq answer. */
void node_guard_begin(struct node_guard *guard, const struct server *dnsmasq);

/* Directs new queries to other pods from now on. Queries in flight are still answered. */
void node_guard_drain(struct node_guard *guard);

/* Ends the guard and waits a second for its exit. Then kills the guard, because a stopped guard
 * (SIGSTOP) does not exit. */
void node_guard_stop(struct node_guard *guard);

/* Writes metrics: whether the rules are in force, and how often they were put in force and removed.
 * Writes nothing without the node role. */
void node_guard_metrics(const struct node_guard *guard, struct metrics *m);

/* Returns the number of NodeLocal DNSCache rules on the node, or 0 without the node role. */
int node_guard_node_cache_rules(const struct node_guard *guard);

/* Returns the number of dnsmasq's answers to the guard's probes, or 0 without the node role. */
uint64_t node_guard_dnsmasq_answers(const struct node_guard *guard);

/* Whether the rules are in force. Always true without the node role. False if the guard has not
 * reported for as long as the kernel keeps the rules. */
bool node_guard_is_up(const struct node_guard *guard);

/* Reaps the guard if it has exited. Returns true once, after one log line. The kernel has removed
 * the rules by then. */
bool node_guard_ended(struct node_guard *guard);

#endif
