/* Parses the name servers of a resolv.conf (resolv.conf(5)). Other lines and options are ignored,
 * because a forwarder does not use a search list or ndots. The parser is pure. */
#ifndef LIB_RESOLV_H
#define LIB_RESOLV_H

#include <stddef.h>

#include "lib/addr.h"

enum { RESOLV_SERVERS_MAX = 15 };

struct resolv {
	struct server servers[RESOLV_SERVERS_MAX]; /* port 53, without duplicates, in the order of
						    * the file */
	size_t count;
	size_t skipped; /* nameserver lines that are unusable or beyond the limit */
};

/* Parses `len` bytes of text. */
void resolv_parse(const char *text, size_t len, struct resolv *resolv);

#endif
