/* What the guard does (node_guard.h): asks, judges, and sees to interface, addresses and rules. */
#ifndef NANNY_NODE_WATCH_H
#define NANNY_NODE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/sandbox.h"

struct options;
struct node_watch;

/* What the guard tells the nanny, in memory that both have. */
struct node_report {
	_Atomic bool up;             /* the rules are in force */
	_Atomic uint64_t ups, downs; /* times they were put in force, and taken down */
};

enum {
	NODE_PROBE_MS = 200,     /* between two questions to each */
	NODE_PATIENCE_MS = 1000, /* without an answer: what is asked has stopped */
	NODE_ENSURE_MS =
	    1000, /* between two looks at interface and addresses that nobody asked for */
};

/* Interface, addresses, sockets and the library; gives up all rights but NET_ADMIN. NULL after one log
 * line. Caller frees with node_watch_free, and the rules are gone with it. */
struct node_watch *node_watch_new(
    const struct options *options, enum sandbox_mode mode, struct node_report *report);
void node_watch_free(struct node_watch *watch);

/* Until `words` ends; a byte from it means that new questions are to go elsewhere. */
void node_watch_run(struct node_watch *watch, const struct server *dnsmasq, int words);

#endif
