/*
 * A table of domains and the servers of each domain. The ConfigMap, resolv.conf, resolved host
 * names and dnsmasq's arguments are all converted to such a table. choose_servers.c fills it. The
 * table is sorted by domain. No domain occurs twice, and no server occurs twice in a domain.
 */
#ifndef NANNY_SERVERS_DOMAIN_TABLE_H
#define NANNY_SERVERS_DOMAIN_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/addr.h"

enum { DOMAIN_SERVERS_MAX = 64 };

struct domain_servers {
	char *domain; /* lower case, without final dot; "" stands for all other names */
	struct server *servers;
	/* the names in the certificates of tls:// servers, in the order of `servers`; NULL for plain
	 * servers */
	char **tls_names;
	size_t count;
	bool closed; /* no server may be added: the names get SERVFAIL (lib/conf_closed.h) */
};

struct domain_table {
	struct domain_servers *items;
	size_t count;
};

/* Finds the entry of exactly `domain`, or inserts an empty one. Invalidates pointers to entries. */
struct domain_servers *domain_table_add(struct domain_table *table, const char *domain);

/* Adds `server` unless the entry already has it. Returns false if the entry already has
 * DOMAIN_SERVERS_MAX servers. */
bool domain_servers_add_server(struct domain_servers *entry, const struct server *server);

/* Adds a tls:// server whose certificate has the name `tls_name`, or a plain server if `tls_name` is
 * "". An entry has servers of one kind only: a tls:// server replaces plain ones, and a plain server
 * is not added to tls:// servers. Adds nothing to a closed entry. Otherwise like domain_servers_add_server. */
bool domain_servers_add_tls(
    struct domain_servers *entry, const struct server *server, const char *tls_name);

/* Frees the servers of an entry. */
void domain_servers_clear(struct domain_servers *entry);

/* Finds the entry of exactly `domain`, or NULL. */
const struct domain_servers *domain_table_get(const struct domain_table *table, const char *domain);

/* Finds the entry that applies to a `domain` without an entry: the nearest parent domain that has
 * servers, or else the domain "". Returns NULL if neither exists. */
const struct domain_servers *domain_table_above(
    const struct domain_table *table, const char *domain);

void domain_table_free(struct domain_table *table);

#endif
