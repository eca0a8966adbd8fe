/*
 * Calls c-ares with DNS messages as bytes. Newer versions of c-ares pass parsed messages and mark
 * the older functions as deprecated. Only this file depends on the version.
 */
#ifndef NANNY_SERVERS_CARES_H
#define NANNY_SERVERS_CARES_H

#include <ares.h>
#include <stddef.h>
#include <stdint.h>

/* Opens a channel like ares_init_options(), without the cache of c-ares 1.31 and later: each query is
 * sent. Returns an ares status. */
int cares_init(ares_channel *ares, struct ares_options *options, int mask);

/* Receives the outcome of a query: an ares status and the reply of `len` bytes. The reply is NULL
 * if no reply arrived. It is valid only during the call. */
typedef void cares_callback(void *arg, int status, const uint8_t *reply, size_t len);

/* Queries `name` in class IN. Calls `done` once, possibly before this function returns. */
void cares_query(
    ares_channel ares, const char *name, uint16_t type, cares_callback *done, void *arg);

#endif
