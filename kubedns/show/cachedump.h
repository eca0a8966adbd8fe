/*
 * The page /cache has the tree as JSON in the format of kube-dns: objects with `ChildNodes` and
 * `Entries`, indented by tabs. The page is streamed.
 */
#ifndef KUBEDNS_SHOW_CACHEDUMP_H
#define KUBEDNS_SHOW_CACHEDUMP_H

#include "kubedns/answer/answer.h"
#include "lib/http.h"
#include "treecache/treecache.h"

/*
 * Makes `response` a stream of the names at and below `name` (text). If `name` is NULL, the stream
 * has all names. Each namespace comes from a single snapshot, but the cluster may change between
 * two namespaces. Returns 0, or -ENOENT if the name is not in the tree.
 */
int cachedump_begin(struct http_response *response, const struct answer_config *config,
    const struct treecache *cache, const char *name);

#endif
