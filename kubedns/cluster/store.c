/* The kinds of objects in the store, the listings, and the lookups for other modules.
 * store_internal.h describes the other files. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kubedns/cluster/store_internal.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/log.h"
#include "lib/xalloc.h"

/* --- namespaces: their objects are added and deleted --- */

static void
namespace_set(struct store *store, struct namespace *namespace, bool present, uint64_t version)
{
	store->present_namespaces += (size_t)present - (size_t) namespace->present;
	namespace->present = present;
	if (!present) {
		chosen_set(store, namespace, false);
		visibility_forget(store, namespace);
	}
	namespace->version = version;
	namespace_show(store, namespace);
	namespace_drop(store, namespace);
}

static bool
is_labelled(const struct store *store, const struct object *object)
{
	const struct namespace_label *label = &store->config.label;

	for (size_t i = 0; label->key != NULL && i < object->label_count; i++)
		if (strcmp(object->labels[i].key, label->key) == 0)
			return strcmp(object->labels[i].value, label->value) == 0;
	return false;
}

static void
namespace_event(struct store *store, bool deleted, bool relisted, const struct object *object)
{
	(void)relisted;
	struct namespace *namespace = namespace_get(store, object->name);

	if (namespace == NULL)
		return;
	namespace->mark = store->mark[OBJECT_NAMESPACE];
	namespace->labelled = is_labelled(store, object);
	if (!deleted) {
		chosen_by_labels(store, namespace, object);
		visibility_namespace(store, namespace, object);
	}
	namespace_set(store, namespace, !deleted, store_version(object->resource_version));
}

/* --- the kinds of objects in the store --- */

static bool
service_is_gone(const void *entry, uint8_t mark)
{
	const struct service *service = entry;

	return service->present && service->mark != mark;
}

static bool
slice_is_gone(const void *entry, uint8_t mark)
{
	return ((const struct slice_entry *)entry)->mark != mark;
}

static bool
namespace_is_gone(const void *entry, uint8_t mark)
{
	const struct namespace *namespace = entry;

	return namespace->present && namespace->mark != mark;
}

static bool
node_is_gone(const void *entry, uint8_t mark)
{
	return ((const struct host *)entry)->mark != mark;
}

static void
remove_service(struct store *store, void *entry)
{
	service_hide(store, entry);
	service_drop(store, entry);
}

static void
remove_slice(struct store *store, void *entry)
{
	slice_drop(store, entry);
}

static void
remove_namespace(struct store *store, void *entry)
{
	namespace_set(store, entry, false, 0);
}

static void
remove_node(struct store *store, void *entry)
{
	node_drop(store, entry);
}

/* How the store handles a kind of object. A kind without `event` is not stored. */
struct kind {
	void (*event)(
	    struct store *store, bool deleted, bool relisted, const struct object *object);
	size_t count; /* offset in struct store of the number of objects */
	size_t table; /* offset of the table of entries; 0: none, because pods are in pod_table.h */
	/* is_gone() tells whether the listing with this mark did not contain the entry's object.
	 * remove() then removes the entry. */
	bool (*is_gone)(const void *entry, uint8_t mark);
	void (*remove)(struct store *store, void *entry);
};

static const struct kind kinds[OBJECT_KIND_COUNT] = {
	[OBJECT_SERVICE] = { service_event, offsetof(struct store, present_services),
	    offsetof(struct store, services), service_is_gone, remove_service },
	[OBJECT_SLICES] = { slices_event, offsetof(struct store, slices.count),
	    offsetof(struct store, slices), slice_is_gone, remove_slice },
	[OBJECT_NAMESPACE] = { namespace_event, offsetof(struct store, present_namespaces),
	    offsetof(struct store, namespaces), namespace_is_gone, remove_namespace },
	[OBJECT_NODE] = { node_event, offsetof(struct store, hosts.count),
	    offsetof(struct store, hosts), node_is_gone, remove_node },
	[OBJECT_POD] = { .event = pod_event, .count = offsetof(struct store, present_pods) },
};

/* Returns the table with the entries of this kind, or NULL. */
static struct table *
table_of(struct store *store, enum object_kind kind)
{
	return kinds[kind].table == 0 ? NULL : (void *)((char *)store + kinds[kind].table);
}

