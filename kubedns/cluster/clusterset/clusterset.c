/* Handles the events that change imports: ServiceImports, and EndpointSlices that name an import. */
#include "kubedns/cluster/clusterset/clusterset.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/port_lists.h"
#include "kubedns/cluster/rrset_writer.h"
#include "kubedns/cluster/service_records.h"
#include "kubedns/cluster/store.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/hash.h"
#include "lib/log.h"
#include "lib/table.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "treecache/ports.h"
#include "treecache/treecache.h"

/* The slices of an import that are from one cluster. */
struct import_cluster {
	/* `CLUSTER.SERVICE.NAMESPACE.svc.ZONE`; NULL: the name would be too long */
	struct owner *owner;
	size_t slices;
	/* The cluster's label as a name of one label, lower case. */
	uint8_t label[1 + DNAME_LABEL_MAX + 1];
};

/* An EndpointSlice of an import. */
struct imported_slice {
	uint32_t hash;
	uint8_t mark;
	bool cut; /* some endpoints of the slice have no names */
	struct import *import;
	struct import_cluster *cluster;
	char *name;
	uint64_t version, digest; /* `digest`: hash of the slice's ready endpoints */
	const struct ports *ports;
	/* Slots of the slice's ready endpoints in the tree: one with the import's owner, one with
	 * the cluster's owner. Both are 0 if there are no ready endpoints. */
	uint32_t slot, cluster_slot;
};

enum import_shows { IMPORT_NOTHING, IMPORT_IP, IMPORT_ENDPOINTS };

/* A ServiceImport. The object may be missing while slices name it. */
struct import {
	uint32_t hash;
	uint8_t mark;
	bool present;            /* the ServiceImport object exists */
	bool shown;              /* the namespace was shown when the import was last written */
	bool dirty;              /* the import is in the list of imports to write */
	enum import_shows shows; /* what readers see of the import */
	uint64_t version, digest;
	char *namespace, *name;
	struct owner *owner; /* `SERVICE.NAMESPACE.svc.ZONE` */
	enum service_type type;
	struct addr addrs[2];
	uint8_t addr_count;
	struct object_port *ports; /* the strings are in the same block */
	size_t port_count;
	struct addr shown_addrs[2]; /* addresses that have PTR records */
	uint8_t shown_addr_count;
	struct import_cluster **clusters; /* sorted by label */
	size_t cluster_count, cluster_capacity;
	size_t slice_count, cut_slices;
	size_t endpoints; /* number of endpoints whose names readers see */
	bool cut;         /* readers see the import, but not all its names */
	struct import *next_dirty;
};

struct clusterset {
	struct treecache *cache;
	struct clusterset_config config;
	uint64_t seed;
	struct table imports, slices;
	struct table ports; /* see port_lists.h */
	uint8_t mark[OBJECT_KIND_COUNT];
	struct import *dirty;
	bool namespaces_changed;
	struct clusterset_counts counts;
};

/* Handles an EndpointSlice that was added or has changed. */
static void import_slice_here(struct clusterset *clusterset, const struct object *object);

/* Handles an EndpointSlice that was deleted or no longer names an import. The slice is NULL if it
 * never named an import. */
static void import_slice_gone(struct clusterset *clusterset, struct imported_slice *slice);

static struct imported_slice *import_slice_find(
    const struct clusterset *clusterset, const char *namespace, const char *name);

/* `SERVICE.NAMESPACE.svc.ZONE`. */
static void import_owner_name(
    const struct clusterset *clusterset, const struct import *import, struct dname *name);

/* Updates what readers see of the import. Sets `endpoints` and `cut`. */
static void import_write(struct clusterset *clusterset, struct import *import);

enum { VERSION_TTL_S = 28800 };

#define MULTICLUSTER_SCHEMA_VERSION "1.0.0" /* KEP-1645, specification.md 2.2 */

static uint64_t
hash_text(uint64_t hash, const char *text)
{
	return hash64(hash, text, strlen(text) + 1);
}

/* --- imports --- */

struct key {
	const char *namespace, *name;
};

static bool
same_import(const void *entry, const void *key)
{
	const struct import *import = entry;
	const struct key *wanted = key;

	return strcmp(import->name, wanted->name) == 0 &&
	       strcmp(import->namespace, wanted->namespace) == 0;
}

