/* The events that change imports: ServiceImports, and the EndpointSlices that name one. */
#include "kubedns/cluster/clusterset.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/clusterset_internal.h"
#include "kubedns/cluster/rrset_writer.h"
#include "kubedns/cluster/store.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/hash.h"
#include "lib/log.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

enum { VERSION_TTL_S = 28800 };

#define MULTICLUSTER_SCHEMA_VERSION "1.0.0" /* KEP-1645, specification.md 2.2 */

static uint64_t
hash_text(uint64_t hash, const char *text)
{
	return hash64(hash, text, strlen(text) + 1);
}

uint64_t
import_version(const struct object *object)
{
	return strtoull(object->resource_version, NULL, 10);
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

uint32_t
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

struct import *
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

void
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

/* Ports and their texts, in one block. */
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
	import->version = import_version(object);
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
	import_mark_dirty(cs, import); /* it is freed when it has been taken out of the tree */
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

/* Removes what the listing which has just ended did not show. Of the entries of a table some are
 * removed, which moves others: all are found before. */
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

/* --- into the tree --- */

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
		log_neterr(
		    "serviceimport %s/%s: not all of its endpoints have names: no name can be "
		    "longer than 255 bytes",
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

/* --- the whole --- */

/* NS, `ns.dns` and `dns-version`. */
static void
write_zone(struct clusterset *cs)
{
	static const uint8_t text[] = "\5" MULTICLUSTER_SCHEMA_VERSION;
	const struct dname *zone = &cs->config.zone;
	struct sets sets = { .ttl_s = cs->config.ttl_s };
	struct dname ns = *zone, version = *zone;
	struct node *apex = treecache_edit(cs->cache, zone->wire);

	/* The options leave room. */
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
