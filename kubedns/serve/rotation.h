/*
 * Chooses, for each query, which record of an RRset is first. The choice is random and not a
 * counter, because a resolver library alternates between A and AAAA queries. With a counter, A
 * queries would only get every second record.
 */
#ifndef KUBEDNS_SERVE_ROTATION_H
#define KUBEDNS_SERVE_ROTATION_H

#include <stdint.h>

/* Returns the upper half of a linear congruential generator (Knuth's constants). The generator
 * is uniform enough to distribute load, and takes two instructions. Its numbers may be
 * predictable. */
static inline uint32_t
rotation_next(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(*state >> 32);
}

#endif
