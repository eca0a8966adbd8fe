/*
 * --external-zones and --clusterset-domain in the running program. The names of both flags are in
 * one tree of absolute names. It is made from the options, receives events, and is published
 * together with the cluster's tree. All functions accept NULL, which means that neither flag is
 * set, and then do nothing.
 */
#ifndef KUBEDNS_CONFIG_EXTERNAL_SETUP_H
#define KUBEDNS_CONFIG_EXTERNAL_SETUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/cluster/object.h"

struct clusterset;
struct external;
struct external_setup;
struct metrics;
struct options;
struct store;
struct treecache;

/*
 * Returns NULL if neither flag is set. Sets the zones in `options->answers`, which must not outlive
 * the result, and makes `options->external.answers` from these answers. The store must outlive the
 * result, and must get each event first.
 */
struct external_setup *external_setup_new(
    struct options *options, const struct store *store, uint64_t seed);

/* The event_sink of both flags. */
void external_setup_event(struct external_setup *setup, enum object_kind kind, enum event_type type,
    const struct object *object);

/* Shows the changes to readers once the zones are synced. Incomplete zones would cause negative
 * answers, also in secondaries. Returns true if there were changes. */
bool external_setup_publish(struct external_setup *setup, uint32_t now_s, bool synced);

/* external_setup_garbage() returns the number of bytes that were replaced and not freed yet. The
 * second function frees them when no reader uses them. */
size_t external_setup_garbage(const struct external_setup *setup);
void external_setup_reclaim(struct external_setup *setup);

/* Returns the claims, for explanations. Returns NULL for NULL. */
const struct external *external_setup_claims(const struct external_setup *setup);
const struct clusterset *external_setup_clusterset(const struct external_setup *setup);

void external_setup_metrics(const struct external_setup *setup, struct metrics *m);
void external_setup_free(struct external_setup *setup);

#endif
