#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kubedns/cluster/port_lists.h"
#include "kubedns/cluster/store_internal.h"
#include "kubedns/cluster/tree_content.h"
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

/* --- Services --- */

/*
 * Services. An entry lives as long as the Service's object or any slice that names the Service, so
 * the order in which they arrive does not matter. When the object comes, its records go into the
 * tree (service_records.h) and it decides which endpoints are published; when it is deleted, the entry
 * keeps the slices for a later Service of the same name.
 */

struct service_key {
	const struct namespace *namespace;
	const uint8_t *label;
};

static bool
same_service(const void *entry, const void *key)
{
	const struct service *service = entry;
	const struct service_key *wanted = key;

	return service->namespace == wanted->namespace &&
	       memcmp(service->owner->name, wanted->label, wanted->label[0] + 1u) == 0;
}

static uint32_t
service_hash(const struct store *store, const struct namespace *namespace, const uint8_t *label)
{
	return (uint32_t)hash64(
	    treecache_next(store->cache)->seed + namespace->number, label, label[0] + 1u);
}

struct service *
service_find(const struct store *store, const struct namespace *namespace, const char *name)
{
	uint8_t label[1 + DNAME_LABEL_MAX];
	struct service_key key = { namespace, label };

	if (namespace == NULL || !store_label(label, name))
		return NULL;
	return table_find(
	    &store->services, service_hash(store, namespace, label), same_service, &key);
}

/* The Service's entry, made if missing; NULL if its name or its namespace's is no label. */
struct service *
service_get(struct store *store, const char *namespace_text, const char *name_text)
{
	uint8_t label[1 + DNAME_LABEL_MAX];
	struct dname name;

	if (!store_label(label, name_text))
		return NULL;
	struct namespace *namespace = namespace_get(store, namespace_text);
	struct service *service = service_find(store, namespace, name_text);
	if (namespace == NULL || service != NULL)
		return service;
	namespace_name(namespace, &name);
	dname_prepend(&name, label + 1, label[0]);
	service = xcalloc(1, sizeof *service);
	service->hash = service_hash(store, namespace, label);
	service->namespace = namespace;
	service->type = SERVICE_PENDING;
	service->owner = treecache_owner(store->cache, name.wire);
	namespace->uses++;
	table_add(&store->services, service);
	return service;
}

void
service_drop(struct store *store, struct service *service)
{
	struct namespace *namespace = service->namespace;

	if (service->present || service->slices > 0)
		return;
	table_remove(&store->services, service);
	treecache_owner_free(store->cache, service->owner);
	free(service);
	namespace->uses--;
	namespace_drop(store, namespace);
}

void
service_put_records(void *arg, const uint8_t *name, const void *sets, size_t len)
{
	struct store *store = arg;

	treecache_records(store->cache, treecache_edit(store->cache, name), sets, len);
}

static void
set_addrs(struct store *store, struct service *service, const struct addr *addrs, size_t count)
{
	for (size_t i = 0; i < service->addr_count; i++) {
		treecache_owner_addr(store->cache, service->owner, &service->addrs[i], false);
		store_count_family(store, service->addrs[i].family, -1);
	}
	service->addr_count = (uint8_t)count;
	for (size_t i = 0; i < count; i++) {
		service->addrs[i] = addrs[i];
		treecache_owner_addr(store->cache, service->owner, &addrs[i], true);
		store_count_family(store, addrs[i].family, 1);
	}
}

static uint32_t
endpoint_set_flags(const struct store *store, const struct object_service *service)
{
	uint32_t flags = service->publish_not_ready ? ENDPOINTS_NOT_READY : 0;

	if (service->type == SERVICE_HEADLESS)
		return flags | ENDPOINTS_ATTACHED | ENDPOINTS_APEX | ENDPOINTS_REVERSE;
	if (service->type == SERVICE_CLUSTERIP)
		return flags | ENDPOINTS_ATTACHED |
		       (store->config.reverse_all_endpoints ? ENDPOINTS_REVERSE : 0);
	return 0;
}

void
service_stamp(struct store *store, const struct service *service, int64_t time_ns)
{
	if (time_ns == 0 || !service->in_tree || store->stamp_count == STAMPS_MAX ||
	    !store->synced[OBJECT_SLICES])
		return;
	store->stamps[store->stamp_count++] =
	    (struct stamp){ time_ns, service->type == SERVICE_HEADLESS    ? SERVICE_KIND_HEADLESS
				     : service->type == SERVICE_CLUSTERIP ? SERVICE_KIND_CLUSTERIP
									  : SERVICE_KIND_OTHER };
}

