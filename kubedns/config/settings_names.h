/* The ConfigMap's keys `hosts`, `records` and `rewrites`, and the names in its key `stubDomains`.
 * Part of the settings. */
#ifndef KUBEDNS_CONFIG_SETTINGS_NAMES_H
#define KUBEDNS_CONFIG_SETTINGS_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct answer_context;
struct conf_hosts;
struct conf_records;
struct conf_rewrites;
struct conf_stubs;
struct hosts_maps;
struct metrics;
struct options;

/* The active names. If all pointers are NULL, there are none. */
struct settings_names {
	struct local_names *hosts, *records; /* from each key */
	struct local_names *in_force;        /* the names of all sources together, after
					      * settings_names_settle() */
	uint64_t passed_hash; /* hash of the skipped lines of the key `hosts`, as last logged */
	uint64_t stubs_hash;  /* hash of the stub domains at the last settings_names_settle() */
	bool stale;           /* a key has changed since then */
	struct rewrites *rewrites;
	/*
	 * Rewrites that were replaced in the current period (`retired`) or before it (`expired`). A
	 * context without them is published in the same iteration, so no reader uses expired
	 * rewrites.
	 */
	struct rewrites *retired, *expired;
	uint64_t seed; /* seed of the hashes */
};

/*
 * The names of the ConfigMap's stub domains. dnsmasq or unbound queries their servers, and the nanny
 * validates the key. kubedns uses the names for explanations, and never sends a query for an encrypted
 * name itself.
 */
struct stub_names {
	uint8_t *wires; /* names in wire format, one after the other; from malloc(), or NULL */
	size_t len;
	uint32_t *order; /* the offsets of the names in `wires`, in the order of strcmp() */
	size_t count;
	size_t encrypted_len; /* the first bytes of `wires`: domains that have tls:// servers or are
			       * closed */
	size_t closed_len;    /* the first bytes of `wires`: closed domains */
	bool closed_all;      /* as in struct conf_stubs */
	struct stub_refusal *refusals; /* of each closed domain, in the order of `wires` */
	size_t closed_count;
	char *texts; /* the sentences of `refusals`; each ends with NUL */
	size_t texts_len;
	char *empty; /* describes a domain that has no server; NULL: each domain has a server */
};

void settings_names_init(struct settings_names *names);

/* Activate the value of a key. Return true if a name changes. They log the first valid line of the
 * key `hosts` or `records` that has no effect, with `subject` before it. */
bool settings_names_hosts(struct settings_names *names, const struct conf_hosts *hosts,
    uint32_t ttl_s, const char *subject);
bool settings_names_records(struct settings_names *names, const struct conf_records *records,
    const struct options *options, const char *subject);
/* Activates the value of the key `rewrites`. If a pattern cannot be compiled, sets `why` (the
 * caller frees it). */
bool settings_names_rewrites(
    struct settings_names *names, const struct conf_rewrites *conf, char **why);

/*
 * Activates all changes. Builds the local names of all sources again. Returns true if there were
 * changes. `stubs` are the names of stub domains in wire format, one after the other. Queries for
 * these names still go to the stub domains' servers, even inside zones of the key `records`.
 */
bool settings_names_settle(struct settings_names *names, const uint8_t *stubs, size_t stubs_len,
    struct hosts_maps *maps, int64_t now_ms);

/* Called when the period has passed. Frees the rewrites that no reader can use any more. */
void settings_names_period(struct settings_names *names);

/* Makes a context of `size` bytes, zeroed except for these names. The caller passes it to the tree. */
struct answer_context *settings_names_context(const struct settings_names *names, size_t size);

void settings_names_metrics(const struct settings_names *names, struct metrics *m);
void settings_names_free(struct settings_names *names);

/* Takes the parsed value of the key stubDomains. `refusal` is the reason for closed
 * domains that have no reason of their own, or NULL. Returns true if the names or the reasons have changed. Free with
 * stub_names_free(). */
bool stub_names_take(struct stub_names *names, const struct conf_stubs *stubs, const char *refusal);
void stub_names_free(struct stub_names *names);

#endif
