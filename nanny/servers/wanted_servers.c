/*
 * Decides which servers dnsmasq sends queries to for which domain, from all that the servers file is made of:
 * the ConfigMap, resolv.conf, names whose addresses were looked up, forwarding loops, the addresses of
 * dnsmasq's probe, and the file that dnsmasq has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/log.h"
#include "lib/xalloc.h"
#include "nanny/nanny.h"

/* Keeps why a server is passed over, in place of the last reason; true if it is a new one. */
static bool
note_loop(char **said, char *why)
{
	bool news = why != NULL && (*said == NULL || strcmp(why, *said) != 0);

	free(*said);
	*said = why;
	return news;
}

size_t
config_upstreams(struct config *config, const struct resolv *resolv,
    const struct forwarding_loop *guard, struct server servers[CONF_UPSTREAMS_MAX])
{
	size_t count = 0;
	char *loop = NULL;

	if (config->upstreams.count) {
		memcpy(
		    servers, config->upstreams.servers, config->upstreams.count * sizeof *servers);
		return config->upstreams.count;
	}
	for (size_t i = 0; i < resolv->count && count < CONF_UPSTREAMS_MAX; i++) {
		char *why = forwarding_loop_find(guard, "", &resolv->servers[i], 1);

		if (why == NULL)
			servers[count++] = resolv->servers[i];
		else if (loop == NULL)
			loop = why;
		else
			free(why);
	}
	if (note_loop(&config->loop, loop))
		log_errorx("resolv.conf: %s: not used as an upstream server; cluster names are "
			   "still answered",
		    loop);
	return count;
}

/* Adds the addresses of a server given by name, except those that are dnsmasq itself; `loop` gets
 * the reason for the first. */
static void
add_host(struct domain_servers *entry, const struct conf_server *by_name,
    const struct stub_hosts *names, const struct forwarding_loop *guard, char **loop)
{
	const struct stub_host *name = stub_hosts_get(names, by_name->host);
	char text[SERVER_TEXT_MAX];
	const char *why;

	for (size_t i = 0; name != NULL && i < name->known_count; i++) {
		struct server server = { .addr = name->known[i].addr,
			.port = by_name->server.port };

		if (!forwarding_loop_is(guard, &server, &why))
			domain_servers_add_server(entry, &server);
		else if (*loop == NULL && name->known[i].current)
			*loop = xasprintf("%s: its address %s %s", by_name->host,
			    server_format(&server, text), why);
	}
}

/* The stub domain's servers, for `domain`, which is the stub domain or within it. */
static void
add_stub(struct domain_table *table, const char *domain, const struct conf_stub *stub,
    const struct stub_hosts *names, const struct forwarding_loop *guard,
    const struct server *unresolved, char **loop)
{
	if (stub->count == 0)
		return;
	struct domain_servers *entry = domain_table_add(table, domain);
	for (size_t k = 0; k < stub->count; k++)
		if (stub->servers[k].host[0])
			add_host(entry, &stub->servers[k], names, guard, loop);
		else
			domain_servers_add_server(entry, &stub->servers[k].server);
	if (entry->count == 0 && unresolved != NULL)
		domain_servers_add_server(entry, unresolved);
}

/* A name that kubedns answers, unless a stub domain of that name has its own servers. */
static void
add_own(struct domain_table *table, const struct config *config, const char *domain, char **clash)
{
	struct domain_servers *entry = domain_table_add(table, domain);

	if (entry->count > 0) {
		if (*clash == NULL)
			*clash = xasprintf("own name %s is a stub domain too", domain);
		return;
	}
	for (size_t i = 0; i < config->kubedns->count; i++)
		domain_servers_add_server(entry, &config->kubedns->servers[i]);
}

static int
by_domain(const void *domain, const void *stub)
{
	return strcmp(domain, ((const struct conf_stub *)stub)->domain);
}

/* The stub domain of exactly this name, or NULL. */
static const struct conf_stub *
stub_of(const struct conf_stubs *stubs, const char *domain)
{
	return stubs->count == 0
		   ? NULL
		   : bsearch(domain, stubs->items, stubs->count, sizeof *stubs->items, by_domain);
}

/* The stub domain whose servers would be asked for names below an own name if it were none, or in
 * `*fixed` a domain of dnsmasq's command line with other servers than kubedns. NULL: neither, or they
 * are kubedns's by a suffix of the rewrites or a zone of the records. */
static const struct conf_stub *
stub_around(const struct config *config, const char *own, const struct domain_servers **fixed)
{
	*fixed = NULL;
	for (const char *at = own; at != NULL;) {
		if (operator_domains_have(&config->suffixes, at) ||
		    operator_domains_have(&config->zones, at))
			return NULL;
		const struct domain_servers *given = domain_table_get(config->fixed, at);
		if (given != NULL && given->count > 0) {
			if (!server_equal(&given->servers[0], &config->kubedns->servers[0]))
				*fixed = given;
			return NULL;
		}
		const struct conf_stub *stub = stub_of(&config->stubs, at);
		if (stub != NULL && stub->count > 0)
			return at == own ? NULL
					 : stub; /* `own` keeps its servers, as all below it */
		at = strchr(at, '.');
		at = at != NULL ? at + 1 : NULL;
	}
	return NULL;
}

