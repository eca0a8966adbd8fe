/*
 * The configuration in force: the ConfigMap's keys, each independent of the others. A wrong key
 * keeps its last good value; the reason is logged once per content and kept for /config and the
 * metrics. A deleted key returns to its default.
 */
#ifndef NANNY_CONFIG_H
#define NANNY_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/conf.h"
#include "lib/conf_keys.h"
#include "lib/confdir.h"
#include "nanny/dnsmasq/args.h"
#include "nanny/servers/stub_hosts.h"
#include "lib/resolv.h"
#include "nanny/servers/domain_table.h"
#include "nanny/servers/operator_domains.h"
#include "lib/forwarding_loop.h"

struct config {
	struct conf_stubs stubs;
	struct conf_upstreams upstreams;
	struct operator_domains hosts, records, rewrites; /* whose names kubedns answers */
	struct operator_domains suffixes; /* those of rewrites below which all names are so */
	struct operator_domains zones;    /* the same of records */
	size_t patterns;                  /* of the rewrites, which name no domain */
	/* The servers that dnsmasq's command line has for the cluster domain: kubedns, in the
	 * classic topology. NULL: dnsmasq is behind kubedns, which has answered such names. Without
	 * an address, as of --local=/cluster.local/, own names have nobody to answer them. */
	const struct domain_servers *kubedns;
	const struct domain_table *fixed; /* all of dnsmasq's command line; set with `kubedns` */
	struct conf_keys keys;
	char *loop;      /* why a server of resolv.conf is not asked, else NULL */
	char *host_loop; /* the same of a stub server's name, else NULL */
	char *clash;     /* why kubedns is not asked for a name of its own, else NULL */
};

/* What the keys are validated against. */
struct config_rules {
	const char *path;        /* of the directory, for messages */
	const char *domain;      /* the cluster domain */
	const struct args *args; /* domains on dnsmasq's command line cannot be stubs */
	const struct forwarding_loop *guard;
};

/* Applies each key of the set that is good. True if what is in force has changed. */
bool config_apply(
    struct config *config, const struct confdir_set *set, const struct config_rules *rules);

/* --- wanted_servers.c --- */

/*
 * What is wanted of dnsmasq: stubs with what their names are resolved to, own names at kubedns,
 * upstreams or else those of `resolv`. Frees nothing; caller frees.
 *
 * dnsmasq takes the longest domain that a name is in, and own names are domains to it. Names below an
 * own name stay with the stub domain around it by a wildcard, which does not match the own name itself
 * (dnsmasq 2.86 on). Of stubDomains {"corp": ["10.1.1.1"]} and hosts "10.0.0.5 example.corp":
 *
 *	corp            10.1.1.1
 *	example.corp    kubedns
 *	*.example.corp  10.1.1.1
 *
 * A wildcard of the key records is such a domain too, with kubedns.
 */
struct domain_table config_domain_table(struct config *config, const struct resolv *resolv,
    const struct stub_hosts *names, const struct forwarding_loop *guard,
    const struct server *unresolved);

/* The upstream servers in force: the ConfigMap's, else those of `resolv` that are not ourselves. */
size_t config_upstreams(struct config *config, const struct resolv *resolv,
    const struct forwarding_loop *guard, struct server servers[CONF_UPSTREAMS_MAX]);

/* --- config.c --- */

/* The host names of stub servers, `count` of them; caller frees the list, not the names. */
const char **config_hosts(const struct config *config, size_t *count);

void config_free(struct config *config);

#endif
