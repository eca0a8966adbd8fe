/*
 * The namespaces of --namespaces and --hosts-namespaces, and whether they exist. With a misspelled
 * one all names in it, or of its ConfigMaps, would be NXDOMAIN while everything seems well, so it is
 * reported: in the log, in readiness and as a metric, with the namespace that was probably meant.
 */
#ifndef KUBEDNS_CONFIG_WANTED_NAMESPACES_H
#define KUBEDNS_CONFIG_WANTED_NAMESPACES_H

#include <stdbool.h>
#include <stddef.h>

#include "kubedns/cluster/object.h"

struct metrics;
struct store;
struct wanted_namespaces;

/* `names` (NULL ends; NULL: all) and `hosts` (NULL ends; NULL: none) are borrowed. Those of `hosts` are
 * looked for only if `names` is NULL: else the store has no other namespaces. Caller frees with
 * wanted_namespaces_free. */
struct wanted_namespaces *wanted_namespaces_new(char *const *names, char *const *hosts);

/* Learns the names of namespaces that exist, for what was probably meant; object NULL: none. */
void wanted_namespaces_event(
    struct wanted_namespaces *wanted, enum event_type type, const struct object *object);

/* Looks each one up in the store, and logs which have come or gone since the last time. */
void wanted_namespaces_check(struct wanted_namespaces *wanted, const struct store *store);

/* A line for each that is missing, or with `names` false their number alone; "" if none is. Caller
 * frees. */
char *wanted_namespaces_notes(const struct wanted_namespaces *wanted, bool names);

void wanted_namespaces_metrics(const struct wanted_namespaces *wanted, struct metrics *m);

void wanted_namespaces_free(struct wanted_namespaces *wanted);

#endif
