/*
 * The settings that can change while kubedns runs: upstream servers, federations, hosts, records,
 * rewrites and filters.
 *
 *	ConfigMap (directory or API) | flags | resolv.conf  -->  upstream servers -> workers
 *	                                                    '->  answer_context   -> the tree
 *
 * Keys are independent. An invalid key keeps its last valid value and is reported once per content.
 * A deleted key returns to its default.
 */
#ifndef KUBEDNS_CONFIG_SETTINGS_H
#define KUBEDNS_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/config/options.h"
#include "lib/addr.h"
#include "lib/conf_keys.h"

struct hosts_maps;
struct metrics;
struct object;
struct settings;
struct treecache;

/* The options must outlive the settings. */
struct settings *settings_new(const struct options *options);

/* Return the descriptors to poll for input, for the configuration directory and for resolv.conf. A
 * descriptor is -1 if there is none. */
int settings_fd(const struct settings *settings);
int settings_resolv_fd(const struct settings *settings);

/* Reads changes. `force` means that the period has passed. Returns true if an active setting has
 * changed. settings_settle() then makes changed local names visible to readers. */
bool settings_poll(struct settings *settings, bool force);

/* Called after the ConfigMaps of --config-map have been listed. Logs a warning if the ConfigMap is missing.
 * Until this call, or until settings_config_map(), kubedns queries no upstream server, because the
 * ConfigMap may ask for TLS. Returns true if an active setting has changed. */
bool settings_config_map_listed(struct settings *s);

/* Takes the ConfigMap's current state from the API; NULL: deleted. Returns true if an active
 * setting has changed. */
bool settings_config_map(struct settings *settings, const struct object *config_map);

/* Sets the location of this cluster, for federations. Returns true if an active setting has changed. */
bool settings_location(struct settings *settings, const char *zone, const char *region);

/*
 * Sets whether the cluster has addresses of each family, for --filter-a and --filter-aaaa. This
 * server's own addresses (--ns-addresses) count too. Returns true if an active setting has changed.
 */
bool settings_families(struct settings *settings, bool v4, bool v6);

/* Stores the monotonic time since which the API server has not responded, or 0 if it responds. Returns
 * true if settings_context() changes: answers are marked as stale from now on, or no longer marked. */
bool settings_failing(struct settings *settings, int64_t since_ms, int64_t now_ms);

/*
 * Rebuilds the block of local names, from the operator's names and the names of `maps` (may be
 * NULL). Returns whether any of these names has changed. If not, the block stays as it is. Call
 * it before settings_context().
 */
bool settings_settle(struct settings *s, struct hosts_maps *maps, int64_t now_ms);

/* Returns the number of times that the configuration or resolv.conf had new content. Changes that do
 * not affect kubedns count too, because dnsmasq reads the same files. */
uint64_t settings_reads(const struct settings *settings);

/* Returns the active upstream servers, in order of preference. There are at most
 * CONF_UPSTREAMS_MAX. */
const struct server *settings_upstreams(const struct settings *settings, size_t *count);

bool settings_has_federations(const struct settings *settings);

/* Returns whether the current content of the key, or an entry of it, is refused. */
bool settings_refuses(const struct settings *settings, enum conf_key_id key);

/* Makes an answer_context of the active settings. The caller passes it to the tree. */
struct answer_context *settings_context(const struct settings *settings);

/* Returns the number of keys whose current content is invalid, for --check and the log. */
unsigned settings_mistakes(const struct settings *settings);

void settings_metrics(const struct settings *settings, struct metrics *m);
void settings_free(struct settings *settings);

#endif
