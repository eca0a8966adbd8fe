/*
 * The changes in our zones between two snapshots, as removed and added records, for incremental
 * transfers (RFC 1995). Pure. The cost depends on how many nodes the writer has copied between the
 * two snapshots, and on the size of their endpoint sets.
 */
#ifndef KUBEDNS_ANSWER_ZONE_DIFF_H
#define KUBEDNS_ANSWER_ZONE_DIFF_H

#include "kubedns/answer/zone_walk.h"

struct zone_snapshots {
	struct zone_trees before, after;
};

/*
 * Calls `take` for every record of the zone with index `zone` that is in only one of the snapshots,
 * in no particular order. SOA records are omitted. Returns false if the difference was not
 * computed. It is not computed if `take` returned false, if a name has more than 32 MB of records,
 * or if more than 64 MB were compared. It is not computed either if data changed on which every
 * name may depend (the ConfigMap key `hosts`, the zones' NS records), or if one of the trees was
 * synced between the snapshots. The secondaries then need the whole zones.
 */
bool zone_diff(const struct answer_config *config, const struct zone_snapshots *snapshots,
    bool (*take)(void *arg, size_t zone, bool added, const struct zone_record *record), void *arg);

#endif
