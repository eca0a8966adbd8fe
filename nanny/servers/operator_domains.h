/*
 * The domains of the operator's own names (ConfigMap keys hosts, records and rewrites), which
 * kubedns answers: in the classic topology dnsmasq forwards them to kubedns, like the cluster's domain.
 */
#ifndef NANNY_SERVERS_OPERATOR_DOMAINS_H
#define NANNY_SERVERS_OPERATOR_DOMAINS_H

#include <stdbool.h>
#include <stddef.h>

struct conf_hosts;
struct conf_records;
struct conf_rewrites;

/* Lower case, without final dots, sorted, each once. */
struct operator_domains {
	char **items;
	size_t count;
};

/* Whether this domain is in the list. */
bool operator_domains_have(const struct operator_domains *domains, const char *domain);

/* The names of a hosts file that are not in `zone` (no final dot), which reach kubedns anyway. Caller
 * frees with operator_domains_free. */
struct operator_domains operator_domains_of_hosts(const struct conf_hosts *hosts, const char *zone);

/* Of a master file: its zones, below which every name is kubedns's and which `zones` gets alone; its
 * wildcards as dnsmasq has them, `*.` and what they are below; and its names in no zone. Caller frees both
 * with operator_domains_free. */
struct operator_domains operator_domains_of_records(
    const struct conf_records *records, const char *zone, struct operator_domains *zones);

/* The names and suffixes that are rewritten; `suffixes` gets the latter alone, below which every name
 * is kubedns's. Patterns name no domain: `patterns` is how many there are. Caller frees both with
 * operator_domains_free. */
struct operator_domains operator_domains_of_rewrites(const struct conf_rewrites *rewrites,
    const char *zone, struct operator_domains *suffixes, size_t *patterns);

/* All of both, in one list. Caller frees the list with free(), not the names. */
struct operator_domains operator_domains_of_both(
    const struct operator_domains *a, const struct operator_domains *b);

/* Whether both are the same. */
bool operator_domains_equal(const struct operator_domains *a, const struct operator_domains *b);

void operator_domains_free(struct operator_domains *domains);

#endif
