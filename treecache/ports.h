/*
 * The ports that the endpoints of a slice listen on, as SRV queries need them: by label
 * (`_http._tcp`) or all of them, each number once. Sorted once, when the list is made: a tenant's
 * list may be long, and queries are many.
 */
#ifndef TREECACHE_PORTS_H
#define TREECACHE_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/dname.h"

enum { PORTS_MAX = 20000 }; /* of a list: what Kubernetes allows a slice */

struct port {
	uint16_t number;                    /* 0: none, so no SRV */
	uint8_t name[1 + DNAME_LABEL_MAX];  /* "_http" as a length-prefixed lower-case label;
					     * length 0: unnamed */
	uint8_t proto[1 + DNAME_LABEL_MAX]; /* "_tcp" */
};

/* The ports of one label: `_http._tcp`, or (without a name) all named ones of a protocol. */
struct port_label {
	uint64_t label;        /* port_label() */
	uint16_t first, count; /* in ports->label_numbers */
	uint16_t item;         /* a port that has it */
	bool unnamed;          /* of a protocol alone */
};

/* Shared by all slices with the same list, since a cluster has few different ones. */
struct ports {
	uint32_t hash; /* this and `uses`: the maker's */
	uint32_t uses;
	uint32_t count; /* of items */
	uint16_t number_count;
	uint32_t label_count;
	const uint16_t *numbers;         /* distinct, ascending, without 0 */
	const struct port_label *labels; /* ascending */
	const uint16_t *label_numbers;   /* each label's distinct numbers, ascending */
	struct port items[];             /* as the object has them */
};

/*
 * A keyed 64-bit hash of the two length-prefixed lower-case labels (`name` may be empty); never 0,
 * which stands for all ports. No cluster lives long enough to meet a collision, and nobody can
 * construct one.
 */
uint64_t port_label(uint64_t seed, const uint8_t *name, const uint8_t *proto);

/* A port number under a label (0: all ports), and the order for qsort(): by label, then by
 * number. */
struct labelled_number {
	uint64_t label;
	uint16_t number;
};

int labelled_number_compare(const void *a, const void *b);

/* A list of these ports, PORTS_MAX at most; from malloc. */
struct ports *ports_new(uint64_t seed, const struct port *items, size_t count);

/* The distinct numbers of a label, or of all ports (label 0), ascending; NULL if there is none. */
const uint16_t *ports_numbers(const struct ports *ports, uint64_t label, unsigned *count);

#endif
