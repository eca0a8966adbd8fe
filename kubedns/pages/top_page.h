/*
 * The page /top lists the clients that send most queries, and the names that are queried most. The
 * metrics have only ten series. A series for each client would mean as many series as there are
 * pods.
 */
#ifndef KUBEDNS_PAGES_TOP_PAGE_H
#define KUBEDNS_PAGES_TOP_PAGE_H

#include "kubedns/cluster/store.h"
#include "lib/http.h"
#include "lib/metrics.h"

struct observers;
struct top_clients;

/* Answers a request with the parameters by=CLASS, limit=N and format=json. `counted` is NULL with
 * --recorder=off. */
void top_respond(struct observers *observers, struct top_clients *counted,
    const struct store *store, const struct http_request *request, struct http_response *response);

/* Writes kubedns_top_client_ratio and kubedns_top_name_ratio: the share of the heaviest client or name. */
void top_metrics(struct observers *observers, struct top_clients *counted, struct metrics *m);

#endif