/* What dnsmasq calls all names below a domain, without itself. */
static const char *
all_below(const char *domain, char text[CONF_HOST_MAX + 2])
{
	snprintf(text, CONF_HOST_MAX + 2, "*.%s", domain);
	return text;
}

/* Where the addresses of stub servers that are given by name come from. */
struct resolved_stubs {
	const struct stub_hosts *names;
	const struct forwarding_loop *guard;
	const struct server *unresolved;
};

/* Names below an own one stay with the domain around it, unless they are a wildcard's. */
static void
add_below(struct domain_table *table, const struct config *config, const char *own,
    const char *below, const struct resolved_stubs *stubs, char **loop)
{
	const struct domain_servers *fixed;
	const struct conf_stub *stub = stub_around(config, own, &fixed);

	if (stub != NULL)
		add_stub(table, below, stub, stubs->names, stubs->guard, stubs->unresolved, loop);
	for (size_t k = 0; fixed != NULL && k < fixed->count; k++)
		domain_servers_add_server(domain_table_add(table, below), &fixed->servers[k]);
}

/* All that begins with "*", which is before all that a domain begins with: each entry comes at the
 * end. Returns how many own names were wildcards. */
static size_t
add_all_below(struct domain_table *table, const struct config *config,
    const struct operator_domains *own, const struct resolved_stubs *stubs, char **loop)
{
	char below[CONF_HOST_MAX + 2], *ignored = NULL;
	size_t wildcards = 0, at = 0;

	while (wildcards < own->count && *own->items[wildcards] == '*')
		wildcards++;
	for (size_t i = wildcards; i < own->count; i++) {
		all_below(own->items[i], below);
		while (at < wildcards && strcmp(own->items[at], below) < 0)
			add_own(table, config, own->items[at++], &ignored);
		if (at == wildcards || strcmp(own->items[at], below) != 0)
			add_below(table, config, own->items[i], below, stubs, loop);
	}
	while (at < wildcards)
		add_own(table, config, own->items[at++], &ignored);
	free(ignored);
	return wildcards;
}

struct domain_table
config_domain_table(struct config *config, const struct resolv *resolv,
    const struct stub_hosts *names, const struct forwarding_loop *guard,
    const struct server *unresolved)
{
	struct domain_table table = { 0 };
	struct server upstreams[CONF_UPSTREAMS_MAX];
	size_t count = config_upstreams(config, resolv, guard, upstreams);
	struct domain_servers *others = domain_table_add(&table, "");
	struct operator_domains two = operator_domains_of_both(&config->hosts, &config->rewrites);
	struct operator_domains own = operator_domains_of_both(&two, &config->records);
	const struct resolved_stubs stubs = { names, guard, unresolved };
	char *loop = NULL, *clash = NULL;

	if (config->kubedns == NULL || config->kubedns->count == 0)
		own.count = 0;
	for (size_t i = 0; i < count; i++)
		domain_servers_add_server(others, &upstreams[i]);
	size_t at = add_all_below(&table, config, &own, &stubs, &loop);
	/* Both lists in one order, so that each entry comes at the end. */
	for (size_t i = 0; i < config->stubs.count; i++) {
		const struct conf_stub *stub = &config->stubs.items[i];

		while (at < own.count && strcmp(own.items[at], stub->domain) < 0)
			add_own(&table, config, own.items[at++], &clash);
		add_stub(&table, stub->domain, stub, names, guard, unresolved, &loop);
	}
	while (at < own.count)
		add_own(&table, config, own.items[at++], &clash);
	free(two.items);
	free(own.items);
	if (note_loop(&config->clash, clash))
		log_warnx("%s, whose servers are asked in place of kubedns", clash);
	if (note_loop(&config->host_loop, loop))
		log_errorx("stubDomains: %s; not asked", loop);
	return table;
}

struct servers_file
nanny_plan(struct nanny *nanny, bool fresh)
{
	static const struct servers_file nothing;
	struct server nobody = { 0 }, unresolved = { 0 };
	size_t dropped;

	if (nanny->dnsmasq_probe != NULL) {
		nobody = dnsmasq_probe_refused(nanny->dnsmasq_probe);
		unresolved = dnsmasq_probe_servfail(nanny->dnsmasq_probe);
	}
	struct domain_table table = config_domain_table(
	    &nanny->config, &nanny->resolv, nanny->names, &nanny->forwarding_loop, &unresolved);
	struct servers_input input = { .wanted = &table,
		.fixed = &nanny->args.fixed,
		.nobody = nobody,
		.before = fresh ? &nothing : &nanny->written,
		.strict_order = nanny->args.strict_order,
		.now = ++nanny->plans };
	struct servers_file file = servers_plan(&input, &dropped);
	domain_table_free(&table);
	nanny->stats.dropped_lines += dropped;
	if (dropped)
		log_warnx("servers file: %zu lines of domains long gone dropped", dropped);
	return file;
}
