/*
 * /top: the clients that send most queries and the names that are queried most.
 * The metrics have ten series of these; one for each client would be as many as there are pods.
 */
#ifndef KUBEDNS_PAGES_TOP_PAGE_H
#define KUBEDNS_PAGES_TOP_PAGE_H

#include "kubedns/cluster/store.h"
#include "lib/http.h"
#include "lib/metrics.h"

struct observers;
struct top_clients;

/* Answers a request, whose parameters are by=CLASS, limit=N and format=json. `counted` is NULL with
 * --recorder=off. */
void top_respond(struct observers *observers, struct top_clients *counted,
    const struct store *store, const struct http_request *request, struct http_response *response);

/* kubedns_top_client_ratio and kubedns_top_name_ratio: the part that the heaviest one has. */
void top_metrics(struct observers *observers, struct top_clients *counted, struct metrics *m);

#endif
