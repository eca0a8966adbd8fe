#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf_hosts.h"
#include "lib/conf_rewrites.h"
#include "lib/log.h"
#include "lib/xalloc.h"
#include "nanny/config.h"

const char *const config_key_names[] = { [CONFIG_STUBS] = "stubDomains",
	[CONFIG_UPSTREAMS] = "upstreamNameservers",
	[CONFIG_HOSTS] = "hosts",
	[CONFIG_REWRITES] = "rewrites",
	NULL };

/* Why these servers must not be asked, or NULL; caller frees. */
static char *
find_loop(
    const struct loop_guard *guard, const char *whose, const struct server *servers, size_t count)
{
	const char *why;
	char text[SERVER_TEXT_MAX];
	for (size_t i = 0; i < count; i++)
		if (loop_guard_is(guard, &servers[i], &why))
			return xasprintf("%s%sserver %s %s", whose, *whose ? ": " : "",
			    server_format(&servers[i], text), why);
	return NULL;
}

static char *
check_stubs(const struct conf_stubs *stubs, const struct config_rules *rules)
{
	for (size_t i = 0; i < stubs->count; i++) {
		const struct conf_stub *stub = &stubs->items[i];
		if (domain_table_get(&rules->args->fixed, stub->domain))
			return xasprintf(
			    "\"%s\": has its servers on dnsmasq's command line", stub->domain);
		for (size_t k = 0; k < stub->count; k++) {
			char *why = stub->servers[k].host[0] ? NULL
							     : find_loop(rules->guard, stub->domain,
								   &stub->servers[k].server, 1);
			if (why)
				return why;
		}
	}
	return NULL;
}

static bool
same_stubs(const struct conf_stubs *a, const struct conf_stubs *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		const struct conf_stub *x = &a->items[i], *y = &b->items[i];
		if (strcmp(x->domain, y->domain) != 0 || x->count != y->count)
			return false;
		for (size_t k = 0; k < x->count; k++) {
			const struct conf_server *s = &x->servers[k], *t = &y->servers[k];
			if (strcmp(s->host, t->host) != 0 || s->server.port != t->server.port)
				return false;
			if (!s->host[0] && !server_equal(&s->server, &t->server))
				return false;
		}
	}
	return true;
}

/* Both return why the key is refused (caller frees), or NULL, and then set whether what is in force
 * has changed. */
static char *
apply_stubs(struct config *config, const struct confdir_key *key, const struct config_rules *rules,
    bool *changed)
{
	struct conf_stubs stubs = { 0 };
	char *why = NULL;
	if (key && conf_stubs_parse(key->value, key->len, rules->domain, &stubs, &why) < 0)
		return why;
	if ((why = check_stubs(&stubs, rules)) != NULL) {
		conf_stubs_free(&stubs);
		return why;
	}
	*changed = !same_stubs(&config->stubs, &stubs);
	conf_stubs_free(&config->stubs);
	config->stubs = stubs;
	return NULL;
}

static char *
apply_upstreams(struct config *config, const struct confdir_key *key,
    const struct config_rules *rules, bool *changed)
{
	struct conf_upstreams upstreams = { 0 };
	char *why = NULL;
	if (key && conf_upstreams_parse(key->value, key->len, &upstreams, &why) < 0)
		return why;
	if ((why = find_loop(rules->guard, "", upstreams.servers, upstreams.count)) != NULL)
		return why;
	*changed = upstreams.count != config->upstreams.count;
	for (size_t i = 0; i < upstreams.count && !*changed; i++)
		*changed = !server_equal(&upstreams.servers[i], &config->upstreams.servers[i]);
	config->upstreams = upstreams;
	return NULL;
}

/* Replaces `own` by the domains for which dnsmasq is to ask kubedns; else returns why not. */
static char *
take_domains(struct own_domains *own, struct own_domains *domains, const struct config_rules *rules,
    bool *changed)
{
	for (size_t i = 0; i < domains->count; i++)
		if (domain_table_get(&rules->args->fixed, domains->items[i])) {
			char *why = xasprintf(
			    "\"%s\": has its servers on dnsmasq's command line", domains->items[i]);
			own_domains_free(domains);
			return why;
		}
	*changed = !own_domains_equal(own, domains);
	own_domains_free(own);
	*own = *domains;
	return NULL;
}

/* The cluster domain, whose names reach kubedns anyway. */
static const char *
cluster_zone(const struct config_rules *rules, char zone[CONF_HOST_MAX])
{
	const char *ignored;
	if (conf_name_parse(rules->domain, zone, &ignored) < 0)
		zone[0] = '\0';
	return zone;
}