/* --- listings: mark and sweep --- */

/* Removes the objects that the listing that has just ended did not contain. Returns their number. */
static size_t
sweep_table(struct store *store, enum object_kind kind, const struct table *table)
{
	void *entry, **gone = NULL;
	size_t place = 0, count = 0, capacity = 0;

	/* Removing an entry moves other entries and may remove some, so all entries to remove are
	 * found first. */
	while ((entry = table_next(table, &place)) != NULL) {
		if (!kinds[kind].is_gone(entry, store->mark[kind]))
			continue;
		if (count == capacity) {
			capacity = capacity == 0 ? 64 : capacity * 2;
			gone = xreallocarray(gone, capacity, sizeof *gone);
		}
		gone[count++] = entry;
	}
	for (size_t i = 0; i < count; i++)
		kinds[kind].remove(store, gone[i]);
	free(gone);
	return count;
}

static void
sweep(struct store *store, enum object_kind kind)
{
	const struct table *table = table_of(store, kind);
	size_t count = kind == OBJECT_POD ? pods_sweep(store)
		       : table != NULL    ? sweep_table(store, kind, table)
					  : 0;

	if (count > 0)
		log_info(
		    "%s: %zu deleted since the last listing", object_kind_resource(kind), count);
}

static bool
is_listed(const struct store *store, const char *namespace)
{
	if (store->config.namespaces == NULL)
		return true;
	for (char *const *wanted = store->config.namespaces; *wanted != NULL; wanted++)
		if (strcmp(*wanted, namespace) == 0)
			return true;
	return false;
}

static bool
is_wanted(const struct store *store, const struct object *object)
{
	return object->kind == OBJECT_NODE ||
	       is_listed(
		   store, object->kind == OBJECT_NAMESPACE ? object->name : object->namespace);
}

bool
store_shows_namespace(const struct store *store, const char *name)
{
	if (!is_listed(store, name))
		return false;
	if (store->config.namespace_labels == NULL)
		return true;
	const struct namespace *namespace = namespace_find(store, name);
	return namespace != NULL && namespace->chosen;
}

static void
object_event(struct store *store, enum event_type type, const struct object *object)
{
	bool deleted = type == EVENT_DELETED;
	bool relisted = type == EVENT_ADDED && store->listing[object->kind];

	if (!is_wanted(store, object))
		return;
	if (kinds[object->kind].event != NULL)
		kinds[object->kind].event(store, deleted, relisted, object);
}

void
store_event(void *arg, enum object_kind kind, enum event_type type, const struct object *object)
{
	struct store *store = arg;

	switch (type) {
	case EVENT_LISTING:
		store->mark[kind]++;
		store->listing[kind] = true;
		break;
	case EVENT_SYNCED:
		sweep(store, kind);
		store->listing[kind] = false;
		store->synced[kind] = true;
		break;
	case EVENT_ADDED:
	case EVENT_MODIFIED:
	case EVENT_DELETED:
		object_event(store, type, object);
		break;
	}
}

/* --- other functions --- */

size_t
store_count(const struct store *store, enum object_kind kind)
{
	size_t count = 0;

	if (kinds[kind].event != NULL)
		memcpy(&count, (const char *)store + kinds[kind].count, sizeof count);
	return count;
}

bool
store_has_family(const struct store *store, uint8_t family)
{
	return (family == AF_INET ? store->with_v4 : store->with_v6) > 0;
}

uint64_t
store_cut_total(const struct store *store)
{
	return store->cut_total;
}

void
store_stamps(struct store *store,
    void (*each)(void *arg, enum service_kind kind, int64_t trigger_time_ns), void *arg)
{
	for (size_t i = 0; i < store->stamp_count; i++)
		each(arg, store->stamps[i].kind, store->stamps[i].time_ns);
	store->stamp_count = 0;
}

bool
store_find_service(const struct store *store, const char *namespace, const char *service,
    struct store_source *source)
{
	const struct service *found =
	    service_find(store, namespace_find(store, namespace), service);

