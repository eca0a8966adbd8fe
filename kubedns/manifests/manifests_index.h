/*
 * What is remembered of the objects of a directory: which file has which object, and a hash of its
 * content; not the object itself.
 *
 *	(kind, namespace, name) --> entry of a.yaml --> entry of z.yaml
 *
 * An object may be in several files: then the last file by name is the holder that counts.
 */
#ifndef KUBEDNS_MANIFESTS_MANIFESTS_INDEX_H
#define KUBEDNS_MANIFESTS_MANIFESTS_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/cluster/object.h"

/* A file of the directory, as the index sees it. */
struct manifest_file {
	char *name;
	struct manifest_entry *entries; /* its objects, in no order */
};

struct manifest_entry {
	struct manifest_entry *next; /* in the hash chain */
	struct manifest_entry *next_of_file;
	struct manifest_file *file;
	uint64_t digest; /* of the object as it was last sent;
			  * 0: to be sent again */
	uint8_t kind;
	bool seen; /* by the reading that is going on */
	uint8_t namespace_len;
	char key[]; /* namespace, NUL, name, NUL */
};

struct manifests_index {
	struct manifest_entry **buckets;
	size_t bucket_count; /* a power of two */
	size_t count;
	uint64_t seed;
};

void manifests_index_init(struct manifests_index *index);

/* Frees the table; every file's entries must have been removed. */
void manifests_index_free(struct manifests_index *index);

/* The entry of this object in `file`, or NULL. */
struct manifest_entry *manifests_index_find(const struct manifests_index *index,
    enum object_kind kind, const char *namespace, const char *name,
    const struct manifest_file *file);

/* The holder of this object that counts, `except` left out, or NULL. */
struct manifest_entry *manifests_index_holder(const struct manifests_index *index,
    enum object_kind kind, const char *namespace, const char *name,
    const struct manifest_file *except);

/* Adds an entry (digest 0) for an object that `file` does not hold yet. */
struct manifest_entry *manifests_index_add(
    struct manifests_index *index, const struct object *object, struct manifest_file *file);

/* Takes the entry out of its chain and frees it; the caller has taken it off its file's list. */
void manifests_index_remove(struct manifests_index *index, struct manifest_entry *entry);

static inline const char *
manifest_entry_namespace(const struct manifest_entry *entry)
{
	return entry->key;
}

static inline const char *
manifest_entry_name(const struct manifest_entry *entry)
{
	return entry->key + entry->namespace_len + 1;
}

/* A hash of everything that `object` says, resourceVersion included; never 0. */
uint64_t manifest_digest(const struct manifests_index *index, const struct object *object);

#endif
