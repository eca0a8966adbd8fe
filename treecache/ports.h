/*
 * The ports that the endpoints of a slice listen on, prepared for SRV queries. Such a query needs
 * the ports of one label (`_http._tcp`) or all ports, without duplicates. The ports are sorted
 * once, when the list is made, because a tenant's list may be long and is queried often.
 */
#ifndef TREECACHE_PORTS_H
#define TREECACHE_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/dname.h"

enum {
	PORTS_MAX = 20000
}; /* largest number of ports in a list, as Kubernetes allows for a
			     * slice */

struct port {
	uint16_t number;                    /* 0: the port has no number, so no SRV record */
	uint8_t name[1 + DNAME_LABEL_MAX];  /* length-prefixed lower-case label, such as "_http";
					     * length 0: unnamed */
	uint8_t proto[1 + DNAME_LABEL_MAX]; /* "_tcp" */
};

/* The ports with one label such as `_http._tcp`, or all named ports of a protocol. */
struct port_label {
	uint64_t label;        /* from port_label() */
	uint16_t first, count; /* range in ports->label_numbers */
	uint16_t item;         /* index of one port with this label */
	bool unnamed;          /* the label is a protocol alone, without a port name */
};

/* One list is shared by all slices that have the same ports, because a cluster has few different lists. */
struct ports {
	/* These three members belong to the code that shares the lists. */
	uint32_t hash;
	uint32_t uses;
	/* Hash for the digest of records. The order of the ports does not change it, and it is the
	 * same in every process. */
	uint64_t content;
	uint32_t count; /* number of `items` */
	uint16_t number_count;
	uint32_t label_count;
	const uint16_t *numbers;         /* distinct, ascending, without 0 */
	const struct port_label *labels; /* ascending by label */
	const uint16_t *label_numbers;   /* the distinct numbers of each label, ascending */
	struct port items[];             /* in the order of the Kubernetes object */
};

/*
 * Returns a keyed 64-bit hash of two length-prefixed lower-case labels; `name` may be empty. The
 * hash is never 0, because 0 stands for all ports. A collision by chance is too unlikely to happen
 * in a cluster's lifetime. Nobody can construct a collision without the key.
 */
uint64_t port_label(uint64_t seed, const uint8_t *name, const uint8_t *proto);

/* A port number under a label; label 0 stands for all ports. The function below compares two of
 * these for qsort(), by label and then by number. */
struct labelled_number {
	uint64_t label;
	uint16_t number;
};

int labelled_number_compare(const void *a, const void *b);

/* Makes a list of these ports, from malloc(). `count` is at most PORTS_MAX. */
struct ports *ports_new(uint64_t seed, const struct port *items, size_t count);

/* Returns the distinct port numbers of a label, or of all ports (label 0), ascending. Returns NULL
 * if there are none. */
const uint16_t *ports_numbers(const struct ports *ports, uint64_t label, unsigned *count);

#endif
