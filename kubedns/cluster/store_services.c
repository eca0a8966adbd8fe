/*
 * Services. An entry lives as long as the Service's object or any slice that names the Service, so
 * the order in which they arrive does not matter. When the object comes, its records go into the
 * tree (service_records.h) and it decides which endpoints are published; when it is deleted, the entry
 * keeps the slices for a later Service of the same name.
 */
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/tree_content.h"
#include "kubedns/cluster/store_internal.h"
#include "lib/log.h"
#include "lib/xalloc.h"

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
