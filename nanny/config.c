#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf_closed.h"
#include "lib/conf_hosts.h"
#include "lib/conf_records.h"
#include "lib/conf_rewrites.h"
#include "lib/log.h"
#include "lib/xalloc.h"
#include "nanny/config.h"

/* The argument of the functions below: the configuration to change, and the rules that validate the
 * new value. */
struct target {
	struct config *config;
	const struct config_rules *rules;
};

/* Stores the first reason why an entry is refused. Takes `why`. */
static void
refuse_entry(char **partly, char *why)
{
	if (*partly == NULL)
		*partly = why;
	else
		free(why);
}

/* Removes the servers that this nanny cannot use. */
static void
check_stub_servers(struct conf_stub *stub, const struct config_rules *rules, char **partly)
{
	char *no_tls = rules->engine->has_tls
			   ? NULL
			   : conf_servers_no_tls(stub->servers, stub->count, rules->engine->name);
	size_t kept = 0;

	if (no_tls != NULL) {
		refuse_entry(partly, no_tls);
		stub->refused = true;
		stub->count = 0;
	}
	for (size_t k = 0; k < stub->count; k++) {
		struct conf_server *server = &stub->servers[k];
		char *why = server->host[0] ? NULL
					    : forwarding_loop_find(
						  rules->guard, stub->domain, &server->server, 1);

		if (why == NULL) {
			stub->servers[kept++] = *server;
			continue;
		}
		refuse_entry(partly, why);
		stub->refused = true;
	}
	stub->count = kept;
}

/* Removes the entries and servers that this nanny cannot use. */
static void
check_stubs(struct conf_stubs *stubs, const struct config_rules *rules, char **partly)
{
	size_t kept = 0;

	for (size_t i = 0; i < stubs->count; i++) {
		struct conf_stub *stub = &stubs->items[i];

		if (domain_table_get(&rules->args->fixed, stub->domain) != NULL) {
			refuse_entry(
			    partly, xasprintf("\"%s\": the command line after -- already has its "
					      "servers: remove one of the two",
					stub->domain));
			free(stub->servers);
			free(stub->why);
			continue;
		}
		check_stub_servers(stub, rules, partly);
		stubs->items[kept++] = *stub;
	}
	stubs->count = kept;
}

static bool
same_stubs(const struct conf_stubs *a, const struct conf_stubs *b)
{
	if (a->count != b->count || a->closed != b->closed || a->closed_all != b->closed_all)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		const struct conf_stub *x = &a->items[i], *y = &b->items[i];

		if (strcmp(x->domain, y->domain) != 0 || x->count != y->count ||
		    x->closed != y->closed)
			return false;
		for (size_t k = 0; k < x->count; k++)
			if (!conf_server_equal(&x->servers[k], &y->servers[k]))
				return false;
	}
	return true;
}

/* Returns the cluster domain in normalised form. dnsmasq always forwards names in this domain to
 * kubedns. */
static const char *
cluster_zone(const struct config_rules *rules, char zone[CONF_HOST_MAX])
{
	const char *ignored;

	if (conf_name_parse(rules->domain, zone, &ignored) < 0)
		zone[0] = '\0';
	return zone;
}

/* Removes from closed domains those whose names other servers answer anyway: the names of the cluster,
 * and the domains on the command line. A mistake in a key must not take these names down. */
static void
spare_domains(struct conf_stubs *stubs, const struct config_rules *rules)
{
	for (size_t i = 0; i < stubs->count; i++) {
		struct conf_stub *stub = &stubs->items[i];

		if (conf_stub_reserved(stub->domain, rules->domain) != NULL ||
		    domain_table_get(&rules->args->fixed, stub->domain) != NULL)
			stub->closed = false;
	}
}

/* Logs a warning about a key. Takes `text`, which is NULL if there is none. */
static void
warn(const char *key, char *text, const struct config_rules *rules)
{
	if (text != NULL)
		log_warnx("conf %s: %s: %s", rules->path, key, text);
	free(text);
}

static bool
has_servers(const struct conf_stubs *stubs)
{
	for (size_t i = 0; i < stubs->count; i++)
		if (stubs->items[i].count > 0)
			return true;
	return false;
}

static char *
apply_stubs(void *arg, struct conf_content *content)
{
	struct target *to = arg;
	struct config *config = to->config;
	struct conf_stubs *stubs = content->value;

	if (stubs->closed) {
		spare_domains(stubs, to->rules);
	} else {
		check_stubs(stubs, to->rules, &content->partly);
		conf_stubs_settle(stubs, &config->stubs);
		content->closed = conf_stubs_closed_names(stubs);
		content->unusable = !has_servers(stubs);
	}
	content->changed = !same_stubs(&config->stubs, stubs);
	if (content->changed) {
		warn("stubDomains", stubs->closed ? NULL : conf_stubs_empty(stubs), to->rules);
		char *port = NULL;
		for (size_t i = 0; i < stubs->count && port == NULL; i++)
			port =
			    conf_servers_tls_port(stubs->items[i].servers, stubs->items[i].count);
		warn("stubDomains", port, to->rules);
	}
	conf_stubs_free(&config->stubs);
	config->stubs = *stubs;
	*stubs = (struct conf_stubs){ 0 };
	return NULL;
}

