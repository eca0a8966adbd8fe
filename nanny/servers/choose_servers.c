/*
 * Decides which servers dnsmasq uses for each domain. The inputs are the ConfigMap, resolv.conf,
 * resolved host names, forwarding loops, the addresses of dnsmasq's probe, and the servers file
 * that dnsmasq has loaded.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/log.h"
#include "lib/xalloc.h"
#include "nanny/nanny.h"

/* Stores the reason why a server is skipped (takes `why`). Returns true if the reason is new, so
 * that it is logged only once. */
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

	if (config_closes_all(config))
		return 0;
	if (config->upstreams.count) {
		for (size_t i = 0; i < config->upstreams.count; i++)
			servers[count++] = config->upstreams.servers[i].server;
		return count;
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

/* Adds the addresses of a server that is given by host name, except addresses of dnsmasq itself.
 * Sets `loop` to the reason why the first such address is skipped. */
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

/* Adds the stub domain's servers for `domain`, which is the stub domain or a name below it. */
static void
add_stub(struct domain_table *table, const char *domain, const struct conf_stub *stub,
    const struct stub_hosts *names, const struct forwarding_loop *guard,
    const struct server *unresolved, char **loop)
{
	if (!conf_stub_has_effect(stub))
		return;
	struct domain_servers *entry = domain_table_add(table, domain);
	for (size_t k = 0; k < stub->count; k++)
		if (stub->servers[k].host[0])
			add_host(entry, &stub->servers[k], names, guard, loop);
		else
			domain_servers_add_tls(
			    entry, &stub->servers[k].server, stub->servers[k].tls_name);
	if (entry->count == 0 && unresolved != NULL)
		domain_servers_add_server(entry, unresolved);
	entry->closed = stub->closed;
}

/* Adds a name that kubedns answers, unless the same name is a stub domain with servers. */
static void
add_own(struct domain_table *table, const struct config *config, const char *domain, char **clash)
{
	struct domain_servers *entry = domain_table_add(table, domain);

	if (entry->count > 0) {
		if (*clash == NULL)
			*clash = xasprintf("local name %s is also a stub domain", domain);
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

/* Finds the stub domain with exactly this name, or NULL. */
static const struct conf_stub *
stub_of(const struct conf_stubs *stubs, const char *domain)
{
	return stubs->count == 0
		   ? NULL
		   : bsearch(domain, stubs->items, stubs->count, sizeof *stubs->items, by_domain);
}

/*
 * Finds the stub domain that contains `own`, a name that kubedns answers. Without the entry for
 * `own`, dnsmasq would send names below `own` to this stub domain's servers. If a domain on
 * dnsmasq's command line contains `own` instead, and its servers are not kubedns, sets `*fixed` to
 * that domain. Returns NULL if there is no such stub domain. Returns NULL too if a rewrite suffix
 * or a zone of the records sends names below `own` to kubedns.
 */
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
		/* if the stub domain is `own` itself, all names below already use its servers */
		if (stub != NULL && conf_stub_has_effect(stub))
			return at == own ? NULL : stub;
		at = strchr(at, '.');
		at = at != NULL ? at + 1 : NULL;
	}
	return NULL;
}

/* Returns dnsmasq's notation for all names below a domain, without the domain itself. */
static const char *
all_below(const char *domain, char text[CONF_HOST_MAX + 2])
{
	snprintf(text, CONF_HOST_MAX + 2, "*.%s", domain);
	return text;
}

/* The resolved addresses of stub servers that are given by host name. */
struct resolved_stubs {
	const struct stub_hosts *names;
	const struct forwarding_loop *guard;
	const struct server *unresolved;
};

/* Sends names below `own` to the servers of the domain that contains `own`, unless a wildcard of
 * the records covers these names. */
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

/*
 * Adds all entries that begin with "*". These entries sort before all other domains and are added
 * in sorted order, so each insertion is an append. Returns the number of wildcards among the names
 * that kubedns answers.
 */
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
		domain_servers_add_tls(others, &upstreams[i],
		    config->upstreams.count > 0 ? config->upstreams.servers[i].tls_name : "");
	if (config_closes_all(config) && unresolved != NULL)
		domain_servers_add_server(others, unresolved);
	others->closed = config_closes_all(config);
	size_t at = add_all_below(&table, config, &own, &stubs, &loop);
	/* Merge both sorted lists, so that each entry is appended. */
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
		log_warnx(
		    "%s: queries for it go to the stub domain's servers, not to kubedns", clash);
	if (note_loop(&config->host_loop, loop))
		log_errorx("stubDomains: %s; not used", loop);
	return table;
}

struct servers_file
nanny_plan(struct nanny *nanny, bool fresh)
{
	/* for --check, which has no socket */
	struct server nobody = { .addr = { .family = AF_INET, .bytes = { 127, 0, 0, 1 } },
		.port = 1 };
	struct server unresolved;
	bool answers = nanny->child_probe != NULL;

	if (answers) {
		nobody = child_probe_refused(nanny->child_probe);
		unresolved = child_probe_servfail(nanny->child_probe);
	}
	struct domain_table table = config_domain_table(&nanny->config, &nanny->resolv,
	    nanny->names, &nanny->forwarding_loop, answers ? &unresolved : NULL);
	struct servers_file file = nanny->engine->plan(nanny, &table, &nobody, fresh);
	domain_table_free(&table);
	return file;
}
