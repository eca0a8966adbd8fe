/*
 * The writer's side of endpoints: treecache_owner(), treecache_slice() and their like, which treecache.h declares.
 * For a set whose slices share very many addresses, it also keeps which slices have which address: what is here.
 */
#ifndef TREECACHE_ENDPOINT_SET_H
#define TREECACHE_ENDPOINT_SET_H

#include "treecache/treecache_internal.h"

struct addr_holders;

/* Which slices of the owner publish its addresses, if that is kept, or NULL. */
struct addr_holders *addr_holders_find(const struct treecache *cache, const struct owner *owner);

/* Keeps it from now on, until the set publishes none. */
struct addr_holders *addr_holders_new(struct treecache *cache, const struct owner *owner);

/* Keeps none any longer, at the end. */
void addr_holders_free_all(struct treecache *cache);

#endif
