/*
 * What the endpoints of a slice listen on, shared by all slices with the same list: most Services
 * of a cluster have one of a few lists.
 */
#ifndef KUBEDNS_CLUSTER_PORTS_H
#define KUBEDNS_CLUSTER_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/dname.h"

struct port {
	uint16_t number;
	uint8_t name[1 + DNAME_LABEL_MAX];  /* "_http" as a length-prefixed lower-case label;
					     * length 0: unnamed */
	uint8_t proto[1 + DNAME_LABEL_MAX]; /* "_tcp" */
};

/*
 * Whether item `i` has a number, and none before it has the same: at a Service's bare name two
 * ports of one number, DNS over UDP and over TCP, are one SRV record (RFC 2181 section 5).
 */
static inline bool
port_number_is_first(const struct port *items, size_t i)
{
	size_t earlier = 0;

	while (earlier < i && items[earlier].number != items[i].number)
		earlier++;
	return earlier == i && items[i].number != 0;
}

struct ports {
	uint32_t hash; /* of the rest, the store's */
	uint32_t uses;
	uint32_t count;
	struct port items[];
};

#endif
