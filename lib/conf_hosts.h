/*
 * The key hosts of the ConfigMap: the operator's own names with their addresses, in the syntax of a
 * hosts file.
 *
 *	10.0.0.5     db.example db2.example     # several names a line
 *	2001:db8::5  db.example
 *
 * Pure; `text` is untrusted, as in lib/conf.h. Time and memory are linear in its length.
 */
#ifndef LIB_CONF_HOSTS_H
#define LIB_CONF_HOSTS_H

#include <stddef.h>

#include "lib/addr.h"
#include "lib/dname.h"

enum {
	CONF_HOSTS_MAX = 10000,       /* pairs of a name and an address */
	CONF_HOSTS_OF_NAME_MAX = 256, /* addresses of one name, names of one address */
};

struct conf_host {
	struct dname name; /* lower case */
	struct addr addr;
};

/* Sorted by name and then by address, each pair once, so that the same lines in another order are
 * no change. */
struct conf_hosts {
	struct conf_host *items;
	size_t count;
	size_t passed;      /* lines that are passed over: an address alone, or of one interface */
	char *passed_first; /* the first of them, and why */
};

/* 0, or -EINVAL and in `*why` (caller frees) the line and what is wrong with it. Caller frees with
 * conf_hosts_free. */
int conf_hosts_parse(const char *text, size_t len, struct conf_hosts *hosts, char **why);

void conf_hosts_free(struct conf_hosts *hosts);

#endif
