/* The flags about other servers (upstream servers, a dnsmasq, other DNS pods) and about filters. */
#include "kubedns/config/server_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/config/options.h"
#include "lib/log.h"
#include "lib/xalloc.h"

/* Reads comma-separated servers, with the same rules as in the ConfigMap. */
static int
read_nameservers(struct options *o)
{
	char *text = xstrdup(o->upstream.nameservers_text), *rest = text, *item;
	const char *why = "at most 15 servers";
	struct server_list *to = &o->upstream.nameservers;
	int rc = 0;

	while (rc == 0 && (item = strsep(&rest, ",")) != NULL) {
		if (*item == '\0' && rest == NULL)
			break;
		if (to->count == CONF_UPSTREAMS_MAX ||
		    server_parse(item, 53, &to->servers[to->count], &why) < 0 ||
		    conf_addr_useless(&to->servers[to->count].addr, &why))
			rc = flags_refuse("nameservers", item, why);
		else
			to->count++;
	}
	free(text);
	return rc;
}

/* --- addresses of a dnsmasq and of other DNS pods --- */

/* Checks whether kubedns can query the dnsmasq at `server`. `where` describes its place in the
 * topology. */
static int
check_dnsmasq(const struct options *o, const char *flag, const struct server *server, bool *given,
    const char *where)
{
	char text[SERVER_TEXT_MAX];
	const char *why;

	*given = server->addr.family != 0;
	if (*given && conf_addr_useless(&server->addr, &why))
		return flags_refuse(flag, server_format(server, text), why);
	if (!*given || !forwarding_loop_is(&o->listen.loop, server, &why))
		return 0;
	log_errorx("--%s: \"%s\" %s; give the address and port of the dnsmasq %s it", flag,
	    server_format(server, text), why, where);
	return -EINVAL;
}

/*
 * If the environment does not have the variable, the kubelet leaves $(NAME) unchanged. That happens
 * if a Service did not exist when the pod was created. The pod must not fail because of such a
 * value.
 */
static int
read_until_synced(struct options *o)
{
	enum { SERVERS_MAX = 5 };
	char *text = xstrdup(o->upstream.until_synced_text), *rest = text, *item;
	struct server_list *to = &o->upstream.until_synced;
	const char *why = NULL;
	int rc = 0;

	while (rc == 0 && (item = strsep(&rest, ",")) != NULL) {
		struct server *server = &to->servers[to->count];

		if (*item == '\0' && rest == NULL)
			break;
		if (strncmp(item, "$(", 2) == 0)
			log_warnx("--until-synced=%s: the Service did not exist when the pod was "
				  "created: answering SERVFAIL until the first sync",
			    item);
		else if (to->count == SERVERS_MAX)
			rc = flags_refuse("until-synced", item, "at most 5 servers");
		else if (server_parse(item, 53, server, &why) < 0 ||
			 conf_addr_useless(&server->addr, &why) ||
			 forwarding_loop_is(&o->listen.loop, server, &why))
			rc = flags_refuse("until-synced", item, why);
		else
			to->count++;
	}
	free(text);
	o->upstream.stage.until_synced = to->count > 0;
	return rc;
}

/* --- --filter-aaaa, --filter-a and --filter-except --- */

static int
read_except(struct options *o)
{
	struct upstream_config *upstream = &o->upstream.stage;

	if (o->upstream.filter_except.count == 0)
		return 0;
	upstream->filter_except =
	    xcalloc(o->upstream.filter_except.count, sizeof *upstream->filter_except);
	for (size_t i = 0; i < o->upstream.filter_except.count; i++) {
		struct dname *zone = &upstream->filter_except[i];

		if (dname_from_text(zone, o->upstream.filter_except.items[i]) < 0)
			return flags_refuse("filter-except", o->upstream.filter_except.items[i],
			    "not a DNS name, such as example.com");
		dname_lower(zone->wire, zone->len);
		upstream->filter_except_count++;
	}
	return 0;
}

static int
read_filter(struct options *o)
{
	if (read_except(o) < 0)
		return -EINVAL;
	if (o->upstream.filter_a != FILTER_ON || o->upstream.filter_aaaa != FILTER_ON)
		return 0;
	log_errorx("--filter-a=on and --filter-aaaa=on: then no external name has an address: "
		   "remove one of them");
	return -EINVAL;
}

int
server_options_read(struct options *o)
{
	/* Calls all functions, so that one run reports all mistakes. */
	const int results[] = { read_nameservers(o),
		check_dnsmasq(
		    o, "resolver", &o->upstream.resolver, &o->upstream.has_resolver, "behind"),
		check_dnsmasq(o, "search-resolver", &o->upstream.search_resolver,
		    &o->upstream.has_search_resolver, "in front of"),
		read_until_synced(o), read_filter(o) };
	int rc = 0;

	o->upstream.stage.search_resolver = o->upstream.has_search_resolver;
	for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
		rc = results[i] < 0 ? results[i] : rc;
	return rc;
}
