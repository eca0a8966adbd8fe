/*
 * Which servers are asked for which domain: the common form for the ConfigMap, resolv.conf,
 * resolved names and dnsmasq's own arguments. Sorted by domain, without duplicate domains, or
 * duplicate servers in a domain.
 */
#ifndef NANNY_DOMAIN_SERVERS_H
#define NANNY_DOMAIN_SERVERS_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/addr.h"

enum { ROUTE_SERVERS_MAX = 64 };

struct route {
	char *domain; /* lower case, no final dot; "" is every other name */
	struct server *servers;
	size_t count;
};

struct routes {
	struct route *items;
	size_t count;
};

/* The route of exactly `domain`, inserted in order if it is missing; invalidates earlier
 * results. */
struct route *routes_add(struct routes *routes, const char *domain);

/* Adds `server` unless it is there already or there are ROUTE_SERVERS_MAX; false in the last
 * case. */
bool route_add_server(struct route *route, const struct server *server);

/* The route of exactly `domain`, or NULL. */
const struct route *routes_get(const struct routes *routes, const char *domain);

/* The route that applies to `domain` when it has none of its own: that of the nearest domain above
 * it that has servers, at last "". NULL if there is none. */
const struct route *routes_above(const struct routes *routes, const char *domain);

void routes_free(struct routes *routes);

#endif
