/*
 * Services, their slices, and the Services that --namespace-labels selects. Only this file writes
 * Services and slices into the tree. It looks up namespaces and nodes, but changes only their
 * counts of Services.
 */
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/label_selector.h"
#include "kubedns/cluster/port_lists.h"
#include "kubedns/cluster/store_internal.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/log.h"
#include "lib/xalloc.h"

/* --- --namespace-labels --- */

/*
 * --namespace-labels: a Service is in the tree only while the selector matches its namespace. The
 * tree has a Service's records, but not the object from which they were made. With a selector, this
 * file therefore stores a copy of each Service. When a namespace's labels change, the names of its
 * Services are added or removed without a request to the API server.
 */

struct kept_service {
	uint32_t hash; /* hash of the Service */
	struct service *service;
	struct kept_service *next, **back; /* list of the namespace's Services */
	struct object_service from;        /* all its pointers point into `bytes` */
	_Alignas(struct object_port) char bytes[];
};

/* The copies of one namespace's Services. */
struct kept_namespace {
	uint32_t hash; /* hash of the namespace */
	const struct namespace *namespace;
	struct kept_service *first; /* never NULL */
};

static bool
is_kept_service(const void *entry, const void *key)
{
	return ((const struct kept_service *)entry)->service == key;
}

static bool
is_kept_namespace(const void *entry, const void *key)
{
	return ((const struct kept_namespace *)entry)->namespace == key;
}

static struct kept_namespace *
find_namespace(const struct store *store, const struct namespace *namespace)
{
	return table_find(&store->kept_namespaces, namespace->hash, is_kept_namespace, namespace);
}

/* Inserts the copy at the head of its namespace's list. */
static void
link_kept(struct store *store, struct kept_service *kept)
{
	const struct namespace *namespace = kept->service->namespace;
	struct kept_namespace *of = find_namespace(store, namespace);

	if (of == NULL) {
		of = xcalloc(1, sizeof *of);
		of->hash = namespace->hash;
		of->namespace = namespace;
		table_add(&store->kept_namespaces, of);
	}
	kept->next = of->first;
	kept->back = &of->first;
	if (of->first != NULL)
		of->first->back = &kept->next;
	of->first = kept;
}

static void
unlink_kept(struct store *store, struct kept_service *kept)
{
	*kept->back = kept->next;
	if (kept->next != NULL) {
		kept->next->back = kept->back;
		return;
	}
	struct kept_namespace *of = find_namespace(store, kept->service->namespace);
	if (of->first != NULL)
		return;
	table_remove(&store->kept_namespaces, of);
	free(of);
}

/* Copies a string to `*to` and advances `*to` past it. */
static const char *
put_text(char **to, const char *text)
{
	char *copy = *to;

	*to = stpcpy(copy, text) + 1;
	return copy;
}

static void
chosen_forget(struct store *store, const struct service *service)
{
	struct kept_service *kept =
	    table_find(&store->kept, service->hash, is_kept_service, service);

	if (kept == NULL)
		return;
	table_remove(&store->kept, kept);
	unlink_kept(store, kept);
	free(kept);
}

/* Stores a copy of the Service's object, in place of an older copy. */
static void
chosen_keep(struct store *store, struct service *service, const struct object_service *from)
{
	size_t ports = from->port_count * sizeof *from->ports,
	       texts = strlen(from->external_name) + 1;

	chosen_forget(store, service);
	for (size_t i = 0; i < from->port_count; i++)
		texts += strlen(from->ports[i].name) + strlen(from->ports[i].protocol) + 2;
	struct kept_service *kept = xmalloc(sizeof *kept + ports + texts);
	kept->hash = service->hash;
	kept->service = service;
	kept->from = *from;
	kept->from.ports = (void *)kept->bytes;
	char *text = kept->bytes + ports;
	kept->from.external_name = put_text(&text, from->external_name);
	for (size_t i = 0; i < from->port_count; i++)
		kept->from.ports[i] =
		    (struct object_port){ .name = put_text(&text, from->ports[i].name),
			    .protocol = put_text(&text, from->ports[i].protocol),
			    .port = from->ports[i].port };
	table_add(&store->kept, kept);
	link_kept(store, kept);
}

/* --- Services --- */

/*
 * Services. An entry lives as long as the Service's object or any slice that names the Service.
 * Objects and slices may thus arrive in any order. When the object arrives, its records are written
 * into the tree (service_records.h), and its fields decide which endpoints are published. When the
 * object is deleted, the entry keeps the slices for a later Service with the same name.
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

/* Returns the Service's entry, and creates it if necessary. Returns NULL if its name or its
 * namespace's name is not a valid label. */
static struct service *
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

/* Stores the trigger time (Unix time, ns) of a change that is now in the tree: see
 * store_stamps(). */
static void
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

/* Updates the namespace's count of headless Services whose names exist. */
static void
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

static void
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

/* Removes a Service from the tree. Its entry keeps the slices that name it. */
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

/* Writes the records of a Service into the tree. Its entry keeps the slices. */
static void
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
	/* A Service whose address is not allocated yet has neither records nor an endpoint set, so
	 * its name does not exist. */
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
		    "service %s/%s: not a DNS label; ignored", object->namespace, object->name);
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
 * Service exists. Its endpoints are stored in the tree with the Service's owner.
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

const struct slice_entry *
slice_find(const struct store *store, const struct namespace *namespace, const char *name)
{
	struct slice_key key = { namespace, name, 0 };

	return find_slice(store, &key);
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

/* Returns the ports of a slice's endpoints, or NULL. */
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

/* Removes a slice from the Service that it names. */
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
 * Returns the Service that the slice's label names, and creates its entry if necessary. Returns
 * NULL if the label names no Service. Kubernetes compares the label case-sensitively and does not
 * allow capitals in a Service's name. A label with a capital thus names no Service.
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
	if (slice->service != service) { /* the slice's label has changed */
		if (service != NULL)
			service->slices++; /* otherwise detach_slice() could free the entry */
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
	/* Removes the other slices of the object. If it was deleted, these are all its slices.
	 * Otherwise they are the slices of subsets that an Endpoints object no longer has. */
	for (;; index++) {
		struct slice_key key = { namespace_find(store, object->namespace), object->name,
			index };
		struct slice_entry *slice = find_slice(store, &key);

		if (slice == NULL)
			return;
		slice_drop(store, slice);
	}
}

/* --- --namespace-labels begins or ceases to match a namespace --- */

void
chosen_set(struct store *store, struct namespace *namespace, bool chosen)
{
	if (namespace->chosen == chosen)
		return;
	namespace->chosen = chosen;
	const struct kept_namespace *of = find_namespace(store, namespace);
	/* The namespace's node comes first, because a Service's node is below it. */
	if (chosen)
		namespace_show(store, namespace);
	for (struct kept_service *kept = of == NULL ? NULL : of->first; kept != NULL;
	     kept = kept->next) {
		if (chosen)
			service_enter_tree(store, kept->service, &kept->from);
		else
			service_leave_tree(store, kept->service);
	}
	namespace_show(store, namespace);
}

void
chosen_by_labels(struct store *store, struct namespace *namespace, const struct object *object)
{
	const struct label_selector *selector = store->config.namespace_labels;

	if (selector != NULL)
		chosen_set(store, namespace,
		    label_selector_matches(selector, object->labels, object->label_count));
}
