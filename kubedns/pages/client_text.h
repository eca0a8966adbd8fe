/*
 * Which pod a client is, as text for the pages and the query log: looked up when somebody reads, never
 * when a query is answered.
 */
#ifndef KUBEDNS_PAGES_CLIENT_TEXT_H
#define KUBEDNS_PAGES_CLIENT_TEXT_H

#include <stdbool.h>

#include "lib/addr.h"

struct store;

enum { CLIENT_TEXT_MAX = 704 }; /* a namespace, a pod and a node */

/*
 * ` pod prod/web-1 on node-a`, without ` on ...` where the node is unknown, ` namespace prod` where
 * the pod's name is; or as members of a JSON object, each after a comma. "" if no pod is known to have
 * the address.
 */
void client_text(
    const struct store *store, const struct addr *addr, bool json, char text[CLIENT_TEXT_MAX]);

#endif
