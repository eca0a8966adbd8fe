/*
 * Unpredictable query IDs (RFC 5452 section 9.2). The IDs are random numbers of the kernel, which
 * are read 64 at a time.
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_IDS_H
#define KUBEDNS_SERVE_UPSTREAM_IDS_H

#include <stdint.h>
#include <sys/random.h>

#include "lib/log.h"

struct ids {
	uint16_t next[64];
	unsigned left;
};

/* Returns an ID that is not among the `count` IDs in `taken`. These IDs are already used with
 * the same source port. */
static inline uint16_t
ids_take(struct ids *ids, const uint16_t *taken, unsigned count)
{
	for (;;) {
		if (ids->left == 0) {
			if (getrandom(ids->next, sizeof ids->next, 0) != sizeof ids->next)
				log_fatal("getrandom");
			ids->left = sizeof ids->next / sizeof ids->next[0];
		}
		uint16_t id = ids->next[--ids->left];
		unsigned i = 0;
		while (i < count && taken[i] != id)
			i++;
		if (i == count)
			return id;
	}
}

#endif
