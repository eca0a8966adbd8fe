/*
 * Two pods of one kind in the host's network, the old one and the new one of an update, cannot both
 * have port 253 of 127.0.0.1. Each has an address of 127.0.0.0/8 of its own, made of the
 * environment variable OWN_LOOPBACK, which all containers of a pod have alike: the pod's UID.
 */
#ifndef LIB_OWN_LOOPBACK_H
#define LIB_OWN_LOOPBACK_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/addr.h"

/* The pod's own address, one of 127.64.0.0/10; 127.0.0.1 and false without the variable. */
bool own_loopback(struct addr *addr);

/* Whether it is a pod's own, whichever pod's. */
bool own_loopback_is_one(const struct addr *addr);

/*
 * `text` with the word own-loopback replaced by the pod's own address, wherever the word is not part
 * of a longer name (letters, digits, '-', '_', '.'). Caller frees.
 */
char *own_loopback_expand(const char *text);

#endif
