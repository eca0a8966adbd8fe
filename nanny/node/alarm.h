/*
 * An idle TCP connection to kubedns. When kubedns dies, the kernel closes the connection, so the
 * guard notices the death at once instead of at the next probe. kubedns also closes connections to
 * free capacity, so a closed connection only triggers a probe. The nanny replaces the connection
 * before kubedns's idle timeout, so that kubedns does not count it as dropped.
 *
 * All connections use the same socket. The guard binds the socket before it enters the sandbox, and
 * later disconnects and reconnects the socket as needed.
 */
#ifndef NANNY_NODE_ALARM_H
#define NANNY_NODE_ALARM_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/addr.h"

struct node_alarm {
	struct server to;
	int fd;
	bool waiting; /* connected or connecting, and waiting for the connection's end */
	int64_t connected_ms;
};

/* Binds to `from`, whose port must not be 0. Returns 0 or -errno. Logs nothing, because the caller
 * tries another port if this port is in use. */
int node_alarm_open(
    struct node_alarm *alarm, const struct server *from, const struct server *to, int hops);
void node_alarm_close(struct node_alarm *alarm);

/* Descriptor for poll(); -1 while not connected. */
int node_alarm_fd(const struct node_alarm *alarm);

/* Connects, unless the current connection is recent enough. Called periodically. */
void node_alarm_connect(struct node_alarm *alarm, int64_t now_ms);

/* Called when poll() reports that the connection ended. Reconnects at once if the connection lasted
 * for at least a second. */
void node_alarm_ended(struct node_alarm *alarm, int64_t now_ms);

#endif
