/*
 * What the endpoints of a chunk listen on, shared by all chunks with the same list: most Services
 * of a cluster have one of a few lists.
 */
#ifndef KUBEDNS_PORTS_H
#define KUBEDNS_PORTS_H

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

struct ports {
	uint32_t hash; /* of the rest, the store's */
	uint32_t uses;
	uint32_t count;
	struct port items[];
};

#endif
