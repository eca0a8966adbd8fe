#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "nanny/domain_servers.h"

/* The index of the first route whose domain is not before `domain`. */
static size_t
lower_bound(const struct routes *routes, const char *domain)
{
	size_t low = 0, high = routes->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strcmp(routes->items[middle].domain, domain) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct route *
routes_add(struct routes *routes, const char *domain)
{
	size_t at = lower_bound(routes, domain);
	if (at < routes->count && strcmp(routes->items[at].domain, domain) == 0)
		return &routes->items[at];
	/* Grown by doubling: the count is a power of two exactly when there is no room left. */
	if ((routes->count & (routes->count - 1)) == 0)
		routes->items = xreallocarray(
		    routes->items, routes->count ? routes->count * 2 : 1, sizeof *routes->items);
	struct route *route = &routes->items[at];
	memmove(route + 1, route, (routes->count - at) * sizeof *route);
	routes->count++;
	*route = (struct route){ .domain = xstrdup(domain) };
	return route;
}

bool
route_add_server(struct route *route, const struct server *server)
{
	for (size_t i = 0; i < route->count; i++)
		if (server_equal(&route->servers[i], server))
			return true;
	if (route->count == ROUTE_SERVERS_MAX)
		return false;
	route->servers = xreallocarray(route->servers, route->count + 1, sizeof *route->servers);
	route->servers[route->count++] = *server;
	return true;
}

const struct route *
routes_get(const struct routes *routes, const char *domain)
{
	size_t at = lower_bound(routes, domain);
	return at < routes->count && strcmp(routes->items[at].domain, domain) == 0
		   ? &routes->items[at]
		   : NULL;
}

const struct route *
routes_above(const struct routes *routes, const char *domain)
{
	while (*domain) {
		const char *dot = strchr(domain, '.');
		domain = dot ? dot + 1 : domain + strlen(domain);
		const struct route *route = routes_get(routes, domain);
		if (route && route->count)
			return route;
	}
	return NULL;
}

void
routes_free(struct routes *routes)
{
	for (size_t i = 0; i < routes->count; i++) {
		free(routes->items[i].domain);
		free(routes->items[i].servers);
	}
	free(routes->items);
	*routes = (struct routes){ 0 };
}
