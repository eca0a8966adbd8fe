/*
 * The name servers of a resolv.conf (resolv.conf(5)). Every other line and option is ignored: a
 * forwarder has no use for a search list or ndots. Pure.
 */
#ifndef LIB_RESOLV_H
#define LIB_RESOLV_H

#include <stddef.h>

#include "lib/addr.h"

enum { RESOLV_SERVERS_MAX = 15 };

struct resolv {
	struct server servers[RESOLV_SERVERS_MAX]; /* port 53, no duplicates, in order */
	size_t count;
	size_t skipped; /* nameserver lines without a usable address, or beyond the limit */
};

/* Parses `len` bytes of text. */
void resolv_parse(const char *text, size_t len, struct resolv *resolv);

#endif
