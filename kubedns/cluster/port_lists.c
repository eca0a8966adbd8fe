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

/* The sum does not depend on the order of the ports, because answers do not either. It is computed
 * once, because a list may have 20,000 ports and belong to many slices. */
static uint64_t
hash_content(const struct ports *ports)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < ports->count; i++) {
		const struct port *port = &ports->items[i];
		uint64_t of_name = hash64(HASH_START, port->name, 1u + port->name[0]);
		uint64_t of_proto = hash64(of_name, port->proto, 1u + port->proto[0]);
		const uint16_t number = htole16(port->number);

		sum += hash64(of_proto, &number, sizeof number);
	}
	return sum;
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
		ports->content = hash_content(ports);
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
