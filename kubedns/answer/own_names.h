/*
 * The operator's own names, from the ConfigMap's key hosts, beside those of the cluster.
 *
 *	struct own_names   one block without pointers, which is copied as it is
 *	 |- places         hash of a name -> offset of its entry
 *	 '- entries        name | record sets, as in a node of the tree
 *
 * Made anew when the key changes; part of the answer_context, with which it is published and freed.
 * A name that is here hides the cluster's of the same name.
 */
#ifndef KUBEDNS_ANSWER_OWN_NAMES_H
#define KUBEDNS_ANSWER_OWN_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/dname.h"

struct conf_hosts;
struct rrset;

struct own_names {
	uint64_t seed;
	uint32_t size;     /* of the block */
	uint32_t count;    /* of names */
	uint32_t mask;     /* places - 1, a power of two */
	uint32_t places[]; /* 0: free */
};

struct own_name {
	uint32_t sets_len; /* of struct rrset after struct rrset, behind the padded name */
	uint8_t len;
	uint8_t wire[]; /* lower case */
};

/* One record of those that a block is made of; all borrowed. */
struct own_line {
	const struct dname *name; /* lower case */
	uint32_t ttl_s;
	uint16_t type;
	uint16_t rdata_len;
	const uint8_t *rdata; /* names in it not compressed */
};

/* A block of these records; sorts `lines`. NULL if there are none; caller frees with free(). */
struct own_names *own_names_new(struct own_line *lines, size_t count, uint64_t seed);

/* The names of a hosts file and the PTRs of their addresses, with this TTL. NULL if there are none;
 * caller frees with free(). */
struct own_names *own_names_of_hosts(const struct conf_hosts *hosts, uint32_t ttl_s, uint64_t seed);

/* The entry of a name (wire, lower case), or NULL. */
const struct own_name *own_names_find(
    const struct own_names *names, const uint8_t *wire, size_t len);

/* The name's records of this type, or NULL. */
const struct rrset *own_name_rrset(const struct own_name *name, uint16_t type);

/* Steps through its record sets: NULL gives the first, NULL comes at the end. */
const struct rrset *own_name_rrset_next(const struct own_name *name, const struct rrset *previous);

/* The first entry at or after `*place`, which is moved past it; NULL at the end. */
const struct own_name *own_names_next(const struct own_names *names, uint32_t *place);

#endif
