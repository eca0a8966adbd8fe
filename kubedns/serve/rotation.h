/*
 * Which record of an RRset comes first, chosen anew for each query. Random, not a counter: a
 * resolver library asks for A and AAAA in turns, and a counter would give A every second record
 * only.
 */
#ifndef KUBEDNS_SERVE_ROTATION_H
#define KUBEDNS_SERVE_ROTATION_H

#include <stdint.h>

/* The upper half of a linear congruential generator (Knuth's constants): uniform enough to spread
 * load, in two instructions. It need not be hard to guess. */
static inline uint32_t
rotation_next(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(*state >> 32);
}

#endif
