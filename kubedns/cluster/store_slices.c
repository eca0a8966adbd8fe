/*
 * Slices of endpoints. A slice belongs to the Service that its label names, even before that
 * Service exists, and its endpoints go into the tree at the Service's owner.
 */
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/port_lists.h"
#include "kubedns/cluster/store_internal.h"
#include "lib/xalloc.h"

_Static_assert((int)OBJECT_PORTS_MAX <= (int)PORTS_MAX, "a list holds what an object may have");
_Static_assert(
    (int)OBJECT_ENDPOINTS_MAX <= (int)ENDPOINTS_MAX, "a slice holds what an object may have");

struct slice_key {
	const struct namespace *namespace;
	const char *name;
	unsigned index;
};

static bool
same_slice(const void *entry, const void *key)
{
	const struct slice_entry *slice = entry;
	const struct slice_key *wanted = key;

	return slice->namespace == wanted->namespace && slice->index == wanted->index &&
	       strcmp(slice->name, wanted->name) == 0;
}

static uint32_t
slice_hash(const struct store *store, const struct slice_key *key)
{
	return (uint32_t)hash64(treecache_next(store->cache)->seed + key->namespace->number,
		   key->name, strlen(key->name)) +
	       key->index * UINT32_C(0x9e3779b1);
}

static struct slice_entry *
find_slice(const struct store *store, const struct slice_key *key)
{
	return key->namespace == NULL
		   ? NULL
		   : table_find(&store->slices, slice_hash(store, key), same_slice, key);
}

static struct slice_entry *
get_slice(struct store *store, const struct slice_key *key)
{
	struct slice_entry *slice = find_slice(store, key);

	if (slice != NULL)
		return slice;
	slice = xcalloc(1, sizeof *slice + strlen(key->name) + 1);
	slice->hash = slice_hash(store, key);
	slice->namespace = store->by_number[key->namespace->number - 1];
	slice->namespace->uses++;
	slice->index = (uint16_t)key->index;
	strcpy(slice->name, key->name);
	table_add(&store->slices, slice);
	return slice;
}

/* What the endpoints of a slice listen on, if it has any. */
static const struct ports *
slice_ports(const struct store *store, const struct slice_entry *slice)
{
	return slice->slot == 0 ? NULL : treecache_slice_at(store->cache, slice->slot)->ports;
}

/* Adds `by` to the count of the slice's family, if the slice has endpoints. */
static void
count_family(struct store *store, const struct slice_entry *slice, int by)
{
	const struct slice_endpoints *endpoints =
	    slice->slot == 0 ? NULL : treecache_slice_at(store->cache, slice->slot);

	if (endpoints != NULL && endpoints->count > 0)
		store_count_family(store, endpoints->family, by);
}

/* Takes a slice away from the Service that it names. */
static void
detach_slice(struct store *store, struct slice_entry *slice)
{
	struct service *service = slice->service;
	const struct ports *ports = slice_ports(store, slice);

	if (service == NULL)
		return;
	count_family(store, slice, -1);
	if (slice->slot != 0)
		treecache_slice_remove(store->cache, service->owner, slice->slot);
	service_note_named(store, service);
	port_lists_put(&store->ports, store->cache, ports);
	slice->slot = 0;
	slice->service = NULL;
	service->slices--;
	service_drop(store, service);
}

void
slice_drop(struct store *store, struct slice_entry *slice)
{
	struct namespace *namespace = slice->namespace;

	detach_slice(store, slice);
	table_remove(&store->slices, slice);
	free(slice);
	namespace->uses--;
	namespace_drop(store, namespace);
}

static const char *
endpoint_host(const struct store *store, const struct object_endpoint *endpoint)
{
	if (endpoint->hostname != NULL)
		return endpoint->hostname;
	return store->config.endpoint_pod_names ? endpoint->pod : NULL;
}

static void
set_endpoints(struct store *store, struct slice_entry *slice, const struct object_slice *from)
{
	size_t count = from->endpoint_count;
	struct endpoint *endpoints = xcalloc(count, sizeof *endpoints);
	struct endpoint_place *places;
	size_t place_count = places_of_slice(store, from, &places);
	const struct ports *old = slice_ports(store, slice);
	const struct ports *ports =
	    port_lists_get(&store->ports, store->cache, from->ports, from->port_count);

	for (size_t i = 0; i < count; i++)
		endpoints[i] = (struct endpoint){ from->endpoints[i].addr, from->endpoints[i].ready,
			endpoint_host(store, &from->endpoints[i]) };
	count_family(store, slice, -1);
	slice->slot = treecache_slice(store->cache, slice->service->owner, slice->slot,
	    &(struct slice_source){ .name = slice->name,
		.index = slice->index,
		.family = from->family,
		.ports = ports,
		.endpoints = endpoints,
		.count = count,
		.places = places,
		.place_count = place_count });
	count_family(store, slice, 1);
	service_note_named(store, slice->service);
	port_lists_put(&store->ports, store->cache, old);
	free(places);
	free(endpoints);
}

/*
 * The Service that a slice's label names, made if missing; NULL: none. Kubernetes compares the
 * label case-sensitively and allows no capitals in a Service's name, so a label with one names no
 * Service.
 */
static struct service *
named_service(struct store *store, const struct object *object, const struct object_slice *from)
{
	if (from->service == NULL || strpbrk(from->service, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != NULL)
		return NULL;
	return service_get(store, object->namespace, from->service);
}

static void
apply_slice(struct store *store, bool relisted, const struct object *object,
    const struct object_slice *from)
{
	uint64_t version = store_version(object->resource_version);
	struct service *service = named_service(store, object, from);
	struct slice_key key = { namespace_get(store, object->namespace), from->name, from->index };

	if (key.namespace == NULL)
		return;
	struct slice_entry *slice = get_slice(store, &key);
	slice->mark = store->mark[OBJECT_SLICES];
	if (relisted && version != 0 && version == slice->version)
		return;
	slice->version = version;
	slice->from_endpoints = object->from_endpoints;
	store_note_cut(store, object, &slice->cut);
	if (slice->service != service) { /* its label was changed */
		if (service != NULL)
			service->slices++; /* or detaching could drop it */
		detach_slice(store, slice);
		slice->service = service;
	}
	if (service == NULL)
		return;
	set_endpoints(store, slice, from);
	if (service->present)
		service_stamp(store, service, object->trigger_time_ns);
	else if (object->trigger_time_ns > service->stamp)
		service->stamp = object->trigger_time_ns;
}

void
slices_event(struct store *store, bool deleted, bool relisted, const struct object *object)
{
	unsigned index = 0;

	for (size_t i = 0; !deleted && i < object->slice_count; i++) {
		apply_slice(store, relisted, object, &object->slices[i]);
		index = object->slices[i].index + 1;
	}
	/* Drops what is left: all slices of a deleted object, or the subsets that an Endpoints
	 * object no longer has. */
	for (;; index++) {
		struct slice_key key = { namespace_find(store, object->namespace), object->name,
			index };
		struct slice_entry *slice = find_slice(store, &key);
		if (slice == NULL)
			return;
		slice_drop(store, slice);
	}
}
