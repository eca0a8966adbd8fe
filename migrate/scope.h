/*
 * The state of a server block while its directives are read: the block's zones, and the files that
 * its plugins may read.
 *
 * A zone is text in lower case, without scheme, port and final dot; "." is the root. CoreDNS passes
 * a query only to the block with the longest matching zone. A block does not answer names outside
 * its zones. The readers of the plugins (plugins.h) use this file, which does not depend on any
 * plugin.
 */
#ifndef MIGRATE_SCOPE_H
#define MIGRATE_SCOPE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/conf.h"
#include "migrate/blocks.h"
#include "migrate/report.h"

/*
 * Returns the zone that `word` of a Corefile stands for. A network such as 10.1.0.0/16 stands for a
 * reverse zone. Returns NULL if the word is not a name, or is a placeholder, or if the network's
 * length is not a multiple of 8 (IPv6: 4). Caller frees.
 */
char *zone_parse(const char *word);

/* Like zone_parse(), for a network of any length. Such a network stands for up to 128 reverse zones. Returns the
 * zone number `part`, from 0 on, or NULL if there is none. Caller frees. */
char *zone_part(const char *word, size_t part);

/* Whether `word` is a placeholder such as $DNS_DOMAIN, {{ domain }} or __PILLAR__DNS__DOMAIN__, which
 * another program replaces, or a variable that is not set. */
bool zone_is_placeholder(const char *word);

/* Whether all labels of `zone` are those of host names, which kubedns's own zones must have. */
bool zone_is_hosts(const char *zone);

/* Whether `zone` is in-addr.arpa, ip6.arpa, or below one of these two. */
bool zone_is_reverse(const char *zone);

/* A set of zones. A lookup takes O(labels of the name), for any number of zones. */
struct zone_set;

struct zone_set *zone_set_new(void);
void zone_set_free(struct zone_set *set);
void zone_set_add(struct zone_set *set, const char *zone);

/* Adds the zone with a value, which zone_set_find() returns. */
void zone_set_put(struct zone_set *set, const char *zone, size_t value);

/* Finds the longest zone of the set that `name` is or is below. Returns false if there is none. */
bool zone_set_find(const struct zone_set *set, const char *name, size_t *value);

/* Whether `zone` itself is in the set. */
bool zone_set_has(const struct zone_set *set, const char *zone);

/* Returns the end of `name` that is the longest zone of the set, or NULL. Does not find the root. */
const char *zone_set_closest(const struct zone_set *set, const char *name);

/* Whether `name` is one of the zones, or below one of the zones. */
bool zone_set_covers(const struct zone_set *set, const char *name);

/* What all `log` directives of the Corefile ask for together. kubedns has only one flag for all
 * blocks. */
struct log_wish {
	bool any;
	unsigned classes;
	char zone[CONF_HOST_MAX]; /* "" for all zones */
};

/* State that the blocks of one Corefile share. */
struct plugin_files {
	/* Reads the file `path`, to which `from` refers. Caller frees name and text. Returns
	 * false if there is no such file. */
	bool (*read)(void *arg, const char *path, const char *from, struct corefile_text *text);
	void *arg;
	bool custom;     /* the input has ConfigMaps beside that of the Corefile */
	bool partial;    /* the text is only a part of a Corefile, so the other parts are unknown */
	size_t bytes;    /* bytes read so far, at most COREFILE_IMPORTED_MAX */
	size_t patterns; /* number of rewrites with a pattern */
	struct kubernetes_plan *kubernetes; /* all directives `kubernetes` (plugins.h) */
	struct zone_set *root_others;       /* plugin_forward_root_others() */
	/* Names below which a template answers all names, and zones of `file`, of all blocks. The
	 * value is the line of the directive. */
	struct zone_set *wildcards, *zone_files;
	bool root_is_plain; /* external names go to the servers of the node's resolv.conf */
	struct log_wish log;
};

struct scope {
	struct report *report;
	struct plugin_files *files;
	const struct blocks *blocks;
	const struct corefile_block *block;
	char **zones; /* zones of the block for which it is translated */
	size_t count;
	struct zone_set *set; /* the same zones as a set */
	/* names for which the block has a template, and the names above them; the value is the
	 * template's line */
	struct zone_set *templates, *above_templates;
	/* zones in which a template denies all names; the same value */
	struct zone_set *denied;
	struct forwards *forwards; /* the block's `forward` lines (plugins.h) */
};

/* Whether CoreDNS passes queries for `name` to this block: one of the block's zones covers it, and no
 * other block has a longer zone. "." stands for the names outside of all other zones. */
bool scope_serves(const struct scope *scope, const char *name);

/* Whether CoreDNS passes queries for `name`, and for all names below it, to this block. */
bool scope_serves_all(const struct scope *scope, const char *name);

/* Whether this block answers queries for external names, or for the cluster's names. */
bool scope_serves_root(const struct scope *scope);
bool scope_serves_cluster(const struct scope *scope);

/* Returns the zones in the words of `line` from word `at` on. If there are no such words, returns
 * the block's zones. Caller frees with zone_set_free. */
struct zone_set *scope_zones(
    const struct scope *scope, const struct corefile_line *line, size_t at);

/*
 * Copies `word` to `name`, in lower case and without the final dot. Returns false and sets `why` to
 * the reason if the ConfigMap cannot contain the name, if CoreDNS passes its queries to another
 * block, or if `zones` do not cover the name.
 */
bool scope_name(const struct scope *scope, const struct zone_set *zones, const char *word,
    char name[CONF_HOST_MAX], const char **why);

/* The names that get records: the name with all names below it, only the name itself, or only the names below it. */
enum names_kind { NAMES_ALL, NAMES_ITSELF, NAMES_BELOW };

/*
 * The key records has a wildcard for each name of files->wildcards. If names of this kind get records too, the wildcard does not
 * cover the empty names between the two, nor names below these (RFC 4592). In a zone of files->zone_files, the empty
 * names exist. CoreDNS's plugins do not see each other's names. Returns the end of a sentence that says so, or "".
 * Caller frees.
 */
char *scope_uncovered(const struct scope *scope, const char *name, enum names_kind kind);

/* Adds the zones in the words of `line` from word `at` on, or if there are no such words, the block's
 * zones, without the root. The value is the line. Leaves out zones that CoreDNS passes to another block. */
void scope_plan_zones(struct zone_set *set, const struct blocks *blocks,
    const struct corefile_block *block, const struct corefile_line *line, size_t at);

/* Whether there is a file `path`, to which `line` refers. */
bool plugin_files_have(
    struct plugin_files *files, const struct corefile_line *line, const char *path);

/* Reads the file `path`, to which `line` refers. Caller frees name and text. Returns false if
 * there is no such file. */
bool scope_file(struct scope *scope, const struct corefile_line *line, const char *path,
    struct corefile_text *text);

#endif