static char *
apply_upstreams(void *arg, struct conf_content *content)
{
	struct target *to = arg;
	struct conf_upstreams *before = &to->config->upstreams;
	const struct conf_upstreams *upstreams = content->value;
	char *why = to->rules->engine->has_tls ? NULL
					       : conf_servers_no_tls(upstreams->servers,
						     upstreams->count, to->rules->engine->name);

	for (size_t i = 0; i < upstreams->count && why == NULL; i++)
		why = forwarding_loop_find(to->rules->guard, "", &upstreams->servers[i].server, 1);
	if (why != NULL)
		return why;
	content->changed = upstreams->count != before->count || upstreams->closed != before->closed;
	for (size_t i = 0; i < upstreams->count && !content->changed; i++)
		content->changed = !conf_server_equal(&upstreams->servers[i], &before->servers[i]);
	if (content->changed)
		warn("upstreamNameservers",
		    conf_servers_tls_port(upstreams->servers, upstreams->count), to->rules);
	*before = *upstreams;
	return NULL;
}

/* Replaces `own`, the domains that dnsmasq forwards to kubedns, with `domains`. Returns NULL, or
 * the reason why the new domains are refused. Takes `domains`. */
static char *
take_domains(struct operator_domains *own, struct operator_domains *domains,
    const struct config_rules *rules, bool *changed)
{
	for (size_t i = 0; i < domains->count; i++)
		if (domain_table_get(&rules->args->fixed, domains->items[i]) != NULL) {
			char *why = xasprintf("\"%s\": the command line after -- already has its "
					      "servers: remove one of the two",
			    domains->items[i]);

			operator_domains_free(domains);
			return why;
		}
	*changed = !operator_domains_equal(own, domains);
	operator_domains_free(own);
	*own = *domains;
	return NULL;
}

static char *
apply_hosts(void *arg, struct conf_content *content)
{
	struct target *to = arg;
	char zone[CONF_HOST_MAX];
	struct operator_domains domains =
	    operator_domains_of_hosts(content->value, cluster_zone(to->rules, zone));

	return take_domains(&to->config->hosts, &domains, to->rules, &content->changed);
}

/* Like take_domains, for two lists: names, and zones or suffixes. Replaces `below` with
 * `domains_below`. Frees `domains_below` on failure. */
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
apply_records(void *arg, struct conf_content *content)
{
	struct target *to = arg;
	struct config *config = to->config;
	char zone[CONF_HOST_MAX];
	struct operator_domains zones, domains = operator_domains_of_records(
					   content->value, cluster_zone(to->rules, zone), &zones);

	return take_both(
	    &config->records, &config->zones, &domains, &zones, to->rules, &content->changed);
}

static char *
apply_rewrites(void *arg, struct conf_content *content)
{
	struct target *to = arg;
	struct config *config = to->config;
	char zone[CONF_HOST_MAX];
	size_t patterns;
	struct operator_domains suffixes, domains = operator_domains_of_rewrites(content->value,
					      cluster_zone(to->rules, zone), &suffixes, &patterns);

	if (patterns > 0 && patterns != config->patterns && config->kubedns != NULL)
		log_warnx(
		    "rewrites: %zu patterns apply only to names that dnsmasq sends to kubedns: "
		    "cluster names, and names below an exact name or suffix",
		    patterns);
	config->patterns = patterns;
	return take_both(&config->rewrites, &config->suffixes, &domains, &suffixes, to->rules,
	    &content->changed);
}

bool
config_apply(struct config *config, const struct confdir_set *set, const struct config_rules *rules)
{
	static conf_key_apply *const apply[CONF_KEYS] = { [CONF_KEY_STUBS] = apply_stubs,
		[CONF_KEY_UPSTREAMS] = apply_upstreams,
		[CONF_KEY_HOSTS] = apply_hosts,
		[CONF_KEY_RECORDS] = apply_records,
		[CONF_KEY_REWRITES] = apply_rewrites };
	struct target to = { config, rules };
	char domain[CONF_HOST_MAX];
	const char *ignored;
	config->fixed = &rules->args->fixed;
	if (conf_name_parse(rules->domain, domain, &ignored) == 0)
		config->kubedns = domain_table_get(config->fixed, domain);
	config->keys.program = CONF_NANNY;
	config->keys.subject = rules->path;
	config->keys.domain = rules->domain;
	config->keys.apply = apply;
	config->keys.arg = &to;
	return conf_keys_take_set(&config->keys, set);
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

bool
config_closes_all(const struct config *config)
{
	return config->upstreams.closed || config->stubs.closed_all;
}

/* Whether the name is in a stub domain whose names must not be sent in plain text. */
static bool
is_encrypted(const struct conf_stubs *stubs, const char *name)
{
	for (const char *dot; name != NULL; name = dot != NULL ? dot + 1 : NULL) {
		const struct conf_stub *stub = conf_stubs_find(stubs, name);

		if (stub != NULL && conf_stub_encrypts(stub))
			return true;
		dot = strchr(name, '.');
	}
	return false;
}

/* Whether the host name of a stub server is such a name. */
static bool
has_host_to_encrypt(const struct config *config)
{
	bool found = false;
	size_t count;
	const char **hosts = config_hosts(config, &count);

	for (size_t k = 0; k < count && !found; k++)
		found = is_encrypted(&config->stubs, hosts[k]);
	free(hosts);
	return found;
}

bool
config_encrypts_hosts(const struct config *config)
{
	const struct conf_upstreams *upstreams = &config->upstreams;

	return config_closes_all(config) ||
	       (upstreams->count > 0 && upstreams->servers[0].tls_name[0] != '\0') ||
	       has_host_to_encrypt(config);
}

void
config_free(struct config *config)
{
	conf_stubs_free(&config->stubs);
	conf_keys_clear(&config->keys);
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
