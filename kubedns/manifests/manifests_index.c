#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "kubedns/cluster/external/object_external.h"
#include "kubedns/manifests/manifests_index.h"
#include "lib/hash.h"
#include "lib/xalloc.h"

enum { BUCKETS_MIN = 64 };

void
manifests_index_init(struct manifests_index *index)
{
	*index = (struct manifests_index){ .bucket_count = BUCKETS_MIN };
	index->buckets = xcalloc(index->bucket_count, sizeof(struct manifest_entry *));
	/* With a secret seed, the author of a file cannot choose names that share a chain. If the
	 * kernel has no random numbers yet, only this protection is missing. */
	if (getrandom(&index->seed, sizeof index->seed, GRND_NONBLOCK) < 0)
		index->seed = (uintptr_t)index->buckets;
}

void
manifests_index_free(struct manifests_index *index)
{
	free(index->buckets);
	*index = (struct manifests_index){ 0 };
}

/* Hashes a string with its NUL. The boundary between two fields thus changes the hash. */
static uint64_t
hash_text(uint64_t hash, const char *s)
{
	return s == NULL ? hash64(hash, "\1", 2) : hash64(hash, s, strlen(s) + 1);
}

static uint64_t
hash_number(uint64_t hash, uint64_t number)
{
	return hash64(hash, &number, sizeof number);
}

static uint64_t
hash_key(const struct manifests_index *index, enum object_kind kind, const char *namespace,
    const char *name)
{
	uint64_t hash = hash_number(index->seed, kind);

	return hash_text(hash_text(hash, namespace), name);
}

static struct manifest_entry **
bucket(const struct manifests_index *index, enum object_kind kind, const char *namespace,
    const char *name)
{
	return &index->buckets[hash_key(index, kind, namespace, name) & (index->bucket_count - 1)];
}

static bool
is_object(const struct manifest_entry *entry, enum object_kind kind, const char *namespace,
    const char *name)
{
	return entry->kind == kind && strcmp(manifest_entry_name(entry), name) == 0 &&
	       strcmp(manifest_entry_namespace(entry), namespace) == 0;
}

struct manifest_entry *
manifests_index_find(const struct manifests_index *index, enum object_kind kind,
    const char *namespace, const char *name, const struct manifest_file *file)
{
	struct manifest_entry *e = *bucket(index, kind, namespace, name);

	while (e != NULL && (e->file != file || !is_object(e, kind, namespace, name)))
		e = e->next;
	return e;
}

struct manifest_entry *
manifests_index_holder(const struct manifests_index *index, enum object_kind kind,
    const char *namespace, const char *name, const struct manifest_file *except)
{
	struct manifest_entry *best = NULL;

	for (struct manifest_entry *e = *bucket(index, kind, namespace, name); e != NULL;
	     e = e->next) {
		if (e->file != except && is_object(e, kind, namespace, name) &&
		    (best == NULL || strcmp(e->file->name, best->file->name) > 0))
			best = e;
	}
	return best;
}

static void
grow(struct manifests_index *index)
{
	struct manifest_entry **old = index->buckets;
	size_t old_count = index->bucket_count;

	index->bucket_count *= 2;
	index->buckets = xcalloc(index->bucket_count, sizeof(struct manifest_entry *));
	for (size_t i = 0; i < old_count; i++) {
		for (struct manifest_entry *e = old[i], *next; e != NULL; e = next) {
			next = e->next;
			struct manifest_entry **to = bucket(
			    index, e->kind, manifest_entry_namespace(e), manifest_entry_name(e));
			e->next = *to;
			*to = e;
		}
	}
	free(old);
}

struct manifest_entry *
manifests_index_add(
    struct manifests_index *index, const struct object *object, struct manifest_file *file)
{
	size_t namespace_len = strlen(object->namespace), name_len = strlen(object->name);

	if (index->count >= index->bucket_count)
		grow(index);
	struct manifest_entry *e = xmalloc(sizeof *e + namespace_len + name_len + 2);
	*e = (struct manifest_entry){
		.file = file, .kind = (uint8_t)object->kind, .namespace_len = (uint8_t)namespace_len
	};
	memcpy(e->key, object->namespace, namespace_len + 1);
	memcpy(e->key + namespace_len + 1, object->name, name_len + 1);
	struct manifest_entry **to = bucket(index, object->kind, object->namespace, object->name);
	e->next = *to;
	*to = e;
	e->next_of_file = file->entries;
	file->entries = e;
	index->count++;
	return e;
}

