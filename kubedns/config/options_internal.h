/*
 * What the files of options.h share: options.c (the table, and most values) calls options_zones.c (zones and names) and
 * options_clients.c (clients, logs and sizes), which calls options_zones.c.
 */
#ifndef KUBEDNS_CONFIG_OPTIONS_INTERNAL_H
#define KUBEDNS_CONFIG_OPTIONS_INTERNAL_H

#include "kubedns/config/options.h"

/* Logs the flag, the value, unless it is NULL, and what is accepted; returns -EINVAL. */
int options_refuse(const char *flag, const char *value, const char *why);

/* --filter-aaaa, --filter-a, --filter-except; 0 or -EINVAL after a line for each mistake. */
int options_read_filter(struct options *options);

/* --recorder, --answer-cache, --transfer-journal and --memory; 0 or -EINVAL after a line for each
 * mistake. */
int options_read_sizes(struct options *options, const struct flags_common *common);

/* --log-queries, which needs --recorder to be read, and --dnstap. 0 or -EINVAL after a line. */
int options_read_log(struct options *options, const struct flags_common *common);

/* --domain, --reverse-cidrs, --namespaces, --namespace-labels and --fallthrough; 0 or -EINVAL after
 * a line for each mistake. */
int options_read_zones(struct options *options, const struct flags_common *common);

/* Whether it is an RFC 1123 label in lower case, as the API server demands of a namespace. */
bool options_is_namespace(const char *name);

/* --client-pods, --node-name, --visibility, --visibility-unknown and --hosts-namespaces; needs --pods, --resolver,
 * --until-synced and --fallthrough to be read. 0 or -EINVAL after a line. */
int options_read_clients(struct options *options);

/* Frees what --hosts-namespaces was read into. */
void options_free_hosts(struct options *options);

/* --nearest, --nearest-only, --zonal and --zone; needs options_read_clients(). 0 or -EINVAL after a
 * line. */
int options_read_nearest(struct options *options);

/* Whether other servers, which keep answers, stand between the clients and this kubedns: the classic
 * topology. */
bool options_behind_dnsmasq(const struct options *options);

/* The zone of --clusterset-domain by itself; before --fallthrough. 0 or -EINVAL after a line. */
int options_read_clusterset(struct options *options);

/* --external-zones, --external-ns and --external-address; needs --domain, --dns-bind-address and
 * --clusterset-domain to be read. 0 or -EINVAL after a line for each mistake. */
int options_read_external(struct options *options);

/* Reads 10.96.0.0/12; 0 or -EINVAL. */
int options_cidr(const char *text, struct addr *addr, unsigned *bits);

/* --transfer-to, --transfer-key and --transfer-notify; needs --dns-bind-address to be read. 0 or -EINVAL after a
 * line. */
int options_read_transfer(struct options *options);

/* --resolver; needs --dns-bind-address to be read. 0 or -EINVAL after a message, as below. */
int options_read_resolver(struct options *o);

/* --until-synced; needs --dns-bind-address to be read. */
int options_read_until_synced(struct options *o);

/* --search-completion, --search-extra and --search-resolver; needs --domain too. */
int options_read_search(struct options *o);

#endif
