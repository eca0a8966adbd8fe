/*
 * The settings that can change while kubedns runs: upstream servers, federations, hosts, records,
 * rewrites and filters.
 *
 *	ConfigMap (directory or API) | flags | resolv.conf  -->  upstream servers -> workers
 *	                                                    '->  answer_context   -> the tree
 *
 * Keys are independent: a bad one keeps its last good value and is reported once per content; a
 * deleted one returns to its default.
 */
#ifndef KUBEDNS_CONFIG_SETTINGS_H
#define KUBEDNS_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/config/options.h"
#include "lib/addr.h"

struct hosts_maps;
struct metrics;
struct object;
struct settings;
struct treecache;

/* The options must outlive the settings. */
struct settings *settings_new(const struct options *options);

/* Descriptors to poll for input: the configuration's directory and resolv.conf's; -1 where there is
 * none. */
int settings_fd(const struct settings *settings);
int settings_resolv_fd(const struct settings *settings);

/* Reads what has changed (`force`: the period has passed). True if anything in
 * force has changed; own names change for readers with settings_settle(). */
bool settings_poll(struct settings *settings, bool force);

/* All of --config-map has been listed: one that is not there is logged. */
void settings_config_map_listed(struct settings *s);

/* The ConfigMap as the API has it now; NULL: deleted. True as above. */
bool settings_config_map(struct settings *settings, const struct object *config_map);

/* Where this cluster is, for federations. True as above. */
bool settings_location(struct settings *settings, const char *zone, const char *region);

/*
 * Whether the cluster has addresses of either family, for --filter-a and --filter-aaaa; this
 * server's own (--ns-addresses) count too. True as above.
 */
bool settings_families(struct settings *settings, bool v4, bool v6);

/* Sets since when the API server has not answered (monotonic; 0: it does). True if that changes
 * settings_context(): answers are marked stale from now on, or no longer. */
bool settings_failing(struct settings *settings, int64_t since_ms, int64_t now_ms);

/* Puts the operator's own names and those of `maps` (NULL: none) into one block again if any of them has
 * changed; true if so. Before settings_context(). */
bool settings_settle(struct settings *s, struct hosts_maps *maps, int64_t now_ms);

/* How often the configuration or resolv.conf was read with a content that was not the last one's,
 * whether or not that changes anything here: dnsmasq reads them too. */
uint64_t settings_reads(const struct settings *settings);

/* The upstream servers in force, in the order to ask; CONF_UPSTREAMS_MAX at most. */
const struct server *settings_upstreams(const struct settings *settings, size_t *count);

bool settings_has_federations(const struct settings *settings);

/* A new answer_context of what is in force; the caller gives it to the tree. */
struct answer_context *settings_context(const struct settings *settings);

/* Keys whose present content is refused: for --check and the log. */
unsigned settings_mistakes(const struct settings *settings);

void settings_metrics(const struct settings *settings, struct metrics *m);
void settings_free(struct settings *settings);

#endif
