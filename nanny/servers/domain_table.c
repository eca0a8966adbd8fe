#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "nanny/servers/domain_table.h"

/* Returns the index of the first entry whose domain is not less than `domain`. */
static size_t
lower_bound(const struct domain_table *table, const char *domain)
{
	size_t low = 0, high = table->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(table->items[middle].domain, domain) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct domain_servers *
domain_table_add(struct domain_table *table, const char *domain)
{
	size_t at = lower_bound(table, domain);

	if (at < table->count && strcmp(table->items[at].domain, domain) == 0)
		return &table->items[at];
	/* The array grows by doubling, so it is full exactly when the count is a power of two. */
	if ((table->count & (table->count - 1)) == 0)
		table->items = xreallocarray(
		    table->items, table->count ? table->count * 2 : 1, sizeof *table->items);
	struct domain_servers *entry = &table->items[at];
	memmove(entry + 1, entry, (table->count - at) * sizeof *entry);
	table->count++;
	*entry = (struct domain_servers){ .domain = xstrdup(domain) };
	return entry;
}

void
domain_servers_clear(struct domain_servers *entry)
{
	for (size_t i = 0; entry->tls_names != NULL && i < entry->count; i++)
		free(entry->tls_names[i]);
	free(entry->tls_names);
	free(entry->servers);
	entry->tls_names = NULL;
	entry->servers = NULL;
	entry->count = 0;
}

bool
domain_servers_add_tls(
    struct domain_servers *entry, const struct server *server, const char *tls_name)
{
	bool tls = *tls_name != '\0';

	if (entry->closed)
		return true;
	if (tls && entry->tls_names == NULL)
		domain_servers_clear(entry);
	if (!tls && entry->tls_names != NULL)
		return true;
	for (size_t i = 0; i < entry->count; i++)
		if (server_equal(&entry->servers[i], server) &&
		    (!tls || strcmp(entry->tls_names[i], tls_name) == 0))
			return true;
	if (entry->count == DOMAIN_SERVERS_MAX)
		return false;
	entry->servers = xreallocarray(entry->servers, entry->count + 1, sizeof *entry->servers);
	if (tls) {
		entry->tls_names =
		    xreallocarray(entry->tls_names, entry->count + 1, sizeof *entry->tls_names);
		entry->tls_names[entry->count] = xstrdup(tls_name);
	}
	entry->servers[entry->count++] = *server;
	return true;
}

bool
domain_servers_add_server(struct domain_servers *entry, const struct server *server)
{
	return domain_servers_add_tls(entry, server, "");
}

const struct domain_servers *
domain_table_get(const struct domain_table *table, const char *domain)
{
	size_t at = lower_bound(table, domain);

	return at < table->count && strcmp(table->items[at].domain, domain) == 0 ? &table->items[at]
										 : NULL;
}

const struct domain_servers *
domain_table_above(const struct domain_table *table, const char *domain)
{
	while (*domain) {
		const char *dot = strchr(domain, '.');

		domain = dot != NULL ? dot + 1 : domain + strlen(domain);
		const struct domain_servers *entry = domain_table_get(table, domain);
		if (entry != NULL && entry->count)
			return entry;
	}
	return NULL;
}

void
domain_table_free(struct domain_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		free(table->items[i].domain);
		domain_servers_clear(&table->items[i]);
	}
	free(table->items);
	*table = (struct domain_table){ 0 };
}
