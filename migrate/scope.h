/*
 * A server block while its directives are read: the zones that it has, and the files that it may read.
 *
 * A zone is text in lower case, without scheme, port and final dot; "." is the root. CoreDNS hands a
 * query to the block with the longest matching zone, and only to that block: a name outside the zones
 * is not answered by it. The readers of the plugins (plugins.h) use this file; it knows no plugin.
 */
#ifndef MIGRATE_SCOPE_H
#define MIGRATE_SCOPE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/conf.h"
#include "lib/conf_rewrites.h"
#include "migrate/report.h"

/* The zone that `word` of a Corefile names, a network such as 10.1.0.0/16 too. NULL: it is not a name, or
 * a network whose length is not 8, 16 or 24. Caller frees. */
char *zone_parse(const char *word);

/* Whether `zone` is in-addr.arpa, ip6.arpa or below one of them. */
bool zone_is_reverse(const char *zone);

/* A set of zones. A lookup costs O(labels of the name), however many zones there are. */
struct zone_set;

struct zone_set *zone_set_new(void);
void zone_set_free(struct zone_set *set);
void zone_set_add(struct zone_set *set, const char *zone);

/* Whether `zone` itself is in the set. */
bool zone_set_has(const struct zone_set *set, const char *zone);

/* Whether `name` is one of the zones or below one. */
bool zone_set_covers(const struct zone_set *set, const char *name);

/* What all `log` directives of the Corefile want together: kubedns has one flag for all blocks. */
struct log_wish {
	bool any;
	unsigned classes;
	char zone[CONF_HOST_MAX]; /* "": all zones */
};

/* What the blocks of one Corefile share. */
struct plugin_files {
	/* Reads the file `path`, which `from` names. The caller frees name and text. False: no such file. */
	bool (*read)(void *arg, const char *path, const char *from, struct corefile_text *text);
	void *arg;
	bool
	    partial; /* the text is a part of a Corefile: other parts may say what it does not say */
	size_t bytes;    /* read so far, at most COREFILE_IMPORTED_MAX */
	size_t patterns; /* lines of rewrites that are patterns */
	struct log_wish log;
};

struct scope {
	struct report *report;
	struct plugin_files *files;
	const struct corefile_block *block;
	char **zones;
	size_t count;
	struct zone_set *set;       /* the same zones */
	enum rewrite_kind rewrites; /* kind of the block's last rewrite so far */
};

/* The zones that the words of `line` from `at` on name, or the block's zones if there are no such words.
 * Caller frees with zone_set_free. */
struct zone_set *scope_zones(
    const struct scope *scope, const struct corefile_line *line, size_t at);

/* Copies `word` to `name` in lower case and without its final dot. False, and the reason in `why`, if the
 * ConfigMap cannot have the name, or if the block or `zones` do not cover it. */
bool scope_name(const struct scope *scope, const struct zone_set *zones, const char *word,
    char name[CONF_HOST_MAX], const char **why);

/* Reads the file `path` that `line` names. The caller frees name and text. False: no such file. */
bool scope_file(struct scope *scope, const struct corefile_line *line, const char *path,
    struct corefile_text *text);

#endif