void
manifests_index_remove(struct manifests_index *index, struct manifest_entry *entry)
{
	struct manifest_entry **at =
	    bucket(index, entry->kind, manifest_entry_namespace(entry), manifest_entry_name(entry));

	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	index->count--;
	free(entry);
}

static uint64_t
hash_addr(uint64_t hash, const struct addr *addr)
{
	return hash64(hash_number(hash, addr->family), addr->bytes, addr_len(addr));
}

static uint64_t
hash_ports(uint64_t hash, const struct object_port *ports, size_t count)
{
	hash = hash_number(hash, count);
	for (size_t i = 0; i < count; i++) {
		hash = hash_text(hash_text(hash, ports[i].name), ports[i].protocol);
		hash = hash_number(hash, ports[i].port);
	}
	return hash;
}

static uint64_t
hash_service(uint64_t hash, const struct object_service *svc)
{
	hash = hash_number(hash, (uint64_t)svc->type << 1 | svc->publish_not_ready);
	hash = hash_number(hash, svc->addr_count);
	for (size_t i = 0; i < svc->addr_count; i++)
		hash = hash_addr(hash, &svc->addrs[i]);
	return hash_ports(hash_text(hash, svc->external_name), svc->ports, svc->port_count);
}

static uint64_t
hash_slice(uint64_t hash, const struct object_slice *slice)
{
	hash = hash_number(hash_text(hash, slice->service), slice->family);
	hash = hash_ports(hash, slice->ports, slice->port_count);
	hash = hash_number(hash, slice->endpoint_count);
	for (size_t i = 0; i < slice->endpoint_count; i++) {
		const struct object_endpoint *ep = &slice->endpoints[i];

		hash = hash_addr(hash_number(hash, ep->ready), &ep->addr);
		hash = hash_text(hash_text(hash, ep->hostname), ep->pod);
	}
	for (size_t i = 0; i < slice->place_count; i++) {
		const struct object_place *place = &slice->places[i];

		hash = hash_text(
		    hash_number(hash, (uint64_t)place->endpoint << 8 | place->kind), place->name);
	}
	return hash;
}

static uint64_t
hash_strings(uint64_t hash, const struct object_key_value *items, size_t count)
{
	hash = hash_number(hash, count);
	for (size_t i = 0; i < count; i++) {
		hash = hash_text(hash, items[i].key);
		hash = hash_number(hash, items[i].len);
		hash = hash64(hash, items[i].value, items[i].len);
	}
	return hash;
}

uint64_t
manifest_digest(const struct manifests_index *index, const struct object *object)
{
	uint64_t hash = hash_text(index->seed, object->resource_version);

	hash = hash_number(hash, (uint64_t)object->trigger_time_ns);
	hash = hash_text(hash_text(hash, object->import.name), object->import.cluster);
	if (object->kind == OBJECT_SERVICE || object->kind == OBJECT_IMPORT)
		hash = hash_service(hash, &object->service);
	for (size_t i = 0; i < object->slice_count; i++)
		hash = hash_slice(hash, &object->slices[i]);
	hash = hash_number(hash, (uint64_t)object->pod.running | (uint64_t)object->pod.ended << 1 |
				     (uint64_t)object->pod.on_host << 2);
	hash = hash_text(hash, object->pod.node);
	for (size_t i = 0; i < object->pod.addr_count; i++)
		hash = hash_addr(hash, &object->pod.addrs[i]);
	hash = hash_text(hash_text(hash, object->node.zone), object->node.region);
	hash = hash_strings(hash, object->data, object->data_count);
	hash = hash_strings(hash, object->labels, object->label_count);
	if (object->external != NULL)
		hash = object_external_digest(hash, object->external);
	hash = hash_text(hash_text(hash, object->visibility.sees), object->visibility.visible_to);
	return hash != 0 ? hash : 1;
}
