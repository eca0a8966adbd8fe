/*
 * An index of the objects in a directory: which file has which object, and a hash of its content.
 * The objects themselves are not stored.
 *
 *	(kind, namespace, name) --> entry of a.yaml --> entry of z.yaml
 *
 * If an object is in several files, the file with the last name takes precedence.
 */
#ifndef KUBEDNS_MANIFESTS_MANIFESTS_INDEX_H
#define KUBEDNS_MANIFESTS_MANIFESTS_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/cluster/object.h"

/* The index's data about a file of the directory. */
struct manifest_file {
	char *name;
	struct manifest_entry *entries; /* the file's objects, in no particular order */
};

struct manifest_entry {
	struct manifest_entry *next; /* next in the hash chain */
	struct manifest_entry *next_of_file;
	struct manifest_file *file;
	/* Digest of the object as it was last sent; 0: send the object again. */
	uint64_t digest;
	uint8_t kind;
	bool seen; /* the current reading has found the object */
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

/* Frees the table. The entries of all files must have been removed. */
void manifests_index_free(struct manifests_index *index);

/* Returns the entry of this object in `file`, or NULL. */
struct manifest_entry *manifests_index_find(const struct manifests_index *index,
    enum object_kind kind, const char *namespace, const char *name,
    const struct manifest_file *file);

/* Returns the entry of this object that takes precedence among all files other than `except`, or NULL. */
struct manifest_entry *manifests_index_holder(const struct manifests_index *index,
    enum object_kind kind, const char *namespace, const char *name,
    const struct manifest_file *except);

/* Adds an entry (digest 0) for an object that `file` does not have yet. */
struct manifest_entry *manifests_index_add(
    struct manifests_index *index, const struct object *object, struct manifest_file *file);

/* Removes the entry from its chain and frees it. The caller must have removed it from its file's list. */
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

/* Returns a hash of all fields of `object`, including resourceVersion. The hash is never 0. */
uint64_t manifest_digest(const struct manifests_index *index, const struct object *object);

#endif
