/*
 * The ConfigMaps with the label kubedns/hosts=true in the namespaces of --hosts-namespaces. Users
 * who can write there define names in the ConfigMap key `hosts`, in addition to the operator's
 * names.
 *
 *	event --> struct hosts_map (good or bad by itself) --> blocks --> local_names_merge() --> judge
 *
 * These users cannot define names in the cluster's zone, in its reverse and external zones, or in a
 * zone of the operator's key `records`. They also cannot define a name that the operator's keys
 * `hosts` or `records` have. A namespace with suffixes can define only names in its suffixes. A
 * namespace without suffixes cannot define names in a stub domain. The addresses get no PTR
 * records, because a user who can write a ConfigMap need not own the address.
 *
 * If several ConfigMaps claim a name
 *
 *	1. the namespace that has the name already keeps it, so no later change can take it
 *	2. otherwise the first namespace in the order of the flag gets it, as after a restart
 *	3. within a namespace, the oldest ConfigMap
 *
 * The limits below are divided by the number of namespaces, so no namespace can use up the share of
 * another. All functions accept NULL, which means that the flag is not set, and then do nothing.
 */
#ifndef KUBEDNS_CONFIG_HOSTS_MAPS_H
#define KUBEDNS_CONFIG_HOSTS_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/answer/local_names.h"
#include "kubedns/cluster/object.h"

struct answer_config;
struct hosts_maps;
struct metrics;

enum {
	HOSTS_NAMESPACES_MAX = 8,
	/* ConfigMaps of all namespaces; if a namespace has too many, its oldest ConfigMaps. */
	HOSTS_MAPS_MAX = 100,
	HOSTS_MAP_NAMES_MAX = 1000,      /* pairs of a name and an address in each ConfigMap */
	HOSTS_MAP_BYTES_MAX = 64 * 1024, /* bytes of the key */
	/* Names of all namespaces; if a namespace has too many, the names of its oldest
	 * ConfigMaps. */
	HOSTS_MAPS_NAMES_MAX = 10000,
	HOSTS_MAPS_PERIOD_MS = 1000, /* interval at which changes are applied together */
};

/* A namespace of the flag. */
struct hosts_namespace {
	char *name;
	struct dname *suffixes; /* lower case; its names must be in these domains; if there are
				 * none, any name is allowed */
	size_t suffix_count;
};

/* `answers` and `namespaces` (in the order of the flag) must outlive the result. `answers` must be
 * complete when the first event arrives. */
struct hosts_maps *hosts_maps_new(
    const struct answer_config *answers, const struct hosts_namespace *namespaces, size_t count);

/* The hosts_sink (api/api_source.h). */
void hosts_maps_event(struct hosts_maps *maps, const char *namespace, enum event_type type,
    const struct object *object);

/* Returns when to apply the changes, or CLOCK_NEVER if there are no changes. */
int64_t hosts_maps_due_ms(const struct hosts_maps *maps);

/* The input for one round, which decides which names are accepted. It must stay valid until
 * hosts_maps_judge(). */
struct hosts_maps_round {
	int64_t now_ms;
	const struct local_names *before; /* the names that are active so far; NULL: there are
					   * none */
	size_t first;                     /* source number of the first block, as before */
	/* Names of stub domains in wire format, lower case, one after the other. */
	const uint8_t *stubs;
	size_t stubs_len;
};

/*
 * Applies the changes. Writes the blocks, and the texts of their sources, into these arrays of
 * HOSTS_MAPS_MAX items. A NULL block means that its names are not used. Returns the number of
 * blocks. The result is valid until the next event.
 */
size_t hosts_maps_take(struct hosts_maps *maps, const struct hosts_maps_round *round,
    const struct local_names **blocks, const char **sources);

/* The own_judge for these blocks. `arg` is the struct hosts_maps. */
enum own_claim hosts_maps_claim(void *arg, size_t source, const struct own_name *name);

/* Ends the round. Counts the names of each ConfigMap that are not active, and logs changes.
 * `in_force` is NULL if there are no names. */
void hosts_maps_judge(struct hosts_maps *maps, const struct local_names *in_force);

void hosts_maps_metrics(const struct hosts_maps *maps, struct metrics *m);
void hosts_maps_free(struct hosts_maps *maps);

#endif