/* Returns the hash of a namespace and a name, used by both tables. */
static uint32_t
import_hash(const struct clusterset *cs, const char *namespace, const char *name)
{
	return hash_fold(hash_text(hash_text(cs->seed, namespace), name));
}

static struct import *
import_find(const struct clusterset *cs, const char *namespace, const char *name)
{
	const struct key key = { namespace, name };

	return table_find(&cs->imports, import_hash(cs, namespace, name), same_import, &key);
}

/* Returns the entry, and creates it if necessary. */
static struct import *
import_get(struct clusterset *cs, const char *namespace, const char *name)
{
	struct import *import = import_find(cs, namespace, name);

	if (import != NULL)
		return import;
	import = xcalloc(1, sizeof *import);
	import->hash = import_hash(cs, namespace, name);
	import->namespace = xstrdup(namespace);
	import->name = xstrdup(name);
	struct dname whole;
	import_owner_name(cs, import, &whole);
	import->owner = treecache_owner(cs->cache, whole.wire);
	table_add(&cs->imports, import);
	return import;
}

/* Schedules the import to be written by the next clusterset_settle(). */
static void
import_mark_dirty(struct clusterset *cs, struct import *import)
{
	if (import->dirty)
		return;
	import->dirty = true;
	import->next_dirty = cs->dirty;
	cs->dirty = import;
}

static void
count_import(struct clusterset *cs, const struct import *import, size_t by)
{
	if (import->present && import->type == SERVICE_HEADLESS)
		cs->counts.headless += by;
	else if (import->present)
		cs->counts.ip += by;
}

static uint64_t
service_digest(uint64_t hash, const struct object_service *service)
{
	const uint64_t head[] = { service->type, service->addr_count, service->port_count };

	hash = hash64(hash, head, sizeof head);
	for (size_t i = 0; i < service->addr_count; i++)
		hash = hash64(hash + service->addrs[i].family, service->addrs[i].bytes,
		    addr_len(&service->addrs[i]));
	for (size_t i = 0; i < service->port_count; i++) {
		hash =
		    hash_text(hash_text(hash, service->ports[i].name), service->ports[i].protocol);
		hash = hash64(hash, &service->ports[i].port, sizeof service->ports[i].port);
	}
	return hash;
}

/* Copies ports and their strings into one block. */
static struct object_port *
copy_ports(const struct object_service *from)
{
	size_t texts = 0, ports = from->port_count * sizeof *from->ports;

	for (size_t i = 0; i < from->port_count; i++)
		texts += strlen(from->ports[i].name) + strlen(from->ports[i].protocol) + 2;
	struct object_port *copy = xmalloc(ports + texts + 1);
	char *text = (char *)copy + ports;
	for (size_t i = 0; i < from->port_count; i++) {
		copy[i].port = from->ports[i].port;
		copy[i].name = text;
		text = stpcpy(text, from->ports[i].name) + 1;
		copy[i].protocol = text;
		text = stpcpy(text, from->ports[i].protocol) + 1;
	}
	return copy;
}

static void
import_here(struct clusterset *cs, const struct object *object)
{
	const struct object_service *from = &object->service;
	struct import *import = import_get(cs, object->namespace, object->name);
	uint64_t digest = service_digest(cs->seed, from);

	import->mark = cs->mark[OBJECT_IMPORT];
	import->version = store_version(object->resource_version);
	if (import->present && import->digest == digest)
		return;
	count_import(cs, import, (size_t)-1);
	free(import->ports);
	import->present = true;
	import->digest = digest;
	import->type = from->type;
	import->addr_count = (uint8_t)from->addr_count;
	memcpy(import->addrs, from->addrs, sizeof import->addrs);
	import->ports = copy_ports(from);
	import->port_count = from->port_count;
	count_import(cs, import, 1);
	import_mark_dirty(cs, import);
}

static void
import_gone(struct clusterset *cs, struct import *import)
{
	if (import == NULL || !import->present)
		return;
	count_import(cs, import, (size_t)-1);
	import->present = false;
	import->version = 0;
	/* import_write() removes the import from the tree and frees it */
	import_mark_dirty(cs, import);
}

