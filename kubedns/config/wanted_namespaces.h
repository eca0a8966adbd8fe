/*
 * The namespaces of --namespaces and --hosts-namespaces, and whether they exist. If one of these
 * namespaces is misspelled, all names in the intended namespace are NXDOMAIN, while everything
 * seems healthy. A missing namespace is therefore reported in the log, in readiness and as a
 * metric, with the namespace that was probably meant.
 */
#ifndef KUBEDNS_CONFIG_WANTED_NAMESPACES_H
#define KUBEDNS_CONFIG_WANTED_NAMESPACES_H

#include <stdbool.h>
#include <stddef.h>

#include "kubedns/cluster/object.h"

struct metrics;
struct store;
struct wanted_namespaces;

/* `names` (NULL-terminated; NULL: all) and `hosts` (NULL-terminated; NULL: none) must outlive the
 * result. The namespaces of `hosts` are checked only if `names` is NULL, because otherwise the
 * store has no other namespaces. Free with wanted_namespaces_free(). */
struct wanted_namespaces *wanted_namespaces_new(char *const *names, char *const *hosts);

/* Remembers existing namespaces whose names resemble a wanted namespace. `object` may be NULL. */
void wanted_namespaces_event(
    struct wanted_namespaces *wanted, enum event_type type, const struct object *object);

/* Looks up each wanted namespace in the store, and logs the changes since the last call. */
void wanted_namespaces_check(struct wanted_namespaces *wanted, const struct store *store);

/* Returns one line for each missing namespace or, if `names` is false, only their number. Returns
 * "" if no namespace is missing. The caller frees the text. */
char *wanted_namespaces_notes(const struct wanted_namespaces *wanted, bool names);

void wanted_namespaces_metrics(const struct wanted_namespaces *wanted, struct metrics *m);

void wanted_namespaces_free(struct wanted_namespaces *wanted);

#endif
