/*
 * A buffer in which RRsets are written for the tree. Each RRset is a struct rrset, followed by its
 * records. The buffer grows, because a Service may have any number of ports. The caller frees
 * `bytes`.
 */
#ifndef KUBEDNS_CLUSTER_RRSET_WRITER_H
#define KUBEDNS_CLUSTER_RRSET_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/dname.h"

struct sets {
	uint8_t *bytes;
	size_t len, capacity;
	size_t open; /* offset of the RRset that is being written */
	uint32_t ttl_s;
};

/* Starts an RRset of this type. */
void sets_begin(struct sets *sets, uint16_t type);

/* Adds a record to the current RRset. The RDATA is given in two parts. */
void sets_add(
    struct sets *sets, const void *head, size_t head_len, const void *tail, size_t tail_len);

/* Ends the current RRset. An RRset without records is removed. */
void sets_end(struct sets *sets);

/* Writes the A RRset and the AAAA RRset of these addresses. */
void sets_addrs(struct sets *sets, const struct addr *addrs, size_t count);

/* Writes an SRV RRset with these ports and one target. */
void sets_srv(
    struct sets *sets, const uint16_t *numbers, unsigned count, const struct dname *target);

#endif
