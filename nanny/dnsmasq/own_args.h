/*
 * The arguments that the nanny adds to dnsmasq's command line, unless the operator gave them. They
 * serve supervision, limits and behaviour when upstream servers fail. Pure.
 */
#ifndef NANNY_DNSMASQ_OWN_ARGS_H
#define NANNY_DNSMASQ_OWN_ARGS_H

#include "nanny/args.h"

enum {
	OWN_ARGS_TCP_MIN = 20, /* dnsmasq's fixed limit in versions without --max-tcp-connections */
	OWN_ARGS_TCP_MAX = 200,
	/* memory of the process that dnsmasq forks for a TCP connection: 124 KB private, plus page
	 * tables and socket */
	OWN_ARGS_TCP_BYTES = 256 * 1024,
	OWN_ARGS_TCP_VERSION = 290, /* first dnsmasq version with --max-tcp-connections (2.90) */
	OWN_ARGS_FORWARD_MIN = 150, /* dnsmasq's default */
	OWN_ARGS_FORWARD_MAX = 8000,
	OWN_ARGS_FORWARD_BYTES = 1024, /* memory of a query in flight */
	OWN_ARGS_STALE_VERSION = 288,  /* first dnsmasq version with --use-stale-cache (2.88) */
	/* How long an expired answer may still be served. dnsmasq serves the expired answer first
	 * and refreshes it afterwards, even if the upstreams are healthy, so the first client gets
	 * the old answer. Only for dnsmasq behind kubedns, which caches external names only. */
	OWN_ARGS_STALE_S = 3600,
	OWN_ARGS_CACHE_MIN = 150,   /* dnsmasq's default */
	OWN_ARGS_CACHE_MAX = 10000, /* above this, dnsmasq warns that the cache is slow */
	OWN_ARGS_CACHE_BYTES =
	    256, /* memory of a cached record and its name; a long name takes more */
};

/* Adds what supervision needs, and the servers file at `file`. `as_root` adds --user=root and
 * --group=root unless the arguments set them. */
void own_args_add(struct args *args, const char *file, bool as_root);

/*
 * Adds limits that the arguments do not set: on queries in flight and, if this dnsmasq has the
 * option, on TCP connections. Both limits depend on `memory_limit`, the container's memory limit in
 * bytes (0 if unknown). `version` is 290 for dnsmasq 2.90, and 0 if unknown.
 */
void own_args_add_limits(struct args *args, unsigned version, double memory_limit);

/*
 * Adds options that the arguments do not set. Some of these options help when upstream servers
 * fail. Others strip clients' EDNS options. Behind kubedns, --txt-record tells kubedns whether the arguments have --dnssec. `domain` is the cluster domain, and `kubedns` is the
 * address of kubedns. If clients query this dnsmasq directly (args_asked_first), it queries all
 * servers at once, because no kubedns retries for the clients.
 */
void own_args_add_upstream(
    struct args *args, unsigned version, const char *domain, const struct server *kubedns);

/* Adds --cache-size, unless the arguments set it. The cache may use an eighth of `memory`, which is
 * dnsmasq's memory in bytes. */
void own_args_add_cache(struct args *args, double memory);

#endif