static void
import_free(struct clusterset *cs, struct import *import)
{
	table_remove(&cs->imports, import);
	free(import->namespace);
	free(import->name);
	free(import->ports);
	free(import->clusters);
	treecache_owner_free(cs->cache, import->owner);
	free(import);
}

/* --- events --- */

/* Removes the objects that the listing that has just ended did not contain. Removing an entry of a
 * table moves other entries. The function therefore first finds all entries to remove. */
static void
sweep(struct clusterset *cs, enum object_kind kind)
{
	const struct table *table = kind == OBJECT_IMPORT ? &cs->imports : &cs->slices;
	void *entry, **gone;
	size_t place = 0, count = 0;

	if (table->count == 0)
		return;
	gone = xcalloc(table->count, sizeof(void *));
	while ((entry = table_next(table, &place)) != NULL)
		if (cs->mark[kind] != (kind == OBJECT_IMPORT
					      ? ((const struct import *)entry)->mark
					      : ((const struct imported_slice *)entry)->mark))
			gone[count++] = entry;
	for (size_t i = 0; i < count; i++)
		if (kind == OBJECT_IMPORT)
			import_gone(cs, gone[i]);
		else
			import_slice_gone(cs, gone[i]);
	free(gone);
}

static void
object_event(struct clusterset *cs, bool deleted, const struct object *object)
{
	if (object->kind == OBJECT_IMPORT && deleted)
		import_gone(cs, import_find(cs, object->namespace, object->name));
	else if (object->kind == OBJECT_IMPORT)
		import_here(cs, object);
	else if (deleted || object->import.name == NULL || object->slice_count == 0)
		import_slice_gone(cs, import_slice_find(cs, object->namespace, object->name));
	else
		import_slice_here(cs, object);
}

void
clusterset_event(
    void *arg, enum object_kind kind, enum event_type type, const struct object *object)
{
	struct clusterset *cs = arg;

	if (kind == OBJECT_NAMESPACE)
		cs->namespaces_changed = true;
	if (kind != OBJECT_IMPORT && kind != OBJECT_SLICES)
		return;
	if (type == EVENT_LISTING)
		cs->mark[kind]++;
	else if (type == EVENT_SYNCED)
		sweep(cs, kind);
	else if (!object->from_endpoints)
		object_event(cs, type == EVENT_DELETED, object);
}

/* --- writing to the tree --- */

static bool
is_shown(const struct clusterset *cs, const struct import *import)
{
	return cs->config.store == NULL ||
	       store_shows_namespace(cs->config.store, import->namespace);
}

static void
check_namespaces(struct clusterset *cs)
{
	struct import *import;
	size_t place = 0;

	if (!cs->namespaces_changed)
		return;
	cs->namespaces_changed = false;
	while ((import = table_next(&cs->imports, &place)) != NULL)
		if (is_shown(cs, import) != import->shown)
			import_mark_dirty(cs, import);
}

static void
settle_import(struct clusterset *cs, struct import *import)
{
	bool was_cut = import->cut;

	import->dirty = false;
	import->shown = is_shown(cs, import);
	cs->counts.endpoints -= import->endpoints;
	import_write(cs, import);
	cs->counts.endpoints += import->endpoints;
	cs->counts.cut += (size_t)import->cut - (size_t)was_cut;
	if (import->cut && !was_cut)
		log_neterr("serviceimport %s/%s: some endpoints have no name: it would be longer "
			   "than 255 bytes",
		    import->namespace, import->name);
	if (!import->present && import->slice_count == 0)
		import_free(cs, import);
}

void
clusterset_settle(struct clusterset *cs)
{
	check_namespaces(cs);
	for (struct import *next; cs->dirty != NULL; cs->dirty = next) {
		next = cs->dirty->next_dirty;
		settle_import(cs, cs->dirty);
	}
}

/* --- the module --- */