	if (found == NULL || !found->present)
		return false;
	*source = (struct store_source){ .kind = OBJECT_SERVICE,
		.namespace = namespace,
		.name = service,
		.resource_version = found->version };
	return true;
}

bool
store_find_slice(const struct store *store, uint32_t slot, struct store_source *source)
{
	const struct slice_entry *slice;
	size_t place = 0;

	/* Rarely called, by people who use --explain, so a walk over all slices is better than an index. */
	while ((slice = table_next(&store->slices, &place)) != NULL)
		if (slice->slot == slot)
			break;
	if (slice == NULL)
		return false;
	*source = (struct store_source){ .kind = OBJECT_SLICES,
		.namespace = (const char *)slice->namespace->label + 1,
		.name = slice->name,
		.resource_version = slice->version,
		.from_endpoints = slice->from_endpoints };
	return true;
}

bool
store_find_namespace(const struct store *store, const char *namespace, struct store_source *source)
{
	const struct namespace *found = namespace_find(store, namespace);

	if (found == NULL || !found->present)
		return false;
	*source = (struct store_source){ .kind = OBJECT_NAMESPACE,
		.namespace = "",
		.name = (const char *)found->label + 1,
		.resource_version = found->version };
	return true;
}

bool
store_leaves_namespace_out(const struct store *store, const char *namespace)
{
	const struct namespace *found = namespace_find(store, namespace);

	return found != NULL && found->present && !namespace_is_chosen(store, found);
}

bool
store_has_namespace(const struct store *store, const char *namespace)
{
	const struct namespace *found = namespace_find(store, namespace);

	return found != NULL && (found->present || found->shown > 0);
}

/* --- for the audit --- */

bool
store_find_version(const struct store *store, enum object_kind kind, const char *namespace,
    const char *name, uint64_t *version)
{
	const struct namespace *inside =
	    namespace_find(store, kind == OBJECT_NAMESPACE ? name : namespace);
	struct store_source source;

	if (kind == OBJECT_SLICES) {
		const struct slice_entry *slice = slice_find(store, inside, name);

		*version = slice != NULL ? slice->version : 0;
		return slice != NULL;
	}
	bool found = kind == OBJECT_SERVICE ? store_find_service(store, namespace, name, &source)
					    : store_find_namespace(store, name, &source);
	*version = found ? source.resource_version : 0;
	return found;
}

/* Calls `each` for the entry if its object is in the namespace `inside`. */
static void
each_service(const struct namespace *inside, const struct service *service,
    void (*each)(void *arg, const char *name, uint64_t version), void *arg)
{
	char name[DNAME_LABEL_MAX + 1];
	const uint8_t *label = service->owner->name;

	if (service->namespace != inside || !service->present)
		return;
	memcpy(name, label + 1, *label);
	name[*label] = '\0';
	each(arg, name, service->version);
}

void
store_each(const struct store *store, enum object_kind kind, const char *namespace,
    void (*each)(void *arg, const char *name, uint64_t version), void *arg)
{
	const struct namespace *inside = namespace_find(store, namespace), *found;
	const struct service *service;
	const struct slice_entry *slice;
	size_t place = 0;

	if (kind == OBJECT_NAMESPACE)
		while ((found = table_next(&store->namespaces, &place)) != NULL) {
			if (found->present)
				each(arg, (const char *)found->label + 1, found->version);
		}
	else if (inside != NULL && kind == OBJECT_SERVICE)
		while ((service = table_next(&store->services, &place)) != NULL)
			each_service(inside, service, each, arg);
	else if (inside != NULL && kind == OBJECT_SLICES)
		while ((slice = table_next(&store->slices, &place)) != NULL)
			if (slice->namespace == inside && slice->index == 0)
				each(arg, slice->name, slice->version);
}

const char *
store_namespace_after(const struct store *store, const char *name)
{
	const struct namespace *namespace;
	const char *next = NULL;
	size_t place = 0;

	while ((namespace = table_next(&store->namespaces, &place)) != NULL) {
		const char *text = (const char *)namespace->label + 1;

		if (strcmp(text, name) > 0 && (next == NULL || strcmp(text, next) < 0) &&
		    is_listed(store, text))
			next = text;
	}
	return next;
}

