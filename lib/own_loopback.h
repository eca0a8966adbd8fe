/*
 * During an update, the old and the new pod in the host's network cannot both use port 253 of
 * 127.0.0.1. Each pod therefore has its own address in 127.0.0.0/8. The address is a hash of the
 * environment variable OWN_LOOPBACK. Its value is the pod's UID, which is the same in all
 * containers of a pod.
 */
#ifndef LIB_OWN_LOOPBACK_H
#define LIB_OWN_LOOPBACK_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/addr.h"

/* Computes the pod's own address, in 127.64.0.0/10. Without the variable, sets 127.0.0.1 and
 * returns false. */
bool own_loopback(struct addr *addr);

/* Whether the address can be the own address of a pod, this pod or another. */
bool own_loopback_is_one(const struct addr *addr);

/*
 * Returns `text` with each word own-loopback replaced by the pod's own address. Parts of longer
 * names (letters, digits, '-', '_', '.') are not replaced. Caller frees.
 */
char *own_loopback_expand(const char *text);

#endif
