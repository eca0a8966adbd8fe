/*
 * The client addresses that send most, in a kilobyte: the Space-Saving sketch (Metwally, Agrawal
 * and El Abbadi, 2005). An address with more than 1 / HITTERS of all packets is always among the
 * entries; a count is too high by `error` at most.
 */
#ifndef KUBEDNS_SERVE_OBSERVE_HEAVY_HITTERS_H
#define KUBEDNS_SERVE_OBSERVE_HEAVY_HITTERS_H

#include <stdint.h>
#include <sys/socket.h>

#include "lib/addr.h"

enum { HITTERS = 32 };

struct hitter {
	struct addr addr;
	uint32_t count, error;
};

struct heavy_hitters {
	uint32_t total; /* of packets counted */
	unsigned used;
	struct hitter entries[HITTERS];
};

/* Counts a packet from this address. */
void heavy_hitters_add(struct heavy_hitters *hitters, const struct sockaddr *from);

#endif