/* Both by the same rules as kubedns's, which answers these names. */
static char *
apply_hosts(struct config *config, const struct confdir_key *key, const struct config_rules *rules,
    bool *changed)
{
	struct conf_hosts hosts = { 0 };
	char *why = NULL, zone[CONF_HOST_MAX];
	if (key && conf_hosts_parse(key->value, key->len, &hosts, &why) < 0)
		return why;
	struct own_domains domains = own_domains_of_hosts(&hosts, cluster_zone(rules, zone));
	conf_hosts_free(&hosts);
	return take_domains(&config->hosts, &domains, rules, changed);
}

static char *
apply_rewrites(struct config *config, const struct confdir_key *key,
    const struct config_rules *rules, bool *changed)
{
	struct conf_rewrites rewrites = { 0 };
	char *why = NULL, zone[CONF_HOST_MAX];
	size_t patterns;
	if (key && conf_rewrites_parse(key->value, key->len, &rewrites, &why) < 0)
		return why;
	struct own_domains suffixes, domains = own_domains_of_rewrites(&rewrites,
					 cluster_zone(rules, zone), &suffixes, &patterns);
	conf_rewrites_free(&rewrites);
	if (patterns > 0 && patterns != config->patterns && config->kubedns)
		log_warnx("rewrites: %zu patterns hold only for names that kubedns is asked for: "
			  "the cluster's, and those below an exact name or suffix",
		    patterns);
	config->patterns = patterns;
	bool other_suffixes = !own_domains_equal(&config->suffixes, &suffixes);
	if ((why = take_domains(&config->rewrites, &domains, rules, changed)) != NULL) {
		own_domains_free(&suffixes);
		return why;
	}
	*changed |= other_suffixes;
	own_domains_free(&config->suffixes);
	config->suffixes = suffixes;
	return NULL;
}

typedef char *apply_key(struct config *config, const struct confdir_key *key,
    const struct config_rules *rules, bool *changed);

static bool
apply_one(struct config *config, enum config_key which, const struct confdir_set *set,
    const struct config_rules *rules)
{
	static apply_key *const apply[CONFIG_KEY_COUNT] = { [CONFIG_STUBS] = apply_stubs,
		[CONFIG_UPSTREAMS] = apply_upstreams,
		[CONFIG_HOSTS] = apply_hosts,
		[CONFIG_REWRITES] = apply_rewrites };
	const struct confdir_key *key = confdir_get(set, config_key_names[which]);
	bool changed = false;
	char *why =
	    key && key->error ? xstrdup(key->error) : apply[which](config, key, rules, &changed);
	conf_key_judge(&config->keys[which], rules->path, config_key_names[which],
	    key ? key->value : NULL, key ? key->len : 0, why);
	return changed;
}

bool
config_apply(struct config *config, const struct confdir_set *set, const struct config_rules *rules)
{
	bool changed = false;
	char domain[CONF_HOST_MAX];
	const char *ignored;
	config->fixed = &rules->args->fixed;
	if (conf_name_parse(rules->domain, domain, &ignored) == 0)
		config->kubedns = domain_table_get(config->fixed, domain);
	for (int i = 0; i < CONFIG_KEY_COUNT; i++)
		changed |= apply_one(config, (enum config_key)i, set, rules);
	return changed;
}

/* Keeps why a server is passed over, in place of the last reason; true if it is a new one. */
static bool
note_loop(char **said, char *why)
{
	bool news = why && (*said == NULL || strcmp(why, *said) != 0);
	free(*said);
	*said = why;
	return news;
}

