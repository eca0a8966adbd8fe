/*
 * --external-zones and --clusterset-domain in the running program: made of the options, fed with
 * events, published beside the cluster's tree, in one tree of whole names. Everything here does nothing
 * for NULL: without both flags there is none.
 */
#ifndef KUBEDNS_CONFIG_EXTERNAL_SETUP_H
#define KUBEDNS_CONFIG_EXTERNAL_SETUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/cluster/object.h"

struct clusterset;
struct external;
struct external_names;
struct metrics;
struct options;
struct store;
struct treecache;

/* NULL without zones. Sets `options->answers.external`, which must not outlive it, and makes
 * `options->external_answers` of the answers. The store outlives it, and has each event first. */
struct external_names *external_names_new(
    struct options *options, const struct store *store, uint64_t seed);

/* As event_sink. */
void external_names_event(struct external_names *names, enum object_kind kind, enum event_type type,
    const struct object *object);

/* Shows readers what has changed, once the zones are synced: a part of them would be denials, and in
 * secondaries. True if anything had. */
bool external_names_publish(struct external_names *names, uint32_t now_s, bool synced);

/* Bytes replaced and not yet freed; and frees them once no reader has them. */
size_t external_names_garbage(const struct external_names *names);
void external_names_reclaim(struct external_names *names);

/* For explanations; NULL for NULL. */
const struct external *external_names_claims(const struct external_names *names);
const struct clusterset *external_names_clusterset(const struct external_names *names);

/* Their tree, for its writer; NULL for NULL. */
struct treecache *external_names_tree(const struct external_names *names);

void external_names_metrics(const struct external_names *names, struct metrics *m);
void external_names_free(struct external_names *names);

#endif
