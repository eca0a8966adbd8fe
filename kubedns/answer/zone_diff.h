/*
 * What has changed in our zones between two snapshots, as records that went and came: what an
 * incremental transfer (RFC 1995) sends. Pure. Costs what the writer has copied between the two, and
 * the size of the endpoint sets in it.
 */
#ifndef KUBEDNS_ANSWER_ZONE_DIFF_H
#define KUBEDNS_ANSWER_ZONE_DIFF_H

#include "kubedns/answer/zone_walk.h"

/* Two moments: of our tree, and of that of the zones for outside (both NULL: there are none). */
struct zone_moments {
	const struct tree *before, *after;
	const struct tree *external_before, *external_after;
};

/*
 * Calls `take` for every record of the zone of index `zone` that is in one of the moments alone, in
 * no order; SOAs are left out. False if the difference was not worked out, because something
 * changed that every name may depend on (the key hosts, the zones' NS), a name has more than 32 MB of
 * records, those that were compared more than 64, or `take` said so: then the secondaries need the zones whole.
 */
bool zone_diff(const struct answer_config *config, const struct zone_moments *moments,
    bool (*take)(void *arg, size_t zone, bool added, const struct zone_record *record), void *arg);

#endif
