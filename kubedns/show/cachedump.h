/*
 * /cache: the tree as the JSON that kube-dns showed, streamed:
 * objects with `ChildNodes` and `Entries`, tab-indented.
 */
#ifndef KUBEDNS_SHOW_CACHEDUMP_H
#define KUBEDNS_SHOW_CACHEDUMP_H

#include "kubedns/answer/answer.h"
#include "lib/http.h"
#include "treecache/treecache.h"

/*
 * Makes `response` a stream of the tree, or of what is at and below `name` (text; NULL:
 * everything). What is shown of each namespace is one moment's; between namespaces the cluster may
 * move on. 0, or -ENOENT when the name is not in the tree.
 */
int cachedump_begin(struct http_response *response, const struct answer_config *config,
    const struct treecache *cache, const char *name);

#endif
