/*
 * The ConfigMaps labelled kubedns/hosts=true in the namespaces of --hosts-namespaces: names that whoever
 * may write there gives by the key hosts, beside those of the operator.
 *
 *	event --> struct hosts_map (good or bad by itself) --> blocks, oldest first --> own_names_merge()
 *
 * They get no name of the cluster's, of its reverse and external zones, or in a zone of the key records,
 * and none that hosts, records or an older ConfigMap has. Their addresses get no PTR: whoever may write a
 * ConfigMap need not own the address. Everything here does nothing for NULL: without the flag there is
 * none.
 */
#ifndef KUBEDNS_HOSTS_MAPS_H
#define KUBEDNS_HOSTS_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/cluster/object.h"

struct answer_config;
struct hosts_maps;
struct metrics;
struct own_names;

enum {
	HOSTS_MAPS_MAX = 100,       /* ConfigMaps that are known, the oldest; more are left out */
	HOSTS_MAP_NAMES_MAX = 1000, /* pairs of a name and an address in each */
	HOSTS_MAP_BYTES_MAX = 64 * 1024, /* of the key */
	HOSTS_MAPS_NAMES_MAX = 10000,    /* names of all, oldest first; more are left out */
	HOSTS_MAPS_PERIOD_MS = 1000,     /* changes are taken together so often */
};

/* `answers` is borrowed, and must be whole when the first event comes. */
struct hosts_maps *hosts_maps_new(const struct answer_config *answers);

/* As hosts_sink (api/api_source.h). */
void hosts_maps_event(struct hosts_maps *maps, const char *namespace, enum event_type type,
    const struct object *object);

/* Milliseconds until changes are to be taken, 0: now, -1: there are none. */
int64_t hosts_maps_wait_ms(const struct hosts_maps *maps, int64_t now_ms);

/* Takes the changes: writes the blocks, and the texts of their sources, into these arrays of
 * HOSTS_MAPS_MAX (NULL: its names are left out); returns how many. Good until the next event. */
size_t hosts_maps_take(
    struct hosts_maps *maps, int64_t now_ms, const struct own_names **blocks, const char **sources);

/* Counts the names of each ConfigMap that are not in force because others have them, and logs what is
 * new. `first`: the source number of the first block. `in_force` NULL: there are no names. */
void hosts_maps_judge(struct hosts_maps *maps, const struct own_names *in_force, size_t first);

void hosts_maps_metrics(const struct hosts_maps *maps, struct metrics *m);
void hosts_maps_free(struct hosts_maps *maps);

#endif
