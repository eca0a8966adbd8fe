/* The EndpointSlices of imports, by namespace and name: their ready endpoints go into the tree, packed. */
#include "kubedns/cluster/clusterset.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/clusterset_internal.h"
#include "kubedns/cluster/port_lists.h"
#include "lib/hash.h"
#include "lib/xalloc.h"

struct key {
	const char *namespace, *name;
};

static bool
same_slice(const void *entry, const void *key)
{
	const struct imported_slice *slice = entry;
	const struct key *wanted = key;

	return strcmp(slice->name, wanted->name) == 0 &&
	       strcmp(slice->import->namespace, wanted->namespace) == 0;
}

/* --- the clusters of an import --- */

/* Where the cluster of this label is, or belongs. */
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
	if (import->cluster_count == import->cluster_room) {
		import->cluster_room = import->cluster_room == 0 ? 1 : 2 * import->cluster_room;
		import->clusters =
		    xreallocarray(import->clusters, import->cluster_room, sizeof *import->clusters);
	}
	memmove(&import->clusters[at + 1], &import->clusters[at],
	    (import->cluster_count - at) * sizeof *import->clusters);
	import->clusters[at] = cluster;
	import->cluster_count++;
	return cluster;
}

/* Frees the cluster if it has no slice any more. */
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

struct imported_slice *
import_slice_find(const struct clusterset *cs, const char *namespace, const char *name)
{
	const struct key key = { namespace, name };

	return table_find(&cs->slices, import_hash(cs, namespace, name), same_slice, &key);
}

/* The name that the endpoint is to have, or NULL: its address. */
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

/* --- into the tree --- */

/* The endpoint's label of its own: its host name, or its address with dashes. */
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

/* Puts the ready endpoints of the slice into the tree, in place of those that were there. */
static void
write_slice(struct clusterset *cs, struct imported_slice *slice, const struct object_slice *from)
{
	const struct import_cluster *cluster = slice->cluster;
	size_t room = from->endpoint_count + 1;
	struct endpoint *all = xcalloc(room, sizeof *all), *named = xcalloc(room, sizeof *named);
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

void
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

/* An entry for the object, which has none, in this import and cluster. */
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

void
import_slice_here(struct clusterset *cs, const struct object *object)
{
	struct imported_slice *slice = import_slice_find(cs, object->namespace, object->name);
	uint64_t version = import_version(object);
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
