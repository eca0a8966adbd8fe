/*
 * dnsmasq's command line: what the operator's arguments say, and what the nanny adds. Pure.
 *
 * Their arguments come first, in order, as given; only what would break supervision is left out,
 * with a warning each. argv is made once and never changes: everything that can change is in
 * the servers file.
 */
#ifndef NANNY_ARGS_H
#define NANNY_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "nanny/route.h"

enum { ARGS_LISTEN_MAX = 32 };

struct args {
	char **argv; /* NULL ends; for exec */
	size_t argc;
	char **warnings; /* about what was left out */
	size_t warning_count;
	bool strict_order;      /* --strict-order: the order of servers means something */
	char **reads, **writes; /* files and directories that the arguments name; NULL ends */
	size_t read_count, write_count;
	uint16_t port; /* where dnsmasq answers */
	struct addr listen[ARGS_LISTEN_MAX];
	size_t listen_count; /* 0: every address */
	struct routes
	    fixed; /* --server=/domain/...: domains and their servers, "" the default ones */
};

/*
 * Reads `count` arguments `given` and builds argv for `exec` with the servers file at `file`;
 * `as_root` adds --user=root and --group=root unless they say otherwise. 0, or -EINVAL with one
 * line in `why` (caller frees). Caller frees with args_free.
 */
int args_build(struct args *args, const char *exec, char *const *given, size_t count,
    const char *file, bool as_root, char **why);
void args_free(struct args *args);

/* Where the nanny asks dnsmasq whether it is well. */
struct server args_probe_server(const struct args *args);

#endif
