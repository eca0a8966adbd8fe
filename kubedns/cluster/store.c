#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kubedns/cluster/tree_content.h"
#include "kubedns/cluster/store_internal.h"
#include "lib/log.h"
#include "lib/xalloc.h"

/* --- listings: mark and sweep --- */

/* Whether an entry is an object of this kind that the listing which has just ended did not show. */
static bool
is_gone(const struct store *store, enum object_kind kind, const void *entry)
{
	uint8_t mark = store->mark[kind];

	switch (kind) {
	case OBJECT_SERVICE:
		return ((const struct service *)entry)->present &&
		       ((const struct service *)entry)->mark != mark;
	case OBJECT_SLICES:
		return ((const struct slice_entry *)entry)->mark != mark;
	case OBJECT_NAMESPACE:
		return ((const struct namespace *)entry)->present &&
		       ((const struct namespace *)entry)->mark != mark;
	case OBJECT_NODE:
		return ((const struct host *)entry)->mark != mark;
	case OBJECT_POD:
	case OBJECT_CONFIGMAP:
	case OBJECT_INGRESS:
	case OBJECT_GATEWAY:
	case OBJECT_HTTPROUTE:
	case OBJECT_GRPCROUTE:
	case OBJECT_TLSROUTE:
	case OBJECT_IMPORT:
	case OBJECT_KIND_COUNT:
		break;
	}
	return false;
}

static void
remove_entry(struct store *store, enum object_kind kind, void *entry)
{
	switch (kind) {
	case OBJECT_SERVICE:
		service_hide(store, entry);
		service_drop(store, entry);
		break;
	case OBJECT_SLICES:
		slice_drop(store, entry);
		break;
	case OBJECT_NAMESPACE:
		namespace_set(store, entry, false, 0);
		break;
	case OBJECT_NODE:
		node_drop(store, entry);
		break;
	case OBJECT_POD:
	case OBJECT_CONFIGMAP:
	case OBJECT_INGRESS:
	case OBJECT_GATEWAY:
	case OBJECT_HTTPROUTE:
	case OBJECT_GRPCROUTE:
	case OBJECT_TLSROUTE:
	case OBJECT_IMPORT:
	case OBJECT_KIND_COUNT:
		break;
	}
}

/* The table of a kind's entries; NULL for pods (pod_table.h) and for kinds that have none. */
static struct table *
table_of(struct store *store, enum object_kind kind)
{
	struct table *tables[OBJECT_KIND_COUNT] = { [OBJECT_SERVICE] = &store->services,
		[OBJECT_SLICES] = &store->slices,
		[OBJECT_NAMESPACE] = &store->namespaces,
		[OBJECT_NODE] = &store->hosts };

	return tables[kind];
}

/* Removes what the listing which has just ended did not show; returns how many. */
static size_t
sweep_table(struct store *store, enum object_kind kind, const struct table *table)
{
	void *entry, **gone = NULL;
	size_t place = 0, count = 0, room = 0;

	/* Removing an entry moves others, and may remove some: find all first. */
	while ((entry = table_next(table, &place)) != NULL) {
		if (!is_gone(store, kind, entry))
			continue;
		if (count == room) {
			room = room == 0 ? 64 : room * 2;
			gone = xreallocarray(gone, room, sizeof *gone);
		}
		gone[count++] = entry;
	}
	for (size_t i = 0; i < count; i++)
		remove_entry(store, kind, gone[i]);
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
		log_info("%s: %zu gone since the last listing", object_kind_resource(kind), count);
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
	switch (object->kind) {
	case OBJECT_SERVICE:
		service_event(store, deleted, relisted, object);
		break;
	case OBJECT_SLICES:
		slices_event(store, deleted, relisted, object);
		break;
	case OBJECT_NAMESPACE:
		namespace_event(store, deleted, object);
		break;
	case OBJECT_POD:
		pod_event(store, deleted, object);
		break;
	case OBJECT_NODE:
		node_event(store, deleted, object);
		break;
	case OBJECT_CONFIGMAP:
	case OBJECT_INGRESS:
	case OBJECT_GATEWAY:
	case OBJECT_HTTPROUTE:
	case OBJECT_GRPCROUTE:
	case OBJECT_TLSROUTE:
	case OBJECT_IMPORT:
	case OBJECT_KIND_COUNT:
		break;
	}
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

/* --- the rest --- */

size_t
store_count(const struct store *store, enum object_kind kind)
{
	const size_t counts[OBJECT_KIND_COUNT] = { [OBJECT_SERVICE] = store->present_services,
		[OBJECT_SLICES] = store->slices.count,
		[OBJECT_NAMESPACE] = store->present_namespaces,
		[OBJECT_POD] = store->present_pods,
		[OBJECT_NODE] = store->hosts.count };

	return counts[kind];
}

void
store_count_family(struct store *store, uint8_t family, int by)
{
	*(family == AF_INET ? &store->with_v4 : &store->with_v6) += (size_t)by;
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
store_note_cut(struct store *store, const struct object *object, bool *was)
{
	if (object->cut) {
		store->cut_total++;
		if (!*was)
			log_neterr(
			    "%s %s/%s: has more ports, endpoints or addresses than DNS reads "
			    "of one object (%d, %d, %d); the rest is left out",
			    object_kind_resource(object->kind), object->namespace, object->name,
			    OBJECT_PORTS_MAX, OBJECT_ENDPOINTS_MAX, POD_ADDRS_MAX);
	}
	*was = object->cut;
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

	/* Asked by a person now and then: a walk is cheaper than an index. */
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

/* The names that exist in the zone even without a cluster. */
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
	/* As after an empty listing of each kind; slices first, since they keep their Service's
	 * entry. */
	static const enum object_kind order[] = { OBJECT_SLICES, OBJECT_SERVICE, OBJECT_NAMESPACE,
		OBJECT_NODE };
	store->mark[OBJECT_POD]++;
	pods_sweep(store);
	for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
		store->mark[order[i]]++;
		struct table *table = table_of(store, order[i]);
		for (size_t place = 0; table->count > 0 && place < table->room; place++)
			while (table->places[place] != NULL &&
			       is_gone(store, order[i], table->places[place]))
				remove_entry(store, order[i], table->places[place]);
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
	table_free(&store->rules); /* empty: no namespace is there */
	free(store->by_number);
	free(store);
}
