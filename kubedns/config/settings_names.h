/*
 * The ConfigMap's keys hosts, records and rewrites. Part of the settings.
 */
#ifndef KUBEDNS_CONFIG_SETTINGS_NAMES_H
#define KUBEDNS_CONFIG_SETTINGS_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct answer_context;
struct hosts_maps;
struct metrics;
struct options;

/* In force; all NULL: none. */
struct settings_names {
	struct own_names *hosts, *records; /* each key's */
	struct own_names *in_force;        /* all as one, after settings_names_settle() */
	uint64_t passed_hash; /* of the lines of hosts that are passed over, as last logged */
	uint64_t stubs_hash;  /* of the stub domains then */
	bool stale;           /* a key has changed since */
	struct rewrites *rewrites;
	/* Former rewrites: replaced since the last period (`retired`), or before it (`expired`). A
	 * context without them is published in the same turn, so no reader has expired ones. */
	struct rewrites *retired, *expired;
	uint64_t seed; /* of the hashes */
};

void settings_names_init(struct settings_names *names);

/* Apply a key's content (NULL: the key is gone) if it is good, else set `why` (caller frees). True
 * if what is in force has changed. */
bool settings_names_hosts(struct settings_names *names, const char *value, size_t len,
    uint32_t ttl_s, const char *subject, char **why);
/* The same; the first line that is good but has no effect is logged, with `subject` before it. */
bool settings_names_records(struct settings_names *names, const char *value, size_t len,
    const struct options *options, const char *subject, char **why);
bool settings_names_rewrites(
    struct settings_names *names, const char *value, size_t len, char **why);

/* Puts what has changed in force: all sources as one; true if anything had. `stubs`: names of stub
 * domains in wire form, one after the other, which stay with their servers inside zones of one's own. */
bool settings_names_settle(struct settings_names *names, const uint8_t *stubs, size_t stubs_len,
    struct hosts_maps *maps, int64_t now_ms);

/* The period has passed: frees what no reader can have any more. */
void settings_names_period(struct settings_names *names);

/* A new context of `size` bytes, zeroed but for these names. Caller gives it to the tree. */
struct answer_context *settings_names_context(const struct settings_names *names, size_t size);

void settings_names_metrics(const struct settings_names *names, struct metrics *m);
void settings_names_free(struct settings_names *names);

#endif
