/*
 * The writer's side of endpoints: the functions of treecache.h from treecache_owner() to
 * treecache_slice_at(). For a set whose slices share very many addresses, it also stores which
 * slices publish each address; this header declares that part.
 */
#ifndef TREECACHE_ENDPOINT_SET_H
#define TREECACHE_ENDPOINT_SET_H

#include "treecache/treecache_internal.h"

struct addr_holders;

/* Returns the record of the slices that publish each address of the owner. Returns NULL if this
 * owner has no such record. */
struct addr_holders *addr_holders_find(const struct treecache *cache, const struct owner *owner);

/* Starts such a record. The record is kept until the set publishes no address. */
struct addr_holders *addr_holders_new(struct treecache *cache, const struct owner *owner);

/* Frees all records, at the end of the cache. */
void addr_holders_free_all(struct treecache *cache);

#endif
