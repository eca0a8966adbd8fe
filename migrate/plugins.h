/*
 * What each of CoreDNS's plugins becomes here. plugins.c has the table of those of its default
 * build; plugin_*.c read the ones for which the verdict depends on their arguments.
 */
#ifndef MIGRATE_PLUGINS_H
#define MIGRATE_PLUGINS_H

#include "migrate/report.h"

/* A server block while its directives are read: its zones in lower case, "." for the root, without
 * scheme, port and final dot. */
struct scope {
	struct report *report;
	char **zones;
	size_t count;
};

/* The verdicts on all of a Corefile. */
void plugins_read(struct report *report, const struct corefile *corefile);

/* Each a reader of one plugin's directive (plugin_forward.c and so on). */
void plugin_forward(struct scope *scope, const struct corefile_directive *d);
void plugin_kubernetes(struct scope *scope, const struct corefile_directive *d);
void plugin_hosts(struct scope *scope, const struct corefile_directive *d);
void plugin_rewrite(struct scope *scope, const struct corefile_directive *d);
void plugin_template(struct scope *scope, const struct corefile_directive *d);
void plugin_external(struct scope *scope, const struct corefile_directive *d);
void plugin_cache(struct scope *scope, const struct corefile_directive *d);
void plugin_transfer(struct scope *scope, const struct corefile_directive *d);
void plugin_tsig(struct scope *scope, const struct corefile_directive *d);

/* `... ADDRESS...`, the line's words from the `at`-th on. */
void plugin_transfer_to(struct scope *scope, const struct corefile_line *line, size_t at);

/* Whether `zone` is the cluster's domain or below it. */
bool plugins_in_cluster(const struct report *report, const char *zone);

/* Whether `zone` is one of reverse names. */
bool plugins_reverse(const char *zone);

/* `word` as scope.zones has them; NULL when it is a network that ends within a byte or no name.
 * Caller frees. */
char *plugins_zone(const char *word);

/* An option of a plugin's block, and the verdict on it. */
struct plugin_option {
	const char *name;
	enum verdict verdict;
	const char *sentence;
};

/* Reports `line` by the option that it begins with; false when there is none of that name. */
bool plugins_option(struct report *report, const struct corefile_line *line,
    const struct plugin_option *options, size_t count);

#define PLUGIN_KEEP_COREDNS                                                                        \
	"keep a small CoreDNS with these lines for their names, and make its address their stub "  \
	"domain"

#endif
