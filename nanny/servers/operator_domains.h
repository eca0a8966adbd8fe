/*
 * The domains of the ConfigMap keys hosts, records and rewrites. kubedns answers names in these
 * domains. In the classic topology, dnsmasq forwards these domains to kubedns, like the cluster
 * domain.
 */
#ifndef NANNY_SERVERS_OPERATOR_DOMAINS_H
#define NANNY_SERVERS_OPERATOR_DOMAINS_H

#include <stdbool.h>
#include <stddef.h>

struct conf_hosts;
struct conf_records;
struct conf_rewrites;

/* A sorted list of domains in lower case, without final dots and without duplicates. */
struct operator_domains {
	char **items;
	size_t count;
};

/* Whether `domain` is in the list. */
bool operator_domains_have(const struct operator_domains *domains, const char *domain);

/* Returns the names of a hosts file, except names in `zone` (without final dot). dnsmasq forwards
 * names in `zone` to kubedns anyway. Caller frees with operator_domains_free. */
struct operator_domains operator_domains_of_hosts(const struct conf_hosts *hosts, const char *zone);

/*
 * Returns the domains of a master file that dnsmasq must forward to kubedns. The list contains
 * zones, wildcards, and names outside any zone. A wildcard is `*.` and the parent name, as in
 * dnsmasq's notation. Sets `zones` to the zones alone, because kubedns answers all names in a zone.
 * Caller frees both lists with operator_domains_free.
 */
struct operator_domains operator_domains_of_records(
    const struct conf_records *records, const char *zone, struct operator_domains *zones);

/*
 * Returns the names and suffixes of rewrites. Sets `suffixes` to the suffixes alone, because
 * kubedns answers all names below a suffix. Sets `patterns` to the number of patterns. A pattern
 * has no domain. Caller frees both lists with operator_domains_free.
 */
struct operator_domains operator_domains_of_rewrites(const struct conf_rewrites *rewrites,
    const char *zone, struct operator_domains *suffixes, size_t *patterns);

/* Returns the union of both lists. Caller frees the list with free(), but not the names in the
 * list. */
struct operator_domains operator_domains_of_both(
    const struct operator_domains *a, const struct operator_domains *b);

/* Whether both lists are equal. */
bool operator_domains_equal(const struct operator_domains *a, const struct operator_domains *b);

void operator_domains_free(struct operator_domains *domains);

#endif
