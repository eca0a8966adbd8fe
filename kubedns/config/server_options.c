/* The flags of servers that are asked for other names: upstream servers, a dnsmasq, other DNS pods; search completion and
 * filters. */
#include "kubedns/config/server_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/search.h"
#include "kubedns/config/options.h"
#include "lib/log.h"
#include "lib/xalloc.h"

/* Comma-separated servers, as the flag has them; the same rules as the ConfigMap's. */
static int
read_nameservers(struct options *o)
{
	char *text = xstrdup(o->nameservers_text), *rest = text, *item;
	const char *why = "at most 15 servers";
	struct conf_upstreams *to = &o->nameservers;
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

/* --- the addresses of a dnsmasq and of other DNS pods; search completion --- */

/* Why the dnsmasq at `server` cannot be asked; `where` is its place in the topology. */
static int
check_dnsmasq(const struct options *o, const char *flag, const struct server *server, bool *given,
    const char *where)
{
	char text[SERVER_TEXT_MAX];
	const char *why;

	*given = server->addr.family != 0;
	if (*given && conf_addr_useless(&server->addr, &why))
		return flags_refuse(flag, server_format(server, text), why);
	if (!*given || !forwarding_loop_is(&o->forwarding_loop, server, &why))
		return 0;
	log_errorx("--%s: \"%s\" %s; give the address and port of the dnsmasq %s it", flag,
	    server_format(server, text), why, where);
	return -EINVAL;
}

/*
 * The kubelet leaves $(NAME) as it is where the environment has no such variable: a Service that was
 * not there yet when the pod was made. The pod is not to fail for that.
 */
static int
read_until_synced(struct options *o)
{
	enum { SERVERS_MAX = 5 };
	char *text = xstrdup(o->until_synced_text), *rest = text, *item;
	struct conf_upstreams *to = &o->until_synced;
	const char *why = NULL;
	int rc = 0;

	while (rc == 0 && (item = strsep(&rest, ",")) != NULL) {
		struct server *server = &to->servers[to->count];

		if (*item == '\0' && rest == NULL)
			break;
		if (strncmp(item, "$(", 2) == 0)
			log_warnx("--until-synced=%s: there was no such Service when the pod was "
				  "made: SERVFAIL until the first sync",
			    item);
		else if (to->count == SERVERS_MAX)
			rc = flags_refuse("until-synced", item, "at most 5 servers");
		else if (server_parse(item, 53, server, &why) < 0 ||
			 conf_addr_useless(&server->addr, &why) ||
			 forwarding_loop_is(&o->forwarding_loop, server, &why))
			rc = flags_refuse("until-synced", item, why);
		else
			to->count++;
	}
	free(text);
	o->answers.until_synced = to->count > 0;
	return rc;
}

/* --- --search-completion, --search-extra, --search-resolver --- */

static int
read_search_extra(struct options *o, const char *text, struct dname *domain)
{
	const struct answer_config *a = &o->answers;
	struct dname arpa;

	if (dname_from_text(domain, text) < 0 || domain->len == 1)
		return flags_refuse("search-extra", text, "not a domain, such as corp.example");
	dname_lower(domain->wire, domain->len);
	dname_from_text(&arpa, "arpa.");
	if (dname_in_zone(domain->wire, a->zone.wire) >= 0 ||
	    dname_in_zone(domain->wire, arpa.wire) >= 0)
		return flags_refuse("search-extra", text,
		    "must be outside of --domain and of arpa: pods' own search domains are walked "
		    "already");
	return 0;
}

static int
read_search(struct options *o)
{
	struct answer_config *a = &o->answers;
	int rc = 0;

	a->search_resolver = o->has_search_resolver;
	if (o->search_extra.count > SEARCH_EXTRA_MAX)
		return flags_refuse("search-extra", o->search_extra.items[SEARCH_EXTRA_MAX],
		    "at most 8 domains: each may cost a question");
	a->search_extra = xcalloc(SEARCH_EXTRA_MAX, sizeof *a->search_extra);
	for (size_t i = 0; i < o->search_extra.count; i++) {
		int bad = read_search_extra(o, o->search_extra.items[i], &a->search_extra[i]);

		rc = bad < 0 ? bad : rc;
		a->search_extra_count++;
	}
	return rc;
}

/* --- --filter-aaaa, --filter-a and --filter-except --- */

static int
read_except(struct options *o)
{
	struct answer_config *answers = &o->answers;

	if (o->filter_except.count == 0)
		return 0;
	answers->filter_except = xcalloc(o->filter_except.count, sizeof *answers->filter_except);
	for (size_t i = 0; i < o->filter_except.count; i++) {
		struct dname *zone = &answers->filter_except[i];

		if (dname_from_text(zone, o->filter_except.items[i]) < 0)
			return flags_refuse("filter-except", o->filter_except.items[i],
			    "not a DNS name, such as example.com");
		dname_lower(zone->wire, zone->len);
		answers->filter_except_count++;
	}
	return 0;
}

static int
read_filter(struct options *o)
{
	if (read_except(o) < 0)
		return -EINVAL;
	if (o->filter_a != FILTER_ON || o->filter_aaaa != FILTER_ON)
		return 0;
	log_errorx("--filter-a=on and --filter-aaaa=on: no outside name would have an address; "
		   "leave out one of them");
	return -EINVAL;
}

int
server_options_read(struct options *o)
{
	/* All of them, so that one run shows all mistakes. */
	const int results[] = { read_nameservers(o),
		check_dnsmasq(o, "resolver", &o->resolver, &o->has_resolver, "behind"),
		check_dnsmasq(o, "search-resolver", &o->search_resolver, &o->has_search_resolver,
		    "in front of"),
		read_until_synced(o), read_search(o), read_filter(o) };
	int rc = 0;

	for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
		rc = results[i] < 0 ? results[i] : rc;
	return rc;
}
