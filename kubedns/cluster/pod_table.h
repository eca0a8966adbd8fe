/*
 * The addresses of pods of one family, found by the pods' names: an open-addressing hash table that
 * holds the entries themselves, since they are many and small. It grows by a quarter, so that its
 * size stays near the peak of its entries. A pod has an entry for each of its addresses.
 */
#ifndef KUBEDNS_CLUSTER_POD_TABLE_H
#define KUBEDNS_CLUSTER_POD_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

/* Packed: 17 bytes with an IPv4 address, 29 with an IPv6 one. */
struct pod_addr {
	uint64_t name_hash; /* keyed; the name itself is not kept */
	uint32_t number;    /* of the namespace; 0: a free place */
	uint8_t mark;
	uint8_t bytes[]; /* of the address */
} __attribute__((packed));

struct pod_table {
	uint8_t *places;
	size_t room; /* at most four fifths are taken; below 2^32 */
	size_t count;
	uint8_t family;
};

/* The pod's next entry after `previous` (NULL: the first); NULL at the end. */
struct pod_addr *pod_table_next(
    const struct pod_table *table, uint64_t name_hash, const struct pod_addr *previous);

/* The entry in place `i`, or NULL. */
struct pod_addr *pod_table_at(const struct pod_table *table, size_t i);

/* The address of an entry of this table. */
struct addr pod_table_addr(const struct pod_table *table, const struct pod_addr *entry);

/* Adds an address, of the table's family, which the pod does not have yet. Moves entries. */
void pod_table_add(struct pod_table *table, uint64_t name_hash, uint32_t number, uint8_t mark,
    const struct addr *addr);

/* Removes an entry. Entries of later places may move up, across the table's end too: a walk by
 * pod_table_at() must look at the same place again. */
void pod_table_remove(struct pod_table *table, struct pod_addr *entry);

void pod_table_free(struct pod_table *table);

#endif
