/*
 * Which host names an object claims, and why a name is refused. A route claims the names that match
 * both its own host names and those of a listener of its Gateway or ListenerSet. external_hosts.h decides which
 * claim gets a name.
 */
#ifndef KUBEDNS_CLUSTER_EXTERNAL_HOST_CLAIMS_H
#define KUBEDNS_CLUSTER_EXTERNAL_HOST_CLAIMS_H

#include "kubedns/cluster/external/external_hosts.h"

struct object_key {
	enum object_kind kind;
	const char *namespace, *name;
};

uint32_t object_key_hash(const struct external *external, const struct object_key *key);

/* Returns the object of this kind, or NULL. */
struct external_object *external_object_find(const struct external *external, enum object_kind kind,
    const char *namespace, const char *name);

/* Returns the index of the longest of our zones that contains the name, or -1. */
int claims_zone(const struct external *external, const uint8_t *wire);

/* Recomputes the claims of the object. If `any` is false, the object then has no claims. */
void claims_renew(struct external *external, struct external_object *object, bool any);

/* Removes all claims of the object and frees their list. */
void claims_drop(struct external *external, struct external_object *object);

#endif
