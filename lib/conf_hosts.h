/*
 * The ConfigMap key `hosts`: the operator's own names and their addresses, in the syntax of a hosts
 * file.
 *
 *	10.0.0.5     db.example db2.example     # several names a line
 *	2001:db8::5  db.example
 *
 * The parser is pure. `text` is untrusted, as in lib/conf.h. Time and memory are O(length).
 */
#ifndef LIB_CONF_HOSTS_H
#define LIB_CONF_HOSTS_H

#include <stddef.h>

#include "lib/addr.h"
#include "lib/dname.h"

enum {
	CONF_HOSTS_MAX = 10000,       /* pairs of a name and an address */
	CONF_HOSTS_OF_NAME_MAX = 256, /* addresses per name, and names per address */
};

struct conf_host {
	struct dname name; /* lower case */
	struct addr addr;
};

/* Names and addresses, sorted by name and then by address, without duplicates. The same lines in
 * another order are thus not a change. */
struct conf_hosts {
	struct conf_host *items;
	size_t count;
	size_t passed;      /* lines that are ignored, because they have no name or the address
			     * belongs to one interface */
	char *passed_first; /* the first ignored line, and the reason */
};

/* Returns 0, or -EINVAL. On failure, `*why` tells the line number and what is wrong in that line
 * (caller frees). Caller frees `hosts` with conf_hosts_free. */
int conf_hosts_parse(const char *text, size_t len, struct conf_hosts *hosts, char **why);

void conf_hosts_free(struct conf_hosts *hosts);

#endif