/* Creates the names that exist in the zone even if the cluster is empty. */
static void
permanent_names(struct store *store)
{
	static const uint8_t svc[] = "\3svc", pod[] = "\3pod";

	treecache_edit(store->cache, svc)->number = NODE_PERMANENT;
	treecache_edit(store->cache, pod)->number = NODE_PERMANENT;
}

struct store *
store_new(struct treecache *cache, const struct store_config *config)
{
	struct store *store = xcalloc(1, sizeof *store);

	store->cache = cache;
	store->config = *config;
	store->pods[0].family = AF_INET;
	store->pods[1].family = AF_INET6;
	store->visibility_due = config->visibility;
	store->places_due = config->pod_places;
	store->visibility_serial = (uint32_t)time(NULL);
	if (config->client_pods)
		store->client_pods = client_pods_new(config->pod_places ? cache : NULL);
	permanent_names(store);
	return store;
}

void
store_addresses(struct store *store, const struct addr *addrs, size_t count)
{
	records_for_zone(&store->config.records, addrs, count, service_put_records, store);
}

void
store_free(struct store *store)
{
	if (store == NULL)
		return;
	/* Does the same as an empty listing of each kind. Slices are first, because they refer to
	 * their Service's entry. */
	static const enum object_kind order[] = { OBJECT_SLICES, OBJECT_SERVICE, OBJECT_NAMESPACE,
		OBJECT_NODE };
	store->mark[OBJECT_POD]++;
	pods_sweep(store);
	for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
		store->mark[order[i]]++;
		struct table *table = table_of(store, order[i]);
		const struct kind *kind = &kinds[order[i]];
		for (size_t place = 0; table->count > 0 && place < table->capacity; place++)
			while (table->places[place] != NULL &&
			       kind->is_gone(table->places[place], store->mark[order[i]]))
				kind->remove(store, table->places[place]);
	}
	pod_table_free(&store->pods[0]);
	pod_table_free(&store->pods[1]);
	client_pods_free(store->client_pods);
	table_free(&store->shares);
	table_free(&store->slices);
	table_free(&store->services);
	table_free(&store->namespaces);
	table_free(&store->hosts);
	table_free(&store->ports);
	table_free(&store->kept);
	table_free(&store->kept_namespaces);
	table_free(&store->rules); /* the table is empty, because no namespace is left */
	free(store->by_number);
	free(store);
}

/* --- other pods of this server's Service --- */

/*
 * The other pods of this server's Service. A Service in this server's namespace counts if one of
 * its endpoints for port 53 has an address of this server. Its other endpoints for port 53 are the
 * result. Slices in other namespaces are ignored, because anybody who can write one could put this
 * server's address into it. The search walks over all slices of the cluster, which is cheap enough
 * for its only caller, the status page.
 */

/* Services that have this server among their endpoints; further Services are ignored */
enum { SERVICES_MAX = 8 };

struct search {
	const struct service *services[SERVICES_MAX];
	size_t service_count;
	struct neighbour *found;
	size_t count, capacity;
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
add_neighbour(struct search *search, const struct addr *addr, bool ready)
{
	for (size_t i = 0; i < search->count; i++)
		if (addr_equal(&search->found[i].addr, addr)) {
			search->found[i].ready |= ready;
			return;
		}
	if (search->count < search->capacity)
		search->found[search->count++] = (struct neighbour){ *addr, ready };
}

static void
take_slice(struct search *search, const struct slice_endpoints *slice, const struct addr *own,
    size_t own_count)
{
	for (unsigned i = 0; i < slice->count && search->count < search->capacity; i++) {
		struct addr addr = { .family = slice->family };
		bool is_own = false;

		memcpy(addr.bytes, slice_addr(slice, i), addr_len(&addr));
		for (size_t k = 0; k < own_count; k++)
			is_own |= addr_equal(&own[k], &addr);
		if (!is_own)
			add_neighbour(search, &addr, slice_ready(slice, i));
	}
}

size_t
store_neighbours(const struct store *store, const char *namespace, const struct addr *own,
    size_t own_count, struct neighbour *found, size_t capacity)
{
	const struct namespace *inside = namespace_find(store, namespace);
	struct search search = { .found = found, .capacity = capacity };
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
