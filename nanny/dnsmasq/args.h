/*
 * dnsmasq's command line: the operator's arguments, and what the nanny adds. Pure.
 *
 * The operator's arguments come first, in order, as given; those that would break supervision are
 * left out, with a warning each. argv is made once and never changes: everything that can change is
 * in the servers file.
 */
#ifndef NANNY_DNSMASQ_ARGS_H
#define NANNY_DNSMASQ_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "nanny/servers/domain_table.h"

enum {
	ARGS_LISTEN_MAX = 32,
	ARGS_TCP_MIN = 20, /* dnsmasq's own, where it knows no --max-tcp-connections */
	ARGS_TCP_MAX = 200,
	ARGS_TCP_BYTES = 256 * 1024, /* of a process that dnsmasq forks for a connection: 124 KB of
				      * its own, page tables, its socket */
	ARGS_TCP_VERSION = 290,      /* of dnsmasq, the first with the option */
	ARGS_FORWARD_MIN = 150,      /* dnsmasq's own */
	ARGS_FORWARD_MAX = 8000,
	ARGS_FORWARD_BYTES = 1024, /* of a query in flight */
	ARGS_STALE_VERSION = 288,  /* of dnsmasq, the first with --use-stale-cache */
	/* How long after its TTL an answer is still given. dnsmasq gives it before it asks again, and
	 * so also while all is well: to the first client that asks then. Behind kubedns it has
	 * answers for external names alone. Before kubedns it has the cluster's too, which change
	 * more often. */
	ARGS_STALE_S = 3600,
	ARGS_STALE_FIRST_S = 120,
	ARGS_CACHE_MIN = 150,   /* dnsmasq's own */
	ARGS_CACHE_MAX = 10000, /* beyond, dnsmasq warns of its slowness */
	ARGS_CACHE_BYTES = 256, /* of a record with its name, of which long ones are apart */
};

struct args {
	char **argv; /* NULL ends; for exec */
	size_t argc;
	char **warnings; /* about what was left out */
	size_t warning_count;
	bool cache_size;  /* --cache-size is among them */
	bool forward_max; /* --dns-forward-max is among them */
	unsigned tcp_max; /* connections over TCP at a time; 0: not given */
	bool all_servers, stale_cache, strip_subnet, strip_mac; /* likewise */
	bool strict_order;      /* --strict-order: servers are asked in order */
	char **reads, **writes; /* files and directories that the arguments name; NULL ends */
	size_t read_count, write_count;
	uint16_t port; /* where dnsmasq answers */
	struct addr listen[ARGS_LISTEN_MAX];
	size_t listen_count; /* 0: every address */
	struct domain_table
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

/*
 * Adds the limits that the arguments lack: queries in flight and TCP connections as the container's
 * memory allows (`memory_limit` in bytes, 0: not known) and this dnsmasq knows (`version` 290 is
 * 2.90; 0: not known).
 */
void args_add_limits(struct args *args, unsigned version, double memory_limit);

/* Whether clients ask this dnsmasq: its arguments send the cluster's domain, or any other, to kubedns. If
 * not, kubedns does. */
bool args_asked_first(const struct args *args, const char *domain, const struct server *kubedns);

/*
 * Adds, where the arguments lack them, the options against upstream servers that are in trouble, and
 * those that keep a client's EDNS options from them. `domain` is the cluster's, `kubedns` where it
 * answers. If the arguments send that domain anywhere, or any domain to kubedns, clients ask this
 * dnsmasq. Then it asks all servers at once, since no kubedns retries for its clients.
 */
void args_add_upstream(
    struct args *args, unsigned version, const char *domain, const struct server *kubedns);

/* Adds --cache-size, if the arguments lack it: an eighth of dnsmasq's memory, in bytes. */
void args_add_cache(struct args *args, double memory);

/* The address and port at which the nanny probes dnsmasq. */
struct server args_probe_server(const struct args *args);

#endif