/* Writes the zone's own records: NS, `ns.dns` and `dns-version`. */
static void
write_zone(struct clusterset *cs)
{
	static const uint8_t text[] = "\5" MULTICLUSTER_SCHEMA_VERSION;
	const struct dname *zone = &cs->config.zone;
	struct sets sets = { .ttl_s = cs->config.ttl_s };
	struct dname ns = *zone, version = *zone;
	struct node *apex = treecache_edit(cs->cache, zone->wire);

	/* The names fit, because the options limit the length of the zone. */
	dname_prepend(&ns, "dns", 3);
	dname_prepend(&ns, "ns", 2);
	dname_prepend(&version, "dns-version", 11);
	sets_begin(&sets, TYPE_NS);
	sets_add(&sets, ns.wire, ns.len, NULL, 0);
	sets_end(&sets);
	treecache_records(cs->cache, apex, sets.bytes, sets.len);
	apex->number = NODE_PERMANENT;
	sets.len = 0;
	sets_addrs(&sets, cs->config.ns_addrs, cs->config.ns_addr_count);
	struct node *node = treecache_edit(cs->cache, ns.wire);
	treecache_records(cs->cache, node, sets.bytes, sets.len);
	node->number = NODE_PERMANENT;
	sets.len = 0;
	sets.ttl_s = VERSION_TTL_S;
	sets_begin(&sets, TYPE_TXT);
	sets_add(&sets, text, sizeof text - 1, NULL, 0);
	sets_end(&sets);
	treecache_records(cs->cache, treecache_edit(cs->cache, version.wire), sets.bytes, sets.len);
	free(sets.bytes);
}

struct clusterset *
clusterset_new(const struct clusterset_config *config, struct treecache *cache, uint64_t seed)
{
	struct clusterset *cs = xcalloc(1, sizeof *cs);

	cs->config = *config;
	cs->cache = cache;
	cs->seed = seed;
	write_zone(cs);
	return cs;
}

struct clusterset_counts
clusterset_counts(const struct clusterset *cs)
{
	return cs->counts;
}

bool
clusterset_find(const struct clusterset *cs, const char *namespace, const char *name,
    struct import_source *source, size_t *slices)
{
	const struct import *import = import_find(cs, namespace, name);

	*slices = import == NULL ? 0 : import->slice_count;
	if (import == NULL || !import->present)
		return false;
	*source = (struct import_source){ .headless = import->type == SERVICE_HEADLESS,
		.shown = import->shown,
		.resource_version = import->version,
		.slices = import->slice_count,
		.endpoints = import->owner->endpoints->published,
		.clusters = import->cluster_count,
		.cut = import->cut };
	return true;
}

void
clusterset_free(struct clusterset *cs)
{
	void *entry;

	if (cs == NULL)
		return;
	while ((entry = table_next(&cs->slices, &(size_t){ 0 })) != NULL)
		import_slice_gone(cs, entry);
	table_free(&cs->slices);
	while ((entry = table_next(&cs->imports, &(size_t){ 0 })) != NULL) {
		struct import *import = entry;

		import->present = false;
		import_write(cs, import);
		import_free(cs, import);
	}
	table_free(&cs->imports);
	table_free(&cs->ports);
	free(cs);
}

/* --- EndpointSlices of imports, by namespace and name: their ready endpoints are stored in the tree --- */

struct import_key {
	const char *namespace, *name;
};

static bool
same_slice(const void *entry, const void *key)
{
	const struct imported_slice *slice = entry;
	const struct import_key *wanted = key;

	return strcmp(slice->name, wanted->name) == 0 &&
	       strcmp(slice->import->namespace, wanted->namespace) == 0;
}

/* --- the clusters of an import --- */

