/* The weight of SRV records: one rule for records in the tree, those written at answer time and
 * listings. */
#ifndef TREECACHE_SRV_WEIGHT_H
#define TREECACHE_SRV_WEIGHT_H

#include <stdint.h>

/*
 * The weight of each SRV record of a set: the set's share of 100, at least 1. `pairs`: the set's
 * (target, port number) pairs, as endpoint_set_pairs() counts them.
 */
static inline unsigned
srv_weight(uint64_t pairs)
{
	return pairs == 0 || pairs > 100 ? 1 : (unsigned)(100 / pairs);
}

#endif
