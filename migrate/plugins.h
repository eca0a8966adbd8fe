/*
 * What each of CoreDNS's plugins becomes here. plugins.c has the table of those of its default
 * build; plugin_*.c read the ones for which the verdict depends on their arguments.
 */
#ifndef MIGRATE_PLUGINS_H
#define MIGRATE_PLUGINS_H

#include "lib/conf.h"
#include "lib/conf_rewrites.h"
#include "migrate/report.h"
#include "migrate/zone_set.h"

/* What all of the Corefile's `log` want together: kubedns has one flag for all blocks. */
struct log_wish {
	bool any;
	unsigned classes;
	char zone[CONF_HOST_MAX]; /* "": all zones */
};

/* Adds a `log` of `block`. */
void plugin_log_plan(
    struct log_wish *wish, const struct corefile_block *block, const struct corefile_directive *d);

/* What the plugins share while a Corefile is read. */
struct plugin_files {
	/* The file `path`, named at `from`; the caller frees name and text. False: it is not here. */
	bool (*read)(void *arg, const char *path, const char *from, struct corefile_text *text);
	void *arg;
	bool
	    partial; /* the Corefile is a part of one: what it does not say may be said elsewhere */
	size_t bytes;    /* read so far, at most COREFILE_IMPORTED_MAX */
	size_t patterns; /* lines of rewrites that are patterns */
	struct log_wish log;
};

/* A server block while its directives are read: its zones in lower case, "." for the root, without
 * scheme, port and final dot. CoreDNS hands a query to the block with the longest zone, and only to
 * that: a name outside the zones is not the block's. */
struct scope {
	struct report *report;
	struct plugin_files *files;
	const struct corefile_block *block;
	char **zones;
	size_t count;
	struct zone_set *set;       /* the same zones */
	enum rewrite_kind rewrites; /* the last kind that a rewrite here had, in their order */
};

/* The verdicts on all of a Corefile. */
void plugins_read(
    struct report *report, const struct corefile *corefile, struct plugin_files *files);

/* The block's directive of that name, or NULL. */
const struct corefile_directive *plugins_find(const struct corefile_block *block, const char *name);

/* The file `path` that `line` names; the caller frees name and text. False: it is not here. */
bool plugins_file(struct scope *scope, const struct corefile_line *line, const char *path,
    struct corefile_text *text);

/* `name` in lower case and without its final dot, if the block and `zones` have it and it can be in the
 * ConfigMap; `why` says why not. */
bool plugins_name(const struct scope *scope, const struct zone_set *zones, const char *word,
    char name[CONF_HOST_MAX], const char **why);

/* The zones that the words of `line` from `at` on name, those of the block if there are none. Caller
 * frees with zone_set_free. */
struct zone_set *plugins_zones(
    const struct scope *scope, const struct corefile_line *line, size_t at);

/* Each a reader of one plugin's directive (plugin_forward.c and so on). */
void plugin_forward(struct scope *scope, const struct corefile_directive *d);
void plugin_kubernetes(struct scope *scope, const struct corefile_directive *d);
void plugin_file(struct scope *scope, const struct corefile_directive *d);
void plugin_hosts(struct scope *scope, const struct corefile_directive *d);
void plugin_rewrite(struct scope *scope, const struct corefile_directive *d);
void plugin_template(struct scope *scope, const struct corefile_directive *d);
void plugin_external(struct scope *scope, const struct corefile_directive *d);
void plugin_log(struct scope *scope, const struct corefile_directive *d);
void plugin_dnstap(struct scope *scope, const struct corefile_directive *d);
void plugin_federation(struct scope *scope, const struct corefile_directive *d);
void plugin_autopath(struct scope *scope, const struct corefile_directive *d);
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