/* Returns the index of the cluster with this label, or the index at which to insert it. */
static size_t
cluster_place(const struct import *import, const uint8_t *label)
{
	size_t low = 0, high = import->cluster_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (dname_compare(import->clusters[middle]->label, label) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct import_cluster *
cluster_get(struct clusterset *cs, struct import *import, const uint8_t *label)
{
	size_t at = cluster_place(import, label);
	struct dname name;

	if (at < import->cluster_count && dname_equal(import->clusters[at]->label, label))
		return import->clusters[at];
	struct import_cluster *cluster = xcalloc(1, sizeof *cluster);
	memcpy(cluster->label, label, 2u + *label);
	import_owner_name(cs, import, &name);
	if (dname_prepend(&name, label + 1, *label) == 0)
		cluster->owner = treecache_owner(cs->cache, name.wire);
	if (import->cluster_count == import->cluster_capacity) {
		import->cluster_capacity =
		    import->cluster_capacity == 0 ? 1 : 2 * import->cluster_capacity;
		import->clusters = xreallocarray(
		    import->clusters, import->cluster_capacity, sizeof *import->clusters);
	}
	memmove(&import->clusters[at + 1], &import->clusters[at],
	    (import->cluster_count - at) * sizeof *import->clusters);
	import->clusters[at] = cluster;
	import->cluster_count++;
	return cluster;
}

/* Frees the cluster if it has no slices left. */
static void
cluster_drop(struct clusterset *cs, struct import *import, struct import_cluster *cluster)
{
	size_t at = cluster_place(import, cluster->label);

	if (cluster->slices > 0)
		return;
	if (cluster->owner != NULL && cluster->owner->endpoints->flags & ENDPOINTS_ATTACHED) {
		treecache_endpoint_set_flags(cs->cache, cluster->owner, 0);
		treecache_edit(cs->cache, cluster->owner->name)->flags = 0;
		treecache_prune(cs->cache, cluster->owner->name);
	}
	if (cluster->owner != NULL)
		treecache_owner_free(cs->cache, cluster->owner);
	import->cluster_count--;
	memmove(&import->clusters[at], &import->clusters[at + 1],
	    (import->cluster_count - at) * sizeof *import->clusters);
	free(cluster);
}

/* --- slices --- */

static struct imported_slice *
import_slice_find(const struct clusterset *cs, const char *namespace, const char *name)
{
	const struct import_key key = { namespace, name };

	return table_find(&cs->slices, import_hash(cs, namespace, name), same_slice, &key);
}

/* Returns the name that the endpoint should have, or NULL if it is named after its address. */
static const char *
endpoint_label(const struct clusterset *cs, const struct object_endpoint *from)
{
	return from->hostname != NULL          ? from->hostname
	       : cs->config.endpoint_pod_names ? from->pod
					       : NULL;
}

static uint64_t
endpoints_digest(const struct clusterset *cs, const struct object_slice *from)
{
	uint64_t hash = cs->seed;

	for (size_t i = 0; i < from->endpoint_count; i++) {
		const struct object_endpoint *endpoint = &from->endpoints[i];
		const char *label = endpoint_label(cs, endpoint);

		if (!endpoint->ready)
			continue;
		hash = hash64(
		    hash + endpoint->addr.family, endpoint->addr.bytes, addr_len(&endpoint->addr));
		if (label != NULL)
			hash = hash64(hash + 1, label, strlen(label));
	}
	return hash;
}

/* --- endpoints in the tree --- */

/* Returns the endpoint's own label: its host name, or its address with dashes. */
static const uint8_t *
own_label(const struct clusterset *cs, const struct object_endpoint *from,
    uint8_t label[1 + DNAME_LABEL_MAX + 8])
{
	const char *text = endpoint_label(cs, from);

	if (text == NULL)
		return tree_addr_label(&from->addr, label);
	label[0] = (uint8_t)strlen(text);
	memcpy(label + 1, text, label[0]);
	return label;
}

static void
put_source(
    struct clusterset *cs, struct owner *owner, uint32_t *slot, const struct slice_source *source)
{
	if (source->count > 0) {
		*slot = treecache_slice(cs->cache, owner, *slot, source);
		return;
	}
	if (*slot != 0)
		treecache_slice_remove(cs->cache, owner, *slot);
	*slot = 0;
}

/* Writes the ready endpoints of the slice into the tree, in place of the previous endpoints. */
static void
write_slice(struct clusterset *cs, struct imported_slice *slice, const struct object_slice *from)
{
	const struct import_cluster *cluster = slice->cluster;
	size_t capacity = from->endpoint_count + 1;
	struct endpoint *all = xcalloc(capacity, sizeof *all),
			*named = xcalloc(capacity, sizeof *named);
	struct slice_source source = {
		.name = slice->name, .family = from->family, .ports = slice->ports, .endpoints = all
	};
	size_t names = 0;

	for (size_t i = 0; i < from->endpoint_count; i++) {
		const struct object_endpoint *endpoint = &from->endpoints[i];
		uint8_t text[1 + DNAME_LABEL_MAX + 8];

		if (!endpoint->ready)
			continue;
		const uint8_t *label = own_label(cs, endpoint, text);
		all[source.count++] = (struct endpoint){ endpoint->addr, true, NULL };
		if (cluster->owner != NULL && 1u + *label + cluster->owner->len <= DNAME_MAX)
			named[names++] =
			    (struct endpoint){ endpoint->addr, true, endpoint_label(cs, endpoint) };
	}
	slice->import->cut_slices -= slice->cut;
	slice->cut = names < source.count;
	slice->import->cut_slices += slice->cut;
	put_source(cs, slice->import->owner, &slice->slot, &source);
	source.endpoints = named;
	source.count = names;
	if (cluster->owner != NULL)
		put_source(cs, cluster->owner, &slice->cluster_slot, &source);
	free(all);
	free(named);
}

static void
take_out(struct clusterset *cs, struct imported_slice *slice)
{
	if (slice->slot != 0)
		treecache_slice_remove(cs->cache, slice->import->owner, slice->slot);
	if (slice->cluster_slot != 0)
		treecache_slice_remove(cs->cache, slice->cluster->owner, slice->cluster_slot);
	port_lists_put(&cs->ports, cs->cache, slice->ports);
	slice->import->cut_slices -= slice->cut;
	slice->import->slice_count--;
	slice->cluster->slices--;
	cluster_drop(cs, slice->import, slice->cluster);
	import_mark_dirty(cs, slice->import);
}

/* --- events --- */

static void
import_slice_gone(struct clusterset *cs, struct imported_slice *slice)
{
	if (slice == NULL)
		return;
	table_remove(&cs->slices, slice);
	take_out(cs, slice);
	free(slice->name);
	free(slice);
	cs->counts.slices--;
}

/* Creates the entry of an object in this import and cluster. The object must not have one. */
static struct imported_slice *
slice_new(struct clusterset *cs, const struct object *object, const uint8_t *cluster)
{
	struct imported_slice *slice = xcalloc(1, sizeof *slice);

	slice->import = import_get(cs, object->namespace, object->import.name);
	slice->cluster = cluster_get(cs, slice->import, cluster);
	slice->name = xstrdup(object->name);
	slice->hash = import_hash(cs, object->namespace, object->name);
	table_add(&cs->slices, slice);
	slice->import->slice_count++;
	slice->cluster->slices++;
	cs->counts.slices++;
	return slice;
}

static void
import_slice_here(struct clusterset *cs, const struct object *object)
{
	struct imported_slice *slice = import_slice_find(cs, object->namespace, object->name);
	uint64_t version = store_version(object->resource_version);
	uint8_t cluster[1 + DNAME_LABEL_MAX + 1] = { (uint8_t)strlen(object->import.cluster) };
	bool same = slice != NULL && strcmp(slice->import->name, object->import.name) == 0;

	if (slice != NULL && version != 0 && slice->version == version) {
		slice->mark = cs->mark[OBJECT_SLICES];
		return;
	}
	memcpy(cluster + 1, object->import.cluster, *cluster);
	dname_lower(cluster + 1, *cluster);
	if (!same || !dname_equal(slice->cluster->label, cluster)) {
		import_slice_gone(cs, slice);
		slice = slice_new(cs, object, cluster);
	}
	slice->mark = cs->mark[OBJECT_SLICES];
	slice->version = version;
	const struct object_slice *from = &object->slices[0];
	const struct ports *old = slice->ports;
	uint64_t digest = endpoints_digest(cs, from);
	slice->ports = port_lists_get(&cs->ports, cs->cache, from->ports, from->port_count);
	if (old != slice->ports || slice->digest != digest) {
		slice->digest = digest;
		write_slice(cs, slice, from);
		import_mark_dirty(cs, slice->import);
	}
	port_lists_put(&cs->ports, cs->cache, old);
}

/* --- records of an import --- */

/*
 * Writes what readers see of one ServiceImport. The records of a ClusterSetIP are the same as a
 * Service's (service_records.h). For a headless import, the tree shows the endpoints that
 * write_slice() has packed.
 */

/* `SERVICE.NAMESPACE.svc.` */
static void
name_below_zone(const struct import *import, struct dname *name)
{
	*name = (struct dname){ .len = 1 };
	dname_prepend(name, "svc", 3);
	dname_prepend(name, import->namespace, strlen(import->namespace));
	dname_prepend(name, import->name, strlen(import->name));
	dname_lower(name->wire, name->len);
}

static void
import_owner_name(const struct clusterset *cs, const struct import *import, struct dname *name)
{
	name_below_zone(import, name);
	/* The name fits, because the options limit the length of the zone. */
	dname_append(name, cs->config.zone.wire);
}

/* --- ClusterSetIP --- */

/* The records_sink for names below the zone. `arg` is the struct clusterset. */
static void
put_below_zone(void *arg, const uint8_t *wire, const void *sets, size_t len)
{
	struct clusterset *cs = arg;
	struct dname name = { .len = (uint8_t)dname_length(wire, DNAME_MAX) };

	memcpy(name.wire, wire, name.len);
	if (dname_append(&name, cs->config.zone.wire) == 0)
		treecache_records(cs->cache, treecache_edit(cs->cache, name.wire), sets, len);
}

static void
show_ip(struct clusterset *cs, struct import *import)
{
	struct records_config config = { .zone = cs->config.zone, .ttl_s = cs->config.ttl_s };
	struct object_service service = { .type = import->type,
		.addr_count = import->addr_count,
		.external_name = "",
		.ports = import->ports,
		.port_count = import->port_count };
	struct dname below;
	const char *why;

	memcpy(service.addrs, import->addrs, sizeof service.addrs);
	name_below_zone(import, &below);
	/* The name exists even without records. */
	treecache_edit(cs->cache, import->owner->name)->number = NODE_PERMANENT;
	records_for_service(&config, below.wire, &service, put_below_zone, cs, &why);
	for (size_t i = 0; i < import->addr_count; i++)
		treecache_owner_addr(cs->cache, import->owner, &import->addrs[i], true);
	memcpy(import->shown_addrs, import->addrs, sizeof import->shown_addrs);
	import->shown_addr_count = import->addr_count;
}

static void
hide_ip(struct clusterset *cs, struct import *import)
{
	struct node *node = treecache_edit(cs->cache, import->owner->name);

	treecache_clear(cs->cache, node);
	node->number = 0;
	for (size_t i = 0; i < import->shown_addr_count; i++)
		treecache_owner_addr(cs->cache, import->owner, &import->shown_addrs[i], false);
	import->shown_addr_count = 0;
	treecache_prune(cs->cache, import->owner->name);
}

/* --- headless --- */

/* Attaches the endpoints of an owner to its node, or detaches them. */
static void
show_endpoints(struct clusterset *cs, struct owner *owner, uint32_t flags, uint8_t node_flag)
{
	bool on = flags != 0 && owner->endpoints->published > 0;

	if (on == ((owner->endpoints->flags & ENDPOINTS_ATTACHED) != 0))
		return;
	treecache_endpoint_set_flags(cs->cache, owner, on ? flags | ENDPOINTS_ATTACHED : 0);
	treecache_edit(cs->cache, owner->name)->flags = on ? node_flag : 0;
	if (!on)
		treecache_prune(cs->cache, owner->name);
}

static void
show_import(struct clusterset *cs, struct import *import, bool on)
{
	for (size_t i = 0; i < import->cluster_count; i++)
		if (import->clusters[i]->owner != NULL)
			show_endpoints(cs, import->clusters[i]->owner, on ? ENDPOINTS_REVERSE : 0,
			    NODE_IMPORT_CLUSTER);
	show_endpoints(cs, import->owner, on ? ENDPOINTS_APEX : 0, NODE_IMPORT);
}

/* --- writing an import --- */

static void
import_write(struct clusterset *cs, struct import *import)
{
	enum import_shows now = !import->present || !import->shown ? IMPORT_NOTHING
				: import->type == SERVICE_HEADLESS ? IMPORT_ENDPOINTS
								   : IMPORT_IP;

	if (import->shows == IMPORT_IP)
		hide_ip(cs, import);
	show_import(cs, import, now == IMPORT_ENDPOINTS);
	if (now == IMPORT_IP)
		show_ip(cs, import);
	import->shows = now;
	import->endpoints = now == IMPORT_ENDPOINTS ? import->owner->endpoints->published : 0;
	import->cut = now == IMPORT_ENDPOINTS && import->cut_slices > 0;
}
