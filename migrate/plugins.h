/*
 * Translates each of CoreDNS's plugins.
 *
 *	plugins.c     the table of the plugins, and the walk over a Corefile's blocks
 *	plugin_*.c    a reader for each plugin whose verdict depends on its arguments
 *	scope.h       the current block; report.h collects the verdicts
 */
#ifndef MIGRATE_PLUGINS_H
#define MIGRATE_PLUGINS_H

#include "migrate/scope.h"

/* Reports the verdicts on a whole Corefile. */
void plugins_read(
    struct report *report, const struct corefile *corefile, struct plugin_files *files);

/* The readers. Each function reads one directive of its plugin. */
void plugin_autopath(struct scope *scope, const struct corefile_directive *d);
void plugin_cache(struct scope *scope, const struct corefile_directive *d);
void plugin_dns64(struct scope *scope, const struct corefile_directive *d);
void plugin_dnstap(struct scope *scope, const struct corefile_directive *d);
void plugin_external(struct scope *scope, const struct corefile_directive *d);
void plugin_federation(struct scope *scope, const struct corefile_directive *d);
void plugin_file(struct scope *scope, const struct corefile_directive *d);
void plugin_forward(struct scope *scope, const struct corefile_directive *d);
void plugin_hosts(struct scope *scope, const struct corefile_directive *d);
void plugin_kubernetes(struct scope *scope, const struct corefile_directive *d);
void plugin_loadbalance(struct scope *scope, const struct corefile_directive *d);
void plugin_local(struct scope *scope, const struct corefile_directive *d);
void plugin_log(struct scope *scope, const struct corefile_directive *d);
void plugin_nsid(struct scope *scope, const struct corefile_directive *d);
void plugin_rewrite(struct scope *scope, const struct corefile_directive *d);
void plugin_template(struct scope *scope, const struct corefile_directive *d);
void plugin_transfer(struct scope *scope, const struct corefile_directive *d);
void plugin_tsig(struct scope *scope, const struct corefile_directive *d);

/* Whether the key rewrites can contain another line. If the key is full, reports `line`. */
bool plugin_rewrite_has_room(struct scope *scope, const struct corefile_line *line, bool pattern);

/* A reader of a directive looks at all other directives only in a block with at most this many. */
enum { NEIGHBOURS_MAX = 1000 };

/* Whether a rewrite of the block may lead to names in the zones. */
bool plugin_rewrite_leads_to(const struct corefile_block *block, const struct zone_set *zones);

/* Adds a directive `log` of `block` to `wish`, which collects all `log` directives of the Corefile.
 * plugin_log() reports `wish` later. */
void plugin_log_plan(
    struct log_wish *wish, const struct corefile_block *block, const struct corefile_directive *d);

/* Finds the cluster's domain among the zones of a directive `kubernetes`, and sets it in the report. */
void plugin_kubernetes_domain(
    struct report *report, const struct corefile_block *block, const struct corefile_directive *d);

/* Collects all directives `kubernetes` of the blocks that serve. plugin_kubernetes() needs them all,
 * because kubedns has one set of options. Call after the domain is known. Caller frees. */
struct kubernetes_plan *plugin_kubernetes_plan(
    const struct report *report, const struct corefile *corefile, const struct blocks *blocks);
void plugin_kubernetes_plan_free(struct kubernetes_plan *plan);

/* Returns the TTL of the cluster's names, in seconds. */
long plugin_kubernetes_ttl(const struct kubernetes_plan *plan);

/* Returns the TTL that the `cache` of the block makes of this TTL, in seconds. */
long plugin_cache_ttl(const struct corefile_block *block, long ttl);

/* Prepares plugin_forward() for a block, which needs to know all `forward` lines of the block. Caller
 * frees. */
struct forwards *plugin_forward_plan(
    const struct report *report, const struct corefile_block *block);
void plugin_forward_plan_free(struct forwards *forwards);

/* Returns the names that the `forward` lines of the root's block may not send to the external servers: those in `except`, and those of a
 * forward for another zone. Caller frees. */
struct zone_set *plugin_forward_root_others(const struct corefile_block *root);

/* Whether the first `forward .` of the block sends the names to the servers of the node's resolv.conf. */
bool plugin_forward_is_plain(const struct corefile_block *block);

/* Whether some line of the block forwards the whole zone. */
bool plugin_forward_covers(const struct forwards *forwards, const char *zone);

/* Whether a line of the block sends the names of the whole zone to servers, so that it becomes a stub domain. */
bool plugin_forward_has_servers(const struct corefile_block *block, const char *zone);

/* Whether CoreDNS uses no `forward` of the block, because `file` answers all its names. */
bool plugin_forward_is_unused(struct scope *scope);

/* Whether `zone` becomes a stub domain because of a `forward` of this block. */
bool plugin_forward_makes_stub(const struct scope *scope, const char *zone);

/* Adds the names of a template to scope->templates. Call for all templates of the block first. */
void plugin_template_plan(struct scope *scope, const struct corefile_directive *d);

/* Adds the names below which the template of the block answers all names, with the line as value. */
void plugin_template_plan_wildcards(struct zone_set *set, const struct blocks *blocks,
    const struct corefile_block *block, const struct corefile_directive *d);

/* The same for the zones in which the template denies all names. */
void plugin_template_plan_denied(struct zone_set *set, const struct blocks *blocks,
    const struct corefile_block *block, const struct corefile_directive *d);

/* Whether `fallthrough` passes on all names of the zones in the directive's words from word `at` on. `fallthrough ZONE...` passes
 * on only the names of its zones. */
bool plugin_falls_through(const struct scope *scope, const struct corefile_directive *d, size_t at);

/* Whether the block has a `forward` or an `except` for a zone below `name`. Copies the zone to `below`. Looks at a limited number of words. */
bool plugin_forward_has_below(
    const struct corefile_block *block, const char *name, char below[CONF_HOST_MAX]);

/* Whether the directive `forward` has a server for which the new configuration uses TLS. */
bool plugin_forward_uses_tls(const struct corefile_directive *d);

/* Whether a line of the plugin hosts or rewrite, or a template for one name, has a name in the domain. Looks at a limited number of words, and
 * returns true if the block has more. */
bool plugin_has_names_in(const struct corefile_block *block, const char *domain);

/* Whether unbound accepts the prefix of the directive `dns64`. */
bool plugin_dns64_is_possible(const struct corefile_directive *d);

/* Reads the words of `line` from word `at` on. The words are addresses that may transfer the zones.
 * Used for the plugin `transfer`, and for the older option `transfer` of `kubernetes`. */
void plugin_transfer_to(struct scope *scope, const struct corefile_line *line, size_t at);

#endif
