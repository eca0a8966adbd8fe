/*
 * An idle TCP connection to kubedns, which the kernel ends in the moment in which kubedns dies: the
 * guard hears of that at once, and not by its next probe. kubedns also closes a connection to make
 * room for others, so an end is a reason to probe, and nothing more. A connection is replaced before
 * it has been idle for as long as kubedns allows, so that kubedns counts none as dropped.
 *
 * One socket serves all connections: it is bound before the sandbox is entered, and disconnected to
 * be connected again.
 */
#ifndef NANNY_NODE_ALARM_H
#define NANNY_NODE_ALARM_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/addr.h"

struct node_alarm {
	struct server to;
	int fd;
	bool waiting; /* for the end of a connection, or of the attempt to make one */
	int64_t connected_ms;
};

/* Binds to `from`, whose port is not 0; 0, or -errno without a log line: the port may be taken. */
int node_alarm_open(
    struct node_alarm *alarm, const struct server *from, const struct server *to, int hops);
void node_alarm_close(struct node_alarm *alarm);

/* For poll(): -1 while there is no connection. */
int node_alarm_fd(const struct node_alarm *alarm);

/* Connects unless there is a connection that is young enough; called from time to time. */
void node_alarm_connect(struct node_alarm *alarm, int64_t now_ms);

/* After poll(): the connection has ended. It is made again at once if it lasted for a second. */
void node_alarm_ended(struct node_alarm *alarm, int64_t now_ms);

#endif
