#include "kubedns/cluster/port_lists.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/service_records.h"
#include "lib/hash.h"
#include "lib/xalloc.h"

static bool
same_ports(const void *entry, const void *key)
{
	const struct ports *a = entry, *b = key;

	return a->count == b->count &&
	       memcmp(a->items, b->items, a->count * sizeof a->items[0]) == 0;
}

const struct ports *
port_lists_get(struct table *lists, const struct treecache *cache, const struct object_port *from,
    size_t count)
{
	uint64_t seed = treecache_next(cache)->seed;
	struct port *items = xcalloc(count, sizeof *items);

	for (size_t i = 0; i < count; i++)
		records_port(&items[i], &from[i]);
	struct ports *ports = ports_new(seed, items, count);
	free(items);
	ports->hash = (uint32_t)hash64(seed, ports->items, count * sizeof ports->items[0]);
	struct ports *known = table_find(lists, ports->hash, same_ports, ports);
	if (known != NULL) {
		free(ports);
		ports = known;
	} else {
		table_add(lists, ports);
	}
	ports->uses++;
	return ports;
}

void
port_lists_put(struct table *lists, struct treecache *cache, const struct ports *const_ports)
{
	if (const_ports == NULL)
		return;
	struct ports *ports = table_find(lists, const_ports->hash, same_ports, const_ports);
	if (--ports->uses > 0)
		return;
	table_remove(lists, ports);
	treecache_retire(cache, ports);
}
