/*
 * The addresses of pods of one family, found by the pods' names. An open-addressing hash table that
 * stores the entries themselves, because they are many and small. The table grows by a quarter, so
 * its size stays close to the highest number of entries. A pod has one entry for each of its
 * addresses.
 */
#ifndef KUBEDNS_CLUSTER_POD_TABLE_H
#define KUBEDNS_CLUSTER_POD_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

/* Packed: 17 bytes with an IPv4 address, 29 bytes with an IPv6 address. */
struct pod_addr {
	uint64_t name_hash; /* keyed hash of the name; the name itself is not stored */
	uint32_t number;    /* number of the namespace; 0: the place is free */
	uint8_t mark;
	uint8_t bytes[]; /* the address */
} __attribute__((packed));

struct pod_table {
	uint8_t *places;
	size_t capacity; /* number of places, below 2^32; at most four fifths are in use */
	size_t count;
	uint8_t family;
};

/* Returns the pod's next entry after `previous` (NULL: the first one). Returns NULL at the end. */
struct pod_addr *pod_table_next(
    const struct pod_table *table, uint64_t name_hash, const struct pod_addr *previous);

/* Returns the entry in place `i`, or NULL. */
struct pod_addr *pod_table_at(const struct pod_table *table, size_t i);

/* Returns the address in an entry of this table. */
struct addr pod_table_addr(const struct pod_table *table, const struct pod_addr *entry);

/* Adds an address of the table's family, which the pod must not have yet. Moves entries. */
void pod_table_add(struct pod_table *table, uint64_t name_hash, uint32_t number, uint8_t mark,
    const struct addr *addr);

/* Removes an entry. Entries in later places may move towards it, even across the end of the table.
 * A loop over pod_table_at() must therefore look at the same place again. */
void pod_table_remove(struct pod_table *table, struct pod_addr *entry);

void pod_table_free(struct pod_table *table);

#endif
