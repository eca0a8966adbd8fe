/*
 * Calls c-ares with DNS messages as bytes. Newer versions of c-ares pass parsed messages and mark
 * the older functions as deprecated. Only this file depends on the version.
 */
#ifndef LIB_CARES_H
#define LIB_CARES_H

#include <ares.h>
#include <stddef.h>
#include <stdint.h>

/* Receives the outcome of a query: an ares status and the reply of `len` bytes. The reply is NULL
 * if no reply arrived. It is valid only during the call. */
typedef void cares_callback(void *arg, int status, const uint8_t *reply, size_t len);

/* Sends the query in `wire`. Calls `done` once, possibly before this function returns. */
void cares_send(
    ares_channel ares, const uint8_t *wire, size_t len, cares_callback *done, void *arg);

/* Queries `name` in class IN. Calls `done` once, possibly before this function returns. */
void cares_query(
    ares_channel ares, const char *name, uint16_t type, cares_callback *done, void *arg);

#endif
