/* Parses the name servers of a resolv.conf (resolv.conf(5)). Other lines and options are ignored,
 * because a forwarder does not use a search list or ndots. resolv_parse() is pure. */
#ifndef LIB_RESOLV_H
#define LIB_RESOLV_H

#include <stddef.h>

#include "lib/addr.h"

enum { RESOLV_SERVERS_MAX = 15, RESOLV_SKIPPED_MAX = 64 };

struct resolv {
	struct server servers[RESOLV_SERVERS_MAX]; /* port 53, without duplicates, in the order of
						    * the file */
	size_t count;
	size_t skipped; /* nameserver lines that are unusable or beyond the limit */
	char first_skipped[RESOLV_SKIPPED_MAX]; /* the first of them: its address as written, cut */
	const char *first_why;                  /* why it is skipped; static */
};

/* Parses `len` bytes of text. */
void resolv_parse(const char *text, size_t len, struct resolv *resolv);

/* Logs the skipped lines, with `path` before them, if there are any. */
void resolv_log_skipped(const struct resolv *resolv, const char *path);

#endif
