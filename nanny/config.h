/*
 * The configuration in force. The configuration consists of the keys of the ConfigMap. Each key is
 * independent of the other keys. A refused key keeps its last good value. The nanny logs the reason
 * once for each content, and keeps the reason for /config and the metrics. A deleted key returns to
 * its default.
 */
#ifndef NANNY_CONFIG_H
#define NANNY_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/conf.h"
#include "lib/conf_keys.h"
#include "lib/confdir.h"
#include "nanny/args.h"
#include "nanny/engine.h"
#include "nanny/servers/stub_hosts.h"
#include "lib/resolv.h"
#include "nanny/servers/domain_table.h"
#include "nanny/servers/operator_domains.h"
#include "lib/forwarding_loop.h"

struct config {
	struct conf_stubs stubs;
	struct conf_upstreams upstreams;
	struct operator_domains hosts, records, rewrites; /* domains that dnsmasq forwards to
							   * kubedns */
	/* suffixes of rewrites: kubedns answers all names below a suffix */
	struct operator_domains suffixes;
	struct operator_domains zones; /* zones of records: kubedns answers all names in a zone */
	size_t patterns;               /* number of patterns in rewrites; a pattern has no domain */
	/* The servers for the cluster domain on dnsmasq's command line. In the classic topology
	 * this is kubedns. In the front topology, the pointer is NULL, because clients query
	 * kubedns and queries for these names never reach dnsmasq. An entry without an address, as
	 * with --local=/cluster.local/, means that no server answers the domains above. */
	const struct domain_servers *kubedns;
	const struct domain_table *fixed; /* all servers on dnsmasq's command line; set with
					   * `kubedns` */
	struct conf_keys keys;
	char *loop;      /* why a server of resolv.conf is not used, else NULL */
	char *host_loop; /* why the server of a stub domain is not used, else NULL */
	char *clash; /* why dnsmasq does not forward one of these domains to kubedns, else NULL */
};

/* The data that config_apply() uses to validate the keys. */
struct config_rules {
	const char *path;            /* path of the ConfigMap's directory, for messages */
	const char *domain;          /* the cluster domain */
	const struct engine *engine; /* whether it can use tls:// servers */
	const struct args *args; /* a domain on dnsmasq's command line cannot be a stub domain */
	const struct forwarding_loop *guard;
};

/* Applies each valid key of the set. Returns true if a value in force has changed. */
bool config_apply(
    struct config *config, const struct confdir_set *set, const struct config_rules *rules);

/* --- choose_servers.c --- */

/*
 * Decides which servers dnsmasq uses for each domain. Stub domains use their own servers. A server
 * given by host name is replaced with its addresses. The domains of the ConfigMap keys hosts,
 * records and rewrites use kubedns. All other names use the upstreams of the ConfigMap or, without
 * these, the servers of `resolv`. Caller frees.
 *
 * dnsmasq uses the longest domain that contains a name. For dnsmasq, a name of the ConfigMap key
 * hosts is also a domain, so dnsmasq would send all names below that name to kubedns. If a stub
 * domain contains the name, a wildcard sends the names below to the stub domain's servers. The
 * wildcard does not match the name itself (dnsmasq 2.86 and newer). With stubDomains {"corp":
 * ["10.1.1.1"]} and hosts "10.0.0.5 example.corp":
 *
 *	corp            10.1.1.1
 *	example.corp    kubedns
 *	*.example.corp  10.1.1.1
 *
 * dnsmasq also forwards a wildcard of the ConfigMap key records to kubedns.
 *
 * `unresolved` is a server that answers SERVFAIL. It stands in for servers whose names are not
 * resolved, and for closed names (lib/conf_closed.h). NULL for --check, which has no such server.
 */
struct domain_table config_domain_table(struct config *config, const struct resolv *resolv,
    const struct stub_hosts *names, const struct forwarding_loop *guard,
    const struct server *unresolved);

/* Lists the upstream servers in force: the ConfigMap's upstreams or, without any, the servers of
 * `resolv` except dnsmasq itself. None if all external names get SERVFAIL. */
size_t config_upstreams(struct config *config, const struct resolv *resolv,
    const struct forwarding_loop *guard, struct server servers[CONF_UPSTREAMS_MAX]);

/* --- config.c --- */

/* Whether all external names get SERVFAIL, because a key is refused that asks for TLS
 * (lib/conf_closed.h). */
bool config_closes_all(const struct config *config);

/* Whether the host names of stub servers may not be sent in plain text. External names may not be sent
 * in plain text, or a host name is in a stub domain with tls:// servers. */
bool config_encrypts_hosts(const struct config *config);

/* Lists the `count` host names of stub servers. Caller frees the list, but not the names. */
const char **config_hosts(const struct config *config, size_t *count);

void config_free(struct config *config);

#endif
