/*
 * The domains of the operator's own names (ConfigMap keys hosts and rewrites), which kubedns
 * answers: in the classic topology dnsmasq forwards them to kubedns, like the cluster's domain.
 */
#ifndef NANNY_OWN_DOMAINS_H
#define NANNY_OWN_DOMAINS_H

#include <stdbool.h>
#include <stddef.h>

struct conf_hosts;
struct conf_rewrites;

/* Lower case, without final dots, sorted, each once. */
struct own_domains {
	char **items;
	size_t count;
};

/* Whether this domain is in the list. */
bool own_domains_have(const struct own_domains *domains, const char *domain);

/* The names of a hosts file that are not in `zone` (no final dot), which reach kubedns anyway. Caller
 * frees with own_domains_free. */
struct own_domains own_domains_of_hosts(const struct conf_hosts *hosts, const char *zone);

/* The names and suffixes that are rewritten; `suffixes` gets the latter alone, below which every name
 * is kubedns's. Patterns name no domain: `patterns` is how many there are. Caller frees both with
 * own_domains_free. */
struct own_domains own_domains_of_rewrites(const struct conf_rewrites *rewrites, const char *zone,
    struct own_domains *suffixes, size_t *patterns);

/* All of both, in one list. Caller frees the list with free(), not the names. */
struct own_domains own_domains_of_both(const struct own_domains *a, const struct own_domains *b);

/* Whether both are the same. */
bool own_domains_equal(const struct own_domains *a, const struct own_domains *b);

void own_domains_free(struct own_domains *domains);

#endif