void
service_note_named(struct store *store, struct service *service)
{
	bool named = service->in_tree && service->type == SERVICE_HEADLESS &&
		     service->owner->endpoints->published > 0;
	struct namespace *namespace = service->namespace;
	uint32_t before = namespace->named;

	namespace->named += (uint32_t)named - (uint32_t)service->named;
	service->named = named;
	if ((before > 0) != (namespace->named > 0))
		namespace_show(store, namespace);
}

void
service_leave_tree(struct store *store, struct service *service)
{
	if (!service->in_tree)
		return;
	set_addrs(store, service, NULL, 0);
	treecache_owner_label(store->cache, service->owner, false);
	treecache_endpoint_set_flags(store->cache, service->owner, 0);
	struct node *node = treecache_edit(store->cache, service->owner->name);
	treecache_clear(store->cache, node);
	node->flags = 0;
	treecache_prune(store->cache, service->owner->name);
	service->in_tree = false;
	service_note_named(store, service);
}

/* Takes a Service out of the tree; slices that name it stay with the entry. */
void
service_hide(struct store *store, struct service *service)
{
	if (!service->present)
		return;
	service_leave_tree(store, service);
	chosen_forget(store, service);
	service->present = false;
	service->type = SERVICE_PENDING;
	service->version = 0;
	store->present_services--;
	service->namespace->shown--;
	namespace_show(store, service->namespace);
}

void
service_enter_tree(struct store *store, struct service *service, const struct object_service *from)
{
	static const uint8_t flags[] = { [SERVICE_CLUSTERIP] = NODE_CLUSTERIP,
		[SERVICE_HEADLESS] = NODE_HEADLESS,
		[SERVICE_EXTERNALNAME] = NODE_EXTERNALNAME,
		[SERVICE_PENDING] = 0 };
	const uint8_t *label = service->owner->name;
	const char *why;

	if (!service->in_tree)
		treecache_owner_label(store->cache, service->owner, true);
	service->in_tree = true;
	struct node *node = treecache_edit(store->cache, service->owner->name);
	treecache_clear(store->cache, node);
	node->flags = flags[from->type];
	if (store->config.visibility && is_default(service->namespace->label) &&
	    memcmp(label, "\12kubernetes", 11) == 0)
		node->flags |= NODE_OPEN;
	treecache_endpoint_set_flags(store->cache, service->owner, endpoint_set_flags(store, from));
	records_for_service(
	    &store->config.records, service->owner->name, from, service_put_records, store, &why);
	if (why != NULL)
		log_warnx("service %s/%.*s: %s: \"%s\"; it has no records",
		    (const char *)service->namespace->label + 1, *label, (const char *)label + 1,
		    why, from->external_name);
	set_addrs(
	    store, service, from->addrs, from->type == SERVICE_CLUSTERIP ? from->addr_count : 0);
	/* A Service whose address is not allocated yet has neither records nor an endpoint set: its
	 * name does not exist. */
	treecache_prune(store->cache, service->owner->name);
	service_note_named(store, service);
}

static void
service_show(struct store *store, struct service *service, const struct object *object)
{
	if (!service->present) {
		service->present = true;
		store->present_services++;
		service->namespace->shown++;
		namespace_show(store, service->namespace);
	}
	service->type = (uint8_t)object->service.type;
	service->version = store_version(object->resource_version);
	if (store->config.namespace_labels != NULL)
		chosen_keep(store, service, &object->service);
	if (namespace_is_chosen(store, service->namespace))
		service_enter_tree(store, service, &object->service);
	service_stamp(store, service, service->stamp);
	service->stamp = 0;
}

void
service_event(struct store *store, bool deleted, bool relisted, const struct object *object)
{
	struct service *service;

	if (deleted) {
		service =
		    service_find(store, namespace_find(store, object->namespace), object->name);
		if (service != NULL) {
			service_hide(store, service);
			service_drop(store, service);
		}
		return;
	}
	service = service_get(store, object->namespace, object->name);
	if (service == NULL) {
		log_warnx(
		    "service %s/%s: not a DNS label; left out", object->namespace, object->name);
		return;
	}
	service->mark = store->mark[OBJECT_SERVICE];
	uint64_t version = store_version(object->resource_version);
	if (relisted && service->present && version != 0 && version == service->version)
		return;
	store_note_cut(store, object, &service->cut);
	service_show(store, service, object);
}

/* --- slices of endpoints --- */

/*
 * Slices of endpoints. A slice belongs to the Service that its label names, even before that
 * Service exists, and its endpoints go into the tree at the Service's owner.
 */

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

/* --- other pods of this server's Service --- */

/*
 * The other pods of this server's Service: the endpoints of every Service of its namespace that has
 * one of this server's addresses among its endpoints for port 53. Slices of other namespaces do not
 * count: whoever may write one could name this server's address in it. It walks all slices of the
 * cluster, which is cheap enough for its one caller, the status page.
 */

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
