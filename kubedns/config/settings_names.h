/*
 * The ConfigMap's keys hosts, records and rewrites. Part of the settings.
 */
#ifndef KUBEDNS_CONFIG_SETTINGS_NAMES_H
#define KUBEDNS_CONFIG_SETTINGS_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct answer_context;
struct conf_hosts;
struct conf_records;
struct conf_rewrites;
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

/* Put a key's value in force; true if that changes anything. The first line of hosts or records that
 * is good but has no effect is logged, with `subject` before it. */
bool settings_names_hosts(struct settings_names *names, const struct conf_hosts *hosts,
    uint32_t ttl_s, const char *subject);
bool settings_names_records(struct settings_names *names, const struct conf_records *records,
    const struct options *options, const char *subject);
/* The same; else `why` (caller frees) is set if a pattern cannot be compiled. */
bool settings_names_rewrites(
    struct settings_names *names, const struct conf_rewrites *conf, char **why);

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
