/*
 * /cache: the tree as the JSON that kube-dns showed there, streamed: objects with `ChildNodes` and
 * `Entries`, indented by tabs.
 */
#ifndef KUBEDNS_SHOW_CACHEDUMP_H
#define KUBEDNS_SHOW_CACHEDUMP_H

#include "kubedns/answer/answer.h"
#include "lib/http.h"
#include "treecache/treecache.h"

/*
 * Makes `response` a stream of the names at and below `name` (text; NULL: all). Each namespace is
 * from one snapshot; between two namespaces the cluster may change. 0, or -ENOENT when the name is
 * not in the tree.
 */
int cachedump_begin(struct http_response *response, const struct answer_config *config,
    const struct treecache *cache, const char *name);

#endif
