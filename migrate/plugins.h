/*
 * What each of CoreDNS's plugins becomes here.
 *
 *	plugins.c     the table of the plugins, and the walk over a Corefile's blocks
 *	plugin_*.c    a reader for each plugin whose verdict depends on its arguments
 *	scope.h       the block that a reader is in; report.h where its verdict goes
 */
#ifndef MIGRATE_PLUGINS_H
#define MIGRATE_PLUGINS_H

#include "migrate/scope.h"

/* Reports the verdicts on all of a Corefile. */
void plugins_read(
    struct report *report, const struct corefile *corefile, struct plugin_files *files);

/* Readers: each takes one directive of its plugin. */
void plugin_autopath(struct scope *scope, const struct corefile_directive *d);
void plugin_cache(struct scope *scope, const struct corefile_directive *d);
void plugin_dnstap(struct scope *scope, const struct corefile_directive *d);
void plugin_external(struct scope *scope, const struct corefile_directive *d);
void plugin_federation(struct scope *scope, const struct corefile_directive *d);
void plugin_file(struct scope *scope, const struct corefile_directive *d);
void plugin_forward(struct scope *scope, const struct corefile_directive *d);
void plugin_hosts(struct scope *scope, const struct corefile_directive *d);
void plugin_kubernetes(struct scope *scope, const struct corefile_directive *d);
void plugin_log(struct scope *scope, const struct corefile_directive *d);
void plugin_rewrite(struct scope *scope, const struct corefile_directive *d);
void plugin_template(struct scope *scope, const struct corefile_directive *d);
void plugin_transfer(struct scope *scope, const struct corefile_directive *d);
void plugin_tsig(struct scope *scope, const struct corefile_directive *d);

/* Adds a directive `log` of `block` to what the whole Corefile wants; plugin_log() then reports it. */
void plugin_log_plan(
    struct log_wish *wish, const struct corefile_block *block, const struct corefile_directive *d);

/* Reads the words of `line` from `at` on as addresses that may transfer the zones: of `transfer`, and of
 * the older option of `kubernetes`. */
void plugin_transfer_to(struct scope *scope, const struct corefile_line *line, size_t at);

#endif
