/*
 * The other pods of this server's Service: the endpoints of every Service of its namespace that has
 * one of this server's addresses among its endpoints for port 53. Slices of other namespaces do not
 * count: whoever may write one could name this server's address in it. It walks all slices of the
 * cluster, which is cheap enough for its one caller, the status page.
 */
#include <string.h>

#include "kubedns/cluster/store_internal.h"

enum { SERVICES_MAX = 8 }; /* with this server among their endpoints; more are left out */

struct search {
	const struct service *services[SERVICES_MAX];
	size_t service_count;
	struct neighbour *found;
	size_t count, room;
};

static bool
serves_dns(const struct slice_endpoints *slice)
{
	enum { DNS_PORT = 53 };

	for (unsigned i = 0; i < slice->ports->number_count; i++)
		if (slice->ports->numbers[i] == DNS_PORT)
			return true;
	return false;
}

static bool
has_address(const struct slice_endpoints *slice, const struct addr *own, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (own[i].family == slice->family &&
		    slice_find_addr(slice, 0, slice->count, own[i].bytes) < slice->count)
			return true;
	return false;
}

static bool
is_searched(const struct search *search, const struct service *service)
{
	for (size_t i = 0; i < search->service_count; i++)
		if (search->services[i] == service)
			return true;
	return false;
}

static void
take(struct search *search, const struct addr *addr, bool ready)
{
	for (size_t i = 0; i < search->count; i++)
		if (addr_equal(&search->found[i].addr, addr)) {
			search->found[i].ready |= ready;
			return;
		}
	if (search->count < search->room)
		search->found[search->count++] = (struct neighbour){ *addr, ready };
}

static void
take_slice(struct search *search, const struct slice_endpoints *slice, const struct addr *own,
    size_t own_count)
{
	for (unsigned i = 0; i < slice->count && search->count < search->room; i++) {
		struct addr addr = { .family = slice->family };
		bool is_own = false;
		memcpy(addr.bytes, slice_addr(slice, i), addr_len(&addr));
		for (size_t k = 0; k < own_count; k++)
			is_own |= addr_equal(&own[k], &addr);
		if (!is_own)
			take(search, &addr, slice_ready(slice, i));
	}
}

size_t
store_neighbours(const struct store *store, const char *namespace, const struct addr *own,
    size_t own_count, struct neighbour *found, size_t room)
{
	const struct namespace *inside = namespace_find(store, namespace);
	struct search search = { .found = found, .room = room };
	const struct slice_entry *entry;
	size_t place = 0;

	while (search.service_count < SERVICES_MAX &&
	       (entry = table_next(&store->slices, &place)) != NULL) {
		if (entry->slot == 0 || entry->namespace != inside ||
		    is_searched(&search, entry->service))
			continue;
		const struct slice_endpoints *slice = treecache_slice_at(store->cache, entry->slot);
		if (serves_dns(slice) && has_address(slice, own, own_count))
			search.services[search.service_count++] = entry->service;
	}
	place = 0;
	while (search.service_count > 0 && (entry = table_next(&store->slices, &place)) != NULL)
		if (entry->slot != 0 && is_searched(&search, entry->service)) {
			const struct slice_endpoints *slice =
			    treecache_slice_at(store->cache, entry->slot);
			if (serves_dns(slice))
				take_slice(&search, slice, own, own_count);
		}
	return search.count;
}
