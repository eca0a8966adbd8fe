/*
 * The ConfigMaps labelled kubedns/hosts=true in the namespaces of --hosts-namespaces: names that users
 * who may write there give by the key hosts, beside those of the operator.
 *
 *	event --> struct hosts_map (good or bad by itself) --> blocks --> own_names_merge() --> judge
 *
 * They get no name of the cluster's, of its reverse and external zones, or in a zone of the key records,
 * and none that the keys hosts or records have. A namespace with suffixes gets no name outside of them;
 * one without gets no name in a stub domain. Their addresses get no PTR: a user who may write a ConfigMap
 * need not own the address.
 *
 * Of several ConfigMaps that claim a name
 *
 *	1. one of the namespace that has the name already keeps it: nobody takes it by a later change
 *	2. else the first namespace in the order of the flag gets it, as after a restart
 *	3. within a namespace, the oldest ConfigMap
 *
 * The bounds below are divided by the number of namespaces, so that none can use up another's part.
 * Everything here does nothing for NULL: without the flag there is none.
 */
#ifndef KUBEDNS_CONFIG_HOSTS_MAPS_H
#define KUBEDNS_CONFIG_HOSTS_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/answer/own_names.h"
#include "kubedns/cluster/object.h"

struct answer_config;
struct hosts_maps;
struct metrics;

enum {
	HOSTS_NAMESPACES_MAX = 8,
	HOSTS_MAPS_MAX = 100, /* ConfigMaps of all namespaces that are known; of each the oldest */
	HOSTS_MAP_NAMES_MAX = 1000,      /* pairs of a name and an address in each */
	HOSTS_MAP_BYTES_MAX = 64 * 1024, /* of the key */
	HOSTS_MAPS_NAMES_MAX = 10000, /* names of all namespaces; of each the oldest ConfigMaps' */
	HOSTS_MAPS_PERIOD_MS = 1000,  /* changes are taken together so often */
};

/* One namespace of the flag. */
struct hosts_namespace {
	char *name;
	struct dname *suffixes; /* lower case: its names are these or below; none: any name */
	size_t suffix_count;
};

/* `answers` and `namespaces` (in the order of the flag) are borrowed; the former must be whole when the
 * first event comes. */
struct hosts_maps *hosts_maps_new(
    const struct answer_config *answers, const struct hosts_namespace *namespaces, size_t count);

/* As hosts_sink (api/api_source.h). */
void hosts_maps_event(struct hosts_maps *maps, const char *namespace, enum event_type type,
    const struct object *object);

/* Milliseconds until changes are to be taken, 0: now, -1: there are none. */
int64_t hosts_maps_wait_ms(const struct hosts_maps *maps, int64_t now_ms);

/* What the names are judged by; borrowed until hosts_maps_judge(). */
struct hosts_maps_round {
	int64_t now_ms;
	const struct own_names *before; /* what is in force until now; NULL: nothing */
	size_t first;                   /* the source number of the first block, as before */
	const uint8_t
	    *stubs; /* names of stub domains in wire form, lower case, one after the other */
	size_t stubs_len;
};

/* Takes the changes: writes the blocks, and the texts of their sources, into these arrays of
 * HOSTS_MAPS_MAX (NULL: its names are left out); returns how many. Good until the next event. */
size_t hosts_maps_take(struct hosts_maps *maps, const struct hosts_maps_round *round,
    const struct own_names **blocks, const char **sources);

/* The own_judge of these blocks; `arg` is the struct hosts_maps. */
enum own_claim hosts_maps_claim(void *arg, size_t source, const struct own_name *name);

/* Ends the round: counts the names of each ConfigMap that are not in force, and logs what is new. `in_force`
 * NULL: there are no names. */
void hosts_maps_judge(struct hosts_maps *maps, const struct own_names *in_force);

void hosts_maps_metrics(const struct hosts_maps *maps, struct metrics *m);
void hosts_maps_free(struct hosts_maps *maps);

#endif
