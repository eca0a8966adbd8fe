#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf_hosts.h"
#include "lib/conf_records.h"
#include "lib/conf_rewrites.h"
#include "lib/log.h"
#include "lib/xalloc.h"
#include "nanny/config.h"

const char *const config_key_names[] = { [CONFIG_STUBS] = "stubDomains",
	[CONFIG_UPSTREAMS] = "upstreamNameservers",
	[CONFIG_HOSTS] = "hosts",
	[CONFIG_RECORDS] = "records",
	[CONFIG_REWRITES] = "rewrites",
	NULL };

static char *
check_stubs(const struct conf_stubs *stubs, const struct config_rules *rules)
{
	for (size_t i = 0; i < stubs->count; i++) {
		const struct conf_stub *stub = &stubs->items[i];
		if (domain_table_get(&rules->args->fixed, stub->domain))
			return xasprintf(
			    "\"%s\": has its servers on dnsmasq's command line", stub->domain);
		for (size_t k = 0; k < stub->count; k++) {
			char *why = stub->servers[k].host[0]
					? NULL
					: forwarding_loop_find(rules->guard, stub->domain,
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
	char *empty = conf_stubs_empty(&stubs);
	*changed = !same_stubs(&config->stubs, &stubs);
	if (empty && *changed)
		log_warnx("conf %s: stubDomains: %s", rules->path, empty);
	free(empty);
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
	if ((why = forwarding_loop_find(rules->guard, "", upstreams.servers, upstreams.count)) !=
	    NULL)
		return why;
	*changed = upstreams.count != config->upstreams.count;
	for (size_t i = 0; i < upstreams.count && !*changed; i++)
		*changed = !server_equal(&upstreams.servers[i], &config->upstreams.servers[i]);
	config->upstreams = upstreams;
	return NULL;
}

/* Replaces `own` by the domains for which dnsmasq is to ask kubedns; else returns why not. */
static char *
take_domains(struct operator_domains *own, struct operator_domains *domains,
    const struct config_rules *rules, bool *changed)
{
	for (size_t i = 0; i < domains->count; i++)
		if (domain_table_get(&rules->args->fixed, domains->items[i])) {
			char *why = xasprintf(
			    "\"%s\": has its servers on dnsmasq's command line", domains->items[i]);
			operator_domains_free(domains);
			return why;
		}
	*changed = !operator_domains_equal(own, domains);
	operator_domains_free(own);
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
	struct operator_domains domains =
	    operator_domains_of_hosts(&hosts, cluster_zone(rules, zone));
	conf_hosts_free(&hosts);
	return take_domains(&config->hosts, &domains, rules, changed);
}

/* The same of names with what is below them: `below` gets those of the new content, or frees them. */
static char *
take_both(struct operator_domains *own, struct operator_domains *below,
    struct operator_domains *domains, struct operator_domains *domains_below,
    const struct config_rules *rules, bool *changed)
{
	bool others = !operator_domains_equal(below, domains_below);
	char *why = take_domains(own, domains, rules, changed);
	if (why != NULL) {
		operator_domains_free(domains_below);
		return why;
	}
	*changed |= others;
	operator_domains_free(below);
	*below = *domains_below;
	return NULL;
}

static char *
apply_records(struct config *config, const struct confdir_key *key,
    const struct config_rules *rules, bool *changed)
{
	struct conf_records records = { 0 };
	char *why = NULL, zone[CONF_HOST_MAX];
	if (key && conf_records_parse(key->value, key->len, rules->domain, &records, &why) < 0)
		return why;
	struct operator_domains zones,
	    domains = operator_domains_of_records(&records, cluster_zone(rules, zone), &zones);
	conf_records_free(&records);
	return take_both(&config->records, &config->zones, &domains, &zones, rules, changed);
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
	struct operator_domains suffixes, domains = operator_domains_of_rewrites(&rewrites,
					      cluster_zone(rules, zone), &suffixes, &patterns);
	conf_rewrites_free(&rewrites);
	if (patterns > 0 && patterns != config->patterns && config->kubedns)
		log_warnx("rewrites: %zu patterns hold only for names that kubedns is asked for: "
			  "the cluster's, and those below an exact name or suffix",
		    patterns);
	config->patterns = patterns;
	return take_both(&config->rewrites, &config->suffixes, &domains, &suffixes, rules, changed);
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
		[CONFIG_RECORDS] = apply_records,
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
	operator_domains_free(&config->hosts);
	operator_domains_free(&config->records);
	operator_domains_free(&config->zones);
	operator_domains_free(&config->rewrites);
	operator_domains_free(&config->suffixes);
	*config = (struct config){ 0 };
}
