/*
 * RRsets being written for the tree: struct rrset after struct rrset, each with its records. It
 * grows, since a Service may have any number of ports; the caller frees `bytes`.
 */
#ifndef KUBEDNS_CLUSTER_RRSET_WRITER_H
#define KUBEDNS_CLUSTER_RRSET_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/dname.h"

struct sets {
	uint8_t *bytes;
	size_t len, room;
	size_t open; /* where the set being written begins */
	uint32_t ttl_s;
};

/* Opens a set of this type. */
void sets_begin(struct sets *sets, uint16_t type);

/* Adds a record to the open set; rdata in two parts. */
void sets_add(
    struct sets *sets, const void *head, size_t head_len, const void *tail, size_t tail_len);

/* Closes the open set; one without records vanishes. */
void sets_end(struct sets *sets);

/* The A and the AAAA set of these addresses. */
void sets_addrs(struct sets *sets, const struct addr *addrs, size_t count);

/* The SRV set of these ports, at a name that they share. */
void sets_srv(
    struct sets *sets, const uint16_t *numbers, unsigned count, const struct dname *target);

#endif
