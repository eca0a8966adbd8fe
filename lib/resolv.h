/*
 * The name servers of a resolv.conf (resolv.conf(5)); every other line and option is passed over
 * without a word, as the pod's search list and ndots are no business of a forwarder. Pure.
 */
#ifndef LIB_RESOLV_H
#define LIB_RESOLV_H

#include <stddef.h>

#include "lib/addr.h"

enum { RESOLV_SERVERS_MAX = 15 };

struct resolv {
	struct server servers[RESOLV_SERVERS_MAX]; /* port 53, no duplicates, in order */
	size_t count;
	size_t skipped; /* nameserver lines that no server can be made of,
			 * or for which there was no room */
};

/* Parses `len` bytes of text. */
void resolv_parse(const char *text, size_t len, struct resolv *resolv);

#endif
