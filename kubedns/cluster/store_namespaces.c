/*
 * Namespaces, and what all entries of the store need: keyed hashes, versions and labels. A
 * namespace exists for DNS while its object is there, or while a Service is in it. Pods' addresses
 * and the tree's nodes hold its number in place of a pointer; a number is reused once its namespace
 * is gone and nothing refers to it.
 */
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/store_internal.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/xalloc.h"

uint64_t
store_hash_names(const struct store *store, const char *a, const char *b)
{
	uint64_t hash = hash64(treecache_next(store->cache)->seed, a, strlen(a) + 1);

	return hash64(hash, b, strlen(b));
}

/* A resourceVersion is opaque to clients, but API servers make it a number; any other text becomes
 * its hash. It is only compared for equality and shown to people. */
uint64_t
store_version(const char *text)
{
	char *end;

	if (*text == '\0')
		return 0;
	uint64_t number = strtoull(text, &end, 10);
	return *end == '\0' ? number : hash64(HASH_START, text, strlen(text)) | UINT64_C(1) << 63;
}

bool
store_label(uint8_t label[1 + DNAME_LABEL_MAX], const char *text)
{
	size_t len = strlen(text);

	if (!dname_label_ok(text, len))
		return false;
	label[0] = (uint8_t)len;
	memcpy(label + 1, text, len);
	dname_lower(label + 1, len);
	return true;
}

void
namespace_name(const struct namespace *namespace, struct dname *name)
{
	static const uint8_t svc[] = "\3svc";

	name->len = sizeof svc;
	memcpy(name->wire, svc, sizeof svc);
	dname_prepend(name, namespace->label + 1, namespace->label[0]);
}

static bool
same_namespace(const void *entry, const void *key)
{
	const struct namespace *namespace = entry;

	return strcmp((const char *)namespace->label + 1, key) == 0;
}

struct namespace *
namespace_find(const struct store *store, const char *name)
{
	return table_find(
	    &store->namespaces, (uint32_t)store_hash_names(store, name, ""), same_namespace, name);
}

static uint32_t
take_number(struct store *store, struct namespace *namespace)
{
	while (store->lowest_free < store->number_count &&
	       store->by_number[store->lowest_free] != NULL)
		store->lowest_free++;
	if (store->lowest_free == store->number_room) {
		store->number_room = store->number_room == 0 ? 64 : store->number_room * 2;
		store->by_number =
		    xreallocarray(store->by_number, store->number_room, sizeof(struct namespace *));
	}
	if (store->lowest_free == store->number_count)
		store->number_count++;
	store->by_number[store->lowest_free] = namespace;
	return ++store->lowest_free;
}

/* The namespace's entry, made if missing; NULL if its name is no label. */
struct namespace *
namespace_get(struct store *store, const char *name)
{
	struct namespace *namespace = namespace_find(store, name);
	uint8_t label[1 + DNAME_LABEL_MAX];

	if (namespace != NULL || !store_label(label, name))
		return namespace;
	namespace = xcalloc(1, sizeof *namespace + label[0] + 2u);
	memcpy(namespace->label, label, label[0] + 1u);
	namespace->hash = (uint32_t)store_hash_names(store, name, "");
	namespace->number = take_number(store, namespace);
	store->visibility_due = store->config.visibility;
	table_add(&store->namespaces, namespace);
	return namespace;
}

bool
is_default(const uint8_t *label)
{
	static const uint8_t text[] = "\7default";

	return label[0] == text[0] && memcmp(label, text, sizeof text - 1) == 0;
}

/* Makes the tree say whether the namespace exists. */
void
namespace_show(struct store *store, struct namespace *namespace)
{
	struct dname name;
	bool exists =
	    (namespace->present || namespace->shown > 0) && namespace_is_chosen(store, namespace);

	namespace_name(namespace, &name);
	if (exists) {
		const struct node *node = tree_find(treecache_next(store->cache), name.wire);
		uint8_t flags = namespace->present && namespace->no_search ? NODE_NO_SEARCH : 0;
		if (namespace->named > 0)
			flags |= NODE_HAS_HEADLESS;
		if (store->config.visibility && is_default(namespace->label))
			flags |= NODE_OPEN;
		if (node == NULL || node->number != namespace->number || node->flags != flags) {
			struct node *edited = treecache_edit(store->cache, name.wire);
			edited->number = namespace->number;
			edited->flags = flags;
		}
	} else if (tree_find(treecache_next(store->cache), name.wire) != NULL) {
		struct node *edited = treecache_edit(store->cache, name.wire);
		edited->number = 0;
		edited->flags = 0;
		treecache_prune(store->cache, name.wire);
	}
}

void
namespace_drop(struct store *store, struct namespace *namespace)
{
	if (namespace->present || namespace->uses > 0)
		return;
	visibility_forget(store, namespace);
	store->visibility_due = store->config.visibility;
	store->by_number[namespace->number - 1] = NULL;
	if (store->lowest_free > namespace->number - 1)
		store->lowest_free = namespace->number - 1;
	table_remove(&store->namespaces, namespace);
	free(namespace);
}

void
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

void
namespace_event(struct store *store, bool deleted, const struct object *object)
{
	struct namespace *namespace = namespace_get(store, object->name);

	if (namespace == NULL)
		return;
	namespace->mark = store->mark[OBJECT_NAMESPACE];
	namespace->no_search = object->no_search;
	if (!deleted) {
		chosen_by_labels(store, namespace, object);
		visibility_namespace(store, namespace, object);
	}
	namespace_set(store, namespace, !deleted, store_version(object->resource_version));
}
