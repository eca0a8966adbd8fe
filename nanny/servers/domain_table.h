/*
 * A table of domains and the servers that are asked for each: the common form for the ConfigMap,
 * resolv.conf, resolved names and dnsmasq's own arguments. wanted_servers.c fills it. Sorted by domain;
 * no domain twice, and no server twice in a domain.
 */
#ifndef NANNY_SERVERS_DOMAIN_TABLE_H
#define NANNY_SERVERS_DOMAIN_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/addr.h"

enum { DOMAIN_SERVERS_MAX = 64 };

struct domain_servers {
	char *domain; /* lower case, no final dot; "" is every other name */
	struct server *servers;
	size_t count;
};

struct domain_table {
	struct domain_servers *items;
	size_t count;
};

/* The entry of exactly `domain`, inserted in order if it is missing; invalidates earlier
 * results. */
struct domain_servers *domain_table_add(struct domain_table *table, const char *domain);

/* Adds `server` unless it is there already or there are DOMAIN_SERVERS_MAX; false in the last
 * case. */
bool domain_servers_add_server(struct domain_servers *entry, const struct server *server);

/* The entry of exactly `domain`, or NULL. */
const struct domain_servers *domain_table_get(const struct domain_table *table, const char *domain);

/* The entry that applies to `domain` when it has none of its own: that of the nearest domain above
 * it that has servers, at last "". NULL if there is none. */
const struct domain_servers *domain_table_above(
    const struct domain_table *table, const char *domain);

void domain_table_free(struct domain_table *table);

#endif