size_t
config_upstreams(struct config *config, const struct resolv *resolv, const struct loop_guard *guard,
    struct server servers[CONF_UPSTREAMS_MAX])
{
	size_t count = 0;
	char *loop = NULL;
	if (config->upstreams.count) {
		memcpy(
		    servers, config->upstreams.servers, config->upstreams.count * sizeof *servers);
		return config->upstreams.count;
	}
	for (size_t i = 0; i < resolv->count && count < CONF_UPSTREAMS_MAX; i++) {
		char *why = find_loop(guard, "", &resolv->servers[i], 1);
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
    const struct stub_hosts *names, const struct loop_guard *guard, char **loop)
{
	const struct stub_host *name = stub_hosts_get(names, by_name->host);
	char text[SERVER_TEXT_MAX];
	const char *why;
	for (size_t i = 0; name && i < name->known_count; i++) {
		struct server server = { .addr = name->known[i].addr,
			.port = by_name->server.port };
		if (!loop_guard_is(guard, &server, &why))
			domain_servers_add_server(entry, &server);
		else if (*loop == NULL && name->known[i].current)
			*loop = xasprintf("%s: its address %s %s", by_name->host,
			    server_format(&server, text), why);
	}
}

/* The stub domain's servers, for `domain`, which is the stub domain or within it. */
static void
add_stub(struct domain_table *table, const char *domain, const struct conf_stub *stub,
    const struct stub_hosts *names, const struct loop_guard *guard, const struct server *unresolved,
    char **loop)
{
	if (stub->count == 0)
		return;
	struct domain_servers *entry = domain_table_add(table, domain);
	for (size_t k = 0; k < stub->count; k++)
		if (stub->servers[k].host[0])
			add_host(entry, &stub->servers[k], names, guard, loop);
		else
			domain_servers_add_server(entry, &stub->servers[k].server);
	if (entry->count == 0 && unresolved)
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

/* The stub domain whose servers would be asked for names below an own name if it were none, or in
 * `*fixed` a domain of dnsmasq's command line with other servers than kubedns. NULL: neither, or they
 * are kubedns's by a suffix of the rewrites. */
static const struct conf_stub *
stub_around(const struct config *config, const char *own, const struct domain_servers **fixed)
{
	*fixed = NULL;
	for (const char *at = own; at != NULL;) {
		if (own_domains_have(&config->suffixes, at))
			return NULL;
		const struct domain_servers *given = domain_table_get(config->fixed, at);
		if (given != NULL && given->count > 0) {
			if (!server_equal(&given->servers[0], &config->kubedns->servers[0]))
				*fixed = given;
			return NULL;
		}
		const struct conf_stub *stub = bsearch(at, config->stubs.items, config->stubs.count,
		    sizeof *config->stubs.items, by_domain);
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

struct domain_table
config_domain_table(struct config *config, const struct resolv *resolv,
    const struct stub_hosts *names, const struct loop_guard *guard, const struct server *unresolved)
{
	struct domain_table table = { 0 };
	struct server upstreams[CONF_UPSTREAMS_MAX];
	size_t count = config_upstreams(config, resolv, guard, upstreams);
	struct domain_servers *others = domain_table_add(&table, "");
	struct own_domains own = own_domains_of_both(&config->hosts, &config->rewrites);
	size_t at = 0, own_count = config->kubedns == NULL ? 0 : own.count;
	char *loop = NULL, *clash = NULL, below[CONF_HOST_MAX + 2];
	for (size_t i = 0; i < count; i++)
		domain_servers_add_server(others, &upstreams[i]);
	/* Each entry comes at the end: "*" is before all that a domain begins with. */
	for (size_t i = 0; i < own_count; i++) {
		const struct domain_servers *fixed;
		const struct conf_stub *stub = stub_around(config, own.items[i], &fixed);
		if (stub != NULL)
			add_stub(&table, all_below(own.items[i], below), stub, names, guard,
			    unresolved, &loop);
		for (size_t k = 0; fixed != NULL && k < fixed->count; k++)
			domain_servers_add_server(
			    domain_table_add(&table, all_below(own.items[i], below)),
			    &fixed->servers[k]);
	}
	/* Both lists in one order, so that each entry comes at the end. */
	for (size_t i = 0; i < config->stubs.count; i++) {
		const struct conf_stub *stub = &config->stubs.items[i];
		while (at < own_count && strcmp(own.items[at], stub->domain) < 0)
			add_own(&table, config, own.items[at++], &clash);
		add_stub(&table, stub->domain, stub, names, guard, unresolved, &loop);
	}
	while (at < own_count)
		add_own(&table, config, own.items[at++], &clash);
	free(own.items);
	if (note_loop(&config->clash, clash))
		log_warnx("%s, whose servers are asked in place of kubedns", clash);
	if (note_loop(&config->host_loop, loop))
		log_errorx("stubDomains: %s; not asked", loop);
	return table;
}

const char **
config_hosts(const struct config *config, size_t *count)
{
	const char **hosts = xcalloc(CONF_STUB_NAMES_MAX + 1, sizeof *hosts);
	*count = 0;
	for (size_t i = 0; i < config->stubs.count; i++)
		for (size_t k = 0; k < config->stubs.items[i].count; k++)
			if (config->stubs.items[i].servers[k].host[0])
				hosts[(*count)++] = config->stubs.items[i].servers[k].host;
	return hosts;
}

void
config_free(struct config *config)
{
	conf_stubs_free(&config->stubs);
	for (int i = 0; i < CONFIG_KEY_COUNT; i++)
		conf_key_clear(&config->keys[i]);
	free(config->loop);
	free(config->host_loop);
	free(config->clash);
	own_domains_free(&config->hosts);
	own_domains_free(&config->rewrites);
	own_domains_free(&config->suffixes);
	*config = (struct config){ 0 };
}
